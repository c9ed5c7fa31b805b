"""Errors and warnings with a class of their own, so that callers can catch them."""

from __future__ import annotations

__all__ = [
    "FlowWarning",
    "ModelFileError",
    "NormalizerWarning",
    "SamplingWarning",
    "SingularSystemError",
    "TuningWarning",
]


class SingularSystemError(ValueError):
    """The linear system for the coefficients, (H + λR) β = −h, has no trustworthy solution."""


class ModelFileError(ValueError):
    """A file that holds no model, or not a whole one; or a model that no file can hold."""


class NormalizerWarning(UserWarning):
    """The estimate of the normalising constant cannot be relied upon."""


class FlowWarning(UserWarning):
    """The probability flow was not followed as closely as asked for."""


class SamplingWarning(UserWarning):
    """Draws that should not be relied upon as they are."""


class TuningWarning(UserWarning):
    """Tuning ended somewhere other than where it was meant to."""

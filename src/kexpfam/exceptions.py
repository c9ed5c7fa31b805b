"""Errors and warnings with a class of their own, so that callers can catch them."""

from __future__ import annotations

__all__ = [
    "CalibrationWarning",
    "DegenerateTableError",
    "DegenerateTableWarning",
    "FlowWarning",
    "ModelFileError",
    "NormalizerWarning",
    "SamplingWarning",
    "SingularSystemError",
    "TuningWarning",
]


class DegenerateTableError(ValueError):
    """A table without a density: a column is constant, or follows exactly from others."""


class DegenerateTableWarning(UserWarning):
    """A table that hardly has a density, or columns that number the rows instead of measuring."""


class SingularSystemError(ValueError):
    """The linear system for the coefficients, (H + λR) β = −h, has no trustworthy solution."""


class ModelFileError(ValueError):
    """A file that holds no model, or not a whole one; or a model that no file can hold."""


class NormalizerWarning(UserWarning):
    """The estimate of the normalizing constant cannot be relied upon."""


class FlowWarning(UserWarning):
    """The probability flow was not followed as closely as asked for."""


class SamplingWarning(UserWarning):
    """Draws that should not be relied upon as they are."""


class TuningWarning(UserWarning):
    """Tuning ended somewhere other than where it was meant to."""


class CalibrationWarning(UserWarning):
    """A rate or level that so few rows cannot keep."""

"""Errors and warnings with a class of their own, so that callers can catch them."""

from __future__ import annotations

__all__ = ["NormalizerWarning", "SingularSystemError", "TuningWarning"]


class SingularSystemError(ValueError):
    """The linear system (H + λR) β = −h has no trustworthy solution."""


class NormalizerWarning(UserWarning):
    """The estimate of the normalising constant cannot be relied upon."""


class TuningWarning(UserWarning):
    """Tuning ended somewhere other than where it was meant to."""

"""What a normaliser reports."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["NormalizerEstimate"]


class NormalizerEstimate(NamedTuple):
    """log Z, how far to trust it, and in words why not."""

    log_normalizer: float
    error: float
    effective_sample_size: float
    pareto_shape: float
    complaint: str | None = None

"""How reliable a fit is, for all estimators."""

from __future__ import annotations

from typing import Any

from kexpfam.model import Health

__all__ = ["JudgedFit"]


class JudgedFit:
    """`health_`, `gain_`, `gain_error_` and `has_tilt_`, of an estimator's fitted record."""

    fitted_: Any

    @property
    def health_(self) -> Health:
        """How reliable the density is."""
        return self.fitted_.health

    @property
    def gain_(self) -> float:
        """The gain over the base density on held-out rows, in nats per row."""
        return self.health_.comparison.gain

    @property
    def gain_error_(self) -> float:
        """The standard error of `gain_`."""
        return self.health_.comparison.gain_error

    @property
    def has_tilt_(self) -> bool:
        """Whether the model differs from its base density."""
        return self.fitted_.density.has_tilt

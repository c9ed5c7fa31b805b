"""log Z by quadrature, for one and two columns.

Panels of Gauss–Legendre nodes (see `kexpfam.base.nodes`) cover a box that holds the base density's
mass. Every panel is halved, and halved again where its integral still changes:

    error = Σ over panels |integral − sum over its halves|  +  what may lie outside the box,

as a share of Z. Outside the box there is the base density's mass that the panels have not found,
|1 − ∫_box q0|, times the largest exp f at the outermost nodes.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from kexpfam.base.nodes import Panels, panels_on_box
from kexpfam.choices import whole
from kexpfam.model import TiltedDensity
from kexpfam.model.health import NormalizerEstimate

__all__ = ["QuadratureNormalizer"]

# Panels are at first not wider than this many wavelengths over 2π of the tilt's typical frequency.
_WAVES = 4.0
# Nodes that are evaluated in all, at most.
_MOST_NODES = 1_500_000
# Rounding of a sum of this many terms; a base density's mass is known no better.
_ROUNDING = 1e-10
# A panel with less than this share of the tolerance inside counts as empty.
_EMPTY = 1e-3
# exp underflows to zero beyond.
_UNDERFLOW = 745.0


@dataclass(frozen=True)
class QuadratureNormalizer:
    """Quadrature, for one or two columns.

    Panels are halved where the integral still changes, and the change is the error reported.

    Parameters
    ----------
    tolerance : float, default=1e-4
        The error of log Z at which refining ends, in nats.
    first_panels, most_panels : int, default=12, 768
        Panels per column, at first and where they are smallest. There are more at first where the
        tilt is made of high frequencies.

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily, QuadratureNormalizer
    >>> model = KernelExponentialFamily(normalizer=QuadratureNormalizer(tolerance=1e-8))
    """

    tolerance: float = 1e-4
    first_panels: int = 12
    most_panels: int = 768

    def __post_init__(self) -> None:
        if not (isinstance(self.tolerance, numbers.Real) and self.tolerance >= 0):
            raise ValueError(f"tolerance must be a number ≥ 0; got {self.tolerance!r}.")
        whole("first_panels", self.first_panels)
        whole("most_panels", self.most_panels)

    def estimate(
        self, density: TiltedDensity, generator: np.random.Generator
    ) -> NormalizerEstimate:
        """log Z of a density whose own `log_normalizer` is not used."""
        n_columns = len(density.standardizer.center)
        if n_columns > 2:
            raise ValueError(
                f"normalizer='quadrature' works for one or two columns; got {n_columns}. Use "
                "normalizer='importance'."
            )
        low, high = density.base.box()
        counts = self._first_counts(density, high - low)
        panels = panels_on_box(density.base, low, high, counts)
        seen = _Integrand(density, panels)
        settled, open_ = _Sums(0.0, 0.0), seen.first
        error = base_error = 0.0
        n_nodes, width = seen.first.n_nodes, max(counts)
        while True:
            # Of a panel with next to nothing inside, halves can change next to nothing.
            empty = open_.tilted <= _EMPTY * self.tolerance * open_.tilted.sum() / len(open_.tilted)
            settled = settled.plus(open_, empty)
            error += float(open_.tilted[empty].sum())
            open_ = open_.where(~empty)
            halves = seen.integrals(open_.panels.halved())
            n_nodes, width = n_nodes + halves.n_nodes, 2 * width
            changes, base_changes = open_.changes(halves)
            total = settled.tilted + float(halves.tilted.sum())
            good_enough = error + changes.sum() <= self.tolerance * total
            exhausted = 2 * width > self.most_panels or n_nodes > _MOST_NODES
            done = changes <= self.tolerance * total / (2 * len(changes))
            if good_enough or exhausted or not np.isfinite(total):
                done[:] = True
            error += float(changes[done].sum())
            base_error += float(base_changes[done].sum())
            parts = np.repeat(done, 2**n_columns)
            settled = settled.plus(halves, parts)
            if done.all():
                break
            open_ = halves.where(~parts)
        missing = max(abs(1.0 - settled.base) - base_error - _ROUNDING, 0.0)
        error += missing * seen.outermost
        return NormalizerEstimate(
            float(np.log(settled.tilted) + seen.shift),
            float(error / settled.tilted),
            float("nan"),
            float("nan"),
        )

    def _first_counts(self, density: TiltedDensity, widths: Float[np.ndarray, " d"]) -> list[int]:
        """Panels per column that can see the waves which the tilt is made of."""
        counts = np.full(len(widths), self.first_panels)
        frequencies = getattr(density.basis, "frequencies", None)
        if frequencies is not None:
            typical = np.sqrt((np.asarray(frequencies) ** 2).mean(axis=0))
            counts = np.maximum(counts, np.ceil(widths * typical / _WAVES))
        return [int(count) for count in np.minimum(counts, max(1, self.most_panels // 2))]


class _Sums(NamedTuple):
    """Integrals of the tilted and of the base density."""

    tilted: float
    base: float

    def plus(self, more: _Integrals, chosen: Bool[np.ndarray, " p"]) -> _Sums:
        """With those of some panels."""
        return _Sums(
            self.tilted + float(more.tilted[chosen].sum()),
            self.base + float(more.base[chosen].sum()),
        )


class _Integrals(NamedTuple):
    """Integrals over panels."""

    panels: Panels
    tilted: Float[np.ndarray, " p"]
    base: Float[np.ndarray, " p"]
    n_nodes: int

    def where(self, chosen: Bool[np.ndarray, " p"]) -> _Integrals:
        panels = Panels(self.panels.low[chosen], self.panels.high[chosen])
        return _Integrals(panels, self.tilted[chosen], self.base[chosen], 0)

    def changes(
        self, halves: _Integrals
    ) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
        """By how much the halves of each panel differ from the panel."""
        count = len(self.tilted)
        return (
            np.abs(halves.tilted.reshape(count, -1).sum(axis=1) - self.tilted),
            np.abs(halves.base.reshape(count, -1).sum(axis=1) - self.base),
        )


class _Integrand:
    """exp(f − shift) q0, where the shift keeps the largest value of the first panels near one."""

    def __init__(self, density: TiltedDensity, panels: Panels) -> None:
        self._density = density
        tilt, base_logs, log_weights = self._at_nodes(panels)
        values = tilt + base_logs + log_weights
        self.shift = float(values.max())
        self.first = _Integrals(
            panels,
            np.exp(values - self.shift).sum(axis=1),
            np.exp(base_logs + log_weights).sum(axis=1),
            values.size,
        )
        low, high = panels.low.min(axis=0), panels.high.max(axis=0)
        rim = ((panels.low == low) | (panels.high == high)).any(axis=1)
        # The largest exp(f − shift) near the end of the box.
        self.outermost = float(np.exp(np.max(tilt[rim], initial=-np.inf) - self.shift))

    def integrals(self, panels: Panels) -> _Integrals:
        tilt, base_logs, log_weights = self._at_nodes(panels)
        tilted = np.exp(tilt + base_logs + log_weights - self.shift).sum(axis=1)
        base = np.exp(base_logs + log_weights).sum(axis=1)
        return _Integrals(panels, tilted, base, tilt.size)

    def _at_nodes(
        self, panels: Panels
    ) -> tuple[Float[np.ndarray, "p k"], Float[np.ndarray, "p k"], Float[np.ndarray, "p k"]]:
        """f, log q0 and the logs of the weights."""
        rows, log_weights = panels.nodes()
        flat = rows.reshape(-1, rows.shape[2])
        base_logs = self._density.base.log_density(flat)
        tilt = np.zeros(len(flat))
        heavy = base_logs > np.max(base_logs, initial=-np.inf) - _UNDERFLOW
        if heavy.any():
            tilt[heavy] = self._density.tilt(flat[heavy])
        shape = log_weights.shape
        return tilt.reshape(shape), base_logs.reshape(shape), log_weights

"""Few Gaussians, many or boxes: the base density that held-out rows find likelier.

A mixture of few Gaussians leaves most to the tilt. Where an average of many is better beyond doubt,
as for rings, it is taken. A tilt makes more of a smooth base density than of one with edges: these
it cannot undo. So boxes must beat not only the mixtures of Gaussians but also a kernel density
estimate of the same rows, which stands for what a tilt would make of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from sklearn.neighbors import KernelDensity

from kexpfam.base.average_search import AveragedMixtureBase
from kexpfam.base.box_fits import BoxBase, choose_boxes
from kexpfam.base.boxes import BoxMixtureDensity
from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.base.mixture_base import MixtureBase
from kexpfam.data.sketch import Sketch

__all__ = ["AutomaticBase"]

# One of so many rows is held out; with fewer rows nothing is compared.
_ONE_HELD_OUT_OF, _FEWEST_ROWS = 4, 100
# Standard errors by which many Gaussians or boxes must be better.
_SURE = 2.0
# Bandwidths of kernel density estimates, in standard deviations, and the rows that they hold.
_BANDWIDTHS, _MOST_CENTERS = np.geomspace(0.05, 0.6, 8), 3000


@dataclass(frozen=True)
class AutomaticBase:
    """A mixture of Gaussians, or what held-out rows find likelier: an average of many, or boxes.

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily
    >>> model = KernelExponentialFamily(base="auto")
    """

    def fit(
        self, sketch: Sketch, generator: np.random.Generator
    ) -> GaussianMixtureDensity | BoxMixtureDensity:
        """Fit to rows of the sketch, whose order is random."""
        seed = int(generator.integers(2**31))
        chosen: MixtureBase | AveragedMixtureBase | BoxBase = MixtureBase()
        if len(sketch.rows) < _FEWEST_ROWS:
            return chosen.fit(sketch, np.random.default_rng(seed))
        held = np.arange(len(sketch.rows)) % _ONE_HELD_OUT_OF == 0
        judges = sketch.where(held)
        others = sketch.where(~held)

        def judged(base: MixtureBase | AveragedMixtureBase) -> Float[np.ndarray, " j"]:
            return base.fit(others, np.random.default_rng(seed)).log_density(judges.rows)

        few, many = judged(MixtureBase()), judged(AveragedMixtureBase())
        boxes = choose_boxes(sketch, held, seed)
        shares = judges.weights / judges.weights.sum()
        if _is_better(many - few, shares):
            chosen = AveragedMixtureBase()
        rivals = [few, many, *_kernel_logs(others, judges)]
        best = max(rivals, key=lambda logs: float(shares @ logs))
        if _is_better(boxes.held_out - best, shares):
            chosen = BoxBase(boxes.n_components)
        return chosen.fit(sketch, np.random.default_rng(seed))


def _is_better(gains: Float[np.ndarray, " j"], shares: Float[np.ndarray, " j"]) -> bool:
    """Whether gains at the judges are more than chance."""
    gain = float(shares @ gains)
    return gain > _SURE * float(np.sqrt(shares**2 @ (gains - gain) ** 2))


def _kernel_logs(others: Sketch, judges: Sketch) -> list[Float[np.ndarray, " j"]]:
    """Log densities of the judges under kernel density estimates of some of the others."""
    centers, weights = others.rows[:_MOST_CENTERS], others.weights[:_MOST_CENTERS]
    found = []
    for bandwidth in _BANDWIDTHS:
        estimate = KernelDensity(bandwidth=bandwidth).fit(centers, sample_weight=weights)
        found.append(np.asarray(estimate.score_samples(judges.rows)))
    return found

"""Few Gaussians, many or boxes: the base density that held-out rows find likelier.

Of a mixture of few Gaussians and an average of many, as for rings, the likelier is taken: a tilt
can do the same for both. It makes more of a smooth base density than of one with edges, which it
cannot undo. So boxes must be significantly better not only than the mixtures of Gaussians but also
than a kernel density estimate of the same rows, which stands for what a tilt would make of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from kexpfam.base.average_search import AveragedMixtureBase
from kexpfam.base.box_fits import BoxBase, choose_boxes
from kexpfam.base.boxes import BoxMixtureDensity
from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.base.mixture_base import MixtureBase
from kexpfam.data.sketch import Sketch

__all__ = ["AutomaticBase"]

# One of this many rows is held out; with fewer rows nothing is compared.
_ONE_HELD_OUT_OF, _FEWEST_ROWS = 4, 100
# Standard errors by which boxes must be better.
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
        return self.choose(sketch, generator).fit(sketch, generator)

    def choose(
        self, sketch: Sketch, generator: np.random.Generator
    ) -> MixtureBase | AveragedMixtureBase | BoxBase:
        """The family that held-out rows prefer; a fit to some of the rows keeps to it."""
        if len(sketch.rows) < _FEWEST_ROWS:
            return MixtureBase()
        seed = int(generator.integers(2**31))
        held = np.arange(len(sketch.rows)) % _ONE_HELD_OUT_OF == 0
        judges = sketch.where(held)
        others = sketch.where(~held)

        def judged(base: MixtureBase | AveragedMixtureBase) -> Float[np.ndarray, " j"]:
            return base.fit(others, np.random.default_rng(seed)).log_density(judges.rows)

        few, many = judged(MixtureBase()), judged(AveragedMixtureBase())
        boxes = choose_boxes(sketch, held, seed)
        shares = judges.weights / judges.weights.sum()
        rivals = [few, many, *_kernel_logs(others, judges)]
        gains = boxes.held_out - max(rivals, key=lambda logs: float(shares @ logs))
        gain = float(shares @ gains)
        if gain > _SURE * float(np.sqrt(shares**2 @ (gains - gain) ** 2)):
            return BoxBase(boxes.n_components)
        return AveragedMixtureBase() if shares @ many > shares @ few else MixtureBase()


def _kernel_logs(others: Sketch, judges: Sketch) -> list[Float[np.ndarray, " j"]]:
    """Log densities of the judges under kernel density estimates of some of the others."""
    # Imported where it is needed: it takes as long as a small fit.
    from sklearn.neighbors import KernelDensity

    centers, weights = others.rows[:_MOST_CENTERS], others.weights[:_MOST_CENTERS]
    found = []
    for bandwidth in _BANDWIDTHS:
        estimate = KernelDensity(bandwidth=bandwidth).fit(centers, sample_weight=weights)
        found.append(np.asarray(estimate.score_samples(judges.rows)))
    return found

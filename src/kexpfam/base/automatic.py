"""Gaussians or boxes: the base density that held-out rows find likelier."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kexpfam.base.box_fits import BoxBase, choose_boxes
from kexpfam.base.boxes import BoxMixtureDensity
from kexpfam.base.mixture import GaussianMixtureDensity, MixtureBase
from kexpfam.data.sketch import Sketch

__all__ = ["AutomaticBase"]

# One of so many rows is held out; with fewer rows nothing is compared.
_ONE_HELD_OUT_OF, _FEWEST_ROWS = 4, 100
# Standard errors by which boxes must be better.
_SURE = 2.0


@dataclass(frozen=True)
class AutomaticBase:
    """A mixture of Gaussians, or boxes with soft edges where held-out rows find these likelier.

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
        mixture = MixtureBase()
        if len(sketch.rows) < _FEWEST_ROWS:
            return mixture.fit(sketch, np.random.default_rng(seed))
        held = np.arange(len(sketch.rows)) % _ONE_HELD_OUT_OF == 0
        judges = sketch.where(held)
        single = mixture.fit(sketch.where(~held), np.random.default_rng(seed))
        boxes = choose_boxes(sketch, held, seed)
        gains = boxes.held_out - single.log_density(judges.rows)
        shares = judges.weights / judges.weights.sum()
        gain = float(shares @ gains)
        if gain > _SURE * float(np.sqrt(shares**2 @ (gains - gain) ** 2)):
            return BoxBase(boxes.n_components).fit(sketch, np.random.default_rng(seed))
        return mixture.fit(sketch, np.random.default_rng(seed))

"""The base density that held-out rows find likeliest, of three kinds.

| kind                        | suits                                            |
|-----------------------------|--------------------------------------------------|
| a mixture of Gaussians      | a few smooth modes                               |
| an average of many mixtures | curves and rings, which one mixture makes angular |
| boxes with soft edges       | what is flat and ends abruptly                   |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kexpfam.base.averaged import choose_average, fit_average
from kexpfam.base.box_fits import BoxBase, choose_boxes
from kexpfam.base.boxes import BoxMixtureDensity
from kexpfam.base.mixture import GaussianMixtureDensity, MixtureBase
from kexpfam.data.sketch import Sketch
from kexpfam.progress import Progress

__all__ = ["AutomaticBase"]

# One of so many rows is held out; with fewer rows nothing is compared.
_ONE_HELD_OUT_OF, _FEWEST_ROWS = 4, 100
# Mixtures that are averaged: half as many as by default, which every evaluation pays for.
_N_AVERAGED = 8


@dataclass(frozen=True)
class AutomaticBase:
    """A mixture of Gaussians, an average of such, or boxes: what suits held-out rows best.

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
        by_single = float(np.average(single.log_density(judges.rows), weights=judges.weights))
        boxes = choose_boxes(sketch, held, seed)
        average = choose_average(sketch.rows, sketch.weights, held, seed, Progress(), _N_AVERAGED)
        if boxes.held_out > max(by_single, average.held_out):
            return BoxBase(boxes.n_components).fit(sketch, np.random.default_rng(seed))
        if average.held_out > by_single:
            found = fit_average(sketch.rows, sketch.weights, average, seed, _N_AVERAGED)
            return found.density()
        return mixture.fit(sketch, np.random.default_rng(seed))

"""What a location and functions of the inputs say at rows, before any tilt.

Densities with one location and one set of functions share this: those along a path of penalties,
and those that differ by a stretch. It is most of what a log density costs.

| name      | shape  | meaning                                       |
|-----------|--------|-----------------------------------------------|
| inputs    | (n, d) | in units                                      |
| mean      | (n,)   | μ, in the coordinate of the response          |
| deviation | (n,)   | √(v + κ), the scale without its factors       |
| functions | (n, m) | ψ, or None where nothing is tilted            |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from kexpfam.base.location import Location
from kexpfam.features.inputs import InputFunctions

__all__ = ["AtRows", "location_at_rows"]


@dataclass(frozen=True)
class AtRows:
    """Rows, and what is known of their targets."""

    inputs: Float[np.ndarray, "n d"]
    mean: Float[np.ndarray, " n"]
    deviation: Float[np.ndarray, " n"]
    functions: Float[np.ndarray, "n m"] | None

    def __len__(self) -> int:
        return len(self.mean)

    def __getitem__(self, part: slice) -> AtRows:
        functions = None if self.functions is None else self.functions[part]
        return AtRows(self.inputs[part], self.mean[part], self.deviation[part], functions)


def location_at_rows(
    location: Location, functions: InputFunctions | None, inputs: Float[np.ndarray, "n d"]
) -> AtRows:
    """At inputs in units; without functions nothing can be tilted."""
    mean, variance = location.predict(inputs)
    return AtRows(
        inputs,
        mean,
        np.sqrt(variance + location.noise),
        None if functions is None else functions(inputs),
    )

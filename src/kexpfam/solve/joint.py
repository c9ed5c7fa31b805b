"""The likeliest tilt of a base density of one or two columns.

With nodes x_q and shares u_q that stand for the base density (see `kexpfam.base.nodes`),

    ℓ(β) = log Σ_q u_q exp(φ(x_q)ᵀβ) − φ̄ᵀβ + ½λ|β|²,        φ̄ = mean of φ over the rows

is smooth and convex, and depends on the rows by φ̄ alone: sums of rows are enough, and rows can be
added and taken away. Several means, those without each fold, are one problem: ℓ is that of
`kexpfam.solve.conditional` with one "input" per mean that is one for it and zero for the others.

Coordinates are the eigenvectors of φ's covariance under the base density, γ = Uᵀβ with
Cov φ = U diag(v) Uᵀ. There |β|² = |γ|², the second derivative at β = 0 is diagonal, and directions
that the base density hardly varies in, which the penalty keeps at zero, are left out.

| symbol | name       | shape  |
|--------|------------|--------|
| β      | coefficients | (m,) |
| φ̄      | means      | (k, m) |
| U      | directions | (m, r) |
| Uᵀφ    | at_nodes   | (q, r) |
| log u  | log_shares | (q,)   |
| Uᵀφ, log u at other nodes | at_others, log_other_shares | (o, r), (o,) |

Coefficients are fitted with one set of nodes and judged with another: what is gained between the
nodes, where a coarse rule does not look, is no gain. `resolved` says whether there are nodes enough
for the functions' waves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.base import BaseDensity
from kexpfam.base.nodes import NODES, base_nodes, box_of_mass
from kexpfam.features import Basis
from kexpfam.features.at_rows import features_at
from kexpfam.solve.conditional import TiltProblem, likeliest_path

__all__ = ["JointProblem", "joint_problem"]

# Nodes per wave of the typical frequency; panels per column, at least; and nodes in all, at most.
_NODES_PER_WAVE, _FEWEST_PANELS, _MOST_NODES = 15.0, 10, 25_600
# Directions with less than this share of the largest variance are left out.
_LEAST_VARIANCE = 1e-7
_STEPS, _LAST_STEPS = 25, 200


class JointProblem(NamedTuple):
    """All that ℓ depends on but the rows and the penalty."""

    directions: Float[np.ndarray, "m r"]
    at_nodes: Float[np.ndarray, "q r"]
    log_shares: Float[np.ndarray, " q"]
    at_others: Float[np.ndarray, "o r"]
    log_other_shares: Float[np.ndarray, " o"]
    resolved: bool

    def _of(self, means: Float[np.ndarray, "k m"]) -> TiltProblem:
        each = np.eye(len(means))
        shown = means @ self.directions
        return TiltProblem(each, shown, self.at_nodes, self.log_shares[None], np.ones(len(means)))

    def path(
        self, means: Float[np.ndarray, "k m"], penalties: Sequence[float]
    ) -> Iterator[Float[np.ndarray, "k r"]]:
        """γ for one penalty after the other, from the strongest; a line for each mean."""
        return likeliest_path(self._of(means), penalties, _STEPS)

    def gains(
        self, means: Float[np.ndarray, "k m"], coefficients: Float[np.ndarray, "k r"]
    ) -> Float[np.ndarray, " k"]:
        """Mean log density over the base density of rows with these means, each under its own γ."""
        judged = replace(
            self._of(means), at_nodes=self.at_others, log_masses=self.log_other_shares[None]
        )
        return judged.gains(coefficients)

    def likeliest(
        self, mean: Float[np.ndarray, " m"], penalty: float, start: Float[np.ndarray, " m"]
    ) -> Float[np.ndarray, " m"]:
        """β, from a start or from zero, whichever is better."""
        problem = self._of(mean[None])
        first = (start @ self.directions)[None]
        loss = problem.loss(first)[0] + penalty / 2 * float((first**2).sum())
        if not loss < 0:
            first = np.zeros_like(first)
        (found,) = likeliest_path(problem, [penalty], _LAST_STEPS, first)
        return self.directions @ found[0]


def joint_problem(basis: Basis, base: BaseDensity) -> JointProblem:
    """Nodes that resolve the functions' waves, and coordinates that suit the base density."""
    frequencies = np.asarray(basis.frequencies)  # type: ignore[attr-defined]
    typical = np.sqrt((frequencies**2).mean(axis=0))
    low, high = box_of_mass(base)
    wanted = (high - low) * typical * _NODES_PER_WAVE / (2 * np.pi * NODES)
    largest = _MOST_NODES ** (1 / len(low)) / NODES
    counts = np.maximum(np.minimum(np.ceil(wanted), np.floor(largest)), _FEWEST_PANELS).astype(int)
    nodes, others = base_nodes(base, counts.tolist()), base_nodes(base, (counts + 1).tolist())
    at_nodes = features_at(basis, nodes.rows)
    shares = np.exp(nodes.log_proportions)
    centered = at_nodes - shares @ at_nodes
    variances, directions = np.linalg.eigh((centered * shares[:, None]).T @ centered)
    directions = directions[:, variances > _LEAST_VARIANCE * variances[-1]]
    return JointProblem(
        directions,
        at_nodes @ directions,
        nodes.log_proportions,
        features_at(basis, others.rows) @ directions,
        others.log_proportions,
        resolved=bool((wanted <= counts).all()),
    )

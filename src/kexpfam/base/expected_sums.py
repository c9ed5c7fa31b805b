"""What one step of expectation–maximization sums over the rows.

| symbol    | name        | shape  |
|-----------|-------------|--------|
| Σ a log q | likelihoods | (s,)   |
| Σ a r_k m | sums        | (k, p) |
| Σ a       | weight      | ()     |
| Σ a²      | squares     | ()     |

for rows with weights a and monomials m, under mixtures s with components k of responsibilities r.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxtyping import Float

__all__ = ["ExpectedSums"]


class ExpectedSums(NamedTuple):
    """Weighted sums over rows: log densities of each mixture, and monomials of each component."""

    likelihoods: Float[Any, " s"]
    sums: Float[Any, "k p"]
    weight: Any
    squares: Any

    def joined(self, other: ExpectedSums) -> ExpectedSums:
        """Over the rows of both."""
        return ExpectedSums(
            self.likelihoods + other.likelihoods,
            self.sums + other.sums,
            self.weight + other.weight,
            self.squares + other.squares,
        )

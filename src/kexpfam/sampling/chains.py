"""What Markov chains leave behind: draws, and figures that say whether to trust them.

R̂ compares the variance between half chains with that within them, on ranks and on folded ranks;
the bulk effective sample size is the number of independent draws that would tell the mean of the
ranks as well. Both follow Vehtari, Gelman, Simpson, Carpenter and Bürkner, "Rank-normalization,
folding, and localization: an improved R̂", Bayesian Analysis 2021, and are blackjax's.

| symbol | name                  | shape              |
|--------|-----------------------|--------------------|
| x      | draws                 | (chains, draws, d) |
| R̂     | r_hat                 | (d,)               |
| N_eff  | effective_sample_size | (d,)               |
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.exceptions import SamplingWarning
from kexpfam.precision import compiled
from kexpfam.sampling.methods import METHODS

__all__ = ["Chains", "diagnose"]

_LARGEST_R_HAT = 1.05


class Chains(NamedTuple):
    """Draws of several chains in the user's units, with diagnostics.

    Attributes
    ----------
    draws : ndarray of shape (n_chains, n_draws, n_columns)
    acceptance : ndarray of shape (n_chains,)
        Each chain's mean acceptance probability after the burn-in.
    jump_acceptance : ndarray of shape (n_chains,)
        The same of jumps to draws of the base density; zero without them.
    step_size : float
        In standardized units, as given or as adapted.
    r_hat : ndarray of shape (n_columns,)
        Rank-normalized split R̂ of each column: close to 1 where chains agree.
    effective_sample_size : ndarray of shape (n_columns,)
        How many independent draws all chains together are worth.
    method : str
    thinning : int
        Steps from one kept draw to the next.
    """

    draws: Float[np.ndarray, "chains draws d"]
    acceptance: Float[np.ndarray, " chains"]
    jump_acceptance: Float[np.ndarray, " chains"]
    step_size: float
    r_hat: Float[np.ndarray, " d"]
    effective_sample_size: Float[np.ndarray, " d"]
    method: str
    thinning: int

    def rows(self, n_samples: int | None = None) -> Float[np.ndarray, "n d"]:
        """Exactly `n_samples` draws as rows (all of them by default), evenly spread over the run.

        Neighboring rows come from different chains.

        Parameters
        ----------
        n_samples : int, optional
            How many; all by default.

        Returns
        -------
        ndarray of shape (n_samples, n_features)

        Examples
        --------
        >>> import numpy as np
        >>> from kexpfam.sampling import Chains
        >>> draws = np.arange(6.0).reshape(2, 3, 1)
        >>> chains = Chains(
        ...     draws, np.ones(2), np.ones(2), 0.1, np.ones(1), np.ones(1), "mala", 1
        ... )
        >>> chains.rows().ravel().tolist(), chains.rows(3).ravel().tolist()
        ([0.0, 3.0, 1.0, 4.0, 2.0, 5.0], [0.0, 1.0, 2.0])
        """
        n_chains, n_draws, n_columns = self.draws.shape
        total = n_chains * n_draws
        n_samples = total if n_samples is None else n_samples
        if not 1 <= n_samples <= total:
            raise ValueError(
                f"n_samples must be between 1 and {total}, the number of draws kept; got "
                f"{n_samples!r}. Sample again, with more."
            )
        sweeps = self.draws.transpose(1, 0, 2).reshape(total, n_columns)
        return sweeps[np.arange(n_samples) * total // n_samples]

    def to_arviz(self, names: Sequence[str] | None = None) -> Any:
        """The draws as ArviZ's `DataTree`: a variable `x` with a coordinate `column`.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the columns; by default their numbers.

        Returns
        -------
        xarray.DataTree
        """
        try:
            from arviz_base import from_dict
        except ImportError as error:
            raise ImportError(
                "to_arviz needs arviz-base, which is not installed: pip install 'kexpfam[arviz]'."
            ) from error
        columns = np.arange(self.draws.shape[2]) if names is None else np.asarray(names)
        return from_dict(
            {"posterior": {"x": self.draws}},
            dims={"x": ["column"]},
            coords={"column": columns},
            attrs={"posterior": {"sampler": self.method, "step_size": self.step_size}},
        )

    def complaint(self) -> str | None:
        """What is wrong with these chains, in words, or None."""
        reasons = []
        largest = float(np.max(self.r_hat))
        if not largest <= _LARGEST_R_HAT:
            reasons.append(
                f"R-hat is {largest:.2f} (more than {_LARGEST_R_HAT}): chains disagree, so that "
                "the weights of regions between which they hardly move depend on where they "
                "started. Try more n_steps, or more n_chains"
            )
        low, high = METHODS[self.method].sane_acceptance
        mean = float(self.acceptance.mean())
        if not low <= mean <= high:
            advice = "a smaller" if mean < low else "a larger"
            reasons.append(
                f"the mean acceptance is {mean:.3f}, where {low} to {high} is usual. Try {advice} "
                f"step_size than {self.step_size:.3g}, or step_size=None, which adapts it"
            )
        return f"The draws are unreliable: {'; '.join(reasons)}." if reasons else None

    def warn(self, stacklevel: int = 2) -> None:
        """Emit a `SamplingWarning` if there is something to complain about."""
        complaint = self.complaint()
        if complaint is not None:
            warnings.warn(complaint, SamplingWarning, stacklevel=stacklevel + 1)


@compiled
def _diagnose(draws: Any) -> Any:
    from blackjax.diagnostics import ess_bulk, rhat

    return rhat(draws), ess_bulk(draws)


def diagnose(
    draws: Float[np.ndarray, "chains draws d"],
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """R̂ and the bulk effective sample size of each column; at least four draws per chain."""
    r_hat, effective = _diagnose(draws)
    # blackjax drops axes of length one, and so a single column.
    return r_hat.reshape(-1), effective.reshape(-1)

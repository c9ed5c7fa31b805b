"""Draws of estimators that sample without Markov chains."""

from __future__ import annotations

from typing import Any

from kexpfam.types import Seed, Table

__all__ = ["IndependentDraws"]


class IndependentDraws:
    """`sample_with_diagnostics`, for an estimator whose draws are independent."""

    sample: Any

    def sample_with_diagnostics(
        self, n_samples: int, random_state: Seed = None
    ) -> tuple[Table, None]:
        """Draws and None, because draws are independent and have no Markov chains.

        Parameters
        ----------
        n_samples : int
        random_state : int, RandomState, Generator or None, default=None

        Returns
        -------
        draws : data frame or ndarray of shape (n_samples, n_features)
        chains : None
        """
        return self.sample(n_samples, random_state), None

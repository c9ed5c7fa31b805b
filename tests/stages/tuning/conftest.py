"""Problems of a single number."""

import numpy as np
import pytest

from kexpfam.base.line import OnLine
from kexpfam.tuning.number_problem import NumberProblem


@pytest.fixture
def number_problem():
    """From inputs and targets; all rows count alike, and the mixture's density is one."""

    def made(inputs, targets, plain_inputs=None, **others):
        n_rows = len(targets)
        problem = NumberProblem(
            np.arange(n_rows),
            inputs,
            inputs if plain_inputs is None else plain_inputs,
            np.ones(n_rows, bool),
            targets,
            OnLine(*np.zeros((4, n_rows))),
            np.stack([targets, targets, np.full(n_rows, -np.inf)]),
            (-np.inf, np.inf),
            False,
            np.ones(n_rows),
            np.full(n_rows, 0.5),
            targets,
            np.zeros((n_rows, 0)),
            (),
        )
        return problem._replace(**others)

    return made

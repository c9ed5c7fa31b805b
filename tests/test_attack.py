"""A slice of the attack: no answer that is neither right nor a refusal.

`make attack` runs it for half an hour.
"""

from __future__ import annotations

import pytest
from attack.campaign import KINDS
from attack.cases import REFUSED, RIGHT, outcome

# Few where a case is a fit.
CASES = {
    **{"fits": 4, "mixed tables": 3, "numbers in tables": 6, "settings": 12, "command lines": 40},
    **{"forged model files": 80, "killed fits": 1},
}

# A fit that compiles little is killed here; `make attack` kills all of them.
SEEDS = {"killed fits": 4}


# A file whose pages claim to be larger than any memory, an archive with a name that is no text, a
# file of rows without columns, and a number of functions beyond 64 bits.
ONCE_FAILED = [
    ("damaged tables", (0, 898)),
    ("damaged tables", (5, 885)),
    ("damaged tables", (7, 1332)),
    ("settings", (0, 531)),
]


@pytest.mark.parametrize(("name", "case"), ONCE_FAILED)
def test_cases_that_once_failed_end_well(name, case, tmp_path):
    assert outcome(KINDS[name](tmp_path), case) == REFUSED


@pytest.mark.parametrize("name", KINDS)
def test_hostile_cases_end_well(name, tmp_path):
    kind = KINDS[name](tmp_path)
    seed = SEEDS.get(name, 1)
    found = [outcome(kind, (seed, number)) for number in range(CASES.get(name, 120))]
    assert set(found) <= {RIGHT, REFUSED}

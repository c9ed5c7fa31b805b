"""What annotations forbid is found in every call that differs from those before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError

from kexpfam.base import BoxDensity
from tests.shape_checks import once_for_each_look

checked = once_for_each_look


@checked
def cut(rows: Float[np.ndarray, "n d"], n_rows: int) -> Float[np.ndarray, "n d"]:
    return rows[:n_rows]


@checked
@dataclass
class Weighted:
    rows: Float[np.ndarray, "n d"]
    weights: Float[np.ndarray, " n"]

    @staticmethod
    @checked
    def total(weights: Float[np.ndarray, " n"]) -> float:
        return float(weights.sum())


def test_arguments_are_checked_after_others_that_were_right():
    rows = np.ones((3, 2))
    assert len(cut(rows, 3)) == 3
    for wrong in (rows[0], rows.astype(int), rows.tolist()):
        with pytest.raises(TypeCheckError, match="rows"):
            cut(wrong, 3)
    with pytest.raises(TypeCheckError, match="n_rows"):
        cut(rows, 3.0)


def test_results_are_checked_though_the_arguments_look_the_same():
    rows = np.ones((4, 2))
    for _ in range(2):
        assert len(cut(rows, 4)) == 4
        with pytest.raises(TypeCheckError, match="return value"):
            cut(rows, 2)


def test_records_and_methods_are_checked():
    rows = np.ones((3, 2))
    assert Weighted.total(Weighted(rows, np.ones(3)).weights) == 3
    with pytest.raises(TypeCheckError):
        Weighted(rows, np.ones(2))
    with pytest.raises(TypeCheckError):
        Weighted.total(rows)


def test_the_library_is_checked():
    density = BoxDensity(np.zeros(2), np.ones(2))
    assert density.log_density(np.zeros((3, 2))).shape == (3,)
    with pytest.raises(TypeCheckError):
        density.log_density(np.zeros(2))
    with pytest.raises(TypeCheckError):
        BoxDensity(np.zeros(2), np.ones(3))

"""Conditions on rows: read, kept, refused; nothing in them is executed."""

from __future__ import annotations

import numpy as np
import pytest

from kexpfam.data.conditions import read_condition

NAMES = ["low", "high", "city", "unit price", "open"]
ROWS = {
    "low": np.array([1.0, 5.0, np.nan]),
    "high": np.array([2.0, 3.0, 4.0]),
    "city": np.array(["north", "south", None], object),
    "unit price": np.array([3, 4, 5]),
    "open": np.array([True, False, True]),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("low <= high", [True, False, True]),
        ("low<high", [True, False, True]),
        ("high > 2.5", [False, True, True]),
        ("4 >= `unit price`", [True, True, False]),
        ("city == 'north'", [True, False, True]),
        ('city != "north"', [False, True, True]),
        ("open = true", [True, False, True]),
        ("unit price < high", [False, False, False]),
        ("high >= -1e3", [True, True, True]),
    ],
)
def test_conditions_hold_row_by_row_and_where_nothing_is_known(text, expected):
    assert read_condition(text, NAMES).holds(ROWS).tolist() == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("low", "must compare two things"),
        ("low < high < 3", "must compare two things"),
        ("1 < 2", "names no column"),
        ("hihg > 2", "Did you mean 'high'"),
        ("__import__('os').system('true') == 0", "must compare two things"),
        ("low + high > 2", "neither a column nor a number"),
        ("", "must compare two things"),
    ],
)
def test_what_is_no_condition_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        read_condition(text, NAMES)


def test_words_are_not_compared_with_numbers():
    with pytest.raises(ValueError, match="compares words with numbers"):
        read_condition("city < 3", NAMES).holds(ROWS)

"""Draws of KernelChain beside real rows that it has not seen.

    python benchmarks/draws.py [penguins adult red_wine …]

(KEXPFAM_DATA names the tables' folder.) Half of the rows of a table are fitted to. Draws, as many
as those, are compared with the other half, and so are the rows fitted to: a second sample of the
same size, which is as near as a perfect model would come on average. Numbers are compared by the
Wasserstein distance of each column, and of each pair of columns along the two diagonals, in
standard deviations; discrete columns and pairs of them by total variation. The table shows means
over columns and pairs, and the share of drawn values outside the bounds or the vocabulary of the
rows fitted to: unseen levels, and numbers beyond the bounds that were read from those rows. How far
beyond the rows numbers are drawn was decided with four of these tables in view.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.stats import wasserstein_distance

from kexpfam import KernelChain
from measure import RESULTS
from splits import REAL
from tables import MIXED_TABLES, split_frame

TABLES = ("penguins", "adult", "red_wine", "white_wine", "breast_cancer", "diabetes_continuous")
MOST_ROWS, MOST_PAIRS = 8000, 60


def halves(name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    if name in MIXED_TABLES:
        frame = pd.concat(split_frame(name, 0))
    else:
        frame = pd.DataFrame(np.concatenate(REAL[name](0))).add_prefix("column_")
    frame = frame.sample(frac=1.0, random_state=0).iloc[: 2 * MOST_ROWS]
    half = len(frame) // 2
    return frame.iloc[:half], frame.iloc[half : 2 * half]


def is_discrete(column: pd.Series) -> bool:
    return not pd.api.types.is_numeric_dtype(column) or column.nunique() <= 20


def pairs(names: list[str]) -> list[tuple[str, str]]:
    found = list(itertools.combinations(names, 2))
    order = np.random.default_rng(0).permutation(len(found))[:MOST_PAIRS]
    return [found[number] for number in order]


def transports(one: pd.DataFrame, other: pd.DataFrame, numbers: list[str]) -> Iterator[float]:
    center, scale = other[numbers].mean(), other[numbers].std()
    one, other = (one[numbers] - center) / scale, (other[numbers] - center) / scale
    for name in numbers:
        yield wasserstein_distance(one[name].dropna(), other[name].dropna())
    for left, right in pairs(numbers):
        for sign in (1, -1):
            along = [(part[left] + sign * part[right]).dropna() for part in (one, other)]
            yield wasserstein_distance(*along) / np.sqrt(2)


def variations(one: pd.DataFrame, other: pd.DataFrame, discrete: list[str]) -> Iterator[float]:
    for names in [[name] for name in discrete] + [list(pair) for pair in pairs(discrete)]:
        shares = [part[names].dropna().value_counts(normalize=True) for part in (one, other)]
        both = pd.concat(shares, axis=1).fillna(0.0)
        yield float(both.diff(axis=1).iloc[:, 1].abs().sum() / 2)


def strangers(draws: pd.DataFrame, fitted: pd.DataFrame, model: KernelChain) -> float:
    """The share of drawn values that no row could have."""
    found = 0
    for name in fitted.columns:
        values, drawn = fitted[name].dropna(), draws[name]
        if pd.api.types.is_numeric_dtype(values):
            low, high = model.column_kinds_[name].bounds
            found += int(((drawn < low) | (drawn > high)).sum())
        else:
            found += int((~drawn.isin(set(values))).sum())
    return found / draws.size


def main() -> None:
    warnings.simplefilter("ignore")
    lines = [
        "# Draws",
        "",
        (__doc__ or "").split("folder.) ", 1)[1].strip(),
        "",
        "| table | rows | W₁ of draws | W₁ of a second sample | variation of draws "
        "| variation of a second sample | values that cannot be |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in sys.argv[1:] or TABLES:
        fitted, fresh = halves(name)
        model = KernelChain(random_state=0).fit(fitted)
        draws = model.sample(len(fitted), random_state=0)
        discrete = [column for column in fitted if is_discrete(fitted[column])]
        numbers = [column for column in fitted if column not in discrete]
        cells = []
        for distances, columns in ((transports, numbers), (variations, discrete)):
            for rows in (draws, fitted):
                each = list(distances(rows, fresh, columns))
                cells.append(f"{np.mean(each):.4f}" if each else "")
        share = strangers(draws, fitted, model)
        lines.append(f"| {name} | {len(fitted)} | {' | '.join(cells)} | {share:.4%} |")
        print(lines[-1], flush=True)
        (RESULTS / "draws.md").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()

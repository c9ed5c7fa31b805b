"""Draws of KernelChain beside real rows that it has not seen.

    python benchmarks/draws.py [penguins adult/2 red_wine …]

(KEXPFAM_DATA names the tables' folder.) The model is fitted to half of the rows of a table, and the
same number of draws is compared with the other half. Numbers are compared by the Wasserstein
distance of each column, and of each pair of columns along the two diagonals, in standard
deviations; discrete columns and pairs of them by total variation. The table shows means over
columns and pairs, and their standard deviation over splits into halves.

Two references show what can be reached. A *second sample*, the training half itself, is as near as
draws of the true density would be. A model only knows that density from one half of the rows, so
that its draws differ from the other half by three sampling errors instead of two: if a mean is
estimated by that of the rows, by √(3/2) as much. The same holds for a *bootstrap*, which draws rows
of the training half with replacement.

The last column is the share of drawn values outside the bounds or the vocabulary of the training
half: unseen levels, and numbers beyond the bounds of those rows. How far beyond the rows numbers
may be drawn was decided after four of these tables had been seen.
"""

from __future__ import annotations

import itertools
import json
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

# Tables, and splits of each.
TABLES = {
    "penguins": 5,
    "adult": 3,
    "red_wine": 5,
    "white_wine": 5,
    "breast_cancer": 5,
    "diabetes_continuous": 5,
}
MOST_ROWS, MOST_PAIRS = 8000, 60
STORE = RESULTS / "draws.json"


def halves(name: str, split: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    if name in MIXED_TABLES:
        frame = pd.concat(split_frame(name, 0))
    else:
        frame = pd.DataFrame(np.concatenate(REAL[name](0))).add_prefix("column_")
    frame = frame.sample(frac=1.0, random_state=split).iloc[: 2 * MOST_ROWS]
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


def measured(name: str, split: int) -> dict[str, float]:
    """Distances of draws, of a bootstrap and of the rows fitted to, from the other half."""
    fitted, fresh = halves(name, split)
    model = KernelChain(random_state=0).fit(fitted)
    samples = {
        "draws": model.sample(len(fitted), random_state=split),
        "a bootstrap": fitted.sample(frac=1.0, replace=True, random_state=split),
        "a second sample": fitted,
    }
    discrete = [column for column in fitted if is_discrete(fitted[column])]
    numbers = [column for column in fitted if column not in discrete]
    found = {"rows": len(fitted), "strangers": strangers(samples["draws"], fitted, model)}
    for measure, distances, columns in (
        ("W₁", transports, numbers),
        ("variation", variations, discrete),
    ):
        if columns:
            for sample, rows in samples.items():
                each = list(distances(rows, fresh, columns))
                found[f"{measure} of {sample}"] = float(np.mean(each))
    return found


def table_of(records: dict[str, dict[str, float]]) -> str:
    """One line for each table, of what was measured on all of its splits."""
    samples = ("draws", "a bootstrap", "a second sample")
    columns = [f"{measure} of {sample}" for measure in ("W₁", "variation") for sample in samples]
    lines = [
        f"| table | rows | {' | '.join(columns)} | values that cannot be |",
        "|---" * (len(columns) + 3) + "|",
    ]
    for name in TABLES:
        own = [record for key, record in records.items() if key.split("/")[0] == name]
        if not own:
            continue
        cells = []
        for column in columns:
            values = [record[column] for record in own if column in record]
            deviation = np.std(values, ddof=1) if len(values) > 1 else np.nan
            cells.append(f"{np.mean(values):.4f} ± {deviation:.4f}" if values else "")
        share = np.mean([record["strangers"] for record in own])
        lines.append(f"| {name} | {own[0]['rows']} | {' | '.join(cells)} | {share:.4%} |")
    return "\n".join(lines)


def main() -> None:
    warnings.simplefilter("ignore")
    what = (__doc__ or "").split("folder.) ", 1)[1].strip()
    for asked in sys.argv[1:] or TABLES:
        name, _, split = asked.partition("/")
        for one in [int(split)] if split else range(TABLES[name]):
            found = measured(name, one)
            print(name, one, {key: round(value, 4) for key, value in found.items()}, flush=True)
            # Read now: another process may have added to it.
            records = json.loads(STORE.read_text("utf-8")) if STORE.exists() else {}
            records[f"{name}/{one}"] = found
            STORE.write_text(json.dumps(records, indent=1, sort_keys=True) + "\n", "utf-8")
            text = f"# Draws\n\n{what}\n\n{table_of(records)}\n"
            (RESULTS / "draws.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()

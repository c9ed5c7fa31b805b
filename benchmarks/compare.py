"""Does `kexpfam.compare` find what moved, and is it right where nothing did?

Pairs of tables from one distribution, and from two that differ in one of six ways, are given to

- `compare`: p-value of the permutation test (499 permutations);
- columns: Kolmogorov and Smirnov's test of every column of numbers, chi-squared for categories and
  for missing cells, with Bonferroni's correction;
- classifier: a random forest trained on half of the rows to tell the tables apart, and Mann and
  Whitney's test of its scores on the other half.

Written: the share of pairs with a p-value of at most 0.05. Under no change it should be at most
0.05, and under a change the higher the better. Weights and functions of `compare` were chosen on
other tables, drawn from other distributions; the residuals of columns given the others were thought
of after a trial with two repetitions of what is measured here, and kept for what they gained on
those other tables. A second table holds divergences beside the truth for normal distributions.

    python benchmarks/compare.py            (all: about a quarter of an hour on one core)
    python benchmarks/compare.py --rows 20  (fewer repetitions, nothing written)
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier

import kexpfam

RESULTS = Path(__file__).parent / "results" / "compare.md"
LEVEL, N_NULL, N_CHANGED, N_SMALL = 0.05, 100, 40, 200


# -- tables -------------------------------------------------------------------------------------


def shop(rows: int, generator: np.random.Generator) -> pd.DataFrame:
    """Skewed numbers, counts and categories that depend on each other."""
    size = generator.gamma(2.0, 1.0, rows)
    city = generator.choice(["north", "south", "east", "west"], rows, p=[0.4, 0.3, 0.2, 0.1])
    price = np.exp(0.5 * size + 0.4 * generator.standard_normal(rows))
    return pd.DataFrame(
        {
            "price": price,
            "size": size,
            "visits": generator.poisson(2 + size),
            "age": 20 + 50 * generator.beta(2, 3, rows),
            "delay": generator.standard_t(4, rows) + 0.3 * size,
            "city": city,
            "paid": np.where(generator.random(rows) < 1 / (1 + np.exp(size - 2)), "cash", "card"),
        }
    )


def clusters(rows: int, generator: np.random.Generator) -> pd.DataFrame:
    """Three clouds in six columns, one of them named by a category half of the time."""
    centers = np.random.default_rng(1).normal(0, 1.5, (3, 6))
    which = generator.choice(3, rows, p=[0.5, 0.3, 0.2])
    numbers = centers[which] + generator.standard_normal((rows, 6))
    table = pd.DataFrame(numbers, columns=[f"x{number}" for number in range(6)])
    told = np.where(generator.random(rows) < 0.5, which, generator.choice(3, rows))
    table["kind"] = np.array(["a", "b", "c"])[told]
    return table


def _real(load: Callable[..., object], n_columns: int) -> pd.DataFrame:
    table = load(as_frame=True).data.iloc[:, :n_columns].copy()
    table["group"] = np.where(table.iloc[:, 0] > table.iloc[:, 0].median(), "high", "low")
    return table


def tables() -> dict[str, Callable[[np.random.Generator], tuple[pd.DataFrame, pd.DataFrame]]]:
    """Functions that give two tables of one distribution: drawn, or halves of a real table."""

    def halves(table: pd.DataFrame) -> Callable[..., tuple[pd.DataFrame, pd.DataFrame]]:
        def split(generator: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
            order, half = generator.permutation(len(table)), len(table) // 2
            first, second = table.iloc[order[:half]], table.iloc[order[half:]]
            return first.reset_index(drop=True), second.reset_index(drop=True)

        return split

    return {
        "shop (300 + 300 rows)": lambda g: (shop(300, g), shop(300, g)),
        "clusters (400 + 200 rows)": lambda g: (clusters(400, g), clusters(200, g)),
        "diabetes (221 + 221 rows)": halves(_real(load_diabetes, 10)),
        "breast cancer (284 + 285 rows)": halves(_real(load_breast_cancer, 10)),
    }


# -- changes ------------------------------------------------------------------------------------


def _number(table: pd.DataFrame, generator: np.random.Generator) -> str:
    """A column of numbers, another one each time."""
    return str(generator.choice(table.select_dtypes("number").columns))


def location(table: pd.DataFrame, generator: np.random.Generator) -> None:
    name = _number(table, generator)
    table[name] = table[name] + 0.3 * table[name].std()


def spread(table: pd.DataFrame, generator: np.random.Generator) -> None:
    name = _number(table, generator)
    middle = table[name].median()
    table[name] = middle + 1.4 * (table[name] - middle)


def tails(table: pd.DataFrame, generator: np.random.Generator) -> None:
    name = _number(table, generator)
    far = generator.random(len(table)) < 0.06
    sign = generator.choice([-1.0, 1.0], len(table))
    table[name] = np.where(far, table[name].mean() + 4 * sign * table[name].std(), table[name])


def category(table: pd.DataFrame, generator: np.random.Generator) -> None:
    name = str(generator.choice(table.select_dtypes(exclude="number").columns))
    level = generator.choice(sorted(table[name].unique()))
    table.loc[generator.random(len(table)) < 0.18, name] = level


def missing(table: pd.DataFrame, generator: np.random.Generator) -> None:
    name = _number(table, generator)
    table[name] = table[name].astype(float)
    table.loc[generator.random(len(table)) < 0.05, name] = np.nan


def dependence(table: pd.DataFrame, generator: np.random.Generator) -> None:
    """Values of one column change places, so that it keeps its distribution."""
    name = _number(table, generator)
    places = np.flatnonzero(generator.random(len(table)) < 0.6)
    table.loc[places, name] = table.loc[generator.permutation(places), name].to_numpy()


CHANGES = {
    "location of a column": location,
    "spread of a column": spread,
    "tails of a column": tails,
    "shares of a category": category,
    "missing cells": missing,
    "dependence of a column": dependence,
}


# -- tests --------------------------------------------------------------------------------------


def by_compare(first: pd.DataFrame, second: pd.DataFrame, seed: int) -> float:
    return kexpfam.compare(
        first, second, divergence=False, n_permutations=499, random_state=seed
    ).p_value


def by_columns(first: pd.DataFrame, second: pd.DataFrame, seed: int) -> float:
    """Bonferroni over all columns, and over the missing cells of those that have some."""
    found = []
    for name in first.columns:
        one, other = first[name], second[name]
        if one.isna().any() or other.isna().any():
            found.append(_chi_squared(one.isna(), other.isna()))
        one, other = one.dropna(), other.dropna()
        if pd.api.types.is_numeric_dtype(one):
            found.append(stats.ks_2samp(one, other).pvalue)
        else:
            found.append(_chi_squared(one, other))
    return min(1.0, len(found) * min(found))


def _chi_squared(one: pd.Series, other: pd.Series) -> float:
    values = pd.concat([one, other])
    side = np.repeat([0, 1], [len(one), len(other)])
    counts = pd.crosstab(values.to_numpy(), side)
    return 1.0 if len(counts) < 2 else float(stats.chi2_contingency(counts, correction=False)[1])


def by_classifier(first: pd.DataFrame, second: pd.DataFrame, seed: int) -> float:
    rows = pd.get_dummies(pd.concat([first, second])).to_numpy(float)
    side = np.repeat([0, 1], [len(first), len(second)])
    order = np.random.default_rng(seed).permutation(len(rows))
    train, judge = np.array_split(order, 2)
    forest = RandomForestClassifier(100, min_samples_leaf=3, random_state=seed)
    scores = forest.fit(rows[train], side[train]).predict_proba(rows[judge])[:, 1]
    is_second = side[judge] == 1
    ends = scores[is_second], scores[~is_second]
    return float(stats.mannwhitneyu(*ends, alternative="greater").pvalue)


TESTS = {"compare": by_compare, "columns": by_columns, "classifier": by_classifier}


# -- running ------------------------------------------------------------------------------------


def shares(make: Callable, change: Callable | None, repetitions: int, tests: dict) -> list[float]:
    found = np.zeros(len(tests))
    for number in range(repetitions):
        generator = np.random.default_rng([number, 20_240])
        first, second = make(generator)
        if change is not None:
            change(second, generator)
        for place, test in enumerate(tests.values()):
            found[place] += test(first, second, number) <= LEVEL
    return (found / repetitions).tolist()


def power(n_null: int, n_changed: int) -> list[str]:
    lines = [
        "| tables | change | repetitions | " + " | ".join(TESTS) + " |",
        "|---|---|---:|" + "---:|" * len(TESTS),
    ]
    sums: dict[str, list[list[float]]] = {}
    for table, make in tables().items():
        for name, change in {"none": None, **CHANGES}.items():
            count = n_null if change is None else n_changed
            found = shares(make, change, count, TESTS)
            sums.setdefault(name, []).append(found)
            lines.append(_line(table, name, count, found))
            print(lines[-1], flush=True)
    for name, found in sums.items():
        count = (n_null if name == "none" else n_changed) * len(found)
        lines.append(_line("**all**", name, count, np.mean(found, axis=0).tolist()))
    return lines


def _line(table: str, change: str, count: int, found: list[float]) -> str:
    best = max(found) if change != "none" else None
    cells = [f"**{one:.2f}**" if one == best else f"{one:.2f}" for one in found]
    return f"| {table} | {change} | {count} | " + " | ".join(cells) + " |"


def small_tables(repetitions: int) -> list[str]:
    """The level where rows are few, or far fewer on one side."""
    lines = ["| rows | repetitions | p ≤ 0.05 | p ≤ 0.01 |", "|---|---:|---:|---:|"]
    for sizes in ((8, 8), (15, 30), (40, 2000), (300, 300)):
        p_values = np.empty(repetitions)
        for number in range(repetitions):
            generator = np.random.default_rng([number, *sizes])
            first, second = (shop(size, generator) for size in sizes)
            p_values[number] = by_compare(first, second, number)
        at = [f"{np.mean(p_values <= level):.3f}" for level in (0.05, 0.01)]
        lines.append(f"| {sizes[0]} + {sizes[1]} | {repetitions} | {' | '.join(at)} |")
        print(lines[-1], flush=True)
    return lines


def divergences(repetitions: int) -> list[str]:
    """Normal columns, one of them moved by a standard deviation: half a nat both ways."""
    lines = [
        "| rows | move | truth | mean estimate | its spread | mean reported error |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for rows in (200, 1000):
        for move in (0.0, 1.0):
            found, errors = [], []
            for number in range(repetitions):
                generator = np.random.default_rng([number, rows])
                first, second = generator.standard_normal((2, rows, 3))
                second[:, 0] += move
                result = kexpfam.compare(first, second, n_permutations=19, random_state=number)
                assert result.divergence is not None
                found.append(result.divergence.first_from_second)
                errors.append(result.divergence.first_error)
            lines.append(
                f"| {rows} + {rows} | {move:g} | {move**2 / 2:.2f} | {np.mean(found):.3f} | "
                f"{np.std(found, ddof=1):.3f} | {np.mean(errors):.3f} |"
            )
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, help="so many repetitions; nothing is written")
    fewer = parser.parse_args().rows
    warnings.simplefilter("ignore")
    begin = time.perf_counter()
    of_power = power(fewer or N_NULL, fewer or N_CHANGED)
    of_size = small_tables(fewer or N_SMALL)
    of_divergence = divergences(min(fewer or 5, 5))
    page = [
        "# Comparing two tables",
        "",
        f"Share of pairs of tables with a p-value of at most {LEVEL} (`benchmarks/compare.py`). If "
        f"nothing changed ('none'), the share should be at most {LEVEL}; otherwise higher is "
        "better.",
        "",
        *of_power,
        "",
        "## The level for small and unequal tables, with other seeds and no change",
        "",
        *of_size,
        "",
        "## Divergence in nats per row, three normal columns, one of them moved",
        "",
        *of_divergence,
        "",
        f"{time.perf_counter() - begin:.0f} s on one core.",
    ]
    if not fewer:
        RESULTS.write_text("\n".join(page) + "\n", "utf-8")


if __name__ == "__main__":
    main()

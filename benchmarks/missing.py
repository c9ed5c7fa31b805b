"""KernelChain with missing cells, beside filling them in first.

    python benchmarks/missing.py [diabetes_continuous wine_recognition/2 …]

(KEXPFAM_DATA names the tables' folder.) Values of columns that are written with few digits are
first spread evenly over their cells. Otherwise, imputed values would lie between the written ones,
and a density that distinguishes them would be rewarded for it (on Pima, a table filled in by
forests has a higher likelihood than the complete one). Then 30 % of the cells of the training rows
of `splits.py` are removed at random. KernelChain is fitted to the incomplete table, and to tables
that scikit-learn's IterativeImputer has filled in: with regressions (its default), with draws from
them, and with random forests (as MissForest does). All are judged by the mean log-likelihood of
complete test rows, in units of the columns' standard deviations.

The fitted chain also imputes the removed cells 39 times. Coverage is the share of cells between the
second smallest and the second largest draw, which is 90 % if draws and cells have the same
distribution. The same is done for test rows, of which 30 % of the cells are removed. Training
rows are mostly covered a little less often, as the model has been fitted to what was drawn for
them. Large tables are cut to 3000 training rows, and the first 1000 rows are imputed. Figures are
means over seeds, each with its own split; standard errors of coverage are over rows.
Differences are those of the seed and the method where KernelChain is worst, with their standard
errors over test rows. Processor times are those of the fit to the incomplete table.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

from kexpfam import KernelChain
from kexpfam.data.ties import tied_gaps
from measure import RESULTS
from splits import REAL, Rows

# Tables, and seeds for each: of few rows, one split says little.
TABLES = {
    "diabetes_continuous": 5,
    "wine_recognition": 5,
    "breast_cancer": 4,
    "red_wine": 3,
    "white_wine": 2,
}
MOST_ROWS, MOST_IMPUTED, N_IMPUTATIONS, SHARE = 3000, 1000, 39, 0.3
STORE = RESULTS / "missing.json"


def imputers(seed: int) -> dict[str, IterativeImputer]:
    forest = RandomForestRegressor(30, random_state=seed)
    return {
        "regressions": IterativeImputer(random_state=seed),
        "drawn regressions": IterativeImputer(random_state=seed, sample_posterior=True),
        "forests": IterativeImputer(forest, random_state=seed, max_iter=4),
    }


def spread(rows: Rows, seed: int) -> Rows:
    """Values of coarsely written columns at random places of their cells."""
    gaps, generator = tied_gaps(rows.train), np.random.default_rng([seed, 1])
    return Rows(*(part + gaps * (generator.random(part.shape) - 0.5) for part in rows))


def with_holes(rows: np.ndarray, seed: int) -> np.ndarray:
    """With cells removed at random."""
    gone = np.random.default_rng(seed).random(rows.shape) < SHARE
    return np.where(gone, np.nan, rows)


def fitted(rows: np.ndarray) -> KernelChain:
    return KernelChain(columns="real", random_state=0).fit(rows)


def coverage(model: KernelChain, rows: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """The share of cells that imputations cover, and its standard error over rows."""
    gone = np.isnan(rows)
    draws = np.array([model.impute(rows, random_state=one) for one in range(N_IMPUTATIONS)])
    draws.sort(axis=0)
    covered = gone & (draws[1] <= truth) & (truth <= draws[-2])
    share = covered.sum() / gone.sum()
    # Of a ratio of sums over rows.
    away = covered.sum(axis=1) - share * gone.sum(axis=1)
    return float(share), float(np.sqrt((away**2).sum()) / gone.sum())


def measured(table: str, seed: int) -> dict[str, Any]:
    rows = spread(REAL[table](seed), seed)
    truth = rows.train[:MOST_ROWS]
    train = with_holes(truth, seed)
    start = time.process_time()
    model = fitted(train)
    seconds = time.process_time() - start
    own = model.score_samples(rows.test)
    covered, error = coverage(model, train[:MOST_IMPUTED], truth[:MOST_IMPUTED])
    fresh = with_holes(rows.test, seed + 1)
    fresh_covered, fresh_error = coverage(model, fresh[:MOST_IMPUTED], rows.test[:MOST_IMPUTED])
    found: dict[str, Any] = {
        "rows": len(train),
        "columns": train.shape[1],
        "seconds": seconds,
        "coverage": covered,
        "coverage_error": error,
        "coverage_of_test_rows": fresh_covered,
        "coverage_of_test_rows_error": fresh_error,
        "KernelChain": float(own.mean()),
        "differences": {},
    }
    for name, imputer in imputers(seed).items():
        other = fitted(imputer.fit_transform(train)).score_samples(rows.test)
        gains = own - other
        found[f"after {name}"] = float(other.mean())
        found["differences"][name] = [gains.mean(), gains.std() / np.sqrt(len(gains))]
    return found


def line_of(table: str, records: list[dict[str, Any]]) -> str:
    def mean(key: str) -> float:
        return float(np.mean([record[key] for record in records]))

    ways = ["KernelChain", *(f"after {name}" for name in imputers(0))]

    def covered(key: str) -> str:
        squares = np.sum([record[f"{key}_error"] ** 2 for record in records])
        return f"{mean(key):.3f} ± {np.sqrt(squares) / len(records):.3f}"

    worst = min(pair for record in records for pair in record["differences"].values())
    return (
        f"| {table} | {records[0]['rows']} | {records[0]['columns']} | {len(records)} "
        f"| {' | '.join(f'{mean(way):.2f}' for way in ways)} "
        f"| {worst[0]:+.2f} ± {worst[1]:.2f} | {covered('coverage')} "
        f"| {covered('coverage_of_test_rows')} | {mean('seconds'):.1f} |"
    )


def written(records: dict[str, dict[str, Any]]) -> str:
    names = list(imputers(0))
    lines = [
        "# Missing cells",
        "",
        (__doc__ or "").split("folder.) ", 1)[1].strip(),
        "",
        f"| table | rows | columns | seeds | KernelChain | after {' | after '.join(names)} "
        "| worst difference | coverage | of test rows | seconds |",
        "|---" * (len(names) + 9) + "|",
    ]
    for table in TABLES:
        own = [record for key, record in records.items() if key.split("/")[0] == table]
        lines += [line_of(table, own)] if own else []
    return "\n".join(lines) + "\n"


def main() -> None:
    warnings.simplefilter("ignore")
    for asked in sys.argv[1:] or TABLES:
        table, _, seed = asked.partition("/")
        for one in [int(seed)] if seed else range(TABLES[table]):
            found = measured(table, one)
            # Read now: another process may have added to it.
            records = json.loads(STORE.read_text("utf-8")) if STORE.exists() else {}
            records[f"{table}/{one}"] = found
            print(table, one, found, flush=True)
            STORE.write_text(json.dumps(records, indent=1, sort_keys=True) + "\n", "utf-8")
            (RESULTS / "missing.md").write_text(written(records), "utf-8")


if __name__ == "__main__":
    main()

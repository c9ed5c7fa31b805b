"""KernelChain with missing cells, beside filling them in first.

    python benchmarks/missing.py [diabetes_continuous …]

(KEXPFAM_DATA names the tables' folder.) Values of columns that are written with few digits are
spread evenly over their cells first: what is filled in lies between such values, and a density that
tells one from the other would be rewarded for it (on Pima, a table filled in by forests is likelier
than the one without holes). Of the training rows of `splits.py`, 30 % of the cells are taken out at
random. KernelChain is fitted to what is left, and to tables that scikit-learn's
IterativeImputer has filled in: with regressions (its default), with draws from them, and with
random forests (as MissForest does). All are judged by the mean log-likelihood of complete test
rows, in units of the columns' standard deviations. Then the cells that were taken out are imputed
39 times by the fitted chain, and the share of them is counted that lies between the second smallest
and the second largest draw: 90 % if draws and cells have one distribution. Large tables are cut to
3000 training rows. Means over seeds; differences with their standard errors over rows, of the seed
and the way where KernelChain is worst; seconds of processors for its fit to what is left.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

from kexpfam import KernelChain
from kexpfam.data.ties import tied_gaps
from measure import RESULTS
from splits import REAL, Rows

# Tables, and seeds for each.
TABLES = {
    "diabetes_continuous": 3,
    "wine_recognition": 3,
    "red_wine": 1,
    "white_wine": 1,
    "breast_cancer": 1,
}
MOST_ROWS, N_IMPUTATIONS, SHARE = 3000, 39, 0.3


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


def fitted(rows: np.ndarray) -> KernelChain:
    return KernelChain(columns="real", random_state=0).fit(rows)


def coverage(model: KernelChain, rows: np.ndarray, truth: np.ndarray) -> float:
    gone = np.isnan(rows)
    draws = np.array([model.impute(rows, random_state=one)[gone] for one in range(N_IMPUTATIONS)])
    draws.sort(axis=0)
    return float(np.mean((draws[1] <= truth[gone]) & (truth[gone] <= draws[-2])))


def main() -> None:
    warnings.simplefilter("ignore")
    names = list(imputers(0))
    lines = [
        "# Missing cells",
        "",
        (__doc__ or "").split("folder.) ", 1)[1].strip(),
        "",
        f"| table | rows | columns | seeds | KernelChain | after {' | after '.join(names)} "
        "| worst difference | coverage | seconds |",
        "|---" * (len(names) + 8) + "|",
    ]
    for table in sys.argv[1:] or TABLES:
        means, differences, covered, seconds = [], [], [], []
        for seed in range(TABLES.get(table, 1)):
            rows = spread(REAL[table](seed), seed)
            truth = rows.train[:MOST_ROWS]
            train = truth.copy()
            train[np.random.default_rng(seed).random(train.shape) < SHARE] = np.nan
            start = time.process_time()
            model = fitted(train)
            seconds.append(time.process_time() - start)
            own = model.score_samples(rows.test)
            others = [
                fitted(one.fit_transform(train)).score_samples(rows.test)
                for one in imputers(seed).values()
            ]
            means.append([own.mean(), *(one.mean() for one in others)])
            gains = [own - one for one in others]
            differences += [(one.mean(), one.std() / np.sqrt(len(one))) for one in gains]
            covered.append(coverage(model, train, truth))
            print(table, seed, np.round(means[-1], 3), round(covered[-1], 3), flush=True)
        worst = min(differences)
        cells = [f"{mean:.2f}" for mean in np.mean(means, axis=0)]
        lines.append(
            f"| {table} | {len(train)} | {train.shape[1]} | {len(means)} | {' | '.join(cells)} "
            f"| {worst[0]:+.2f} ± {worst[1]:.2f} | {np.mean(covered):.3f} "
            f"| {np.mean(seconds):.1f} |"
        )
        (RESULTS / "missing.md").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()

"""KernelChain with missing cells, beside filling them in first.

    python benchmarks/missing.py [diabetes_continuous …]

(KEXPFAM_DATA names the tables' folder.) Of the training rows of `splits.py`, 30 % of the cells are
taken out at random. KernelChain is fitted to what is left, and to tables that scikit-learn's
IterativeImputer has filled in: with regressions (its default), with draws from them, and with
random forests (as MissForest does). All are judged by the mean log-likelihood of complete test
rows, in units of the columns' standard deviations. Then the cells that were taken out are imputed
forty times by the fitted chain, and the share of them that lies between the 5 % and 95 % quantiles
of its draws is counted. Means over three seeds; differences with their standard errors over rows,
of the seed where KernelChain is worst.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

from kexpfam import KernelChain
from measure import RESULTS
from splits import REAL

TABLES = ("diabetes_continuous", "wine_recognition", "red_wine")
N_SEEDS, N_IMPUTATIONS, SHARE = 3, 40, 0.3


def imputers(seed: int) -> dict[str, IterativeImputer]:
    forest = RandomForestRegressor(30, random_state=seed)
    return {
        "regressions": IterativeImputer(random_state=seed),
        "drawn regressions": IterativeImputer(random_state=seed, sample_posterior=True),
        "forests": IterativeImputer(forest, random_state=seed, max_iter=4),
    }


def fitted(rows: np.ndarray) -> KernelChain:
    return KernelChain(columns="real", random_state=0).fit(rows)


def coverage(model: KernelChain, rows: np.ndarray, truth: np.ndarray) -> float:
    gone = np.isnan(rows)
    draws = np.array([model.impute(rows, random_state=one)[gone] for one in range(N_IMPUTATIONS)])
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    return float(np.mean((low <= truth[gone]) & (truth[gone] <= high)))


def main() -> None:
    warnings.simplefilter("ignore")
    names = list(imputers(0))
    lines = [
        "# Missing cells",
        "",
        (__doc__ or "").split("folder.) ", 1)[1].strip(),
        "",
        f"| table | KernelChain | after {' | after '.join(names)} | worst difference | coverage |",
        "|---" * (len(names) + 4) + "|",
    ]
    for table in sys.argv[1:] or TABLES:
        means, differences, covered = [], [], []
        for seed in range(N_SEEDS):
            rows = REAL[table](seed)
            train = rows.train.copy()
            train[np.random.default_rng(seed).random(train.shape) < SHARE] = np.nan
            model = fitted(train)
            own = model.score_samples(rows.test)
            others = [
                fitted(one.fit_transform(train)).score_samples(rows.test)
                for one in imputers(seed).values()
            ]
            means.append([own.mean(), *(one.mean() for one in others)])
            gains = [own - one for one in others]
            differences += [(one.mean(), one.std() / np.sqrt(len(one))) for one in gains]
            covered.append(coverage(model, train, rows.train))
            print(table, seed, np.round(means[-1], 3), round(covered[-1], 3), flush=True)
        worst = min(differences)
        cells = [f"{mean:.2f}" for mean in np.mean(means, axis=0)]
        lines.append(
            f"| {table} | {' | '.join(cells)} | {worst[0]:+.2f} ± {worst[1]:.2f} "
            f"| {np.mean(covered):.3f} |"
        )
        (RESULTS / "missing.md").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()

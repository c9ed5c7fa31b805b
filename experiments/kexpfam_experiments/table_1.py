"""Table 1: the UCI data sets, with and without noise and by Nyström."""

from __future__ import annotations

from typing import Any

import numpy as np

from kexpfam.base import AveragedMixtureBase
from kexpfam.datasets import load_miniboone, load_wine_quality
from kexpfam_experiments.harness import Experiment, Options, Record, Results, markdown_table
from kexpfam_experiments.measures import measure_model
from kexpfam_experiments.systems import QUICK_TUNING, fit_system

__all__ = ["DATASETS", "EXPERIMENT", "load"]

PROTOCOL = """
Red and white wine in the protocol of deep-kexpfam (duplicates kept, dequantized, PCA-whitened,
last tenth for testing; probably the paper's), three seeds of noise and permutation; and in ours
(exact duplicates dropped first, z-scored, two seeds), where no copy of a test row is in training.
MiniBooNE is the 40-column part (6862 training rows) z-scored, three seeds of the fit. 512
functions, mixture base, 60 Adam steps at rate 0.1, penalty and noise scale then by five folds. W₁
is the exact Wasserstein distance of (up to 2000) test rows to as many MALA draws, *floor* that to
training rows. *base* is the log-likelihood of the mixture that the models tilt. *Averaged base* is
the same model over an average of two larger mixtures (`base="averaged_mixture"`).

Against the paper. With the paper's kind of base (ten components) our DSM RFF stays about one nat
below its figures on wine, and so does every other system over that base: what decides is the base,
and how well it remembers copies of test rows. The averaged base, which is free to take one
component for every eight rows, has the paper's figure on red wine within the spread over seeds and
a better one on white. FSSD is alike (near zero, as for a perfect model), times are shorter; the W₁
cannot be compared, see below.

Caveats. The paper does not state its whitening; its Nyström log-likelihoods on wine (−17.2,
−17.8) are below those of a plain Gaussian in this protocol (−15.9, −15.3). Its W₁ (0.24 in eleven
whitened columns) is far below the floor between two samples of the data, so it cannot be the
plain distance. Our MiniBooNE log-likelihoods are for 40 columns in another scaling and cannot be
compared with the paper's at all; they are printed for the order among systems. Duplicates leak:
figures on the wine of deep-kexpfam are flattered by copies of test rows in training.
"""

SYSTEMS = ("DSM RFF", "SM RFF", "Nyström")
# Tried beside them on the paper's wine: the same, over a base that averages mixtures.
AVERAGED = "DSM RFF, averaged base"
# Log-likelihood, FSSD, Wasserstein distance, seconds.
PAPER: dict[tuple[str, str], tuple[float, ...]] = {
    ("red wine", "DSM RFF"): (-11.64, 0.38, 0.24, 62),
    ("red wine", "SM RFF"): (-11.72, 0.43, 0.25, 61),
    ("red wine", "Nyström"): (-17.23, 0.11, 0.73, 2e3),
    ("white wine", "DSM RFF"): (-12.81, 0.57, 0.33, 180),
    ("white wine", "SM RFF"): (-12.22, 0.53, 0.11, 180),
    ("white wine", "Nyström"): (-17.79, 0.23, 0.67, 1e4),
    ("miniboone", "DSM RFF"): (-93.11, 307.67, 0.49, 5e3),
    ("miniboone", "SM RFF"): (-4580.20, 2e8, 0.48, 5e3),
    ("miniboone", "Nyström"): (-46.06, 0.02, 0.75, 6e3),
}
DATASETS = (
    "red wine",
    "white wine",
    "red wine, deduplicated",
    "white wine, deduplicated",
    "miniboone",
)


def load(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit (training and validation: tuning splits them itself) and test rows."""
    if name == "miniboone":
        split: Any = load_miniboone(protocol="maf_40_columns")
        return split.train, split.test
    color, _, rest = name.partition(" ")
    protocol = "deduplicated" if "deduplicated" in rest else "deep_kexpfam"
    split = load_wine_quality(color, protocol=protocol, random_state=seed)
    return np.concatenate([split.train, split.validation]), split.test


def _cells(options: Options) -> list[tuple[str, ...]]:
    names, systems = (DATASETS[:1], SYSTEMS[:1]) if options.quick else (DATASETS, SYSTEMS)
    return [
        (name, system, str(run))
        for name in names
        for system in (*systems, *([AVERAGED] if name in DATASETS[:2] else []))
        for run in range(options.n_runs(2 if "deduplicated" in name else 3))
    ]


def _measure(cell: tuple[str, ...], options: Options) -> Record:
    name, system, run = cell
    train, test = load(name, int(run))
    train = train[: options.size(len(train), 150)]
    extra: dict[str, Any] = {"tuning": QUICK_TUNING} if options.quick else {}
    if system == AVERAGED:
        system, extra["base"] = SYSTEMS[0], AveragedMixtureBase(n_averaged=2)
    model, seconds = fit_system(
        system, train, int(run), n_components=options.size(512, 32), **extra
    )
    return {**measure_model(model, train, test, int(run)), "seconds": seconds}


def _table(results: Results) -> str:
    rows = []
    for name, system in dict.fromkeys(cell[:2] for cell in results.records):
        records = [r for cell, r in results.records.items() if cell[:2] == (name, system)]

        def mean(field: str, records: list[Record] = records) -> float:
            return float(np.mean([record[field] for record in records]))

        spread = float(np.std([record["log_likelihood"] for record in records]))
        paper = PAPER.get((name, system), (None,) * 4)
        rows.append(
            [
                name if system == SYSTEMS[0] else "",
                system,
                f"{mean('log_likelihood'):.2f} ± {spread:.2f}",
                paper[0],
                f"{mean('base'):.2f}",
                f"{mean('fssd'):.2f}",
                paper[1],
                f"{mean('fssd_p_value'):.2f}",
                f"{mean('wasserstein'):.2f}",
                paper[2],
                f"{mean('wasserstein_floor'):.2f}",
                f"{mean('seconds'):.0f}",
                paper[3],
            ]
        )
    headings = [
        "data", "system", "LL", "paper", "base", "FSSD", "paper", "p", "W₁", "paper", "floor",
        "seconds", "paper",
    ]  # fmt: skip
    return markdown_table(headings, rows)


EXPERIMENT = Experiment(
    name="table_1",
    title="Table 1: UCI data sets",
    protocol=PROTOCOL,
    cells=_cells,
    measure=_measure,
    table=_table,
)

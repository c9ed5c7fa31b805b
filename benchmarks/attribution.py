"""Which value makes a row unusual: how often the one that was shifted is found.

Run from the root of the repository:

    python benchmarks/attribution.py [--rows 150] [--repeats 1] [--only gaussian red_wine]

Models are fitted to the training and validation rows of a table. In each test row one value, in a
column drawn at random, is moved up or down by 2, 4 or 8 standard deviations of its column, and all
that several times with other draws, if asked. The value that `KernelChain.explain` names, the one
with the largest surprise given the others, is then held to be the culprit. Beside it stand the z
score of each value given the others under one Gaussian, and the largest |∂log p/∂x_j| times the
column's standard deviation. A shift of two standard deviations is often no surprise at all where a
column has little to do with the others; what can be found then is what the Gaussian finds, where
the rows are Gaussian. Results go to benchmarks/results/attribution.md.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

from kexpfam import KernelChain
from splits import REAL, Rows, shuffled

RESULTS = Path(__file__).parent / "results"
SHIFTS = (2, 4, 8)


def factors(seed: int) -> Rows:
    """Eight normal columns that follow three factors, with a seventh of the variance their own."""
    generator = np.random.default_rng(seed)
    loadings = generator.standard_normal((8, 3))
    loadings /= np.linalg.norm(loadings, axis=1, keepdims=True)
    rows = generator.standard_normal((3000, 3)) @ loadings.T
    return shuffled(rows + 0.4 * generator.standard_normal(rows.shape), seed)


TABLES = {"gaussian": factors, **REAL}
# Those that take minutes.
SHOWN = ("gaussian", "red_wine", "white_wine")


def conditional_z(train: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """|z| of every value given the others, under the Gaussian of the training rows."""
    precision = np.linalg.inv(np.cov(train.T))
    return np.abs((rows - train.mean(axis=0)) @ precision) / np.sqrt(np.diag(precision))


def shifted(rows: np.ndarray, size: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows with one value each moved, and the columns of those."""
    generator = np.random.default_rng(seed)
    columns = generator.integers(rows.shape[1], size=len(rows))
    moved = rows.copy()
    moved[np.arange(len(rows)), columns] += size * generator.choice([-1, 1], len(rows))
    return moved, columns


def measured(table: str, n_rows: int, repeats: int) -> str:
    rows = TABLES[table](0)
    train, test = np.concatenate([rows.train, rows.validation]), rows.test[:n_rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KernelChain(random_state=0).fit(train)
        found: dict[str, list[float]] = {"surprise": [], "z": [], "gradient": []}
        for number, size in enumerate(SHIFTS):
            moved, columns = shifted(np.tile(test, (repeats, 1)), size, number)
            sizes = {
                "surprise": model.explain(moved).surprise,
                "z": conditional_z(train, moved),
                "gradient": np.abs(model.gradient(moved)) * train.std(axis=0),
            }
            for name, each in sizes.items():
                found[name].append(float((each.argmax(axis=1) == columns).mean()))
    shares = " | ".join(", ".join(f"{100 * share:.1f}" for share in found[name]) for name in found)
    kind = "tilted" if model.has_tilt_ else "base alone"
    return f"| {table} | {train.shape[1]} | {repeats} × {len(test)} | {kind} | {shares} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=150)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=list(TABLES), default=list(SHOWN))
    arguments = parser.parse_args()
    lines = [
        "| table | columns | test rows | KernelChain | its surprise | Gaussian z given the others "
        "| gradient times standard deviation |",
        "|---" * 7 + "|",
    ]
    for table in arguments.only:
        lines.append(measured(table, arguments.rows, arguments.repeats))
        print(lines[-1], flush=True)
    (RESULTS / "attribution.md").write_text(
        "Percentage of rows in which the value that was shifted by 2, 4 and 8 standard deviations "
        "is found. Made by `python benchmarks/attribution.py`, which describes the protocol.\n\n"
        + "\n".join(lines)
        + "\n",
        "utf-8",
    )


if __name__ == "__main__":
    main()

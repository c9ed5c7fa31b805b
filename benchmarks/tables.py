"""KernelChain beside neural flows, mixtures, kernel density estimates and KernelDiffusion.

Run from the root of the repository, with the extra ``kexpfam[bench]`` (PyTorch and zuko):

    python benchmarks/tables.py [--seeds 3] [--only red_wine adult] [--methods KernelChain]
    python benchmarks/tables.py --fresh --beside 5      (all anew, five pairs of cores at a time)

Continuous tables: those of `splits.py`, z-scored by their training rows. Everybody is fitted to the
training rows alone; validation rows serve the flows to stop early and kernel density estimates to
choose a bandwidth, and nobody else. KernelChain takes all columns for real numbers here, so that
log densities can be compared; "KernelChain, fast" is `KernelChain(tilt="fast")`, and "averaged
mixture" is `KernelChain(tilt=None)`, its base density without regressions and tilts.
Every method has two cores to itself, and seconds are those of the clock on the wall. It is tried on
a few rows first, so that imports and programs of other shapes are not counted. The number of rows
that tune a kernel of KernelChain was decided on the validation rows of white wine, gas turbine and
MiniBooNE, and on synthetic tables. What "fast" leaves out was decided by the times of fits to
MiniBooNE and breast cancer; that an order of columns is tried less often, by those of MiniBooNE.

Mixed tables: Adult and Palmer penguins, from the folder that the environment variable KEXPFAM_DATA
names; a tenth of the rows tests. Log densities are per unit of columns with densities, and
probabilities otherwise, of what is there in a row. KernelChain is compared with the product of its
own marginals, each column fitted alone, and with latent classes (`latent_classes.py`), a mixture of
products. Kinds of columns are read from the training rows. KernelChain and the marginals find out
that body masses of penguins are multiples of 25 g and that people work 40 hours, which is worth
about three nats and one nat a row; latent classes do not look for that. The
log-likelihoods published for Adult with DEformer and ACE (2.66 and 2.38, which no probabilities of
counts can reach) are in units of scaled numbers, and their recipe is not told in full: no figure
here can be held to them.

In the committed results, gas turbine's flows and kernel density are those of an earlier run, on the
same kind of machine when it took 0.6 of the time for everything: beside the others of their row,
their times are too short.

Results go to benchmarks/results/tables.json as they come, so that a run that was stopped goes on,
and to tables.md: mean test log-likelihood with its standard error over rows (one seed) or over
seeds, seconds of fitting, and milliseconds a row to evaluate.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from flows import Outcome, diffusion_on_training_rows, flow, kernel_density, markdown
from kexpfam import KernelChain
from latent_classes import fit_latent_classes
from measure import machine
from splits import REAL, Rows

RESULTS = Path(__file__).parent / "results"


# -- continuous tables --------------------------------------------------------------------------


def chain(rows: Rows, seed: int, **settings: Any) -> Outcome:
    start = time.perf_counter()
    model = KernelChain(columns="real", random_state=seed, **settings).fit(rows.train)
    middle = time.perf_counter()
    logs = model.score_samples(rows.test)
    return Outcome(logs, middle - start, time.perf_counter() - middle)


def fast_chain(rows: Rows, seed: int) -> Outcome:
    return chain(rows, seed, tilt="fast")


def averaged_mixture(rows: Rows, seed: int) -> Outcome:
    return chain(rows, seed, tilt=None)


METHODS: dict[str, Callable[[Rows, int], Outcome]] = {
    "KernelChain": chain,
    "KernelChain, fast": fast_chain,
    "averaged mixture": averaged_mixture,
    "KernelDiffusion": diffusion_on_training_rows,
    "MAF": flow("MAF"),
    "NSF": flow("NSF"),
    "kernel density": kernel_density,
}


# -- mixed tables -------------------------------------------------------------------------------


class Frames(NamedTuple):
    """Rows to train and to test with."""

    train: pd.DataFrame
    test: pd.DataFrame


def split_frame(name: str, seed: int) -> Frames:
    folder = Path(os.environ["KEXPFAM_DATA"]) / "mixed"
    if name == "adult":
        table = pd.read_csv(folder / "adult.data", sep=", ", engine="python", na_values="?")
    else:
        table = pd.read_csv(folder / "penguins.csv")
    table = table.sample(frac=1.0, random_state=seed)
    tenth = len(table) // 10
    return Frames(table.iloc[tenth:], table.iloc[:tenth])


def mixed_chain(frames: Frames, seed: int) -> Outcome:
    start = time.perf_counter()
    model = KernelChain(random_state=seed).fit(frames.train)
    middle = time.perf_counter()
    logs = model.score_samples(frames.test)
    return Outcome(logs, middle - start, time.perf_counter() - middle)


def marginals(frames: Frames, seed: int) -> Outcome:
    logs, fitting, evaluating = np.zeros(len(frames.test)), 0.0, 0.0
    for column in frames.train.columns:
        there = Frames(*(part[[column]] for part in frames))
        own = mixed_chain(Frames(there.train[there.train[column].notna()], there.test), seed)
        logs, fitting = logs + own.logs, fitting + own.fit_seconds
        evaluating += own.evaluate_seconds
    return Outcome(logs, fitting, evaluating)


def classes(frames: Frames, seed: int) -> Outcome:
    start = time.perf_counter()
    logs_of, _ = fit_latent_classes(frames.train, seed)
    middle = time.perf_counter()
    logs = logs_of(frames.test)
    return Outcome(logs, middle - start, time.perf_counter() - middle)


MIXED: dict[str, Callable[[Frames, int], Outcome]] = {
    "KernelChain": mixed_chain,
    "latent classes": classes,
    "product of marginals": marginals,
}
MIXED_TABLES = ("penguins", "adult")
ONE_SEED = ("gas_turbine", "miniboone_40", "adult")
LONGEST_FIRST = [*ONE_SEED, *(name for name in (*REAL, *MIXED_TABLES) if name not in ONE_SEED)]


# -- the run ------------------------------------------------------------------------------------


def a_row(record: dict[str, float]) -> str:
    return f"{1e3 * record['evaluate_seconds'] / record['rows']:.2g} ms"


def read(store: Path) -> dict[str, dict[str, float]]:
    return json.loads(store.read_text("utf-8")) if store.exists() else {}


def keep(records: dict[str, dict[str, float]], store: Path) -> None:
    part = store.with_suffix(".part")
    part.write_text(json.dumps(records, indent=1, sort_keys=True) + "\n", "utf-8")
    os.replace(part, store)


def rows_of(table: str, seed: int) -> Any:
    return split_frame(table, seed) if table in MIXED_TABLES else REAL[table](seed)


def methods_of(table: str) -> dict[str, Callable[[Any, int], Outcome]]:
    return MIXED if table in MIXED_TABLES else METHODS


def measured(table: str, method: str, seed: int) -> dict[str, float]:
    rows, run = rows_of(table, seed), methods_of(table)[method]
    run(type(rows)(*(part[:200] for part in rows)), seed)
    logs, fitting, evaluating = run(rows, seed)
    return {
        "mean": float(logs.mean()),
        "error": float(logs.std() / np.sqrt(len(logs))),
        "rows": len(logs),
        "fit_seconds": fitting,
        "evaluate_seconds": evaluating,
    }


def measured_apart(key: str, cores: set[int]) -> dict[str, float]:
    """The same in a process of its own that has some of the cores."""
    command = [sys.executable, __file__, "--one", key]
    environment = {**os.environ, "OMP_NUM_THREADS": str(len(cores))}
    environment["OPENBLAS_NUM_THREADS"] = environment["OMP_NUM_THREADS"]
    done = subprocess.run(
        command,
        **{"env": environment, "stdout": subprocess.PIPE, "text": True, "check": True},
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    return json.loads(done.stdout.splitlines()[-1])


def run(arguments: argparse.Namespace, store: Path) -> dict[str, dict[str, float]]:
    records = {} if arguments.fresh else read(store)
    keys = [
        f"{table}/{method}/{seed}"
        for table in sorted(arguments.only, key=LONGEST_FIRST.index)
        for seed in range(arguments.seeds if table not in ONE_SEED else 1)
        for method in reversed(arguments.methods)
        if method in methods_of(table)
    ]
    available = sorted(os.sched_getaffinity(0))
    pairs: queue.Queue[set[int]] = queue.Queue()
    for number in range(arguments.beside):
        pairs.put(set(available[2 * number : 2 * number + 2]))

    def one(key: str) -> None:
        cores = pairs.get()
        try:
            records[key] = measured_apart(key, cores)
            print(key, records[key], flush=True)
            keep(dict(records), store)
        finally:
            pairs.put(cores)

    with ThreadPoolExecutor(arguments.beside) as pool:
        list(pool.map(one, [key for key in keys if key not in records]))
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    tables, methods = [*REAL, *MIXED_TABLES], list(dict.fromkeys([*METHODS, *MIXED]))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=tables, default=tables)
    parser.add_argument("--methods", nargs="*", choices=methods, default=methods)
    parser.add_argument("--fresh", action="store_true", help="start with an empty results file")
    parser.add_argument("--beside", type=int, default=1, help="pairs of cores to work on")
    parser.add_argument("--one", help="table/method/seed: print its record, and nothing else")
    arguments = parser.parse_args()
    if arguments.one:
        table, method, seed = arguments.one.split("/")
        print(json.dumps(measured(table, method, int(seed))))
        return
    RESULTS.mkdir(exist_ok=True)
    records = run(arguments, RESULTS / "tables.json")
    text = (
        "Mean test log-likelihood ± standard error (seconds to fit, milliseconds a row to "
        "evaluate). Made by `python benchmarks/tables.py`, which describes the protocol. Times are "
        f"wall times, with two cores of {machine()['processor']} for every method.\n\n"
        f"{markdown(records, list(REAL), list(METHODS), a_row)}\n\n"
        "Tables of mixed columns. Their log densities have other units than those above, and "
        "cannot be compared with them.\n\n"
        f"{markdown(records, list(MIXED_TABLES), list(MIXED), a_row)}\n"
    )
    (RESULTS / "tables.md").write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()

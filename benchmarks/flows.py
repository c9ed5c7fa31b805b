"""KernelDiffusion beside neural flows, mixtures and kernel density estimates, in one run.

Run from the root of the repository, with the extra ``kexpfam[bench]`` (PyTorch and zuko):

    python benchmarks/flows.py [--seeds 3] [--only red_wine white_wine] [--methods MAF]

Every method sees the same training and validation rows (z-scored by the training rows) and is
judged on the same test rows. Flows (zuko's MAF, 5 transforms of (64, 64), and NSF, 3 of (64, 64))
train with Adam at 1e-3 and batches of 256 until the validation loss has not improved for 30
epochs, and keep the best epoch. Mixtures and kernel density estimates are chosen on the
validation rows. KernelDiffusion has its defaults on all tables; it gets training and validation
rows together, holds out some itself and then fits to all, which the flows cannot.
Results go to benchmarks/results/flows.json as they come, and to flows.md: mean test
log-likelihood with its standard error over rows (one seed) or over seeds, seconds of fitting and
of evaluating.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity

from kexpfam import KernelDiffusion
from neural import train_until_it_stops_improving
from splits import KNOWN, REAL, Rows

RESULTS = Path(__file__).parent / "results"


class Outcome(NamedTuple):
    """Test log densities and times."""

    logs: np.ndarray
    fit_seconds: float
    evaluate_seconds: float


TABLES: dict[str, Callable[[int], Rows]] = {
    **{name: table for name, table in REAL.items() if name != "gas_turbine"},
    **KNOWN,
}


# -- methods ------------------------------------------------------------------------------------


def diffusion(rows: Rows, seed: int) -> Outcome:
    return fitted_diffusion(np.concatenate([rows.train, rows.validation]), rows, seed)


def diffusion_on_training_rows(rows: Rows, seed: int) -> Outcome:
    return fitted_diffusion(rows.train, rows, seed)


def fitted_diffusion(given: np.ndarray, rows: Rows, seed: int) -> Outcome:
    start = time.perf_counter()
    model = KernelDiffusion(random_state=seed).fit(given)
    middle = time.perf_counter()
    logs = model.score_samples(rows.test)
    return Outcome(logs, middle - start, time.perf_counter() - middle)


def mixture(rows: Rows, seed: int) -> Outcome:
    start = time.perf_counter()
    candidates = []
    for size in (1, 2, 3, 5, 8, 12, 20, 30):
        if size * 5 > len(rows.train):
            break
        for regularization in (1e-4, 1e-3, 1e-2, 1e-1):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = GaussianMixture(size, reg_covar=regularization, random_state=seed)
                candidates.append(model.fit(rows.train))
    best = max(candidates, key=lambda model: model.score(rows.validation))
    middle = time.perf_counter()
    logs = best.score_samples(rows.test)
    return Outcome(logs, middle - start, time.perf_counter() - middle)


def kernel_density(rows: Rows, seed: int) -> Outcome:
    start = time.perf_counter()
    widths = np.geomspace(0.03, 2, 25)
    candidates = [KernelDensity(bandwidth=width).fit(rows.train) for width in widths]
    best = max(candidates, key=lambda model: model.score(rows.validation))
    middle = time.perf_counter()
    logs = best.score_samples(rows.test)
    return Outcome(logs, middle - start, time.perf_counter() - middle)


def flow(kind: str) -> Callable[[Rows, int], Outcome]:
    def method(rows: Rows, seed: int) -> Outcome:
        import torch
        import zuko

        torch.manual_seed(seed)
        columns = rows.train.shape[1]
        if kind == "MAF":
            model = zuko.flows.MAF(columns, 0, transforms=5, hidden_features=(64, 64))
        else:
            model = zuko.flows.NSF(columns, 0, transforms=3, hidden_features=(64, 64))
        train, validation, test = (torch.tensor(part, dtype=torch.float32) for part in rows)
        start = time.perf_counter()
        train_until_it_stops_improving(
            model,
            len(train),
            lambda batch: -model().log_prob(train[batch]).mean(),
            lambda: -model().log_prob(validation).mean(),
        )
        middle = time.perf_counter()
        with torch.no_grad():
            logs = model().log_prob(test).numpy().astype(float)
        return Outcome(logs, middle - start, time.perf_counter() - middle)

    return method


METHODS: dict[str, Callable[[Rows, int], Outcome]] = {
    "KernelDiffusion": diffusion,
    "MAF": flow("MAF"),
    "NSF": flow("NSF"),
    "Gaussian mixture": mixture,
    "kernel density": kernel_density,
    "KernelDiffusion, training rows alone": diffusion_on_training_rows,
}


# -- the run ------------------------------------------------------------------------------------


def markdown(
    records: dict[str, dict[str, float]],
    tables: list[str],
    methods: list[str],
    evaluation: Callable[[dict[str, float]], str],
) -> str:
    """A row for each table; `evaluation` says how long a record took to evaluate."""
    lines = [f"| table | {' | '.join(methods)} |", "|---" * (len(methods) + 1) + "|"]
    for table in tables:
        cells = []
        for method in methods:
            found = [r for key, r in records.items() if key.startswith(f"{table}/{method}/")]
            if not found:
                cells.append("–")
                continue
            means = [record["mean"] for record in found]
            error = np.std(means) / np.sqrt(len(means)) if len(means) > 1 else found[0]["error"]
            middle = sorted(found, key=lambda record: record["fit_seconds"])[len(found) // 2]
            seconds = middle["fit_seconds"]
            taken = f"{seconds:.0f}" if seconds > 10 else f"{seconds:.1f}"
            cells.append(f"{np.mean(means):.2f} ± {error:.2f} ({taken} s, {evaluation(middle)})")
        lines.append(f"| {table} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--methods", nargs="*", choices=list(METHODS), default=list(METHODS))
    arguments = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    store = RESULTS / "flows.json"
    records = json.loads(store.read_text("utf-8")) if store.exists() else {}
    for table in arguments.only:
        for seed in range(arguments.seeds):
            rows = TABLES[table](seed)
            for method in arguments.methods:
                key = f"{table}/{method}/{seed}"
                if key in records:
                    continue
                logs, fitting, evaluating = METHODS[method](rows, seed)
                records[key] = {
                    "mean": float(logs.mean()),
                    "error": float(logs.std() / np.sqrt(len(logs))),
                    "fit_seconds": fitting,
                    "evaluate_seconds": evaluating,
                }
                print(key, records[key], flush=True)
                part = store.with_suffix(".part")
                part.write_text(json.dumps(records, indent=1, sort_keys=True) + "\n", "utf-8")
                os.replace(part, store)
    text = markdown(
        records, list(TABLES), list(METHODS), lambda record: f"{record['evaluate_seconds']:.1f} s"
    )
    (RESULTS / "flows.md").write_text(
        "Mean test log-likelihood ± standard error (seconds to fit, to evaluate). Made by "
        f"`python benchmarks/flows.py`, which describes the protocol.\n\n{text}\n",
        "utf-8",
    )
    print(text)


if __name__ == "__main__":
    main()

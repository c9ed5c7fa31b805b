"""All systems on all eight densities: test log-likelihood, Fisher divergence, time."""

from __future__ import annotations

from typing import Any

import numpy as np

from kexpfam.datasets import DENSITIES, make_density
from kexpfam.metrics import fisher_divergence
from kexpfam.normalizer import QuadratureNormalizer
from kexpfam_experiments.harness import Experiment, Options, Record, Results, markdown_table
from kexpfam_experiments.systems import QUICK_TUNING, SYSTEMS, fit_system

__all__ = ["EXPERIMENT"]

PROTOCOL = """
1000 rows of each density, 256 functions, mixture base, every setting tuned (60 Adam steps, then
five folds), three seeds; 5000 fresh rows. *LL* is the mean test log-likelihood with log Z by
quadrature, so that no system profits from a bad normalizer; *F* the Fisher divergence ½E|∇log p −
∇log q|² to the truth (on its support); *seconds* the median time of a fit, on a machine with
other work: read it to a factor of two. The exact solution has 3000 functions here. "Base" is the
mixture that all of them tilt. One seed of Taylor DSM on the cosine has a spike of f far from the
rows that its own normalizer missed (−98 where the other two have −3.6). Higher LL and lower F are
better; the best of each row is bold.
"""


def _cells(options: Options) -> list[tuple[str, ...]]:
    names = ["uniform"] if options.quick else list(DENSITIES)
    systems = ("DSM RFF", "Nyström DSM") if options.quick else SYSTEMS
    # Systems outermost: one of them is compiled at a time.
    return [
        (system, name, str(run))
        for system in systems
        for name in names
        for run in range(options.n_runs(3))
    ]


def _measure(cell: tuple[str, ...], options: Options) -> Record:
    system, name, run = cell
    density, seed = make_density(name), int(run)
    train = density.sample(options.size(1000, 150), random_state=seed)
    test = density.sample(options.size(5000, 150), random_state=1000 + seed)
    extra: dict[str, Any] = {"n_components": options.size(256, 32)}
    if options.quick:
        extra["tuning"] = QUICK_TUNING
    model, seconds = fit_system(system, train, seed, **extra)
    rule = QuadratureNormalizer(tolerance=1e-4)
    exact = rule.estimate(model.density_, np.random.default_rng(0)).log_normalizer
    return {
        "log_likelihood": model.score(test) + model.log_normalizer_ - exact,
        "fisher": fisher_divergence(model, test, density.gradient(test)),
        "base": float(model.base_.log_density(test).mean()),
        "truth": float(density.log_density(test).mean()),
        "seconds": seconds,
        "noise_scale": model.noise_scale_,
        "penalty": model.penalty_ if np.isfinite(model.penalty_) else "infinite",
    }


def _means(results: Results, field: str) -> dict[tuple[str, str], float]:
    values: dict[tuple[str, str], list[float]] = {}
    for (system, name, _), record in results.records.items():
        values.setdefault((system, name), []).append(record[field])
    return {key: float(np.mean(value)) for key, value in values.items()}


def _all(results: Results, system: str) -> list[float]:
    return [record["seconds"] for cell, record in results.records.items() if cell[0] == system]


def _bold(values: list[float], best: Any, digits: int = 3) -> list[str]:
    chosen = best(values)
    return [f"**{v:.{digits}f}**" if v == chosen else f"{v:.{digits}f}" for v in values]


def _table(results: Results) -> str:
    systems = list(dict.fromkeys(system for system, _, _ in results.records))
    names = list(dict.fromkeys(name for _, name, _ in results.records))
    likelihoods, fishers = _means(results, "log_likelihood"), _means(results, "fisher")
    base, truth = _means(results, "base"), _means(results, "truth")
    first = [
        [
            name,
            truth[systems[0], name],
            base[systems[0], name],
            *_bold([likelihoods[system, name] for system in systems], max),
        ]
        for name in names
    ]
    second = [[name, *_bold([fishers[system, name] for system in systems], min)] for name in names]
    times = [["seconds", *(f"{np.median(_all(results, system)):.1f}" for system in systems)]]
    return "\n\n".join(
        [
            "**LL**",
            markdown_table(["density", "truth", "base", *systems], first),
            "**F**, and the median time of a fit",
            markdown_table(["density", *systems], second + times),
        ]
    )


EXPERIMENT = Experiment(
    name="comparison",
    title="All systems on the eight densities",
    protocol=PROTOCOL,
    cells=_cells,
    measure=_measure,
    table=_table,
)

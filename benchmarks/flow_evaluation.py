"""Log densities of KernelDiffusion: what the tilt adds, or the whole log density, along the flow.

python benchmarks/flow_evaluation.py [table ...]

`score_samples` integrates what the tilt adds to the log density of the base. The other way,

    log p(z) = log q(z(T)) − ∫ σ² (Δf + Δlog q) dt,

needs the mixture's second derivatives at every step, and meets the errors of the base's own flow.
It takes the same fifth-order steps here, twice as many until nine of ten log densities are as close
to a fine reference as those of `score_samples`. Tilts are kept whatever the gates say of them. True
errors are differences to eight times as many steps. Times are wall seconds, the least of three
calls after one that is not counted (it compiles). What is named is measured anew.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kexpfam import KernelDiffusion
from kexpfam.model.flow import _carried, flow_times, flow_up
from kexpfam.model.flow_density import FlowDensity
from kexpfam.model.score_field import ScoreField
from kexpfam.precision import compiled
from kexpfam.symmetric import form_coefficients, upper_half
from measure import RESULTS, save
from prediction import table as bent_table
from splits import REAL

ASKED, JUDGED, BLOCK = 1000, 256, 128
MOST_STEPS = 64


def smooth_table(count: int = 34_000) -> np.ndarray:
    """Eight uniform columns, and a smooth function of them with a little noise."""
    generator = np.random.default_rng(0)
    inputs = generator.uniform(-1, 1, (count, 8))
    target = np.sin(2 * inputs[:, 0] + inputs[:, 1]) + inputs[:, 2] * inputs[:, 3]
    target += 0.5 * np.cos(3 * inputs[:, 4]) + 0.3 * inputs[:, 5] ** 2 - 0.2 * inputs[:, 6]
    return np.column_stack([inputs, target + 0.05 * generator.standard_normal(count)])


def smooth() -> tuple[np.ndarray, np.ndarray]:
    rows = smooth_table()
    return rows[:32_000], rows[32_000:]


def bent() -> tuple[np.ndarray, np.ndarray]:
    rows = bent_table()
    return rows[:10_000], rows[10_000:]


def real(name: str) -> tuple[np.ndarray, np.ndarray]:
    split = REAL[name](0)
    return split.train, split.test


TABLES: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "bent_11_columns": bent,
    "smooth_9_columns": smooth,
    "gas_turbine": lambda: real("gas_turbine"),
    "miniboone_40": lambda: real("miniboone_40"),
}


def laplacian_at(field: ScoreField, time: Any) -> Callable[[Any], Any]:
    """Δlog q_σ = Σ_k r_k (|s_k|² − tr P_k) − |s|², by products with the rows' monomials."""
    base, scale = field.base, jnp.exp(time)
    inverses = 1 / (base.variances + scale**2)
    squares = inverses**2
    axes = jnp.asarray(base.axes)
    n_columns = axes.shape[1]
    along = jnp.einsum("kde,kd->ke", axes, base.means)
    halves = upper_half((axes * squares[:, None, :]) @ axes.swapaxes(1, 2))
    forms = form_coefficients(halves, n_columns)
    pulls = jnp.einsum("kde,ke->kd", axes, squares * along)
    constants = (squares * along**2).sum(axis=1) - inverses.sum(axis=1)
    one, other = np.triu_indices(n_columns)
    mixture = base.at(scale)

    def laplacian(rows: Any) -> Any:
        shares = jax.nn.softmax(mixture.logs(rows), axis=1)
        score = mixture.mean_score(shares, rows)
        sizes = constants - 2 * rows @ pulls.T + (rows.T[one] * rows.T[other]).T @ forms.T
        return score, (shares * sizes).sum(axis=1) - (score**2).sum(axis=1)

    return laplacian


@compiled
def whole(field: ScoreField, rows: Any, times: Any, n_steps: Any) -> Any:
    """log p by integrating all of it."""

    def speed(time: Any, state: Any) -> Any:
        places = state[0]
        coefficients, variance = field.coefficients_at(time), jnp.exp(2 * time)
        score, bend = laplacian_at(field, time)(places)
        score = score + field.basis.gradient(coefficients, places)
        bend = bend + field.basis.laplacian(coefficients, places, jnp.ones(places.shape[1]))
        return -variance * score, -variance * bend

    ends, changes, _ = _carried(lambda time: time, speed, rows, times, n_steps)
    return field.base.log_density(ends, jnp.exp(field.knots[-1])) + changes.sum(axis=0)


def by_the_whole(density: FlowDensity, whitened: np.ndarray, steps: np.ndarray) -> np.ndarray:
    times, count = flow_times(density.field.knots, steps), int(steps.sum())
    pieces = np.split(whitened, len(whitened) // BLOCK)
    return np.concatenate([whole(density.field, piece, times, count) for piece in pieces])


def least_seconds(function: Callable[[], Any]) -> float:
    function()
    times = []
    for _ in range(3):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def at_quantiles(values: np.ndarray) -> dict[str, float]:
    return {
        "median": float(np.median(values)),
        "nine_of_ten": float(np.quantile(values, 0.9)),
        "largest": float(values.max()),
    }


def measured(name: str) -> dict[str, Any]:
    training, rows = TABLES[name]()
    model = KernelDiffusion(n_components=1024, gate=False, random_state=0).fit(training)
    density, asked = model.density_, rows[:ASKED]
    seconds = least_seconds(lambda: model.score_samples(asked)) / len(asked)
    _, stated = model.score_samples(asked, return_error=True)

    whitened = density.coordinates.forward(rows[:JUDGED])
    base = density.untilted().log_density(rows[:JUDGED])
    base = base - density.coordinates.log_jacobian(rows[:JUDGED])
    gains, _ = flow_up(density.field, whitened, density.steps)
    fine, _ = flow_up(density.field, whitened, 8 * density.steps)
    errors = np.abs(gains - fine)

    steps = np.ones_like(density.steps)
    while True:
        others = np.abs(by_the_whole(density, whitened, steps) - base - fine)
        if np.quantile(others, 0.9) <= np.quantile(errors, 0.9) or steps.sum() > MOST_STEPS:
            break
        steps = 2 * steps
    other_seconds = least_seconds(lambda: by_the_whole(density, whitened, steps)) / JUDGED
    return {
        "training_rows": len(training),
        "columns": training.shape[1],
        "components": int(np.isfinite(np.asarray(density.field.base.log_weights)).sum()),
        "steps": density.steps.tolist(),
        "microseconds_per_row": round(1e6 * seconds, 1),
        "stated_error": at_quantiles(stated),
        "true_error": at_quantiles(errors),
        "whole_log_density": {
            "steps": int(steps.sum()),
            "microseconds_per_row": round(1e6 * other_seconds, 1),
            "true_error": at_quantiles(others),
        },
        "times_faster": round(other_seconds / seconds, 1),
    }


def main() -> None:
    named = sys.argv[1:]
    found: dict[str, Any] = {}
    if named:
        found = json.loads((RESULTS / "flow_evaluation.json").read_text("utf-8"))["tables"]
    for name in named or TABLES:
        found[name] = measured(name)
        print(name, found[name])
        save(
            "flow_evaluation",
            {"command": "python benchmarks/flow_evaluation.py", "tables": found},
        )


if __name__ == "__main__":
    main()

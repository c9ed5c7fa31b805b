"""What a fit costs: a few rates from some measured points, checked on others, and carried on.

    python benchmarks/costs.py

Nothing is measured here; the points are those of `scaling.py`, `gpu.py` and `cluster.py`. A fit of
`KernelExponentialFamily` to n rows of d columns with m functions takes

    seconds = constant + n·m² / flops + 8·n·d / bytes + m³ / solving
    bytes   = constant + columns·d + sums·8·m²

with rates that are not negative, by least squares of relative errors at some of the points. On an
accelerator the pass over the rows alone is measured, n·m² / flops + n·m / values, and checked with
another base density. On W workers each has the rate of one that was measured, which is checked with
two, and summaries of partitions of a million rows are added in a tree of four branches over a
network of 1 GiB/s.

Of every estimator, `growth.py` has the seconds of one core. From 100,000 rows on choices follow
from a sample, or from some of the rows, and the rest is a pass,

    seconds = constant + n · seconds a row,

a line through 100,000 rows and the most, which those between check. Workers share the pass and wait
for the constant. On an accelerator the points are those of `gpu_growth.py`; conditional densities
are NumPy throughout and have none.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from scipy.optimize import nnls

from measure import RESULTS, save

RATES = ("flops", "bytes", "solving")
# From so many rows on a fit is a pass and a constant.
_LINEAR = 100_000
PARTITION, BRANCHES, NETWORK = 1_000_000, 4, 2.0**30
# What the model is fitted to; all other points check it.
FITTED = {
    (10_000, 11, 1024),
    (100_000, 11, 1024),
    (1_000_000, 11, 1024),
    (100_000, 11, 256),
    (100_000, 11, 2048),
    (100_000, 2, 1024),
    (100_000, 43, 1024),
}
# What it predicts: rows, columns, functions.
ASKED = [(10**k, 11, 1024) for k in (6, 8, 9, 10, 11)]
WORKERS = {8: 16, 9: 64, 10: 256, 11: 1024}


def terms(point: dict[str, Any]) -> np.ndarray:
    """What the constant and the inverse rates are multiplied with."""
    n, d, m = (float(point[name]) for name in ("rows", "columns", "functions"))
    return np.array([1.0, n * m**2, 8 * n * d, m**3])


def memory_terms(point: dict[str, Any]) -> np.ndarray:
    return np.array([1.0, float(point["columns"]), 8.0 * point["functions"] ** 2])


def relative_fit(rows: list[np.ndarray], values: list[float]) -> np.ndarray:
    """Coefficients ≥ 0 with the least sum of squared relative errors."""
    table = np.array(rows) / np.array(values)[:, None]
    scales = np.abs(table).max(axis=0)
    found, _ = nnls(table / scales, np.ones(len(values)))
    return found / scales


def read(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def on_two_cores() -> tuple[np.ndarray, np.ndarray, list[dict[str, Any]]]:
    """The model's coefficients, those of memory, and every point with what is predicted for it."""
    scaling = read("scaling")
    points = {}
    for kind in ("rows", "functions", "columns", "checks"):
        for point in scaling.get(kind, []):
            points[point["rows"], point["columns"], point["functions"]] = point
    fitted = [points[key] for key in sorted(FITTED)]
    model = relative_fit([terms(p) for p in fitted], [p["seconds"] for p in fitted])
    memory = relative_fit([memory_terms(p) for p in fitted], [p["peak_bytes"] for p in fitted])
    told = []
    for key, point in sorted(points.items()):
        seconds, peak = float(terms(point) @ model), float(memory_terms(point) @ memory)
        told.append(
            {
                **point,
                "fitted": key in FITTED,
                "predicted_seconds": seconds,
                "relative_error": seconds / point["seconds"] - 1,
                "predicted_peak_bytes": peak,
                "relative_error_of_memory": peak / point["peak_bytes"] - 1,
            }
        )
    return model, memory, told


def pass_terms(point: dict[str, Any]) -> np.ndarray:
    """Of the pass over the rows, without a constant."""
    n, m = float(point["rows"]), float(point["functions"])
    return np.array([n * m**2, n * m])


def on_accelerator() -> tuple[np.ndarray, float]:
    """Inverse rates in float64 over a Gaussian base, and the largest error with a mixture."""
    points = [one for one in read("gpu")["moments"] if one["precision"] == "double"]
    fitted = [one for one in points if one["base_components"] == 1]
    model = relative_fit([pass_terms(one) for one in fitted], [one["seconds"] for one in fitted])
    checked = [one for one in points if one["base_components"] > 1]
    errors = [float(pass_terms(one) @ model) / one["seconds"] - 1 for one in checked]
    return model, max(errors, key=abs)


def on_cluster(rows: float, functions: int, workers: int) -> dict[str, float]:
    """Seconds of the pass, levels of the tree and GiB that are moved."""
    record = read("cluster")
    one = next(run for run in record["runs"] if run["workers"] == 1)
    flops = one["rows"] * record["functions"] ** 2 / one["seconds"]
    partitions = max(1, math.ceil(rows / PARTITION))
    levels = math.ceil(math.log(partitions, BRANCHES)) if partitions > 1 else 0
    summary = 8 * functions**2
    return {
        "seconds": rows * functions**2 / flops / workers + levels * BRANCHES * summary / NETWORK,
        "levels": levels,
        "gibibytes_moved": partitions * summary * BRANCHES / (BRANCHES - 1) / 2**30,
    }


def error_with_two_workers() -> float:
    record = read("cluster")
    two = next(run for run in record["runs"] if run["workers"] == 2)
    return on_cluster(two["rows"], record["functions"], 2)["seconds"] / two["seconds"] - 1


def line_of(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Constant and seconds a row between the first run from 100,000 rows on and the last."""
    large = sorted((run for run in runs if run["rows"] >= _LINEAR), key=lambda run: run["rows"])
    first, last = large[0], large[-1]
    slope = (last["fit_seconds"] - first["fit_seconds"]) / (last["rows"] - first["rows"])
    slope = max(slope, 0.0)
    constant = max(first["fit_seconds"] - slope * first["rows"], 0.0)
    errors = {
        str(run["rows"]): (constant + slope * run["rows"]) / run["fit_seconds"] - 1
        for run in large[1:-1]
    }
    return {
        "constant_seconds": constant,
        "seconds_a_row": slope,
        "megabytes": max(run.get("megabytes", 0.0) for run in large),
        "relative_errors": errors,
    }


def accelerated(name: str) -> dict[str, Any] | None:
    """The line on an accelerator, where it was measured."""
    runs = [run for run in read("gpu_growth")["runs"] if run["estimator"] == name]
    return line_of(runs) if runs else None


def of_every_estimator() -> dict[str, Any]:
    runs, found = read("growth")["runs"], {}
    for name in dict.fromkeys(run["estimator"] for run in runs):
        line = line_of([run for run in runs if run["estimator"] == name])
        device = accelerated(name)
        line["predictions"] = [
            {
                "rows": rows,
                "seconds_on_one_core": line["constant_seconds"] + rows * line["seconds_a_row"],
                "seconds_on_an_accelerator": device
                and device["constant_seconds"] + rows * device["seconds_a_row"],
                "workers": (workers := WORKERS.get(round(math.log10(rows)), 1)),
                "seconds_on_workers": line["constant_seconds"]
                + rows * line["seconds_a_row"] / workers,
            }
            for rows, _, _ in ASKED
        ]
        found[name] = {**line, "accelerator": device}
    return found


def main() -> None:
    model, memory, points = on_two_cores()
    device, device_error = on_accelerator()
    asked = []
    for rows, columns, functions in ASKED:
        point = {"rows": rows, "columns": columns, "functions": functions}
        told: dict[str, Any] = {
            **point,
            "seconds_on_two_cores": float(terms(point) @ model),
            "bytes_on_two_cores": float(memory_terms(point) @ memory),
            "seconds_of_the_pass_on_an_accelerator": float(pass_terms(point) @ device),
        }
        workers = WORKERS.get(round(math.log10(rows)))
        if workers:
            told |= {"workers": workers, "cluster": on_cluster(rows, functions, workers)}
        asked.append(told)
    checked = [one for one in points if not one["fitted"]]
    save(
        "costs",
        {
            "command": "python benchmarks/costs.py",
            "constant_seconds": float(model[0]),
            "rates_per_second": dict(zip(RATES, _inverses(model[1:]), strict=True)),
            "memory": dict(zip(("constant", "columns", "sums"), memory.tolist(), strict=True)),
            "accelerator_rates": dict(zip(("flops", "values"), _inverses(device), strict=True)),
            "points": points,
            "largest_relative_error": max((one["relative_error"] for one in checked), key=abs),
            "largest_relative_error_of_memory": max(
                (one["relative_error_of_memory"] for one in checked), key=abs
            ),
            "largest_relative_error_on_the_accelerator": device_error,
            "relative_error_with_two_workers": error_with_two_workers(),
            "predictions": asked,
            "every_estimator": of_every_estimator(),
        },
    )


def _inverses(values: np.ndarray) -> list[float | None]:
    """Rates; None where no point shows any cost."""
    return [1 / float(value) if value > 0 else None for value in values]


if __name__ == "__main__":
    main()

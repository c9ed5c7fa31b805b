"""Writes docs/benchmarks.md from the figures in benchmarks/results.

python benchmarks/page.py
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def read(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def table(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def moments() -> str:
    found = read("moments")
    rows = [
        [
            "NumPy `C.T @ C`, the lower limit",
            f"{found['numpy_symmetric_product_seconds']:.2f}",
            "1",
        ],
        ["cosines and sines alone", f"{found['cosines_and_sines_seconds']:.2f}", ""],
        ["cosines and sines of XLA", f"{found['cosines_and_sines_of_xla_seconds']:.2f}", ""],
        ["RBFSampler, then `C.T @ C`", f"{found['rbf_sampler_and_product_seconds']:.2f}", ""],
    ]
    for name, one in found["moments"].items():
        ratio = f"{one['ratio_to_symmetric_product']:.2f}"
        rows.append([f"**moments**, {name}", f"{one['seconds']:.2f}", ratio])
    error = found["moments"]["float32 features, Gaussian base"]["largest_error_of_a_mean"]
    return (
        f"{found['rows']:,} rows, {found['columns']} columns, {found['functions']} functions.\n\n"
        + table(["", "seconds", "ratio"], rows)
        + f"\n\nWith float32 features, the largest error of a mean product is {error:.0e}."
    )


def gpu() -> str:
    found = read("gpu")
    rows = [
        [
            one["functions"],
            one["precision"],
            one["base_components"],
            f"{one['seconds']:.2f}",
            f"{one['tera_flops_per_second']:.1f}",
            f"{one['fraction_of_float64_product']:.0%}",
        ]
        for one in found["moments"]
    ]
    mixed = [one for one in found["moments"] if one["precision"] == "mixed"]
    largest = max(one["largest_error_of_a_mean_product"] for one in mixed)
    usual = max(one["root_mean_square_error_of_mean_products"] for one in mixed)
    fits = [
        [
            f"{one['penalty']:.0e}",
            f"{one['mean_log_density']:.4f} ± {one['standard_error']:.4f}",
            f"{one['difference']:+.0e}",
            f"{one['largest_difference_of_a_row']:.0e}",
        ]
        for one in found["fits"]
    ]
    first = found["fits"][0]
    return (
        f"{found['moments'][0]['rows']:,} × 11 rows are sent from the host to one "
        f"{found['machine']['device']}. Its float64 product of random matrices reaches "
        f"{found['float64_product_tera_flops']:.1f} TFLOP/s "
        f"({found['float64_product_sustained_tera_flops']:.1f} if sustained for seconds, "
        f"{found['float64_product_of_ones_tera_flops']:.1f} for matrices of ones). The number of "
        "flops is n·m², for the upper half of the matrix. The times include features, transfers "
        "and the terms of the base density.\n\n"
        + table(
            ["m", "precision", "base components", "seconds", "TFLOP/s", "of the float64 product"],
            rows,
        )
        + f"\n\nIn mixed precision, the errors of the means of products are at most {largest:.0e} "
        f"({usual:.0e} in root mean square). The next table is for fits with {first['functions']} "
        f"functions to {first['rows']:,} rows, evaluated at {first['held_out']:,} held-out rows; "
        "it shows the difference that mixed precision makes:\n\n"
        + table(
            ["penalty", "mean log density, double", "difference of means", "largest for a row"],
            fits,
        )
    )


def scaling() -> str:
    rows = [
        [f"{one['rows']:,}", f"{one['seconds']:.1f}", f"{one['peak_bytes'] / 2**30:.2f}"]
        for one in read("scaling")["rows"]
    ]
    return (
        "The time of a whole fit from files on disk, with m = 1024 and 11 columns.\n\n"
        + table(["rows", "seconds", "peak memory, GiB"], rows)
        + "\n\n![Growth](../benchmarks/results/scaling.png)"
    )


def growth() -> str:
    rows = [
        [
            one["estimator"],
            f"{one['rows']:,}",
            f"{one['fit_seconds']:.0f}",
            f"{one['megabytes']:.0f}",
            f"{one['log_density']:.3f}",
            f"{one['milliseconds_a_row']:.3f}",
        ]
        for one in read("growth")["runs"]
    ]
    head = ["", "rows", "seconds", "memory, MB", "log density", "ms to score a row"]
    return (
        "Each estimator is fitted to Parquet files of a table that suits it: eleven columns of "
        "numbers; eight inputs and a target with two branches; or ten columns with finely "
        "structured numbers, categories, a count and missing values. Times are those of one core "
        f"({read('growth')['machine']['processor']}). "
        "Memory is the largest increase during the fit. The mean log density is that of 5000 fresh "
        "rows. With more than 20,000 rows (50,000 for `KernelChain`), settings are chosen on a "
        "sample by a hash of the rows' content, and sums are taken over all rows.\n\n"
        + table(head, rows)
        + notes(read("growth"))
    )


def notes(found: dict[str, Any]) -> str:
    """Remarks on some of the runs."""
    told: dict[str, list[str]] = {}
    for one in found["runs"]:
        if "note" in one:
            told.setdefault(one["note"], []).append(one["estimator"])
    lines = [f"{', '.join(dict.fromkeys(names))}: {note}." for note, names in told.items()]
    return "".join(f"\n\n{line}" for line in lines)


def costs() -> str:
    found = read("costs")
    rates, memory = found["rates_per_second"], found["memory"]
    points = [
        [
            f"{one['rows']:,}",
            one["columns"],
            one["functions"],
            f"{one['seconds']:.1f}",
            f"{one['predicted_seconds']:.1f}",
            f"{one['relative_error']:+.0%}",
            f"{one['peak_bytes'] / 2**20:.0f}",
            f"{one['predicted_peak_bytes'] / 2**20:.0f}",
            "" if one["fitted"] else "check",
        ]
        for one in found["points"]
    ]
    predicted = [
        [
            f"10^{round(math.log10(one['rows']))}",
            duration(one["seconds_on_two_cores"]),
            f"{one['bytes_on_two_cores'] / 2**30:.1f}",
            duration(one["seconds_of_the_pass_on_an_accelerator"]),
            one.get("workers", "–"),
            duration(one["cluster"]["seconds"]) if "cluster" in one else "–",
            f"{one['cluster']['gibibytes_moved']:,.0f}" if "cluster" in one else "–",
        ]
        for one in found["predictions"]
    ]
    return (
        "The cost of fitting `KernelExponentialFamily` to n rows of d columns with m functions, "
        f"on two cores:\n\n    seconds = {found['constant_seconds']:.1f} + n·m² / "
        f"{rates['flops']:.1e} + 8·n·d / {rates['bytes']:.1e} + m³ / {rates['solving']:.1e}\n    "
        f"bytes   = {memory['constant']:.1e} + {memory['columns']:.1e}·d + "
        f"{memory['sums']:.1f}·8·m²\n\nThe constants are fitted to some of the points that "
        "`scaling.py` measured and checked on the others, where the largest error is "
        f"{abs(found['largest_relative_error']):.0%} for the time and "
        f"{abs(found['largest_relative_error_of_memory']):.0%} for the memory.\n\n"
        + table(
            ["rows", "columns", "functions", "seconds", "model", "error", "MB", "model", ""], points
        )
        + "\n\nFor eleven columns and 1024 functions, the formula predicts (not measured):\n\n"
        + table(
            [
                "rows",
                "two cores",
                "GiB",
                "the pass on one H200",
                "workers",
                "the pass on them",
                "GiB moved",
            ],
            predicted,
        )
        + "\n\nThe rates of the H200 are those measured by `gpu.py` with a Gaussian base density, "
        "for rows in the host's memory. With a mixture of ten components, whose terms are left "
        f"out, the error is {found['largest_relative_error_on_the_accelerator']:+.0%}. Workers "
        "have one thread and partitions of a million rows; their rate is that of the single "
        "worker measured by `cluster.py` (the error for two workers is "
        f"{found['relative_error_with_two_workers']:+.0%}).\n\n"
        + every_cost(found["every_estimator"])
    )


def every_cost(found: dict[str, Any]) -> str:
    """The cost of a fit of every estimator, as a linear function of the rows."""
    lines, predicted = [], []
    for name, one in found.items():
        errors = [f"{error:+.0%}" for error in one["relative_errors"].values()]
        lines.append(
            [
                name,
                f"{one['constant_seconds']:.0f}",
                f"{1e6 * one['seconds_a_row']:.0f}",
                f"{one['megabytes']:.0f}",
                ", ".join(errors) or "not measured",
            ]
        )
        for told in one["predictions"]:
            device = told["seconds_on_an_accelerator"]
            predicted.append(
                [
                    name,
                    f"10^{round(math.log10(told['rows']))}",
                    duration(told["seconds_on_one_core"]),
                    "–" if device is None else duration(device),
                    told["workers"],
                    duration(told["seconds_on_workers"]),
                ]
            )
    accelerated = ", ".join(
        f"{error:+.0%} for `{name}`"
        for name, one in found.items()
        if one["accelerator"]
        for error in one["accelerator"]["relative_errors"].values()
    )
    return (
        "For each estimator, a line through two of the points of `growth.py` gives the time from "
        "100,000 rows on. The errors are those at the points in between:\n\n"
        + table(["", "constant, s", "µs per row", "memory, MB", "errors"], lines)
        + "\n\nThe next table shows what these lines predict (not measured). Workers share the "
        "pass over the rows and wait for the constant part; the time to send sums is left out. "
        "The lines for the H200 go through the least and the most rows of `gpu_growth.py`; the "
        f"errors at the point in between are {accelerated}:\n\n"
        + table(["", "rows", "one core", "one H200", "workers", "on them"], predicted)
    )


def duration(seconds: float) -> str:
    """In the unit that suits."""
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return (
                f"{seconds / size:.2g} {unit}" if seconds < 10 else f"{seconds / size:.0f} {unit}"
            )
    return f"{seconds / 86_400:.0f} days"


def prediction() -> str:
    found = read("prediction")
    every = found["microseconds_per_row"]
    methods = ("score_samples", "gradient", "laplacian", "sample")

    def number(value: float) -> str:
        return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"

    rows = [
        [name, *(number(one["methods"][m]) if m in one["methods"] else "–" for m in methods)]
        for name, one in every.items()
    ]
    return (
        "Processor time in microseconds per row, summed over all cores, after compilation. Every "
        f"estimator is fitted to {found['training_rows']:,} rows of {found['columns']} columns "
        "with the gate switched off, so that tilts are kept. The flow of `KernelDiffusion` takes "
        f"{every['KernelDiffusion']['flow_steps']} steps. `KernelExponentialFamily` has 512 "
        "functions; it draws by Markov chains, which are not measured here.\n\n"
        + table(["", *(f"`{m}`" for m in methods)], rows)
        + notes({"runs": [{**one, "estimator": name} for name, one in every.items()]})
    )


def flow_evaluation() -> str:
    found = read("flow_evaluation")["tables"]

    def error(one: dict[str, Any]) -> str:
        return f"{one['median']:.0e}, {one['nine_of_ten']:.0e}"

    rows = [
        [
            name.replace("_", " "),
            f"{one['training_rows']:,} × {one['columns']}",
            one["components"],
            sum(one["steps"]),
            f"{one['microseconds_per_row']:.0f}",
            error(one["stated_error"]),
            error(one["true_error"]),
            f"{one['whole_log_density']['microseconds_per_row']:,.0f}",
            f"{one['times_faster']:.1f}",
        ]
        for name, one in found.items()
    ]
    head = ["", "rows", "components", "steps", "µs per row", "stated error", "true error"]
    return (
        "Log densities of `KernelDiffusion` with a tilt: the wall time on one core after "
        "compilation, the error that the model states, and the true error, which is the difference "
        "from eight times as many steps. Errors are in nats, as the median and the 90 % quantile "
        "over the rows. The last two columns are for integrating the whole log density instead of "
        "the contribution of the tilt, in steps of at least the same accuracy.\n\n"
        + table([*head, "whole log density, µs per row", "ratio"], rows)
    )


def grid() -> str:
    found = read("grid")
    rows = [
        [
            name,
            found[name]["functions"],
            f"{found[name]['rows']:,}",
            f"{found[name]['seconds']:.1f}",
            f"{found[name]['seconds_for_all_rows']:.0f}",
        ]
        for name in ("grid", "random")
    ]
    return (
        table(["frequencies", "m", "rows measured", "seconds", "seconds for 10⁷"], rows)
        + f"\n\nThe grid is {found['times_faster']:.0f} times faster. The time for random "
        "frequencies is extrapolated from fewer rows."
    )


def tuned() -> str:
    found = read("tuned_fit")

    def three(name: str) -> str:
        return ", ".join(f"{one:.1f}" for one in found[name])

    return (
        "A fit with tuning is compared with a masked autoregressive flow of zuko that stops early, "
        "after 30 epochs without a better one, with three seeds. A fresh process includes the "
        "imports of both.\n\n"
        + table(
            ["", "our seconds", "seconds of the flow", "ratio to the median"],
            [
                [
                    "after imports and compilation",
                    f"{found['warm_seconds']:.1f}",
                    three("flow_seconds_with_patience"),
                    f"{found['warm_ratio']:.2f}",
                ],
                [
                    "a fresh process",
                    f"{found['cold_process_seconds']:.1f}",
                    three("flow_process_seconds"),
                    f"{found['cold_ratio']:.2f}",
                ],
            ],
        )
        + "\n\nThe flows reached their best epochs after "
        + f"{three('flow_seconds_to_best_epoch')} seconds."
    )


def tuned_functions() -> str:
    found = read("tuned_functions")
    some, every = found["log_likelihoods"].values()
    rows = [[name, f"{some[name]:.3f}", f"{every[name]:.3f}"] for name in some]
    return (
        "Mean test log-likelihood of fits with 512 functions, whose length-scales were tuned with "
        "256 of them or with all:\n\n"
        + table(["", "256 functions", "all"], rows)
        + f"\n\nMean difference {found['difference']:+.3f} ± {found['difference_error']:.3f}."
    )


def peers() -> str:
    found = read("peers")
    wide, flat = found["eleven columns"], found["two columns"]
    eleven = [
        [
            f"{one['rows']:,}",
            *(
                f"{one['seconds'][name]:.1f}"
                for name in ("BayesianGaussianMixture", "given", "tuned")
            ),
            f"{one['tuning_seconds']:.1f}",
        ]
        for one in wide
    ]
    two = [
        [f"{one['rows']:,}", *(f"{taken:.2f}" for taken in one["seconds"].values())] for one in flat
    ]
    return (
        "The time of one fit, in seconds. With eleven columns: scikit-learn's "
        "`BayesianGaussianMixture` of ten components, and a tilt of 512 functions of such a base "
        "density, which is fitted to a sketch of 20,000 rows. The time for tuning does not grow "
        "with the number of rows.\n\n"
        + table(["rows", "mixture", "settings given", "with tuning", "tuning alone"], eleven)
        + "\n\nWith two columns: `FFTKDE` of KDEpy (256 × 256 points, given bandwidth) and the "
        "grid basis (about 1000 functions, given settings):\n\n"
        + table(["rows", "FFTKDE", "grid basis"], two)
    )


def cluster() -> str:
    found = read("cluster")
    one, two = found["runs"]
    rows = [
        [
            name,
            f"{fit['rows']:,}",
            f"{fit['seconds']:.0f}",
            f"{fit['seconds_with_a_worker_killed']:.0f}",
            difference(fit["largest_difference_with_a_worker_killed"]),
            difference(fit["mean_difference_from_memory"]),
        ]
        for name, fit in found["fits"].items()
    ]
    head = ["", "rows", "seconds", "worker killed", "largest difference", "from memory, on average"]
    return (
        f"Two workers of one thread each took {two['seconds']:.1f} s for the sums over "
        f"{two['rows']:,} rows with m = {found['functions']}, and one worker took "
        f"{one['seconds']:.1f} s, so that two are {found['speed_up_from_one_to_two']:.2f} times "
        "faster. The largest difference between a mean and that of the sums in memory is "
        f"{found['largest_difference_of_a_mean']:.0e}.\n\nEvery estimator was fitted on two "
        "workers, and again with one of them killed during the fit. Times are wall times on a "
        "machine with other load. The largest difference is that between the log densities of "
        "fresh rows with and without a killed worker; the last column compares them with those of "
        "a fit in memory.\n\n"
        + table(head, rows)
        + notes({"runs": [{**fit, "estimator": name} for name, fit in found["fits"].items()]})
    )


def difference(value: float) -> str:
    return f"{value:.0e}" if value else "none"


def memory() -> str:
    found = read("memory")
    counts = [str(count) for count in found["fits"]]
    rows = [
        [
            name,
            *(f"{one[count]['megabytes']:.0f}" for count in counts),
            *(one[count]["programs"] for count in counts),
        ]
        for name, one in found["after_fits"].items()
    ]
    after = [f"after {count} fits" for count in counts]
    return (
        "Resident memory, in MB, of a process that fits one estimator repeatedly, each time to "
        f"another table of {found['rows']} rows, and the number of programs it has compiled: one "
        "for each new shape of the data. Shapes are few, and memory grows until all have been "
        "met.\n\n"
        + table(
            ["", *(f"MB {one}" for one in after), *(f"programs {one}" for one in after)],
            rows,
        )
    )


def gpu_growth() -> str:
    found = read("gpu_growth")
    rows = [
        [
            one["estimator"],
            f"{one['rows']:,}",
            f"{one['fit_seconds']:.1f}",
            f"{one['first_fit_seconds']:.1f}",
            f"{one['log_density']:.3f}",
        ]
        for one in found["runs"]
    ]
    chains = [one for one in found["runs"] if one["estimator"] == "KernelChain"]
    largest = max(chains, key=lambda one: one["rows"])
    machine = found["machine"]
    return (
        f"Eleven columns in memory, on one {machine['device']} and {machine['cores']} cores. Every "
        "estimator has a process of its own. Its first fit, to 100,000 rows, includes the "
        f"compilation of most programs. Of the {largest['fit_seconds']:.0f} s of a `KernelChain` "
        f"of {largest['rows']:,} rows ({largest['components']} components), the quadratures by "
        f"which tilts are fitted take {largest['seconds_of_tilts']:.1f} s of one core in all, and "
        "therefore do not run on the device. One expectation step of 512 components over these "
        f"rows takes {largest['step_seconds']:.2f} s.\n\n"
        + table(["", "rows", "fit, s", "first fit, s", "log density"], rows)
    )


def gpu_diffusion() -> str:
    rows = []
    for name in ("gpu_diffusion", "gpu_diffusion_host"):
        found = read(name)
        machine = found["machine"]
        device = machine["device"] if name == "gpu_diffusion" else f"{machine['cores']} cores"
        rows.append(
            [
                device,
                f"{found['fit_seconds']:.1f}",
                f"{1e6 * found['levels_seconds'] / found['rows']:.2f}",
                f"{1e6 * found['flow_seconds'] / found['flow_rows']:.1f}",
                found["steps"],
            ]
        )
    return (
        f"A `KernelDiffusion` of eleven columns, {found['components']} components and 1024 "
        "functions. The first figure is the time to fit it to 20,000 rows in a fresh process, "
        "including compilation. The others are for the sums over all noise levels "
        f"({read('gpu_diffusion')['rows']:,} rows) and for log densities by the flow, after "
        "compilation.\n\n"
        + table(["", "fit, s", "sums, µs per row", "log density, µs per row", "steps"], rows)
    )


SECTIONS = {
    "The pass over the rows (`moments.py`)": moments,
    "Growth (`scaling.py`)": scaling,
    "Growth of every estimator (`growth.py`)": growth,
    "What a fit costs (`costs.py`)": costs,
    "Comparison with other estimators (`peers.py`)": peers,
    "An accelerator (`gpu.py`)": gpu,
    "Growth on an accelerator (`gpu_growth.py`)": gpu_growth,
    "Noise levels and flows on an accelerator (`gpu_diffusion.py`)": gpu_diffusion,
    "Low dimensions (`grid.py`)": grid,
    "A cluster (`cluster.py`)": cluster,
    "Memory of repeated fits (`memory.py`)": memory,
    "Prediction (`prediction.py`)": prediction,
    "Log densities by the flow (`flow_evaluation.py`)": flow_evaluation,
    "A fit with tuning (`tuned_fit.py`)": tuned,
    "Number of functions in tuning (`tuned_functions.py`)": tuned_functions,
}


def page() -> str:
    """The whole page."""
    machine = read("moments")["machine"]
    text = [
        "# Benchmarks",
        "`python benchmarks/page.py` writes this page from `benchmarks/results`. Each section "
        "names the script that measures it. `make bench` runs all scripts except `gpu.py`, "
        "`gpu_growth.py` and `gpu_diffusion.py`, which need a GPU. The machine has "
        f"{machine['cores']} cores ({machine['processor']}), Python {machine['python']}, JAX "
        f"{machine['jax']} and NumPy {machine['numpy']}. Figures are medians of repeated runs. "
        "[kernel_diffusion.md](kernel_diffusion.md) compares likelihoods with those of neural "
        "flows.",
    ]
    for title, section in SECTIONS.items():
        text += [f"## {title}", section()]
    return "\n\n".join(text) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")

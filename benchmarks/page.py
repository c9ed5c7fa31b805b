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
        ["NumPy `C.T @ C`, the limit", f"{found['numpy_symmetric_product_seconds']:.2f}", "1"],
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
        + f"\n\nWith float32 features the largest error of a mean product is {error:.0e}."
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
        f"{found['moments'][0]['rows']:,} × 11 rows streamed from the host to one "
        f"{found['machine']['device']}; its float64 product of random matrices reaches "
        f"{found['float64_product_tera_flops']:.1f} TFLOP/s "
        f"({found['float64_product_sustained_tera_flops']:.1f} when it goes on for seconds, "
        f"{found['float64_product_of_ones_tera_flops']:.1f} with ones). Flops are counted as n·m², "
        "the upper half; features, transfers and the base density's terms are in the seconds.\n\n"
        + table(
            ["m", "precision", "base components", "seconds", "TFLOP/s", "of the float64 product"],
            rows,
        )
        + f"\n\nMeans of products in mixed precision are off by {largest:.0e} at most, "
        f"{usual:.0e} in the root of the mean square. Fits with {first['functions']} functions to "
        f"{first['rows']:,} rows, and what they say of {first['held_out']:,} others, with the "
        "difference that mixed precision makes:\n\n"
        + table(
            ["penalty", "mean log density, double", "difference of means", "largest of a row"], fits
        )
    )


def scaling() -> str:
    rows = [
        [f"{one['rows']:,}", f"{one['seconds']:.1f}", f"{one['peak_bytes'] / 2**30:.2f}"]
        for one in read("scaling")["rows"]
    ]
    return (
        "A whole fit (m = 1024, 11 columns) from files on disk.\n\n"
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
    head = ["", "rows", "seconds", "memory, MB", "log density", "ms a row to score"]
    return (
        "Every estimator from Parquet files of a table that suits it: eleven numbers, eight inputs "
        "and a target with two branches, or ten columns of numbers with fine structure, "
        "categories, a count and missing values. Seconds of one core; memory is what the fit adds "
        "at most to what its process had before; the mean log density is that of 5000 fresh rows. "
        "Of more than 20,000 rows (50,000 for `KernelChain`) choices follow from a sample by "
        "content, and sums go over all of them.\n\n" + table(head, rows) + notes(read("growth"))
    )


def notes(found: dict[str, Any]) -> str:
    """What is to be known of some of the runs."""
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
        "A fit of `KernelExponentialFamily` to n rows of d columns with m functions, on two cores:"
        f"\n\n    seconds = {found['constant_seconds']:.1f} + n·m² / {rates['flops']:.1e} "
        f"+ 8·n·d / {rates['bytes']:.1e} + m³ / {rates['solving']:.1e}\n"
        f"    bytes   = {memory['constant']:.1e} + {memory['columns']:.1e}·d "
        f"+ {memory['sums']:.1f}·8·m²\n\n"
        "The numbers are fitted to some of the points that `scaling.py` measured, and checked on "
        f"the others: they are off by {abs(found['largest_relative_error']):.0%} at most in time "
        f"and by {abs(found['largest_relative_error_of_memory']):.0%} in memory.\n\n"
        + table(
            ["rows", "columns", "functions", "seconds", "model", "error", "MB", "model", ""], points
        )
        + "\n\nWith eleven columns and 1024 functions the model says, without measuring:\n\n"
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
        + "\n\nRates of the H200 are those of `gpu.py` with a Gaussian base "
        f"({found['largest_relative_error_on_the_accelerator']:+.0%} off with a mixture of ten, "
        "whose terms it leaves out), for rows in the host's memory. Workers have one thread and "
        "partitions of a million rows, and the rate of one that `cluster.py` measured "
        f"({found['relative_error_with_two_workers']:+.0%} off with two).\n\n"
        + every_cost(found["every_estimator"])
    )


def every_cost(found: dict[str, Any]) -> str:
    """What a fit of every estimator costs, by a line."""
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
    return (
        "Every estimator from 100,000 rows on, by a line through two of the points of `growth.py`; "
        "errors are those at the points between them:\n\n"
        + table(["", "constant, s", "µs a row", "memory, MB", "error of checks"], lines)
        + "\n\nWhat that says, without measuring, where workers share the pass and wait for the "
        "constant; sums that are moved are left out. The H200 has lines of `gpu_chain.py` and "
        "`gpu_diffusion.py`, unchecked:\n\n"
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
        "Processor microseconds a row, all cores together, once compiled. Everybody is fitted to "
        f"{found['training_rows']:,} rows of {found['columns']} columns, and tilts are kept "
        "whatever the gates say. The flow of `KernelDiffusion` "
        f"takes {every['KernelDiffusion']['flow_steps']} steps; `KernelExponentialFamily` has 512 "
        "functions and draws by Markov chains, which is not measured here.\n\n"
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
    head = ["", "rows", "components", "steps", "µs a row", "stated error", "true error"]
    return (
        "Log densities of `KernelDiffusion`, with tilts kept: wall time on one core once compiled, "
        "the error that the model states and the difference to eight times as many steps, in nats "
        "(the median, and what nine of ten rows stay below). On the right, the same by integrating "
        "the whole log density in steps that are no less accurate.\n\n"
        + table([*head, "the whole, µs a row", "ratio"], rows)
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
        + f"\n\n{found['times_faster']:.0f} times faster; random frequencies were measured at "
        "fewer rows and multiplied."
    )


def tuned() -> str:
    found = read("tuned_fit")
    flows = ", ".join(f"{one:.1f}" for one in found["flow_seconds_to_best_epoch"])
    patient = []
    if "flow_seconds_with_patience" in found:
        waited = found["flow_seconds_with_patience"]
        patient = [
            ["the same, with 30 epochs of patience", ", ".join(map("{:.1f}".format, waited)), ""]
        ]
    return table(
        ["", "seconds", "ratio to the flow"],
        [
            ["tuned fit, warm", f"{found['warm_seconds']:.1f}", f"{found['warm_ratio']:.2f}"],
            ["fresh process", f"{found['cold_process_seconds']:.1f}", f"{found['cold_ratio']:.2f}"],
            ["zuko's MAF to its best epoch, three seeds", flows, "1"],
            *patient,
        ],
    )


def tuned_functions() -> str:
    found = read("tuned_functions")
    some, every = found["log_likelihoods"].values()
    rows = [[name, f"{some[name]:.3f}", f"{every[name]:.3f}"] for name in some]
    return (
        "Mean test log-likelihood of tuned fits with 512 functions, whose length-scales were tuned "
        "with some or all of them:\n\n"
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
        "Seconds of one fit. In eleven columns: scikit-learn's `BayesianGaussianMixture` of ten "
        "components, and a tilt of 512 functions on such a base, which is fitted to a sketch of "
        "20,000 rows; what tuning adds does not grow with the rows.\n\n"
        + table(["rows", "mixture", "settings given", "tuned", "tuning adds"], eleven)
        + "\n\nIn two columns, `FFTKDE` of KDEpy (256 × 256 points, bandwidth given) and the grid "
        "basis (about 1000 functions, settings given):\n\n"
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
    head = ["", "rows", "seconds", "one killed", "largest difference", "from memory, on average"]
    return (
        f"Two workers of one thread took {two['seconds']:.1f} s for the sums over "
        f"{two['rows']:,} rows at m = {found['functions']}, one {one['seconds']:.1f} s: "
        f"{found['speed_up_from_one_to_two']:.2f} times faster. The largest difference of a mean "
        f"from the sums in memory is {found['largest_difference_of_a_mean']:.0e}.\n\n"
        "Every estimator was fitted on two workers, and again with one of them killed in the "
        "middle; seconds are those of the clock, with whatever else the machine did. Differences "
        "are those of log densities of fresh rows, from the fit without a killed worker and from "
        "one in memory.\n\n"
        + table(head, rows)
        + notes({"runs": [{**fit, "estimator": name} for name, fit in found["fits"].items()]})
    )


def difference(value: float) -> str:
    return f"{value:.0e}" if value else "none"


def memory() -> str:
    found = read("memory")
    few, many = (str(count) for count in found["fits"])
    rows = [
        [
            name,
            f"{one[few]['megabytes']:.0f}",
            f"{one[many]['megabytes']:.0f}",
            one[few].get("programs", "–"),
            one[many].get("programs", "–"),
        ]
        for name, one in found["after_fits"].items()
    ]
    return (
        "Resident memory, in MB, of a process that fits one estimator again and again, to other "
        f"tables of {found['rows']} rows each time, and how many programs it has compiled by then: "
        "one for each shape that it meets.\n\n"
        + table(
            ["", f"after {few} fits", f"after {many}", f"programs after {few}", f"after {many}"],
            rows,
        )
    )


def gpu_chain() -> str:
    found = read("gpu_chain")
    rows = [
        [
            f"{one['rows']:,}",
            f"{one['fit_seconds']:.1f}",
            f"{one['step_seconds_of_512_components']:.2f}",
            one["components"],
            f"{one['log_density']:.3f}",
        ]
        for one in found["fits"]
    ]
    machine = found["machine"]
    return (
        f"A `KernelChain` of eleven columns in memory, on one {machine['device']} and "
        f"{machine['cores']} cores, in the order of the rows here: the first fit compiles.\n\n"
        + table(
            ["rows", "fit, s", "one pass of 512 components, s", "components", "log density"], rows
        )
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
        "functions: seconds to fit it to 20,000 rows in a fresh process, compiling included; then "
        "microseconds a row for the sums of all noise levels "
        f"({read('gpu_diffusion')['rows']:,} rows), and for log densities by its flow, once "
        "compiled.\n\n"
        + table(["", "fit, s", "sums, µs a row", "log density, µs a row", "steps"], rows)
    )


SECTIONS = {
    "The pass over the rows (`moments.py`)": moments,
    "Growth (`scaling.py`)": scaling,
    "Growth of every estimator (`growth.py`)": growth,
    "What a fit costs (`costs.py`)": costs,
    "Beside other estimators (`peers.py`)": peers,
    "An accelerator (`gpu.py`)": gpu,
    "Tables on an accelerator (`gpu_chain.py`)": gpu_chain,
    "Noise levels and flows on an accelerator (`gpu_diffusion.py`)": gpu_diffusion,
    "Low dimensions (`grid.py`)": grid,
    "A cluster (`cluster.py`)": cluster,
    "Fits again and again (`memory.py`)": memory,
    "Prediction (`prediction.py`)": prediction,
    "Log densities by the flow (`flow_evaluation.py`)": flow_evaluation,
    "A tuned fit (`tuned_fit.py`)": tuned,
    "What tuning follows (`tuned_functions.py`)": tuned_functions,
}


def main() -> None:
    machine = read("moments")["machine"]
    text = [
        "# Benchmarks",
        "Written by `python benchmarks/page.py` from `benchmarks/results`; every section names the "
        "script that measures it. `make bench` runs them all but `gpu.py`, `gpu_chain.py` and "
        "`gpu_diffusion.py`, which want a GPU. "
        f"Machine: {machine['processor']}, {machine['cores']} cores, Python {machine['python']}, "
        f"JAX {machine['jax']}, NumPy {machine['numpy']}. Medians of repeats. Likelihoods beside "
        "neural flows are in [kernel_diffusion.md](kernel_diffusion.md).",
    ]
    for title, section in SECTIONS.items():
        text += [f"## {title}", section()]
    PAGE.write_text("\n\n".join(text) + "\n", "utf-8")


if __name__ == "__main__":
    main()

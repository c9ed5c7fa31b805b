"""Time and memory of a fit as rows, functions and columns grow, one by one.

    python benchmarks/scaling.py

Every point is a fresh process that fits from .npy files on disk and reports its own peak resident
memory. Time includes reading, standardizing, sketching, moments of five folds, cross-validation
and the normalizer, not the imports; compilation is cached.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from measure import RESULTS, save

COLUMNS, FUNCTIONS, ROWS = 11, 1024, 100_000
# Rows, columns and functions that all differ from the others: `costs.py` must predict them.
CHECKS = ((300_000, 22, 512), (1_000_000, 5, 256), (30_000, 43, 2048))
SETTINGS = {"penalty": 1e-3, "noise_scale": 0.2, "length_scale": 2.0, "base": "gaussian"}

CHILD = """
import json, resource, sys, time
import numpy as np
import kexpfam
kexpfam.keep_compilations(sys.argv[3])
model = kexpfam.KernelExponentialFamily(
    n_components=int(sys.argv[2]), random_state=0, **json.loads(sys.argv[4])
)
start = time.perf_counter()
model.fit(sys.argv[1].split(","))
taken = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"seconds": taken, "peak_bytes": peak}))
"""


def point(files: list[Path], functions: int, cache: Path) -> dict[str, float]:
    arguments = [",".join(map(str, files)), str(functions), str(cache), json.dumps(SETTINGS)]
    for _ in range(2 if sum(f.stat().st_size for f in files) < 2e8 else 1):  # the first compiles
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", CHILD, *arguments],
            check=True,
            capture_output=True,
            text=True,
        )
    return json.loads(done.stdout.splitlines()[-1])


def written(folder: Path, rows: int, columns: int) -> list[Path]:
    """Files of at most a million rows."""
    files = []
    generator = np.random.default_rng(0)
    for number, start in enumerate(range(0, rows, 1_000_000)):
        count = min(1_000_000, rows - start)
        path = folder / f"{rows}-{columns}-{number}.npy"
        np.save(path, np.tanh(generator.standard_normal((count, columns))))
        files.append(path)
    return files


def draw(records: dict[str, list[dict[str, float]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(9, 5), constrained_layout=True)
    titles = {
        "rows": f"m = {FUNCTIONS}, d = {COLUMNS}",
        "functions": f"n = {ROWS:,}",
        "columns": f"n = {ROWS:,}, m = {FUNCTIONS}",
    }
    for column, (name, found) in enumerate(records.items()):
        values = [record[name] for record in found]
        for row, (key, scale, label) in enumerate(
            (("seconds", 1.0, "seconds"), ("peak_bytes", 2.0**30, "peak memory, GiB"))
        ):
            panel = axes[row, column]
            panel.plot(values, [record[key] / scale for record in found], "o-", color="#0072B2")
            panel.set_xscale("log")
            if name != "rows":
                panel.set_xticks(values, [str(value) for value in values])
                panel.minorticks_off()
            if key == "seconds":
                panel.set_yscale("log" if name == "rows" else "linear")
                panel.set_title(titles[name], fontsize=9)
            else:
                panel.set_ylim(0, 1.6)
                panel.axhline(1.5, color="#D55E00", lw=0.8, ls="--")
            panel.set_xlabel(name)
            panel.set_ylabel(label if column == 0 else "")
            panel.grid(alpha=0.3)
    figure.savefig(RESULTS / "scaling.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=10_000_000)
    arguments = parser.parse_args()
    kinds = ("rows", "functions", "columns", "checks")
    records: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cache = folder / "compiled"
        plan = [("rows", 10**k, COLUMNS, FUNCTIONS) for k in range(4, 8)]
        plan += [("functions", ROWS, COLUMNS, m) for m in (256, 512, 1024, 2048)]
        plan += [("columns", ROWS, d, FUNCTIONS) for d in (2, 5, 11, 22, 43)]
        plan += [("checks", *point) for point in CHECKS]
        for kind, rows, columns, functions in plan:
            if rows > arguments.most:
                continue
            files = written(folder, rows, columns)
            record = {"rows": rows, "columns": columns, "functions": functions}
            record.update(point(files, functions, cache))
            records[kind].append(record)
            print(kind, record, flush=True)
            for file in files:
                file.unlink()
    save("scaling", {"command": "python benchmarks/scaling.py", **records})
    draw({kind: records[kind] for kind in kinds[:3]})


if __name__ == "__main__":
    main()

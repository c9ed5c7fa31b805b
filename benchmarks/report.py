"""Time from the command to the page: `kexpfam report` on tables of 1 000 to 200 000 rows.

    python benchmarks/report.py [1000 20000 200000]

A table of eight columns is written as CSV: two categories, five numbers (one of them a mixture of
two, one that follows another by a sine) and a count, with missing cells in four of them. The
command runs as a user runs it, in a process of its own, imports and all; seconds of the clock and
of the processor are those of this process. Then a report is made once more in this process, to say
how long each stage takes, in seconds of the processor. Results go to benchmarks/results/report.md.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from kexpfam.progress import Progress
from kexpfam.report import write_report
from measure import RESULTS, machine

SIZES = (1_000, 20_000, 200_000)
KINDS = ("bream", "perch", "pike", "roach", "smelt")
MISSING = {"kind": 0.02, "weight": 0.01, "width": 0.1, "temperature": 0.05}


def fish(n_rows: int) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    code = generator.choice(len(KINDS), n_rows, p=[0.3, 0.25, 0.2, 0.15, 0.1])
    length = np.exp(generator.normal(np.array([3.4, 3.2, 3.8, 3.0, 2.4])[code], 0.25))
    weight = 0.012 * length**3 * np.exp(generator.normal(0, 0.15, n_rows))
    shallow = generator.random(n_rows) < 0.4
    depth = np.where(shallow, generator.gamma(2, 3, n_rows), generator.normal(25, 5, n_rows))
    table = pd.DataFrame(
        {
            "kind": np.array(KINDS)[code],
            "origin": np.where(generator.random(n_rows) < 0.3 + 0.1 * code, "wild", "farmed"),
            "length": length.round(2),
            "weight": weight.round(1),
            "width": length * (0.15 + 0.03 * code) + generator.normal(0, 0.5, n_rows),
            "depth": depth,
            "temperature": 12 + 6 * np.sin(depth / 8) + generator.normal(0, 1, n_rows),
            "eggs": generator.poisson(np.minimum(weight / 100, 30)),
        }
    )
    for name, share in MISSING.items():
        table.loc[generator.random(n_rows) < share, name] = np.nan
    return table


def measured(rows: Path, page: Path) -> tuple[float, float]:
    """Seconds of the clock and of the processor, of the command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    command = [sys.executable, "-m", "kexpfam", "report", str(rows), "-o", str(page), "--quiet"]
    subprocess.run(command, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Stages(Progress):
    """Processor's seconds between the stages that are announced."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[tuple[str, float]] = [("reading", time.process_time())]

    def stage(self, text: str) -> None:
        self.begun.append((text.split()[0].lower(), time.process_time()))

    def note(self, text: str) -> None:
        self.begun.append((text, time.process_time()))

    def seconds(self) -> dict[str, float]:
        ends = [start for _, start in self.begun[1:]] + [time.process_time()]
        return {name: end - start for (name, start), end in zip(self.begun, ends, strict=True)}


def main(sizes: list[int]) -> None:
    lines, stages = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in sizes:
            rows, page = folder / f"fish_{size}.csv", folder / f"fish_{size}.html"
            fish(size).to_csv(rows, index=False)
            wall, processor = measured(rows, page)
            kilobytes = page.stat().st_size / 1e3
            lines.append(f"| {size:,} | {wall:.0f} | {processor:.0f} | {kilobytes:.0f} |")
            progress = Stages()
            write_report(page, data=rows, progress=progress)
            longest = sorted(progress.seconds().items(), key=lambda one: -one[1])[:6]
            stages.append(
                f"- {size:,} rows: " + ", ".join(f"{name} {one:.1f}" for name, one in longest)
            )
            print(lines[-1], stages[-1], sep="\n")
    threads = os.environ.get("OPENBLAS_NUM_THREADS")
    where = machine()
    text = [
        "`kexpfam report` on a table of eight mixed columns with missing cells, from the command "
        "to the page. Made by `python benchmarks/report.py`.",
        "",
        "| rows | wall time, s | processor time, s | page, kB |",
        "|--:|--:|--:|--:|",
        *lines,
        "",
        "The longest stages, in seconds of processor time:",
        "",
        *stages,
        "",
        f"{where['cores']} cores of "
        f"{where['processor']}{f', {threads} thread of BLAS' if threads else ''}; the average load "
        f"was {os.getloadavg()[2]:.1f}, so that the command had to wait for other processes; alone "
        "on the machine, the wall time is about the processor time. With eight columns, the model "
        "is fitted to at most 20 000 rows and judged by 5 000, and the page says so if there are "
        "more.",
    ]
    (RESULTS / "report.md").write_text("\n".join(text) + "\n", "utf-8")


if __name__ == "__main__":
    main([int(one) for one in sys.argv[1:]] or list(SIZES))

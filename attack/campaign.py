"""Cases of one kind after the other, in processes that may die."""

from __future__ import annotations

import faulthandler
import multiprocessing
import signal
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from attack.cases import FaultError, Kind, outcome
from attack.files import Checkpoints, ForgedModels, ModelFiles, RowFiles
from attack.processes import KilledFits
from attack.tables import HostileTables
from attack.use import Commands, Fits, MixedFits, Predictions, Settings

__all__ = ["KINDS", "attacked", "attacked_in_a_process"]

KINDS: dict[str, type[Kind]] = {
    kind.name: kind
    for kind in (
        *(ModelFiles, ForgedModels, Checkpoints, RowFiles),
        *(Predictions, Fits, HostileTables, MixedFits, Settings, Commands, KilledFits),
    )
}
# By the clock, since a case may also wait; other work may make it slow.
_LONGEST = 300


def _too_long(*_: Any) -> None:
    raise FaultError(f"no answer in {_LONGEST} seconds")


def attacked(
    name: str, seed: int, seconds: float, most: int, first: int = 0, results: Any = None
) -> Counter[str]:
    """Cases of one kind, with numbers from `first` on; faults are printed as they come."""
    faulthandler.enable()
    signal.signal(signal.SIGALRM, _too_long)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="kexpfam-attack-") as folder:
        kind, end = KINDS[name](Path(folder)), time.monotonic() + seconds
        for number in range(first, most):
            if time.monotonic() > end:
                break
            if results is not None:
                results.put(("begun", number))
            signal.alarm(_LONGEST)
            try:
                counts[outcome(kind, (seed, number))] += 1
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                counts["failed"] += 1
                print(f"\n{name}, case {number} of seed {seed}: {error!r:.2000}", flush=True)
                traceback.print_exc(limit=-6)
            finally:
                signal.alarm(0)
    if results is not None:
        results.put(("done", counts))
    return counts


def attacked_in_a_process(name: str, seed: int, seconds: float, most: int) -> Counter[str]:
    """The same, where a crash costs one process."""
    context = multiprocessing.get_context("spawn")
    total: Counter[str] = Counter()
    end, first = time.monotonic() + seconds, 0
    while time.monotonic() < end and first < most:
        results = context.Queue()
        arguments = (name, seed, end - time.monotonic(), most, first, results)
        process = context.Process(target=attacked, args=arguments)
        process.start()
        begun, done = first, None
        while done is None and (process.is_alive() or not results.empty()):
            try:
                what, value = results.get(timeout=1.0)
            except Exception:
                continue
            if what == "begun":
                begun = value
            else:
                done = value
        process.join()
        if done is not None:
            return total + done
        print(f"\n{name}, case {begun} of seed {seed}: the process died ({process.exitcode}).")
        total["failed"] += 1
        total["right"] += begun - first
        first = begun + 1
    return total

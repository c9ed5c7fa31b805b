"""A tuned fit on red wine beside the training of a masked autoregressive flow.

    python benchmarks/tuned_fit.py

60 steps of tuning, 512 functions. "warm" is a second fit in the same process, "cold" the whole of
a fresh process, imports included, with compilations kept on disk by an earlier one. The flow stops
early: it waits 30 epochs for a better one before it knows that it has found the best. A warm fit is
compared with that time, without imports, and a fresh process with one that imports PyTorch and
zuko and trains the flow. The time to the best epoch, which early stopping only knows afterwards,
is noted as well. Both get the same rows; all times are medians.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from measure import save, seconds

SEEDS = range(3)

CHILD = """
import sys, warnings
warnings.simplefilter("ignore")
import numpy as np
import kexpfam
kexpfam.keep_compilations(sys.argv[2])
kexpfam.KernelExponentialFamily(
    n_components=512, tuning=kexpfam.Tuning(n_steps=60), random_state=0
).fit(np.load(sys.argv[1]))
"""

PEER = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[2])
from tuned_fit import flow_seconds
rows = np.load(sys.argv[1])
flow_seconds(rows["train"], rows["validation"], int(sys.argv[3]))
"""


def flow_seconds(train: np.ndarray, validation: np.ndarray, seed: int) -> tuple[float, float]:
    """To the best epoch, and until early stopping has waited for a better one."""
    import torch
    import zuko

    torch.manual_seed(seed)
    model = zuko.flows.MAF(train.shape[1], 0, transforms=5, hidden_features=(64, 64))
    rows, judges = (torch.tensor(part, dtype=torch.float32) for part in (train, validation))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    best, at, waited, start = np.inf, 0.0, 0, time.perf_counter()
    while waited <= 30:
        for batch in torch.randperm(len(rows)).split(256):
            loss = -model().log_prob(rows[batch]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            loss = -float(model().log_prob(judges).mean())
        waited += 1
        if loss < best:
            best, at, waited = loss, time.perf_counter() - start, 0
    return at, time.perf_counter() - start


def main() -> None:
    from kexpfam import KernelExponentialFamily, Tuning
    from splits import wine

    split = wine("red", 0)
    model = KernelExponentialFamily(n_components=512, tuning=Tuning(n_steps=60), random_state=0)
    start = time.perf_counter()
    model.fit(split.train)
    first = time.perf_counter() - start
    warm = seconds(lambda: model.fit(split.train))
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/rows.npy", split.train)
        np.savez(f"{folder}/split.npz", train=split.train, validation=split.validation)
        command = [sys.executable, "-c", CHILD, f"{folder}/rows.npy", f"{folder}/compiled"]
        cold = seconds(lambda: subprocess.run(command, check=True))
        beside = [sys.executable, "-c", PEER, f"{folder}/split.npz", str(Path(__file__).parent)]
        processes = [
            seconds(lambda seed=seed: subprocess.run([*beside, str(seed)], check=True), repeats=1)
            for seed in SEEDS
        ]
    flows, patient = zip(
        *(flow_seconds(split.train, split.validation, seed) for seed in SEEDS), strict=True
    )
    save(
        "tuned_fit",
        {
            "command": "python benchmarks/tuned_fit.py",
            "rows": len(split.train),
            "warm_seconds": warm,
            "first_fit_seconds": first,
            "cold_process_seconds": cold,
            "flow_seconds_to_best_epoch": flows,
            "flow_seconds_with_patience": patient,
            "flow_process_seconds": processes,
            "warm_ratio": warm / float(np.median(patient)),
            "cold_ratio": cold / float(np.median(processes)),
        },
    )


if __name__ == "__main__":
    main()

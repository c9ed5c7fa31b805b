"""A tuned fit on red wine beside the training of a masked autoregressive flow.

    python benchmarks/tuned_fit.py

60 steps of tuning, 512 functions. "warm" is a second fit in the same process, "cold" the whole of
a fresh process, imports included, with compilations kept on disk by an earlier one. The flow's time
is that to its best validation epoch, imports not included; both get the same rows. Early stopping
waits 30 more epochs before it knows that this was the best: the time with them is noted as well,
and no ratio is made of it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

import numpy as np

from kexpfam import KernelExponentialFamily, Tuning
from measure import save, seconds
from splits import wine

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
    split = wine("red", 0)
    model = KernelExponentialFamily(n_components=512, tuning=Tuning(n_steps=60), random_state=0)
    start = time.perf_counter()
    model.fit(split.train)
    first = time.perf_counter() - start
    warm = seconds(lambda: model.fit(split.train))
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/rows.npy", split.train)
        command = [sys.executable, "-c", CHILD, f"{folder}/rows.npy", f"{folder}/compiled"]
        cold = seconds(lambda: subprocess.run(command, check=True))
    flows, patient = zip(
        *(flow_seconds(split.train, split.validation, seed) for seed in range(3)), strict=True
    )
    peer = float(np.median(flows))
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
            "warm_ratio": warm / peer,
            "cold_ratio": cold / peer,
        },
    )


if __name__ == "__main__":
    main()

"""Training of a neural density by Adam, stopped early: the same for every benchmark.

Batches of 256 at a rate of 1e-3, until the validation loss has not improved for 30 epochs; the best
epoch is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["train_until_it_stops_improving"]

_MOST_EPOCHS, _PATIENCE, _BATCH, _RATE = 1000, 30, 256, 1e-3


def train_until_it_stops_improving(
    model: Any,
    n_train: int,
    training_loss: Callable[[Any], Any],
    validation_loss: Callable[[], Any],
) -> None:
    """Train a PyTorch module in place; the training loss is that of some rows, by number."""
    import torch

    optimizer = torch.optim.Adam(model.parameters(), _RATE)
    best, state, waited = np.inf, None, 0
    for _ in range(_MOST_EPOCHS):
        for batch in torch.randperm(n_train).split(_BATCH):
            loss = training_loss(batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            reached = float(validation_loss())
        waited += 1
        if reached < best:
            best, waited = reached, 0
            state = {name: value.clone() for name, value in model.state_dict().items()}
        if waited > _PATIENCE:
            break
    model.load_state_dict(state)

"""Rows wait in one queue per fold until they fill a block.

So blocks do not depend on how the rows were cut into chunks: a table in memory and the same table
in files give the same sums to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from kexpfam.data.blocks import NOT_FINITE, cut
from kexpfam.data.rows import Chunk
from kexpfam.precision import on_host

__all__ = ["FoldSums"]


@dataclass
class FoldSums:
    """Moments of every fold, growing chunk by chunk."""

    summation: Any
    sums: dict[int, Any] = field(default_factory=dict)
    waiting: dict[int, list[tuple[np.ndarray, np.ndarray]]] = field(default_factory=dict)

    def add(self, chunk: Chunk) -> None:
        """Rows of a chunk; those of no weight count for nothing."""
        kept = chunk.weights != 0
        if kept.all() and (chunk.labels == chunk.labels[:1]).all():
            # Nothing to choose: choosing takes longer than an accelerator needs for the rows.
            for number in chunk.labels[:1]:
                self._queued(int(number), chunk.rows, chunk.weights)
            return
        for number in np.unique(chunk.labels[kept]):
            members = kept & (chunk.labels == number)
            self._queued(int(number), chunk.rows[members], chunk.weights[members])

    def _queued(self, number: int, rows: np.ndarray, weights: np.ndarray) -> None:
        self.waiting.setdefault(number, []).append((rows, weights))
        self._summed(number)

    def _summed(self, number: int) -> None:
        """Full blocks leave the queue."""
        size, queue = self.summation.block_size, self.waiting[number]
        if sum(len(rows) for rows, _ in queue) < size:
            return
        rows, weights = _joined(queue)
        whole = len(rows) - len(rows) % size
        parts = [slice(start, start + size) for start in range(0, whole, size)]
        self._add_blocks(number, [(rows[part], weights[part]) for part in parts], size)
        self.waiting[number] = [(rows[whole:], weights[whole:])]

    def _add_blocks(
        self, number: int, blocks: list[tuple[np.ndarray, np.ndarray]], size: int
    ) -> None:
        self.sums[number] = self.summation.added_blocks(self.sums.get(number), blocks, size)

    def totals(self) -> dict[int, Any]:
        """Moments by fold number, with what still waited."""
        for number, queue in self.waiting.items():
            rows, weights = _joined(queue)
            full = self.summation.block_size
            # After a full block another one is compiled already.
            pieces = [(slice(full), full)] if number in self.sums else cut(len(rows), full)
            for piece, size in pieces:
                if len(rows[piece]):
                    self._add_blocks(number, [(rows[piece], weights[piece])], size)
        self.waiting = {}
        found = {n: jax.tree.map(on_host, self.sums[n]) for n in sorted(self.sums)}
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found)):
            raise ValueError(NOT_FINITE)
        return found


def _joined(queue: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Rows and weights of a queue, not copied where there is nothing to join."""
    waiting = [part for part in queue if len(part[0])] or queue[:1]
    if len(waiting) == 1:
        return waiting[0]
    rows, weights = zip(*waiting, strict=True)
    return np.concatenate(rows), np.concatenate(weights)

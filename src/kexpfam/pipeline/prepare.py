"""How every fit begins: the columns' spread, a sketch of the rows, and what is wrong with them.

Rows that are visited many times are brought to the coordinates of a fit once, and stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.data.degenerate import warn_of_degeneracies
from kexpfam.data.rows import Chunk, RowSource
from kexpfam.data.sketch import Sketch, Sketching
from kexpfam.data.spool import StoredRows
from kexpfam.data.standardize import Standardizer, standardizer_from, sum_columns
from kexpfam.data.ties import tied_gaps
from kexpfam.progress import Progress
from kexpfam.threads import in_threads

__all__ = ["Prepared", "prepare", "stored_rows"]


class Prepared(NamedTuple):
    """Means and standard deviations of the columns, and some rows in the user's units.

    `tie_gaps` are the widths of the cells over which tied columns are spread, where they are.
    """

    spread: Standardizer
    sketching: Sketching
    sketch: Sketch
    tie_gaps: Float[np.ndarray, " d"]


def prepare(
    source: RowSource,
    seed: np.random.SeedSequence,
    sketch_size: int,
    names: Sequence[str] | None,
    *,
    spreads_ties: bool,
) -> Prepared:
    """Two passes over the rows. Columns that depend on each other, and the like, are named."""
    sums = sum_columns(source)
    spread = standardizer_from(sums, names)
    sketching = Sketching(spread, int(seed.generate_state(1)[0]), sketch_size)
    sketch = source.total(sketching, sketching.combine, "sketch")
    gaps = tied_gaps(sketch.rows) if spreads_ties else np.zeros(len(spread.scale))
    warn_of_degeneracies(sketch.rows, sketch.weights, names, sums.n_rows, gaps, stacklevel=5)
    return Prepared(spread, sketching, sketch, gaps)


def stored_rows(source: RowSource, view: Callable[[Chunk], Chunk], progress: Progress) -> RowSource:
    """Rows seen through a function of chunks: made once and stored, but made anew on a cluster."""
    local = source.local()
    if local is None:
        return source.mapped(view)
    rows, seen_through = local
    chunks = in_threads(lambda chunk: view(seen_through(chunk)), rows.chunks())
    return StoredRows(progress.rows(chunks, rows.n_rows, "whitened rows"), progress)

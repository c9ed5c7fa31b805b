"""One pass: chunks → blocks → moments, summed per cross-validation fold.

Rows wait in queues until they fill a block (`kexpfam.moments.queues`). Sums stay on the device that
computes them until all rows have been seen.

Cost, for n rows and m features of a Fourier basis: n·m² flops for the upper half of the products
and n·m trigonometric values, against n·d numbers read. Only one block's features exist at a time,
and one m × m record per fold is kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.base import BaseDensity
from kexpfam.base.traced import TracedDensity, traced_density
from kexpfam.data.blocks import (
    LARGEST_BLOCK,
    Block,
    make_block,
    padded,
)
from kexpfam.data.rows import Chunk, RowSource
from kexpfam.features import Basis
from kexpfam.features.products import add_upper_products
from kexpfam.moments.arithmetic import add_moments
from kexpfam.moments.queues import FoldSums
from kexpfam.noise import Noise
from kexpfam.precision import compiled, is_accelerated
from kexpfam.threads import one_ahead

__all__ = ["BasisSummation", "FoldSums", "MomentSource", "Summation", "block_moments"]


_ACCELERATOR_BLOCK = 1 << 16


@compiled
def block_moments(basis: Any, block: Block, noise: Noise, noise_scale: Any) -> Any:
    """The moments of one block of rows."""
    return noise.moments(basis, block, noise_scale)


class _Piece(NamedTuple):
    """A block whose base density is evaluated in compiled code."""

    rows: Any
    weights: Any
    covariance: Any
    directions: Any
    noise_scale: Any
    base: Any


def _whole(piece: _Piece | Block) -> Block:
    """With the base density's derivatives at the rows."""
    if isinstance(piece, Block):
        return piece
    gradient, hessian, bend = piece.base.derivatives(piece.rows, piece.covariance)
    return Block(
        piece.rows, piece.weights, gradient, hessian, bend, piece.directions, piece.noise_scale
    )


@compiled(on_device=True)
def _piece_moments(basis: Any, piece: _Piece | Block, noise: Noise) -> Any:
    return noise.moments(basis, _whole(piece), piece.noise_scale)


# Apart from the moments of a piece, which take long to compile: those are the same for all pieces.
@compiled(on_device=True, donated=("sums",))
def _joined(sums: Any, more: Any) -> Any:
    return add_moments(sums, more)


@compiled
def _parts(basis: Any, piece: _Piece | Block) -> Any:
    return basis.parts(_whole(piece))


@compiled
def _block_of(piece: _Piece | Block) -> Block:
    return _whole(piece)


def _added_on_host(sums: Any, parts: Any) -> Any:
    """Products by BLAS of lines that XLA has made."""
    lines, others = parts
    gram = add_upper_products(None if sums is None else sums.gram, lines)
    if sums is not None:
        others = add_moments(others, sums._replace(gram=others.gram))
    return others._replace(gram=gram)


class Summation(ABC):
    """What is summed over rows, block by block.

    Called with chunks it gives moments by fold: a summary, as `RowSource.total` takes it.
    """

    block_size: int

    @abstractmethod
    def content(self) -> list[Any]:
        """All that the sums depend on besides the rows: arrays, records of arrays and words."""

    def template(self, n_columns: int) -> Any:
        """Sums of nothing, for their structure."""
        return self.added(None, np.zeros((1, n_columns)), np.zeros(1), self.block_size)

    @abstractmethod
    def added(
        self, sums: Any, rows: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"], size: int
    ) -> Any:
        """Sums (None at first) with at most `size` more rows in them."""

    def added_blocks(
        self, sums: Any, blocks: list[tuple[np.ndarray, np.ndarray]], size: int
    ) -> Any:
        """Sums with the rows and weights of several blocks in them."""
        for rows, weights in blocks:
            sums = self.added(sums, rows, weights, size)
        return sums

    def __call__(self, chunks: Iterable[Chunk]) -> dict[int, Any]:
        sums = FoldSums(self)
        for chunk in chunks:
            sums.add(chunk)
        return sums.totals()

    @staticmethod
    def combine(one: dict[int, Any], other: dict[int, Any]) -> dict[int, Any]:
        """Sums by fold over both sets of rows."""
        both = {number: add_moments(one[number], other[number]) for number in one.keys() & other}
        return dict(sorted({**one, **other, **both}.items()))


def _sums_by_itself(basis: Basis, noise: Noise) -> bool:
    """Whether the basis sums by itself, in blocks of its own size, outside compiled code."""
    return basis.summed_by == "itself" and noise.enters != "expanded"


@dataclass(frozen=True)
class BasisSummation(Summation):
    """A basis's moments under a noise, at a scale, over a base density."""

    basis: Basis
    noise: Noise
    base: BaseDensity
    noise_scale: float
    block_size: int = LARGEST_BLOCK

    @cached_property
    def _traced(self) -> TracedDensity | None:
        return traced_density(self.base)

    @cached_property
    def _on_host(self) -> bool:
        """Whether products are left to BLAS: on a CPU, for sums that noise does not enter."""
        plain = self.basis.summed_by == "products" and self.noise.enters == "in closed form"
        return plain and not is_accelerated()

    def content(self) -> list[Any]:
        words = [type(part).__name__ for part in (self.basis, self.noise, self.base)]
        words += [
            f"{one.name}={getattr(self.basis, one.name)!r}"
            for one in fields(self.basis)  # type: ignore[arg-type]
            if isinstance(getattr(self.basis, one.name), (bool, int, str))
        ]
        traced = self._traced if self._traced is not None else ()
        return [self.basis, self.noise, traced, *words, self.noise_scale, self.block_size]

    def added(
        self, sums: Any, rows: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"], size: int
    ) -> Any:
        for piece in self._pieces(rows, weights, size):
            if _sums_by_itself(self.basis, self.noise):
                found = self.basis.host_moments(_block_of(piece))  # type: ignore[attr-defined]
                sums = found if sums is None else add_moments(sums, found)
            elif self._on_host:
                sums = _added_on_host(sums, _parts(self.basis, piece))
            else:
                found = _piece_moments(self.basis, piece, self.noise)
                sums = found if sums is None else _joined(sums, found)
        return sums

    def added_blocks(
        self, sums: Any, blocks: list[tuple[np.ndarray, np.ndarray]], size: int
    ) -> Any:
        if not self._on_host:
            return super().added_blocks(sums, blocks, size)
        pieces = (piece for block in blocks for piece in self._pieces(*block, size))
        # XLA leaves cores idle now and then, and so does BLAS: they work side by side.
        for parts in one_ahead(partial(_parts, self.basis), pieces):
            sums = _added_on_host(sums, parts)
        return sums

    def _pieces(
        self, rows: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"], size: int
    ) -> Iterator[_Piece | Block]:
        """A block of rows, or of noisy copies of them, for each copy."""
        copies = list(self.noise.copies(rows, self.noise_scale))
        for copied, directions in copies:
            yield self._piece(copied, weights / len(copies), directions, size)

    @cached_property
    def _covariances(self) -> dict[int, Float[np.ndarray, "d d"]]:
        """The noise's, by number of columns: found by differentiation, once."""
        return {}

    def _piece(
        self,
        rows: Float[np.ndarray, "n d"],
        weights: Float[np.ndarray, " n"],
        directions: Float[np.ndarray, "n d"] | None,
        size: int,
    ) -> _Piece | Block:
        n_columns = rows.shape[1]
        if n_columns not in self._covariances:
            self._covariances[n_columns] = self.noise.covariance_shape(n_columns)
        covariance = self._covariances[n_columns]
        # Few rows are not worth compiling a base density for.
        if self._traced is None or size < self.block_size:
            return make_block(
                rows, weights, self.base, covariance, size, directions, self.noise_scale
            )
        moves = None if directions is None else padded(directions, size)
        scale = np.asarray(self.noise_scale, float)
        shares = padded(weights, size)
        return _Piece(padded(rows, size), shares, covariance, moves, scale, self._traced)


def largest_block() -> int:
    """Rows of a block: what fits a processor's cache, or what fills an accelerator."""
    return _ACCELERATOR_BLOCK if is_accelerated() else LARGEST_BLOCK


def _walked(source: RowSource, summation: BasisSummation) -> dict[int, Any]:
    return source.total(summation, summation.combine, "moments")


@dataclass(frozen=True)
class MomentSource:
    """Moments by fold at any noise scale: one pass for all of them, where the basis allows it."""

    basis: Basis
    noise: Noise
    base: BaseDensity
    source: RowSource
    block_size: int | None = None
    walk: Callable[[RowSource, BasisSummation], dict[int, Any]] = _walked

    def at(self, noise_scale: float) -> dict[int, Any]:
        """Moments by fold number, fit for a system at this noise scale."""
        if self.noise.moments_follow_scale(self.basis):
            return self._pass(noise_scale)
        return self._for_every_scale

    @cached_property
    def _for_every_scale(self) -> dict[int, Any]:
        return self._pass(0.0)

    def _pass(self, noise_scale: float) -> dict[int, Any]:
        size = self.block_size
        if size is None:
            by_itself = _sums_by_itself(self.basis, self.noise)
            size = self.basis.block_size if by_itself else largest_block()  # type: ignore[attr-defined]
        summation = BasisSummation(self.basis, self.noise, self.base, noise_scale, size)
        return self.walk(self.source, summation)

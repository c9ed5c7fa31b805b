"""Tables whose rows lie close to a curved surface: columns that are nearly functions of others.

Real tables are full of them (ratios, totals, physical laws), and they are hard for anything that
smooths: the density is high and thin, and its score large.

| name    | columns | what is thin                                                       |
|---------|---------|--------------------------------------------------------------------|
| ratio   | 4       | the third column is the second over the first                      |
| product | 5       | a product of two columns, and the exponential of another           |
| smooth  | 6       | a smooth function of five uniform columns                          |
| powers  | 5       | a square, a cube and an absolute value of two uniform columns      |
| sheet   | 3       | a rolled sheet                                                     |
| sphere  | 4       | the surface of a sphere                                            |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from kexpfam.choices import checked_name, numpys_generator, whole

__all__ = ["THIN_TABLES", "make_thin_table"]


def _ratio(n: int, generator: np.random.Generator) -> Float[np.ndarray, "n 4"]:
    first = np.exp(generator.standard_normal(n) / 2)
    second = first * generator.beta(4, 8, n)
    third = second / first + 1e-3 * generator.standard_normal(n)
    return np.column_stack([first, second, third, np.log(first) + 0.3 * _noise(n, generator)])


def _product(n: int, generator: np.random.Generator) -> Float[np.ndarray, "n 5"]:
    columns = generator.standard_normal((n, 3))
    product = columns[:, 0] * columns[:, 1] + 0.01 * _noise(n, generator)
    return np.column_stack([columns, product, np.exp(columns[:, 2]) + 0.01 * _noise(n, generator)])


def _smooth(n: int, generator: np.random.Generator) -> Float[np.ndarray, "n 6"]:
    columns = generator.uniform(-1, 1, (n, 5))
    value = np.sin(3 * columns[:, 0]) + columns[:, 1] * columns[:, 2]
    return np.column_stack([columns, value + 0.02 * _noise(n, generator)])


def _powers(n: int, generator: np.random.Generator) -> Float[np.ndarray, "n 5"]:
    first, second = generator.uniform(-1, 1, (2, n))
    square = first**2 + 0.005 * _noise(n, generator)
    cube = first**3 + second + 0.005 * _noise(n, generator)
    size = np.abs(second) + 0.01 * _noise(n, generator)
    return np.column_stack([first, second, square, cube, size])


def _sheet(n: int, generator: np.random.Generator) -> Float[np.ndarray, "n 3"]:
    angle, height = 1.5 * np.pi * (1 + 2 * generator.random(n)), 21 * generator.random(n)
    sheet = np.column_stack([angle * np.cos(angle), height, angle * np.sin(angle)])
    return sheet + 0.05 * generator.standard_normal((n, 3))


def _sphere(n: int, generator: np.random.Generator) -> Float[np.ndarray, "n 4"]:
    directions = generator.standard_normal((n, 4))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions * (1 + 0.01 * generator.standard_normal((n, 1)))


def _noise(n: int, generator: np.random.Generator) -> Float[np.ndarray, " n"]:
    return generator.standard_normal(n)


THIN_TABLES: dict[str, Callable[[int, np.random.Generator], Float[np.ndarray, "n d"]]] = {
    "ratio": _ratio,
    "product": _product,
    "smooth": _smooth,
    "powers": _powers,
    "sheet": _sheet,
    "sphere": _sphere,
}


def make_thin_table(
    name: str, n_samples: int, random_state: Any = None
) -> Float[np.ndarray, "n d"]:
    """Rows that lie close to a curved surface.

    Parameters
    ----------
    name : {"ratio", "product", "smooth", "powers", "sheet", "sphere"}
    n_samples : int
    random_state : int, RandomState, Generator or None, default=None

    Returns
    -------
    ndarray of shape (n_samples, n_features)

    Examples
    --------
    >>> from kexpfam.datasets import make_thin_table
    >>> make_thin_table("ratio", 100, random_state=0).shape
    (100, 4)
    """
    checked_name("name", name, tuple(THIN_TABLES))
    generator = numpys_generator(random_state)
    return THIN_TABLES[name](whole("n_samples", n_samples), generator)

"""Real tables of the UCI repository, whole or split by a named protocol.

| table               | rows                           | columns             | check           |
|---------------------|--------------------------------|---------------------|-----------------|
| Wine Quality, red   | 1599 (1359 distinct)           | 11 inputs           | sha256          |
| Wine Quality, white | 4898 (3961 distinct)           | 11 inputs           | sha256          |
| MiniBooNE           | 130 064, of them 36 499 signal | 50                  | form, see below |
| MiniBooNE, part     | 13 794 signal                  | 40 of the 43 of MAF | sha256          |
| Gas turbine         | 36 733                         | 11 sensors          | sha256          |

Files are read from the folder that the environment variable ``KEXPFAM_DATA`` names:

    wine/winequality-red.csv        miniboone/MiniBooNE_PID.txt
    wine/winequality-white.csv      miniboone/miniboone_40d.npz
    gas_turbine/gas_turbine.csv

and otherwise downloaded once into the user's cache (`kexpfam.datasets.sources`). The part of
MiniBooNE and the gas turbine's five years in one file are not published there and are read from the
folder only.

No digest of MiniBooNE is pinned. It is checked by what it says of itself: its first line must
state 36 499 signal and 93 565 background events, and that many rows of 50 finite numbers must
follow. This finds a truncated or foreign file, not one with a number altered.

All are published under CC BY 4.0. The protocols are described in `kexpfam.datasets.protocols`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, overload

import numpy as np
from jaxtyping import Float, Int

from kexpfam.choices import checked_name
from kexpfam.datasets import protocols
from kexpfam.datasets.protocols import Split
from kexpfam.datasets.sources import FOLDER_VARIABLE, Source, check_sha256, in_folder, obtain

__all__ = ["Table", "load_gas_turbine", "load_miniboone", "load_wine_quality"]

WINE_DIGESTS = {
    "red": "4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
    "white": "76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836",
}
PART_DIGEST = "d08b6340e0d123be2c783ee2074d3b1186178bf450065c4e550cd635b85c6b35"
TURBINE_DIGEST = "31e4f0ab1208549863ef39e4dfb34e1a939968326916997f9bc2ca4ba986aa7d"
# Signal and background events, as the first line of the file states them.
EVENT_COUNTS = (36_499, 93_565)
EVENT_COLUMNS = 50
MAF_SHAPE = (36_488, 43)

_WINE_TEXT = (
    "UCI Wine Quality, {color}: physicochemical measurements of Portuguese vinho verde; the "
    "target is its quality, 0 to 10. Many rows are exact copies of others: a random split that "
    "keeps them tests on rows that were trained on. CC BY 4.0. P. Cortez, A. Cerdeira, "
    "F. Almeida, T. Matos, J. Reis, 'Modeling wine preferences by data mining from "
    "physicochemical properties', Decision Support Systems 47 (2009)."
)
_MINIBOONE_TEXT = (
    "UCI MiniBooNE particle identification, {which}; the target is 1 for signal (electron "
    "neutrinos), 0 for background (muon neutrinos). CC BY 4.0. B. Roe et al., 'Boosted decision "
    "trees, an alternative to artificial neural networks', Nuclear Instruments and Methods A "
    "543 (2005)."
)
_TURBINE_TEXT = (
    "UCI Gas Turbine CO and NOx Emission: hourly means of eleven sensors of a gas turbine, 2011 to "
    "2015. CC BY 4.0. H. Kaya, P. Tüfekci, E. Uzun, 'Predicting CO and NOx emissions from gas "
    "turbines', Turkish Journal of Electrical Engineering and Computer Sciences 27 (2019)."
)


@dataclass(frozen=True)
class Table:
    """A table as published.

    Attributes
    ----------
    rows : array of shape (n_rows, n_features)
    target : array of int of shape (n_rows,), or None
        What a classifier would predict, where there is such a thing; no density estimate here uses
        it.
    feature_names : tuple of str
    description : str
    """

    rows: Float[np.ndarray, "n d"]
    target: Int[np.ndarray, " n"] | None
    feature_names: tuple[str, ...]
    description: str


@overload
def load_wine_quality(
    color: str = ..., *, protocol: None = ..., random_state: Any = ...
) -> Table: ...


@overload
def load_wine_quality(color: str = ..., *, protocol: str, random_state: Any = ...) -> Split: ...


def load_wine_quality(
    color: str = "red", *, protocol: str | None = None, random_state: Any = 0
) -> Table | Split:
    """UCI Wine Quality: eleven measurements of red or white wines.

    Parameters
    ----------
    color : {'red', 'white'}, default='red'
    protocol : {None, 'deduplicated', 'deep_kexpfam'}, default=None
        None gives the table. 'deduplicated' drops copies of rows before splitting;
        'deep_kexpfam' keeps them, as the literature does (see `kexpfam.datasets.protocols`).
    random_state : int, RandomState, Generator or None, default=0
        Seed of the noise and the order of a protocol.

    Returns
    -------
    Table or Split

    Examples
    --------
    >>> from kexpfam.datasets import load_wine_quality
    >>> wine = load_wine_quality("red", protocol="deduplicated")  # doctest: +SKIP
    >>> wine.train.shape, wine.validation.shape, wine.test.shape  # doctest: +SKIP
    ((1089, 11), (135, 11), (135, 11))
    """
    splitters = {"deduplicated": protocols.deduplicated, "deep_kexpfam": protocols.deep_kexpfam}
    checked_name("color", color, WINE_DIGESTS)
    checked_name("protocol", protocol, (None, *splitters))
    name = f"wine/winequality-{color}.csv"
    table = obtain(Source(name, "186/wine+quality.zip", partial(_read_wine, color=color)))
    if protocol is None:
        return table
    return splitters[protocol](table.rows, table.feature_names, random_state)


@overload
def load_miniboone(*, protocol: None = ...) -> Table: ...


@overload
def load_miniboone(*, protocol: str) -> Split: ...


def load_miniboone(*, protocol: str | None = None) -> Table | Split:
    """UCI MiniBooNE: particle events, signal and background, or a part of the signal.

    Parameters
    ----------
    protocol : {None, 'maf', 'maf_40_columns'}, default=None
        None gives the complete table, or the 40-column part where ``KEXPFAM_DATA`` holds only
        that (the description says which). 'maf' is the benchmark of Papamakarios et al. and
        needs the complete table; 'maf_40_columns' splits the part as it says itself. Their
        log-likelihoods do not compare. Nothing in either is random.

    Returns
    -------
    Table or Split

    Examples
    --------
    >>> from kexpfam.datasets import load_miniboone
    >>> events = load_miniboone(protocol="maf")  # doctest: +SKIP
    >>> events.train.shape, events.validation.shape, events.test.shape  # doctest: +SKIP
    ((29556, 43), (3284, 43), (3648, 43))
    """
    checked_name("protocol", protocol, (None, "maf", "maf_40_columns"))
    events = Source(
        "miniboone/MiniBooNE_PID.txt", "199/miniboone+particle+identification.zip", _read_events
    )
    part = in_folder("miniboone/miniboone_40d.npz")
    if protocol == "maf_40_columns":
        return _split_part(part)
    if protocol == "maf":
        return _split_events(obtain(events))
    if part is not None and in_folder(events.path) is None:
        return _read_part(part)[0]
    return obtain(events)


def load_gas_turbine() -> Table:
    """UCI Gas Turbine CO and NOx Emission: eleven sensors, hour by hour.

    Returns
    -------
    Table
        36 733 rows; nothing is dropped or changed.

    Examples
    --------
    >>> from kexpfam.datasets import load_gas_turbine
    >>> load_gas_turbine().rows.shape  # doctest: +SKIP
    (36733, 11)
    """
    path = in_folder("gas_turbine/gas_turbine.csv")
    if path is None:
        raise FileNotFoundError(
            "The gas turbine's five years are not published as one file: load_gas_turbine needs "
            f"{FOLDER_VARIABLE} to name a folder that holds gas_turbine/gas_turbine.csv."
        )
    check_sha256(path, TURBINE_DIGEST)
    with path.open(encoding="ascii") as stream:
        names = tuple(stream.readline().strip().split(","))
        rows = np.loadtxt(stream, delimiter=",")
    return Table(rows, None, names, _TURBINE_TEXT)


def _split_part(path: Path | None) -> Split:
    if path is None:
        raise FileNotFoundError(
            "The 40-column part of MiniBooNE is not published for download: protocol="
            f"'maf_40_columns' needs {FOLDER_VARIABLE} to name a folder that holds "
            "miniboone/miniboone_40d.npz. Try protocol='maf', which needs the complete table."
        )
    table, part = _read_part(path)
    return protocols.maf_40_columns(table.rows, part, table.feature_names)


def _split_events(table: Table) -> Split:
    assert table.target is not None
    split = protocols.maf(table.rows, table.target, table.feature_names)
    found = sum(map(len, (split.train, split.validation, split.test))), len(split.feature_names)
    if found != MAF_SHAPE:
        warnings.warn(
            f"The MAF protocol gave {found[0]} rows of {found[1]} columns, where its authors "
            f"report {MAF_SHAPE[0]} of {MAF_SHAPE[1]}: log-likelihoods will not compare with "
            "published ones.",
            stacklevel=3,
        )
    return split


def _read_wine(path: Path, color: str) -> Table:
    check_sha256(path, WINE_DIGESTS[color])
    with path.open(encoding="ascii") as stream:
        names = [name.strip('"') for name in stream.readline().strip().split(";")]
        values = np.loadtxt(stream, delimiter=";")
    return Table(
        rows=values[:, :-1],
        target=values[:, -1].astype(np.int64),
        feature_names=tuple(names[:-1]),
        description=_WINE_TEXT.format(color=color),
    )


def _read_events(path: Path) -> Table:
    with path.open(encoding="ascii") as stream:
        header = stream.readline().split()
        if header != [str(count) for count in EVENT_COUNTS]:
            raise ValueError(
                f"{path.name} is not the original file: its first line should state "
                f"{EVENT_COUNTS[0]} signal and {EVENT_COUNTS[1]} background events; got "
                f"{' '.join(header)[:60]!r}."
            )
        rows = np.loadtxt(stream, ndmin=2)
    if rows.shape != (sum(EVENT_COUNTS), EVENT_COLUMNS) or not np.isfinite(rows).all():
        raise ValueError(
            f"{path.name} is not the original file: expected {sum(EVENT_COUNTS)} rows of "
            f"{EVENT_COLUMNS} finite numbers; got {rows.shape[0]} of {rows.shape[1]}, "
            f"{int((~np.isfinite(rows)).sum())} numbers not finite."
        )
    return Table(
        rows=rows,
        target=np.repeat([1, 0], EVENT_COUNTS),
        feature_names=tuple(f"pid {j}" for j in range(EVENT_COLUMNS)),
        description=_MINIBOONE_TEXT.format(which="complete"),
    )


def _read_part(path: Path) -> tuple[Table, Int[np.ndarray, " n"]]:
    """The part of MiniBooNE, and the split that each of its rows belongs to."""
    check_sha256(path, PART_DIGEST)
    with np.load(path) as arrays:
        rows, columns = arrays["X"], arrays["maf43_columns"]
        part = arrays["maf_split_0train_1val_2test"]
    table = Table(
        rows=rows,
        target=np.ones(len(rows), np.int64),
        feature_names=tuple(f"MAF column {j}" for j in columns),
        description=_MINIBOONE_TEXT.format(
            which="a part: 13 794 signal events, 40 of the 43 columns of Papamakarios et al., "
            "in their units"
        ),
    )
    return table, part

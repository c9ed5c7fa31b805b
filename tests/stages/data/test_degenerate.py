"""Tables without a density are named with their columns, and no others are."""

from __future__ import annotations

import csv
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from kexpfam import DegenerateTableError, DegenerateTableWarning
from kexpfam.data.degenerate import degeneracies, warn_of_degeneracies
from kexpfam.data.dependence import linear_relations
from kexpfam.data.identifiers import row_numbers
from kexpfam.data.rows import ArrayRows
from kexpfam.data.sketch import Sketching
from kexpfam.data.standardize import standardizer_from, sum_columns
from kexpfam.data.ties import tied_gaps

N_ROWS = 300


def sketch_of(rows, weights=None, size=20_000):
    """The sketch as a fit makes it, and the number of rows."""
    rows = np.asarray(rows, float)
    source = ArrayRows(rows, np.ones(len(rows)) if weights is None else weights)
    sums = sum_columns(source)
    sketching = Sketching(standardizer_from(sums), 0, size)
    return source.total(sketching, sketching.combine, "sketch"), sums.n_rows


def found_in(rows, names=None, *, spread=False, **options):
    sketch, n_rows = sketch_of(rows, **options)
    cells = tied_gaps(sketch.rows) if spread else None
    return degeneracies(sketch.rows, sketch.weights, names, n_rows, cells)


def look_at(rows, names=None, **options):
    sketch, n_rows = sketch_of(rows, **options)
    warn_of_degeneracies(sketch.rows, sketch.weights, names, n_rows)


@pytest.fixture
def noise(generator):
    return generator.standard_normal((N_ROWS, 3))


@pytest.fixture
def bills(generator):
    """Net and tax in cents, as a file holds them."""
    net = np.round(generator.lognormal(4, 1, N_ROWS), 2)
    tax = np.round(net * generator.choice([0.07, 0.19], N_ROWS) + generator.random(N_ROWS), 2)
    return net, tax


# -- columns that follow from others ------------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 0, 3, 1), (3, 2, 1, 0)])
def test_a_sum_is_named_with_its_parts(bills, noise, order):
    net, tax = bills
    columns = {"net": net, "tax": tax, "gross": net + 1.19 * tax, "other": noise[:, 0]}
    names = [list(columns)[place] for place in order]
    (found,) = found_in(np.column_stack([columns[name] for name in names]), names)
    assert (found.kind, found.column, found.no_density) == ("dependent", names.index("gross"), True)
    assert found.words.startswith("'gross' is a linear combination of '")
    terms = {"net", "1.19 · tax"}
    assert set(found.words.partition("(gross = ")[2].partition(")")[0].split(" + ")) == terms


def test_copies_are_named_and_so_are_other_units(noise):
    celsius = 10 + 8 * noise[:, 0]
    table = np.column_stack([celsius, noise[:, 1], 1.8 * celsius + 32, celsius, -celsius])
    names = ["temp_c", "wind", "temp_f", "copy", "minus"]
    words = [one.words for one in found_in(table, names)]
    assert words[0].startswith("'temp_f' is a linear function of 'temp_c' (temp_f = 1.8 · temp_c ")
    assert "+ 32) to rounding" in words[0]
    assert words[1].startswith("'copy' equals 'temp_c' to rounding")
    assert "(minus = −temp_c)" in words[2]
    assert len(words) == 3


def test_plain_arrays_have_numbers_for_names(noise):
    table = np.column_stack([noise, noise[:, 0] - 2 * noise[:, 1]])
    (found,) = found_in(table)
    assert "Column 3 is a linear combination of column 0 and column 1" in found.words
    assert "(column 3 = column 0 − 2 · column 1)" in found.words
    with pytest.raises(DegenerateTableError, match=r"numpy\.delete\(X, \[3\], axis=1\)"):
        look_at(table)


def test_names_of_several_words_stay_readable(noise):
    table = np.column_stack([noise[:, :2], noise[:, 0] + noise[:, 1]])
    names = ["net price", "tax", "gross price"]
    (found,) = found_in(table, names)
    assert "('gross price' = 'net price' + tax)" in found.words
    with pytest.raises(DegenerateTableError, match="--exclude 'gross price' on the command line"):
        look_at(table, names)


def test_what_is_left_and_the_limit_are_in_the_message(noise):
    almost = noise[:, 0] + 3e-8 * noise[:, 1]
    (found,) = found_in(np.column_stack([noise[:, 0], noise[:, 2], almost]), ["a", "b", "c"])
    assert not found.no_density
    assert found.words == (
        "'c' equals 'a' to within 3e-08 of its standard deviation (the limit is 1e-06)."
    )
    table = np.column_stack([noise[:, 0], noise[:, 0] + 3e-6 * noise[:, 1]])
    assert found_in(table) == []


@pytest.mark.parametrize("digits", ["%.17g", "%.15g"])
@pytest.mark.parametrize("far", [0.0, 1e4, 1.7e9])
def test_rounding_of_values_far_from_zero_is_no_residual(noise, far, digits):
    """Time stamps of seconds are stored to 2e-7, a tenth of a millionth of their deviation."""
    table = np.column_stack([far + noise[:, 0], noise[:, 1], far + noise[:, 0] + noise[:, 1]])
    table = np.array([[float(digits % value) for value in row] for row in table])
    relations = linear_relations(table, np.ones(N_ROWS))
    if digits == "%.15g" and far == 1.7e9:
        # Six digits after the point are all that is left: more than the tolerance.
        assert relations == []
        return
    assert [relation.exact for relation in relations] == [True]
    assert (relations[0].column, relations[0].others, relations[0].offset) == (2, (0, 1), 0.0)
    # Coefficients are known to about the residual.
    np.testing.assert_allclose(relations[0].slopes, 1.0, atol=1e-6)


def test_single_precision_earns_a_warning(noise):
    table = np.column_stack([noise[:, :2], noise[:, :2].sum(axis=1).astype(np.float32)])
    with pytest.warns(DegenerateTableWarning, match="column 2 = column 0 \\+ column 1"):
        look_at(table)


def test_every_relation_is_named_and_dropping_what_is_named_ends_them(generator):
    free = generator.standard_normal((N_ROWS, 6))
    table = np.column_stack(
        [
            *(free[:, 0] + free[:, 1], free[:, 2] - free[:, 0] / 2, free),
            *(free.sum(axis=1), 3 * free[:, 5], free[:, 3] + free[:, 4]),
        ]
    )
    relations = linear_relations(table, np.ones(N_ROWS))
    dropped = [relation.column for relation in relations]
    assert len(dropped) == table.shape[1] - 6
    assert linear_relations(np.delete(table, dropped, axis=1), np.ones(N_ROWS)) == []
    for relation in relations:
        right = table[:, relation.others] @ relation.slopes + relation.offset
        np.testing.assert_allclose(table[:, relation.column], right, atol=1e-12)


def test_the_weights_decide_which_rows_count(noise):
    table = noise.copy()
    table[:, 2] = table[:, 0]
    table[:5, 2] += 1
    assert linear_relations(table, np.ones(N_ROWS)) == []
    weights = np.where(np.arange(N_ROWS) < 5, 0.0, 2.0)
    (relation,) = linear_relations(table, weights)
    assert (relation.column, relation.others) == (2, (0,))


@pytest.mark.parametrize("scales", [(1e200, 1e-200, 1.0), (1e-300, 1e300, 1e10)])
def test_units_do_not_matter(noise, scales):
    table = np.column_stack([noise[:, :2], noise[:, 0] - noise[:, 1]]) * np.array(scales)
    (relation,) = linear_relations(table, np.ones(N_ROWS))
    assert relation.column == 2
    assert relation.exact


def test_an_outlier_that_columns_share_makes_them_no_copies(noise):
    table = noise.copy()
    table[17] = 1e9
    assert linear_relations(table, np.ones(N_ROWS)) == []


def test_rows_that_hold_a_relation_by_their_number_alone(generator):
    wide = generator.standard_normal((15, 30))
    (found,) = found_in(wide)
    assert (found.kind, found.column, found.no_density) == ("few rows", None, False)
    assert "15 distinct rows for 30 columns" in found.words
    with pytest.warns(DegenerateTableWarning, match="more rows or fewer columns"):
        look_at(wide)
    # A copy is a copy, but so few rows may be it by chance.
    wide[:, 7] = wide[:, 3]
    assert [one.no_density for one in found_in(wide)] == [False, False]
    assert found_in(generator.standard_normal((8, 6))) == []
    assert found_in(generator.standard_normal((2, 1))) == []


def test_columns_that_are_spread_over_cells_have_a_density(generator):
    parts = generator.poisson(20, (N_ROWS, 2))
    table = np.column_stack([parts, parts.sum(axis=1), generator.standard_normal(N_ROWS)])
    (found,) = found_in(table)
    assert found.no_density
    (found,) = found_in(table, spread=True)
    assert not found.no_density
    assert "column 2 = column 0 + column 1" in found.words
    assert "so a density exists" in found.words


# -- columns that number the rows ---------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("name", ["Unnamed: 0", "", "index", "who"])
def test_a_saved_index_is_found(noise, generator, name, first):
    index = first + generator.permutation(N_ROWS)
    names = ["a", "b", "c", name]
    (found,) = found_in(np.column_stack([noise, index]), names)
    assert (found.kind, found.column, found.no_density) == ("index", 3, False)
    assert f"{name!r} numbers the rows, from {first} to {first + N_ROWS - 1}" in found.words
    with pytest.warns(DegenerateTableWarning, match=r"X\.drop\(columns=\['") as caught:
        look_at(np.column_stack([noise, index]), names)
    # No option names a column without a name.
    assert ("--exclude" in str(caught[0].message)) == bool(name)


def test_an_index_with_gaps_is_known_by_its_name(noise, generator):
    index = np.sort(generator.choice(2 * N_ROWS, N_ROWS, replace=False))
    table = np.column_stack([index, noise])
    assert found_in(table, ["Unnamed: 0", "a", "b", "c"])[0].kind == "index"
    assert found_in(table, ["who", "a", "b", "c"])[0].kind == "identifier"


def test_identifiers_are_found(noise, generator):
    customer = 1001 + generator.choice(4 * N_ROWS, N_ROWS, replace=False)
    (found,) = found_in(np.column_stack([customer, noise]), ["customer", "a", "b", "c"])
    assert (found.kind, found.column, found.no_density) == ("identifier", 0, False)
    assert "looks like an identifier" in found.words


@pytest.mark.parametrize("first", [0, 1, 500_000])
def test_tables_larger_than_the_sketch(generator, first):
    table = np.column_stack([first + np.arange(5000), generator.standard_normal((5000, 2))])
    (found,) = found_in(table, size=400)
    assert found.kind == ("identifier" if first > 1 else "index")


def test_few_rows_may_be_numbered_by_chance(generator):
    for n_rows, expected in ((19, 0), (20, 1)):
        table = np.column_stack([np.arange(n_rows), generator.standard_normal(n_rows)])
        assert len(found_in(table)) == expected


def test_a_single_column_of_repeated_numbers_is_no_index(generator):
    """The sketch holds each value once, with the weight of all its copies."""
    for size in (20_000, 40):
        assert found_in(generator.integers(0, 90, (2000, 1)), size=size) == []
    # Exactly two copies of each: all weights are equal, but there are more rows than values.
    rows = np.repeat(np.arange(50.0), 2)[:, None]
    assert found_in(rows) == []
    sketch, n_rows = sketch_of(generator.integers(0, 90, (2000, 1)), generator.random(2000) + 0.1)
    assert row_numbers(sketch.rows, sketch.weights, n_rows) == []


def integers(generator):
    return {
        "counts": generator.poisson(3, 400),
        "large counts": generator.poisson(50_000, 400),
        "ages": generator.integers(18, 90, 400),
        "years": generator.integers(1900, 2025, 400),
        "zip codes": generator.choice(generator.integers(10_000, 99_999, 150), 400),
        "populations": np.rint(generator.lognormal(10, 2, 400)),
        "sparse": generator.integers(0, 10**9, 400),
    }


@pytest.mark.parametrize("seed", range(5))
def test_whole_numbers_that_were_measured_are_left_alone(seed):
    columns = integers(np.random.default_rng(seed))
    assert found_in(np.column_stack(list(columns.values())), list(columns)) == []
    for name, column in columns.items():
        assert found_in(column[:, None], [name]) == []


# -- the message --------------------------------------------------------------------------------


def test_one_warning_names_all_and_what_to_do(noise):
    almost = noise[:, 0] + 1e-8 * noise[:, 1]
    table = np.column_stack([np.arange(N_ROWS), noise, almost])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        look_at(table, ["id", "a", "b", "c", "d"])
    (one,) = caught
    assert one.category is DegenerateTableWarning
    text = str(one.message)
    assert "'d' equals 'a' to within 9e-09" in text
    assert "'id' numbers the rows" in text
    assert text.endswith("--exclude d,id on the command line, or X.drop(columns=['d', 'id']).")


def test_an_error_names_the_rest_too(noise):
    table = np.column_stack([np.arange(N_ROWS), noise, noise[:, 0]])
    with pytest.raises(DegenerateTableError, match=r"no density.*'d' equals 'a'.*'id' numbers"):
        look_at(table, ["id", "a", "b", "c", "d"])
    with pytest.raises(ValueError, match="lie on a plane"):
        look_at(table)


def test_many_findings_are_counted(noise):
    table = np.column_stack([noise] + [noise * scale for scale in (2, 3, 4)])
    with pytest.raises(DegenerateTableError, match=r"And 4 more columns") as raised:
        look_at(table)
    assert "numpy.delete(X, [3, 4, 5, 6, 7, 8, 9, 10, 11], axis=1)" in str(raised.value)


# -- no false alarms ----------------------------------------------------------------------------


@pytest.mark.parametrize("load", [load_diabetes, load_breast_cancer, load_wine, load_iris])
def test_tables_of_scikit_learn(load):
    table = load()
    assert found_in(table.data, list(map(str, table.feature_names))) == []


def needs(path):
    """Skip where the user's folder does not hold the file."""
    folder = os.environ.get("KEXPFAM_DATA")
    missing = not folder or not Path(folder, path).is_file()
    reason = f"KEXPFAM_DATA names no folder that holds {path}"
    return pytest.param(path, marks=pytest.mark.skipif(missing, reason=reason))


@pytest.mark.parametrize(
    "path",
    [
        needs("wine/winequality-red.csv"),
        needs("wine/winequality-white.csv"),
        needs("gas_turbine/gas_turbine.csv"),
    ],
)
def test_tables_of_uci(path):
    file = Path(os.environ["KEXPFAM_DATA"], path)
    with file.open(newline="") as lines:
        separator = csv.Sniffer().sniff(lines.readline(), delimiters=",;").delimiter
    table = np.genfromtxt(file, delimiter=separator, skip_header=1)
    assert found_in(table) == []
    assert found_in(table, spread=True) == []


@pytest.mark.parametrize("path", [needs("regression/energy.npz")])
def test_a_relation_in_a_published_table(path):
    """Surface area = wall area + 2 · roof area: six surfaces of a block."""
    with np.load(Path(os.environ["KEXPFAM_DATA"], path)) as file:
        table = file["X"]
    names = ["compactness", "surface", "wall", "roof", "height", "side", "glass", "where"]
    (found,) = found_in(table, names)
    assert "(roof = 0.5 · surface − 0.5 · wall)" in found.words


def test_noise_of_all_shapes(generator):
    for shape in ((20, 3), (50, 45), (2000, 40), (30, 1)):
        assert found_in(generator.standard_normal(shape)) == []
        assert found_in(generator.standard_cauchy(shape)) == []

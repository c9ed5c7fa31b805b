"""The same rows from anywhere give the same model; what cannot be used is named."""

from __future__ import annotations

import copy
import json
import os

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import pytest
from safetensors import safe_open
from safetensors.numpy import save

from kexpfam import FourierFeatures, KernelDiffusion, KernelExponentialFamily
from kexpfam.data.files import FileRows
from kexpfam.data.rows import ArrayRows
from kexpfam.data.standardize import fit_standardizer
from kexpfam.datasets import make_density, make_thin_table
from kexpfam.moments import Checkpoint
from kexpfam.writing import digest

SETTINGS = {"n_components": 32, "random_state": 0, "tuning": "folds", "base": "gaussian"}


@pytest.fixture(scope="module")
def rows():
    return two_humps(3000)


def two_humps(count):
    """Rows that no Gaussian describes: coefficients are not zero."""
    generator = np.random.default_rng(0)
    sides = generator.choice([-2.0, 2.0], (count, 1))
    return (generator.standard_normal((count, 3)) + sides) @ generator.standard_normal((3, 3)) + 5


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(1).integers(0, 4, 3000).astype(float)


@pytest.fixture(scope="module")
def model(rows):
    model = KernelExponentialFamily(**SETTINGS).fit(rows)
    assert np.abs(model.coefficients_).max() > 0.1
    return model


@pytest.fixture(scope="module")
def table(rows, weights):
    columns = {name: rows[:, j] for j, name in enumerate("abc")}
    return pa.table({**columns, "weight": weights})


@pytest.fixture(scope="module")
def folder(rows, table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    plain = table.select(["a", "b", "c"])
    pa.parquet.write_table(table, folder / "all.parquet", row_group_size=700)
    pa.parquet.write_table(plain.slice(0, 1000), folder / "one.parquet")
    pa.parquet.write_table(plain.slice(1000), folder / "two.parquet")
    pa.csv.write_csv(plain, folder / "all.csv")
    pa.feather.write_feather(plain, folder / "all.arrow", compression="uncompressed")
    np.save(folder / "all.npy", rows)
    return folder


@pytest.mark.parametrize(
    "kind", ["csv", "arrow", "npy", "two files", "dataset", "table", "iterator", "memmap"]
)
def test_streams_give_the_model_of_the_array_to_the_last_bit(kind, rows, model, folder, table):
    streams = {
        "two files": [folder / "one.parquet", str(folder / "two.parquet")],
        "dataset": pa.dataset.dataset(folder / "all.arrow", format="ipc"),
        "table": table.select(["a", "b", "c"]),
        "iterator": (rows[start : start + 333] for start in range(0, 3000, 333)),
        "memmap": np.load(folder / "all.npy", mmap_mode="r"),
    }
    found = KernelExponentialFamily(**SETTINGS).fit(streams.get(kind, folder / f"all.{kind}"))
    np.testing.assert_array_equal(found.coefficients_, model.coefficients_)
    assert found.n_features_in_ == 3
    if kind in ("csv", "arrow", "two files", "dataset", "table"):
        assert list(found.feature_names_in_) == ["a", "b", "c"]


def test_weights_come_from_a_column_or_with_the_blocks(rows, weights, folder):
    whole = KernelExponentialFamily(**SETTINGS).fit(rows, sample_weight=weights)
    found = KernelExponentialFamily(**SETTINGS).fit(folder / "all.parquet", sample_weight="weight")
    np.testing.assert_array_equal(found.coefficients_, whole.coefficients_)
    blocks = ((rows[k : k + 500], weights[k : k + 500]) for k in range(0, 3000, 500))
    found = KernelExponentialFamily(**SETTINGS).fit(blocks)
    np.testing.assert_array_equal(found.coefficients_, whole.coefficients_)


def test_dask_collections_give_the_same_model(rows, weights, model):
    found = KernelExponentialFamily(**SETTINGS).fit(da.from_array(rows, chunks=(700, 2)))
    # Sums of other blocks: rounding.
    np.testing.assert_allclose(found.coefficients_, model.coefficients_, atol=1e-10)
    frame = pd.DataFrame(rows, columns=list("abc")).assign(weight=weights)
    found = KernelExponentialFamily(**SETTINGS).fit(
        dd.from_pandas(frame, npartitions=4), sample_weight="weight"
    )
    whole = KernelExponentialFamily(**SETTINGS).fit(rows, sample_weight=weights)
    np.testing.assert_allclose(found.coefficients_, whole.coefficients_, atol=1e-10)
    assert list(found.feature_names_in_) == ["a", "b", "c"]


def test_a_diffusion_is_fitted_to_streams_too(rows):
    settings = {"n_components": 32, "n_levels": 3, "random_state": 0}
    whole = KernelDiffusion(**settings).fit(rows)
    found = KernelDiffusion(**settings).fit(iter([rows[:1100], rows[1100:]]))
    np.testing.assert_array_equal(found.score_samples(rows[:20]), whole.score_samples(rows[:20]))


def test_means_and_deviations_do_not_depend_on_chunks(rows, weights):
    far = rows + 1e6
    whole = fit_standardizer(ArrayRows(far, weights))
    parts = fit_standardizer(ArrayRows(far, weights, chunk_rows=77))
    kept = np.repeat(far, weights.astype(int), axis=0)
    for found in (whole, parts):
        np.testing.assert_allclose(found.center, kept.mean(axis=0), rtol=1e-14)
        # Deviations of one beside means of a million: six digits of sixteen are gone.
        np.testing.assert_allclose(found.scale, kept.std(axis=0), rtol=1e-9)


# -- more and fewer rows ------------------------------------------------------------------------


def test_rows_are_added_merged_and_forgotten(rows, model):
    empty = model.emptied()
    one, two = (copy.deepcopy(empty).partial_fit(part) for part in (rows[:1200], rows[1200:]))
    assert one.weight_ == pytest.approx(1200)
    merged = one.merge(two)
    np.testing.assert_allclose(merged.coefficients_, model.coefficients_, atol=1e-10)
    more = copy.deepcopy(model).partial_fit(rows[:200] + 0.5)
    assert np.abs(more.coefficients_ - model.coefficients_).max() > 1e-6
    back = more.forget(rows[:200] + 0.5)
    np.testing.assert_allclose(back.coefficients_, model.coefficients_, atol=1e-10)


def test_partial_fit_starts_with_fit(rows, model):
    found = KernelExponentialFamily(**SETTINGS).partial_fit(rows)
    np.testing.assert_array_equal(found.coefficients_, model.coefficients_)


def test_what_differs_is_not_merged_and_nothing_is_not_left(rows, model):
    other = KernelExponentialFamily(**{**SETTINGS, "random_state": 1}).fit(rows)
    with pytest.raises(ValueError, match="share units, base density, frequencies"):
        copy.deepcopy(model).merge(other)
    with pytest.raises(ValueError, match="No rows would be left"):
        copy.deepcopy(model).forget(rows)
    with pytest.raises(ValueError, match="is fitted to 3"):
        copy.deepcopy(model).partial_fit(iter([rows[:, :2]]))


def test_a_diffusions_sums_grow_and_shrink():
    ring = make_thin_table("powers", 1500, random_state=0)[:, [0, 2]]
    model = KernelDiffusion(n_components=32, n_levels=4, random_state=0)
    model.fit(ring[:1000])
    assert model.has_tilt_
    before, sums = model.density_.field.coefficients.copy(), model.fitted_.sums
    logs = model.score_samples(ring[:20])
    more = ring[1000:][ring[1000:, 0] > ring[:, 0].mean()]
    model.partial_fit(more)
    assert sum(float(part.weight) for part in model.fitted_.sums.parts.values()) == 1000 + len(more)
    assert model.n_steps_ > 0
    assert np.abs(model.score_samples(ring[:20]) - logs).max() > 1e-3
    model.forget(more)
    # Coefficients are up to 4e5 here, of functions that nearly depend on each other.
    np.testing.assert_allclose(model.density_.field.coefficients, before, rtol=1e-5)
    for number, part in sums.parts.items():
        np.testing.assert_allclose(model.fitted_.sums.parts[number].gram, part.gram, atol=1e-9)
    with pytest.raises(ValueError, match="were these among them"):
        model.forget(more + 3.0)
    np.testing.assert_allclose(model.density_.field.coefficients, before, rtol=1e-5)


def test_diffusions_fed_apart_are_merged():
    ring = make_density("ring").sample(1500, random_state=0)
    model = KernelDiffusion(n_components=32, n_levels=4, gate=False, random_state=0)
    model.fit(ring[:1000])
    workers = [copy.deepcopy(model.emptied()) for _ in range(2)]
    assert workers[0].n_steps_ == 0
    for worker, part in zip(workers, (ring[1000:1300], ring[1300:]), strict=True):
        worker.partial_fit(part)
    together = copy.deepcopy(model).partial_fit(ring[1000:])
    model.merge(workers[0]).merge(workers[1])
    np.testing.assert_allclose(
        model.density_.field.coefficients, together.density_.field.coefficients, atol=1e-8
    )
    with pytest.raises(ValueError, match="these differ"):
        model.merge(KernelDiffusion(n_components=32, n_levels=4, random_state=1).fit(ring[:1000]))
    with pytest.raises(ValueError, match="No rows would be left"):
        workers[0].forget(ring[1000:1300])


# -- checkpoints --------------------------------------------------------------------------------


class CutOffError(Exception):
    pass


# Every fit has another seed, and with some the importance weights are poor.
@pytest.mark.filterwarnings("ignore::kexpfam.NormalizerWarning")
def test_an_interrupted_fit_goes_on_to_the_same_model(rows, tmp_path, monkeypatch):
    files = [tmp_path / f"{number}.npy" for number in range(4)]
    for number, file in enumerate(files):
        np.save(file, rows[number::4])
    path = tmp_path / "fit.checkpoint"
    original, calls = Checkpoint.save, []

    def save_and_stop(self, *arguments):
        original(self, *arguments)
        calls.append(1)
        if len(calls) == 3:
            raise CutOffError

    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    monkeypatch.setattr(Checkpoint, "save", save_and_stop)
    monkeypatch.setattr(FileRows, "__init__", _small_chunks(FileRows.__init__))
    # Without a seed every fit differs: the checkpoint has to remember it.
    settings = {**SETTINGS, "random_state": None}
    with pytest.raises(CutOffError):
        KernelExponentialFamily(**settings).fit(files, checkpoint=path)
    with safe_open(path, framework="numpy") as file:
        seed = json.loads(file.metadata()["entropy"])
    resumed = KernelExponentialFamily(**settings).fit(files, checkpoint=path)
    assert len(calls) == 6  # six chunks, none of them twice
    assert not path.exists()
    fixed = "kexpfam.estimators.checkpointing.entropy"
    monkeypatch.setattr(fixed, lambda _: list(seed))
    whole = KernelExponentialFamily(**settings).fit(files)
    np.testing.assert_array_equal(resumed.coefficients_, whole.coefficients_)


def test_an_interrupted_diffusion_goes_on_to_the_same_model(tmp_path, monkeypatch):
    ring = make_density("ring").sample(1200, random_state=0)
    np.save(tmp_path / "ring.npy", ring)
    original = Checkpoint.save

    def save_and_stop(self, *arguments):
        original(self, *arguments)
        raise CutOffError

    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    monkeypatch.setattr(FileRows, "__init__", _small_chunks(FileRows.__init__))
    arguments = {"X": tmp_path / "ring.npy", "checkpoint": tmp_path / "fit.checkpoint"}
    model = KernelDiffusion(n_components=32, n_levels=4, random_state=0)
    monkeypatch.setattr(Checkpoint, "save", save_and_stop)
    with pytest.raises(CutOffError):
        model.fit(**arguments)
    monkeypatch.setattr(Checkpoint, "save", original)
    assert arguments["checkpoint"].exists()
    resumed = model.fit(**arguments).density_.field.coefficients
    assert not arguments["checkpoint"].exists()
    np.testing.assert_array_equal(resumed, model.fit(arguments["X"]).density_.field.coefficients)


def _small_chunks(original):
    def init(self, files, columns=None, weight_column=None, progress=None, chunk_rows=500):
        original(self, files, columns, weight_column, progress, chunk_rows)

    return init


def left_behind(model, path, monkeypatch, X):
    """The checkpoint of a fit that was cut off when it had written one."""

    def save_and_stop(self, *arguments):
        original(self, *arguments)
        raise CutOffError

    original = Checkpoint.save
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "due", lambda self: True)
        patch.setattr(Checkpoint, "save", save_and_stop)
        with pytest.raises(CutOffError):
            model.fit(X, checkpoint=path)
    return path.read_bytes()


def with_note(content, path, name, value):
    """The same file with another note, under a digest that is right."""
    path.write_bytes(content)
    with safe_open(path, framework="numpy") as file:
        notes = {**file.metadata(), name: value}
        arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    notes = {key: note for key, note in notes.items() if note is not None}
    notes["digest"] = digest(notes, arrays)
    return save(arrays, notes)


def test_foreign_checkpoints_are_refused_and_kept(rows, tmp_path, monkeypatch):
    path = tmp_path / "fit.checkpoint"
    # Given as an object, of which the settings know the kind alone.
    model = KernelExponentialFamily(**SETTINGS, basis=FourierFeatures())
    content = left_behind(model, path, monkeypatch, rows)
    foreign = [
        (KernelExponentialFamily(**SETTINGS, basis=FourierFeatures()), rows + 1.0),
        (KernelExponentialFamily(**{**SETTINGS, "random_state": 1}), rows),
        (KernelExponentialFamily(**{**SETTINGS, "n_components": 17}), rows),
        (KernelDiffusion(random_state=0), rows),
        (KernelExponentialFamily(**SETTINGS, basis=FourierFeatures(precision="single")), rows),
    ]
    for other, X in foreign:
        with pytest.raises(ValueError, match="checkpoint of another fit"):
            other.fit(X, checkpoint=path)
        assert path.read_bytes() == content


def test_damaged_checkpoints_are_refused(rows, tmp_path, monkeypatch):
    path, model = tmp_path / "fit.checkpoint", KernelExponentialFamily(**SETTINGS)
    content = left_behind(model, path, monkeypatch, rows)
    flipped = content.replace(b'"seen":"1"', b'"seen":"3"')
    assert flipped != content
    damaged = [content[:-100], content[:50], b"", content[:-8] + b"\x01" * 8, flipped]
    damaged += [
        with_note(content, path, name, value)
        for name, value in [("seen", None), ("seen", "x"), ("entropy", "[1"), ("trace", "7")]
    ]
    for one in damaged:
        path.write_bytes(one)
        with pytest.raises(ValueError, match="damaged"):
            model.fit(rows, checkpoint=path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ValueError, match="not a plain file"):
        model.fit(rows, checkpoint=path)
    assert [left.name for left in tmp_path.iterdir()] == ["fit.checkpoint"]


def test_a_checkpoint_belongs_to_one_fit_at_a_time(rows, tmp_path, monkeypatch):
    path = tmp_path / "fit.checkpoint"
    second = KernelExponentialFamily(**SETTINGS)

    def fit_again(self, *arguments):
        with pytest.raises(ValueError, match="Another fit is using the checkpoint"):
            second.fit(rows, checkpoint=path)

    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    monkeypatch.setattr(Checkpoint, "save", fit_again)
    KernelExponentialFamily(**SETTINGS).fit(rows, checkpoint=path)
    assert not list(tmp_path.iterdir())


# -- rows that change ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda rows: np.vstack([rows, rows]), "there were 3,000 at first and 6,000 later"),
        (lambda rows: rows[:-5], "3,000 at first and 2,995 later"),
        (lambda rows: 1.5 * rows, "some of their values are not what they were"),
        (lambda rows: rows[:, ::-1], "some of their values are not what they were"),
    ],
)
@pytest.mark.parametrize("number", [1, 2])
def test_rows_that_change_between_passes_are_noticed(
    rows, tmp_path, monkeypatch, number, change, match
):
    path = tmp_path / "rows.npy"
    np.save(path, rows)
    original, passes = FileRows.total, []

    def total(self, *arguments):
        if len(passes) == number:
            np.save(path, np.ascontiguousarray(change(rows)))
        passes.append(1)
        return original(self, *arguments)

    monkeypatch.setattr(FileRows, "total", total)
    with pytest.raises(ValueError, match=match):
        KernelExponentialFamily(**SETTINGS).fit(path)


# -- what cannot be used ------------------------------------------------------------------------


def refused(stream, match, **options):
    with pytest.raises((ValueError, FileNotFoundError), match=match):
        KernelExponentialFamily(**SETTINGS).fit(stream, **options)


def test_bad_files_are_named(rows, table, folder, tmp_path):
    plain = table.select(["a", "b", "c"])
    refused(tmp_path / "none.parquet", "does not exist")
    (tmp_path / "empty.csv").write_bytes(b"")
    refused([folder / "one.parquet", tmp_path / "empty.csv"], r"empty\.csv is empty")
    (tmp_path / "x.xyz").write_bytes(b"x")
    refused(tmp_path / "x.xyz", "not a type of file that can be read")
    pa.parquet.write_table(plain.slice(0, 0), tmp_path / "no_rows.parquet")
    refused([folder / "one.parquet", tmp_path / "no_rows.parquet"], r"no_rows.parquet has no rows")
    pa.parquet.write_table(table.select(["a", "b"]), tmp_path / "narrow.parquet")
    refused(
        [folder / "one.parquet", tmp_path / "narrow.parquet"], r"narrow.parquet has no column 'c'"
    )
    text = pa.table({"a": rows[:, 0], "b": rows[:, 1], "c": [str(x) for x in rows[:, 2]]})
    pa.parquet.write_table(text, tmp_path / "text.parquet")
    refused(
        [folder / "one.parquet", tmp_path / "text.parquet"], r"text.parquet: column 'c' is of type"
    )
    (tmp_path / "words.csv").write_text("a,b,c\n1,2,3\n4,five,6\n")
    refused(tmp_path / "words.csv", "words.csv")
    np.save(tmp_path / "flat.npy", np.ones(5))
    refused(tmp_path / "flat.npy", r"Expected two dimensions")
    refused([folder / "all.npy", folder / "one.parquet"], "of one kind")
    refused(folder / "all.parquet", "no column 'nobody'", sample_weight="nobody")
    refused(folder / "all.parquet", "name of the column", sample_weight=np.ones(3000))


def test_a_damaged_row_group_is_named(folder, tmp_path):
    path = tmp_path / "damaged.parquet"
    content = bytearray((folder / "all.parquet").read_bytes())
    content[20_000:30_000] = os.urandom(10_000)
    path.write_bytes(content)
    refused([folder / "one.parquet", path], "damaged.parquet")


def test_a_missing_value_is_found_by_file_and_row(rows, tmp_path):
    spoiled = rows[:1000].copy()
    spoiled[777, 1] = np.nan
    pa.parquet.write_table(pa.table(dict(zip("abc", rows.T, strict=True))), tmp_path / "0.parquet")
    pa.parquet.write_table(
        pa.table(dict(zip("abc", spoiled.T, strict=True))), tmp_path / "1.parquet"
    )
    files = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    refused(files, r"1\.parquet: row 778, column 'b' holds nan")
    blocks = (spoiled[start : start + 20] for start in range(0, 1000, 20))
    refused(blocks, r"Block 38: row 18, column 1 holds nan")
    refused(da.from_array(spoiled, chunks=(100, 3)), r"Partition 7: row 78")


def test_bad_iterators_and_partitions(rows):
    refused(iter([]), "gave no rows")
    refused(iter([rows[:5], rows[:5, :2]]), "Block 1 has the shape")
    refused(iter([rows[:1]]), "at least 2 rows")
    refused(iter([(rows[:5], np.ones(4))]), "weights of the shape")
    refused(iter([(rows[:5], -np.ones(5))]), "not negative")
    refused(da.from_array(rows, chunks=(700, 3)), "must be one too", sample_weight=np.ones(3000))

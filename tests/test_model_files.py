"""Model files: exact round trips, and no harm from bad ones."""

import contextlib
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

import kexpfam
from kexpfam import (
    CharacteristicNoise,
    FourierFeatures,
    KernelDiffusion,
    KernelExponentialFamily,
    Matern,
    ModelFileError,
    MonteCarloNoise,
    NystromFeatures,
    RationalQuadratic,
    Tuning,
)
from kexpfam.data.files import FileRows
from kexpfam.datasets import make_density, make_thin_table
from kexpfam.estimators.saving import Header
from kexpfam.features import FourierBasis
from kexpfam.store import decode, encode
from kexpfam.store.file import FORMAT_VERSION
from kexpfam.writing import digest, whole_file

GIVEN = {"penalty": 1e-3, "noise_scale": 0.1, "length_scale": 1.0, "gate": False}

# Bases and base densities come back in tests/contract/test_density.py.
MODELS = {
    "tuned": {"n_components": 32, "tuning": Tuning(n_steps=2, batch_size=64, n_folds=2)},
    "single precision": {"basis": FourierFeatures(precision="single"), "n_components": 32, **GIVEN},
    "mixed precision": {"basis": FourierFeatures(precision="mixed"), "n_components": 32, **GIVEN},
    "random quadratic": {"kernel": RationalQuadratic(alpha=2.0), "n_components": 32, **GIVEN},
    "sections": {
        "basis": NystromFeatures(functions="derivatives"),
        "kernel": Matern(nu=3.5),
        "noise": None,
        "n_components": 32,
        **GIVEN,
    },
    "drawn noise": {"noise": MonteCarloNoise(n_draws=2), "n_components": 32, **GIVEN},
}


@pytest.fixture(scope="module")
def ring():
    return make_density("ring").sample(160, random_state=0)


@pytest.fixture(scope="module")
def thin():
    """Rows on which a tilt pays."""
    return make_thin_table("powers", 400, random_state=0)[:, [0, 2]]


@pytest.fixture(scope="module")
def diffusion(thin):
    settings = {"n_components": 32, "n_levels": 3, "marginals": None, "gate": False}
    model = KernelDiffusion(random_state=0, **settings).fit(thin)
    assert model.has_tilt_
    return model


@pytest.fixture(scope="module")
def family(ring):
    table = pd.DataFrame(ring, columns=["east", "north"])
    return KernelExponentialFamily(random_state=0, **MODELS["tuned"]).fit(table)


def assert_same_predictions(one, other, X):
    for method in ("score_samples", "gradient", "laplacian"):
        np.testing.assert_array_equal(getattr(one, method)(X), getattr(other, method)(X))


# A bad normalizer is as good to store as any.
@pytest.mark.filterwarnings("ignore::kexpfam.NormalizerWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_family_comes_back_bit_by_bit(name, ring, tmp_path):
    model = KernelExponentialFamily(random_state=0, **MODELS[name]).fit(ring)
    model.save(tmp_path / "model.kexpfam")
    loaded = kexpfam.load(tmp_path / "model.kexpfam")
    assert isinstance(loaded, KernelExponentialFamily)
    assert repr(loaded.get_params()) == repr(model.get_params())
    assert set(vars(loaded)) == set(vars(model))
    assert_same_predictions(model, loaded, ring)
    assert os.listdir(tmp_path) == ["model.kexpfam"]


def test_a_diffusion_comes_back_bit_by_bit(diffusion, ring, tmp_path):
    diffusion.save(tmp_path / "model.kexpfam")
    loaded = kexpfam.load(tmp_path / "model.kexpfam")
    assert set(vars(loaded)) == set(vars(diffusion))
    assert_same_predictions(diffusion, loaded, ring[:20])
    np.testing.assert_array_equal(
        diffusion.sample(7, random_state=3), loaded.sample(7, random_state=3)
    )


def test_names_history_and_surface_come_back(family, tmp_path):
    family.save(tmp_path / "model.kexpfam")
    loaded = kexpfam.load(tmp_path / "model.kexpfam")
    assert list(loaded.feature_names_in_) == ["east", "north"]
    assert len(loaded.tuning_history_) == len(family.tuning_history_) > 0
    np.testing.assert_array_equal(loaded.loss_surface_.losses, family.loss_surface_.losses)


def test_another_process_sees_the_same_model(family, ring, tmp_path):
    family.save(tmp_path / "model.kexpfam")
    code = (
        "import kexpfam, numpy, sys; model = kexpfam.load(sys.argv[1]);"
        "print(*map(float.hex, model.score_samples(numpy.load(sys.argv[2])).tolist()))"
    )
    np.save(tmp_path / "rows.npy", ring[:5])
    arguments = [tmp_path / "model.kexpfam", tmp_path / "rows.npy"]
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    logs = family.score_samples(pd.DataFrame(ring[:5], columns=["east", "north"]))
    assert found.stdout.split() == [float.hex(log) for log in logs.tolist()]


@pytest.mark.parametrize("which", ["family", "diffusion"])
def test_a_loaded_model_takes_up_more_rows(which, ring, tmp_path, request):
    model = request.getfixturevalue(which)
    more = make_density("ring").sample(40, random_state=1)
    model.save(tmp_path / "with")
    model.save(tmp_path / "without", sums=False)
    with_sums, without = (kexpfam.load(tmp_path / name) for name in ("with", "without"))
    names = list(getattr(model, "feature_names_in_", []))
    if names:
        ring, more = (pd.DataFrame(rows, columns=names) for rows in (ring, more))
    ring = ring[:20]
    assert_same_predictions(model, without, ring)
    with pytest.raises(ValueError, match="saved without its sums"):
        without.partial_fit(more)
    copies = [kexpfam.load(tmp_path / "with").partial_fit(more) for _ in range(2)]
    assert_same_predictions(*copies, ring)
    assert np.any(copies[0].score_samples(ring) != with_sums.score_samples(ring))


def test_no_training_row_is_in_a_file(family, diffusion, ring, thin, tmp_path):
    for model, rows in ((family, ring), (diffusion, thin)):
        model.save(tmp_path / "model")
        content = (tmp_path / "model").read_bytes()
        for row in rows:
            assert row.tobytes() not in content


def test_a_generator_as_seed_is_left_out(ring, tmp_path):
    seed = np.random.RandomState(0)
    model = KernelExponentialFamily(random_state=seed, n_components=32, **GIVEN).fit(ring)
    model.save(tmp_path / "model")
    assert kexpfam.load(tmp_path / "model").random_state is None


def test_code_cannot_be_saved(ring, tmp_path):
    noise = CharacteristicNoise(lambda w: np.e ** (-(w**2).sum(axis=1) / 2))
    model = KernelExponentialFamily(random_state=0, noise=noise, n_components=32, **GIVEN).fit(ring)
    with pytest.raises(ModelFileError, match="never code"):
        model.save(tmp_path / "model")
    assert not os.listdir(tmp_path)


def test_an_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        KernelDiffusion().save(tmp_path / "model")


def test_a_failed_write_leaves_the_old_file(family, tmp_path, monkeypatch):
    path = tmp_path / "model"
    family.save(path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(OSError, match="No space left"):
        family.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model"]


def test_a_full_device_is_an_error_and_stays_a_device(family):
    with pytest.raises(OSError, match="No space left"):
        family.save("/dev/full")
    assert not os.path.isfile("/dev/full")


# -- bad files ----------------------------------------------------------------------------------


def parts_of(path):
    """The header and the data of a safetensors file."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def with_header(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.fixture(scope="module")
def files(family, diffusion, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    family.save(folder / "family")
    diffusion.save(folder / "diffusion")
    return {name: folder / name for name in ("family", "diffusion")}


def rewritten(path, target, change):
    """A file with another description and arrays, whose digest is right again."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        notes = file.metadata()
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    model = json.loads(notes["model"])
    model = change(model, arrays, notes) or model
    notes["model"] = model if isinstance(model, str) else json.dumps(model)
    notes["digest"] = digest(notes, arrays)
    target.write_bytes(save(arrays, notes))
    return target


def density_of(model):
    return model["fields"]["state"]["fields"]["density"]["fields"]


def test_what_is_no_plain_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path / "pipe", tmp_path / "loop", os.devnull):
        with pytest.raises(ModelFileError, match=r"not a plain file|leads to itself"):
            kexpfam.load(path)


def test_what_a_killed_process_left_is_removed_by_the_next(family, tmp_path):
    left, others = tmp_path / ".model.abc.part.kexpfam", tmp_path / ".other.abc.part.kexpfam"
    for one in (left, others):
        one.write_bytes(b"half a model")
    family.save(tmp_path / "model.kexpfam")
    assert sorted(os.listdir(tmp_path)) == [others.name, "model.kexpfam"]
    with whole_file(tmp_path / "model.kexpfam") as part:
        part.write_bytes(b"another one")
        # Someone is still writing that.
        family.save(tmp_path / "model.kexpfam")
        assert part.exists()


def test_what_others_put_into_a_folder_is_neither_followed_nor_waited_for(family, ring, tmp_path):
    target = tmp_path / "elsewhere"
    target.write_text("mine")
    os.mkfifo(tmp_path / ".model.abc.part.kexpfam")
    (tmp_path / ".model.xyz.part.kexpfam").symlink_to(target)
    family.save(tmp_path / "model.kexpfam")
    assert target.read_text() == "mine"
    # A link in the place of a model stays one, and what it leads to is replaced.
    (tmp_path / "link").symlink_to(target)
    family.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    table = pd.DataFrame(ring[:2], columns=["east", "north"])
    expected = family.score_samples(table)
    np.testing.assert_array_equal(kexpfam.load(target).score_samples(table), expected)


@contextlib.contextmanager
def ordinary_user():
    """Nobody in particular, whom permissions hold back even where tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_must_not_be_read_or_written_is_said_and_left_as_it_was(family):
    # In a folder that anybody can enter, as those of pytest are not.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        family.save(folder / "model")
        before = (folder / "model").read_bytes()
        (folder / "rows.csv").write_text("a,b\n1,2\n3,4\n")
        for path in (folder / "model", folder / "rows.csv"):
            path.chmod(0)
        folder.chmod(0o555)
        with ordinary_user():
            with pytest.raises(PermissionError, match="model"):
                kexpfam.load(folder / "model")
            with pytest.raises(PermissionError, match=r"not allowed to read .*rows\.csv"):
                next(FileRows((folder / "rows.csv",)).chunks())
            for path in (folder / "model", folder / "new"):
                with pytest.raises(PermissionError, match=path.name):
                    family.save(path)
        folder.chmod(0o755)
        assert sorted(os.listdir(folder)) == ["model", "rows.csv"]
        assert (folder / "model").read_bytes() == before


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        kexpfam.load(tmp_path / "absent")


@pytest.mark.parametrize("content", [b"", b"\0", b"not a model", b"\xff" * 64, b"PK\3\4" * 50])
def test_anything_else_is_not_a_model(content, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="not a whole kexpfam model"):
        kexpfam.load(path)


def test_a_cut_file_is_found_out(files, tmp_path):
    content = files["family"].read_bytes()
    for length in (7, 100, len(content) // 2, len(content) - 1):
        (tmp_path / "cut").write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            kexpfam.load(tmp_path / "cut")


def test_one_changed_bit_is_found_out(files, tmp_path):
    content = bytearray(files["family"].read_bytes())
    content[-20] ^= 1
    (tmp_path / "changed").write_bytes(content)
    with pytest.raises(ModelFileError, match="changed since it was written"):
        kexpfam.load(tmp_path / "changed")


def test_a_header_that_promises_more_than_there_is(files, tmp_path):
    header, data = parts_of(files["family"])
    name = next(name for name in header if name != "__metadata__")
    header[name]["shape"] = [2**40, 2**20]
    header[name]["data_offsets"] = [0, 2**63]
    (tmp_path / "huge").write_bytes(with_header(header, data))
    with pytest.raises(ModelFileError):
        kexpfam.load(tmp_path / "huge")
    (tmp_path / "long").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    with pytest.raises(ModelFileError):
        kexpfam.load(tmp_path / "long")


def later(model, arrays, notes):
    notes["version"] = str(FORMAT_VERSION + 1)


def earlier(model, arrays, notes):
    notes["version"] = str(FORMAT_VERSION - 1)


def of_another_program(model, arrays, notes):
    notes["format"] = "weights"


def unknown_model(model, arrays, notes):
    notes["kind"] = "Pickle"


def unknown_record(model, arrays, notes):
    density_of(model)["basis"]["record"] = "os.system"


def missing_field(model, arrays, notes):
    del density_of(model)["coefficients"]


def surplus_parameter(model, arrays, notes):
    model["fields"]["parameters"]["mapping"].append(["__class__", "x"])


def wrong_number_of_columns(model, arrays, notes):
    notes["columns"] = "3"


def fewer_coefficients(model, arrays, notes):
    name = density_of(model)["coefficients"]["array"]
    arrays[name] = arrays[name][:-1]


def integers_for_numbers(model, arrays, notes):
    name = density_of(model)["standardizer"]["fields"]["scale"]["array"]
    arrays[name] = arrays[name].astype(np.int64)


def words_for_numbers(model, arrays, notes):
    density_of(model)["log_normalizer"] = "zero"


def an_array_that_is_not_there(model, arrays, notes):
    density_of(model)["coefficients"] = {"array": "nowhere"}


def nested_deeply(model, arrays, notes):
    return "[" * 100_000 + "]" * 100_000


def nested_within_reach(model, arrays, notes):
    for _ in range(900):
        model = [model]
    return model


def numbers_that_are_none(model, arrays, notes):
    for array in arrays.values():
        if array.dtype.kind == "f" and array.ndim == 1 and len(array) > 3:
            array[0] = np.nan


def not_json(model, arrays, notes):
    return '{"record": NaN}'


def something_else(model, arrays, notes):
    return "3"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (later, f"written in format {FORMAT_VERSION + 1} .* Upgrade kexpfam"),
        (earlier, f"written in format {FORMAT_VERSION - 1} .* Fit the model again"),
        (of_another_program, "not a model written by save"),
        (unknown_model, "unknown kind of model, 'Pickle'"),
        (unknown_record, r"model\.state\.density\.basis is of an unknown kind, 'os\.system'"),
        (missing_field, "must have the fields basis, coefficients"),
        (surplus_parameter, "do not belong together"),
        (wrong_number_of_columns, "does not fit"),
        (fewer_coefficients, "31 coefficients for 32 functions"),
        (integers_for_numbers, r"standardizer\.scale does not fit .*int64"),
        (words_for_numbers, "log_normalizer does not fit TiltedDensity: 'zero'"),
        (an_array_that_is_not_there, "nowhere"),
        (nested_deeply, "nested too deeply"),
        # What is within reach of Python's own stack depends on its version.
        (nested_within_reach, "nested too deeply|not that of an estimator"),
        (numbers_that_are_none, "holds numbers that are not finite"),
        (not_json, "NaN is not JSON"),
        (something_else, "not that of an estimator"),
    ],
)
def test_a_tampered_file_says_what_is_wrong(change, message, files, tmp_path):
    path = rewritten(files["family"], tmp_path / "tampered", change)
    with pytest.raises(ModelFileError, match=message) as caught:
        kexpfam.load(path)
    assert str(path) in str(caught.value)


def places(tree, path=()):
    """Every place in a JSON tree but its root."""
    if isinstance(tree, (dict, list)):
        for key, child in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield (*path, key)
            yield from places(child, (*path, key))


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
)
KEYS = st.sampled_from(["array", "tuple", "record", "fields", "mapping", "number"])
JUNK = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner), max_leaves=5
)
DTYPES = st.sampled_from(["f8", "f4", "i8", "b", "u1"])


@pytest.mark.parametrize("which", ["family", "diffusion"])
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_file_with_another_description_loads_or_is_refused(which, files, tmp_path, data):
    def change(model, arrays, notes):
        if data.draw(st.booleans(), "an array"):
            name = data.draw(st.sampled_from(sorted(arrays)))
            shape = data.draw(st.lists(st.integers(0, 4), max_size=3))
            arrays[name] = np.zeros(shape, data.draw(DTYPES))
            return
        *parents, last = data.draw(st.sampled_from(list(places(model))))
        place = model
        for key in parents:
            place = place[key]
        place[last] = data.draw(JUNK)

    path = rewritten(files[which], tmp_path / "fuzzed", change)
    # Anything but this error, or a whole model, is a failure.
    with contextlib.suppress(ModelFileError):
        assert kexpfam.load(path).n_features_in_ == 2


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_random_damage_is_refused(files, tmp_path, data):
    content = bytearray(files["family"].read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        # Most of what can go wrong is in the first bytes: lengths, names, shapes, description.
        place = data.draw(st.integers(0, 400) | st.integers(0, len(content) - 1))
        content[place] ^= data.draw(st.integers(1, 255))
    (tmp_path / "damaged").write_bytes(content)
    if content != files["family"].read_bytes():
        with pytest.raises(ModelFileError):
            kexpfam.load(tmp_path / "damaged")


def test_what_a_file_lacks_that_was_added_since_has_its_default():
    records = {"Header": Header}
    tree = encode(Header({}, 2, None, 3.0, "pandas"), records)
    assert decode(tree, records, 2).library == "pandas"
    del tree.json["fields"]["library"]
    assert decode(tree, records, 2) == Header({}, 2, None, 3.0, "numpy")
    del tree.json["fields"]["state"]
    with pytest.raises(ModelFileError, match="must have the fields"):
        decode(tree, records, 2)


def test_bases_from_before_mixed_precision_are_read():
    basis = FourierBasis(np.ones((2, 3)), np.zeros(2), np.ones(2), True, True)
    records = {"FourierBasis": FourierBasis}
    tree = encode(basis, records)
    del tree.json["fields"]["mixed"]
    assert repr(decode(tree, records, 3)) == repr(basis)
    del tree.json["fields"]["single"]
    with pytest.raises(ModelFileError, match="must have the fields"):
        decode(tree, records, 3)

"""Programs are kept on disk for the library alone, and trouble with the disk changes nothing."""

from __future__ import annotations

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

import kexpfam
from kexpfam import compilations
from kexpfam.precision import compiled
from kexpfam.progress import Progress

SETTING = "jax_compilation_cache_dir"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Ours, empty; JAX has none."""
    before = getattr(jax.config, SETTING)
    monkeypatch.setattr(compilations, "_WORTH_KEEPING_S", 0.0)
    monkeypatch.setenv("KEXPFAM_COMPILATIONS", str(tmp_path / "ours"))
    compilations._folder.cache_clear()
    jax.config.update(SETTING, None)
    compilation_cache.reset_cache()
    yield tmp_path / "ours"
    jax.config.update(SETTING, before)
    compilation_cache.reset_cache()
    compilations._folder.cache_clear()


def program():
    """One that has never been compiled in this process."""
    return compiled(lambda x: jnp.cumsum(x) * 3)


def test_programs_are_kept_and_settings_are_the_users(folder):
    rows = np.arange(4.0)
    found = program()(rows)
    kept = os.listdir(folder)
    assert len(kept) == 1
    assert getattr(jax.config, SETTING) is None
    # The user's own programs are none of ours.
    jax.jit(lambda x: jnp.cumsum(x) * 5)(rows)
    assert os.listdir(folder) == kept
    before = (folder / kept[0]).stat().st_mtime_ns
    np.testing.assert_array_equal(program()(rows), found)
    assert (folder / kept[0]).stat().st_mtime_ns == before


def test_a_damaged_file_is_not_mentioned(folder):
    rows = np.arange(4.0)
    found = program()(rows)
    (damaged,) = folder.iterdir()
    damaged.write_bytes(b"nothing")
    np.testing.assert_array_equal(program()(rows), found)


def test_a_folder_that_jax_has_is_used_instead(folder, tmp_path):
    theirs = tmp_path / "theirs"
    jax.config.update(SETTING, str(theirs))
    program()(np.arange(4.0))
    assert getattr(jax.config, SETTING) == str(theirs)
    assert not os.listdir(folder)


def test_without_a_folder_programs_are_compiled_all_the_same(folder, monkeypatch):
    folder.write_text("no folder", "utf-8")
    np.testing.assert_array_equal(program()(np.ones(2)), [3.0, 6.0])
    with pytest.raises(OSError, match="KEXPFAM_COMPILATIONS"):
        kexpfam.keep_compilations()
    monkeypatch.setenv("KEXPFAM_COMPILATIONS", "off")
    compilations._folder.cache_clear()
    assert compilations._folder() is None


def test_a_full_folder_loses_its_oldest_files(folder, monkeypatch):
    monkeypatch.setattr(compilations, "_MOST_BYTES", 100)
    folder.mkdir()
    for number in range(4):
        (folder / str(number)).write_bytes(b"x" * 30)
        os.utime(folder / str(number), (number, number))
    assert kexpfam.keep_compilations() == folder
    # Half of what may be there is left.
    assert os.listdir(folder) == ["3"]


def test_the_time_that_compiling_takes_is_told(folder, monkeypatch, capsys):
    monkeypatch.setattr("kexpfam.progress._LONG_COMPILATION", 0.0)
    for verbose in (False, True):
        progress = Progress(verbose)
        program()(np.arange(4.0))
        progress.done()
        assert ("Compiling 1 program" in capsys.readouterr().err) == verbose

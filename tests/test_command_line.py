"""The command line, through a real process."""

from __future__ import annotations

import subprocess
import sys

import kexpfam


def run(*arguments, cwd=None):
    command = [sys.executable, "-m", "kexpfam", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def test_the_demo_prints_a_table_and_writes_a_figure(tmp_path):
    result = run("demo", "--rows", "200", "--output", "pictures/demo.png", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    for word in ("log-likelihood", "Fisher", "log Z", "seconds", "truth", "denoised", "plain"):
        assert word in result.stdout
    picture = tmp_path / "pictures" / "demo.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "pictures/demo.png" in result.stdout


def test_an_unknown_density_is_one_readable_line():
    result = run("demo", "--density", "apple")
    assert result.returncode == 2
    assert "banana" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_output_that_cannot_be_written_is_known_before_the_work(tmp_path):
    (tmp_path / "taken").write_text("a file where a folder should be")
    result = run("demo", "--output", "taken/demo.png", cwd=tmp_path)
    assert result.returncode == 1
    assert "Cannot write taken/demo.png" in result.stderr
    assert "Traceback" not in result.stderr


def test_version_and_help():
    assert kexpfam.__version__ in run("--version").stdout
    assert "demo" in run("--help").stdout

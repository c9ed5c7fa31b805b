"""Recordings of the command line for these pages: what the commands really print.

Run from anywhere, with make and Python: ``python docs/record.py``. Every command is run in a fresh
clone of the last commit, beside which lies one table in two parts, and ``docs/recordings/NAME.txt``
gets the commands with their output. Times and the folder's path are taken out, so that a recording
changes only where the program does. With Chromium on the path, the top of the first report becomes
``docs/images/report.png``.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from sklearn.datasets import load_wine

HERE = Path(__file__).parent / "recordings"
COMMANDS = [
    *("fit", "score", "predict", "sample", "impute"),
    *("anomalies", "compare", "test", "report", "info", "demo", "reproduce"),
]
KEPT = ["alcohol", "malic_acid", "ash", "flavanoids", "color_intensity", "proline"]

# One recording after the other; later ones find the files of earlier ones.
SESSIONS = {
    "start": [
        "make install",
        "head -n 3 wine.csv",
        ".venv/bin/kexpfam report wine.csv -o wine.html",
        ".venv/bin/kexpfam fit wine.csv -o wine.kexpfam --kind color_intensity=bounded,0,",
    ],
    "report": ["kexpfam report wine.kexpfam --data fresh.csv -o fresh.html"],
    "info": ["kexpfam info wine.kexpfam"],
    "score": [
        "kexpfam score wine.kexpfam fresh.csv -o scores.parquet",
        "kexpfam score wine.kexpfam fresh.csv -o - --quiet --contributions | head -n 2",
    ],
    "sample": [
        "kexpfam sample wine.kexpfam -n 2 -o - --quiet",
        "printf 'cultivar\\nclass_1\\n' | kexpfam sample wine.kexpfam --given - -n 2 -o - --quiet",
    ],
    "impute": [
        "head -n 3 fresh.csv",
        "kexpfam impute wine.kexpfam fresh.csv -o - --quiet | head -n 3",
    ],
    "family": [
        "kexpfam fit wine.csv -o family.kexpfam --estimator family --n-components 128 "
        "--columns alcohol,proline"
    ],
    "messy": [
        "tail -n +2 wine.csv | sed 's/,/;/g; s/\\./,/g' | gzip > nameless.csv.gz",
        "gzip -dc nameless.csv.gz | head -n 2",
        "kexpfam fit nameless.csv.gz -o nameless.kexpfam",
        "kexpfam fit wine.csv -o no.kexpfam --estimator diffusion || echo exit code $?",
    ],
    "test": ["kexpfam test family.kexpfam fresh.csv"],
    "predict": [
        "kexpfam fit wine.csv -o color.kexpfam --target color_intensity --bounds 0, "
        "--exclude cultivar,ash",
        "kexpfam predict color.kexpfam fresh.csv -o - --quiet | head -n 3",
    ],
    "reproduce": ["kexpfam reproduce --list"],
    **{f"help_{command}": [f"kexpfam {command} --help"] for command in COMMANDS},
}


def main(names: list[str]) -> None:
    """Make the recordings; of some names only their files are replaced, but all are run."""
    unknown = sorted(set(names) - set(SESSIONS))
    if unknown:
        sys.exit(f"There is no recording {', '.join(unknown)}; there are {', '.join(SESSIONS)}.")
    HERE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as parent:
        folder = f"{parent}/kexpfam"
        subprocess.run(["git", "clone", "--quiet", str(HERE.parents[1]), folder], check=True)
        _write_tables(Path(folder))
        for name, commands in SESSIONS.items():
            text = "\n".join(f"$ {command}\n{_output(command, folder)}" for command in commands)
            if name in names or not names:
                (HERE / f"{name}.txt").write_text(text, "utf-8")
                print(name)
        _photograph(Path(folder) / "wine.html", HERE.parent / "images" / "report.png")


def _write_tables(folder: Path) -> None:
    """Wines with a word for their cultivar, and some empty cells."""
    wine = load_wine(as_frame=True)
    table = wine.data[KEPT].copy()
    table.insert(0, "cultivar", wine.target_names[wine.target])
    table = table.sample(frac=1, random_state=0).reset_index(drop=True)
    table.loc[::15, "ash"] = None
    table.loc[1::20, "cultivar"] = None
    table[40:].to_csv(folder / "wine.csv", index=False)
    table[:40].to_csv(folder / "fresh.csv", index=False)


def _photograph(page: Path, picture: Path) -> None:
    """The top of a page as a browser shows it."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print(f"No Chromium on the path: {picture.name} stays as it was.")
        return
    switches = "--headless=new --no-sandbox --disable-gpu --hide-scrollbars --no-first-run"
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                *(browser, *switches.split(), f"--user-data-dir={profile}"),
                *("--window-size=1100,1180", f"--screenshot={picture}", page.as_uri()),
            ],
            check=True,
            capture_output=True,
        )
    print(picture.name)


def _output(command: str, folder: str) -> str:
    """What a command prints, on either stream, with times and paths taken out."""
    quiet = {"COLUMNS": "88", "NO_COLOR": "1", "TERM": "dumb"}
    path = f"{folder}/.venv/bin{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env={**os.environ, **quiet, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    # A pipe that `head` has closed ends the program before it in its own way.
    if done.returncode not in (0, 128 + signal.SIGPIPE):
        sys.exit(f"{command!r} ended with {done.returncode}:\n{done.stdout}")
    text = done.stdout.replace(f"{folder}/", "")
    text = re.sub(r"\b\d+(\.\d+)? (s|seconds)\b", r"… \2", text)
    # What pip remarks on where it looks for packages is of this machine, not of the program.
    lines = [line for line in text.strip("\n").splitlines() if not line.startswith("WARNING: ")]
    return "".join(f"{line.rstrip()}\n" for line in lines)


if __name__ == "__main__":
    main(sys.argv[1:])

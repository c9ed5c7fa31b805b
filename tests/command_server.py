"""A process that has imported everything already and runs one command after the other."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from tests.conftest import SIZES

# Every line of standard input is a folder and arguments; every line of the reply an exit code.
SERVER = """
import importlib, json, os, sys
import kexpfam, kexpfam.report
from kexpfam.cli import main

for place, few in SIZES.items():
    module, name = place.rsplit(".", 1)
    setattr(importlib.import_module(module), name, few)

replies = os.fdopen(os.dup(1), "w")
for line in sys.stdin:
    folder, *arguments = json.loads(line)
    os.chdir(folder)
    sys.argv = ["kexpfam", *arguments]
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), descriptor)
    try:
        main()
    except SystemExit as end:
        code = end.code
    sys.stdout.flush(), sys.stderr.flush()
    print(json.dumps(code), file=replies, flush=True)
"""


@contextmanager
def command_server(environment) -> Iterator[Callable[..., SimpleNamespace]]:
    """A function that runs one command in a folder: its exit code and what it said."""
    few = {place: number for place, (_, number) in SIZES.items()}
    with subprocess.Popen(
        [sys.executable, "-c", f"SIZES = {few}\n{SERVER}"],
        **{"env": environment, "text": True},
        **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE},
    ) as server:

        def run(folder, *arguments):
            print(json.dumps([str(folder), *arguments]), file=server.stdin, flush=True)
            code = json.loads(server.stdout.readline())
            out, err = ((folder / name).read_text() for name in ("out", "err"))
            assert "Traceback" not in err
            assert "\x1b" not in err  # no colors or bars where there is no terminal
            return SimpleNamespace(code=code, out=out, err=err)

        yield run
        server.stdin.close()

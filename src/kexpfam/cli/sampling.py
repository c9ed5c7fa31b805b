"""`kexpfam sample`: rows drawn from a model."""

from __future__ import annotations

from kexpfam.cli.inputs import STANDARD
from kexpfam.cli.models import column_names, loaded
from kexpfam.cli.outputs import check_table_output, table_output
from kexpfam.cli.terminal import Terminal

__all__ = ["sample_rows"]


def sample_rows(
    model_path: str,
    n_rows: int,
    output: str,
    terminal: Terminal,
    *,
    seed: int,
    method: str | None,
    force: bool,
) -> None:
    """Draw rows and write them."""
    check_table_output(output, force, terminal)
    model = loaded(model_path, terminal)
    options = {} if method is None else {"method": method}
    with terminal.working(f"drawing {n_rows} rows"):
        rows = model.sample(n_rows, random_state=seed, **options)
    names = column_names(model)
    with table_output(output, names) as write:
        for start in range(0, n_rows, 8192):
            write(list(rows[start : start + 8192].T))
    lines = [f"{n_rows} rows drawn with seed {seed}."]
    if output != STANDARD:
        lines.append(f"Table: {output}")
    record = {"output": output, "rows": n_rows, "columns": names, "seed": seed}
    terminal.done(record, lines)

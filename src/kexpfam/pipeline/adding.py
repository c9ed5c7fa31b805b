"""What may go wrong when rows are added to a fit or taken away from it."""

from __future__ import annotations

__all__ = ["require_rows_left"]


def require_rows_left(weight: float, before: float) -> None:
    """Raise if more was taken away than there was."""
    if not weight > 1e-9 * abs(before):
        raise ValueError(
            "No rows would be left. `forget` takes rows that the model has seen, once each."
        )

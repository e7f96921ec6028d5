"""What `tidegate workers` prints for people."""

from __future__ import annotations

from typing import Any

import typer

from streams.cli.cells import Json
from streams.cli.lists import listed

_COLUMNS = ("worker", "running", "drained", "by", "reason")


def listing(found: Json) -> None:
    """A line for each worker."""
    listed([_row(each) for each in found["workers"]], _COLUMNS, None)
    if not found["counts_all"]:
        typer.echo("More jobs run than were counted.")


def drained(found: Json) -> None:
    """What becomes of the worker, and how to see it."""
    typer.echo(
        f"{found['value']} gets no new leases, and ends what it runs. `tidegate workers list` says "
        "how much that is; it waits, also after a restart, until `tidegate workers resume`."
    )


def resumed(found: Json) -> None:
    """That the worker takes jobs again."""
    typer.echo(f"{found['value']} gets leases again")


def _row(worker: dict[str, Any]) -> Json:
    drain = worker["drained"] or {}
    return {
        "worker": worker["worker"],
        "running": worker["running"],
        "drained": drain.get("at"),
        "by": drain.get("by"),
        "reason": drain.get("reason"),
    }

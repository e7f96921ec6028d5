"""What became of an effect, as a person says it on the command line."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from streams.api.jobs.cli_submission import json_value
from streams.serde.effect_states import DONE

Done = Annotated[
    str | None,
    typer.Option(metavar="RESULT", help="It was done; the handler gets this JSON as its result."),
]
NotDone = Annotated[bool, typer.Option("--not-done", help="It was not done.")]


def settlement(done: str | None, not_done: bool, note: str) -> dict[str, Any]:
    """The body of a call that settles an effect.

    Raises:
        typer.BadParameter: it is said to be both done and not done, or neither.
    """
    if (done is not None) == not_done:
        raise typer.BadParameter("give --done RESULT or --not-done")
    body: dict[str, Any] = {"status": "not_done" if not_done else DONE, "note": note}
    return body if done is None else body | {"result": json_value(done, "--done")}

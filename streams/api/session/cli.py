"""`tidegate sessions ...`: the sessions of people, from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.cli.cells import Json, tell
from streams.cli.operator_command import Answer, Api, command
from streams.cli.options import Note

sessions = typer.Typer(no_args_is_help=True, help="Sessions of people who signed in.")


def _ended(found: Json) -> None:
    tell(f"all sessions of {found['principal']} have ended")


@sessions.callback()
def _group() -> None:
    """End the sessions of a person."""


@command(sessions, "end", _ended)
def end(
    api: Api,
    person: Annotated[
        str, typer.Argument(help="Their id, person:ISSUER:SUBJECT.", metavar="PERSON")
    ],
    note: Note,
) -> Answer:
    """End all sessions that a person has now, on all operators within a second.

    Example: tidegate sessions end person:corp:4711 --note "left the company"
    """
    return api.post("/v1/session/end", {"principal": person, "note": note})

"""`tidegate dlq preview`: what a replay with another input would begin with."""

from __future__ import annotations

from difflib import unified_diff
from typing import Annotated, Any

import orjson
import typer

from streams.api.jobs.cli_submission import input_value
from streams.cli.cells import Json, tell
from streams.cli.operator_command import Api, part, program, show
from streams.cli.options import AsJson, Id
from streams.cli.terminal_text import harmless

MISFIT = 3
"""The exit code for an input that does not fit its type."""


@program
def preview(
    api: Api,
    id_: Id,
    input_: Annotated[
        str,
        typer.Option(
            "--input", help="The new input: JSON, @FILE, or - for standard input.", metavar="JSON"
        ),
    ],
    type_: Annotated[
        str | None, typer.Option("--type", help="The type to run it as.", metavar="TYPE")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show how another input differs from a job's own, and whether it fits; nothing is replayed.

    Exit codes: 0 it fits, or its type announces no schema; 1 there is no such job; 3 it does not
    fit.

    Example: tidegate dlq preview job_d8utnr6f0dbu0aulueh5k9hsqk --input @fixed.json
    """
    body = {"input": input_value(input_)} | ({"type": type_} if type_ else {})
    found = api.post(f"/v1/dlq/{part(id_)}/preview", body)
    show(found, as_json, _tell)
    return 0 if found["fits"] else MISFIT


def _tell(found: Json) -> None:
    before, after = _lines(found["before"]), _lines(found["after"])
    for line in unified_diff(before, after, "before", "after", lineterm=""):
        typer.echo(harmless(line))
    if not found["changed"]:
        tell("the input is the same")
    for error in found["errors"]:
        tell(f"{error['field']}: {error['message']}")


def _lines(value: Any) -> list[str]:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode().splitlines()

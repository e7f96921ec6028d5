"""`tidegate jobs submit`: a job from a terminal, with a warning if nothing may ever run it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from streams import user_json
from streams.api.jobs import cli_sentences as job_sentences
from streams.api.live.cli_watch import follow
from streams.cli.operator_command import Answer, Api, part, show, tell_how_to_follow
from streams.cli.options import AsJson, OfTenant, Watch
from streams.cli.quantities import duration, moment


def submit(
    api: Api,
    type_: Annotated[str, typer.Argument(metavar="TYPE", help="Which handler runs.")],
    tenant: OfTenant,
    input_: Annotated[
        str,
        typer.Option(
            "--input", help="Its input: JSON, @FILE, or - for standard input.", metavar="JSON"
        ),
    ] = "{}",
    delay: Annotated[
        str | None, typer.Option(help="Start it after this time, as 20s.", metavar="DURATION")
    ] = None,
    at: Annotated[
        str | None, typer.Option(help="Start it then: RFC 3339, or 2h from now.", metavar="TIME")
    ] = None,
    priority: Annotated[
        str | None, typer.Option(help="A priority of the topology.", metavar="PRIORITY")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Submit it once for this key, however often it is sent.", metavar="KEY"),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(help="Longest time of one run, as 5m.", metavar="DURATION")
    ] = None,
    callback_url: Annotated[
        str | None, typer.Option(help="Where its end is told.", metavar="URL")
    ] = None,
    watch: Watch = False,
    as_json: AsJson = False,
) -> int:
    """Submit a job.

    With --watch the exit codes are those of `jobs watch`, and --json prints one object a line.

    Example: tidegate jobs submit report --tenant acme --input @report.json --watch
    """
    if delay is not None and at is not None:
        raise typer.BadParameter("give --delay or --at, not both")
    asked: Answer = {
        "type": type_,
        "input": input_value(input_),
        "priority": priority,
        "run_at": None if at is None else moment(at, "--at", ahead=True),
        "delay_seconds": None if delay is None else duration(delay, "--delay"),
        "timeout_seconds": None if timeout is None else duration(timeout, "--timeout"),
        "callback_url": callback_url,
    }
    body = {name: value for name, value in asked.items() if value is not None or name == "input"}
    job = api.post(f"/v1/tenants/{part(tenant)}/jobs", body, key)
    if job.get("warning"):
        typer.echo(f"warning: {job['warning']}", err=True)
    if watch:
        return follow(api, job["job_id"], as_json, accepted=True)
    tell_how_to_follow(api, job)
    return show(job, as_json, job_sentences.submitted)


def input_value(given: str) -> Any:
    """The value of `--input`: JSON, `@FILE`, or `-` for standard input.

    Raises:
        BadParameter: it cannot be read.
    """
    if given == "-":
        text = sys.stdin.read()
    elif given.startswith("@"):
        try:
            text = Path(given[1:]).read_text()
        except (OSError, UnicodeDecodeError) as error:
            unread = f"{given[1:]} cannot be read: {error}"
            raise typer.BadParameter(unread, param_hint="--input") from None
    else:
        text = given
    return json_value(text, "--input")


def json_value(text: str, flag: str) -> Any:
    """The value of a JSON text.

    Raises:
        BadParameter: it is no JSON, or the API would not keep it as it is; names the flag.
    """
    try:
        value = user_json.read(text)
        user_json.write(value)
    except json.JSONDecodeError as error:
        raise typer.BadParameter(
            f"{text[:60]!r} is not JSON ({error}): null for none, and a text in quotes, "
            "as '\"re_1\"'",
            param_hint=flag,
        ) from None
    except TypeError as error:
        raise typer.BadParameter(f"it cannot be kept as it is: {error}", param_hint=flag) from None
    return value

"""The options of `tidegate endpoints set` and `rotate`, and what they mean to the API."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.changes import changed
from streams.cli.quantities import duration
from streams.cli.signing_secret import named_secret, read_secret

Where = Annotated[
    str | None, typer.Option("--to", help="Where deliveries are posted.", metavar="URL")
]
Events = Annotated[
    list[str] | None,
    typer.Option(
        help="Which types of messages it gets, as order.*, job.dead or approval.requested. (all)",
        metavar="GLOB",
    ),
]
Sources = Annotated[
    list[str] | None,
    typer.Option(help="Of which sources; tidegate for jobs and approvals. (all)", metavar="GLOB"),
]
Header = Annotated[
    list[str] | None,
    typer.Option(
        help="A header of each request, which is kept sealed. NAME=@FILE reads its value from a"
        " file, NAME=@- from standard input; NAME= removes it.",
        metavar="NAME=VALUE",
    ),
]
SecretRef = Annotated[
    str | None,
    typer.Option(
        help="Where each delivery process finds it: env:NAME or file:/path.", metavar="REF"
    ),
]
AskSecret = Annotated[
    bool, typer.Option("--ask-secret", help="Ask for the secret, without showing it.")
]
Format = Annotated[str | None, typer.Option(help="cloudevents, raw or mapped.", metavar="FORMAT")]
Mapped = Annotated[str | None, typer.Option(help="What format mapped sends.", metavar="JMESPATH")]
Timeout = Annotated[
    str | None,
    typer.Option(help="How long an attempt may take. (15s by default)", metavar="DURATION"),
]
Retry = Annotated[
    str | None,
    typer.Option(
        help="Waits before each further attempt, as 5s,5m,2h; '' for one attempt alone.",
        metavar="DURATIONS",
    ),
]
PerSecond = Annotated[
    str | None,
    typer.Option(help="Most deliveries in a time, as 600/60s.", metavar="COUNT/DURATION"),
]
NoRate = Annotated[bool, typer.Option("--no-rate", help="Do not limit deliveries.")]
Ordering = Annotated[
    str | None, typer.Option(help="parallel, fifo or fifo_by_subject.", metavar="ORDERING")
]
Enabled = Annotated[
    bool | None, typer.Option("--enable/--disable", help="While it is disabled, deliveries park.")
]
Text = Annotated[
    str | None, typer.Option("--description", help="What it is, for people.", metavar="TEXT")
]


def retry_seconds(text: str) -> list[float]:
    """The waits of a list of durations, in seconds.

    Raises:
        BadParameter: one of them is no duration.
    """
    return [duration(each, "--retry") for each in text.split(",")] if text.strip() else []


def merged_headers(names: Sequence[str], given: Sequence[str]) -> dict[str, str | None]:
    """Headers as the API takes them; those of `names` that are not given keep their values.

    Raises:
        BadParameter: one is not NAME=VALUE, or its file cannot be read.
    """
    merged = changed(dict.fromkeys(names), given, "--header")
    return {
        name: read_secret(Path(value[1:]), "--header") if value and value[0] == "@" else value
        for name, value in merged.items()
    }


def secret_body(file: Path | None, reference: str | None, *, ask: bool) -> dict[str, str]:
    """The secret or reference as the API takes it; empty if none is given.

    Raises:
        BadParameter: several are given, or one cannot be read.
    """
    given = named_secret(file, reference, ask, "--ask-secret")
    if given or not ask:
        return given
    return {"secret": typer.prompt("Secret (whsec_... or whsk_...)", hide_input=True, err=True)}

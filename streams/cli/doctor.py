"""`tidegate doctor`: what is wrong, with the remedy."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from itertools import groupby
from operator import attrgetter
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from streams.cli.cells import cell, console_of_any_width
from streams.cli.cluster import BootstrapOption, FileOption, found_settings
from streams.cli.operator_command import print_json
from streams.cli.options import AsJson, DevDir
from streams.doctor.finding import Check, Finding, Report, Unseen
from streams.doctor.looking import Look
from streams.doctor.run import examine
from streams.doctor.subject import subject
from streams.errors import ConfigError
from streams.stages import STAGES

_SETTINGS = Check("settings", "settings")
_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red", "skipped": "dim"}
_COUNTED = {"ok": "ok", "warn": "with a warning", "fail": "failed", "skipped": "skipped"}

_MOST_SECONDS = 20.0
_CHECK_WIDTH = 20
_LEAST = 24
"""The least width of a sentence, however narrow the terminal is."""

StageOption = Annotated[
    str | None,
    typer.Option(help="Look with the eyes of this stage's process.", metavar="STAGE"),
]
PoolOption = Annotated[
    str,
    typer.Option(help="With `--stage worker`: the pool whose jobs it takes.", metavar="NAME"),
]
AppOption = Annotated[
    str | None,
    typer.Option(
        help="With `--stage worker`: its application, whose job types the token must allow.",
        metavar="MODULE:ATTRIBUTE",
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option(help="The operator's API.  [default: that of `tidegate dev`]", metavar="URL"),
]


def doctor(
    stage: StageOption = None,
    pool: PoolOption = "default",
    app: AppOption = None,
    url: UrlOption = None,
    topology: FileOption = None,
    bootstrap: BootstrapOption = None,
    data_dir: DevDir = None,
    as_json: AsJson = False,
) -> None:
    """Look at cluster, topics, rights, settings, clocks and versions, and say what is wrong.

    It changes nothing, and needs only rights to describe, and to read `tenants` if a vault key is
    set. In a pod it has the settings of that pod: `--stage` then adds the keys and rights that this
    stage needs. It takes 20 s at most. For `--stage worker` it asks nothing of Kafka: it dials the
    owners of partitions as that worker would, and becomes none.

    Exit code 0: nothing fails, there may be warnings; 3: something fails; 1: no broker answers, or
    no owner for a worker; 2: a setting is not valid.

    Example: tidegate doctor --data-dir .tidegate

    Example: tidegate doctor --bootstrap kafka-1:9092 --stage pipeline --json

    Example: tidegate doctor --stage worker --pool default --app shop.jobs:app
    """
    if stage is not None and stage not in STAGES:
        raise typer.BadParameter(f"name one of {', '.join(STAGES)}", param_hint="--stage")
    if pool != "default" and stage != "worker":
        raise typer.BadParameter("give --stage worker, too", param_hint="--pool")
    if app is not None and stage != "worker":
        raise typer.BadParameter("give --stage worker, too", param_hint="--app")

    def look() -> Report | ConfigError:
        try:
            settings = found_settings(topology, bootstrap, data_dir)
        except ConfigError as error:
            return error
        return examine(subject(settings, stage, url, pool, app))

    with _busy():
        found = Look("the doctor", look, seconds=_MOST_SECONDS).seen()
    if isinstance(found, ConfigError):
        told = _SETTINGS.fail(str(found), "correct it, then look again")
        _print(Report((told,), reached=False), as_json)
        raise typer.Exit(2)
    _print(_held_up(found) if isinstance(found, Unseen) else found, as_json)
    raise typer.Exit(1 if isinstance(found, Unseen) else found.exit_code)


def _held_up(why: Unseen) -> Report:
    """What is read before and between the looks, which have limits of their own."""
    hangs = (
        "if nothing answered, a disk hangs that has a setting, a key, a certificate or the data "
        "directory: see which one does (ls), then look again"
    )
    return Report((_SETTINGS.fail(why.why, why.remedy or hangs),), reached=False)


def _busy() -> AbstractContextManager[object]:
    """Says on a terminal that it is at work."""
    return Console(stderr=True).status("looking ...") if sys.stderr.isatty() else nullcontext()


def _print(found: Report, as_json: bool) -> None:
    print_json(_json(found)) if as_json else _show(found)


def _json(found: Report) -> dict[str, Any]:
    return {
        "ok": found.exit_code == 0,
        "reached": found.reached,
        "counts": {status: found.counts[status] for status in _STYLES},
        "findings": [asdict(finding) for finding in found.findings],
    }


def _show(found: Report) -> None:
    console = console_of_any_width()
    for area, findings in groupby(found.findings, key=attrgetter("area")):
        console.print(Text(area, style="bold"))
        for each in findings:
            for line in _lines(each, console):
                console.print(line, soft_wrap=True)
    told = [f"{found.counts[s]} {name}" for s, name in _COUNTED.items() if found.counts[s]]
    console.print(f"\n{', '.join(told)}", highlight=False)


def _lines(finding: Finding, console: Console) -> Iterator[Text]:
    """The sentence beside its status and check, and below it the remedy, which nothing cuts."""
    status = (f"  {finding.status:<9}", _STYLES[finding.status])
    head = Text.assemble(status, f"{finding.check:<{_CHECK_WIDTH}}")
    room = max(_LEAST, console.width - len(head))
    for line in cell(finding.text).wrap(console, room):
        yield head + line
        head = Text(" " * len(head))
    if finding.remedy:
        yield Text.assemble(" " * len(head), ("→ ", "cyan"), cell(finding.remedy))

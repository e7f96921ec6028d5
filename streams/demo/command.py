"""The command `tidegate demo`."""

from __future__ import annotations

import asyncio
import json
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streams.demo.world.scenario import LEAST_EVENTS
from streams.errors import ConfigError
from streams.settings import Settings, load_settings

if TYPE_CHECKING:
    from streams.demo.verdict.report import Report
    from streams.demo.world.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Place:
    """Where a demo runs: its directory and its Kafka; None stands for its own."""

    data_dir: Path | None
    bootstrap: str | None
    allow_unsafe: bool


def demo(
    events: Annotated[
        int,
        typer.Option(
            min=LEAST_EVENTS, help="Distinct ticket events of three tenants.", metavar="N"
        ),
    ] = 1000,
    redeliveries: Annotated[
        int, typer.Option(min=1, help="How often each event is delivered in all.", metavar="N")
    ] = 3,
    kill: Annotated[
        bool, typer.Option("--kill", help="SIGKILL every kind of process in the middle of work.")
    ] = False,
    before: Annotated[
        bool, typer.Option("--before", help="Let a naive synchronous handler go first.")
    ] = False,
    apart: Annotated[
        bool,
        typer.Option("--apart", help="Run dedup, scheduler, dispatcher as processes apart."),
    ] = False,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Print a link to its console, which stays until you press Enter."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    seed: Annotated[
        int | None,
        typer.Option(help="Order of the deliveries, as an earlier run printed it.", metavar="N"),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="New directory for data and logs, kept afterwards.", metavar="DIR"),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            help="Run on this Kafka, under topics that are removed afterwards.", metavar="HOSTS"
        ),
    ] = None,
    allow_unsafe: Annotated[
        bool, typer.Option("--allow-unsafe", help="Take a --bootstrap of fewer than three brokers.")
    ] = False,
) -> None:
    """Act the incident out on a real Kafka and judge it from the outside.

    Exit code 1: a guarantee broke, or the run could not show what it was to show. With
    --bootstrap, --kill kills the demo's own processes there too, and never a broker.

    Example: tidegate demo --events 1000 --redeliveries 3 --kill --before
    """
    from streams.demo.verdict.report import Report
    from streams.demo.world.scenario import compose

    seed = secrets.randbelow(10**6) if seed is None else seed
    report = Report(as_json=as_json)
    report.phase(f"{events} events, each delivered {redeliveries} times, in order --seed {seed}")
    scenario = compose(events, redeliveries, seed)
    place = Place(data_dir, bootstrap, allow_unsafe)
    object_ = _play(scenario, report, place, apart=apart, kill=kill, before=before, watch=watch)
    if as_json:
        typer.echo(json.dumps(object_))
    if not object_["ok"]:
        report.phase(f"to keep its data and logs: --seed {seed} --data-dir DIR")
        raise typer.Exit(1)


def _play(
    scenario: Scenario,
    report: Report,
    place: Place,
    *,
    apart: bool,
    kill: bool,
    before: bool,
    watch: bool,
) -> dict[str, Any]:
    """Run the old handler, then Tidegate; show the tables and return the figures."""
    from streams.demo.run.before import run_before
    from streams.demo.run.given_cluster import prefixed, removed_afterwards
    from streams.demo.run.pipeline_run import APART, FUSED, OVERLAY, run_through
    from streams.demo.run.signals import terminated_as_interrupted
    from streams.demo.verdict.figures import figures
    from streams.demo.verdict.judge import judge

    naive = None
    if before:
        report.phase("the same deliveries to a naive synchronous handler")
        naive = asyncio.run(run_before(scenario, killed=kill))
    with ExitStack() as stack:
        stack.enter_context(terminated_as_interrupted())
        settings = _settings(stack.enter_context(_directory(place.data_dir)), OVERLAY, place)
        if place.bootstrap:
            settings = prefixed(settings)
            stack.enter_context(removed_afterwards(settings, report.phase))
        demo_run = run_through(
            scenario,
            settings,
            APART if apart else FUSED,
            report,
            kill=kill,
            allow_unsafe=place.allow_unsafe,
            watch=watch,
        )
        evidence = asyncio.run(demo_run)
    verdict = judge(evidence)
    counted = figures(evidence, verdict, report.seconds, naive)
    report.result(evidence, verdict, counted)
    return counted


@contextmanager
def _directory(asked: Path | None) -> Iterator[Path]:
    """The data directory: a given one stays, a temporary one is deleted with its content."""
    if asked is not None:
        if asked.exists() and any(asked.iterdir()):
            raise ConfigError(f"{asked} is not empty: name a new directory with --data-dir")
        asked.mkdir(parents=True, exist_ok=True)
        yield asked.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as folder:
        yield Path(folder)


def _settings(folder: Path, overlay: Path, place: Place) -> Settings:
    settings = load_settings(data_dir=folder, topology=overlay, port=0, bootstrap=place.bootstrap)
    if "bootstrap" in settings.model_fields_set and place.bootstrap is None:
        raise ConfigError(
            "a setting names a Kafka, and the demo brings its own: unset TIDEGATE_BOOTSTRAP (or "
            f"`bootstrap` in tidegate.toml), or run it there with --bootstrap {settings.bootstrap}"
        )
    return settings

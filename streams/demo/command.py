"""The command `tidegate demo`."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streams.demo.world.scenario import LEAST_EVENTS
from streams.errors import ConfigError
from streams.settings import Settings, load_settings

if TYPE_CHECKING:
    from streams.demo.verdict.evidence import Evidence
    from streams.demo.verdict.report import Report
    from streams.demo.world.scenario import Scenario


def demo(
    events: Annotated[
        int, typer.Option(min=LEAST_EVENTS, help="Distinct ticket events of three tenants.")
    ] = 1000,
    redeliveries: Annotated[
        int, typer.Option(min=1, help="How often each event is delivered in all.")
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
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    seed: Annotated[
        int | None, typer.Option(help="Order of the deliveries, as an earlier run printed it.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="New directory for data and logs, kept afterwards.")
    ] = None,
) -> None:
    """Act the incident out on a real Kafka and judge it from the outside.

    Exit code 1: a guarantee broke, or the run could not show what it was to show.

    Example: tidegate demo --events 1000 --redeliveries 3 --kill --before
    """
    from streams.demo.verdict.report import Report
    from streams.demo.world.scenario import compose

    seed = secrets.randbelow(10**6) if seed is None else seed
    report = Report(as_json=as_json)
    report.phase(f"{events} events, each delivered {redeliveries} times, in order --seed {seed}")
    scenario = compose(events, redeliveries, seed)
    object_ = _play(scenario, report, data_dir, apart=apart, kill=kill, before=before)
    if as_json:
        typer.echo(json.dumps(object_))
    if not object_["ok"]:
        report.phase(f"to keep its data and logs: --seed {seed} --data-dir DIR")
        raise typer.Exit(1)


def _play(
    scenario: Scenario,
    report: Report,
    data_dir: Path | None,
    *,
    apart: bool,
    kill: bool,
    before: bool,
) -> dict[str, Any]:
    """Run the old handler, then Tidegate; show the tables and return the figures."""
    from streams.demo.run.before import run_before
    from streams.demo.run.pipeline_run import APART, FUSED, OVERLAY, run_through
    from streams.demo.verdict.figures import figures
    from streams.demo.verdict.judge import judge

    naive = None
    if before:
        report.phase("the same deliveries to a naive synchronous handler")
        naive = asyncio.run(run_before(scenario, killed=kill))
    with _directory(data_dir) as folder:
        settings = _settings(folder, OVERLAY)
        layout = APART if apart else FUSED
        demo_run = run_through(scenario, settings, layout, report, kill=kill)
        evidence = asyncio.run(_until_stopped(demo_run))
    verdict = judge(evidence)
    counted = figures(evidence, verdict, report.seconds, naive)
    report.result(evidence, verdict, counted)
    return counted


async def _until_stopped(demo_run: Coroutine[None, None, Evidence]) -> Evidence:
    """Await the run; a SIGTERM ends it like Ctrl-C, so that nothing is left behind."""
    task = asyncio.ensure_future(demo_run)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


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


def _settings(folder: Path, overlay: Path) -> Settings:
    settings = load_settings(data_dir=folder, topology=overlay, port=0)
    if "bootstrap" in settings.model_fields_set:
        raise ConfigError(
            "the demo kills processes and brings its own Kafka: unset TIDEGATE_BOOTSTRAP "
            "(or `bootstrap` in tidegate.toml) and run it again"
        )
    return settings

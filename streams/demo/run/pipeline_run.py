"""One run from the first process to the last: start, play, stop, whatever happens."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from streams.demo.run.script import Script
from streams.demo.verdict.evidence import Evidence
from streams.demo.verdict.report import Report
from streams.demo.world.recorder import Recorder
from streams.demo.world.scenario import Scenario
from streams.demo.world.tools import URL_VARIABLE
from streams.dev.layout import Layout
from streams.dev.pipeline import Pipeline
from streams.dev.supervisor import NAME
from streams.errors import TidegateError
from streams.settings import Settings

FUSED = Layout(ingress=2, pipeline=2, worker=2)
APART = Layout.apart(dedup=2, dispatcher=2, ingress=2, worker=2)
OVERLAY = Path(__file__).with_name("topology.yaml")

_APP = "streams.demo.world.app:app"
_START_SECONDS = 240.0


async def run_through(
    scenario: Scenario,
    settings: Settings,
    layout: Layout,
    report: Report,
    *,
    kill: bool,
    allow_unsafe: bool = False,
    watch: bool = False,
) -> Evidence:
    """Run the scenario; returns everything that was seen from the outside.

    With `watch`, it tells where the console is, and leaves it open until somebody presses Enter.

    Raises:
        TidegateError: the pipeline could not be started, set up, or read.
    """
    recorder = Recorder()
    env = {URL_VARIABLE: await recorder.start()}
    given = "bootstrap" in settings.model_fields_set
    report.phase("starting every stage" if given else "starting Kafka and every stage")
    pipeline = Pipeline(
        settings,
        layout,
        app=_APP,
        env=env,
        console=partial(_tell_restarts, report),
        allow_unsafe=allow_unsafe,
    )
    try:
        async with AsyncExitStack() as stack:
            await _enter(stack, pipeline)
            report.phase(f"{len(pipeline.members)} processes are ready beside Kafka")
            async with Script(scenario, pipeline, recorder, report) as script:
                if watch:
                    report.phase(f"watch it in the console: {await script.console()}")
                evidence = await script.evidence(kill=kill)
                if watch:
                    report.phase("the console stays open until you press Enter")
                    await _enter_pressed()
                return evidence
    finally:
        await recorder.stop()


async def _enter_pressed() -> None:
    """Return once standard input has a line, or is at its end."""
    pressed, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), pressed.set)
    await pressed.wait()
    loop.remove_reader(sys.stdin.fileno())


async def _enter(stack: AsyncExitStack, pipeline: Pipeline) -> None:
    try:
        async with asyncio.timeout(_START_SECONDS):
            await stack.enter_async_context(pipeline)
    except TimeoutError:
        raise TidegateError(
            f"the pipeline is not ready after {_START_SECONDS:g} s: run it again with "
            "--data-dir DIR and read DIR/logs"
        ) from None


def _tell_restarts(report: Report, line: str) -> None:
    """Pass on the supervisor's lines; the stages' own lines stay in their files."""
    name, _, text = line.partition(" | ")
    if name.strip() == NAME:
        report.phase(text)

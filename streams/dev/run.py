"""`tidegate dev`: run the pipeline until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from streams.broker.jars import missing_jars
from streams.dev.app_check import check
from streams.dev.layout import Layout
from streams.dev.pipeline import Pipeline
from streams.dev.welcome import create_sample_tenant, hook_text, list_text, ready_text
from streams.settings import Settings

_SAMPLE_APP = "streams.dev.sample:app"
_SAMPLE_TOPOLOGY = Path(__file__).with_name("sample.yaml")


def run(settings: Settings, layout: Layout, *, app: str | None, allow_unsafe: bool) -> None:
    """Run until SIGINT or SIGTERM; a second signal ends everything at once.

    Raises:
        TidegateError: as `Pipeline` does.
        typer.Exit: the application cannot be loaded; standard error says why.
    """
    if app is not None:
        check(app)
    asyncio.run(_run(settings, layout, app, allow_unsafe))


async def _run(settings: Settings, layout: Layout, app: str | None, allow_unsafe: bool) -> None:
    if app is None and settings.topology is None:
        settings = settings.model_copy(update={"topology": _SAMPLE_TOPOLOGY})
    _tell_of_download(settings)
    pipeline = Pipeline(
        settings,
        layout,
        app=app or _SAMPLE_APP,
        console=_write_line,
        allow_unsafe=allow_unsafe,
    )
    serving = asyncio.create_task(_serve(pipeline, sample=app is None))
    _on_signals(serving.cancel, pipeline.kill)
    try:
        await serving
    except asyncio.CancelledError:
        _say("stopped; what it did is kept in " + str(settings.data_dir))


async def _serve(pipeline: Pipeline, *, sample: bool) -> None:
    _say(f"starting; logs and data in {pipeline.settings.data_dir}")
    async with pipeline:
        if sample:
            secret = await create_sample_tenant(pipeline)
            hint = hook_text(pipeline, secret)
        else:
            hint = list_text(pipeline)
        print(f"{ready_text(pipeline)}\n{hint}\nCtrl-C stops everything.", flush=True)
        await asyncio.Event().wait()


def _on_signals(stop: Callable[[], object], kill: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    asked: list[signal.Signals] = []

    def handle(number: signal.Signals) -> None:
        asked.append(number)
        if len(asked) == 1:
            _say("stopping; once more to end at once")
            stop()
        else:
            kill()
            os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, handle, number)


def _tell_of_download(settings: Settings) -> None:
    if "bootstrap" not in settings.model_fields_set and missing_jars():
        _say("fetching Kafka (up to 45 MB), once")


def _say(text: str) -> None:
    _write_line(f"{'dev':<12} | {text}")


def _write_line(text: str) -> None:
    # The reader may be gone; the children's logs are in files as well.
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)

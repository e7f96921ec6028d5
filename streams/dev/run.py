"""`tidegate dev`: run the pipeline until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from streams.broker.jars import missing_jars
from streams.dev.app_check import check
from streams.dev.console.activity import ALARMS, CODECS
from streams.dev.console.background_stream import BackgroundStream
from streams.dev.console.process_lines import ProcessLines
from streams.dev.console.screen import Screen, wants_colour
from streams.dev.console.topic_follower import TopicFollower
from streams.dev.layout import DEFAULT_POOL, Layout
from streams.dev.pipeline import Pipeline
from streams.dev.sample_event import TENANT
from streams.dev.welcome import (
    create_sample_tenant,
    hook_text,
    next_text,
    ready_text,
)
from streams.dev.wiring_check import remarks, shadows, unstaffed
from streams.settings import Settings
from streams.topology.load import load

_SAMPLE_APP, _SAMPLE_TYPES = "streams.dev.sample:app", ("draft_reply",)
_SAMPLE_TOPOLOGY = Path(__file__).with_name("sample.yaml")

_TOPICS_BEHIND_SECONDS = 0.3
_LAST_LINES_SECONDS = 2.0
"""Topics are read a moment later than logs: an event is shown before its duplicates."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What `tidegate dev` was asked for; without `app` it runs a sample."""

    app: str | None = None
    allow_unsafe: bool = False
    reload: bool = False
    quiet: bool = False


def run(settings: Settings, layout: Layout, wanted: Wanted) -> None:
    """Run until SIGINT or SIGTERM; a second signal ends everything at once.

    Raises:
        TidegateError: as `Pipeline` does.
        typer.Exit: the application cannot be loaded; standard error says why.
    """
    if wanted.app is None and settings.topology is None:
        settings = settings.model_copy(update={"topology": _SAMPLE_TOPOLOGY})
    handled = check(wanted.app) if wanted.app else _SAMPLE_TYPES
    terminal = BackgroundStream(sys.stderr)
    screen = Screen(terminal, wanted.quiet, wants_colour(sys.stderr))
    try:
        _warn(settings, layout, handled, screen)
        asyncio.run(_run(settings, layout, wanted, screen))
    finally:
        terminal.finish(_LAST_LINES_SECONDS)


def _warn(settings: Settings, layout: Layout, handled: tuple[str, ...], screen: Screen) -> None:
    for text in shadows(Path.cwd()):
        screen.say(text, "warning")
    topology = load(settings.topology)
    staffed = {DEFAULT_POOL, *(pool.name for pool in layout.pools)}
    for text in unstaffed(topology, handled, staffed):
        screen.say(text, "warning")
    for text in remarks(topology, handled, {TENANT}):
        screen.say(text, "info" if text.startswith("note: ") else "warning")


async def _run(settings: Settings, layout: Layout, wanted: Wanted, screen: Screen) -> None:
    _tell_of_download(settings, screen)
    lines = ProcessLines()

    def show(line: str) -> None:
        name, _, text = line.partition(" | ")
        for each in lines.shown(name.strip(), text):
            if each.name == "event":
                asyncio.get_running_loop().call_later(_TOPICS_BEHIND_SECONDS, screen.show, each)
            else:
                screen.show(each)

    pipeline = Pipeline(
        settings,
        layout,
        app=wanted.app or _SAMPLE_APP,
        console=show,
        allow_unsafe=wanted.allow_unsafe,
        progress=screen.say,
        ingress_env={"TIDEGATE_LOG_LEVEL": "debug"},
        command=sys.argv[1:],
    )
    serving = asyncio.create_task(_serve(pipeline, wanted, screen, lines))
    _on_signals(serving.cancel, pipeline.kill, screen)
    try:
        await serving
    except asyncio.CancelledError:
        screen.say("stopped; what it did is kept in " + str(settings.data_dir))


async def _serve(pipeline: Pipeline, wanted: Wanted, screen: Screen, lines: ProcessLines) -> None:
    screen.say(f"starting; logs and data in {pipeline.settings.data_dir}")
    async with pipeline, AsyncExitStack() as before_the_broker_ends:
        topics = ALARMS if wanted.quiet else CODECS
        follower = TopicFollower(pipeline.settings, topics, screen.show)
        await asyncio.to_thread(follower.start)
        # Jobs also end while the stages stop: their lines are shown too.
        before_the_broker_ends.push_async_callback(asyncio.to_thread, follower.stop)
        if pipeline.supervisor:
            before_the_broker_ends.push_async_callback(pipeline.supervisor.stop)
        print(await _banner(pipeline, wanted), flush=True)
        lines.started = True
        if wanted.reload and pipeline.supervisor:
            from streams.dev.reload import reload_workers  # its library is for this alone

            workers = [m.name for m in pipeline.members if m.stage == "worker"]
            await reload_workers(
                pipeline.supervisor,
                workers,
                wanted.app or _SAMPLE_APP,
                *_watched(pipeline.settings),
                screen,
            )
        await asyncio.Event().wait()


def _watched(settings: Settings) -> tuple[Path, Path | None]:
    return Path.cwd(), settings.topology.resolve() if settings.topology else None


async def _banner(pipeline: Pipeline, wanted: Wanted) -> str:
    """What to do next; a program that reads it also gets the token, and a signed delivery."""
    on_terminal = sys.stdout.isatty()
    # A cluster of somebody's own gets no tenant that nobody asked for.
    sample = wanted.app is None or pipeline.broker is not None
    secret = await create_sample_tenant(pipeline) if sample else ""
    parts = [ready_text(pipeline, on_terminal=on_terminal)]
    if not wanted.quiet:
        parts.append(next_text(pipeline.settings, sample=sample))
    if not on_terminal and wanted.app is None:
        parts.append(hook_text(pipeline, secret))
    return "\n".join([*parts, "Ctrl-C stops everything."])


def _on_signals(stop: Callable[[], object], kill: Callable[[], None], screen: Screen) -> None:
    loop = asyncio.get_running_loop()
    asked: list[signal.Signals] = []

    def handle(number: signal.Signals) -> None:
        asked.append(number)
        if len(asked) == 1:
            screen.say("stopping; once more to end at once")
            stop()
        else:
            kill()
            os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, handle, number)


def _tell_of_download(settings: Settings, screen: Screen) -> None:
    if "bootstrap" not in settings.model_fields_set and missing_jars():
        screen.say("fetching Kafka (up to 45 MB), once")

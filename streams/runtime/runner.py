"""`run_stage`: one stage as a process, from its start to SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import structlog

from streams import telemetry
from streams.errors import Fenced, StageFailed
from streams.process.garbage import collect_seldom
from streams.runtime.link import LinkService
from streams.runtime.loop import StageLoop, nothing_outside
from streams.runtime.producer_calls import Stopped
from streams.runtime.stage import AnyStage
from streams.settings import Settings
from streams.topology.model import FUSED, Topology

log = structlog.get_logger(__name__)


def run_stage(
    stage: AnyStage,
    topology: Topology,
    settings: Settings,
    drained: Callable[[], bool] = nothing_outside,
    link: LinkService | None = None,
) -> None:
    """Run a stage until SIGTERM or SIGINT, then leave its state committed and closed.

    A stage that calls out gives `drained`. It is asked after the signal: the stage begins nothing
    outside any more, and goes on for 5 s at most until this says that all it began has ended.
    A stage with a link gives what serves it.

    Serves the probes on `settings.probe_port`; ready means that the broker answers and every
    assigned task is restored. While the broker is away, the stage waits for it.

    Raises:
        ConfigError: topics do not fit the stage, or the state directory is in use.
        ClockStepped: the broker's time cannot be believed any more.
        Fenced: another process runs as this instance.
        StageFailed: the stage cannot go on; the message names the remedy.
    """
    stop = threading.Event()

    def stopped(signum: int, frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, stopped)
    signal.signal(signal.SIGINT, stopped)
    # A batch is thousands of tuples that live for one step: a collection every 700 took a third.
    collect_seldom(100_000, 20, 20)
    loop = StageLoop(stage, topology, settings, stop, drained, link)
    telemetry.show_ready(topology.fused if stage.name == FUSED else [stage.name], loop.ready)
    port = telemetry.serve_probes(settings, loop.ready)
    log.info("stage starts", bootstrap=settings.bootstrap, probe_port=port)
    try:
        with _serving(link, stop):
            loop.run()
    except Stopped:
        log.warning("stopped while kafka did not answer: the next start settles it")
    except Fenced as fenced:
        log.error("fenced", error=str(fenced))
        raise
    except StageFailed as failed:
        log.error("stage failed", error=str(failed))
        raise
    log.info("stage stopped")


@contextmanager
def _serving(link: LinkService | None, stop: threading.Event) -> Iterator[None]:
    """Serve a link within the block; raise its failure, which ends the stage in order."""
    if link is None:
        yield
        return
    failures: list[Exception] = []

    def failed(error: Exception) -> None:
        failures.append(error)
        stop.set()

    try:
        link.start(failed)
        yield
    finally:
        link.stop()
    if failures:
        raise failures[0]

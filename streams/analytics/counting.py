"""The stage's Faust application: one agent for each topic, which folds its records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import structlog
from faust.types import TP
from faust.types.tuples import Message
from prometheus_client import Counter

from streams.analytics.app import TidegateApp, faust_settings, topic
from streams.analytics.committed import CountingTransport
from streams.analytics.folds import FOLDS
from streams.analytics.partition import CountedPartition
from streams.analytics.partitions import TOPICS, Partitions
from streams.errors import DecodeError
from streams.settings import Settings

log = structlog.get_logger(__name__)

_RECORDS = Counter(
    "tidegate_analytics_records", "Records by what became of them", ["topic", "result"]
)
_SECONDS_BETWEEN_REWINDS = 1.0

Failed = Callable[[Exception], None]


class CountingApp(TidegateApp):
    """Faust's application over tables that are its own: their positions decide where it reads."""

    Transport = CountingTransport
    partitions: Partitions

    def positions(self, assigned: Collection[TP]) -> Mapping[TP, int]:
        """Where each partition starts; see `streams.analytics.committed`."""
        return self.partitions.take(assigned)

    def counted_to(self, tp: TP) -> int | None:
        """The next offset to count of a partition; None if it is not this process's."""
        counted = self.partitions.get(tp)
        return None if counted is None else counted.position

    def _create_directories(self) -> None:
        """Create none: Faust keeps no tables here."""


def counting_app(settings: Settings, partitions: Partitions, failed: Failed) -> CountingApp:
    """The application, not started; `failed` is called with an error that must end the process."""
    app = CountingApp(
        f"{settings.topic_prefix}analytics",
        **faust_settings("analytics", settings),
        consumer_group_instance_id=settings.instance,
        topic_allow_declare=False,
    )
    app.tidegate = settings
    app.partitions = partitions
    counting = Counting(app, partitions)

    async def none_left(sender: Any, assigned: Collection[TP], **_: Any) -> None:
        if not assigned:  # Faust seeks, and so asks for positions, only with partitions
            partitions.take(())

    app.on_partitions_assigned.connect(none_left, weak=False)
    app.timer(_SECONDS_BETWEEN_REWINDS)(counting.read_again)
    for name in TOPICS:
        app.agent(topic(app, name, raw=True), name=name)(counting.agent(failed))
    return app


class Counting:
    """Folds what Faust delivers into the partitions' tables, each record once."""

    def __init__(self, app: CountingApp, partitions: Partitions) -> None:
        self._app = app
        self._partitions = partitions
        self._gaps: set[TP] = set()

    def agent(self, failed: Failed) -> Callable[[Any], Any]:
        """An agent; an error ends the process, which starts again from what is written."""

        async def count(stream: Any) -> None:
            async for event in stream.events():
                try:
                    await self.handle(event.message)
                except Exception as error:
                    failed(error)
                    raise

        return count

    async def handle(self, message: Message) -> None:
        """Count a record if it is the next of its partition."""
        counted = self._partitions.get(message.tp)
        if counted is None:
            return
        name = self._partitions.assignment.topic(message.tp)
        verdict: str = counted.accepts(message.follows, message.offset)
        if verdict == "next":
            verdict = fold(name, counted, message)
            self._gaps.discard(message.tp)
        elif verdict == "gap":
            self._gaps.add(message.tp)
        _RECORDS.labels(name, verdict).inc()

    async def read_again(self) -> None:
        """Read the partitions where records are missing again from where their tables end.

        Faust may drop what it reads again, up to the newest record that it was handing over
        meanwhile. That record is a gap once more, so the partition is read again the next time,
        even if no further record comes.
        """
        gaps, self._gaps = self._gaps & self._app.consumer.assignment(), set()
        ends = {tp: end for tp in gaps if (end := self._app.counted_to(tp)) is not None}
        if ends:
            log.info(
                "records are missing: reading again", offsets={str(tp): ends[tp] for tp in ends}
            )
            await self._app.consumer.seek_wait(ends)


def fold(name: str, counted: CountedPartition, message: Message) -> str:
    """Count a record of the topic `name`; answers `counted`, or `unreadable` if it is left out."""
    try:
        at = FOLDS[name](
            counted, message.key or b"", message.value, round(message.timestamp * 1000)
        )
    except DecodeError as error:
        log.warning(
            "record cannot be read: it is left out",
            topic=name,
            partition=message.partition,
            offset=message.offset,
            why=str(error),
        )
        counted.advance(message.offset, 0)
        return "unreadable"
    except Exception:
        counted.forget()
        raise
    counted.advance(message.offset, at)
    return "counted"

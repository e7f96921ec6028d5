"""The analytics process: it counts and serves until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress

import structlog
import uvloop
from confluent_kafka import KafkaException

from streams.analytics.counting import counting_app
from streams.analytics.http import Api, listening
from streams.analytics.partitions import TOPICS, Partitions
from streams.errors import StageFailed, TidegateError
from streams.kafka.admin import admin_client
from streams.kafka.failures import Outage
from streams.process.shutdown import ProcessEnd
from streams.runtime.topics import Topics
from streams.settings import Settings
from streams.topology.model import Topology
from streams.topology.partition_counts import refuse_other_counts

log = structlog.get_logger(__name__)

_BETWEEN_WRITES = 0.2
_BETWEEN_QUESTIONS = 1.0
_BETWEEN_CHECKS = 5.0
_STOPPING_SECONDS = 10.0


def run(settings: Settings, topology: Topology) -> None:
    """Count and serve until SIGTERM or SIGINT.

    Raises:
        ConfigError: no admin token, the port is taken, the state directory is in use, a topic has
            another number of partitions, or a Kafka setting that Faust does not have.
        StageFailed: Faust could not go on, and the next start counts on from what is written; or a
            topic was made again, and the next start counts it anew.
    """
    logging.getLogger().addHandler(_Lines(logging.WARNING))
    uvloop.run(_run(settings, topology))


class _Lines(logging.Handler):
    """What Faust and its client log of warnings, as lines of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("faust", logger=record.name, detail=record.getMessage())


async def _run(settings: Settings, topology: Topology) -> None:
    end = ProcessEnd()
    api = Api(settings, end.failed)
    async with listening(api, settings) as port:
        log.info("stage starts", bootstrap=settings.bootstrap, probe_port=port)
        counting = asyncio.ensure_future(_count(api, settings, topology, end))
        counting.add_done_callback(lambda done: _report(done, end))
        try:
            await end.wait()
        except TidegateError:
            raise
        except Exception as error:
            log.exception("counting failed")
            raise StageFailed(
                f"analytics cannot go on ({error!r}): start it again, it counts on from what is "
                "written; the log has the reason"
            ) from error
        finally:
            counting.cancel()
            await asyncio.wait({counting})
    log.info("stage stopped")


async def _count(api: Api, settings: Settings, topology: Topology, end: ProcessEnd) -> None:
    topic_ids = await _topic_ids(settings, topology)
    partitions = Partitions(settings, topology, topic_ids)
    app = counting_app(settings, partitions, end.failed)
    api.partitions = partitions
    checking = asyncio.ensure_future(_check_topics(settings, topic_ids))
    checking.add_done_callback(lambda done: _report(done, end))
    try:
        await app.start()
        while not app.should_stop:
            await asyncio.sleep(_BETWEEN_WRITES)
            partitions.write()
        why = app.crash_reason or "it stopped by itself"
        raise StageFailed(f"analytics: Faust ended ({why!r}): start the stage again, it counts on")
    finally:
        made_again = checking.done()
        checking.cancel()
        api.partitions = None
        with suppress(TimeoutError):
            await asyncio.wait_for(app.stop(), _STOPPING_SECONDS)
        partitions.close()
        if made_again:
            # A group keeps the partitions of a static member for a session (KIP-345), here those
            # of a moment at which a topic was missing: the next start would count without it.
            log.info("waiting for the end of the session", seconds=settings.session_seconds)
            await asyncio.sleep(settings.session_seconds)


def _report(done: asyncio.Future[None], end: ProcessEnd) -> None:
    if not done.cancelled() and isinstance(error := done.exception(), Exception):
        end.failed(error)


async def _topic_ids(settings: Settings, topology: Topology) -> dict[str, str]:
    topics, outage = Topics(admin_client(settings), settings.topic_prefix), Outage()
    said = False
    while True:
        missing: list[str] = []
        try:
            await asyncio.to_thread(topics.refresh)
            missing = [topic for topic in TOPICS if not topics.width(topic)]
            if not missing:
                refuse_other_counts("stage analytics", topology, TOPICS, topics.width)
                return await asyncio.to_thread(topics.ids, TOPICS)
            outage.answered()
        except KafkaException as error:
            outage.failed(error)
        if missing and not said:
            said = True
            log.warning("topics are missing: waiting (`tidegate topology apply`)", topics=missing)
        await asyncio.sleep(_BETWEEN_QUESTIONS)


async def _check_topics(settings: Settings, topic_ids: Mapping[str, str]) -> None:
    """Compare the topics with `topic_ids` for ever: offsets say nothing about another topic.

    Raises:
        StageFailed: a topic was deleted and made again.
    """
    topics = Topics(admin_client(settings), settings.topic_prefix)
    while True:
        await asyncio.sleep(_BETWEEN_CHECKS)
        with suppress(KafkaException):
            found = await asyncio.to_thread(topics.ids, TOPICS)
            if other := [topic for topic in TOPICS if found[topic] != topic_ids[topic]]:
                raise StageFailed(
                    f"analytics: {', '.join(other)}: deleted and made again while the stage ran: "
                    "start it again, it counts the new topic from its first record"
                )

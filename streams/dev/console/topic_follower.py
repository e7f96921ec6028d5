"""Follows the topics from now on and shows a line for what happens; the stages take no part in it.

Its consumer joins no group and commits nothing. In a flood it counts records without decoding them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import closing

from confluent_kafka import Consumer, Message, TopicPartition

from streams.dev.console.activity import CODECS, Activity
from streams.dev.console.pace import Pace
from streams.dev.console.screen import Line
from streams.errors import DecodeError
from streams.kafka.admin import admin_client
from streams.kafka.clients import UNHURRIED, consumer_config
from streams.kafka.offsets import latest, read_offsets
from streams.process.daemon_thread import DaemonThread
from streams.settings import Settings

_TIMEOUT = 10.0
_BATCH, _WAIT_SECONDS = 1_000, 0.05


class TopicFollower:
    """Calls `show`, on a thread of its own, from `start` to `stop`."""

    def __init__(
        self,
        settings: Settings,
        topics: Iterable[str],
        show: Callable[[Line], None],
        pace: Pace | None = None,
    ) -> None:
        self._settings = settings
        self._topics = tuple(topics)
        self._show = show
        self._pace = pace or Pace()
        self._activity = Activity()
        self._thread = DaemonThread("console", self._run, self._failed)
        self._from: list[TopicPartition] = []

    def start(self) -> None:
        """Note where the topics end now, and follow them from there.

        Raises:
            KafkaException: the broker does not answer.
        """
        prefix, admin = self._settings.topic_prefix, admin_client(self._settings)
        places = [
            (topic, partition)
            for topic in self._topics
            for partition in admin.list_topics(prefix + topic, _TIMEOUT)
            .topics[prefix + topic]
            .partitions
        ]
        ends = read_offsets(admin, prefix, places, latest(), _TIMEOUT)
        self._from = [TopicPartition(prefix + t, p, offset) for (t, p), offset in ends.items()]
        self._thread.start()

    def stop(self) -> None:
        self._thread.stop(2)

    def _failed(self, error: Exception) -> None:
        self._show(
            Line("dev", f"no more lines of events and jobs: {error}; start dev again", "warning")
        )

    def _run(self) -> None:
        own = {"auto.offset.reset": "latest", **UNHURRIED}
        config = consumer_config(self._settings, "dev-console", **own)
        with closing(Consumer(config)) as consumer:
            consumer.assign(self._from)
            while not self._thread.stopping.is_set():
                batch = consumer.consume(_BATCH, _WAIT_SECONDS)
                for message in sorted(batch, key=lambda one: one.timestamp()[1]):
                    self._take(message)
                if (text := self._pace.summary(time.monotonic())) is not None:
                    self._show(Line("dev", text))

    def _take(self, message: Message) -> None:
        raw, topic = (
            message.value(),
            (message.topic() or "").removeprefix(self._settings.topic_prefix),
        )
        if message.error() is not None or raw is None or not self._pace.admits(topic):
            return
        try:
            line = self._activity.line(CODECS[topic].decode(raw))
        except DecodeError:
            return  # the stages report what cannot be read
        if line is not None:
            self._pace.shown()
            self._show(line)

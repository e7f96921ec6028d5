"""Follows the topics from now on and shows a line for what happens; the stages take no part in it.

Its consumer joins no group and commits nothing. In a flood it counts records without decoding them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Message

from streams.dev.console.activity import CODECS, Activity
from streams.dev.console.pace import Pace
from streams.dev.console.screen import Line
from streams.errors import DecodeError
from streams.kafka.tail import PATIENT, PEOPLES_SECONDS, Fault, Tail
from streams.process.daemon_thread import DaemonThread
from streams.settings import Settings

_TIMEOUT = 60.0
_BATCH, _WAIT_SECONDS = 1_000, 0.05
_LAST_LINES_SECONDS = 3.0
"""How long to read on at the end for what was written before, if the broker answers slowly."""

_HASTY = {"fetch.wait.max.ms": 50}


class TopicFollower:
    """Calls `show`, on a thread of its own, for each record from `start` to `stop`."""

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
        self._tail = self._made(rest=PEOPLES_SECONDS, **PATIENT)

    def start(self) -> None:
        """Note where the topics end now, and follow them from there.

        Raises:
            KafkaException: the broker does not answer.
        """
        widths = self._tail.widths(_TIMEOUT)
        places = [(topic, number) for topic in self._topics for number in range(widths[topic])]
        self._tail.begin_at_end(places, _TIMEOUT)
        self._thread.start()

    def stop(self) -> None:
        """Return once all that was written before is shown; the broker must be there until then."""
        self._thread.stop(2 * _LAST_LINES_SECONDS)

    def _failed(self, error: Exception) -> None:
        self._show(
            Line("dev", f"no more lines of events and jobs: {error}; start dev again", "warning")
        )

    def _run(self) -> None:
        with self._tail:
            while not self._thread.stopping.is_set():
                self._read(self._tail)
            # It may rest, or wait for an answer: another reader is at the ends sooner.
            with self._made(**_HASTY) as last:
                last.begin(self._tail.next)
                until = time.monotonic() + _LAST_LINES_SECONDS
                while not last.caught_up and time.monotonic() < until:
                    self._read(last)

    def _made(self, **config: Any) -> Tail:
        return Tail(self._settings, "dev-console", tell=_leave_to_stages, **config)

    def _read(self, tail: Tail) -> None:
        batch = tail.read(_BATCH, _WAIT_SECONDS)
        for message in sorted(batch, key=lambda one: one.timestamp()[1]):
            self._take(message)
        if (text := self._pace.summary(time.monotonic())) is not None:
            self._show(Line("dev", text))

    def _take(self, message: Message) -> None:
        raw, (topic, _) = message.value(), self._tail.place(message)
        if raw is None or not self._pace.admits(topic):
            return
        try:
            line = self._activity.line(CODECS[topic].decode(raw))
        except DecodeError:
            return  # the stages report what cannot be read
        if line is not None:
            self._pace.shown()
            self._show(line)


def _leave_to_stages(_: Fault) -> None:
    """Show nothing: the stages report what cannot be read."""

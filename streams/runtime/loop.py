"""The loop of one stage's process: one thread.

It reads, acts on a rebalance, processes, punctuates and commits, and restores a part of the new
tasks. It reads the next batch during a commit. Both reads report rebalances.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

import structlog
from confluent_kafka import KafkaException

from streams.errors import Fenced, StoreDamaged
from streams.kafka.admin import admin_client
from streams.kafka.failures import Outage
from streams.kafka.offsets import Place
from streams.process.standstill import PATIENCE_SECONDS, Standstill
from streams.runtime import metrics
from streams.runtime.assignment import positions
from streams.runtime.broker_clock import broker_clock
from streams.runtime.doubted_ends import EndDoubted
from streams.runtime.executor import Executor
from streams.runtime.layouts import refuse_left, refuse_other
from streams.runtime.link import LinkService
from streams.runtime.pace import Pace
from streams.runtime.processor import Record
from streams.runtime.stage import AnyStage
from streams.runtime.step import TransactionAborted, by_task
from streams.runtime.topics import Changelog, Topics, await_topics, refuse_growth
from streams.runtime.transaction import ProducerLost
from streams.runtime.wiring import wire
from streams.settings import Settings
from streams.topology.model import Topology

log = structlog.get_logger(__name__)

_IDLE_SECONDS = 0.2
_LOOK_SECONDS = 0.02
"""How often it looks whether inputs need to be held back no more."""
_DOUBT_SECONDS = 1.0
_DRAIN_SECONDS = 5.0
"""How long a stopping stage goes on to finish the work that it began outside."""
_OUTAGE_SECONDS = 60.0
"""How long the questions of one turn may take together while no broker answers."""


def nothing_outside() -> bool:
    """Whether a stage that begins nothing outside has drained: always."""
    return True


class StageLoop:
    """The loop of one stage's process."""

    def __init__(
        self,
        stage: AnyStage,
        topology: Topology,
        settings: Settings,
        stop: threading.Event,
        drained: Callable[[], bool] = nothing_outside,
        link: LinkService | None = None,
    ) -> None:
        self._stage = stage
        self._topology = topology
        self._settings = settings
        self._stop = stop
        self._drained = drained
        self._link_service, self._link = link, None if link is None else link.link
        self._outage = Outage()
        # An outage may hold up one turn until a transaction is given up, and the next one begins.
        patience = max(PATIENCE_SECONDS, 2 * settings.session_seconds + _OUTAGE_SECONDS)
        self._standstill = Standstill(patience)
        self._restored = False
        self._pace = Pace(stage.punctuate_seconds, lambda: time.monotonic() * 1000)

    def ready(self) -> bool:
        """Whether the broker answers and all assigned tasks are restored, at this moment."""
        return self._outage.over and self._restored

    def run(self) -> None:
        """Run the stage until it is asked to stop."""
        with self._standstill.watched():
            self._admin = admin_client(self._settings)
            self._topics = Topics(self._admin, self._settings.topic_prefix)
            asked = self._topics, self._stage, self._topology, self._outage, self._pause
            known = await_topics(*asked)
            if known is None:
                return
            self._await_answer()
            with broker_clock(self._settings, self._stage.name) as self._clock:
                if self._clock.awaited(self._pause):
                    self._serve(known)

    def _serve(self, known: dict[str, Changelog]) -> None:
        self._connect(known)
        try:
            while not self._stop.is_set():
                self._clock.check()
                self._round()
            self._drain()
            self._commit_positions()
        finally:
            self._assignment.close()
            self._source.close()

    def _drain(self) -> None:
        """Go on until what was begun outside has ended, and is committed."""
        if self._drained():
            return
        log.info("stage drains", seconds=_DRAIN_SECONDS)
        until = time.monotonic() + _DRAIN_SECONDS
        while not self._drained() and time.monotonic() < until:
            self._clock.check()
            self._round()

    def _commit_positions(self) -> None:
        """Commit the positions that wait, unless Kafka makes it wait: they are only read again."""
        waiting = [task for task in self._assignment.tasks.values() if task.dirty]
        if waiting and self._outage.over and not self._source.changed:
            with suppress(TransactionAborted, ProducerLost):
                self._executor.commit(waiting)

    def _await_answer(self) -> None:
        """Check that no other layout has this stage's positions, as soon as the broker answers."""
        while True:
            try:
                self._refuse_other_layout()
                refuse_left(self._stage.name, self._topology, self._settings)
                return
            except KafkaException as error:
                self._outage.failed(error)
                if self._pause():
                    return

    def _refuse_other_layout(self) -> None:
        refuse_other(self._stage.name, self._topology, self._settings, self._admin)

    def _pause(self, seconds: float = _IDLE_SECONDS) -> bool:
        self._standstill.turn()
        return self._stop.wait(seconds)

    def _connect(self, changelogs: dict[str, Changelog]) -> None:
        asked = self._stage, self._settings, self._topics, self._admin, self._clock, changelogs
        outage, turn, stopping = self._outage, self._standstill.turn, self._stop.is_set
        wired = wire(*asked, outage, turn, stopping, self._link_service)
        self._source, self._ends, self._lag = wired.source, wired.ends, wired.lag
        self._transactions, self._executor = wired.transactions, Executor(wired.transactions)
        self._assignment, self._unowned = wired.assignment, wired.unowned

    def _round(self) -> None:
        records = self._read()
        try:
            self._turn(records)
        except ProducerLost:
            self._reopen()
            self._pause()
        except StoreDamaged as damaged:
            log.warning("store is rebuilt", why=str(damaged))
            self._reopen()
            self._pause()

    def _turn(self, records: list[Record]) -> None:
        try:
            if self._source.changed:
                self._change()
            else:
                self._assignment.remove_left()
            self._work(records)
        except TransactionAborted:
            self._rewind()
        # Restore after the work: a ready task begins with the records read after its start.
        self._restore()
        self._source.hold_back(self._held_back())
        self._start_rested()
        self._unowned.claim(self._source.joining, self._source.join_anew)

    def _read(self) -> list[Record]:
        try:
            return self._source.read(self._patience())
        except Fenced:
            if not (self._outage.recent or self._source.joining or self._source.rejoins):
                raise
            # An outage (librdkafka#3437), a broker's restart or a standstill of this process caused
            # it; a successor fences again.
            log.warning("consumer is replaced: the broker knew it by another member id")
            self._source.rejoin()
            self._pause()
            return []

    def _patience(self) -> float:
        """Seconds that the read may wait for a first record."""
        if self._source.changed or self._assignment.restoring:
            return 0.0
        most = _LOOK_SECONDS if self._held_back() else _IDLE_SECONDS
        return min(most, self._pace.wait() / 1000)

    def _change(self) -> None:
        """Follow the assignment; if Kafka does not answer, the next round does the rest.

        Close what was taken away first: the records just read may belong to it.
        """
        self._restored = False
        if self._assignment.keep(self._source.delivering):
            self._running()
        self._source.own(self._assignment.tasks.keys())
        self._ends.assign(self._assignment.inputs)
        try:
            refuse_growth(self._topics, self._stage, self._topology, self._source.partitions)
            self._transactions.settle()
            if self._source.partitions - self._assignment.tasks.keys():
                self._refuse_other_layout()
            self._assignment.begin(self._source.partitions)
            self._ends.assign(self._assignment.inputs)
        except EndDoubted:  # Kafka did answer: this is no outage
            self._pause(_DOUBT_SECONDS)
            return
        except KafkaException as error:
            self._outage.failed(error)
            self._pause()
            return
        if self._source.partitions:
            self._outage.answered()
        self._source.changed = False

    def _restore(self) -> None:
        # A change reported during the commit may have taken away the tasks that would be ready.
        ready = [] if self._source.changed else self._assignment.advance()
        if ready:
            self._source.start(positions(ready))
            self._source.own(self._assignment.tasks.keys())
            self._running()
        waits = self._source.changed or self._assignment.restoring
        self._restored = not (waits or self._source.joining)

    def _start_rested(self) -> None:
        tasks = self._assignment.tasks
        kept = tasks.keys() & self._source.delivering
        rested = [place for place in self._source.to_start_again() if place[1] in kept]
        if rested:
            self._source.start({(t, p): tasks[p].positions[t] for t, p in rested})

    def _held_back(self) -> dict[Place, int]:
        """The inputs to read no further, and from where on to read them later."""
        tasks = self._assignment.tasks.values()
        return {(t, task.partition): task.positions[t] for task in tasks for t in task.held_back}

    def _running(self) -> None:
        log.info("running", partitions=sorted(self._assignment.tasks))

    def _work(self, records: list[Record]) -> None:
        tasks = self._assignment.tasks
        poisoned = sum(task.poisoned for task in tasks.values())
        due = list(tasks.values()) if self._pace.take_due() else []
        batch = by_task(tasks, records)
        stirred = list(tasks.values()) if self._link is not None and self._link.stirred else []
        committed = self._executor.step(batch, due, list(tasks.values()), stirred)
        self._pace.followed(committed or bool(batch), due)
        poisoned = sum(task.poisoned for task in tasks.values()) - poisoned
        metrics.RECORDS.labels(self._stage.name).inc(sum(len(own) for _, own in batch))
        metrics.POISON.labels(self._stage.name).inc(poisoned)
        self._lag.measure(records)

    def _reopen(self) -> None:
        """Restore every partition again, from what the broker says is committed."""
        self._assignment.close()
        self._source.own(())
        self._source.changed = True

    def _rewind(self) -> None:
        tasks, delivering = self._assignment.tasks, self._source.delivering
        for task in tasks.values():
            task.rollback()
        self._source.take_again()
        self._source.start(positions(tasks[p] for p in delivering & tasks.keys()))
        self._pause()

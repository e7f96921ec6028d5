"""The input side of a stage's process: one consumer in the stage's group.

The group distributes the partitions of the *first* input cooperatively: a process that keeps a
partition works on while others move (KIP-429). The same partitions of the other inputs follow it,
which no cooperative assignor of librdkafka would guarantee.

The rebalance callbacks only note what happened; the loop acts on it outside of them. A new
partition delivers nothing until `start` names its offsets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from streams.errors import TidegateError
from streams.kafka.clients import consumer_config
from streams.kafka.failures import Outage, damage
from streams.kafka.groups import committed_positions
from streams.kafka.offsets import Place
from streams.process.wall_clock import wall_ms
from streams.runtime.awaiting import Awaiting
from streams.runtime.consumer_errors import ConsumerErrors
from streams.runtime.held_records import HeldRecords
from streams.runtime.link import Link
from streams.runtime.processor import Record
from streams.runtime.resting_inputs import RestingInputs
from streams.settings import Settings

log = structlog.get_logger(__name__)

BATCH = 10_000
"""About how many records one read returns, and how many are held for it."""


class Source:
    """Reads the inputs of one stage.

    `changed` is set when the assignment changed, until the loop clears it. `partitions` are the
    partition numbers assigned to this process. `delivering` are those that were started and not
    taken away since: a partition that was taken and given back must be started again. `polled` is
    called whenever it asks for records, also during each commit; `may_wait` tells whether records
    are in no hurry. Commands of the `link` get the time `now`.

    An input's partition of which a broker gives a damaged batch stands still before it, and is read
    again each second (`resting_inputs`).
    """

    def __init__(
        self,
        stage: str,
        inputs: Sequence[str],
        settings: Settings,
        outage: Outage,
        polled: Callable[[], object],
        may_wait: Callable[[Sequence[Record]], bool],
        link: Link | None = None,
        now: Callable[[], int] = wall_ms,
    ) -> None:
        self.changed = False
        self.partitions: frozenset[int] = frozenset()
        self.delivering: frozenset[int] = frozenset()
        self._polled = polled
        self._may_wait = may_wait
        self._link, self._now = link, now
        self._awaiting = Awaiting(link)
        self._inputs = inputs
        self._prefix = settings.topic_prefix
        self._group = settings.topic_prefix + stage
        self._names = {settings.topic_prefix + topic: topic for topic in inputs}
        self._starts: dict[Place, int] = {}
        self._held = HeldRecords(self._names)
        self._errors = ConsumerErrors(outage)
        self._resting = RestingInputs()
        self._member = ""
        static: dict[str, Any] = {
            "group.instance.id": f"{stage}-{settings.instance}",
            "partition.assignment.strategy": "cooperative-sticky",
        }
        self._config = consumer_config(settings, stage, **static)
        self._consumer = self._join()

    def rejoin(self) -> None:
        """Rejoin with a new consumer; the assignment is empty until it has joined."""
        self._consumer.close()
        self._take(self.partitions)
        self._held.take()
        self._errors.clear()
        self._member = ""
        self._resting = RestingInputs()
        self._consumer = self._join()

    def join_anew(self) -> None:
        """Give all partitions back and join again, so that the group shares all of them out."""
        self._consumer.unsubscribe()
        self._member = ""
        self._subscribe(self._consumer)

    def read(self, timeout: float) -> list[Record]:
        """Return up to about `BATCH` records; wait up to `timeout` seconds for the first.

        Commands of the link are among them. Records that are in no hurry are held, and nothing is
        returned, for up to `WAIT_SECONDS`.

        Raises:
            Fenced: another process joined as this instance.
        """
        wait = min(timeout, self._held.wait()) if self._held else timeout
        if not self._held or wait > 0:
            first = self._awaiting.first(self._consumer, wait)
            if first is not None:
                self._hold([first])
        self.read_ahead()
        if self._link is not None:
            self._held.add_commands(self._link.take(self._now()))
        self._errors.tell()
        return [] if self._held.put_off(self._may_wait) else self._held.take()

    def read_ahead(self) -> None:
        """Hold the records that are there for the next `read`, without waiting.

        This reports rebalances, too, even if enough records are held: then it takes one record
        more.

        Raises:
            TidegateError: the consumer cannot go on; the commit during which this is called did not
                cause that.
        """
        self._polled()
        most = max(1, BATCH - len(self._held))
        try:
            self._hold(self._consumer.consume(most, 0))
        except KafkaException as error:
            raise TidegateError(f"the consumer failed: {error}") from error

    def own(self, partitions: Collection[int]) -> None:
        """Take commands of the link for these partitions alone; see `Link.owned`."""
        if self._link is not None:
            self._held.drop_commands(partitions)
            self._link.owned(partitions)

    def take_again(self) -> None:
        """Let commands that were read and not committed be read again."""
        if self._link is not None:
            self._held.drop_commands()
            self._link.again()

    def committed(self, partitions: Sequence[int], timeout: float) -> dict[Place, int]:
        """The group's offsets, where it has any; waits for pending transactions (KIP-447).

        Raises:
            KafkaException: not answered within `timeout` seconds.
        """
        places = [(topic, p) for topic in self._inputs for p in partitions]
        return committed_positions(self._consumer, self._group, self._prefix, places, timeout)

    def start(self, positions: Mapping[Place, int]) -> None:
        """Deliver from these offsets on, and drop everything fetched before."""
        again = [place for place in positions if self._is_read(place)]
        if again:
            self._consumer.incremental_unassign(self._places(again))
        self._held.drop(dict.fromkeys(positions, math.inf))
        self._consumer.incremental_assign(
            [TopicPartition(self._prefix + t, p, o) for (t, p), o in positions.items()]
        )
        self._resting.started(positions.items())
        self._starts.update(positions)
        self.delivering |= {partition for _, partition in positions}

    def pass_by(self, place: Place, position: int) -> None:
        """Do not read a place for a while: `position` is behind the records that are there."""
        if place[1] not in self.delivering:
            return
        if self._is_read(place):
            self._consumer.incremental_unassign(self._places([place]))
        self._resting.pass_by(place)
        self._starts[place] = position
        self._held.drop({place: position})

    def wake(self, place: Place) -> None:
        """Read a place that was passed by again: there is something to read."""
        self._resting.wake(place)

    def hold_back(self, positions: Mapping[Place, int]) -> None:
        """Read these places no further, until this is called without them."""
        new = {place: position for place, position in positions.items() if self._is_read(place)}
        if new:
            self._consumer.incremental_unassign(self._places(new))
            self._held.drop(dict.fromkeys(new, math.inf))
            self._starts.update(new)
        self._resting.hold_back(positions, new)

    def to_start_again(self) -> list[Place]:
        """The partitions that have rested; `start` each from its position."""
        return self._resting.rested()

    def position(self, topic: str, partition: int) -> int:
        """Offset after everything that `read` returned, transaction markers included."""
        if (held := self._held.first((topic, partition))) is not None:
            return held
        if (topic, partition) in self._resting:  # the consumer does not know
            return self._starts[topic, partition]
        asked = [TopicPartition(self._prefix + topic, partition)]
        found: int = self._consumer.position(asked)[0].offset
        return found if found >= 0 else self._starts.get((topic, partition), 0)

    def group(self) -> object:
        """Group metadata for `send_offsets_to_transaction`."""
        return self._consumer.consumer_group_metadata()

    @property
    def joining(self) -> bool:
        """Whether it still waits for the first assignment, even an empty one, since it joined."""
        return not self._member

    @property
    def rejoins(self) -> bool:
        """Whether it gave up the membership under which it got its partitions.

        It gives up its member id when its own session ends, after an outage or a standstill. Being
        fenced by another process does not change the id.
        """
        return bool(self._consumer.memberid() != self._member)

    def close(self) -> None:
        """Leave; a static member's partitions wait for its return until the session ends."""
        self._consumer.close()

    def _join(self) -> Consumer:
        consumer = Consumer(self._config)
        self._subscribe(consumer)
        return consumer

    def _subscribe(self, consumer: Consumer) -> None:
        consumer.subscribe(
            [self._prefix + self._inputs[0]],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._lost,
        )

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign([])
        if partitions or self.joining:
            self.partitions |= {assigned.partition for assigned in partitions}
            self.changed = True
        self._member = consumer.memberid()

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # No change is left to commit: this runs within a read, either before a batch is processed,
        # or while its transaction, positions included, waits for the broker's answer. The next
        # owner of the partitions waits for that answer, too (KIP-447). It reads again the records
        # of steps that changed nothing, whose positions still waited.
        gone = {revoked.partition for revoked in partitions}
        inputs = [(topic, number) for topic in self._inputs for number in gone]
        consumer.incremental_unassign(self._places(filter(self._is_read, inputs)))
        self._take(gone)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        log.warning("partitions lost: what is not committed is dropped")
        self._revoked(consumer, partitions)

    def _places(self, places: Iterable[Place]) -> list[TopicPartition]:
        return [TopicPartition(self._prefix + topic, partition) for topic, partition in places]

    def _is_read(self, place: Place) -> bool:
        return place[1] in self.delivering and place not in self._resting

    def _take(self, gone: Collection[int]) -> None:
        self._resting.taken(gone)
        self.partitions -= set(gone)
        self.delivering -= set(gone)
        self.changed = True

    def _hold(self, messages: list[Message]) -> None:
        if self._resting.any_doubt() or any(message.error() for message in messages):
            messages = [message for message in messages if self._is_sound(message)]
        self._held.add(messages)

    def _is_sound(self, message: Message) -> bool:
        """Whether it is a record to process; an error is set aside.

        Of a partition with a damaged batch that is only what came before it.
        """
        place = self._names.get(message.topic() or "", ""), message.partition() or 0
        if message.error():
            self._errors.add(message)
            if damage(message) and self._is_read(place):
                self._consumer.incremental_unassign(self._places([place]))
                self._resting.found(place, self._starts[place])
            return False
        if place in self._resting:
            return False
        # A record of a partition that was taken in the same call is dropped with its task.
        if self._is_read(place) and self._resting.jumps_back(place, message.offset() or 0):
            self._consumer.incremental_unassign(self._places([place]))
            return False
        return True

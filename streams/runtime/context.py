"""What a processor sees of its task: the time, its stores, and where to send its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from streams.runtime.clock import Clock
from streams.runtime.processor import Header, Record
from streams.runtime.undo_log import UndoLog
from streams.serde.codec import SCHEDULE
from streams.serde.records import Schedule
from streams.state.overlay import Overlay
from streams.state.store import KeyValueStore

CaughtUpTo = Callable[[str, int, float], bool]
"""(topic, partition, monotonic moment): has everything there at that moment been processed?"""

Output = tuple[str, int, Sequence[Record]]
"""Logical topic, partition, and the records to send there in this order. Of each record its key,
value, headers and timestamp are sent; timestamp 0 means the time of sending."""


class TaskContext:
    """`Context` of one task."""

    def __init__(
        self, partition: int, clock: Clock, stores: Mapping[str, Overlay], caught_up_to: CaughtUpTo
    ) -> None:
        self.partition = partition
        self.stream_time = 0
        self.outputs: list[Output] = []
        self._clock = clock
        self._stores = stores
        self._caught_up_to = caught_up_to
        self.log = UndoLog()
        self.on_undo = self.log.on_undo
        self.on_commit = self.log.on_commit

    @property
    def now(self) -> int:
        return self._clock.now()

    @property
    def monotonic(self) -> float:
        return self._clock.monotonic()

    @property
    def pending(self) -> tuple[int, int]:
        """How many outputs there are, and how many entries of the stores will change."""
        return len(self.outputs), sum(len(store.changes) for store in self._stores.values())

    def store(self, name: str) -> KeyValueStore:
        return self._stores[name]

    def forward(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int | None = None,
        headers: Sequence[Header] = (),
        timestamp: int | None = None,
    ) -> None:
        to = self.partition if partition is None else partition
        record = Record(topic, to, 0, timestamp or 0, key, value, list(headers))
        self.outputs.append((topic, to, [record]))

    def relay(self, topic: str, records: Sequence[Record]) -> None:
        self.outputs.append((topic, self.partition, records))

    def timer(self, tenant_id: str, id_: str, due: int, topic: str, value: bytes) -> None:
        key = tenant_id.encode()
        self.forward(
            "schedule", key, SCHEDULE.encode(Schedule(id_, tenant_id, due, topic, key, value))
        )

    def drop_timer(self, tenant_id: str, id_: str) -> None:
        self.timer(tenant_id, id_, 0, "", b"")

    def caught_up_to(self, topic: str, moment: float) -> bool:
        return self._caught_up_to(topic, self.partition, moment)

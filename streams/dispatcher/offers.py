"""Events and ends of jobs that more waits concern than one step ends.

Under `o` number the store `parts` keeps such an event, and the place of the wait behind which it
goes on; `m` job_id stands for a job that ended.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from streams.dispatcher.recent_events import Offered, unpacked
from streams.dispatcher.step import Step
from streams.runtime.processor import Context
from streams.serde.keys import after

_EVENT, _JOB = b"o", b"m"
KEYS = {
    _EVENT: "events that are offered to waits in parts",
    _JOB: "ended jobs whose end is told in parts",
}
_NUMBER = struct.Struct(">Q")
_LENGTH = struct.Struct(">I")


class Offers:
    """What one partition has begun to tell to waits; in memory is only how much, by tenant."""

    def __init__(self, ctx: Context) -> None:
        store = ctx.store("parts")
        self._left = sum(1 for space in KEYS for _ in store.range(space, after(space)))
        found = (_read(key, value)[0] for key, value in store.range(_EVENT, after(_EVENT)))
        self._tenants = Counter(event.envelope.tenant_id for event in found)

    def __len__(self) -> int:
        return self._left

    def has(self, tenant_id: str) -> bool:
        """Whether an event of a tenant is not offered to all yet."""
        return self._tenants[tenant_id] > 0

    def go_on(self, step: Step, event: Offered, behind: bytes) -> None:
        """Offer an event to the waits behind a key later."""
        value = _LENGTH.pack(len(behind)) + behind + event.packed()
        self._put(step, event.envelope.tenant_id, _event_key(event), value)

    def go_on_with_job(self, step: Step, job_id: str) -> None:
        """Tell the end of a job to more waits later."""
        self._put(step, None, _JOB + job_id.encode(), b"")

    def events(self, step: Step) -> Iterator[tuple[Offered, bytes]]:
        """The events that are not offered to all yet, in their order, and behind which wait."""
        for key, value in step.store.range(_EVENT, after(_EVENT)):
            yield _read(key, value)

    def job_ids(self, step: Step, limit: int) -> list[str]:
        """Some of the jobs whose end is not told to all yet."""
        found = islice(step.store.range(_JOB, after(_JOB)), limit)
        return [key[1:].decode() for key, _ in found]

    def is_over(self, step: Step, done: Offered | str) -> None:
        """An event, or the end of a job, was offered to all."""
        if isinstance(done, str):
            key, tenant_id = _JOB + done.encode(), None
        else:
            key, tenant_id = _event_key(done), done.envelope.tenant_id
        if step.store.get(key) is not None:
            step.store.delete(key)
            self._count(step, tenant_id, -1)

    def _put(self, step: Step, tenant_id: str | None, key: bytes, value: bytes) -> None:
        if step.store.get(key) is None:
            self._count(step, tenant_id, 1)
        step.store.put(key, value)

    def _count(self, step: Step, tenant_id: str | None, by: int) -> None:
        step.on_undo(self._add, tenant_id, -by)
        self._add(tenant_id, by)

    def _add(self, tenant_id: str | None, by: int) -> None:
        self._left += by
        if tenant_id is not None:
            self._tenants[tenant_id] += by
            if not self._tenants[tenant_id]:
                del self._tenants[tenant_id]


def _read(key: bytes, value: bytes) -> tuple[Offered, bytes]:
    head = _LENGTH.size + _LENGTH.unpack_from(value)[0]
    event = unpacked(_NUMBER.unpack(key[1:])[0], value[head:])
    return event, value[_LENGTH.size : head]


def _event_key(event: Offered) -> bytes:
    return _EVENT + _NUMBER.pack(event.number)

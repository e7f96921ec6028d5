"""Events and ends of jobs that more waits concern than one step ends.

Under `o` number the store `parts` keeps such an event, and the key of the wait behind which it goes
on; `m` job_id stands for a job that ended.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

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
    """What one partition has begun to tell to waits; in memory is only how much that is."""

    def __init__(self, ctx: Context) -> None:
        store = ctx.store("parts")
        self._left = sum(1 for space in KEYS for _ in store.range(space, after(space)))

    def __len__(self) -> int:
        return self._left

    def go_on(self, step: Step, event: Offered, behind: bytes) -> None:
        """Offer an event to the waits behind a key later."""
        self._put(step, _event_key(event), _LENGTH.pack(len(behind)) + behind + event.packed())

    def go_on_with_job(self, step: Step, job_id: str) -> None:
        """Tell the end of a job to more waits later."""
        self._put(step, _JOB + job_id.encode(), b"")

    def events(self, step: Step) -> Iterator[tuple[Offered, bytes]]:
        """The events that are not offered to all yet, in their order, and behind which wait."""
        for key, value in step.store.range(_EVENT, after(_EVENT)):
            head = _LENGTH.size + _LENGTH.unpack_from(value)[0]
            event = unpacked(_NUMBER.unpack(key[1:])[0], value[head:])
            yield event, value[_LENGTH.size : head]

    def job_id(self, step: Step) -> str | None:
        """A job whose end is not told to all yet."""
        key = next((key for key, _ in step.store.range(_JOB, after(_JOB))), None)
        return None if key is None else key[1:].decode()

    def is_over(self, step: Step, done: Offered | str) -> None:
        """An event, or the end of a job, was offered to all."""
        key = _JOB + done.encode() if isinstance(done, str) else _event_key(done)
        if step.store.get(key) is not None:
            step.store.delete(key)
            self._count(step, -1)

    def _put(self, step: Step, key: bytes, value: bytes) -> None:
        if step.store.get(key) is None:
            self._count(step, 1)
        step.store.put(key, value)

    def _count(self, step: Step, by: int) -> None:
        step.on_undo(setattr, self, "_left", self._left)
        self._left += by


def _event_key(event: Offered) -> bytes:
    return _EVENT + _NUMBER.pack(event.number)

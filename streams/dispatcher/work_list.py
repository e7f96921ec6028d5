"""Work that is more than one step does: its names are durable, and memory has only their number."""

from __future__ import annotations

from itertools import islice

from streams.dispatcher.step import Step
from streams.runtime.processor import Context
from streams.serde.keys import after


class WorkList:
    """What is left to do, under one key space of the store `parts`; a value says how far it is."""

    def __init__(self, ctx: Context, space: bytes) -> None:
        self._space = space
        self._left = sum(1 for _ in ctx.store("parts").range(space, after(space)))

    def __len__(self) -> int:
        return self._left

    def put(self, step: Step, name: bytes, value: bytes = b"") -> None:
        """Note work, or how far it is."""
        key = self._space + name
        if step.store.get(key) is None:
            self._count(step, 1)
        step.store.put(key, value)

    def drop(self, step: Step, name: bytes) -> None:
        """Forget work that is done, if it is noted."""
        key = self._space + name
        if self._left and step.store.get(key) is not None:
            self._count(step, -1)
            step.store.delete(key)

    def some(self, step: Step, limit: int, behind: bytes = b"") -> list[tuple[bytes, bytes]]:
        """Names and values of some of the work that is left, after the name `behind`."""
        if not self._left:
            return []
        start = self._space + behind + b"\0" if behind else self._space
        found = islice(step.store.range(start, after(self._space)), limit)
        return [(key.removeprefix(self._space), value) for key, value in found]

    def _count(self, step: Step, by: int) -> None:
        step.on_undo(self._add, -by)
        self._add(by)

    def _add(self, by: int) -> None:
        self._left += by

"""What to call if a task's work is undone, and what to call once it is committed.

A processor changes its derived state at once, long before the transaction is committed. It notes
each change here together with the call that reverses it. The runtime makes these calls in reverse
order: down to the mark if one record or batch is undone, and all of them if the transaction is.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

Call = tuple[Callable[..., object], tuple[object, ...]]


class UndoLog:
    """The calls of one task since its last step; false if there are none."""

    def __init__(self) -> None:
        self._undo: list[Call] = []
        self._commit: list[Call] = []
        self._marked = (0, 0)

    def __bool__(self) -> bool:
        return bool(self._undo or self._commit)

    def on_undo(self, call: Callable[..., object], *args: object) -> None:
        """Call this if what was just done is undone; the stores then hold their earlier state."""
        self._undo.append((call, args))

    def on_commit(self, call: Callable[..., object], *args: object) -> None:
        """Call this once what was done so far is durable, unless it is undone before."""
        self._commit.append((call, args))

    def mark(self) -> None:
        """Set the point to which `undo` returns."""
        self._marked = len(self._undo), len(self._commit)

    def undo(self) -> None:
        """Reverse everything since the mark."""
        undo, commit = self._marked
        del self._commit[commit:]
        while len(self._undo) > undo:
            call, args = self._undo.pop()
            call(*args)

    def rollback(self) -> None:
        """Reverse everything since the last step."""
        self._marked = 0, 0
        self.undo()

    def committed(self) -> None:
        """Everything is durable: nothing of it can be undone any more."""
        self._undo.clear()
        calls, self._commit = self._commit, []
        self._marked = 0, 0
        for call, args in calls:
            call(*args)


def put_back(held: MutableMapping[K, V], key: K, before: V | None) -> None:
    """Give a key the value that it had; None: it had none."""
    if before is None:
        held.pop(key, None)
    else:
        held[key] = before

"""Lets calls about one job run one at a time, and remembers the commands that they sent.

Until the read model shows the dispatcher's decision, only this memory knows that a command was
sent.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from weakref import WeakValueDictionary

Subject = tuple[str, str]
"""The kind of request, `job` or `replay`, and the id of its job."""

_MOST = 100_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A durable command: the job that it makes, and the digest of the request behind it.

    `after` is the job's incarnation before the command; `letters` are the ids that the command's
    dead letter may have.
    """

    job_id: str
    digest: bytes
    after: int
    letters: tuple[str, ...]


class Turns:
    """Belongs to one event loop; forgets the oldest command when there are too many."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Subject, asyncio.Lock] = WeakValueDictionary()
        self._asked: OrderedDict[Subject, Asked] = OrderedDict()

    def of(self, subject: Subject) -> asyncio.Lock:
        """The lock of a subject; hold it from looking up its state until the command is durable."""
        return self._locks.setdefault(subject, asyncio.Lock())

    def asked(self, subject: Subject) -> Asked | None:
        """The last command about a subject, unless it was forgotten."""
        return self._asked.get(subject)

    def remember(self, subject: Subject, asked: Asked) -> None:
        """Remember a command that is durable."""
        self._asked[subject] = asked
        self._asked.move_to_end(subject)
        if len(self._asked) > _MOST:
            self._asked.popitem(last=False)

    def forget(self, subject: Subject) -> None:
        """Forget a command whose result the read model shows."""
        self._asked.pop(subject, None)

"""Calls about one thing take turns, and know what was asked of the dispatcher before.

Until the dispatcher's decision is a row of the read model, this memory alone knows the question.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from weakref import WeakValueDictionary

Subject = tuple[str, str]
"""What is asked for, `job` or `replay`, and of which job."""

_MOST = 100_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A durable command: the job that it makes, and the digest of the request behind it.

    `after` is the job's incarnation that was there before; `letters` are the ids that the
    command's dead letter may have.
    """

    job_id: str
    digest: bytes
    after: int
    letters: tuple[str, ...]


class Turns:
    """Belongs to one event loop; forgets the oldest question when there are too many."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Subject, asyncio.Lock] = WeakValueDictionary()
        self._asked: OrderedDict[Subject, Asked] = OrderedDict()

    def of(self, subject: Subject) -> asyncio.Lock:
        """Hold it from looking for what is there to the durable command."""
        return self._locks.setdefault(subject, asyncio.Lock())

    def asked(self, subject: Subject) -> Asked | None:
        """What was asked last and has not been forgotten."""
        return self._asked.get(subject)

    def remember(self, subject: Subject, asked: Asked) -> None:
        """A command is durable."""
        self._asked[subject] = asked
        self._asked.move_to_end(subject)
        if len(self._asked) > _MOST:
            self._asked.popitem(last=False)

    def forget(self, subject: Subject) -> None:
        """The read model shows what came of it."""
        self._asked.pop(subject, None)

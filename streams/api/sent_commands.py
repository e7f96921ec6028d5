"""Remembers the commands that calls about a job sent, and lets such calls run one at a time.

Until the read model shows the dispatcher's decision, only this memory knows of a command.
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
class SentCommand:
    """A durable command: the job that it makes, and the digest of the request behind it.

    `after` is the job's incarnation before the command; `letters` are the ids that the command's
    dead letter can have.
    """

    job_id: str
    digest: bytes
    after: int
    letters: tuple[str, ...]


class SentCommands:
    """The commands by subject, for one event loop; it forgets the oldest if there are too many."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Subject, asyncio.Lock] = WeakValueDictionary()
        self._sent: OrderedDict[Subject, SentCommand] = OrderedDict()

    def lock(self, subject: Subject) -> asyncio.Lock:
        """Return a subject's lock: hold it from reading its state until the command is durable."""
        return self._locks.setdefault(subject, asyncio.Lock())

    def last(self, subject: Subject) -> SentCommand | None:
        """Return the last command about a subject, unless it was forgotten."""
        return self._sent.get(subject)

    def remember(self, subject: Subject, sent: SentCommand) -> None:
        self._sent[subject] = sent
        self._sent.move_to_end(subject)
        if len(self._sent) > _MOST:
            self._sent.popitem(last=False)

    def shown(self, subject: Subject, job_id: str) -> None:
        """Forget the command that made a job, unless a later one makes another job."""
        last = self._sent.get(subject)
        if last is not None and last.job_id == job_id:
            self.forget(subject)

    def forget(self, subject: Subject) -> None:
        """Forget a command whose result the read model shows."""
        self._sent.pop(subject, None)

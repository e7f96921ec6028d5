"""Requests to owners: what was asked and is not answered. Each may be asked again elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from streams.errors import PermanentError, TransientError
from streams.serde.link.frames import MAX_COMMAND_BYTES, encoded
from streams.serde.link.messages import Done, Failed, Message, Piece
from streams.worker.link.contract import Connection, Deadline

Result = Done | bytes
"""What an owner answers; a body as its bytes."""

RETRY_SECONDS = 0.5
"""How long after a failure that may pass a request is made again."""

Answered = Callable[[Result | Exception], None]


@dataclass(frozen=True, slots=True)
class Question:
    """A request to be made.

    `make` gives the message with a number. Without a partition, any owner may answer. With `again`,
    it is made again after a failure that may pass. `late` is the error once the deadline is over.
    """

    make: Callable[[int], Message]
    partition: int | None
    until: Deadline
    late: Exception
    again: bool = True


@dataclass(slots=True, eq=False)
class _Open:
    question: Question
    message: bytes
    answered: Answered
    asked: Connection | None = None
    not_before: float = float("-inf")
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0


class Requests:
    """Requests by their numbers. It is not thread-safe."""

    def __init__(
        self, owner: Callable[[int | None], Connection | None], clock: Callable[[], float]
    ) -> None:
        self._owner = owner
        self._clock = clock
        self._number = 0
        self._open: dict[int, _Open] = {}

    def ask(self, question: Question, answered: Answered) -> None:
        """Make a request now, or once its partition has an owner."""
        self._number += 1
        message = encoded(question.make(self._number))
        if len(message) > MAX_COMMAND_BYTES:
            size = f"{len(message):,} bytes, more than an owner takes"
            answered(PermanentError(f"a request of the run has {size}"))
            return
        opened = self._open[self._number] = _Open(question, message, answered)
        self._ask(opened)

    def look(self) -> None:
        """Make those requests again whose owner is another one now, or that have failed."""
        for opened in list(self._open.values()):
            self._ask(opened)

    def anew(self, connection: Connection, partition: int) -> None:
        """Forget that a connection was asked: it may have dropped what it was before this."""
        for opened in self._open.values():
            if opened.asked is connection and opened.question.partition == partition:
                opened.asked = None

    def take_late(self) -> list[tuple[Answered, Exception]]:
        """Take out the requests whose deadline is over."""
        over = [n for n, o in self._open.items() if self._clock() >= o.question.until()]
        return [(each.answered, each.question.late) for each in map(self._open.pop, over)]

    def read(
        self, connection: Connection, answer: Piece | Done | Failed
    ) -> tuple[Answered, Result | Exception] | None:
        """Whom to give which result; None while there is none, and for answers to former copies."""
        opened = self._open.get(answer.request)
        if opened is None or opened.asked is not connection:
            return None
        result = self._result(opened, answer)
        if result is None:
            return None
        del self._open[answer.request]
        return opened.answered, result

    def _result(self, opened: _Open, answer: Piece | Done | Failed) -> Result | Exception | None:
        match answer:
            case Done():
                return answer
            case Piece(data=data, last=last, at=at):
                if at != opened.size:
                    return None  # it belongs to the answer to a former copy
                opened.pieces.append(data)
                opened.size += len(data)
                return b"".join(opened.pieces) if last else None
            case Failed(message=message, permanent=True):
                return PermanentError(message)
            case Failed() if opened.question.again:
                opened.asked, opened.not_before = None, self._clock() + RETRY_SECONDS
                return None
            case Failed(message=message):
                return TransientError(message)

    def _ask(self, opened: _Open) -> None:
        owner = self._owner(opened.question.partition)
        if opened.asked is not owner:
            opened.asked = None  # what another connection still answers no longer counts
        if owner is None or opened.asked is owner or self._clock() < opened.not_before:
            return
        opened.asked, opened.pieces, opened.size = owner, [], 0
        owner.send(opened.message)

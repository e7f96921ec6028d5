"""What a run said and is not sent yet: texts gathered into numbered records, in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streams.serde.records import LiveKind

CHUNK_CHARS = 16 * 1024


@dataclass(slots=True, eq=False)
class Said:
    """A record to be sent; the texts of a token that waits are joined."""

    kind: LiveKind
    step: str
    n: int
    texts: list[str]
    size: int = 0


class Unsent:
    """The records of one run that wait. It is not thread-safe: its user holds a lock.

    With `is_again`, an earlier run of the job may have said something in any step.
    """

    def __init__(self, *, is_again: bool) -> None:
        self._is_again = is_again
        self._waiting: list[Said] = []
        self._open: dict[str, Said] = {}
        self._numbers: dict[str, int] = {}
        self._again: set[str] = set()
        self._holes: set[str] = set()
        self._line_number = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self) -> list[Said]:
        """Return what waits, and forget it; later texts begin new records."""
        taken, self._waiting = self._waiting, []
        self._open.clear()
        return taken

    def begin(self, step: str) -> None:
        """A step begins; if it did before in this run, its text is void."""
        if step in self._numbers:
            self._again.add(step)
            self._open.pop(step, None)

    def add_text(self, step: str, text: str) -> None:
        """Add text that a step says."""
        self._holes.discard(step)
        for begin in range(0, len(text), CHUNK_CHARS):
            self._append(step, text[begin : begin + CHUNK_CHARS])

    def leave_hole(self, step: str) -> None:
        """Skip one number of the step, so that a reader sees that text is missing."""
        if step not in self._holes:
            self._holes.add(step)
            self._next_token(step)
            self._waiting.remove(self._open.pop(step))

    def add_line(self, step: str, text: str) -> None:
        """Add a log line."""
        self._waiting.append(Said("log", step, self._line_number, [text]))
        self._line_number += 1

    def _append(self, step: str, text: str) -> None:
        said = self._open.get(step)
        if said is None or said.size + len(text) > CHUNK_CHARS:
            said = self._next_token(step)
        said.texts.append(text)
        said.size += len(text)

    def _next_token(self, step: str) -> Said:
        n = self._numbers.get(step, 0)
        if step in self._again or (n == 0 and self._is_again):
            self._again.discard(step)
            self._waiting.append(Said("reset", step, n, []))
        said = self._open[step] = Said("token", step, n, [])
        self._numbers[step] = n + 1
        self._waiting.append(said)
        return said


def rounds(batch: Sequence[Said]) -> Iterator[list[Said]]:
    """Lists of records that are sent together: of the texts of a step, one in each."""
    found: list[list[Said]] = []
    of_step: dict[str, int] = {}
    for said in batch:
        at = 0 if said.kind == "log" else of_step.get(said.step, 0)
        if said.kind != "log":
            of_step[said.step] = at + 1
        if at == len(found):
            found.append([])
        found[at].append(said)
    yield from found

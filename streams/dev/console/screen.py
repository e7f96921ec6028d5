"""The screen of `tidegate dev`: lines under a name, coloured on a terminal."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TextIO

NAME_WIDTH = 12
_RESET, _DIM = "\x1b[0m", "\x1b[2m"
_LEVELS = {"warning": "\x1b[33m", "error": "\x1b[31m"}
_NAMES = {
    "dev": "\x1b[1m",
    "event": "\x1b[36m",
    "job": "\x1b[32m",
    "effect": "\x1b[35m",
    "dead letter": "\x1b[31m",
    "worker": "\x1b[34m",
}
_BIDIRECTIONAL = (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Marks, embeddings, overrides and isolates (UAX #9): they reorder what stands beside them."""
_LINE_ENDS = (0x2028, 0x2029)
_STEERING = dict.fromkeys(
    (*range(9), *range(11, 32), *range(127, 160), *_BIDIRECTIONAL, *_LINE_ENDS), "�"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line to show; `level` is info, warning or error."""

    name: str
    text: str
    level: str = "info"


class Writable(Protocol):
    def write(self, text: str, /) -> object: ...
    def flush(self) -> None: ...


@dataclass(frozen=True)
class Screen:
    """Writes lines to `stream`; a `quiet` one shows warnings and errors alone."""

    stream: Writable = field(default_factory=lambda: sys.stderr)
    quiet: bool = False
    coloured: bool = False

    def show(self, line: Line) -> None:
        """Show a line in one write: several threads write at once."""
        if self.quiet and line.level == "info":
            return
        # The reader may be gone; the processes' logs are in files as well.
        with contextlib.suppress(OSError, ValueError):
            self.stream.write("".join(self._rendered(line)))
            self.stream.flush()

    def say(self, text: str, level: str = "info") -> None:
        """Show a line of `dev` itself."""
        self.show(Line("dev", text, level))

    def _rendered(self, line: Line) -> Iterator[str]:
        """Each line of the text under the name: what tenants and tools wrote must not steer a
        terminal, nor look like a line of something else."""
        for text in line.text.translate(_STEERING).split("\n"):
            yield self._under_name(line, text) + "\n"

    def _under_name(self, line: Line, text: str) -> str:
        name = f"{line.name:<{NAME_WIDTH}}"
        if not self.coloured:
            return f"{name} | {text}"
        colour = _NAMES.get(line.name) or _NAMES.get(line.name.partition("-")[0], _DIM)
        painted = f"{_LEVELS[line.level]}{text}{_RESET}" if line.level in _LEVELS else text
        return f"{colour}{name}{_RESET} {_DIM}|{_RESET} {painted}"


def wants_colour(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a stream is a terminal on which colours are welcome (https://no-color.org)."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"

"""The children's output: every line under its process's name, on the console and in a file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from logging import INFO, LogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path

_FILE_BYTES = 5 * 1024 * 1024
_OLDER_FILES = 1
_LONGEST_LINE = 64 * 1024
_NAME_WIDTH = 12


class Output:
    """Writes `<folder>/<name>.log`, at most twice 5 MiB each, and passes lines to `console`."""

    def __init__(self, folder: Path, console: Callable[[str], None] | None) -> None:
        self._folder = folder
        self._console = console
        self._files: dict[str, RotatingFileHandler] = {}

    def line(self, name: str, text: str) -> None:
        """One line of one process."""
        self.lines(name, [text])

    def lines(self, name: str, texts: Sequence[str]) -> None:
        """Lines of one process, written together."""
        if name not in self._files:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._files[name] = RotatingFileHandler(
                self._folder / f"{name}.log", maxBytes=_FILE_BYTES, backupCount=_OLDER_FILES
            )
        self._files[name].handle(LogRecord(name, INFO, "", 0, "\n".join(texts), None, None))
        if self._console:
            for text in texts:
                self._console(f"{name:<{_NAME_WIDTH}} | {text}")

    async def pump(self, name: str, stream: asyncio.StreamReader) -> None:
        """Pass on a process's lines until it closes its end; split endless lines."""
        rest = b""
        while chunk := await stream.read(_LONGEST_LINE):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > _LONGEST_LINE:
                lines, rest = [*lines, rest], b""
            if lines:
                self.lines(name, [line.decode(errors="replace") for line in lines])
        if rest:
            self.line(name, rest.decode(errors="replace"))

    def close(self) -> None:
        """Close the files; later lines open them again."""
        for file in self._files.values():
            file.close()
        self._files.clear()

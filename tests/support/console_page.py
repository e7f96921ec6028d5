"""A page with commands and their outputs, read as steps; and whether an output is the page's.

A block of language `console` has commands after `$ ` and their outputs below; the words after
`console` name its terminal. A line that ends with a file's name and a colon, "save it as
`desk.py`:", makes the next block that file's text. In an output `...` stands for any lines. A block
that begins with an output shows what an earlier command of its terminal has printed meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_BLOCK = re.compile(r"(?:`([^`\n]+)`[^`\n]*:\n\n)?^```(\w+) ?(.*)\n((?s:.*?))^```$", re.MULTILINE)
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z"
_COPIED = (
    r"\b(?:evt|idk|job|run|key)_[0-9a-z-]+",
    r"(?<=default:0/)[0-9a-f-]{36}",
    r"(?<=process )\d+",
    r"(?<=kill -9 )\d+",
    r"(?<=admin token: )\S+",
)
_DURATION = r"(?<= in )\d+\.\d+(?= ?s\b)"
_VARYING = re.compile(
    f"(?P<time>{_TIME})|(?P<duration>{_DURATION})|(?P<copied>{'|'.join(_COPIED)})"
)
_ANSI = re.compile(r"\x1b\[\??[0-9;]*[a-z]")
_LINES_ABOVE_ERASED = re.compile(r"\r?\x1b\[2K(?:\x1b\[1A\x1b\[2K)*")
INTERRUPT = "^C"


@dataclass(frozen=True, slots=True)
class File:
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """`output` is what the page shows below it; None: it shows nothing.

    Without a `text` the output is that of the command that still runs in its terminal.
    """

    terminal: str
    text: str
    output: str | None


def steps(page: str) -> Iterator[File | Command]:
    """The files and commands of a page, in its order."""
    for name, language, terminal, text in _BLOCK.findall(page):
        if language == "console":
            yield from _commands(terminal, text)
        elif name:
            yield File(name, text)


def _commands(terminal: str, block: str) -> Iterator[Command]:
    for text in re.split(r"^(?=\$ |\^C$)", block, flags=re.MULTILINE):
        if text and not text.startswith(("$ ", INTERRUPT)):
            yield Command(terminal, "", text)
        elif text:
            command, _, output = text.partition("\n")
            yield Command(terminal, command.removeprefix("$ "), output or None)


def drawn_last(printed: str) -> str:
    """What a terminal shows in the end of views that changed in place; colours stay."""
    shown, end = "", 0
    for erased in _LINES_ABOVE_ERASED.finditer(printed):
        shown += printed[end : erased.start()]
        above = erased[0].count("\x1b[1A")
        shown = "".join(shown.splitlines(keepends=True)[: -above - 1])
        end = erased.end()
    return shown + printed[end:]


def on_the_screen(printed: str) -> str:
    """What a terminal shows in the end, without colours."""
    return _ANSI.sub("", drawn_last(printed))


@dataclass
class Reader:
    """Compares outputs, and copies what it has seen there into later commands, as a person does.

    `seen` maps ids, process numbers and tokens of the page to those of this run: one that comes
    twice on the page must come twice in the run.
    """

    seen: dict[str, str] = field(default_factory=dict)

    def command(self, text: str) -> str:
        """The page's command with this run's values."""
        return _VARYING.sub(lambda found: self.seen.get(found[0], found[0]), text)

    def agrees(self, shown: str, printed: str, *, so_far: bool = False) -> bool:
        """Whether `printed` is what the page has `shown`; `so_far`: more may follow."""
        pattern, copied = self._pattern(shown)
        lines = on_the_screen(printed).splitlines()
        text = "".join(f"{line.rstrip()}\n" for line in lines)
        found = pattern.match(text) if so_far else pattern.fullmatch(text)
        if found is None:
            return False
        self.seen |= {old: found[name] for old, name in copied.items()}
        return True

    def _pattern(self, shown: str) -> tuple[re.Pattern[str], dict[str, str]]:
        copied: dict[str, str] = {}
        lines = [
            r"(?:.*\n)*?" if line == "..." else self._line(line.rstrip(), copied) + r"\n"
            for line in shown.splitlines()
        ]
        return re.compile("".join(lines)), copied

    def _line(self, line: str, copied: dict[str, str]) -> str:
        pieces, end = [], 0
        for found in _VARYING.finditer(line):
            pieces += [re.escape(line[end : found.start()]), self._value(found, copied)]
            end = found.end()
        return "".join([*pieces, re.escape(line[end:])])

    def _value(self, found: re.Match[str], copied: dict[str, str]) -> str:
        value = found[0]
        if found["time"]:
            return _TIME
        if found["duration"]:
            return r"\d+\.\d+"
        if value in self.seen:
            return re.escape(self.seen[value])
        if value in copied:
            return f"(?P={copied[value]})"
        copied[value] = f"v{len(copied)}"
        return f"(?P<{copied[value]}>[\\w-]+)"

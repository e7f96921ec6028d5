"""One line of a process's log, as `streams.telemetry` writes it: for people, or as JSON."""

from __future__ import annotations

import json
import re
from ast import literal_eval
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_LINE = re.compile(r"\d{4}-\d\d-\d\dT\S+Z \[(\w+) *\] (.*?)(?:\s+(\w+=.*))?$")
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_FIELD = re.compile(rf"(\w+)=({_QUOTED}|.*?)(?=\s+\w+=|\s*$)")
_IN_QUOTES = re.compile(r"[\s=\"']")
"""The log puts a text with one of these in quotes, as a literal of Python."""
_OF_THE_LOG = {"event", "level", "timestamp", "stage", "instance", "exception"}
_LONG = {"run_id", "tenant_id", "trace_id", "span_id"}
"""Left out on the screen, where the job's id names the run."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A parsed line; `fields` has what follows the text, without stage and instance."""

    level: str
    event: str
    fields: Mapping[str, str]
    exception: str = ""

    @property
    def text(self) -> str:
        """The line for people, followed by the traceback of a JSON line."""
        shown = {name: value for name, value in self.fields.items() if name not in _LONG}
        words = [f"{name}={_in_quotes(value)}" for name, value in shown.items()]
        head = self.event if self.level in ("info", "debug") else f"{self.level}: {self.event}"
        text = " ".join([head, *words])
        return f"{text}\n{self.exception}" if self.exception else text


def parse(text: str) -> LogLine | None:
    """The line, or None for what was printed without the log."""
    if text.startswith("{"):
        return _of_json(text)
    found = _LINE.match(text)
    if found is None:
        return None
    level, event, rest = found.groups()
    fields = {name: _without_quotes(value) for name, value in _FIELD.findall(rest or "")}
    return LogLine(level, event.strip(), _own(fields))


def _of_json(text: str) -> LogLine | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict) or "level" not in found or "event" not in found:
        return None
    return LogLine(
        str(found["level"]), str(found["event"]), _own(found), str(found.get("exception", ""))
    )


def _without_quotes(value: str) -> str:
    if value[:1] not in ("'", '"'):
        return value
    try:
        return str(literal_eval(value))
    except (SyntaxError, ValueError):
        return value


def _in_quotes(value: str) -> str:
    return repr(value) if _IN_QUOTES.search(value) else value


def _own(fields: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in fields.items() if name not in _OF_THE_LOG}

"""Commands that workers of an earlier release wrote on `jobs.commands`."""

from __future__ import annotations

from dataclasses import asdict
from io import BytesIO
from typing import Any

from fastavro import schemaless_writer

from streams.serde.codec import COMMAND
from streams.serde.records import Command

_BLANKS: dict[str, Any] = {"string": "", "int": 0, "long": 0, "boolean": False}


def former(command: Command) -> bytes:
    """The record of a command, with blanks in the fields that its body has no more."""
    parsed, name = COMMAND.schema.parsed, f"tidegate.{type(command.body).__name__}"
    (bodies,) = (each["type"] for each in parsed["fields"] if each["name"] == "body")
    (schema,) = (each for each in bodies if each["name"] == name)
    blank = {each["name"]: _blank(each["type"]) for each in schema["fields"]}
    written = asdict(command) | {"body": (name, blank | asdict(command.body))}
    out = BytesIO()
    schemaless_writer(out, parsed, written)
    return COMMAND._frame + out.getvalue()


def _blank(type_: Any) -> Any:
    return _BLANKS.get(type_) if isinstance(type_, str) else []

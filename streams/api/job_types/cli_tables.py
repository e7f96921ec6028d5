"""What `tidegate job-types` prints for people."""

from __future__ import annotations

from typing import Any

import orjson

from streams.cli.cells import Json, console_of_any_width, print_block, print_fields
from streams.cli.lists import listed

_COLUMNS = ("type", "input", "result", "attempts", "timeout", "tools", "pool", "limits", "app")
_ANY = "any JSON"
_SCHEMAS = ("input_schema", "result_schema")


def listing(found: Json) -> None:
    """A line for each type; `input` and `result` are the titles of their schemas."""
    listed([_row(each) for each in found["job_types"]], _COLUMNS, None)


def one(found: Json) -> None:
    """One type, then its schemas."""
    console = console_of_any_width()
    shown = {name: value for name, value in _row(found).items() if name not in ("input", "result")}
    print_fields(console, shown | {"announced_at": found["announced_at"]})
    for name in _SCHEMAS:
        schema = found[name]
        text = _ANY if schema is None else orjson.dumps(schema, option=orjson.OPT_INDENT_2).decode()
        print_block(console, name.replace("_", " "), text)


def _row(found: Json) -> Json:
    retry = found["retry"]
    waits = ", ".join(f"{seconds:g}" for seconds in retry["backoff"])
    return {
        "type": found["type"],
        "input": _title(found["input_schema"]),
        "result": _title(found["result_schema"]),
        "attempts": f"{retry['max_attempts']}, after {waits} s",
        "timeout": f"{found['timeout_seconds']:g} s",
        "tools": "any" if found["tools"] is None else ", ".join(found["tools"]) or "none",
        "pool": found["pool"],
        "limits": ", ".join(found["limits"]) or None,
        "app": " ".join(filter(None, (found["app"], found["version"]))),
    }


def _title(schema: Any) -> str:
    """The name of a schema's type; a schema of several types has none."""
    if schema is None:
        return _ANY
    return str(schema.get("title") or schema.get("type") or "a schema")

"""The README of the Helm chart: its table of values comes from the comments in `values.yaml`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from support.chart import CHART

_BEGIN, _END = "<!-- values: `make chart` writes this table -->", "<!-- end of the values -->"
_KEY = re.compile(r"^( *)([A-Za-z]\w*):(.*)$")


@dataclass(frozen=True, slots=True)
class Value:
    """A value by its dotted path, with its default as JSON, or None if it has parts of its own."""

    path: str
    default: str | None
    comment: str


def values() -> list[Value]:
    """All values with a comment, in the order of the file.

    Raises:
        ValueError: a value has no comment, although others beside it have one.
    """
    text = (CHART / "values.yaml").read_text()
    whole, keys = yaml.safe_load(text), list(_commented(text.splitlines()))
    parents = {path[:-1] for path, comment in keys if comment}
    for path, comment in keys:
        if not comment and path[:-1] in parents:
            raise ValueError(f"values.yaml: {'.'.join(path)} has no comment")
    return [
        Value(".".join(path), None if path in parents else json.dumps(_at(whole, path)), comment)
        for path, comment in keys
        if comment
    ]


def _at(whole: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        whole = whole[part]
    return whole


def _commented(lines: list[str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each key's path and the comment right above it."""
    path: list[str] = []
    comment: list[str] = []
    for line in lines:
        if line.lstrip().startswith("#"):
            comment.append(line.lstrip(" #"))
        elif (key := _KEY.match(line)) is not None:
            depth = len(key[1]) // 2
            path = [*path[:depth], key[2]]
            yield tuple(path), " ".join(comment)
            comment = []
        else:
            comment = []


def table() -> str:
    """The table of values in Markdown."""
    rows = ["| value | default | |", "|---|---|---|"]
    for value in values():
        default = "" if value.default is None else f"`{value.default}`"
        rows.append(f"| `{value.path}` | {default} | {value.comment.replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def filled() -> str:
    """The README with its table as the values are now."""
    text = (CHART / "README.md").read_text()
    before, rest = text.split(_BEGIN)
    return f"{before}{_BEGIN}\n\n{table()}\n\n{_END}{rest.split(_END)[1]}"


def write() -> None:
    """Write the README."""
    (CHART / "README.md").write_text(filled())

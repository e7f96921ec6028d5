"""A YAML file as a tree in which every value knows its file, line and key path.

It is read from PyYAML's nodes, not from its loaded values: those keep the last of two equal keys,
and lose every value's place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

NAMED_LISTS = frozenset(
    {
        "topics",
        "stages",
        "stores",
        "priorities",
        "pools",
        "job_types",
        "limits",
        "policies",
        "credentials",
        "issuers",
    }
)
"""Lists whose items have a `name`: paths show it, overlays merge by it."""

_TAG = "tag:yaml.org,2002:"
_SCALARS = frozenset(_TAG + kind for kind in ("str", "int", "float", "bool", "null"))

Key = str | int
KeyPath = tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """The place of a value: its file, its line (from 1) and its keys from the file's root."""

    file: Path
    line: int
    path: KeyPath = ()

    def problem(self, what: str) -> str:
        """`file:line: key.path: what`, the form of every message about a topology file."""
        path = ".".join(map(str, self.path)).replace(".[", "[")
        return f"{self.file}:{self.line}: {path}: {what}" if path else f"{self}: {what}"

    def child(self, key: Key, line: int) -> SourceLocation:
        return SourceLocation(self.file, line, (*self.path, key))

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Node:
    """A scalar, or a mapping or list of nodes by key, and its place.

    The key of a list's item is its index; in a list of named things, it is the name.
    """

    value: Any
    place: SourceLocation
    is_list: bool = False

    def plain(self) -> Any:
        """The value without places; lists as tuples."""
        if not isinstance(self.value, dict):
            return self.value
        plain = {key: node.plain() for key, node in self.value.items()}
        return tuple(plain.values()) if self.is_list else plain

    def nearest(self, path: KeyPath) -> Node:
        """The node at a path, or the deepest one on the way; `int` is a position in a list."""
        node = self
        for key in path:
            below = node.value if isinstance(node.value, dict) else {}
            found = dict(enumerate(below.values())) if isinstance(key, int) else below
            if key not in found:
                break
            node = found[key]
        return node

    def without(self, path: KeyPath) -> Node:
        """The same tree without the value at an existing path; `int` is a position in a list."""
        key, *below = path
        key = list(self.value)[key] if isinstance(key, int) else key
        kept = {other: node for other, node in self.value.items() if below or other != key}
        if below:
            kept[key] = kept[key].without(tuple(below))
        return replace(self, value=kept)


def read(path: Path) -> tuple[Node, list[str]]:
    """The tree of a file, and its YAML problems (the tree then lacks those parts)."""
    root = SourceLocation(path, 1)
    try:
        composed = yaml.compose(path.read_text("utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        return Node({}, root), [f"{path}:1: cannot be read: {error.strerror}; name a topology file"]
    except UnicodeDecodeError as error:
        return Node({}, root), [f"{path}:1: is not UTF-8 (byte {error.start}); save it as UTF-8"]
    except yaml.YAMLError as error:
        return Node({}, root), [_syntax_problem(path, error)]
    if composed is None:
        return Node({}, root), []
    reader = _Reader()
    return reader.node(composed, root), reader.problems


def _syntax_problem(path: Path, error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark else 1
    what = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"{path}:{line}: is not valid YAML: {what}; correct the file"


class _Reader:
    """Turns PyYAML's nodes into ours, and collects the problems on the way."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._seen: set[int] = set()

    def node(self, composed: yaml.Node, place: SourceLocation) -> Node:
        if id(composed) in self._seen:
            return self._refused(place, "YAML aliases are not read here; write the value out")
        self._seen.add(id(composed))
        if isinstance(composed, yaml.MappingNode) and composed.tag == _TAG + "map":
            return self._mapping(composed, place)
        if isinstance(composed, yaml.SequenceNode) and composed.tag == _TAG + "seq":
            return self._list(composed, place)
        if isinstance(composed, yaml.ScalarNode) and composed.tag in _SCALARS:
            return self._scalar(composed, place)
        kind = composed.tag.removeprefix(_TAG)
        return self._refused(place, f"{kind} is no type known here; quote it if text is meant")

    def _mapping(self, composed: yaml.MappingNode, place: SourceLocation) -> Node:
        entries: dict[Key, Node] = {}
        for key_node, value_node in composed.value:
            key, below = str(key_node.value), place.child(str(key_node.value), _line(key_node))
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != _TAG + "str":
                self.problems.append(place.problem(f"the key {key} is not text; quote it"))
            elif not self._twice(below, entries.get(key), "key", "remove"):
                entries[key] = self.node(value_node, below)
        return Node(entries, place)

    def _list(self, composed: yaml.SequenceNode, place: SourceLocation) -> Node:
        named = bool(place.path) and place.path[-1] in NAMED_LISTS
        items: dict[Key, Node] = {}
        for index, item in enumerate(composed.value):
            key = (_name_of(item) if named else None) or index
            below = place.child(f"[{key}]", _line(item))
            node = self.node(item, below)
            if not self._twice(below, items.get(key), "name", "rename"):
                items[key] = node
        return Node(items, place, is_list=True)

    def _twice(self, below: SourceLocation, twin: Node | None, what: str, remedy: str) -> bool:
        if twin:
            first = f"the {what} stands twice, first on line {twin.place.line}; {remedy} one"
            self.problems.append(below.problem(first))
        return twin is not None

    def _scalar(self, composed: yaml.ScalarNode, place: SourceLocation) -> Node:
        try:
            value = yaml.SafeLoader("").construct_object(composed)
        except (yaml.YAMLError, ValueError):
            kind = composed.tag.removeprefix(_TAG)
            return self._refused(place, f"{composed.value!r} is no {kind}; correct it")
        return Node(value, place)

    def _refused(self, place: SourceLocation, what: str) -> Node:
        self.problems.append(place.problem(what))
        return Node(None, place)


def _line(composed: yaml.Node) -> int:
    line: int = composed.start_mark.line + 1
    return line


def _name_of(item: yaml.Node) -> str | None:
    if isinstance(item, yaml.MappingNode):
        for key, value in item.value:
            if key.value == "name" and isinstance(value, yaml.ScalarNode):
                return str(value.value)
    return None

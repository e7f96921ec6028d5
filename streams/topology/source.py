"""A YAML file as a tree in which every value knows its file, line and key path.

It is read from PyYAML's nodes, not from its loaded values: those keep the last of two equal keys,
and lose every value's place.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

NAMED_LISTS = frozenset(
    {"topics", "stages", "stores", "priorities", "pools", "job_types", "limits"}
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
    """A scalar, a mapping of nodes or a list of nodes, and its place."""

    value: Any
    place: SourceLocation

    @property
    def name(self) -> str | None:
        """The `name` of an item of a named list; None if it has none."""
        named = self.value.get("name") if isinstance(self.value, dict) else None
        return named.value if named and isinstance(named.value, str) else None

    def plain(self) -> Any:
        """The value without places; lists as tuples."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return tuple(node.plain() for node in self.value)
        return self.value

    def nearest(self, path: KeyPath) -> Node:
        """The node at a path, or the deepest one on the way; `str` in a list is a name."""
        node = self
        for key in path:
            below = node._child(key)
            if below is None:
                break
            node = below
        return node

    def without(self, path: KeyPath) -> Node:
        """The same tree without the value at an existing path; `int` is an index into a list."""
        key, below = path[0], path[1:]
        pairs = self.value.items() if isinstance(self.value, dict) else enumerate(self.value)
        kept = [
            (other, node.without(below) if other == key else node)
            for other, node in pairs
            if below or other != key
        ]
        whole = dict(kept) if isinstance(self.value, dict) else [node for _, node in kept]
        return Node(whole, self.place)

    def _child(self, key: Key) -> Node | None:
        if isinstance(self.value, dict) and isinstance(key, str):
            return self.value.get(key)
        if not isinstance(self.value, list):
            return None
        if isinstance(key, int):
            return self.value[key] if key < len(self.value) else None
        return next((item for item in self.value if item.name == key), None)


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
        entries: dict[str, Node] = {}
        for key_node, value_node in composed.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            below = place.child(key, line)
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != _TAG + "str":
                self.problems.append(place.problem(f"the key {key} is not text; quote it"))
            elif key in entries:
                first = entries[key].place.line
                self.problems.append(
                    below.problem(f"the key stands twice, first on line {first}; remove one")
                )
            else:
                entries[key] = self.node(value_node, below)
        return Node(entries, place)

    def _list(self, composed: yaml.SequenceNode, place: SourceLocation) -> Node:
        named = bool(place.path) and place.path[-1] in NAMED_LISTS
        items: list[Node] = []
        for index, item in enumerate(composed.value):
            name = _name_of(item) if named else None
            below = place.child(f"[{index if name is None else name}]", item.start_mark.line + 1)
            node = self.node(item, below)
            twin = next((i for i in items if name is not None and i.name == name), None)
            if twin:
                first = twin.place.line
                self.problems.append(
                    below.problem(f"the name stands twice, first on line {first}; rename one")
                )
            else:
                items.append(node)
        return Node(items, place)

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


def _name_of(item: yaml.Node) -> str | None:
    if isinstance(item, yaml.MappingNode):
        for key, value in item.value:
            if key.value == "name" and isinstance(value, yaml.ScalarNode):
                return str(value.value)
    return None

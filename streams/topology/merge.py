"""Lays a second file over the first, so that an application writes only its own parts.

Mappings merge key by key; lists of named things merge by `name`; the overlay's routes come before
the built-in ones; anything else is replaced. Every value keeps its place in its own file.
"""

from __future__ import annotations

from streams.topology.source import NAMED_LISTS, Node


def merge(base: Node, over: Node, key: str = "") -> Node:
    """`over` upon `base`; if their kinds differ, `over` is kept, for the reader to refuse."""
    if isinstance(base.value, dict) and isinstance(over.value, dict):
        return _merge_mappings(base, over)
    if isinstance(base.value, list) and isinstance(over.value, list):
        if key == "routes":
            return Node([*over.value, *base.value], over.place)
        if key in NAMED_LISTS:
            return _merge_by_name(base, over)
    return over


def _merge_mappings(base: Node, over: Node) -> Node:
    merged = dict(base.value)
    for key, node in over.value.items():
        merged[key] = merge(merged[key], node, key) if key in merged else node
    return Node(merged, over.place)


def _merge_by_name(base: Node, over: Node) -> Node:
    items: list[Node] = list(base.value)
    places = {item.name: index for index, item in enumerate(items) if item.name is not None}
    for node in over.value:
        if node.name in places:
            items[places[node.name]] = merge(items[places[node.name]], node)
        else:
            items.append(node)
    return Node(items, over.place)

"""Lays a second file over the first, so that an application writes only its own parts.

Mappings merge key by key; lists of named things merge by `name`; the overlay's routes come before
the built-in ones; anything else is replaced. Every value keeps its place in its own file.
"""

from __future__ import annotations

from dataclasses import replace

from streams.topology.yaml_tree import NAMED_LISTS, Key, Node


def merge(base: Node, over: Node, key: Key = "") -> Node:
    """`over` upon `base`; if their kinds differ, `over` is kept, for the reader to refuse."""
    both = isinstance(base.value, dict) and isinstance(over.value, dict)
    if not both or base.is_list != over.is_list:
        return over
    if over.is_list and key == "routes":
        return replace(over, value=dict(enumerate([*over.value.values(), *base.value.values()])))
    if over.is_list and key not in NAMED_LISTS:
        return over
    merged = dict(base.value)
    for below, node in over.value.items():
        merged[below] = merge(merged[below], node, below) if below in merged else node
    return replace(over, value=merged)

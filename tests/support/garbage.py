"""What a piece of code leaves to Python's cycle collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from support.collection import collect

KEPT = 20_000
"""Bytes in one object: more than any head, name or message."""


@contextmanager
def left_behind() -> Iterator[list[object]]:
    """At its end the cyclic garbage that came up within."""
    found: list[object] = []
    enabled = gc.isenabled()
    collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        if enabled:
            gc.enable()


def large(garbage: list[object]) -> list[int]:
    held = (part for each in garbage for part in gc.get_referents(each))
    return [len(part) for part in held if isinstance(part, bytes) and len(part) > KEPT]

"""Collects the garbage of the tests, some of which is clients of brokers that are gone."""

from __future__ import annotations

import gc
import warnings
from threading import Thread

from hypothesis import given, settings
from hypothesis.strategies import none

_SECONDS = 60.0
_let_go: list[object] = []


def let_go(value: object) -> None:
    """Keep a value until the next collection; nobody else must use it any more."""
    _let_go.append(value)


def collect() -> None:
    """Collect all garbage and what was let go, in a thread that is left behind if it stands still.

    To destroy a client whose broker died, librdkafka may wait for its session's end, and in rare
    cases for ever (librdkafka#4674 and #5476).
    """
    thread = Thread(target=_collect, name="garbage", daemon=True)
    thread.start()
    thread.join(_SECONDS)
    if thread.is_alive():
        warnings.warn(f"garbage is not collected after {_SECONDS} s: going on", stacklevel=2)


def _collect() -> None:
    _let_go.clear()
    gc.collect()


@settings(max_examples=1, database=None, derandomize=True)
@given(none())
def let_hypothesis_collect(_: None) -> None:
    """Call this while there is no client yet.

    With `derandomize`, as in CI, Hypothesis collects all garbage before the first example that a
    process tries, and in the thread that runs the tests.
    """

"""Faults for `INJECTED_FAULTS`: of limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from streams.dispatcher.limited import Limited
from streams.dispatcher.live_index import Live
from streams.dispatcher.parts import limits


def room_is_asked_for_once() -> Any:
    """A job for which there was room starts, although others have taken it since."""
    return patch.object(Limited, "held_back", lambda *_: False)


@contextmanager
def first_runs_alone_count() -> Iterator[None]:
    """A job that goes on after its first run takes no place."""

    def unless_again(original: Callable[..., None]) -> Callable[..., None]:
        def counted(self: Limited, live: Live) -> None:
            if live.epoch == 1:
                original(self, live)

        return counted

    started, ended = unless_again(Limited.started), unless_again(Limited.ended)
    with patch.object(Limited, "started", started), patch.object(Limited, "ended", ended):
        yield


def restart_forgets_what_was_spent() -> Any:
    """The next owner of a partition gives each bucket its whole burst."""
    return patch.object(limits.Limits, "restoring", lambda *_: ())

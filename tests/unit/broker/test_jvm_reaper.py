"""A kept process ends with its owner, unless the owner has ordered the reaper to let it stay."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from streams.broker import jvm_reaper
from streams.broker.process import KeptProcess

OWNER = os.getppid()
GONE = OWNER + 1
"""An owner that is not this process's parent any more."""


class PlayedChild:
    """It lives for so many looks."""

    def __init__(self, looks: int) -> None:
        self._looks = looks

    def poll(self) -> int | None:
        self._looks -= 1
        return None if self._looks >= 0 else 0


@pytest.fixture
def owners_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The owner's end of the stream of orders; the reaper waits for nothing."""
    read, write = os.pipe()
    with os.fdopen(read) as orders:
        monkeypatch.setattr(jvm_reaper, "sys", SimpleNamespace(stdin=orders))
        monkeypatch.setattr(jvm_reaper, "_OWNER_CHECK_SECONDS", 0)
        yield write


def order(owner: int, looks: int = 5) -> bytes:
    """What ended the wait; b"" too if nothing did before the child ended by itself."""
    child = PlayedChild(looks)
    events, other = socket.socketpair()
    with events, other:
        found = jvm_reaper._await_end_or_order(
            cast("subprocess.Popen[bytes]", child), events, owner
        )
    ended = child._looks < 0
    return b"ended" if ended else found


def test_the_end_of_the_stream_stops_the_child(owners_end: int) -> None:
    os.close(owners_end)
    assert order(OWNER) == b""


def test_an_owner_that_left_stops_the_child_though_another_holds_the_stream(
    owners_end: int,
) -> None:
    assert order(GONE) == b""
    os.close(owners_end)


@pytest.mark.parametrize("told", [b"k", b"s"])
def test_an_order_ends_the_child(owners_end: int, told: bytes) -> None:
    os.write(owners_end, told)
    assert order(OWNER) == told
    os.close(owners_end)


def test_after_the_order_to_detach_the_owner_may_leave(owners_end: int) -> None:
    os.write(owners_end, b"d")
    os.close(owners_end)
    assert order(GONE) == b"ended"


def test_an_owner_that_leaves_right_after_its_order_to_detach_leaves_the_child(
    owners_end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order comes when the reaper has looked for one already, and now looks for its owner."""

    def leaves() -> int:
        if not sent:
            sent.append(os.write(owners_end, b"d"))
        return GONE

    sent: list[int] = []
    monkeypatch.setattr(os, "getppid", leaves)
    assert order(OWNER) == b"ended"
    os.close(owners_end)


def test_a_release_orders_to_detach_before_the_stream_ends() -> None:
    read, write = os.pipe()
    with os.fdopen(write, "wb") as orders, open(os.devnull, "rb") as reports:
        reaper = SimpleNamespace(stdin=orders, stdout=reports, returncode=None)
        KeptProcess(cast("subprocess.Popen[bytes]", reaper), OWNER).release()
        with os.fdopen(read, "rb") as received:
            assert received.read() == b"d"

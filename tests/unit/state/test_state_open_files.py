"""How a process's descriptors are shared out among its databases."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from streams.errors import ConfigError
from streams.state.open_files import LEAST, MOST, needed_for, share_out

ENDLESS = resource.RLIM_INFINITY


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The soft and the hard limit of a process that may raise the first up to the second."""
    held = [1_024, 1_024]

    def raise_to(_: int, asked: tuple[int, int]) -> None:
        soft, hard = asked
        if hard != held[1] or not (hard == ENDLESS or soft <= hard) or soft > 1_000_000:
            raise ValueError("not allowed to raise maximum limit")
        held[:] = asked

    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(held))
    monkeypatch.setattr(resource, "setrlimit", raise_to)
    return held  # type: ignore[return-value]


@pytest.mark.parametrize("hard", [1_024, 4_096, 524_288, ENDLESS])
@pytest.mark.parametrize("databases", [1, 4, 12, 192])
def test_databases_stay_within_the_limit_together(
    limits: list[int], hard: int, databases: int
) -> None:
    limits[1] = hard
    with capture_logs() as logs:
        files = share_out(databases)
    assert LEAST <= files.each <= MOST
    assert files.limit == limits[0], "what it counts on is not what it may"
    fits = needed_for(databases, files.each) <= files.limit
    assert fits == (not logs)
    if not fits:
        assert (
            f"raise the limit on open files to {needed_for(databases, LEAST)}" in logs[0]["event"]
        )
        with pytest.raises(ConfigError, match=r"192 databases need .*raise the limit"):
            files.refuse_more(databases)
    files.refuse_more(min(databases, 12))


def test_it_takes_no_more_than_it_needs_and_all_that_it_may(limits: list[int]) -> None:
    limits[1] = 4_096
    assert share_out(1).each == MOST
    assert limits[0] == 1_024, "it was enough"
    assert share_out(4).each == MOST
    assert limits[0] == needed_for(4, MOST)
    share_out(100)
    assert limits[0] == 4_096


def test_a_limit_that_cannot_be_raised_is_shared(limits: list[int]) -> None:
    limits[1] = ENDLESS
    files = share_out(10_000)
    assert (files.limit, limits[0]) == (1_024, 1_024)

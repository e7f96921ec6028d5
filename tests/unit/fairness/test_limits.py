"""Caps on running jobs."""

from __future__ import annotations

from streams.fairness.limits import Concurrency
from streams.topology.model import Limit


def test_each_matched_value_has_the_cap_to_itself() -> None:
    caps = Concurrency((Limit("each", "tenant", "acme*", 1),))
    caps.started("acme-1", "draft")
    assert not caps.allows("acme-1", "refund")
    assert caps.allows("acme-2", "draft")
    caps.started("globex", "draft")
    assert caps.allows("globex", "draft"), "a value that does not match has no cap"


def test_a_job_needs_room_under_every_cap_and_frees_all() -> None:
    caps = Concurrency((Limit("all", "global", "*", 2), Limit("refunds", "job_type", "refund", 1)))
    caps.started("acme", "refund")
    assert not caps.allows("globex", "refund")
    assert caps.allows("globex", "draft")
    caps.started("globex", "draft")
    assert not caps.allows("initech", "draft")
    caps.ended("acme", "refund")
    assert caps.allows("initech", "refund")


def test_a_global_cap_ignores_its_pattern() -> None:
    caps = Concurrency((Limit("all", "global", "", 1),))
    caps.started("acme", "draft")
    assert not caps.allows("acme", "draft")

"""Caps on running jobs."""

from __future__ import annotations

from typing import get_args

import pytest

from streams.fairness.limits import Concurrency
from streams.topology.model import Limit, LimitScope


def allows(caps: Concurrency, tenant_id: str, job_type: str) -> bool:
    return caps.room("tenant", tenant_id) > 0 and caps.type_free(job_type)


@pytest.mark.parametrize("scope", get_args(LimitScope))
def test_every_scope_that_can_be_declared_is_enforced(scope: LimitScope) -> None:
    caps = Concurrency((Limit("one", scope, "*", 1),))
    caps.started("acme", "draft")
    assert not allows(caps, "acme", "draft")
    caps.ended("acme", "draft")
    assert allows(caps, "acme", "draft")


def test_each_matched_value_has_the_cap_to_itself() -> None:
    caps = Concurrency((Limit("each", "tenant", "acme*", 1),))
    caps.started("acme-1", "draft")
    assert not allows(caps, "acme-1", "refund")
    assert allows(caps, "acme-2", "draft")
    caps.started("globex", "draft")
    assert allows(caps, "globex", "draft"), "a value that does not match has no cap"


def test_a_job_needs_room_under_every_cap_and_frees_all() -> None:
    caps = Concurrency((Limit("all", "global", "*", 2), Limit("refunds", "job_type", "refund", 1)))
    caps.started("acme", "refund")
    assert not allows(caps, "globex", "refund")
    assert allows(caps, "globex", "draft")
    caps.started("globex", "draft")
    assert not allows(caps, "initech", "draft")
    caps.ended("acme", "refund")
    assert allows(caps, "initech", "refund")


def test_a_global_cap_ignores_its_pattern() -> None:
    caps = Concurrency((Limit("all", "global", "", 1),))
    caps.started("acme", "draft")
    assert not allows(caps, "acme", "draft")


@pytest.mark.parametrize("scope", get_args(LimitScope))
def test_no_room_is_left_where_more_run_than_a_lowered_cap_allows(scope: LimitScope) -> None:
    caps = Concurrency((Limit("one", scope, "*", 1),))
    for _ in range(3):
        caps.started("acme", "draft")
    values = {"global": "", "job_type": "draft", "tenant": "acme"}
    assert caps.room(scope, values[scope]) == 0

"""How much room limits leave."""

from __future__ import annotations

import random
from math import inf

import pytest

from streams.limits.buckets import Bucket, Candidate
from streams.limits.caps import Caps
from streams.topology.limits import Limit, Scope

KEYS = ("one", "zendesk")
SCOPES: tuple[Scope, ...] = "global", "pool", "job_type", "source", "tenant", "key"


def job(tenant: str = "acme", type_: str = "draft", *keys: tuple[str, str]) -> Candidate:
    return Candidate(tenant, type_, "default", keys)


def allows(caps: Caps, of: Candidate) -> bool:
    rooms = caps.type_room(of.pool, of.type), caps.tenant_room(of.tenant_id)
    return min(rooms) > 0 and caps.full(caps.buckets.of_job(of)) is None


@pytest.mark.parametrize("scope", SCOPES)
def test_every_scope_counts_what_runs(scope: Scope) -> None:
    caps = Caps((Limit("one", scope, "*", 1, shared=False),))
    of = job("acme", "draft", *([KEYS] if scope in ("source", "key") else []))
    caps.started(of)
    assert not allows(caps, of)
    caps.ended(of)
    assert allows(caps, of)


@pytest.mark.parametrize("scope", SCOPES)
def test_no_room_is_left_where_more_run_than_a_lowered_cap_allows(scope: Scope) -> None:
    caps = Caps((Limit("one", scope, "*", 1, shared=False),))
    of = job("acme", "draft", *([KEYS] if scope in ("source", "key") else []))
    for _ in range(3):
        caps.started(of)
    assert not allows(caps, of)
    caps.ended(of)
    assert not allows(caps, of)


def test_each_matched_value_has_the_cap_to_itself() -> None:
    caps = Caps((Limit("each", "tenant", "acme*", 1),))
    caps.started(job("acme-1"))
    assert not allows(caps, job("acme-1", "refund"))
    assert allows(caps, job("acme-2"))
    caps.started(job("globex"))
    assert caps.tenant_room("globex") == inf, "a value that does not match has no cap"


def test_a_job_needs_room_under_every_cap_and_frees_all() -> None:
    caps = Caps(
        (
            Limit("all", "global", "*", 2, shared=False),
            Limit("refunds", "job_type", "refund", 1, shared=False),
        )
    )
    caps.started(job("acme", "refund"))
    assert not allows(caps, job("globex", "refund"))
    assert allows(caps, job("globex"))
    caps.started(job("globex"))
    assert not allows(caps, job("initech"))
    assert caps.ended(job("acme", "refund")) == (
        Bucket("all", "", ""),
        Bucket("refunds", "", "refund"),
    )
    assert allows(caps, job("initech", "refund"))


def test_a_global_cap_ignores_its_pattern_and_may_be_one_of_each_tenant() -> None:
    caps = Caps((Limit("all", "global", "nothing", 1, per="tenant"),))
    caps.started(job())
    assert not allows(caps, job("acme", "refund"))
    assert allows(caps, job("globex"))


def test_keys_are_of_a_tenant_and_their_limit() -> None:
    caps = Caps((Limit("a", "key", "*", 1, by="x"), Limit("b", "key", "*", 1, by="y")))
    caps.started(job("acme", "draft", ("a", '"1"'), ("b", '"2"')))
    other = job("acme", "draft", ("a", '"2"'), ("b", '"2"'))
    assert caps.full(caps.buckets.of_job(other)) == ("b", "acme", '"2"')
    assert allows(caps, job("acme", "draft", ("a", '"2"'), ("b", '"1"')))
    assert allows(caps, job("globex", "draft", ("a", '"1"'), ("b", '"2"')))


def test_the_value_of_a_limit_that_is_gone_counts_nothing() -> None:
    caps = Caps((Limit("a", "key", "*", 1, by="x"),))
    caps.started(job("acme", "draft", ("gone", "1")))
    assert allows(caps, job("acme", "draft", ("gone", "1")))


def test_a_tenants_own_limits_count_what_runs_whenever_they_come() -> None:
    chance = random.Random(7)
    declared = (
        Limit("a", "tenant", concurrency=2),
        Limit("b", "job_type", per="tenant", concurrency=2),
        Limit("c", "job_type", concurrency=9),
    )
    choices = [
        Limit("a", "tenant", concurrency=4),
        Limit("b", "job_type", "draft", per="tenant", concurrency=3),
        Limit("d", "source", per="tenant", concurrency=1),
        Limit("c", "job_type", per="tenant", concurrency=1),
    ]
    caps, running, own = Caps(declared), list[Candidate](), tuple[Limit, ...]()
    for _ in range(2_000):
        match chance.randrange(3):
            case 0:
                keys = (("d", "zendesk"),) if chance.random() < 0.5 else ()
                of = job(chance.choice(("acme", "far")), chance.choice(("draft", "refund")), *keys)
                caps.started(of)
                running.append(of)
            case 1 if running:
                caps.ended(running.pop(chance.randrange(len(running))))
            case _:
                own = tuple(chance.sample(choices, chance.randrange(4)))
                caps.set_own("acme", own, [each for each in running if each.tenant_id == "acme"])
        fresh = Caps(declared)
        fresh.set_own("acme", own, ())
        for each in running:
            fresh.started(each)
        assert caps._running == fresh._running
    assert {bucket.limit for bucket in caps._running} >= {"a", "b", "c"}

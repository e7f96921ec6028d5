"""Caps on waiting jobs: what a partition publishes of its depths, and what all add up to."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.limits import backlog
from streams.limits.backlog import Backlog, Depth, Depths, Line, QueueCaps, depths_of, report_of
from streams.serde import records
from streams.serde.codec import BACKLOG
from streams.topology.limits import MaxQueued

PARTITIONS = 4
OF_TENANTS = MaxQueued("tenant", 100)
OF_REFUNDS = MaxQueued("job_type", 64, "refund")
OF_ALL = MaxQueued("global", 640)
ACME, REFUND, ALL = Line("tenant", "acme"), Line("job_type", "refund"), Line("global", "")


def depths(*declared: MaxQueued) -> Depths:
    return Depths(QueueCaps(declared), PARTITIONS)


def heard(caps: QueueCaps, *parts: Depths) -> Backlog:
    """What is known of the partitions once each has published, over the wire."""
    found = Backlog(caps)
    for number, each in enumerate(parts):
        sent = BACKLOG.encode(report_of(number, each.near()))
        found.hear(number, BACKLOG.decode(sent))
    return found


def test_a_job_counts_for_its_tenant_its_type_and_all() -> None:
    caps = QueueCaps((OF_TENANTS, OF_REFUNDS, OF_ALL))
    assert caps.of("acme", "refund") == ((ACME, 100), (REFUND, 64), (ALL, 640))
    assert caps.of("acme", "draft") == ((ACME, 100), (ALL, 640))
    assert not QueueCaps(())


def test_of_several_caps_for_one_tenant_the_smallest_holds() -> None:
    caps = QueueCaps((MaxQueued("tenant", 9, "ac*"), OF_TENANTS, MaxQueued("tenant", 1, "bolt")))
    assert caps.cap(ACME) == 9
    assert caps.cap(Line("tenant", "other")) == 100
    assert caps.cap(REFUND) is None


@pytest.mark.parametrize("name", ["*", "", "a:b", "a\nb", "ü" * 2000, "[acme]"])
def test_names_of_any_characters_are_told_apart(name: str) -> None:
    caps = QueueCaps((OF_TENANTS,))
    found = depths(OF_TENANTS)
    found.count(name, "t", 100)
    assert heard(caps, found).full(name, "t") == Depth(Line("tenant", name), 100, 100)
    assert heard(caps, found).full(name + "x", "t") is None


def test_a_tenant_is_published_from_half_of_its_cap_on_and_no_longer_below() -> None:
    found = depths(OF_TENANTS)
    found.count("acme", "t", 49)
    assert found.near() == {}
    found.count("acme", "t", 1)
    assert found.near() == {ACME: 50}
    found.count("acme", "t", -1)
    assert found.near() == {}


def test_a_part_of_a_type_is_published_from_a_sixteenth_of_its_share_on() -> None:
    found = depths(OF_REFUNDS)  # 64 of 4 partitions: 16 each, so 1
    found.count("acme", "refund", 1)
    assert found.near() == {REFUND: 1}


def test_no_cap_is_so_small_that_none_waiting_is_near_it() -> None:
    found = depths(MaxQueued("global", 1), MaxQueued("tenant", 1))
    found.count("acme", "t", 1)
    found.count("acme", "t", -1)
    assert found.near() == {}
    assert found._jobs == {}


def test_the_nearer_its_cap_a_depth_was_the_less_is_worth_telling() -> None:
    found = depths(MaxQueued("tenant", 6_400))
    found.count("acme", "t", 3_200 + 199)
    assert not found.has_moved({ACME: 3_200})
    found.count("acme", "t", 1)
    assert found.has_moved({ACME: 3_200})
    found.count("acme", "t", 3_000)
    assert found.near() == {ACME: 6_400}
    assert found.has_moved({ACME: 6_399})
    assert not found.has_moved({ACME: 6_400})


def test_a_depth_that_is_no_longer_near_has_moved_and_one_without_a_cap_has_not() -> None:
    found = depths(OF_TENANTS)
    assert found.has_moved({ACME: 50})
    assert not found.has_moved({Line("job_type", "gone"): 50})


def test_the_fullest_are_published_if_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "_MOST_PUBLISHED", 2)
    found = depths(MaxQueued("tenant", 10))
    for number in range(5, 9):
        found.count(f"t{number}", "t", number)
    assert found.near() == {Line("tenant", "t8"): 8, Line("tenant", "t7"): 7}


def test_partitions_add_up() -> None:
    caps = QueueCaps((OF_REFUNDS, OF_ALL))
    parts = [depths(OF_REFUNDS, OF_ALL) for _ in range(PARTITIONS)]
    for part in parts:
        part.count("acme", "refund", 16)
    found = heard(caps, *parts)
    assert found.full("other", "refund") == Depth(REFUND, 64, 64)
    assert found.full("acme", "draft") is None
    assert found.known() == [Depth(REFUND, 64, 64), Depth(ALL, 64, 640)]


def test_a_report_replaces_the_one_of_a_dead_owner() -> None:
    caps = QueueCaps((OF_TENANTS,))
    found = Backlog(caps)
    found.hear(0, report_of(0, {ACME: 100}))
    found.hear(1, report_of(1, {Line("tenant", "bolt"): 100}))
    assert found.full("acme", "t") is not None
    found.hear(0, report_of(0, {ACME: 99}))
    assert found.full("acme", "t") is None
    found.hear(0, None)
    assert found.known() == [Depth(Line("tenant", "bolt"), 100, 100)]


def test_a_report_of_another_version_changes_nothing_that_has_a_cap() -> None:
    found = Backlog(QueueCaps((OF_TENANTS,)))
    found.hear(0, records.Backlog(0, (records.BacklogDepth("pool", "x", 10**6),)))
    assert found.full("x", "x") is None
    assert found.known() == []


def test_what_is_published_is_what_is_heard() -> None:
    sent = {ACME: 3, REFUND: 2, ALL: 5}
    assert depths_of(BACKLOG.decode(BACKLOG.encode(report_of(3, sent)))) == sent


STEPS = st.lists(
    st.tuples(
        st.integers(0, PARTITIONS - 1), st.sampled_from("ab"), st.sampled_from("tu"), st.booleans()
    ),
    max_size=60,
)


@settings(deadline=None)
@given(STEPS, st.integers(1, 40))
def test_published_depths_are_never_too_high_and_lack_a_sixteenth_at_most(
    steps: list[tuple[int, str, str, bool]], cap: int
) -> None:
    """Of jobs of all tenants: those of a tenant are in one partition, and are exact near a cap."""
    declared = MaxQueued("job_type", cap), MaxQueued("global", cap)
    caps = QueueCaps(declared)
    parts = [depths(*declared) for _ in range(PARTITIONS)]
    waiting: list[tuple[int, str, str]] = []
    for number, tenant, type_, begins in steps:
        if begins:
            waiting.append((number, tenant, type_))
            parts[number].count(tenant, type_, 1)
        elif waiting:
            gone = waiting.pop(number % len(waiting))
            parts[gone[0]].count(*gone[1:], -1)
    known = {each.line: each.jobs for each in heard(caps, *parts).known()}
    lines = {line: caps.cap(line) or 0 for _, a, b in waiting for line, _ in caps.of(a, b)}
    for line in lines:
        real = sum(line.scope == "global" or line.value == type_ for _, _, type_ in waiting)
        assert real - cap / 16 <= known.get(line, 0) <= real

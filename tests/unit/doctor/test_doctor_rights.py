"""What the doctor's own user may do, against what a stage's process needs."""

from __future__ import annotations

import pytest

from streams.doctor import rights
from streams.doctor.cluster_view import TopicsSeen
from streams.doctor.finding import Finding
from streams.doctor.group_view import Ends, GroupSeen, GroupsSeen
from streams.stages import STAGES
from streams.topology.cluster import Cluster
from streams.topology.load import load
from streams.topology.rights import rights_of

TOPOLOGY = load()
PREFIX = "t-"
ACLS = "tidegate topology describe --acls"
ALL = frozenset({"READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS", "CREATE"})
NEEDED = rights_of("dedup", TOPOLOGY, PREFIX)
NOTHING = Ends({}, {}, {})


def of_topics(
    operations: dict[str, frozenset[str]], hidden: dict[str, str] | None = None
) -> list[Finding]:
    granted = {PREFIX + name: ALL for name in TOPOLOGY.topics}
    granted |= {PREFIX + name: given for name, given in operations.items()}
    seen = {name: g for name, g in granted.items() if name not in (hidden or {})}
    return list(rights.of_topics(NEEDED, ACLS, TopicsSeen(Cluster(3, {}), {}, seen, hidden or {})))


def of_groups(group: GroupSeen | None, hidden: frozenset[str] = frozenset()) -> list[Finding]:
    found = {} if group is None else {group.name: group}
    seen = GroupsSeen(found, hidden, NOTHING, NOTHING, frozenset())
    return list(rights.of_groups(NEEDED, PREFIX, ACLS, seen))


def test_a_user_with_every_right_is_ok() -> None:
    assert [each.status for each in of_topics({})] == ["ok"]
    granted = GroupSeen("dedup", operations=frozenset({"READ", "DESCRIBE"}))
    assert [each.status for each in of_groups(granted)] == ["ok"]


def test_rights_that_another_stage_needs_are_not_asked_for() -> None:
    assert [each.status for each in of_topics({"jobs": frozenset()})] == ["ok"]


def test_a_missing_right_is_named_with_its_topic() -> None:
    (found,) = of_topics({"events": frozenset({"READ", "DESCRIBE", "DESCRIBE_CONFIGS"})})
    assert found.status == "fail"
    assert found.text == "the user on Kafka lacks Write on topic t-events"


def test_a_topic_that_the_user_may_not_see_lacks_every_right() -> None:
    found = of_topics({}, {"t-events.received": "Describe"})
    assert found[0].status == "fail"
    assert "lacks Read on topic t-events.received" in "".join(each.text for each in found)


def test_settings_that_the_user_may_not_see_hide_no_right() -> None:
    (found,) = of_topics({}, {"t-jobs": "DescribeConfigs"})
    assert found.status == "ok"


def test_a_group_that_the_user_may_not_see_cannot_be_joined() -> None:
    (found,) = of_groups(None, frozenset({"dedup"}))
    assert found.status == "fail"
    assert "lacks Read on group t-dedup" in found.text


def test_brokers_that_tell_no_rights_say_nothing_about_the_user() -> None:
    untold = dict.fromkeys(TOPOLOGY.topics, frozenset[str]())
    for found in of_topics(untold), of_groups(GroupSeen("dedup")):
        assert [each.status for each in found] == ["skipped"]


@pytest.mark.parametrize("stage", sorted(STAGES.keys() - {"worker"}))
def test_of_every_stage_it_is_known_what_it_needs(stage: str) -> None:
    assert "topic" in {each.resource for each in rights_of(stage, TOPOLOGY, PREFIX)}


def test_rights_on_transactional_ids_are_skipped_because_nobody_is_told_them() -> None:
    (found,) = rights.of_transactions(NEEDED, ACLS)
    assert found.status == "skipped"
    assert "t-dedup-..." in found.text
    assert list(rights.of_transactions([], ACLS)) == []


@pytest.mark.parametrize("stage", [None, "nobody"])
def test_where_nothing_is_known_to_compare_with_the_check_is_skipped(stage: str | None) -> None:
    assert rights.unknown(stage, ACLS).status == "skipped"
    assert not stage or not rights_of(stage, TOPOLOGY, PREFIX)

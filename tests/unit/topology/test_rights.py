"""Each user's rights: derived from the topology, no broader than needed, and safe to paste."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from streams.analytics.partitions import TOPICS as COUNTED
from streams.api.tables import TABLES
from streams.errors import ConfigError
from streams.runtime import layouts
from streams.stages import STAGES
from streams.topology.load import load
from streams.topology.model import LayoutName
from streams.topology.rights import Right, User, rights_of, users
from streams.topology.rights_text import as_commands, as_json, as_strimzi, default_user_prefix

TOPOLOGY = load()
HOSTILE = 'a b\'; touch owned; "$(id)"\n- operations: [All]\n#'


def names(process: str, operation: str, resource: str = "topic") -> set[str]:
    return {
        right.name
        for right in rights_of(process, TOPOLOGY)
        if (right.resource, right.operation) == (resource, operation)
    }


def test_every_process_has_a_user_and_every_right_is_on_what_is_declared() -> None:
    found = {user.process: user.rights for user in users(TOPOLOGY)}
    assert set(found) == {*STAGES, "topology"} - {"worker"}
    topics = {r.name for rights in found.values() for r in rights if r.resource == "topic"}
    assert topics <= set(TOPOLOGY.topics)


def test_the_operator_reads_what_its_tables_are_made_of() -> None:
    assert names("operator", "Read") == {table.topic for table in TABLES} | {"tenants", "payloads"}


def test_analytics_reads_what_it_counts_and_writes_nothing() -> None:
    assert names("analytics", "Read") == set(COUNTED)
    assert {right.operation for right in rights_of("analytics", TOPOLOGY)} == {"Read"}


def test_the_pipeline_may_on_topics_what_its_stages_may() -> None:
    def on_topics(*processes: str) -> set[Right]:
        return {r for name in processes for r in rights_of(name, TOPOLOGY) if r.resource == "topic"}

    assert on_topics("pipeline") == on_topics(*TOPOLOGY.fused)


@pytest.mark.parametrize(
    ("layout", "left_out"),
    [("fused", {"dedup", "scheduler", "dispatcher"}), ("apart", {"pipeline"}), (None, set())],
)
def test_a_layout_leaves_the_processes_of_the_other_out(
    layout: LayoutName | None, left_out: set[str]
) -> None:
    every = {user.process for user in users(TOPOLOGY)}
    assert every - {user.process for user in users(TOPOLOGY, layout=layout)} == left_out


def test_a_stage_may_ask_whether_the_pipeline_has_positions_of_its_inputs() -> None:
    """Also if the topology fuses no stage any more: it asks before it starts."""
    for topology in (TOPOLOGY, replace(TOPOLOGY, fused=())):
        for stage in topology.stages:
            if stage != "analytics" and layouts._fused_before(stage, topology):
                assert Right("group", "pipeline", "Describe") in rights_of(stage, topology)


def test_globs_become_the_topics_that_they_name(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("topics: [{name: limits.more, retention_days: 1}]\n")
    overlaid = load(tmp_path / "t.yaml")
    assert Right("topic", "limits.more", "Write") in rights_of("dispatcher", overlaid)
    assert Right("topic", "limits.more", "Write") not in rights_of("ingress", overlaid)


def test_workers_have_no_user() -> None:
    assert not [user for user in users(TOPOLOGY) if user.process.startswith("worker")]
    assert rights_of("worker", TOPOLOGY) == ()


def test_names_are_whole_but_for_the_instances_of_a_transactional_id() -> None:
    for user in users(TOPOLOGY, "a."):
        for right in user.rights:
            assert right.name.startswith("a.")
            assert "*" not in right.name
            assert right.prefixed == right.name.endswith("-")
            assert right.prefixed <= (right.resource == "transactional_id")


def test_what_another_right_implies_is_left_out() -> None:
    for user in users(TOPOLOGY):
        for right in user.rights:
            others = {r.operation for r in user.rights if r.name == right.name} - {right.operation}
            if right.operation == "Describe":
                assert not others & {"Read", "Write", "Delete"}
            if right.operation == "DescribeConfigs":
                assert "AlterConfigs" not in others


def test_a_process_that_the_topology_does_not_know_has_no_rights() -> None:
    assert rights_of("worker-nowhere", TOPOLOGY) == ()


def test_a_shell_keeps_every_name_whole(tmp_path: Path) -> None:
    found = users(TOPOLOGY, HOSTILE)
    command = tmp_path / "kafka-acls.sh"
    command.write_text("#!/bin/sh\nprintf '%s\\0' kafka-acls.sh \"$@\"\n")
    command.chmod(0o700)
    script = as_commands(found, HOSTILE, "kafka-1:9093,kafka-2:9093")
    ran = subprocess.run(
        ["/bin/sh", "-c", script],
        env={"PATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [path.name for path in tmp_path.iterdir()] == ["kafka-acls.sh"]
    assert set(_granted(ran.stdout.split("\0")[:-1])) == {
        (f"User:{HOSTILE}{user.process}", right) for user in found for right in user.rights
    }


def _granted(words: list[str]) -> Iterable[tuple[str, Right]]:
    kinds = {"--topic": "topic", "--group": "group", "--transactional-id": "transactional_id"}
    starts = [n for n, word in enumerate(words) if word == "kafka-acls.sh"]
    for start, end in zip(starts, [*starts[1:], len(words)], strict=True):
        assert words[start + 1 : start + 6] == [
            "--bootstrap-server",
            "kafka-1:9093,kafka-2:9093",
            "--command-config",
            "admin.properties",
            "--add",
        ]
        pairs = list(zip(words[start + 6 : end : 2], words[start + 7 : end : 2], strict=True))
        (principal,) = [value for name, value in pairs if name == "--allow-principal"]
        prefixed = ("--resource-pattern-type", "prefixed") in pairs
        for operation in (value for name, value in pairs if name == "--operation"):
            for name, value in pairs:
                if name in kinds:
                    yield principal, Right(kinds[name], value, operation, prefixed)  # type: ignore[arg-type]


def test_strimzis_objects_keep_every_name_whole() -> None:
    found = users(TOPOLOGY, HOSTILE)
    documents = list(yaml.safe_load_all(as_strimzi(found, "tidegate-", HOSTILE)))
    assert [each["metadata"]["name"] for each in documents] == [
        f"tidegate-{user.process}" for user in found
    ]
    types = {"topic": "topic", "group": "group", "transactionalId": "transactional_id"}
    for user, document in zip(found, documents, strict=True):
        assert document["metadata"]["labels"] == {"strimzi.io/cluster": HOSTILE}
        assert (document["apiVersion"], document["kind"]) == ("kafka.strimzi.io/v1", "KafkaUser")
        granted = {
            Right(
                types[acl["resource"]["type"]],  # type: ignore[arg-type]
                acl["resource"]["name"],
                operation,
                acl["resource"]["patternType"] == "prefix",
            )
            for acl in document["spec"]["authorization"]["acls"]
            for operation in acl["operations"]
        }
        assert granted == set(user.rights)


@pytest.mark.parametrize(
    ("topics", "users"),
    [("", "tidegate-"), ("staging.", "tidegate-staging-"), ("a_b..c", "tidegate-a-b-c-")],
)
def test_installations_on_one_kafka_have_users_of_their_own(topics: str, users: str) -> None:
    assert default_user_prefix(topics) == users


@pytest.mark.parametrize("prefix", ["Tidegate-", "-", "a b", "x" * 60, "CN="])
def test_a_name_that_kubernetes_refuses_is_told(prefix: str) -> None:
    with pytest.raises(ConfigError, match="--user-prefix"):
        as_strimzi(users(TOPOLOGY), prefix, "my-cluster")


def test_the_json_has_each_right_by_itself() -> None:
    user = User("dedup", (Right("transactional_id", "t.dedup-", "Write", prefixed=True),))
    assert as_json([user], "tidegate-") == [
        {
            "process": "dedup",
            "user": "tidegate-dedup",
            "rights": [
                {
                    "resource": "transactional_id",
                    "name": "t.dedup-",
                    "pattern": "prefixed",
                    "operation": "Write",
                }
            ],
        }
    ]


def test_a_right_reads_as_a_message_tells_it() -> None:
    assert str(Right("topic", "events", "Read")) == "Read on topic events"
    told = str(Right("transactional_id", "dedup-", "Write", prefixed=True))
    assert told == "Write on transactional id dedup-..."

"""Whichever right is taken away, the process that needs it says so by name.

Each right of each user is taken away by itself. A process is started, or the command is run that
needs the right. `make chaos` tries every one; `make test` tries one of each kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from urllib.error import HTTPError

import pytest
import yaml
from _pytest.mark import ParameterSet
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from support.conditions import PATIENCE_SECONDS, eventually
from support.own_users import OVERLAY, OwnUsers, own_users
from support.positions import set_positions
from support.stage_process import StageProcess

from streams.serde.codec import DEAD_LETTER
from streams.serde.records import DeadLetter
from streams.topology.load import load
from streams.topology.model import FUSED, Topology
from streams.topology.rights import Right, users

pytestmark = pytest.mark.broker

PREFIX = "t."
SAMPLE = (
    ("ingress", "Write on topic t.payloads"),
    ("pipeline", "Describe on group t.dedup"),
    ("pipeline", "Write on transactional id t.pipeline-..."),
    ("delivery", "DescribeConfigs on topic t.jobs"),
    ("pipeline", "Write on topic t.jobs.live"),
    ("topology", "Create on topic t.events"),
    ("topology", "Delete on group t.pipeline"),
    ("topology", "Read on topic t.schedule"),
)


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnUsers]:
    with own_users(tmp_path_factory.mktemp("missing"), PREFIX) as found:
        yield found


def topology() -> Topology:
    """The one that the processes have."""
    with NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(OVERLAY, file)
        file.flush()
        return load(Path(file.name))


TOPOLOGY = topology()
APART = TOPOLOGY.fused


def every_right() -> list[ParameterSet]:
    """Each right of each user; all but the sample are left to `make chaos`."""
    return [
        pytest.param(
            user.process,
            right,
            id=f"{user.process}: {right}",
            marks=[] if (user.process, str(right)) in SAMPLE else [pytest.mark.chaos],
        )
        for user in users(TOPOLOGY, PREFIX)
        for right in user.rights
    ]


def test_the_sample_is_of_rights_that_there_are() -> None:
    known = {
        (user.process, str(right)) for user in users(TOPOLOGY, PREFIX) for right in user.rights
    }
    assert set(SAMPLE) <= known


@pytest.mark.parametrize(("process", "right"), every_right())
def test_the_right_that_is_missing_is_named(
    processes: OwnUsers, process: str, right: Right
) -> None:
    if process in (FUSED, *APART):
        forget_positions(processes, *(APART if process == FUSED else (FUSED,)))
    if process == "topology":
        told = command_told(processes, right)
    else:
        with processes.without(process, right):
            told = process_told(processes, process, right)
    assert "tidegate topology describe --acls" in told


def process_told(processes: OwnUsers, process: str, right: Right) -> str:
    """Start the process, and return the line in which it names the right."""
    started = processes.start(process)
    try:
        if (right.resource, process) == ("transactional_id", "operator"):
            processes.ready("operator-0")
            asked = change_under_a_condition if "settings" in right.name else ask_for_a_replay
            asked(processes)
        return eventually(lambda: named(started, right), what=f"{process} names {right}")
    finally:
        processes.kill_all()


def named(process: StageProcess, right: Right) -> str:
    told = str(right).removesuffix("...")
    return next((line for line in process.lines.splitlines() if told in line), "")


def ask_for_a_replay(processes: OwnUsers) -> None:
    """Have the operator send a dead record in again, which it cannot."""
    letter = DeadLetter(
        "scheduler:schedule:0:0",
        "record",
        "",
        "undecodable",
        "odd",
        "scheduler",
        1,
        "schedule",
        0,
        0,
        b"odd",
        b"no record",
    )
    producer = Producer(processes.kafka.client())
    producer.produce(f"{PREFIX}dlq", DEAD_LETTER.encode(letter), letter.id.encode(), 0)
    assert producer.flush(10) == 0
    calls = processes.calls("operator-0")
    letters = "/v1/dlq?kind=record"
    eventually(lambda: calls.ask("GET", letters)["dead_letters"], what="the letter is shown")
    with pytest.raises(HTTPError, match="503"):
        calls.ask("POST", f"/v1/dlq/{letter.id}/replay", {"incident_note": "again"})


def change_under_a_condition(processes: OwnUsers) -> None:
    """Have the operator make a tenant that must not be there yet, which it cannot."""
    calls = processes.calls("operator-0")
    with pytest.raises(HTTPError, match="503"):
        calls.ask("PUT", "/v1/tenants/acme", {"display_name": "Acme"}, **{"If-None-Match": "*"})


def command_told(processes: OwnUsers, right: Right) -> str:
    """Run a command that needs the right; mend what it left undone; return what it said."""
    if right.resource == "group" or right.operation == "Read":
        return layout_told(processes, right)
    if right.operation == "Create":
        delete_topic(processes, right.name)
    if right.operation == "AlterConfigs":
        change_setting(processes, right.name)
    with processes.without("topology", right):
        said = processes.command(
            "topology", "topology", "apply", "--allow-unsafe", fails=True
        ).stderr
    processes.apply()
    return telling(said, right)


def layout_told(processes: OwnUsers, right: Right) -> str:
    """Change the layout such that a group has to be read or deleted."""
    group = right.name.removeprefix(PREFIX)
    deleted = right.operation == "Delete"
    apart = right.resource == "topic" or (group == FUSED) == deleted
    forget_positions(processes, FUSED, *APART)
    for name in [FUSED] if apart else APART:
        commit_positions(processes, name)
    with processes.without("topology", right):
        layout = "apart" if apart else "fused"
        said = processes.command("topology", "topology", "layout", layout, fails=True).stderr
    forget_positions(processes, FUSED, *APART)
    return telling(said, right)


def telling(said: str, right: Right) -> str:
    return next(line for line in said.splitlines() if f"{right} is missing" in line)


def delete_topic(processes: OwnUsers, name: str) -> None:
    admin = processes.kafka.admin
    admin.delete_topics([name])[name].result(10)
    eventually(
        lambda: name not in admin.list_topics(timeout=PATIENCE_SECONDS).topics,
        what=f"{name} is gone",
    )


def change_setting(processes: OwnUsers, name: str) -> None:
    entry = ConfigEntry("segment.bytes", "1048576", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    processes.kafka.admin.incremental_alter_configs([changed])[changed].result(10)


def commit_positions(processes: OwnUsers, group: str) -> None:
    """Give a group the position 0 in each of its inputs."""
    stages = APART if group == FUSED else (group,)
    topics = {topic for name in stages for topic in TOPOLOGY.stages[name].reads}
    places = [TopicPartition(PREFIX + topic, 0, 0) for topic in sorted(topics)]
    consumer = Consumer({**processes.kafka.client(), "group.id": PREFIX + group})
    set_positions(consumer, places)
    consumer.close()


def forget_positions(processes: OwnUsers, *groups: str) -> None:
    """Delete groups, once their sessions have ended."""
    for group in groups:
        eventually(lambda: deleted(processes, PREFIX + group), what=f"{group} is gone")  # noqa: B023


def deleted(processes: OwnUsers, group: str) -> bool:
    asked = processes.kafka.admin.delete_consumer_groups([group], request_timeout=5)
    try:
        asked[group].result(10)
    except KafkaException as error:
        return bool(error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND)
    return True


def test_the_doctor_needs_no_more_rights_than_a_process_and_names_those_that_it_lacks(
    processes: OwnUsers,
) -> None:
    ask = ("doctor", "--stage", FUSED, "--json")
    found = json.loads(processes.command(FUSED, *ask).stdout)["findings"]
    assert [each for each in found if each["status"] == "fail"] == []
    assert "itself failed" not in str(found)
    judged = {(f["area"], f["check"]): f for f in found if (f["area"], f["check"]) in OWN}
    fine = (f["status"] == "ok" or "no stage has run" in f["text"] for f in judged.values())
    assert (set(judged), all(fine)) == (OWN, True), judged
    right = Right("topic", f"{PREFIX}events", "Write")
    with processes.without(FUSED, right):
        found = json.loads(processes.command(FUSED, *ask, fails=True).stdout)["findings"]
    (failed,) = [each for each in found if each["status"] == "fail"]
    assert failed["text"] == f"the user on Kafka lacks {right}"


OWN = {("rights", "topics"), ("rights", "groups"), ("cluster", "reach")}
"""What the doctor can judge as the user of a process."""


@pytest.mark.chaos
def test_a_right_that_is_taken_away_while_a_process_runs_is_named_and_so_is_its_return(
    processes: OwnUsers,
) -> None:
    right = Right("topic", f"{PREFIX}payloads", "Write")
    ingress = processes.start("ingress")
    processes.ready("ingress-0")
    with processes.without("ingress", right):
        eventually(lambda: named(ingress, right), what="the right is named")
    ingress.wait_for("no right on Kafka is missing any more")
    processes.kill_all()

"""Faults of one node of an embedded cluster, under the load of an `Incident`."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from confluent_kafka import ElectionType, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from streams.broker.cluster import EmbeddedCluster
from streams.broker.cluster_file import node_dir
from streams.demo.verdict.groups import Groups
from streams.dev_state import read_state
from streams.kafka.admin import LeaderCachingAdmin
from streams.kafka.offsets import latest
from streams.topology.model import FUSED
from support.conditions import PATIENCE_SECONDS, eventually
from support.faulty_process import frozen
from support.incident_under_way import Incident
from support.kafka_tools import typed
from support.node_links import NodeLinks
from support.small_disk import SmallDisk
from support.stage_process import QUIET

REPLICAS = 3
_FROZEN_SECONDS, _CUT_SECONDS = 70, 30
_TRANSACTIONS = "__transaction_state"


@cache
def _admin(bootstrap: str) -> AdminClient:
    return LeaderCachingAdmin({"bootstrap.servers": bootstrap, **QUIET})


def admin_of(cluster: EmbeddedCluster) -> AdminClient:
    return _admin(cluster.bootstrap)


def leaders(cluster: EmbeddedCluster) -> dict[tuple[str, int], int]:
    """The leader of each partition of the cluster."""
    topics = admin_of(cluster).list_topics(timeout=PATIENCE_SECONDS).topics
    return {
        (name, p.id): p.leader for name, topic in topics.items() for p in topic.partitions.values()
    }


def out_of_sync(cluster: EmbeddedCluster) -> list[str] | None:
    """Partitions without a leader or with a replica that is behind; None if nobody answers."""
    try:
        topics = admin_of(cluster).list_topics(timeout=PATIENCE_SECONDS).topics
    except KafkaException:
        return None
    return [
        f"{name}/{p.id}"
        for name, topic in topics.items()
        for p in topic.partitions.values()
        if p.leader < 0 or len(p.isrs) < REPLICAS
    ]


def await_in_sync(cluster: EmbeddedCluster) -> None:
    eventually(lambda: out_of_sync(cluster) == [], what="all replicas are in sync")


def await_missed(cluster: EmbeddedCluster, lone: int) -> None:
    """The other nodes count a node to no replicas in sync, whatever it thinks itself.

    Each look is a new client's first request, which goes to the node named: later ones could go to
    the lone node, which still takes itself for the leader.
    """
    other = next(node for id_, node in cluster.nodes.items() if id_ != lone)

    def in_sync() -> bool:
        admin = AdminClient({"bootstrap.servers": other.bootstrap, **QUIET})
        topics = admin.list_topics(timeout=PATIENCE_SECONDS).topics.values()
        return any(lone in p.isrs for topic in topics for p in topic.partitions.values())

    eventually(lambda: not in_sync(), _CUT_SECONDS, what=f"the others miss node {lone}")


def held_back(cluster: EmbeddedCluster) -> list[str] | None:
    """Partitions whose last stable offset is not their end, Kafka's own among them."""
    admin = admin_of(cluster)
    levels = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
    try:
        topics = admin.list_topics(timeout=PATIENCE_SECONDS).topics
        asked = {TopicPartition(n, p): latest() for n, t in topics.items() for p in t.partitions}
        stable, ends = (
            {
                place: answer.result(20).offset
                for place, answer in admin.list_offsets(asked, isolation_level=level).items()
            }
            for level in levels
        )
    except KafkaException:
        return None
    return [f"{p.topic}/{p.partition}" for p, end in ends.items() if stable[p] != end]


def await_no_transaction(cluster: EmbeddedCluster) -> None:
    """No transaction hangs: a process that was killed may take its timeout of 10 s to lose it."""
    eventually(lambda: held_back(cluster) == [], what="no transaction is open")


def restart_each(incident: Incident) -> None:
    """Stop each node in order, and start it again once the others have gone on."""
    for id_, node in incident.cluster.nodes.items():
        node.stop()
        incident.struck()
        incident.moved(f"node {id_} stopped")
        incident.cluster.start()
        await_in_sync(incident.cluster)


def lose_a_disk(incident: Incident) -> None:
    """SIGKILL a node that leads, and bring it back empty."""
    victim = _leader_of_input(incident)
    incident.cluster.nodes[victim].kill()
    incident.struck()
    incident.moved(f"node {victim} killed")
    shutil.rmtree(node_dir(incident.kafka_dir, victim) / "kafka")
    incident.cluster.start()
    incident.struck()
    incident.moved("back, empty")
    await_in_sync(incident.cluster)


def freeze(incident: Incident) -> None:
    """SIGSTOP a node that leads, for longer than every session and transaction lasts."""
    victim = _leader_of_input(incident)
    with stopped(incident.cluster.nodes[victim].pid or 0):
        incident.struck()
        incident.moved(f"node {victim} frozen")
        incident.wait_until_struck_for(_FROZEN_SECONDS)
    incident.struck()
    incident.moved(f"node {victim} woken")


def cut_off(incident: Incident, links: NodeLinks, *, clients: bool) -> None:
    """Cut a node that leads off from the others, and from clients or not; then heal it.

    A node that clients still reach goes on as leader and coordinator of what it had, and tells
    them so: nothing has to move before it is healed.
    """
    victim = _leader_of_input(incident)
    if not clients:
        incident.struck()
    links.cut(victim, clients=clients)
    try:
        if clients:
            incident.struck()
            incident.moved(f"node {victim} cut off")
        await_missed(incident.cluster, victim)
        incident.wait_until_struck_for(_CUT_SECONDS)
    finally:
        links.heal()
    incident.struck()
    incident.moved(f"node {victim} healed")


def move_leaders(incident: Incident) -> None:
    """Make the next replica of every partition its leader, Kafka's own topics too; twice."""
    for turn in (1, 2):
        before = leaders(incident.cluster)
        _rotate(incident.cluster, incident.settings.data_dir)
        admin = admin_of(incident.cluster)
        admin.elect_leaders(ElectionType.PREFERRED, None).result(30)
        incident.struck()
        incident.moved(f"leaders moved, turn {turn}")
        after = leaders(incident.cluster)
        assert all(after[place] != was for place, was in before.items()), "a leader did not move"


def kill_coordinator(incident: Incident) -> None:
    """SIGKILL the coordinator of a stage's transaction while that one is open."""
    stage = FUSED if incident.layout.pipeline else "dispatcher"
    owners = Groups(incident.settings).owners(stage)
    pids = [_pid(incident, name) for name in sorted(set(owners.values()))]

    def caught() -> str | None:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        eventually(lambda: all(map(frozen, pids)), what=f"{stage} is frozen")
        open_ = incident.topics.held_back("jobs")
        if open_:
            return owners[min(open_)]
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        return None

    writer = eventually(caught, what=f"{stage} has a transaction open")
    led = leaders(incident.cluster)
    width = sum(topic == _TRANSACTIONS for topic, _ in led)
    victim = led[_coordinator(f"{incident.settings.topic_prefix}{writer}", width)]
    incident.cluster.nodes[victim].kill()
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    incident.struck()
    incident.moved(f"node {victim} killed, coordinator of the open transaction of {writer}")
    incident.cluster.start()
    await_in_sync(incident.cluster)


def fill_disk(incident: Incident, disk: SmallDisk, victim: int) -> None:
    """Fill the disk of a node, which ends; it comes back with room."""
    node = incident.cluster.nodes[victim]
    disk.fill()
    eventually(lambda: not node.running, what="the node ends")
    incident.struck()
    incident.moved(f"disk of node {victim} full")
    disk.free()
    incident.cluster.start()
    await_in_sync(incident.cluster)


def kill_two(incident: Incident) -> None:
    """SIGKILL two nodes at once, so that one replica in sync is left, and start them again."""
    victim = _leader_of_input(incident)
    for id_, node in incident.cluster.nodes.items():
        if id_ in (victim, victim % REPLICAS + 1):
            node.kill()
    incident.cluster.start()
    incident.struck()
    incident.moved("two nodes killed and started")


def kill_all(incident: Incident) -> None:
    """SIGKILL all nodes at once, and start them again."""
    incident.cluster.kill()
    incident.cluster.start()
    incident.struck()
    incident.moved("all nodes killed and started")


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: all(map(frozen, pids)), what="every thread stands still")
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _leader_of_input(incident: Incident) -> int:
    """The node that leads the partition of the incoming events that fills first."""
    ends = incident.topics.ends("events.received")
    busiest = max(ends, key=lambda p: ends[p])
    return leaders(incident.cluster)[incident.topics.prefix + "events.received", busiest]


def _pid(incident: Incident, name: str) -> int:
    processes = read_state(incident.settings.data_dir)["processes"]
    return int(next(each["pid"] for each in processes if each["name"] == name))


def _coordinator(transactional_id: str, width: int) -> tuple[str, int]:
    """The partition whose leader coordinates this id (Kafka: `Utils.abs` of Java's hash)."""
    hashed = 0
    for unit in transactional_id:
        hashed = (31 * hashed + ord(unit)) & 0xFFFFFFFF
    return _TRANSACTIONS, abs(hashed - (hashed >> 31 << 32)) % width


def _rotate(cluster: EmbeddedCluster, folder: Path) -> None:
    """Make the second replica of each partition the first, and so the preferred leader."""
    topics = admin_of(cluster).list_topics(timeout=PATIENCE_SECONDS).topics
    plan = [
        {"topic": name, "partition": p.id, "replicas": [*p.replicas[1:], p.replicas[0]]}
        for name, topic in topics.items()
        for p in topic.partitions.values()
    ]
    file = folder / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": plan}))
    typed(
        f"kafka-reassign-partitions.sh --bootstrap-server {cluster.bootstrap} "
        f"--reassignment-json-file {file} --execute"
    )

"""Three embedded brokers as their users meet them: three copies, and one may be lost at a time."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from support.cluster_faults import stopped
from support.conditions import PATIENCE_SECONDS, eventually, exit_code
from support.kafka_tools import typed
from support.open_transactions import (
    await_none_open,
    await_open,
    open_partitions,
    open_transactions,
)
from support.positions import set_positions
from typer.testing import CliRunner

from streams.broker.cluster import EmbeddedCluster
from streams.cli.topology import app as topology_app
from streams.kafka.admin import LeaderCachingAdmin, admin_client
from streams.kafka.groups import listed_groups
from streams.settings import Settings
from streams.topology.cluster import read_cluster
from streams.topology.load import load

pytestmark = [pytest.mark.broker, pytest.mark.fault]

CLI = "from streams.cli.broker import app; app()"
OPEN_SECONDS = 5
AWAY_SECONDS = 40
WIDTH = 16


def broker(*arguments: str) -> tuple[int, str]:
    """Exit code and output of `tidegate broker` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", CLI, *arguments], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def status(data_dir: Path) -> dict[str, Any]:
    _, told = broker("status", "--json", "--data-dir", str(data_dir))
    return dict(json.loads(told))


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a detached cluster that the command started."""
    where = tmp_path_factory.mktemp("cluster")
    code, told = broker(
        "start", "--nodes", "3", "--detach", "--port", "0", "--data-dir", str(where)
    )
    try:
        assert code == 0, told
        yield where
    finally:
        code, told = broker("stop", "--data-dir", str(where))
        assert (code, told.startswith("broker stopped (pids ")) == (0, True)
        assert status(where)["running"] is False


@pytest.fixture
def settings(data_dir: Path) -> Settings:
    return Settings(bootstrap=status(data_dir)["bootstrap"])


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    """One record in a transaction."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "transactional.id": f"{topic}-writer",
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value, partition=0)
    producer.commit_transaction(30)


def consume(bootstrap: str, topic: str, number: int) -> list[bytes | None]:
    """The topic's first records; their positions are committed."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    found: list[bytes | None] = []
    reader.assign([TopicPartition(topic, 0, 0)])

    def complete() -> bool:
        found.extend(message.value() for message in reader.consume(1, 0.2))
        return len(found) >= number

    eventually(complete, what=f"{number} records in {topic}")
    set_positions(reader, [TopicPartition(topic, 0, number)])
    reader.close()
    return found


def create(bootstrap: str, topic: str, partitions: int = 1, replicas: int = -1) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, replicas)])[topic].result(30)
    return admin


def test_apply_needs_no_consent_and_makes_three_copies_of_everything(settings: Settings) -> None:
    applied = CliRunner().invoke(topology_app, ["apply", "--bootstrap", settings.bootstrap])
    assert applied.exit_code == 0, applied.stderr
    create(settings.bootstrap, "orders")
    produce(settings.bootstrap, "orders", b"1")
    assert consume(settings.bootstrap, "orders", 1) == [b"1"]
    own = ("__transaction_state", "__consumer_offsets", "orders")
    names = [*load().topics, *own]
    found = read_cluster(admin_client(settings), names).topics
    copies = {name: found[name].replication for name in names}
    assert copies == dict.fromkeys(names, 3)
    needed = {name: found[name].config["min.insync.replicas"] for name in names}
    assert needed == dict.fromkeys(names, "2")
    unclean = {found[name].config["unclean.leader.election.enable"] for name in names}
    assert unclean == {"false"}


def test_a_killed_node_is_not_missed_and_comes_back(data_dir: Path, settings: Settings) -> None:
    admin = create(settings.bootstrap, "kept")
    produce(settings.bootstrap, "kept", b"1")
    before = status(data_dir)
    assert before["running"] is True
    (leader,) = (p.leader for p in admin.list_topics("kept").topics["kept"].partitions.values())
    pids = {node["node"]: node["pid"] for node in before["nodes"]}
    os.kill(pids[leader], signal.SIGKILL)

    produce(settings.bootstrap, "kept", b"2")
    assert consume(settings.bootstrap, "kept", 2)[:2] == [b"1", b"2"]
    assert status(data_dir)["running"] is False

    code, told = broker("start", "--detach", "--data-dir", str(data_dir))
    assert code == 0, told
    after = status(data_dir)
    same = {node["node"]: node["pid"] for node in after["nodes"] if node["node"] != leader}
    assert same == {node: pid for node, pid in pids.items() if node != leader}
    assert after["running"] is True
    assert sorted(after["bootstrap"].split(",")) == sorted(settings.bootstrap.split(","))
    code, told = broker("start", "--detach", "--data-dir", str(data_dir))
    assert code == 1
    assert "all nodes of" in told
    assert "--bootstrap" in told


def test_a_node_that_refuses_connections_is_not_dialled_without_a_pause(tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path) as cluster:
        told: list[str] = []
        admin = LeaderCachingAdmin(
            {
                "bootstrap.servers": cluster.bootstrap,
                "log_level": 0,
                "statistics.interval.ms": 500,
                "stats_cb": told.append,
            }
        )
        dialled = partial(dialled_times, admin, told, cluster.nodes[2].bootstrap)
        admin.list_consumer_groups(request_timeout=10).result(PATIENCE_SECONDS)  # asks each node
        for node in (2, 3):
            cluster.nodes[node].kill()
        before = dialled()
        for _ in range(4):
            admin.list_consumer_groups(request_timeout=2).exception(PATIENCE_SECONDS)
        assert dialled() - before < 200  # without a pause it is thousands


def dialled_times(admin: AdminClient, told: list[str], address: str) -> int:
    """How often the client has tried to connect to that broker, by its newest statistics."""
    told.clear()
    eventually(lambda: admin.poll(0.1) is not None and told, what="statistics of the client")
    brokers = json.loads(told[-1])["brokers"].values()
    return sum(b["connects"] for b in brokers if b["nodename"] == address)


def test_the_number_of_nodes_is_refused_with_a_clear_error(data_dir: Path, tmp_path: Path) -> None:
    code, told = broker("start", "--nodes", "2", "--data-dir", str(tmp_path))
    assert (code, told.startswith("error: --nodes 2: give --nodes 3")) == (2, True)
    code, told = broker("start", "--nodes", "1", "--data-dir", str(data_dir))
    assert (code, "it stays" in told) == (2, True)


@pytest.mark.chaos
def test_the_foreground_command_tells_of_a_lost_node_and_stops_the_others(tmp_path: Path) -> None:
    command = ["start", "--nodes", "3", "--port", "0", "--data-dir", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-u", "-c", CLI, *command], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("broker ready 127.0.0.1:")
            pids = {node["node"]: node["pid"] for node in status(tmp_path)["nodes"]}
            os.kill(pids[2], signal.SIGKILL)
            told = process.stdout.readline()
            assert told.startswith("node 2 ended with exit code 137; bring it back with: tidegate")
            process.send_signal(signal.SIGINT)
            assert exit_code(process) == 0
        finally:
            process.kill()
    assert all(node["pid"] is None for node in status(tmp_path)["nodes"])


@pytest.mark.chaos
def test_clients_ask_a_node_that_hangs_no_longer_than_a_broker_may_take(tmp_path: Path) -> None:
    """The others drop it after 9 s, of which clients hear unless they ask that very node.

    With librdkafka's default for an answer, 60 s, a third of the clients fails here.
    """
    with EmbeddedCluster(tmp_path) as cluster:
        clients = [admin_client(Settings(bootstrap=cluster.bootstrap)) for _ in range(8)]

        def lists(client: AdminClient) -> bool:
            try:
                return listed_groups(client, 5) is not None
            except KafkaException:
                return False

        def all_list(seconds: float) -> None:
            with ThreadPoolExecutor(len(clients)) as pool:
                for each in [pool.submit(await_list, each, seconds) for each in clients]:
                    each.result(2 * seconds)

        def await_list(client: AdminClient, seconds: float) -> None:
            eventually(lambda: lists(client), seconds, what="the brokers list their groups")

        all_list(30)
        with stopped(cluster.nodes[2].pid or 0):
            assert not lists(clients[0])
            all_list(45)


@pytest.mark.chaos
@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_no_transaction_stays_open_over_the_end_of_all_nodes(tmp_path: Path, ending: str) -> None:
    """Each is aborted when its time is over, which no broker saw; what was committed is there."""
    with EmbeddedCluster(tmp_path) as cluster:
        create(cluster.bootstrap, "open", WIDTH)
        produce(cluster.bootstrap, "open", b"kept")
        producers = open_transactions(cluster.bootstrap, "open", WIDTH, OPEN_SECONDS)
        over = time.monotonic() + OPEN_SECONDS
        await_open(cluster.bootstrap, "open", WIDTH)
        cluster.kill() if ending == "kill" else cluster.stop()
        del producers
        eventually(lambda: time.monotonic() > over, what="their time is over, and no broker saw it")
        cluster.start()
        await_none_open(cluster.bootstrap, "open", WIDTH)
        assert consume(cluster.bootstrap, "open", 1) == [b"kept"]


@pytest.mark.chaos
def test_a_transaction_that_hangs_is_found_and_ended_as_the_page_says(tmp_path: Path) -> None:
    """It hangs where the only replica in sync was away when its coordinator ended it."""
    with EmbeddedCluster(tmp_path) as cluster:
        admin = create(cluster.bootstrap, "open", WIDTH, replicas=1)
        victim = leaders(admin)[0]
        lost = [partition for partition, leader in leaders(admin).items() if leader == victim]
        produce(cluster.bootstrap, "open", b"kept")
        away_while_ended(cluster, victim, lost)
        cluster.start()
        eventually(
            lambda: open_partitions(cluster.bootstrap, "open", WIDTH) == lost, what="they hang"
        )
        found = {place for node in cluster.nodes for place in hanging(cluster.bootstrap, node)}
        assert {(topic, int(partition)) for topic, partition, _ in found} == {
            ("open", partition) for partition in lost
        }
        for topic, partition, offset in found:
            names = {"T": topic, "P": partition, "OFFSET": offset}
            typed(documented("abort", cluster.bootstrap, names))
        await_none_open(cluster.bootstrap, "open", WIDTH)
        assert consume(cluster.bootstrap, "open", 1) == [b"kept"]


def away_while_ended(cluster: EmbeddedCluster, victim: int, lost: list[int]) -> None:
    """Kill a node with transactions open on its partitions; return when their time is over."""
    producers = open_transactions(cluster.bootstrap, "open", WIDTH, AWAY_SECONDS)
    over = time.monotonic() + AWAY_SECONDS + 5
    await_open(cluster.bootstrap, "open", WIDTH)
    cluster.nodes[victim].kill()
    del producers
    others = ",".join(node.bootstrap for id_, node in cluster.nodes.items() if id_ != victim)
    admin = AdminClient({"bootstrap.servers": others, "log_level": 0})
    eventually(
        lambda: [p for p, leader in leaders(admin).items() if leader < 0] == lost,
        what="its partitions have no leader",
    )
    assert time.monotonic() + 5 < over, "a transaction was ended before"
    eventually(lambda: time.monotonic() > over, what="its coordinator has ended each transaction")


def leaders(admin: AdminClient, topic: str = "open") -> dict[int, int]:
    """The leader of each partition of the topic; -1 where there is none."""
    found = admin.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].partitions
    return {partition: found[partition].leader for partition in sorted(found)}


def hanging(bootstrap: str, node: int) -> list[tuple[str, str, str]]:
    """Topic, partition and first offset of what `find-hanging` shows of a node's partitions."""
    shown = typed(documented("find-hanging", bootstrap, {"N": str(node)}))
    print(shown)
    rows = [line.split() for line in shown.splitlines()[1:]]
    return [(row[0], row[1], row[5]) for row in rows if row]


def documented(command: str, bootstrap: str, values: dict[str, str]) -> str:
    """The command of docs/troubleshooting.md, with these values in the places of its names."""
    page = (Path(__file__).parents[2] / "docs/troubleshooting.md").read_text()
    (line,) = re.findall(rf"kafka-transactions\.sh [^`\n]* {command} [^`\n]*", page)
    return " ".join({"...": bootstrap, **values}.get(word, word) for word in line.split())

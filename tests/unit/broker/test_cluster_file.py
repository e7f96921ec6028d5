"""The number of a data directory's nodes, and their ports, stay what they are."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from streams.broker.cluster_file import (
    ClusterFile,
    cluster_file,
    read_cluster_file,
    save_cluster_file,
    settle,
    size_of_cluster,
)
from streams.broker.cluster_status import read_cluster_status, stop_cluster
from streams.broker.datadir import DataDir
from streams.broker.member import NodePorts
from streams.broker.ports import is_free
from streams.errors import BrokerError, ConfigError

FOUND = ClusterFile("id", {id_: NodePorts(20_000 + id_, 21_000, 22_000) for id_ in (1, 2, 3)})


def test_a_new_directory_has_the_nodes_that_are_asked_for_else_one(tmp_path: Path) -> None:
    assert size_of_cluster(tmp_path, None) == 1
    assert size_of_cluster(tmp_path, 3) == 3


@pytest.mark.parametrize("number", [-1, 0, 2, 4])
def test_other_numbers_are_refused(tmp_path: Path, number: int) -> None:
    with pytest.raises(ConfigError, match=rf"--nodes {number}: give --nodes 3.* or --nodes 1"):
        size_of_cluster(tmp_path, number)


def test_a_directory_keeps_its_number(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    assert size_of_cluster(tmp_path, None) == 1
    with pytest.raises(ConfigError, match=r"--nodes 3: .* is 1, and it stays"):
        size_of_cluster(tmp_path, 3)
    (tmp_path / "kafka").rmdir()
    save_cluster_file(tmp_path, FOUND)
    assert size_of_cluster(tmp_path, None) == 3
    with pytest.raises(ConfigError, match=r"--nodes 1: .* is 3, and it stays"):
        size_of_cluster(tmp_path, 1)


def test_a_lone_broker_is_kept_from_a_clusters_directory(tmp_path: Path) -> None:
    save_cluster_file(tmp_path, FOUND)
    with pytest.raises(BrokerError, match=r"holds a cluster.*--bootstrap"):
        DataDir(tmp_path).prepare()


def test_what_was_saved_is_read(tmp_path: Path) -> None:
    save_cluster_file(tmp_path / "new", FOUND)
    assert read_cluster_file(tmp_path / "new") == FOUND


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cluster_id": "a", "nodes": {"1": {"x": 1}}}'])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    cluster_file(tmp_path).write_text(text)
    with pytest.raises(BrokerError, match=r"cluster\.json is not readable.*restore it"):
        read_cluster_file(tmp_path)


def test_no_port_is_given_twice(tmp_path: Path) -> None:
    found = settle(None, tmp_path, 3, 0)
    assert list(found.nodes) == [1, 2, 3]
    assert len({port for node in found.nodes.values() for port in vars(node).values()}) == 9
    again = settle(found, tmp_path, 3, 0)
    assert again == found


def test_a_port_that_is_asked_for_is_no_other_nodes_former_one(tmp_path: Path) -> None:
    first = next(port for port in range(24_000, 31_000) if all(map(is_free, range(port, port + 6))))
    former = {node: NodePorts(first + 2 + node, first + node, 0) for node in (1, 2, 3)}
    found = settle(ClusterFile("id", former), tmp_path, 3, first)
    assert len({port for node in found.nodes.values() for port in vars(node).values()}) == 9


def test_clients_find_the_nodes_at_the_port_and_the_next_two(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerError, match=rf"port {port} "):
            settle(None, tmp_path, 3, port)
    ports = [node.clients for node in settle(None, tmp_path, 3, 19_871).nodes.values()]
    assert ports == [19_871, 19_872, 19_873]
    with pytest.raises(ConfigError, match="--port 65534: 3 nodes need as many ports"):
        settle(None, tmp_path, 3, 65_534)


def test_a_cluster_that_is_stopped_has_three_stopped_nodes(tmp_path: Path) -> None:
    save_cluster_file(tmp_path, FOUND)
    found = read_cluster_status(tmp_path)
    assert (found.several, found.running, found.pids, list(found.nodes)) == (
        True,
        False,
        [],
        [1, 2, 3],
    )
    assert stop_cluster(tmp_path) == found

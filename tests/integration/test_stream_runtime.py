"""The stream runtime on a real broker: exactly once, whatever dies when."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.cimpl import NewPartitions, NewTopic
from support.conditions import PATIENCE_SECONDS, eventually
from support.counting import counting_topology
from support.faulty_process import FaultyProcess
from support.granting import granting_topology
from support.group_progress import GroupProgress
from support.stage_process import Cluster

from streams.runtime import restore
from streams.runtime.backends import backend_for
from streams.runtime.doubted_ends import DoubtedEnds
from streams.runtime.restore import Restore
from streams.runtime.restoring_store import Restoring
from streams.runtime.stage import StoreSpec
from streams.runtime.topics import Changelog
from streams.serde.codec import DEAD_LETTER
from streams.state.memory import MemoryTables
from streams.state.store import Checkpoint

pytestmark = [pytest.mark.broker, pytest.mark.fault]

Start = Callable[..., FaultyProcess]
COUNT = (b"a", b"count")
CHANGELOG = "counting.counts.changelog"


@pytest.fixture
def cluster(kafka: Any) -> Cluster:
    return Cluster(kafka, counting_topology())


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Starts a process of the counting stage: `start(instance="0", **environ)`."""
    running: list[FaultyProcess] = []

    def start_(instance: str = "0", **environ: str) -> FaultyProcess:
        settings = {**cluster.environ(tmp_path / "data", instance), **environ}
        log = tmp_path / f"{instance}-{len(running)}.log"
        running.append(FaultyProcess("counting_stage", log, settings))
        return running[-1]

    yield start_
    for process in running:
        process.kill()


def counts(cluster: Cluster) -> list[tuple[bytes | None, bytes | None]]:
    return cluster.pairs("out")


def counted(number: int) -> list[tuple[bytes, bytes]]:
    return [(b"a", b"%d" % n) for n in range(1, number + 1)]


def test_records_are_counted_and_a_clean_stop_leaves_nothing_to_restore(
    cluster: Cluster, start: Start
) -> None:
    cluster.create()
    first = start()
    cluster.send("in", [COUNT] * 500)
    eventually(lambda: len(counts(cluster)) == 500, what="500 counts")
    assert first.stop() == 0
    assert "stage stopped" in first.lines
    second = start()
    second.wait_for("running")
    cluster.send("in", [COUNT])
    eventually(lambda: len(counts(cluster)) == 501, what="501 counts")
    assert counts(cluster) == counted(501)
    restored = [line for line in second.lines.splitlines() if "store restored" in line]
    assert all('"entries": 0' in line for line in restored)


def test_exactly_once_across_sigkill(cluster: Cluster, start: Start, tmp_path: Path) -> None:
    """With a key-value store, and what is derived from it."""
    cluster.create()
    process, sent = start(), 0
    for step, wipe in [("before_commit", False), ("after_commit", True), ("after_write", False)]:
        process.points.arm(step, signal.SIGKILL)
        cluster.send("in", [COUNT] * 20)
        process.await_fault(step, signal.SIGKILL)
        if wipe:
            shutil.rmtree(tmp_path / "data")
        process, sent = start(), sent + 20
        eventually(lambda: counts(cluster) == counted(sent), what=f"{sent} counted once")  # noqa: B023


def test_poison_and_refused_outputs_go_to_dlq_and_the_stage_moves_on(
    cluster: Cluster, start: Start
) -> None:
    cluster.create()
    process = start()
    verbs = [b"count", b"poison", b"lost", b"count", b"huge", b"count"]
    cluster.send("in", [(b"a", verb) for verb in verbs])
    eventually(lambda: counts(cluster) == counted(3), what="the good records counted")
    letters = [DEAD_LETTER.decode(m.value()) for m in cluster.read("dlq")]
    assert [(letter.id, letter.reason) for letter in letters] == [
        ("counting:in:0:1", "bad_verb"),
        ("counting:in:0:2", "output_refused"),
        ("counting:in:0:4", "output_refused"),
    ]
    cluster.send("in", [(b"a", b"crash")])
    assert process.exit_code() == 1
    assert "in process" in process.said("processor raised")["error"], "the traceback is not logged"
    assert len(cluster.read("dlq")) == 3


def test_what_only_the_broker_refuses_is_found_in_a_large_batch(
    cluster: Cluster, start: Start
) -> None:
    """The refusal comes while the rest of the batch is still being sent, or its positions are."""
    cluster.create()
    process = start()
    process.wait_for("running")
    cluster.configure("out", "max.message.bytes", "500000")
    cluster.send("in", [(b"a", b"large"), *[COUNT] * 9_000])
    eventually(lambda: len(counts(cluster)) == 9_000, what="the good records counted")
    assert counts(cluster) == counted(9_000)
    (letter,) = [DEAD_LETTER.decode(m.value()) for m in cluster.read("dlq")]
    assert (letter.id, letter.reason) == ("counting:in:0:0", "output_refused")
    assert "producer is replaced" not in process.lines, "it was no fault of the producer's"


def test_a_damaged_store_is_rebuilt(cluster: Cluster, start: Start, tmp_path: Path) -> None:
    cluster.create()
    first = start()
    cluster.send("in", [COUNT] * 3)
    eventually(lambda: len(counts(cluster)) == 3, what="3 counts")
    assert first.stop() == 0
    for file in (tmp_path / "data/state/counting/0/counts/0").glob("MANIFEST-*"):
        file.write_bytes(b"damaged")
    second = start()
    cluster.send("in", [COUNT])
    eventually(lambda: counts(cluster) == counted(4), what="the fourth count")
    assert "store is rebuilt" in second.lines


def test_a_store_from_before_its_changelogs_start_is_rebuilt(
    cluster: Cluster, start: Start
) -> None:
    """Between its checkpoint and what is left there may have been deletions."""
    cluster.create()
    for instance, number in (("0", 3), ("1", 6)):
        process = start(instance)
        cluster.send("in", [COUNT] * 3)
        eventually(lambda: counts(cluster) == counted(number), what=f"{number} counts")  # noqa: B023
        assert process.stop() == 0
    last = cluster.read(CHANGELOG)[-1].offset()
    changelog = cluster.prefix + CHANGELOG
    assert last is not None
    cluster.configure(CHANGELOG, "cleanup.policy", "compact,delete")
    for deleted in cluster.admin.delete_records([TopicPartition(changelog, 0, last)]).values():
        deleted.result(10)
    cluster.configure(CHANGELOG, "cleanup.policy", "compact")
    stale = start("0")
    stale.wait_for("store is rebuilt")
    assert f"before the changelog's start {last}" in stale.lines
    cluster.send("in", [COUNT])
    eventually(lambda: counts(cluster) == counted(7), what="the seventh count")


def test_a_changelog_that_was_made_anew_is_not_that_of_the_store(
    cluster: Cluster, start: Start
) -> None:
    """Its offsets say nothing about the store; what it held is lost, and the log says so."""
    cluster.create()
    first = start()
    cluster.send("in", [COUNT] * 3)
    eventually(lambda: counts(cluster) == counted(3), what="3 counts")
    assert first.stop() == 0
    for gone in cluster.admin.delete_topics([cluster.prefix + CHANGELOG]).values():
        gone.result(10)
    eventually(
        lambda: (
            cluster.prefix + CHANGELOG
            not in cluster.admin.list_topics(timeout=PATIENCE_SECONDS).topics
        ),
        what="the changelog is gone",
    )
    cluster.create("in", "out", "dlq", "clock")
    start().wait_for("store is rebuilt")
    cluster.send("in", [COUNT])
    again = [*counted(3), *counted(1)]
    eventually(lambda: counts(cluster) == again, what="counted from one again")


def test_a_restore_ends_also_if_all_that_was_left_is_deleted_meanwhile(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The consumer finds the new start of the changelog, and nothing more to read."""
    monkeypatch.setattr(restore, "_TELL_SECONDS", 0.5)
    cluster.create()
    cluster.configure(CHANGELOG, "cleanup.policy", "compact,delete")
    cluster.send(CHANGELOG, [(b"a", b"1")] * 5)
    backend = backend_for(StoreSpec("counts", CHANGELOG), MemoryTables())
    store = Restoring("counts", 0, backend, Changelog(CHANGELOG, "id", 86_400_000))
    reader = {**cluster.client(group_id="restoring"), "auto.offset.reset": "earliest"}
    changelog = TopicPartition(cluster.prefix + CHANGELOG, 0, 5)
    asked = cluster.admin, cluster.prefix, reader, 0, DoubtedEnds()
    with closing(Restore([store], *asked)) as restoring:
        restoring.close()  # it reads on with a new consumer
        for deleted in cluster.admin.delete_records([changelog]).values():
            deleted.result(10)
        eventually(lambda: restoring.advance(0), what="the restore has ended")
    assert backend.checkpoint() == Checkpoint(5, 0)


def test_input_that_was_deleted_before_it_was_read_is_told(cluster: Cluster, start: Start) -> None:
    cluster.create()
    first = start()
    cluster.send("in", [COUNT] * 3)
    eventually(lambda: counts(cluster) == counted(3), what="3 counts")
    assert first.stop() == 0
    cluster.send("in", [COUNT] * 5)
    gone = TopicPartition(f"{cluster.prefix}in", 0, 7)
    for deleted in cluster.admin.delete_records([gone]).values():
        deleted.result(10)
    second = start()
    eventually(lambda: counts(cluster) == counted(4), what="what is left is counted")
    [told] = [line for line in second.lines.splitlines() if "deleted before it was read" in line]
    assert '"offsets": 4' in told


def test_another_number_of_partitions_than_declared_is_refused(
    cluster: Cluster, start: Start
) -> None:
    cluster.create()
    process = start(PARTITIONS="3")
    assert process.exit_code() != 0
    assert "in has 2 partitions, topology.yaml says 3" in process.lines


def test_more_partitions_while_it_runs_are_refused(cluster: Cluster, start: Start) -> None:
    cluster.create()
    process = start(TIDEGATE_KAFKA_TOPIC_METADATA_REFRESH_INTERVAL_MS="500")
    process.wait_for("running")
    grown = cluster.admin.create_partitions([NewPartitions(f"{cluster.prefix}in", 3)])
    grown[f"{cluster.prefix}in"].result(10)
    assert process.exit_code() != 0
    assert "in has 3 partitions, topology.yaml says 2" in process.lines


def test_it_says_once_that_topics_are_missing_and_goes_on_when_they_come(
    cluster: Cluster, start: Start
) -> None:
    process = start()
    process.wait_for("topics are missing")
    cluster.create()
    cluster.send("in", [COUNT])
    eventually(lambda: counts(cluster) == counted(1), what="the record counted")
    assert process.lines.count("topics are missing") == 1


def test_a_zombies_transaction_of_timers_alone_is_fenced(cluster: Cluster, start: Start) -> None:
    cluster.create()
    zombie = start("0")
    zombie.points.arm("punctuated", signal.SIGSTOP)
    cluster.send("in", [(b"a", b"tick")])
    zombie.await_fault("punctuated", signal.SIGSTOP)
    assert counts(cluster) == counted(1), "the timer is set"
    heir = start("1")
    eventually(lambda: len(counts(cluster)) == 2, what="the heir fired the timer")
    zombie.signal(signal.SIGCONT)
    zombie.wait_for("transaction aborted")
    cluster.send("in", [COUNT])
    eventually(lambda: len(counts(cluster)) == 3, what="the group works on")
    assert [key for key, _ in counts(cluster)] == [b"a", b"tick:a", b"a"]
    assert heir.stop() == 0


def test_a_topic_that_is_deleted_under_a_stage_costs_no_record(
    cluster: Cluster, start: Start
) -> None:
    """The stage ends, waits for the topic when it is started again, and does what it had to do."""
    cluster.create()
    first = start()
    cluster.send("in", [COUNT])
    eventually(lambda: counts(cluster) == counted(1), what="one count")
    delete(cluster, "out")
    cluster.send("in", [COUNT])
    assert first.exit_code(90) == 1
    assert "topic out is gone" in first.said("stage failed")["error"]
    second = start()
    second.wait_for("topics are missing: waiting")
    cluster.create("in", "dlq", "clock", CHANGELOG)
    eventually(lambda: counts(cluster) == counted(2)[1:], what="the second count")
    assert cluster.pairs("dlq") == []


def test_a_work_topic_that_is_deleted_holds_back_what_was_for_it_alone(
    kafka: Any, start: Start, cluster: Cluster
) -> None:
    topology = granting_topology()
    granting = Cluster(kafka, topology)
    granting.create()
    work = NewTopic(granting.prefix + "nowhere", 2, 1)
    granting.admin.create_topics([work])[work.topic].result(30)
    stage = start(STAGE="granting", TIDEGATE_TOPIC_PREFIX=granting.prefix)
    granting.send("in", [(b"a", b"grant"), (b"b", b"nowhere")])
    eventually(lambda: (b"a", b"granted") in granting.pairs("out"), what="one is granted")
    delete(granting, "nowhere")
    granting.send("in", [(b"c", b"nowhere"), (b"d", b"grant")])
    eventually(lambda: (b"d", b"granted") in granting.pairs("out"), what="the other is granted")
    assert stage.alive
    assert granting.pairs("dlq") == []
    assert stage.said("an output that belongs to no record is refused")["missing"]


def delete(cluster: Cluster, topic: str) -> None:
    name = cluster.prefix + topic
    cluster.admin.delete_topics([name])[name].result(30)
    eventually(
        lambda: name not in cluster.admin.list_topics(timeout=PATIENCE_SECONDS).topics,
        what="it is gone",
    )


def test_records_that_change_nothing_are_committed_soon_and_at_a_clean_stop(
    cluster: Cluster, start: Start
) -> None:
    cluster.create()
    first = start()
    with closing(GroupProgress(cluster, "counting", "in")) as progress:
        cluster.send("in", [(b"a", b"skip")] * 3)
        assert not progress.await_end()
        cluster.send("in", [(b"a", b"skip")])
        read = "tidegate_stage_records_total"
        eventually(lambda: first.metric(read) == 4, what="the fourth record is read")
        assert first.stop() == 0
        assert progress.committed()[0] >= 4
    assert not counts(cluster)

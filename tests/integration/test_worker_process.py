"""A real worker process on a real broker, opposite a dispatcher that the test plays."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.conditions import PATIENCE_SECONDS, eventually, exit_code
from support.group_members import members_at_rest, static_member
from support.kafka_under_test import KafkaUnderTest
from support.played_dispatcher import PARTITIONS, VAULT_KEY, Dispatcher
from support.worker_bench import CLUSTER_KEY

from streams.broker.embedded import EmbeddedKafka
from streams.broker.ports import pick_free
from streams.serde.codec import DEAD_LETTER, REPLY
from streams.serde.lease_mac import seal_lease
from streams.serde.records import (
    Checkpoint,
    Declined,
    Heartbeat,
    Outcome,
    Reply,
    TenantRecord,
)
from streams.serde.sizes import CHUNK_BYTES
from streams.settings import load_settings

pytestmark = pytest.mark.broker

APP = """
import asyncio, hashlib, multiprocessing, os, time
from streams import App, Context
app = App("test")

async def send(idempotency_key, text):
    return {"key": idempotency_key, "text": text}

@app.job("whole")
async def whole(ctx: Context):
    body = (await ctx.payload()).decode()
    draft = await ctx.step("draft", str.upper, body)
    await ctx.progress({"pct": 50})
    return await ctx.effect("email:send", send, key="reply", text=draft)

@app.job("measures")
async def measures(ctx: Context):
    body = await ctx.payload()
    return [len(body), hashlib.sha256(body).hexdigest()]

@app.job("waits")
async def waits(ctx: Context):
    await ctx.progress("begun")
    await asyncio.Event().wait()

@app.job("forks")
async def forks(ctx: Context):
    with multiprocessing.Pool(2) as pool:
        squares = pool.map(abs, [-1, -2])
    child = multiprocessing.Process(target=time.sleep, args=(600,))
    child.start()
    child.terminate()
    child.join()
    return [squares, child.exitcode]

@app.job("blocks")
async def blocks(ctx: Context):
    while True:
        time.sleep(0.1)
"""
TOPOLOGY = """
partitions: 2
topics:
  - {name: jobs.work.default, partitions: 4}
  - {name: jobs.work.slow, partitions: 4, retention_days: 1}
  - {name: jobs.replies, partitions: 4}
pools:
  - {name: slow}
leases: {term_seconds: 12, heartbeat_seconds: 1, margin_seconds: 2}
"""


@dataclass
class WorkerProcess:
    process: subprocess.Popen[bytes]
    log: Path
    probe_port: int

    def ready(self) -> bool:
        probe = f"http://127.0.0.1:{self.probe_port}/readyz"
        try:
            with urllib.request.urlopen(probe, None, 10) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.probe_port}/metrics") as page:
            lines = page.read().decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))

    def ends(self, timeout: float = PATIENCE_SECONDS) -> int:
        return self.process.wait(timeout)


Start = Callable[..., WorkerProcess]


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """The session's Kafka, or with "own" one that the test may kill."""
    if getattr(request, "param", "") != "own":
        yield request.getfixturevalue("kafka")
        return
    with EmbeddedKafka(tmp_path / "kafka") as broker:
        yield KafkaUnderTest(broker.bootstrap, broker.client_settings, broker)


@pytest.fixture
def dispatcher(cluster: Any) -> Iterator[Dispatcher]:
    prefix = f"test-{uuid.uuid4().hex[:8]}."
    admin = AdminClient(cluster.client())
    four = ("jobs.work.default", "jobs.work.slow", "jobs.replies")
    names = (
        *four,
        "jobs.commands",
        "jobs.progress",
        "jobs.live",
        "jobs.types",
        "payloads",
        "tenants",
        "dlq",
    )
    topics = [NewTopic(prefix + n, 4 if n in four else PARTITIONS, 1) for n in names]
    for future in admin.create_topics(topics).values():
        future.result(30)
    made = Dispatcher(cluster.client(), prefix)
    yield made
    made.consumer.close()
    for future in admin.delete_topics([prefix + name for name in names]).values():
        future.result(30)


@pytest.fixture
def start(cluster: Any, dispatcher: Dispatcher, tmp_path: Path) -> Iterator[Start]:
    """Start workers; what is left of them at the end is killed."""
    started: list[WorkerProcess] = []
    (tmp_path / "jobs.py").write_text(APP)
    (tmp_path / "topology.yaml").write_text(TOPOLOGY)
    (tmp_path / "vault.key").write_bytes(VAULT_KEY)
    (tmp_path / "cluster.key").write_bytes(CLUSTER_KEY)
    passed = {
        f"TIDEGATE_KAFKA_{k.upper().replace('.', '_')}": v
        for k, v in cluster.client_settings.items()
    }

    def run(instance: str = "w1", slots: int = 2, pools: tuple[str, ...] = ()) -> WorkerProcess:
        environment = {
            **os.environ,
            **passed,
            "TIDEGATE_TOPIC_PREFIX": dispatcher.prefix,
            "TIDEGATE_VAULT_KEY_FILE": str(tmp_path / "vault.key"),
            "TIDEGATE_CLUSTER_KEY_FILE": str(tmp_path / "cluster.key"),
        }
        port, log = pick_free(), tmp_path / f"{instance}-{len(started)}.log"
        command = [
            str(Path(sys.executable).parent / "tidegate"),
            "worker",
            "--app",
            "jobs:app",
            "--bootstrap",
            cluster.bootstrap,
            "--topology",
            "topology.yaml",
            "--instance",
            instance,
            "--slots",
            str(slots),
            "--probe-port",
            str(port),
            *(word for pool in pools for word in ("--pool", pool)),
        ]
        with log.open("wb") as out:
            process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=out)
        started.append(WorkerProcess(process, log, port))
        return started[-1]

    yield run
    for worker in started:
        worker.process.kill()
        exit_code(worker.process)
        print(worker.log.read_text())


def worker_group(dispatcher: Dispatcher) -> str:
    return dispatcher.prefix + "worker-default"


def test_a_worker_commits_how_far_it_read(dispatcher: Dispatcher, start: Start) -> None:
    """While it runs, so that a successor reads few leases again, and at its end."""
    worker, read = start(), Consumer({**dispatcher.client, "group.id": worker_group(dispatcher)})

    def committed() -> int:
        places = [TopicPartition(dispatcher.prefix + "jobs.work.default", p) for p in range(4)]
        return sum(max(0, place.offset) for place in read.committed(places, 5))

    with closing(read):
        dispatcher.begun(dispatcher.lease("waits"))
        eventually(lambda: committed() == 1, what="the offset behind the lease")
        dispatcher.begun(dispatcher.lease("waits"))
        worker.process.send_signal(signal.SIGTERM)
        assert worker.ends() == 0
        assert committed() == 2


def test_a_job_from_lease_to_end(dispatcher: Dispatcher, start: Start) -> None:
    worker = start()
    lease = dispatcher.lease("whole", **dispatcher.payload(b"hello world"), home_partition=1)
    eventually(worker.ready, what="readiness")
    claim = dispatcher.grant(lease)
    ended = dispatcher.ended(lease)
    assert (ended.status, ended.free, ended.received) == ("succeeded", 1, 1)
    assert ended.result == '{"key":"idk_1","text":"HELLO WORLD"}'
    homes = {p for p, c in dispatcher.commands if c.job_id == lease.job_id}
    assert homes == {1}
    kept = dispatcher.find(Checkpoint, lambda c: c.job_id == lease.job_id)
    assert kept.step.value == '"HELLO WORLD"'
    outcome = dispatcher.find(Outcome, lambda c: c.job_id == lease.job_id)
    assert (outcome.claim_id, outcome.status) == (claim.claim_id, "done")
    dispatcher.begun(lease)


def test_a_body_of_50_chunks_is_put_together(dispatcher: Dispatcher, start: Start) -> None:
    body = os.urandom(1024) * (25 * 1024)
    stored = dispatcher.payload(body, CHUNK_BYTES)
    assert len(stored["payload_ref"].offsets) == 50
    start()
    ended = dispatcher.ended(dispatcher.lease("measures", **stored))
    assert (ended.status, ended.error) == ("succeeded", None)
    assert ended.result == f'[{len(body)},"{hashlib.sha256(body).hexdigest()}"]'


def test_an_erased_tenants_job_fails_for_good_and_says_why(
    dispatcher: Dispatcher, start: Start
) -> None:
    stored = dispatcher.payload(b"hello world")
    dispatcher.put_tenant("erasure", "", TenantRecord("acme", "erasure", "", True, "{}"))
    start()
    ended = dispatcher.ended(dispatcher.lease("whole", **stored))
    assert ended.status == "failed"
    assert "tenant acme was erased" in (ended.error or "")


def test_a_chunk_beyond_retention_fails_the_job_and_is_named(
    cluster: Any, dispatcher: Dispatcher, start: Start
) -> None:
    stored = dispatcher.payload(b"hello world")
    later = dispatcher.payload(b"hello again")
    gone = stored["payload_ref"].offsets[0]
    name = dispatcher.prefix + "payloads"
    admin = AdminClient(cluster.client())
    for future in admin.delete_records([TopicPartition(name, 1, gone + 1)]).values():
        future.result(30)
    start()
    ended = dispatcher.ended(dispatcher.lease("whole", **stored))
    assert ended.status == "failed"
    assert f"payloads:1:{gone} is gone" in (ended.error or "")
    assert dispatcher.grant(dispatcher.lease("whole", **later)).action == "email:send/reply"


def test_sigterm_releases_what_still_runs_and_ends_well(
    dispatcher: Dispatcher, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = start()
    lease = dispatcher.lease("waits")
    dispatcher.begun(lease)
    worker.process.send_signal(signal.SIGTERM)
    assert dispatcher.ended(lease).status == "released"
    assert worker.ends() == 0
    dispatcher.find(Heartbeat, lambda c: isinstance(c.body, Heartbeat) and c.body.free == 0)
    dispatcher.find(Heartbeat, lambda c: isinstance(c.body, Heartbeat) and c.body.leaving)


def test_one_process_runs_the_jobs_of_two_pools_and_drains_both(
    dispatcher: Dispatcher, start: Start
) -> None:
    worker = start(slots=3, pools=("default", "slow=1"))
    by_default, slow = dispatcher.lease("waits"), dispatcher.lease("waits", pool="slow")
    for lease in (by_default, slow):
        dispatcher.begun(lease)
    eventually(worker.ready, what="both are ready")
    assert worker.metric("tidegate_worker_running") == 2
    told = dispatcher.lease("whole", pool="slow", free=0, **dispatcher.payload(b"hello"))
    declined = dispatcher.find(Declined, lambda c: c.job_id == told.job_id)
    assert (declined.reason, declined.free) == ("full", 0)
    worker.process.send_signal(signal.SIGTERM)
    assert [dispatcher.ended(lease).status for lease in (by_default, slow)] == ["released"] * 2
    assert worker.ends() == 0


def test_a_process_ends_when_the_worker_of_one_of_its_pools_is_fenced(
    dispatcher: Dispatcher, start: Start
) -> None:
    first = start("w1", pools=("default", "slow=1"))
    lease = dispatcher.lease("waits")
    dispatcher.begun(lease)
    dispatcher.heartbeat(0, "slow-w1/")
    start("w1", pools=("slow",))
    assert first.ends() == 1
    assert dispatcher.ended(lease).status == "released"
    assert "another worker runs under this instance name" in first.log.read_text()


def test_children_that_a_handler_ends_leave_its_worker_alone(
    dispatcher: Dispatcher, start: Start
) -> None:
    """SIGTERM to a forked child reached the worker, which released all its runs and ended."""
    worker = start()
    beside = dispatcher.lease("waits")
    dispatcher.begun(beside)
    ended = dispatcher.ended(dispatcher.lease("forks"))
    assert (ended.status, ended.result) == ("succeeded", f"[[1,2],{-signal.SIGTERM}]")
    assert worker.process.poll() is None
    worker.process.send_signal(signal.SIGTERM)
    assert dispatcher.ended(beside).status == "released"


def test_a_restarted_worker_declines_the_leases_of_its_last_boot(
    cluster: Any, dispatcher: Dispatcher, start: Start
) -> None:
    first = start()
    lease = dispatcher.lease("waits")
    dispatcher.begun(lease)
    first.process.kill()
    first.ends()
    start()
    # Told apart by its boot: heartbeats of the first may still be on their way to the test.
    body = dispatcher.find(
        Heartbeat,
        lambda c: isinstance(c.body, Heartbeat) and c.body.worker_id != lease.worker_id,
    )
    # Static membership: it took the place of its last boot instead of one beside it.
    group = worker_group(dispatcher)
    admin = AdminClient(cluster.client())
    members = admin.describe_consumer_groups([group])[group].result(30).members
    assert [member.group_instance_id for member in members] == ["worker-default-w1"]
    dispatcher.write(
        "jobs.work.default",
        body.work_partition,
        b"acme",
        seal_lease(replace(lease, epoch=2), CLUSTER_KEY),
    )
    declined = dispatcher.find(Declined, lambda c: c.job_id == lease.job_id and c.epoch == 2)
    assert declined.reason == "not_mine"


def test_a_blocked_loop_is_named_and_ends_the_process(dispatcher: Dispatcher, start: Start) -> None:
    worker = start()
    lease = dispatcher.lease("blocks", timeout_seconds=1.0)
    listed = dispatcher.find(
        Heartbeat,
        lambda c: isinstance(c.body, Heartbeat) and bool(c.body.leases) and not c.body.free,
    )
    assert listed.leases[0].job_id == lease.job_id
    assert worker.ends() == 70
    text = re.sub(r"\x1b\[[0-9;]*m", "", worker.log.read_text())
    assert text.count("a handler blocks the event loop") == 1
    assert "time.sleep(0.1)" in text
    assert lease.job_id in text
    assert "blocked past its handler's timeout" in text


def test_two_workers_announce_partitions_of_their_own_and_leases_outlive_the_rebalance(
    dispatcher: Dispatcher, start: Start
) -> None:
    start("w1")
    lease = dispatcher.lease("waits")
    dispatcher.begun(lease)
    start("w2")
    second = dispatcher.heartbeat(0, "default-w2/").body
    assert isinstance(second, Heartbeat)
    # The first announces its old partition until it hears of its new ones.
    first = dispatcher.find(
        Heartbeat,
        lambda c: (
            isinstance(c.body, Heartbeat)
            and c.body.worker_id == lease.worker_id
            and c.body.work_partition != second.work_partition
            and bool(c.body.leases)
        ),
    )
    assert [held.job_id for held in first.leases] == [lease.job_id]
    cancel = Reply(lease.worker_id, lease.job_id, 1, "", "cancel")
    dispatcher.write("jobs.replies", first.work_partition, b"", REPLY.encode(cancel))
    assert dispatcher.ended(lease).status == "cancelled"


@pytest.mark.fault
def test_a_worker_works_though_another_ended_before_it_gave_partitions_up(
    cluster: Any, dispatcher: Dispatcher, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka gives the other the rest of its partitions at once, and lets the group be."""
    monkeypatch.setenv("TIDEGATE_SESSION_SECONDS", "6")
    settings = load_settings(
        bootstrap=cluster.bootstrap,
        topic_prefix=dispatcher.prefix,
        instance="w1",
        kafka=cluster.client_settings,
    )
    group, admin = worker_group(dispatcher), AdminClient(cluster.client())
    with static_member(settings, "worker-default", "jobs.work.default") as first:
        eventually(lambda: first.poll(0.1) or len(first.assignment()) == 4, what="it has all")
        second = start("w2")
        eventually(lambda: members_at_rest(admin, group) == 2, what="the second has joined")
        # The first has not polled since, so it gives nothing up. It lives until it is replaced.
        back = start("w1")
        eventually(lambda: back.ready() and second.ready(), what="both can be given work")


def test_a_second_process_under_one_instance_name_ends_the_first(
    dispatcher: Dispatcher, start: Start
) -> None:
    first = start("w1")
    dispatcher.heartbeat(0, "default-w1/")
    start("w1")
    assert first.ends() == 1
    assert "another worker runs under this instance name" in first.log.read_text()


def test_a_forged_lease_is_not_run_but_kept_for_the_operator(
    dispatcher: Dispatcher, start: Start
) -> None:
    start()
    body = dispatcher.heartbeat(0).body
    assert isinstance(body, Heartbeat)
    value = seal_lease(replace(dispatcher.lease("waits"), job_id="job_forged"), b"x" * 32)
    offset = dispatcher.write("jobs.work.default", body.work_partition, b"acme", value)
    consumer = dispatcher.reader("dlq")

    def letter() -> Any:
        message = consumer.poll(0.2)
        return None if message is None else DEAD_LETTER.decode(message.value())

    found = eventually(letter, what="a dead letter")
    consumer.close()
    assert (found.reason, found.offset, found.value) == ("forged_lease", offset, value)
    assert not [c for _, c in dispatcher.commands if c.job_id == "job_forged"]


@pytest.mark.parametrize("cluster", ["own"], indirect=True)
def test_a_silent_broker_ends_the_leases_and_a_new_start_of_it_the_silence(
    cluster: Any, dispatcher: Dispatcher, start: Start
) -> None:
    worker = start()
    lease = dispatcher.lease("waits")
    dispatcher.begun(lease)
    cluster.embedded.kill()
    eventually(lambda: "lease lost" in worker.log.read_text(), what="the lease's end")
    cluster.embedded.start()
    # Heartbeats of the outage come late, and may be too old to lease on.
    back_at = time.time_ns() // 10**6
    body = dispatcher.find(
        Heartbeat,
        lambda c: c.at > back_at and isinstance(c.body, Heartbeat) and c.body.free == 1,
    )
    assert (body.worker_id, body.leases) == (lease.worker_id, ())
    after = dispatcher.lease("whole", since=back_at, **dispatcher.payload(b"hello world"))
    dispatcher.grant(after)
    assert dispatcher.ended(after).status == "succeeded"
    assert not [c for _, c in dispatcher.commands if c.job_id == lease.job_id]

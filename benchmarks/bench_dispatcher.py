"""Jobs a second of one dispatcher process, from event to end, with a scripted worker.

    python benchmarks/bench_dispatcher.py [--jobs 6000] [--seconds 8] [--json]

The worker here answers each lease at once and runs nothing, so that the stage is measured: from
`events` to leases, claims, outcomes, job records and the ledger, all in transactions. `backlog`:
the events stand on the topic before the stage starts. `200 events/s`: one after the other,
counted from the event's sending to the moment at which the worker has the lease. Every job must
be leased once, succeed and stand in the ledger once where it has an effect, else the exit code
is 1.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace

from confluent_kafka import Message
from harness import Result, arguments, broker_and_folder, create_topics, report
from outside import (
    KEY,
    OVERLAY,
    GroupOffsets,
    Reader,
    flush,
    percentiles,
    producer,
    scan,
    stage,
    until,
)

from streams.serde.codec import COMMAND, ENVELOPE, JOB, LEDGER_ENTRY, REPLY
from streams.serde.ids import event_job_id, fingerprint, new_id, partition_for
from streams.serde.lease_mac import open_lease
from streams.serde.records import (
    Claim,
    Command,
    CommandBody,
    Ended,
    Envelope,
    Handler,
    Heartbeat,
    HeldLease,
    Lease,
    Outcome,
    PayloadRef,
    Reply,
)
from streams.topology.load import load

TOPOLOGY = load(OVERLAY)
TENANTS = 40
SLOTS = 200
STEADY_RATE = 200
WORK = "jobs.work.default"
ACTION = "email:send/reply"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--jobs", type=int, default=6_000)
    parser.add_argument("--seconds", type=float, default=8)
    chosen = parser.parse_args()
    with broker_and_folder() as (bootstrap, folder):
        create_topics(bootstrap, TOPOLOGY, tuple(TOPOLOGY.topics))
        events = Events(bootstrap)
        for number in range(chosen.jobs):
            events.send("plain.made", f"p{number}")
        flush(events.sender)
        with stage("dispatcher", bootstrap, folder) as process:
            worker = ScriptedWorker(bootstrap)
            results = [backlog("backlog, no effect", worker, process, chosen.jobs)]
            for number in range(chosen.jobs // 2):
                events.send("effect.made", f"e{number}")
            flush(events.sender)
            results.append(backlog("backlog, one effect", worker, process, chosen.jobs // 2))
            results += steady(events, worker, process, int(chosen.seconds * STEADY_RATE))
            flush(events.sender)
            finished(bootstrap, worker, process)
        wrong = violations(bootstrap, events.sent, worker.leased)
    results.append(Result("all", "not exactly once", wrong, "jobs"))
    report("dispatcher", results, as_json=chosen.json)
    sys.exit(1 if wrong else 0)


class Events:
    """Writes what dedup would; `sent` maps a job to its event's type and moment of sending."""

    def __init__(self, bootstrap: str) -> None:
        self.sender = producer(bootstrap, linger_ms=1)
        self.sent: dict[str, tuple[str, float]] = {}

    def send(self, event_type: str, key: str) -> None:
        tenant = f"tnt_{len(self.sent) % TENANTS:06d}"
        self.sent[event_job_id(tenant, "bench", key)] = (event_type, time.perf_counter())
        self.write(tenant, event_type, key, key)

    def write(self, tenant: str, event_type: str, key: str, subject: str) -> None:
        value = ENVELOPE.encode(replace(envelope(tenant, event_type, key), subject=subject))
        partition = partition_for(tenant, TOPOLOGY.partitions)
        self.sender.produce("events", value, tenant.encode(), partition)
        self.sender.poll(0)


def envelope(tenant: str, event_type: str, key: str) -> Envelope:
    now = time.time_ns() // 1_000_000
    return Envelope(
        fingerprint(tenant, "bench", key),
        new_id("evt"),
        "bench",
        tenant,
        event_type,
        now,
        now,
        b"\7" * 32,
        key,
        key,
        "application/json",
        None,
        None,
        PayloadRef(1, (7,), 1024, "kek_0123456789ab"),
        {"subject": key},
        "webhook",
    )


class ScriptedWorker:
    """Takes every lease and says at once what a worker would; `leased` counts leases by job."""

    types: tuple[str, ...] = ("plain", "one_effect")

    def __init__(self, bootstrap: str) -> None:
        self.id = f"bench/{new_id('boot')}"
        self.leased: Counter[str] = Counter()
        self.taken_at: dict[str, float] = {}
        self.ended = 0
        self._claims: dict[str, Lease] = {}
        self._received: Counter[int] = Counter()
        self._sender = producer(bootstrap, linger_ms=1)
        self._reader = Reader(bootstrap, TOPOLOGY, WORK, "jobs.replies")
        self._beat_at = 0.0

    def work(self) -> None:
        """Read once, answer all."""
        if time.monotonic() >= self._beat_at:
            self._beat()
        for message in self._reader.read(wait=0.02):
            if message.topic() == WORK:
                self._lease(message)
            else:
                self._replied(REPLY.decode(message.value()))
        self._sender.poll(0)

    def close(self) -> None:
        flush(self._sender)
        self._reader.close()

    def _beat(self) -> None:
        self._beat_at = time.monotonic() + TOPOLOGY.leases.heartbeat_seconds
        handlers = tuple(Handler(type_, 3, (1.0,), 30) for type_ in self.types)
        for partition in range(TOPOLOGY.partitions):
            held = [each for each in self._claims.values() if each.home_partition == partition]
            body = Heartbeat(
                self.id,
                "default",
                0,
                self._free(),
                tuple(HeldLease(each.job_id, each.epoch, False) for each in held),
                handlers,
                received=self._received[partition],
                leaving=False,
            )
            self._send(partition, Command(new_id("cmd"), "", "", 0, 0, body))

    def _lease(self, message: Message) -> None:
        lease = open_lease(message.value(), KEY)
        self.leased[lease.job_id] += 1
        self._received[lease.home_partition] += 1
        self.taken_at[lease.job_id] = time.perf_counter()
        if lease.type == "plain":
            self._say(lease, self._end(lease))
            return
        claim = Claim(self.id, 0, new_id("clm"), lease.run_id, ACTION, b"d" * 32, 0)
        self._claims[claim.claim_id] = lease
        self._say(lease, claim)

    def _replied(self, reply: Reply) -> None:
        if not reply.claim_id:  # a question to all workers, or of credits, which each beat answers
            self._beat()
            return
        lease = self._claims.pop(reply.claim_id)
        if reply.kind != "granted":
            raise SystemExit(f"the claim of {reply.job_id} was answered {reply.kind}")
        outcome = Outcome(reply.claim_id, lease.run_id, ACTION, "done", '{"sent":true}', None)
        self._say(lease, outcome)
        self._say(lease, self._end(lease))

    def _end(self, lease: Lease) -> Ended:
        self.ended += 1
        return Ended(
            self.id,
            lease.run_id,
            self._free(),
            "succeeded",
            None,
            None,
            None,
            received=self._received[lease.home_partition],
            traceback=None,
        )

    def _free(self) -> int:
        return SLOTS - len(self._claims)

    def _say(self, lease: Lease, body: CommandBody) -> None:
        command = Command(new_id("cmd"), lease.tenant_id, lease.job_id, lease.epoch, 0, body)
        self._send(lease.home_partition, command)

    def _send(self, partition: int, command: Command) -> None:
        self._sender.produce("jobs.commands", COMMAND.encode(command), b"", partition)


def backlog(
    contender: str, worker: ScriptedWorker, process: subprocess.Popen[bytes], jobs: int
) -> Result:
    """Jobs a second from the first lease to the last end."""
    ends, leases = worker.ended + jobs, len(worker.taken_at)
    run(worker, process, ends)
    started = list(worker.taken_at.values())[leases]
    rate = jobs / (time.perf_counter() - started)
    return Result(contender, "lease to end", round(rate, 1), "jobs/s")


def run(worker: ScriptedWorker, process: subprocess.Popen[bytes], ends: int) -> None:
    def reached() -> bool:
        worker.work()
        return worker.ended >= ends

    until(reached, process, f"{ends} jobs ended")


def steady(
    events: Events, worker: ScriptedWorker, process: subprocess.Popen[bytes], count: int
) -> list[Result]:
    """Events at a fixed rate, whatever the stage does."""
    goal, start, sent = worker.ended + count, time.perf_counter(), 0
    first = len(events.sent)

    def reached() -> bool:
        nonlocal sent
        while sent < count and time.perf_counter() >= start + sent / STEADY_RATE:
            events.send("plain.made", f"s{sent}")
            sent += 1
        worker.work()
        return worker.ended >= goal

    until(reached, process, "all leased")
    steady_jobs = list(events.sent)[first:]
    waits = [worker.taken_at[job_id] - events.sent[job_id][1] for job_id in steady_jobs]
    return percentiles(f"{STEADY_RATE} events/s", "event to lease", waits)


def finished(bootstrap: str, worker: ScriptedWorker, process: subprocess.Popen[bytes]) -> None:
    """The stage has committed all that the worker said."""
    worker.close()
    groups = GroupOffsets(bootstrap, "dispatcher", TOPOLOGY, "jobs.commands")
    said = len(scan(bootstrap, TOPOLOGY, "jobs.commands"))
    until(lambda: groups.total() >= said, process, "all commands committed")
    groups.close()


def violations(bootstrap: str, sent: dict[str, tuple[str, float]], leased: Counter[str]) -> int:
    """Jobs that were not leased once, did not succeed, or have not one effect where they should."""
    newest = {m.key(): m.value() for m in scan(bootstrap, TOPOLOGY, "jobs")}
    jobs = {job.job_id: job for job in map(JOB.decode, newest.values())}
    ledger = {m.key(): m.value() for m in scan(bootstrap, TOPOLOGY, "ledger")}
    entries = map(LEDGER_ENTRY.decode, ledger.values())
    effects = Counter(e.job_id for e in entries if e.status == "done" and e.claims == 1)
    wrong = len(jobs.keys() ^ sent.keys())
    for job_id, job in jobs.items():
        effect = sent.get(job_id, ("", 0))[0] == "effect.made"
        right = (job.status, job.attempts, leased[job_id], effects[job_id])
        wrong += right != ("succeeded", 1, 1, int(effect))
    return wrong


if __name__ == "__main__":
    main()

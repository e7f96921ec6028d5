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

import asyncio
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace

from aiohttp import ClientError, ClientSession, ClientWebSocketResponse, WSMsgType
from harness import Result, arguments, broker_and_folder, create_topics, free_port, report
from outside import (
    OVERLAY,
    flush,
    percentiles,
    producer,
    scan,
    stage,
    until,
)
from uuid_utils import uuid7

from streams.serde.codec import ENVELOPE, JOB, LEDGER_ENTRY
from streams.serde.ids import event_job_id, fingerprint, new_id, partition_for
from streams.serde.link import commands, frames
from streams.serde.link.messages import (
    VERSION,
    Acked,
    Answer,
    Beat,
    FromOwner,
    Hello,
    Leased,
    Message,
    Refused,
)
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
    Wait,
)
from streams.serde.run_ends import ReportedEnd
from streams.topology.load import load

TOPOLOGY = load(OVERLAY)
TENANTS = 40
SLOTS = 200
STEADY_RATE = 200
TOKEN = "bench-bench-bench-bench"
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
        address, env = link()
        with stage("dispatcher", bootstrap, folder, env=env) as process:
            worker = ScriptedWorker(address)
            results = [backlog("backlog, no effect", worker, process, chosen.jobs)]
            for number in range(chosen.jobs // 2):
                events.send("effect.made", f"e{number}")
            flush(events.sender)
            results.append(backlog("backlog, one effect", worker, process, chosen.jobs // 2))
            results += steady(events, worker, process, int(chosen.seconds * STEADY_RATE))
            flush(events.sender)
            finished(worker, process)
        wrong = violations(bootstrap, events.sent, worker.leased)
    results.append(Result("all", "not exactly once", wrong, "jobs"))
    report("dispatcher", results, as_json=chosen.json)
    sys.exit(1 if wrong else 0)


def link() -> tuple[str, dict[str, str]]:
    """An address for the link of a stage, and the settings with which the stage listens there."""
    listen = f"127.0.0.1:{free_port()}"
    env = {"TIDEGATE_LINK_LISTEN": listen, "TIDEGATE_LINK_TOKEN": TOKEN}
    return f"ws://{listen}/v1/link", env


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
    """Takes every lease and says at once what a worker would; `leased` counts leases by job.

    It dials the stage's link, and has said everything once nothing is `unacknowledged`.
    """

    types: tuple[str, ...] = ("plain", "one_effect")

    def __init__(self, address: str) -> None:
        self.leased: Counter[str] = Counter()
        self.taken_at: dict[str, float] = {}
        self.ended = 0
        self._address = address
        self._loop = asyncio.new_event_loop()
        self._socket: ClientWebSocketResponse | None = None
        self._session: ClientSession | None = None
        self._out: list[Message] = []
        self._claims: dict[str, Lease] = {}
        self._numbers: Counter[int] = Counter()
        self._acked: Counter[int] = Counter()
        self._beats = self._before = 0
        self._beat_at = 0.0

    @property
    def unacknowledged(self) -> int:
        return self._numbers.total() - self._acked.total()

    def work(self) -> None:
        """Read once, answer all."""
        self._loop.run_until_complete(self._turn())

    def close(self) -> None:
        self._loop.run_until_complete(self._close())

    async def _turn(self) -> None:
        socket = self._socket or await self._dial()
        if time.monotonic() >= self._beat_at:
            self._beat()
        await self._flush(socket)
        try:
            frame = await socket.receive(timeout=0.02)
        except TimeoutError:
            return
        if frame.type is not WSMsgType.TEXT and frame.type is not WSMsgType.BINARY:
            await self._close()  # another process takes the stage's place, or the stage has ended
            self._socket = None
            return
        for message in frames.from_owner(frame.data):
            self._heard(message)
        await self._flush(socket)

    async def _dial(self) -> ClientWebSocketResponse:
        self._session = ClientSession(headers={"Authorization": f"Bearer {TOKEN}"})
        for _ in range(300):
            try:
                self._socket = await self._session.ws_connect(self._address, max_msg_size=1 << 24)
                break
            except ClientError:
                await asyncio.sleep(0.1)  # the stage begins
        if self._socket is None:
            raise SystemExit(f"nobody listens at {self._address}")
        handlers = tuple(Handler(type_, 3, (1.0,), 30) for type_ in self.types)
        self._before, self._beat_at = self.leased.total(), 0.0
        self._out.append(Hello(VERSION, "bench", str(uuid7()), "default", SLOTS, handlers))
        return self._socket

    async def _flush(self, socket: ClientWebSocketResponse) -> None:
        if self._out:
            messages, self._out = self._out, []
            await socket.send_bytes(frames.frame(messages))

    async def _close(self) -> None:
        for each in (self._socket, self._session):
            if each is not None:
                await each.close()

    def _beat(self) -> None:
        self._beat_at = time.monotonic() + TOPOLOGY.leases.heartbeat_seconds
        self._offer()
        held: dict[int, list[HeldLease]] = {}
        for each in self._claims.values():
            held.setdefault(each.home_partition, []).append(
                HeldLease(each.job_id, each.epoch, False)
            )
        for partition, leases in held.items():
            body = Heartbeat(tuple(leases))
            self._send(partition, Command("", "", "", 0, 0, body))

    def _offer(self) -> None:
        self._beats += 1
        free = SLOTS - len(self._claims)
        self._out.append(Beat(self._beats, self.leased.total() - self._before + free))

    def _heard(self, message: FromOwner) -> None:
        if isinstance(message, Leased):
            self._lease(message.lease)
        elif isinstance(message, Answer):
            self._replied(message.reply)
        elif isinstance(message, Acked):
            self._acked.update({p: n - self._acked[p] for p, n in message.numbers.items()})
        elif isinstance(message, Refused):
            raise SystemExit(f"the link refuses: {message.message}")

    def _lease(self, lease: Lease) -> None:
        self.leased[lease.job_id] += 1
        self.taken_at[lease.job_id] = time.perf_counter()
        if lease.type == "plain":
            self._end(lease)
            return
        claim = Claim(new_id("clm"), lease.run_id, ACTION, b"d" * 32, 0)
        self._claims[claim.claim_id] = lease
        self._say(lease, claim)

    def _replied(self, reply: Reply) -> None:
        lease = self._claims.pop(reply.claim_id)
        if reply.kind != "granted":
            raise SystemExit(f"the claim of {reply.job_id} was answered {reply.kind}")
        outcome = Outcome(reply.claim_id, lease.run_id, ACTION, "done", '{"sent":true}', None)
        self._say(lease, outcome)
        self._end(lease)

    def _end(self, lease: Lease, status: ReportedEnd = "succeeded", *waits: Wait) -> None:
        self.ended += 1
        self._say(lease, Ended(lease.run_id, status, None, None, None, None, None, waits))
        self._offer()

    def _say(self, lease: Lease, body: CommandBody) -> None:
        command = Command("", lease.tenant_id, lease.job_id, lease.epoch, 0, body)
        self._send(lease.home_partition, command)

    def _send(self, partition: int, command: Command) -> None:
        self._numbers[partition] += 1
        self._out.append(commands.order(partition, self._numbers[partition], command))


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


def finished(worker: ScriptedWorker, process: subprocess.Popen[bytes]) -> None:
    """The stage has committed all that the worker said."""

    def reached() -> bool:
        worker.work()
        return worker.unacknowledged == 0

    until(reached, process, "all commands committed")
    worker.close()


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

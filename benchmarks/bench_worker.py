"""Runs a second of one worker process, with a scripted dispatcher.

    python benchmarks/bench_worker.py [--runs 6000] [--json]

The dispatcher here keeps the worker's 20 slots full and grants every claim; the handlers do
nothing, or one effect that costs nothing. `one at a time`: a lease is sent when the run before it
has ended; counted from sending the lease to reading that it ended. Every lease must end once,
`succeeded`, and every effect be claimed and recorded once, else the exit code is 1.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from harness import Result, arguments, broker_and_folder, create_topics, report
from outside import KEY, OVERLAY, Reader, flush, percentiles, producer, stage, until

from streams.serde.codec import COMMAND, REPLY
from streams.serde.ids import new_id
from streams.serde.lease_mac import seal_lease
from streams.serde.records import Claim, Command, Ended, Heartbeat, Lease, Outcome, Reply
from streams.topology.load import load

TOPOLOGY = load(OVERLAY)
SLOTS = 20
TOPICS = (
    "jobs.commands",
    "jobs.progress",
    "jobs.types",
    "jobs.live",
    "jobs.work.default",
    "jobs.replies",
    "payloads",
    "dlq",
)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=6_000)
    chosen = parser.parse_args()
    flags = ("--app", "bench_app:app", "--slots", str(SLOTS))
    with broker_and_folder() as (bootstrap, folder):
        create_topics(bootstrap, TOPOLOGY, TOPICS)
        with stage("worker", bootstrap, folder, *flags) as process:
            dispatcher = ScriptedDispatcher(bootstrap, process)
            dispatcher.meet()
            results = [
                full(dispatcher, "20 slots, no effect", "plain", chosen.runs),
                full(dispatcher, "20 slots, one effect", "one_effect", chosen.runs // 2),
                *single(dispatcher, chosen.runs // 20),
            ]
            dispatcher.close()
    wrong = dispatcher.violations()
    results.append(Result("all", "not exactly once", wrong, "runs"))
    report("worker", results, as_json=chosen.json)
    sys.exit(1 if wrong else 0)


class ScriptedDispatcher:
    """Leases jobs to the one worker there is, and grants what it claims."""

    def __init__(self, bootstrap: str, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._sender = producer(bootstrap, linger_ms=1)
        self._reader = Reader(bootstrap, TOPOLOGY, "jobs.commands")
        self._heartbeat: tuple[str, Heartbeat] | None = None
        self.leased: dict[str, str] = {}
        self.took: list[float] = []
        self._sent_at: dict[str, float] = {}
        self._ends: Counter[tuple[str, str]] = Counter()
        self._claims: Counter[str] = Counter()
        self._done: Counter[str] = Counter()

    def meet(self) -> None:
        """The worker has announced itself."""
        self.until(lambda: self._heartbeat is not None, "a heartbeat")

    def lease(self, type_: str) -> None:
        """Hand the worker one job."""
        assert self._heartbeat is not None
        heartbeat_id, worker = self._heartbeat
        job_id = new_id("job")
        lease = Lease(
            worker.worker_id,
            job_id,
            1,
            new_id("run"),
            "acme",
            f"{job_id}.1",
            type_,
            1,
            1,
            3,
            30,
            TOPOLOGY.leases.term_seconds,
            0,
            None,
            None,
            "{}",
            None,
            (),
            None,
            heartbeat_id,
            time.time_ns() // 1_000_000,
            number=0,
            alone=False,
        )
        self.leased[job_id] = type_
        self._sent_at[job_id] = time.perf_counter()
        self._sender.produce(
            "jobs.work.default", seal_lease(lease, KEY), b"", worker.work_partition
        )
        self._sender.poll(0)

    @property
    def running(self) -> int:
        return len(self._sent_at)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Answer the worker until the condition holds."""

        def reached() -> bool:
            self._work()
            return condition()

        until(reached, self._process, what)

    def close(self) -> None:
        flush(self._sender)
        self._reader.close()

    def violations(self) -> int:
        """Leases that did not end once and well, effects that were not recorded once."""
        wrong = len(self._ends.keys() ^ {(job_id, "succeeded") for job_id in self.leased})
        wrong += sum(count - 1 for count in self._ends.values())
        effects = {job_id for job_id, type_ in self.leased.items() if type_ == "one_effect"}
        for told in (self._claims, self._done):
            wrong += len(told.keys() ^ effects) + sum(count - 1 for count in told.values())
        return wrong

    def _work(self) -> None:
        for message in self._reader.read(wait=0.02):
            self._hear(COMMAND.decode(message.value()), message.partition())
        self._sender.poll(0)

    def _hear(self, command: Command, partition: int | None) -> None:
        match command.body:
            case Heartbeat() as heartbeat:
                if partition == 0:
                    self._heartbeat = command.command_id, heartbeat
            case Claim() as claim:
                self._claims[command.job_id] += 1
                self._grant(command, claim)
            case Outcome(status="done"):
                self._done[command.job_id] += 1
            case Ended() as ended:
                self._ends[command.job_id, ended.status] += 1
                self.took.append(time.perf_counter() - self._sent_at.pop(command.job_id))
            case other:
                raise SystemExit(f"the worker said {other}")

    def _grant(self, command: Command, claim: Claim) -> None:
        reply = Reply(
            claim.worker_id, command.job_id, command.epoch, claim.claim_id, "granted", "idk_bench"
        )
        self._sender.produce("jobs.replies", REPLY.encode(reply), b"", claim.reply_partition)


def full(dispatcher: ScriptedDispatcher, contender: str, type_: str, runs: int) -> Result:
    """All slots are busy from the first lease to the last end."""
    before, goal = len(dispatcher.took), len(dispatcher.leased) + runs
    started = time.perf_counter()

    def ended() -> bool:
        while dispatcher.running < SLOTS and len(dispatcher.leased) < goal:
            dispatcher.lease(type_)
        return len(dispatcher.took) >= before + runs

    dispatcher.until(ended, f"{runs} runs ended")
    return Result(
        contender, "lease to end", round(runs / (time.perf_counter() - started), 1), "runs/s"
    )


def single(dispatcher: ScriptedDispatcher, runs: int) -> list[Result]:
    """The next lease goes out when the last one has ended."""
    before = len(dispatcher.took)
    for number in range(runs):
        dispatcher.lease("plain")
        dispatcher.until(partial(ended, dispatcher, before + number), "a run ended")
    return percentiles("one at a time", "lease to end", dispatcher.took[before:])


def ended(dispatcher: ScriptedDispatcher, before: int) -> bool:
    return len(dispatcher.took) > before


if __name__ == "__main__":
    main()

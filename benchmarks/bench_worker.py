"""Runs a second of one worker process, with a scripted owner of its jobs.

    python benchmarks/bench_worker.py [--runs 6000] [--json]

The owner here keeps the worker's 20 slots full over the link and grants every claim; the handlers
do nothing, or one effect that costs nothing. Nothing is written to Kafka. `one at a time`: a lease
is sent when the run before it has ended; counted from sending the lease to reading that it ended.
Every lease must end once, `succeeded`, and every effect be claimed and recorded once, else the exit
code is 1.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import Result, arguments, report
from outside import LINK, OVERLAY, percentiles, stage, until

from streams.link.grant import Grant
from streams.link.listening import Listening
from streams.link.owner import Owner
from streams.link.requests import Answers, Connection, Request
from streams.link.server import Access, LinkServer
from streams.link.terms import Terms
from streams.process.boot_clock import boot_seconds
from streams.runtime.link import LINK as LINK_TOPIC
from streams.runtime.link import Rights
from streams.runtime.processor import Record
from streams.serde.ids import new_id
from streams.serde.link import commands, frames
from streams.serde.link.messages import Answer, Done, Leased
from streams.serde.records import (
    Claim,
    Command,
    DeclareSchedules,
    Ended,
    Handler,
    Heartbeat,
    Lease,
    Outcome,
    Reply,
)
from streams.state.overlay import Overlay
from streams.topology.load import load

TOPOLOGY = load(OVERLAY)
SLOTS = 20


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=6_000)
    chosen = parser.parse_args()
    flags = ("--app", "bench_app:app", "--slots", str(SLOTS))
    dispatcher = ScriptedDispatcher()
    with (
        TemporaryDirectory(prefix="tidegate-bench-") as folder,
        stage("worker", "", Path(folder), *flags) as process,
    ):
        dispatcher.until(lambda: dispatcher.has_room, process, "a worker")
        results = [
            full(dispatcher, process, "20 slots, no effect", "plain", chosen.runs),
            full(dispatcher, process, "20 slots, one effect", "one_effect", chosen.runs // 2),
            *single(dispatcher, process, chosen.runs // 20),
        ]
    dispatcher.close()
    wrong = dispatcher.violations()
    results.append(Result("all", "not exactly once", wrong, "runs"))
    report("worker", results, as_json=chosen.json)
    sys.exit(1 if wrong else 0)


class Beside:
    """`Services` of the server: every worker may dial, and each request is done."""

    access: Access
    answering: Answers

    def __init__(self) -> None:
        self.access = self
        self.answering = self

    def authenticate(self, authorization: str | None, remote: str | None) -> Grant:
        return Grant("", "bench")

    def is_valid(self, grant: Grant) -> bool:
        return True

    def ask(self, connection: Connection, request: Request) -> None:
        connection.send(Done(request.request))

    def closed(self, connection: Connection) -> None:
        """Nothing is kept of it."""

    def start(self) -> None:
        """Nothing runs beside the server."""

    def opened(self, partition: int, stores: Mapping[str, Overlay]) -> None:
        """Nothing is read."""

    def closing(self, partition: int) -> None:
        """Nothing is read."""

    async def keep_up(self) -> None:
        """Nothing comes up."""

    async def close(self) -> None:
        """Nothing is open."""

    def stop(self) -> None:
        """Nothing runs beside the server."""


class ScriptedDispatcher:
    """Leases jobs to the one worker there is, and grants what it claims.

    It has the product's server, and is the `Workers` of its link. What it takes is committed at
    once.
    """

    def __init__(self) -> None:
        terms = Terms("bench", TOPOLOGY.partitions, frozenset({"default"}), TOPOLOGY.leases)
        host, _, port = LINK.partition(":")
        self._owner = Owner(self, terms, boot_seconds)
        self._owner.owned(range(TOPOLOGY.partitions))
        self._server = LinkServer(self._owner, lambda _: Beside(), Listening(host, int(port)))
        self._failures: list[Exception] = []
        self._server.start(self._failures.append)
        self._worker_id = ""
        self._beat = self._limit = 0
        self._outputs: list[Record] = []
        self.leased: dict[str, str] = {}
        self.took: list[float] = []
        self._sent_at: dict[str, float] = {}
        self._ends: Counter[tuple[str, str]] = Counter()
        self._claims: Counter[str] = Counter()
        self._done: Counter[str] = Counter()

    def connected(
        self,
        worker_id: str,
        pool: str,
        handlers: Sequence[Handler],
        rights: Rights,
    ) -> None:
        self._worker_id = worker_id

    def heard(self, worker_id: str, beat: int, limit: int, draining: bool, now: float) -> None:
        self._beat, self._limit = beat, limit

    def gone(self, worker_id: str) -> None:
        if len(self._sent_at):
            raise SystemExit("the worker's connection broke")

    @property
    def has_room(self) -> bool:
        """Whether the worker takes another lease."""
        return len(self.leased) < self._limit

    def lease(self, type_: str) -> None:
        """Hand the worker one job."""
        job_id = new_id("job")
        lease = Lease(
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
            time.time_ns() // 1_000_000,
            alone=False,
        )
        self.leased[job_id] = type_
        self._sent_at[job_id] = time.perf_counter()
        self._say(Leased(0, self._beat, lease))

    def until(
        self, condition: Callable[[], bool], process: subprocess.Popen[bytes], what: str
    ) -> None:
        """Answer the worker until the condition holds."""

        def reached() -> bool:
            self._work()
            return condition()

        until(reached, process, what)

    def close(self) -> None:
        self._server.stop()
        if self._failures:
            raise SystemExit(f"the link failed: {self._failures}")

    def violations(self) -> int:
        """Leases that did not end once and well, effects that were not recorded once."""
        wrong = len(self._ends.keys() ^ {(job_id, "succeeded") for job_id in self.leased})
        wrong += sum(count - 1 for count in self._ends.values())
        effects = {job_id for job_id, type_ in self.leased.items() if type_ == "one_effect"}
        for told in (self._claims, self._done):
            wrong += len(told.keys() ^ effects) + sum(count - 1 for count in told.values())
        return wrong

    def _work(self) -> None:
        self._hand_out(())
        self._owner.wait(0.02)
        taken = self._owner.take(time.time_ns() // 1_000_000)
        for record in taken:
            self._hear(commands.command(record.value or b"", record.timestamp))
        self._hand_out(taken)

    def _hand_out(self, taken: Sequence[Record]) -> None:
        outputs, self._outputs = self._outputs, []
        if taken or outputs:
            self._owner.committed(taken, outputs)

    def _hear(self, command: Command) -> None:
        match command.body:
            case Heartbeat() | DeclareSchedules():
                pass
            case Claim() as claim:
                self._claims[command.job_id] += 1
                place = command.job_id, command.epoch, claim.claim_id
                self._say(Answer(0, Reply(*place, "granted", "idk_bench")))
            case Outcome(status="done"):
                self._done[command.job_id] += 1
            case Ended() as ended:
                self._ends[command.job_id, ended.status] += 1
                self.took.append(time.perf_counter() - self._sent_at.pop(command.job_id))
            case other:
                raise SystemExit(f"the worker said {other}")

    def _say(self, message: Leased | Answer) -> None:
        key, value = self._worker_id.encode(), frames.encoded(message)
        self._outputs.append(Record(LINK_TOPIC, 0, 0, 0, key, value))


def full(
    dispatcher: ScriptedDispatcher,
    process: subprocess.Popen[bytes],
    contender: str,
    type_: str,
    runs: int,
) -> Result:
    """All slots are busy from the first lease to the last end."""
    before, goal = len(dispatcher.took), len(dispatcher.leased) + runs
    started = time.perf_counter()

    def ended() -> bool:
        while dispatcher.has_room and len(dispatcher.leased) < goal:
            dispatcher.lease(type_)
        return len(dispatcher.took) >= before + runs

    dispatcher.until(ended, process, f"{runs} runs ended")
    return Result(
        contender, "lease to end", round(runs / (time.perf_counter() - started), 1), "runs/s"
    )


def single(
    dispatcher: ScriptedDispatcher, process: subprocess.Popen[bytes], runs: int
) -> list[Result]:
    """The next lease goes out when the last one has ended."""
    before = len(dispatcher.took)
    for number in range(runs):
        dispatcher.until(lambda: dispatcher.has_room, process, "a slot")
        dispatcher.lease("plain")
        dispatcher.until(partial(ended, dispatcher, before + number), process, "a run ended")
    return percentiles("one at a time", "lease to end", dispatcher.took[before:])


def ended(dispatcher: ScriptedDispatcher, before: int) -> bool:
    return len(dispatcher.took) > before


if __name__ == "__main__":
    main()

"""What limits cost the dispatcher a job, beside a job without any, in one run.

    python benchmarks/bench_limits.py [--jobs 1500] [--rounds 7] [--json]

No broker: one dispatcher on virtual time and stores in memory, one process. Jobs are submitted in
batches of 50, leased and ended by a scripted worker over the link, as fast as they come. `none`: no
limits. `three local`: one of the tenant, one of its jobs of a type, and one of a value of its
input; none is ever full. `with a rate`: a rate of the tenant's beside them, which is written at
each start. `one shared`: one of all jobs, over all partitions, whose permits are asked for and
given back. `set aside`: one value is full all the time, and a backlog of 10,000 jobs waits for it.
The contenders take turns; a figure is the median of processor time a job, and of its ratio to
`none` in the same round.
Every job must succeed, except those of the backlog, else the exit code is 1.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Iterable
from dataclasses import replace

from harness import Result, arguments, report

from streams import dispatcher, scheduler
from streams.runtime.driver import TopologyTestDriver
from streams.runtime.link import LINK
from streams.serde.codec import COMMAND, JOB
from streams.serde.ids import new_id
from streams.serde.link import commands, frames
from streams.serde.link.messages import Leased
from streams.serde.records import Command, CommandBody, Ended, Handler, Heartbeat, Lease, Submit
from streams.topology.limits import Limit, Rate
from streams.topology.load import load

BATCH = 50
BACKLOG = 10_000
WORKER = "bench/b1"
HANDLERS = (Handler("plain", 3, (1.0,), 300),)
LOCAL = (
    Limit("tenants", "tenant", "*", 1_000),
    Limit("types", "job_type", "*", 1_000, per="tenant"),
    Limit("customers", "key", "*", 1_000, by="input.customer"),
)
RATED = (*LOCAL, Limit("rates", "tenant", "*", rate=Rate(1_000_000, 1), burst=10_000))
FULL = (*LOCAL, Limit("one_at_a_time", "key", "*", 1, by="input.account"))
CONTENDERS = {
    "none": (),
    "three local": LOCAL,
    "with a rate": RATED,
    "one shared": (Limit("all", "global", "*", 1_000),),
    "set aside": FULL,
}


class Desk:
    """A dispatcher with some limits, and the worker that answers it."""

    def __init__(self, limits: tuple[Limit, ...]) -> None:
        shipped = load()
        topics = {
            name: replace(topic, partitions=1) if topic.partitions == shipped.partitions else topic
            for name, topic in shipped.topics.items()
        }
        self._topology = replace(shipped, partitions=1, topics=topics, limits=limits)
        stages = [dispatcher.stage(self._topology), scheduler.stage(self._topology)]
        self._driver = TopologyTestDriver(stages, self._topology, partitions=1)
        self._driver.advance(0.2)
        self._made = self._leased = self._said = self._beats = 0
        self._hung = ""
        self._driver.link().connect(WORKER, "default", HANDLERS)

    def hang(self, jobs: int) -> None:
        """Have one job of an account run for ever, and others wait for it."""
        self._hung = self.submit(1, account="busy")[0]
        self._heartbeat()
        self._leases()
        for _ in range(0, jobs, BATCH):
            self.submit(BATCH, account="busy")

    def run(self, jobs: int) -> float:
        """Submit jobs and end them; processor seconds a job."""
        began = time.process_time()
        for _ in range(0, jobs, BATCH):
            self.submit(BATCH, account=None)
            self._heartbeat()
            while leases := self._leases():
                with self._driver.together():
                    for lease in leases:
                        self._end(lease)
                    self._heartbeat()
        return (time.process_time() - began) / jobs

    def submit(self, jobs: int, account: str | None) -> list[str]:
        ids = [f"job_{self._made + number:08}" for number in range(jobs)]
        self._made += jobs
        with self._driver.together():
            for job_id in ids:
                own = f'"{account}"' if account else f'"{job_id}"'
                body = f'{{"customer": "c{self._made % 7}", "account": {own}}}'
                made = Submit("plain", body, None, None, None, None, None, "ops", b"h", None)
                self._say(made, job_id)
        return ids

    def unfinished(self) -> int:
        """How many jobs have not succeeded."""
        newest = {record.key: record.value for record in self._driver.output("jobs")}
        return sum(JOB.decode(value).status != "succeeded" for value in newest.values() if value)

    def _leases(self) -> Iterable[Lease]:
        records = self._driver.output(LINK)[self._said :]
        self._said += len(records)
        said = frames.from_owner(frames.joined([record.value or b"" for record in records]))
        leases = [each.lease for each in said if isinstance(each, Leased)]
        self._leased += len(leases)
        return [lease for lease in leases if lease.job_id != self._hung]

    def _heartbeat(self) -> None:
        """Offer 100 slots."""
        self._beats += 1
        now = self._driver.now / 1000
        self._driver.link().beat(WORKER, self._beats, self._leased + 100, now)
        self._tell(Heartbeat(()))

    def _end(self, lease: Lease) -> None:
        told = None, None, None, None, None, ()
        body = Ended(lease.run_id, "succeeded", *told)
        self._tell(body, lease.job_id, lease.epoch)

    def _tell(self, body: CommandBody, job_id: str = "", epoch: int = 0) -> None:
        """Send a command of the worker."""
        command = Command("", "acme", job_id, epoch, self._driver.now, body)
        value = frames.encoded(commands.order(0, 1, command))
        self._driver.pipe(LINK, WORKER.encode(), value, partition=0)

    def _say(self, body: CommandBody, job_id: str) -> None:
        command = Command(new_id("cmd"), "acme", job_id, 0, self._driver.now, body)
        self._driver.pipe("jobs.commands", b"acme", COMMAND.encode(command))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--jobs", type=int, default=1_500)
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    costs: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    wrong = 0
    for round_ in range(chosen.rounds + 1):  # the first one warms up
        for name, limits in CONTENDERS.items():
            desk = Desk(limits)
            if name == "set aside":
                desk.hang(BACKLOG)
            gc.collect()
            gc.freeze()  # what stands already is not searched for garbage again
            cost = desk.run(chosen.jobs)
            gc.unfreeze()
            wrong += desk.unfinished() - (BACKLOG + 1) * (name == "set aside")
            costs[name] += [cost] if round_ else []
    report(
        "limits",
        [*_rows(costs), Result("all", "not succeeded", wrong, "jobs")],
        as_json=chosen.json,
    )
    sys.exit(1 if wrong else 0)


def _rows(costs: dict[str, list[float]]) -> Iterable[Result]:
    for name, found in costs.items():
        yield Result(name, "processor time a job", round(statistics.median(found) * 1e6), "us")
        ratios = [cost / base * 100 for cost, base in zip(found, costs["none"], strict=True)]
        yield Result(name, "beside none", round(statistics.median(ratios), 1), "%")


if __name__ == "__main__":
    main()

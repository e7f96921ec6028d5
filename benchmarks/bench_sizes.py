"""Bytes, memory and processor time that an event, a job, an effect and a delivery take.

    python benchmarks/bench_sizes.py [--count 4000] [--rate 200] [--json]

`tidegate dev` gets, over HTTP and at a fixed rate, in turn: no-op jobs, jobs of one effect, events
without a job, the same again through a new ingress that does not know them, events that are
delivered to a fast receiver, and real bodies of GitHub if they are at hand; then most of them again
as fast as it takes them. `logged` is the growth of a topic's segments, an event of that load, less
what the idle pipeline writes in that time. `compacted` is what Kafka's cleaner leaves of it. At the
end the stores and the operator's file are measured at rest.

Bytes hardly depend on the machine; they do depend on the rate, because what comes together shares a
batch's head and a transaction's marker. Processor times depend on the machine and its other load.
If an event or a job is missing, the exit code is 1.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import sizes_on_disk as on_disk
from aiohttp import ClientSession
from cleaning import clean_soon, cleaned
from harness import Result, arguments, report
from http_load import Answers, closed, open_loop
from jobs_run import Load, Seconds, difference
from jobs_tidegate import ADMIN_TOKEN, CONNECTIONS, Tidegate, tidegate
from webhook_requests import SECRET, TENANTS, github, made

from streams.broker.ports import pick_free

SETTINGS = {"partitions": "4", "slots": "200"}
IDLE_SECONDS = 15.0
SETTLE_SECONDS = 60.0
HERE = Path(__file__).parent


@dataclass
class Bench:
    """The running pipeline, where its files are, and what it writes when nothing happens."""

    pipeline: Tidegate
    folder: Path
    rate: float
    idle: Counter[str]
    idle_work: Seconds
    wrong: int = 0
    kept: dict[str, int] = field(default_factory=dict)

    @property
    def logs(self) -> Path:
        return self.folder / "data" / "kafka"

    def growth(self, name: str, requests: Sequence[bytes]) -> Iterator[Result]:
        """Send the requests, and tell what the topics grew by for each of them."""
        with self.measured(name, len(requests)) as results:
            answers = self._send(requests)
            self.wrong += len(requests) - answers.statuses[202]
            settled(self.logs)
        yield from results

    def _send(self, requests: Sequence[bytes]) -> Answers:
        if self.rate:
            return open_loop(self.pipeline.port, requests, CONNECTIONS, self.rate)
        return closed(self.pipeline.port, requests, CONNECTIONS, 300)

    @contextmanager
    def measured(self, name: str, count: int) -> Iterator[list[Result]]:
        results: list[Result] = []
        before, spent, began = on_disk.logged(self.logs), self.pipeline.spent(), time.monotonic()
        yield results
        took = time.monotonic() - began
        for topic, size in sorted(on_disk.logged(self.logs).items()):
            grown = size - before[topic] - self.idle[topic] * took
            if grown > 2 * count:
                results.append(Result(name, f"{topic}, logged", round(grown / count, 1), "bytes"))
        for part, seconds in difference(spent, self.pipeline.spent()).items():
            cost = (seconds - self.idle_work[part] * took) / count
            results.append(Result(name, f"{part}, processor time", round(cost * 1e6), "us"))

    def jobs(self, name: str, load: Load) -> Iterator[Result]:
        with self.measured(name, load.count) as results:
            self.wrong += self.pipeline.run(load).wrong
            settled(self.logs)
        yield from results


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--count", type=int, default=4_000, help="of each load")
    parser.add_argument("--rate", type=float, default=200)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name:
        folder = Path(name)
        with tidegate(folder, SETTINGS) as pipeline, receiver() as url:
            results = list(memory("started", pipeline, "VmRSS"))
            idle, idle_work, rows = at_ease(pipeline, folder / "data" / "kafka")
            bench = Bench(pipeline, folder, chosen.rate, idle, idle_work)
            results += rows
            results += loads(bench, chosen.count, url)
            results += memory("at most", pipeline, "VmHWM")
        results += at_rest(folder)
    report("sizes", results, as_json=chosen.json)
    sys.exit(1 if bench.wrong else 0)


def loads(bench: Bench, count: int, url: str) -> Iterator[Result]:
    """Every load in turn."""
    asyncio.run(set_up(bench.pipeline.url, url))
    yield from bench.jobs("no-op job", Load("noop", count, bench.rate))
    yield from bench.jobs("job with one effect", Load("effect", count, bench.rate))
    jobs, effects = ("a job", 2 * count), ("an effect", count)
    yield from compacted(bench, {"jobs": jobs, "ledger": effects})
    events = made(count, event_type="other.made")
    yield from bench.growth("event without a job", events)
    yield from compacted(bench, {"dispatcher.parts.changelog": ("an event without a job", count)})
    bench.pipeline.renew("ingress")  # its memory would answer the redeliveries
    yield from bench.growth("redelivery", events)
    yield from bench.growth("event with one delivery", made(count, event_type="sent.made"))
    delivery = "a delivery", count
    yield from compacted(bench, {"deliveries": delivery, "delivery.queue.changelog": delivery})
    yield from real_bodies(bench, count)
    yield from at_full_speed(bench, count)


def at_full_speed(bench: Bench, count: int) -> Iterator[Result]:
    bench.rate = 0.0
    fast = "at full speed"
    yield from bench.jobs(f"no-op job, {fast}", Load("noop", count))
    yield from bench.jobs(f"job with one effect, {fast}", Load("effect", count))
    events = made(count, event_type="other.made")
    yield from bench.growth(f"event without a job, {fast}", events)
    bench.pipeline.renew("ingress")
    yield from bench.growth(f"redelivery, {fast}", events)
    sent = made(count, event_type="sent.made")
    yield from bench.growth(f"event with one delivery, {fast}", sent)


def real_bodies(bench: Bench, count: int) -> Iterator[Result]:
    real = github(count)
    if real:
        yield Result("body of GitHub", "size", round(sum(map(body_size, real)) / count), "bytes")
        yield from bench.growth("body of GitHub", real)
    else:
        print("no bodies of GitHub are at hand: left out", file=sys.stderr)


def body_size(request: bytes) -> int:
    return len(request.partition(b"\r\n\r\n")[2])


async def set_up(url: str, receiver_url: str) -> None:
    """An endpoint for `sent.*`, and a source of GitHub's, for each tenant."""
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    endpoint = {"url": f"{receiver_url}/ok", "events": ["sent.*"]}
    source = {"scheme": "github", "secret": SECRET.decode()}
    async with ClientSession(url, headers=headers) as api:
        for tenant in TENANTS:
            for path, body in (("endpoints/crm", endpoint), ("sources/github", source)):
                async with api.put(f"/v1/tenants/{tenant}/{path}", json=body) as answer:
                    answer.raise_for_status()


@contextmanager
def receiver() -> Iterator[str]:
    port = pick_free(frozenset())
    command = [sys.executable, str(HERE / "fast_receiver.py"), str(port)]
    with subprocess.Popen(command) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def settled(logs: Path) -> None:
    """Return when two looks, two seconds apart, find `events` and what follows it unchanged."""
    followed = "events", "duplicates", "jobs", "deliveries"
    deadline, before = time.monotonic() + SETTLE_SECONDS, None
    while time.monotonic() < deadline:
        sizes = on_disk.logged(logs)
        now = [sizes[topic] for topic in followed]
        if now == before:
            return
        before = now
        time.sleep(2)


def at_ease(pipeline: Tidegate, logs: Path) -> tuple[Counter[str], Seconds, list[Result]]:
    """What topics grow by and processes cost in a second in which nothing happens; then as rows."""
    before, spent = on_disk.logged(logs), pipeline.spent()
    time.sleep(IDLE_SECONDS)
    grown, took = on_disk.logged(logs), difference(spent, pipeline.spent())
    rates = Counter({topic: (grown[topic] - before[topic]) / IDLE_SECONDS for topic in grown})
    rows = [
        Result("nothing", f"{topic}, logged a second", round(size, 1), "bytes")
        for topic, size in rates.items()
        if size
    ]
    work = {part: worked / IDLE_SECONDS for part, worked in took.items()}
    rows += [
        Result("nothing", f"{part}, processor time", round(cores * 1e3, 1), "ms/s")
        for part, cores in work.items()
    ]
    return rates, work, rows


def memory(what: str, pipeline: Tidegate, name: str) -> Iterator[Result]:
    for part, mib in on_disk.resident(pipeline.pids(), name).items():
        yield Result(what, f"{part}, resident", round(mib), "MiB")


def compacted(bench: Bench, what: Mapping[str, tuple[str, int]]) -> Iterator[Result]:
    """What the cleaner leaves of the records that topics got since they were last compacted.

    `what` says for each topic what it is a record of, and how many there are.
    """
    clean_soon(bench.pipeline.bootstrap, list(what), soon=True)
    nudge(bench)
    for topic, size in zip(what, cleaned(bench.logs, list(what)), strict=True):
        of, count = what[topic]
        grown, bench.kept[topic] = size - bench.kept.get(topic, 0), size
        yield Result("compacted", f"{topic}, {of}", round(grown / count, 1), "bytes")
    clean_soon(bench.pipeline.bootstrap, list(what), soon=False)


def nudge(bench: Bench) -> None:
    """One more record on each topic closes its old segments."""
    for _ in range(2):
        bench.wrong += bench.pipeline.run(Load("effect", len(TENANTS), 40)).wrong
        list(bench.growth("nudge", made(len(TENANTS), event_type="sent.made")))


def at_rest(folder: Path) -> Iterator[Result]:
    for name, (entries, size) in on_disk.stores(folder / "data" / "state", folder / "c").items():
        yield Result("store", f"{name}, entries", entries, "entries")
        yield Result("store", f"{name}, on disk", size, "bytes")
    for table, (rows, size) in sorted(on_disk.read_model(folder / "data").items()):
        if rows:
            yield Result("read model", f"{table}, rows", rows, "rows")
            yield Result("read model", f"{table}, on disk", size, "bytes")


if __name__ == "__main__":
    main()

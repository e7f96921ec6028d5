"""From the answer to a signed event to the first line of its handler, through real processes.

    python benchmarks/bench_end_to_end.py [--seconds 15] [--rate 200] [--effect] [--json]

Kafka and one process of each stage run as in production. Events come at a fixed rate whatever
the pipeline does (an open loop), over HTTP to the ingress, with bodies of 1 KB. The handler notes
the time of its first line in a file and does nothing else; with `--effect` it makes one effect that
costs nothing, and notes the time after it. The first seconds warm the processes
up and are not counted. Every event must give one job that starts once and succeeds in its first
attempt, else the exit code is 1.

`one plain hop` is the yardstick of the machine and the moment: before the events come, one record
at a time goes through the least exactly-once program there is, from its sending to the reader of
the other side. The way of an event has two such hops, and a worker behind them.
"""

from __future__ import annotations

import asyncio
import hmac
import sys
import tempfile
import time
from argparse import Namespace
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import orjson
from aiohttp import ClientSession, TCPConnector
from harness import Result, arguments, report
from outside import APPLICATION_PATH, OVERLAY, percentiles, plain_hop, scan
from sources import create_sources
from webhook_requests import SECRET, TENANTS

from streams.dev.layout import Layout
from streams.dev.pipeline import Pipeline
from streams.serde.codec import JOB
from streams.settings import Settings
from streams.topology.load import load

BODY_BYTES = 1024
WARM_UP_SECONDS = 15.0
START_SECONDS = 60.0
SETTLE_SECONDS = 15.0


@dataclass(frozen=True)
class Until:
    """What the file notes, and the type of the events that lead to it."""

    name: str
    event_type: str


UNTIL = {False: Until("handler", "plain.made"), True: Until("effect done", "told.made")}


@dataclass(frozen=True)
class Answered:
    """A delivery and its 202; times in seconds since the epoch, `due_at` by the open loop."""

    job_id: str
    due_at: float
    sent_at: float
    answered_at: float


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--effect", action="store_true", help="until an effect is done")
    parser.add_argument("--apart", action="store_true", help="run the stages apart")
    chosen = parser.parse_args()
    layout = Layout.apart() if chosen.apart else Layout()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        results, wrong = asyncio.run(measure(Path(folder), layout, chosen))
    report("end_to_end", results, as_json=chosen.json)
    sys.exit(1 if wrong else 0)


async def measure(folder: Path, layout: Layout, chosen: Namespace) -> tuple[list[Result], int]:
    seconds, rate, until = chosen.seconds, chosen.rate, UNTIL[chosen.effect]
    starts_file = folder / "starts"
    settings = Settings(data_dir=folder / "data", port=0, topology=OVERLAY, log_level="warning")
    env = {"PYTHONPATH": APPLICATION_PATH, "BENCH_STARTS": str(starts_file)}
    pipeline = Pipeline(settings, layout, app="bench_app:app", env=env)
    async with asyncio.timeout(START_SECONDS):
        await pipeline.__aenter__()
    try:
        hop = await asyncio.to_thread(plain_hop, pipeline.settings.bootstrap)
        await create_sources(pipeline.url, pipeline.credentials.admin_token)
        answers = await deliver(pipeline, WARM_UP_SECONDS + seconds, rate, until.event_type)
        starts = await all_started(starts_file, answers)
        wrong = await all_succeeded(pipeline.settings.bootstrap, answers)
    finally:
        await pipeline.__aexit__(None, None, None)
    counted = [a for a in answers if a.due_at >= answers[0].due_at + WARM_UP_SECONDS]
    wrong += sum(len(starts.get(a.job_id, ())) != 1 for a in answers)
    return [*hop, *figures(f"{rate} events/s", counted, starts, wrong, until.name)], wrong


async def post(session: ClientSession, tenant: str, body: bytes) -> tuple[int, bytes]:
    headers = {
        "Content-Type": "application/json",
        "X-Signature": hmac.digest(SECRET, body, "sha256").hex(),
    }
    async with session.post(f"/v1/hooks/{tenant}/bench", data=body, headers=headers) as answer:
        return answer.status, await answer.read()


async def deliver(pipeline: Pipeline, seconds: float, rate: int, event_type: str) -> list[Answered]:
    """Send each event at its time, whether earlier ones were answered or not."""
    ingress = next(member.url for member in pipeline.members if member.stage == "ingress")
    async with ClientSession(ingress, connector=TCPConnector(limit=0)) as session:
        start, sending = time.time() + 0.1, []
        for number in range(int(seconds * rate)):
            due_at = start + number / rate
            await asyncio.sleep(max(0, due_at - time.time()))
            sending.append(asyncio.create_task(send(session, number, due_at, event_type)))
        return await asyncio.gather(*sending)


async def send(session: ClientSession, number: int, due_at: float, event_type: str) -> Answered:
    event = {"type": event_type, "id": f"evt-{number}", "data": {"id": number}}
    padding = BODY_BYTES - len(orjson.dumps({**event, "text": ""}))
    body = orjson.dumps({**event, "text": "x" * padding})
    sent_at = time.time()
    status, told = await post(session, TENANTS[number % len(TENANTS)], body)
    answered_at = time.time()
    if status != 202:
        raise SystemExit(f"answered {status}: {told.decode()}")
    return Answered(orjson.loads(told)["job_id"], due_at, sent_at, answered_at)


async def all_started(file: Path, answers: list[Answered]) -> dict[str, list[float]]:
    """Moments at which handlers of a job began, once every job has or after a while."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        starts: dict[str, list[float]] = {}
        lines = file.read_text().splitlines() if file.exists() else []
        for job_id, at in (line.split() for line in lines):
            starts.setdefault(job_id, []).append(float(at))
        if all(a.job_id in starts for a in answers) or time.monotonic() > deadline:
            return starts
        await asyncio.sleep(0.2)


async def all_succeeded(bootstrap: str, answers: list[Answered]) -> int:
    """How many jobs are missing, too many, or did not succeed in their first attempt."""
    expected = Counter[tuple[str, str, int]]((a.job_id, "succeeded", 1) for a in answers)
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        records = await asyncio.to_thread(scan, bootstrap, load(OVERLAY), "jobs")
        newest = map(JOB.decode, {m.key(): m.value() for m in records}.values())
        found = Counter[tuple[str, str, int]]((j.job_id, j.status, j.attempts) for j in newest)
        wrong = sum(((expected - found) + (found - expected)).values())
        if not wrong or time.monotonic() > deadline:
            return wrong
        await asyncio.sleep(0.5)


def figures(
    contender: str,
    answers: list[Answered],
    starts: dict[str, list[float]],
    wrong: int,
    until: str,
) -> list[Result]:
    began = [(a, starts[a.job_id][0]) for a in answers if a.job_id in starts]
    took = max(a.sent_at for a in answers) - min(a.sent_at for a in answers)
    return [
        *percentiles(contender, f"answer to {until}", [at - a.answered_at for a, at in began]),
        *percentiles(contender, f"request to {until}", [at - a.due_at for a, at in began]),
        *percentiles(contender, "request to answer", [a.answered_at - a.due_at for a in answers]),
        Result(contender, "events sent", round((len(answers) - 1) / took, 1), "events/s"),
        Result(contender, "lost or not once", wrong, "jobs"),
    ]


if __name__ == "__main__":
    main()

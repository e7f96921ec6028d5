"""A whole pipeline without workers, for `bench_link.py`, and what is asked of it from outside."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.request import urlopen

import orjson
from http_load import closed
from outside import APPLICATION_PATH, OVERLAY, scan
from prometheus_client.parser import text_string_to_metric_families
from webhook_requests import made

from streams.dev.layout import Member, owners
from streams.dev.pipeline import Pipeline
from streams.serde.codec import JOB
from streams.topology.load import load

_PATIENCE_SECONDS = 90.0


class Bench:
    """A running pipeline without workers, and the file in which handlers note their moments."""

    def __init__(self, pipeline: Pipeline, notes: Path, released: Path) -> None:
        self.pipeline = pipeline
        self.notes = notes
        self.released = released
        self.owners = [m for m in pipeline.members if m.link_port]
        self._ingress = next(m.port for m in pipeline.members if m.stage == "ingress")

    def environment(self) -> dict[str, str]:
        """What a worker needs."""
        return {
            **self.pipeline.credentials.environment(),
            "TIDEGATE_LINK": ",".join(owners(self.pipeline.members)),
            "TIDEGATE_TOPOLOGY": str(OVERLAY),
            "TIDEGATE_LOG_FORMAT": "json",
            "PYTHONPATH": APPLICATION_PATH,
            "BENCH_STARTS": str(self.notes),
            "BENCH_RELEASED": str(self.released),
        }

    def send(self, count: int, event_type: str) -> list[str]:
        """Send webhooks; the ids of their jobs."""
        answers = closed(self._ingress, made(count, event_type=event_type), 8, _PATIENCE_SECONDS)
        return [orjson.loads(body)["job_id"] for _, body in answers.bodies]

    def noted(self) -> dict[str, list[float]]:
        """The moments of each job."""
        found: dict[str, list[float]] = {}
        for line in self.notes.read_text().splitlines():
            job_id, at = line.split()[:2]
            found.setdefault(job_id, []).append(float(at))
        return found

    def twice(self) -> int:
        """How many starts and effects were noted again."""
        lines = [line.split() for line in self.notes.read_text().splitlines()]
        return len(lines) - len({(job_id, *number) for job_id, _, *number in lines})

    def not_once(self) -> int:
        """How many of the jobs that ran do not succeed in their first attempt."""
        ran, topology = self.noted().keys(), load(OVERLAY)

        def others() -> int:
            records = scan(self.pipeline.settings.bootstrap, topology, "jobs")
            newest = map(JOB.decode, {m.key(): m.value() for m in records}.values())
            good = {j.job_id for j in newest if (j.status, j.attempts) == ("succeeded", 1)}
            return len(ran - good)

        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (left := others()) and time.monotonic() < deadline:
            time.sleep(1)
        return left

    def until_noted(self, jobs: Sequence[str], times: int = 1) -> None:
        """Return once each of these has noted so many moments."""
        until(lambda: all(len(self.noted().get(job, ())) >= times for job in jobs), "handlers run")

    def pid(self, owner: Member) -> int:
        pid = self.pipeline.pid(owner.name)
        assert pid is not None, f"{owner.name} is down"
        return pid

    def connected(self) -> list[int]:
        """How many workers each owner has."""
        return [int(_metric(owner.url, "tidegate_link_workers")) for owner in self.owners]


def until(condition: Callable[[], bool], what: str) -> None:
    """Return once the condition holds; too long a wait ends the program."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {_PATIENCE_SECONDS:g} s: {what}")
        time.sleep(0.1)


def _metric(url: str, name: str) -> float:
    with urlopen(f"{url}/metrics", timeout=10) as page:
        families = text_string_to_metric_families(page.read().decode())
    return sum(s.value for family in families for s in family.samples if s.name == name)

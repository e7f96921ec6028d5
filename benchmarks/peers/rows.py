"""The rows of a run, and the files in which the tables' figures are kept: one for each run."""

from __future__ import annotations

import datetime
import json
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from harness import Result, machine

from peers.contract import Peer
from peers.works import WRONG

KEPT = Path(__file__).parent / "kept"
"""A folder with a file for each run whose figures are published."""


@dataclass(frozen=True)
class Run:
    """Some rounds: when they were and by which command, what ran, and every figure of each."""

    when: str
    versions: Mapping[str, str]
    results: Sequence[Result]

    def keep(self, name: str) -> None:
        """Publish the figures, in the place of those that had this name."""
        file = KEPT / f"{name}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        head = {"when": self.when, "versions": self.versions}
        lines = [json.dumps(each) for each in (head, *map(asdict, self.results))]
        file.write_text("\n".join(lines) + "\n")


@dataclass(frozen=True)
class Standings:
    """The figures of some runs: of all rounds the medians, or the sum for faults."""

    runs: Sequence[Run]
    versions: Mapping[str, str]
    results: Sequence[Result]

    def of(self, peer: str, metric: str) -> float | None:
        """A figure, None where there is none."""
        found = (r.value for r in self.results if (r.contender, r.metric) == (peer, metric))
        return next(found, None)


def run_of(rounds: Sequence[Sequence[Result]], peers: Sequence[Peer], command: str) -> Run:
    """What these rounds came to, today on this machine."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    count = f"{len(rounds)} round" + "s" * (len(rounds) > 1)
    versions = {peer.name: _versions(peer) for peer in peers}
    results = [result for each in rounds for result in each]
    return Run(f"{today}, {machine()}, {count}: `{command}`", versions, results)


def standings(runs: Sequence[Run]) -> Standings:
    """All runs together; a work with faults has no other figure."""
    versions = {name: version for run in runs for name, version in run.versions.items()}
    return Standings(runs, versions, medians([each for run in runs for each in run.results]))


def read() -> list[Run]:
    """The runs that were kept."""
    return [_run(path.read_text()) for path in sorted(KEPT.glob("*.jsonl"))]


def _run(text: str) -> Run:
    head, *rows = map(json.loads, text.splitlines())
    return Run(**head, results=[Result(**row) for row in rows])


def medians(results: Sequence[Result]) -> list[Result]:
    """One row for each figure."""
    values: dict[tuple[str, str, str], list[float]] = {}
    for each in _right(results):
        values.setdefault((each.contender, each.metric, each.unit), []).append(each.value)
    return [
        Result(peer, metric, _one(unit, found), unit)
        for (peer, metric, unit), found in values.items()
    ]


def _right(results: Sequence[Result]) -> list[Result]:
    """Without the figures of works in which the checker found a fault."""
    faulty = {
        (r.contender, r.metric.removesuffix(f", {WRONG}"))
        for r in results
        if r.metric.endswith(WRONG) and r.value
    }
    return [
        each
        for each in results
        if each.metric.endswith(WRONG)
        or not any(
            each.contender == peer and each.metric.startswith(title) for peer, title in faulty
        )
    ]


def _one(unit: str, found: Sequence[float]) -> float:
    """Of counts the sum, of the rest the median."""
    if unit in ("jobs", "webhooks"):
        return sum(found)
    return round(statistics.median(found), 2)


def _versions(peer: Peer) -> str:
    """Those of a peer's server, and of its packages as the lock files name them."""
    text = "\n".join(each.read_text() for each in (peer.lock, *peer.more_locks))
    found = ((name, _version(name, text)) for name in peer.packages)
    server = [peer.server()] if peer.server else []
    return ", ".join([*server, *(f"{name} {version}" for name, version in found)])


def _version(name: str, text: str) -> str:
    in_python = re.search(rf"^{re.escape(name)}==([^ \\]+)", text, re.M)
    in_node = re.search(rf'"node_modules/{re.escape(name)}": {{\s*"version": "([^"]+)"', text)
    match = in_python or in_node
    return match[1] if match else "of this machine"

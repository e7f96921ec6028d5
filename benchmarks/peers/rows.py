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
class Standings:
    """Figures of the peers of some runs: medians of each run's rounds, on one day and machine."""

    when: Sequence[str]
    versions: Mapping[str, str]
    results: Sequence[Result]

    def of(self, peer: str, metric: str) -> float | None:
        """A figure, None where there is none."""
        found = (r.value for r in self.results if (r.contender, r.metric) == (peer, metric))
        return next(found, None)

    def text(self) -> str:
        fields = {**vars(self), "results": [asdict(each) for each in self.results]}
        return json.dumps(fields, indent=1) + "\n"


def standings(rounds: Sequence[Sequence[Result]], peers: Sequence[Peer], command: str) -> Standings:
    """Of all rounds the medians, or the sum for faults; a work with faults has no other figure."""
    versions = {peer.name: _versions(peer) for peer in peers}
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    results = [result for each in rounds for result in each]
    count = f"{len(rounds)} round" + "s" * (len(rounds) > 1)
    return Standings([f"{today}, {machine()}, {count}: `{command}`"], versions, medians(results))


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


def write(found: Standings, name: str) -> None:
    """Keep the figures of a run, in the place of those that had its name."""
    KEPT.mkdir(exist_ok=True)
    (KEPT / f"{name}.json").write_text(found.text())


def read(folder: Path = KEPT) -> Standings:
    """What was kept of all runs."""
    runs = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return Standings(
        when=[when for run in runs for when in run["when"]],
        versions={name: version for run in runs for name, version in run["versions"].items()},
        results=[Result(**each) for run in runs for each in run["results"]],
    )


def _one(unit: str, found: Sequence[float]) -> float:
    """Of counts the sum, of the rest the median."""
    if unit in ("jobs", "webhooks"):
        return sum(found)
    return round(statistics.median(found), 2)


def _versions(peer: Peer) -> str:
    """The versions that the lock files name of a peer's packages."""
    text = "\n".join(each.read_text() for each in (peer.lock, *peer.more_locks))
    found = ((name, _version(name, text)) for name in peer.packages)
    return ", ".join(f"{name} {version}" for name, version in found)


def _version(name: str, text: str) -> str:
    in_python = re.search(rf"^{re.escape(name)}==([^ \\]+)", text, re.M)
    in_node = re.search(rf'"node_modules/{re.escape(name)}": {{\s*"version": "([^"]+)"', text)
    match = in_python or in_node
    return match[1] if match else "of this machine"

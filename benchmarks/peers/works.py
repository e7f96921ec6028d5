"""The works: what is sent to every peer, when it is done, and the figures that are taken."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness import Result
from http_load import Answers, closed, open_loop
from jobs_run import Meter, Seconds, Stalled
from outside import percentiles
from webhook_requests import TENANTS

from peers.contract import Peer
from peers.running import Running
from peers.verdict import Journal, Verdict
from peers.webhooks import Webhook, made

CONNECTIONS = 32
POLL_SECONDS = 0.05
SETTLE_SECONDS = 0.2
CALM_SECONDS = 0.5
CALM_WITHIN_SECONDS = 30.0
CALM_CORES = 0.2
FANS = 3
PROCESSOR = "processor time"
WRONG = "wrong"

Measure = Callable[["Stage", int], Iterator[Result]]


@dataclass(frozen=True)
class Sent:
    """When the first webhook was sent, and when each event was answered."""

    began: float
    answered: dict[str, float]


@dataclass(frozen=True)
class Stage:
    """One peer under measurement."""

    peer: Peer
    system: Running
    journal: Journal

    @property
    def name(self) -> str:
        return self.peer.name

    def sent(self, webhooks: Sequence[Webhook], rate: float = 0.0) -> Sent:
        """Send all of them, `rate` a second, or as fast as the answers come.

        Raises:
            Stalled: one was refused.
        """
        requests = [each.rendered() for each in webhooks]
        port = self.system.place.port
        if rate:
            found = open_loop(port, requests, CONNECTIONS, rate)
        else:
            found = closed(port, requests, CONNECTIONS, patience(len(requests)))
        _check(found, len(requests))
        at = zip(found.numbers, found.bodies, strict=True)
        answered = {webhooks[number].event_id: moment for number, (moment, _) in at}
        return Sent(found.began, answered)

    def until(self, kind: str, count: int) -> None:
        """Return once so many lines of a kind are there.

        Raises:
            Stalled: they never were, or a part ended.
        """
        deadline = time.monotonic() + patience(count)
        while (found := self.journal.count(kind)) < count:
            self.system.check()
            if time.monotonic() > deadline:
                raise Stalled(f"{found} of {count} lines `{kind}` are there")
            time.sleep(POLL_SECONDS)

    def settled(self, seconds: float = 60.0) -> Mapping[str, str]:
        """What the peer calls unfinished, by state, once that is nothing or the time is up."""
        deadline = time.monotonic() + seconds
        while (left := self.system.unfinished()) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        time.sleep(SETTLE_SECONDS)
        return left

    def judged(
        self, answered: Collection[str], sent: Sequence[Webhook], left: Collection[str]
    ) -> Verdict:
        """What became of these events, of which the peer calls `left` unfinished."""
        known = {self.peer.named(each): each.event_id for each in sent}
        unfinished = [known.get(name, name) for name in left]
        calling = {each.event_id for each in sent if each.type == "effect.made"}
        return self.journal.verdict(answered, known.values(), unfinished, calling)

    def busy(self) -> Seconds:
        """How many cores each part uses just now."""
        before = self.system.spent()
        time.sleep(CALM_SECONDS)
        after = self.system.spent()
        return {part: (after[part] - before[part]) / CALM_SECONDS for part in after}

    def calm(self, resting: Seconds) -> Seconds:
        """Return once the parts use little more than at rest, or after half a minute.

        What it returns is what they would have spent meanwhile at rest.
        """
        began, enough = time.monotonic(), sum(resting.values()) + CALM_CORES
        while sum(self.busy().values()) > enough:
            if time.monotonic() > began + CALM_WITHIN_SECONDS:
                break
        waited = time.monotonic() - began
        return {part: cores * waited for part, cores in resting.items()}


def patience(count: int) -> float:
    """Seconds after which what has not come will not come."""
    return 60 + count / 20


def plain(stage: Stage, count: int) -> Iterator[Result]:
    """Jobs that do nothing, as fast as they are taken; then what the parts keep in memory."""
    yield from _flood(stage, "no-op", made("plain.made", count))
    resident = stage.system.resident()
    yield Result(stage.name, "resident", round(sum(resident.values())), "MiB")
    for part, mib in resident.items():
        yield Result(stage.name, f"resident, of it {part}", round(mib), "MiB")


def many_tenants(stage: Stage, count: int) -> Iterator[Result]:
    """The same of a few tenants, where there are many; then of all of them."""
    tenants = stage.system.place.tenants
    for some in (tenants[: len(TENANTS)], tenants):
        title = f"{len(some):,} tenants"
        yield from _flood(stage, title, made("plain.made", count, tenants=some))
        resident = sum(stage.system.resident().values())
        yield Result(stage.name, f"{title}, resident", round(resident), "MiB")


def one_effect(stage: Stage, count: int) -> Iterator[Result]:
    """Jobs with one call of a tool."""
    yield from _flood(stage, "one effect", made("effect.made", count))


def at_rates(stage: Stage, seconds: int) -> Iterator[Result]:
    """From the answer to the handler's first line, at rates that wait for nobody."""
    for rate in (50, 200, 400):
        stage.journal.clear()
        webhooks = made("plain.made", rate * seconds)
        meter = Meter(stage.system.spent())
        answered = stage.sent(webhooks, rate).answered
        stage.until("end", len(webhooks))
        left, (spent, _) = stage.settled(), meter.read(stage.system.spent(), 0)
        starts = stage.journal.firsts("start")
        took = [starts[each] - at for each, at in answered.items()]
        yield from percentiles(stage.name, f"{rate}/s, answer to handler", took)
        yield from processor_time(stage, f"{rate}/s", spent, len(webhooks))
        yield wrong(stage, f"{rate}/s", answered, webhooks, left)


def fan_out(stage: Stage, jobs: int) -> Iterator[Result]:
    """One job that starts so many, and ends once all have ended; the median of some."""
    took, used = [], 0.0
    for _ in range(FANS):
        stage.journal.clear()
        asked = made("fan.made", 1, jobs)
        meter = Meter(stage.system.spent())
        answered = stage.sent(asked).answered
        stage.until("end", jobs + 1)
        left, (spent, _) = stage.settled(), meter.read(stage.system.spent(), 0)
        (event_id, at), *_ = answered.items()
        took.append(stage.journal.firsts("end")[event_id] - at)
        used += sum(spent.values())
        yield wrong(stage, "fan-out", answered, asked, left)
    yield Result(stage.name, f"fan-out of {jobs:,}", round(statistics.median(took), 2), "s")
    each = round(used / FANS / jobs * 1e6)
    yield Result(stage.name, f"fan-out, {PROCESSOR}", each, "us/job")


def idle(stage: Stage, seconds: int) -> Iterator[Result]:
    """What the parts spend while nothing is to be done."""
    before, since = stage.system.spent(), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - since
    after = stage.system.spent()
    spent = {part: (after[part] - before[part]) / took * 1000 for part in after}
    yield Result(stage.name, "idle", round(sum(spent.values()), 1), "ms/s")
    for part, each in spent.items():
        yield Result(stage.name, f"idle, of it {part}", round(each, 1), "ms/s")


def _flood(stage: Stage, title: str, webhooks: Sequence[Webhook]) -> Iterator[Result]:
    """As many jobs as one can, from the first one sent to the last one's end."""
    stage.journal.clear()
    meter = Meter(stage.system.spent())
    sent = stage.sent(webhooks)
    stage.until("end", len(webhooks))
    left, (spent, others) = stage.settled(), meter.read(stage.system.spent(), 0)
    took = max(stage.journal.firsts("end").values()) - sent.began
    yield Result(stage.name, title, round(len(webhooks) / took, 1), "jobs/s")
    yield from processor_time(stage, title, spent, len(webhooks))
    yield Result(stage.name, f"{title}, busy with others", round(others, 2), "cores")
    yield wrong(stage, title, sent.answered, webhooks, left)


def processor_time(
    stage: Stage, title: str, spent: dict[str, float], count: int
) -> Iterator[Result]:
    """Microseconds of all parts for each, and of each part; the sender's are left out."""
    own = {part: seconds for part, seconds in spent.items() if part != "load"}
    each = round(sum(own.values()) / count * 1e6)
    yield Result(stage.name, f"{title}, {PROCESSOR}", each, "us/job")
    for part, seconds in own.items():
        yield Result(stage.name, f"{title}, of it {part}", round(seconds / count * 1e6), "us/job")


def wrong(
    stage: Stage,
    title: str,
    answered: Collection[str],
    sent: Sequence[Webhook],
    left: Collection[str],
) -> Result:
    """How many faults the checker found; a work that has one has no figure."""
    found = stage.judged(answered, sent, left).wrong
    return Result(stage.name, f"{title}, {WRONG}", found, "jobs")


def _check(found: Answers, count: int) -> None:
    refused = {status: n for status, n in found.statuses.items() if status not in (200, 202)}
    if refused or len(found.numbers) < count:
        raise Stalled(f"{len(found.numbers)} of {count} webhooks answered, refused: {refused}")

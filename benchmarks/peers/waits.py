"""Jobs that wait for an event: how they park and wake, and what they cost meanwhile.

They run on processes that have done nothing else, so that memory is theirs alone.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence

from harness import Result
from jobs_run import Meter, Seconds, difference
from outside import percentiles

from peers.webhooks import Webhook, answers, made
from peers.works import Stage, processor_time, wrong

WAKES_A_SECOND = 50.0
SLOW_WAKES = 500


def waits(stage: Stage, count: int) -> Iterator[Result]:
    """Jobs that all wait for an event of their own; then the events, some of them at a rate."""
    yield from _parked(stage, "waits", count)


def many_waits(stage: Stage, count: int) -> Iterator[Result]:
    """The same with many jobs."""
    yield from _parked(stage, f"{count:,} waits", count)


def _parked(stage: Stage, title: str, count: int) -> Iterator[Result]:
    """How fast they park and wake, and what the parts keep in memory before and while all wait."""
    stage.journal.clear()
    asked = made("wait.made", count)
    before, resting = sum(stage.system.resident().values()), stage.busy()
    meter = Meter(stage.system.spent())
    sent = stage.sent(asked)
    stage.until("start", count)
    rested = stage.calm(resting)
    parking = difference(rested, meter.read(stage.system.spent(), 0)[0])
    parked = count / (max(stage.journal.firsts("start").values()) - sent.began)
    resident = sum(stage.system.resident().values())
    yield Result(stage.name, f"{title}, parked", round(parked, 1), "jobs/s")
    yield Result(stage.name, f"{title}, resident before", round(before), "MiB")
    yield Result(stage.name, f"{title}, more resident", round(resident - before), "MiB")
    wakes = answers(asked)
    slow, rest = wakes[: min(count // 2, SLOW_WAKES)], wakes[min(count // 2, SLOW_WAKES) :]
    yield from _woken_slowly(stage, title, slow)
    waking, left = yield from _woken(stage, title, rest)
    spent = {part: parking[part] / count + waking[part] / len(rest) for part in waking}
    yield from processor_time(stage, title, spent, 1)
    yield wrong(stage, title, sent.answered, asked, left)


def _woken_slowly(stage: Stage, title: str, wakes: Sequence[Webhook]) -> Iterator[Result]:
    """How long each wake takes while the others wait."""
    sent = stage.sent(wakes, WAKES_A_SECOND).answered
    stage.until("end", len(wakes))
    woke = stage.journal.firsts("woke")
    took = [woke[each.removesuffix("-answered")] - at for each, at in sent.items()]
    yield from percentiles(stage.name, f"{title}, wake at {WAKES_A_SECOND:g}/s", took)


def _woken(
    stage: Stage, title: str, wakes: Sequence[Webhook]
) -> Generator[Result, None, tuple[Seconds, Collection[str]]]:
    """How fast all others wake; returns what that took, and what has not ended."""
    ended = stage.journal.count("end")
    meter = Meter(stage.system.spent())
    since = stage.sent(wakes).began
    stage.until("end", ended + len(wakes))
    left, (spent, _) = stage.settled(), meter.read(stage.system.spent(), 0)
    took = max(stage.journal.firsts("woke").values()) - since
    yield Result(stage.name, f"{title}, woken", round(len(wakes) / took, 1), "jobs/s")
    return spent, left

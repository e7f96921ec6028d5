"""A redelivery storm: a vendor that sends everything of some days again, and then once more."""

from __future__ import annotations

from collections.abc import Iterator

from harness import Result
from jobs_run import Meter, Seconds
from webhook_requests import TENANTS

from peers.webhooks import Webhook, made
from peers.works import Stage, processor_time, wrong

TIMES = 3


def storm(stage: Stage, count: int) -> Iterator[Result]:
    """Events with one effect each, and all of them twice more.

    Each time some new ones follow, and once they have ended, all before them are dealt with. The
    front starts anew in between: what it might have in memory is gone after days.
    """
    stage.journal.clear()
    webhooks, new = made("effect.made", count), list[Webhook]()
    seconds, spent, answered = 0.0, Seconds(), dict[str, float]()
    for number in range(TIMES):
        if number:
            stage.system.restart("front")
        last = made("effect.made", len(TENANTS))
        new += last
        meter = Meter(stage.system.spent())
        sent = stage.sent(webhooks + last)
        stage.until("end", count + len(new))
        ends = stage.journal.firsts("end")
        seconds += max(*ends.values(), *sent.answered.values()) - sent.began
        answered |= sent.answered
        left, (used, _) = stage.settled(), meter.read(stage.system.spent(), 0)
        spent = {part: spent.get(part, 0.0) + used[part] for part in used}
    yield Result(stage.name, "storm", round(TIMES * count / seconds, 1), "webhooks/s")
    yield from processor_time(stage, "storm", spent, TIMES * count)
    yield wrong(stage, "storm", answered, webhooks + new, left)

"""The same kills for everybody: each role's processes get SIGKILL in turn, several times over.

A supervisor's part is played: a process that ended starts again after a second, whether it was
killed or gave up because another one was. The sender repeats a webhook until it is answered, as
vendors do.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from aiohttp import ClientError, ClientSession, ClientTimeout
from harness import Result

from peers.contract import Part, Role
from peers.webhooks import Webhook, made
from peers.works import POLL_SECONDS, Stage

RATE = 50.0
EFFECT_SECONDS = 0.05
"""A call of the tool under kills: long enough to be interrupted."""
ROLES: tuple[Role, ...] = ("worker", "server", "store", "front")
CYCLES = 3
"""How often each role is killed."""
PAUSE_SECONDS = 12.0173
"""From one kill to the next: no multiple of the time between webhooks, or of any time at which a
peer polls, lest every kill find its jobs equally far."""
FIRST_SECONDS = 10.0
SECONDS = FIRST_SECONDS + PAUSE_SECONDS * CYCLES * len(ROLES)
RESTART_SECONDS = 1.0
PATIENCE_SECONDS = 90.0
"""After the last webhook; what has not ended then is stuck."""


@dataclass
class Sent:
    """When each event was first sent, when it was answered, and when which role was dead."""

    tried: dict[str, float] = field(default_factory=dict)
    answered: dict[str, float] = field(default_factory=dict)
    killed: list[tuple[Role, float]] = field(default_factory=list)


def kills(stage: Stage, count: int = int(RATE * SECONDS)) -> Iterator[Result]:
    """What is lost, doubled and stuck, and how long nothing moved."""
    stage.journal.clear()
    webhooks = made("effect.made", count)
    try:
        sent, left = asyncio.run(_supervised(stage, webhooks))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    verdict = stage.judged(sent.answered, webhooks, left)
    figures = {"lost": verdict.lost, "doubled effects": verdict.doubled, "stuck": verdict.stuck}
    starts = stage.journal.firsts("start")
    for title, found in {**figures, "run again": verdict.repeated}.items():
        yield Result(stage.name, f"kills, {title}", len(found), "jobs")
        for role, share in cut_off(sent, starts, found).items():
            yield Result(stage.name, f"kills, {title}, of it after {role}", share, "jobs")
    for state, stuck in Counter(left.values()).items():
        yield Result(stage.name, f"kills, stuck, of it {state}", stuck, "jobs")
    yield Result(stage.name, "kills, sent", count, "webhooks")
    yield Result(stage.name, "kills, unanswered", count - len(sent.answered), "webhooks")
    for role, seconds in _moves_again(stage, sent).items():
        again = round(statistics.median(seconds), 1)
        yield Result(stage.name, f"kills, moves again after {role}", again, "s")
    yield Result(stage.name, "kills, last end", round(_last_end(stage, sent), 1), "s")


async def _supervised(stage: Stage, webhooks: Sequence[Webhook]) -> tuple[Sent, Mapping[str, str]]:
    """All of it until the end, and what the peer calls unfinished then."""
    async with asyncio.TaskGroup() as tasks:
        kept = [tasks.create_task(_keep(stage, part)) for part in stage.system.parts.values()]
        sent = await _load_and_kills(stage, webhooks)
        left = await asyncio.to_thread(_await_the_end, stage, sent)
        for each in kept:
            each.cancel()
    return sent, left


async def _keep(stage: Stage, part: Part) -> None:
    """Start a part again whenever it has ended."""
    while True:
        await asyncio.sleep(POLL_SECONDS)
        if not stage.system.runs(part):
            await asyncio.sleep(RESTART_SECONDS)
            stage.system.begin(part)


async def _load_and_kills(stage: Stage, webhooks: Sequence[Webhook]) -> Sent:
    sent, began = Sent(), time.monotonic()
    timeout = ClientTimeout(total=5)
    url = f"http://127.0.0.1:{stage.system.place.port}"
    async with ClientSession(url, timeout=timeout) as session, asyncio.TaskGroup() as tasks:
        tasks.create_task(_kill_all(stage, sent, began))
        for number, webhook in enumerate(webhooks):
            await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
            tasks.create_task(_deliver(session, webhook, sent, began))
    return sent


async def _deliver(session: ClientSession, webhook: Webhook, sent: Sent, began: float) -> None:
    """Send a webhook until it is answered, once a second."""
    headers = {"X-Signature": webhook.signature, "Content-Type": "application/json"}
    path = f"/v1/hooks/{webhook.tenant}/bench"
    sent.tried[webhook.event_id] = time.time()
    while time.monotonic() < began + SECONDS + PATIENCE_SECONDS:
        try:
            async with session.post(path, data=webhook.body, headers=headers) as answer:
                if answer.status in (200, 202):
                    sent.answered[webhook.event_id] = time.time()
                    return
        except (ClientError, TimeoutError):
            pass
        await asyncio.sleep(1)


async def _kill_all(stage: Stage, sent: Sent, began: float) -> None:
    for number, role in enumerate(ROLES * CYCLES):
        parts, at = stage.system.of(role), FIRST_SECONDS + PAUSE_SECONDS * number
        await asyncio.sleep(max(0.0, began + at - time.monotonic()))
        for part in parts:
            stage.system.kill(part)
        if parts:
            sent.killed.append((role, time.time()))


def _await_the_end(stage: Stage, sent: Sent) -> Mapping[str, str]:
    """What the peer calls unfinished, once all answered jobs ended or the patience is over."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        left = sent.answered.keys() - stage.journal.firsts("end").keys()
        if not left:
            break
        time.sleep(POLL_SECONDS * 10)
    return stage.settled(max(0.0, deadline - time.monotonic()))


def cut_off(
    sent: Sent, starts: Mapping[str, float], event_ids: Iterable[str]
) -> Mapping[Role, int]:
    """How many of these events each role's kills cut off, as far as times can tell.

    That is the first kill after the handler began, or after the webhook was sent if it never did.
    """
    began = {**sent.tried, **starts}
    found = Counter(dict.fromkeys((role for role, _ in sent.killed), 0))
    for each in event_ids:
        found.update([role for role, at in sent.killed if at > began.get(each, at)][:1])
    return found


def _moves_again(stage: Stage, sent: Sent) -> dict[Role, list[float]]:
    """From each kill to the first end of an event that began and was answered after it.

    One that ended before the kill took its answer is answered later, as a redelivery.
    """
    starts, ends = stage.journal.firsts("start"), stage.journal.firsts("end")
    took: dict[Role, list[float]] = {}
    for role, at in sent.killed:
        answered = [each for each, moment in sent.answered.items() if moment > at]
        later = [ends[e] for e in answered if e in ends and starts[e] > at]
        if later:
            took.setdefault(role, []).append(min(later) - at)
    return took


def _last_end(stage: Stage, sent: Sent) -> float:
    """From the last answer to the last end; less than nothing never."""
    ends = stage.journal.firsts("end").values()
    return max(0.0, max(ends, default=0.0) - max(sent.answered.values(), default=0.0))

"""What a run says is gathered, bounded, and sent in its order."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import orjson
import pytest
from support.leases import lease_to

from streams.redaction.redaction import Redaction
from streams.serde.records import Lease, LiveOutput
from streams.worker.live import output
from streams.worker.live.budget import Bounds, Budget
from streams.worker.live.line import Line, written
from streams.worker.live.output import LINES, TOKENS, LivePublisher
from streams.worker.live.unsent import CHUNK_CHARS


class Wire:
    """Takes records; acknowledges them at once, or when the test says so."""

    def __init__(self, *, prompt: bool = True) -> None:
        self.sent: list[LiveOutput] = []
        self.open: list[asyncio.Future[None]] = []
        self.prompt = prompt

    def publish(self, said: LiveOutput) -> asyncio.Future[None]:
        self.sent.append(said)
        acknowledged: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.prompt:
            acknowledged.set_result(None)
        else:
            self.open.append(acknowledged)
        return acknowledged

    def acknowledge(self) -> None:
        for each in self.open:
            each.set_result(None)
        self.open.clear()

    def told(self, kind: str = "token") -> list[tuple[str, int, str]]:
        return [(each.step, each.n, each.text) for each in self.sent if each.kind == kind]


def publisher(
    wire: Wire, clock: Any = lambda: 0.0, redaction: Redaction | None = None, **lease: Any
) -> LivePublisher:
    made: Lease = replace(lease_to(0), **lease)
    loop = asyncio.get_running_loop()
    return LivePublisher(made, wire.publish, clock, loop, redaction or Redaction())


async def test_the_texts_of_a_step_that_come_together_are_one_record() -> None:
    wire = Wire()
    live = publisher(wire, epoch=1)
    for word in ("Dear ", "customer", ","):
        live.token("draft", word)
        live.token("", "*")
    await live.flush()
    live.token("draft", " thanks")
    await live.flush()
    assert wire.told() == [("draft", 0, "Dear customer,"), ("", 0, "***"), ("draft", 1, " thanks")]


async def test_without_a_flush_they_are_sent_after_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(output, "GATHER_SECONDS", 0.001)
    wire = Wire(prompt=False)
    publisher(wire).token("", "Hi")
    while not wire.sent:
        await asyncio.sleep(0)
    assert wire.told() == [("", 0, "Hi")]
    wire.acknowledge()


async def test_nothing_is_sent_before_what_came_earlier_is_acknowledged() -> None:
    wire = Wire(prompt=False)
    live = publisher(wire)
    live.token("", "first")
    flushed = asyncio.create_task(live.flush())
    while not wire.sent:
        await asyncio.sleep(0)
    live.token("", "second")
    live.hurry()
    for _ in range(20):
        await asyncio.sleep(0)
    assert (wire.told(), flushed.done()) == ([("", 0, "first")], False)
    wire.acknowledge()
    await flushed
    while len(wire.sent) < 2:
        await asyncio.sleep(0)
    wire.acknowledge()
    assert wire.told() == [("", 0, "first"), ("", 1, "second")]


async def test_a_later_run_resets_each_step_before_it_streams_there() -> None:
    wire = Wire()
    live = publisher(wire, epoch=2)
    live.token("draft", "a")
    live.token("", "b")
    await live.flush()
    live.token("draft", "c")
    await live.flush()
    kinds = [(each.kind, each.step) for each in wire.sent]
    assert kinds.index(("reset", "draft")) < kinds.index(("token", "draft"))
    assert kinds.index(("reset", "")) < kinds.index(("token", ""))
    assert len(kinds) == 5


async def test_a_step_that_begins_again_is_reset_before_its_next_text() -> None:
    wire = Wire()
    live = publisher(wire, epoch=1, redaction=Redaction(presets=["mail"]))
    live.begin("draft")
    live.token("draft", "half a mail of ann")
    live.begin("draft")
    live.token("draft", "whole")
    live.finish("draft")
    await live.flush()
    told = [(each.kind, each.n, each.text) for each in wire.sent]
    *before, reset, whole = told
    assert "".join(text for _, _, text in before) == "half a mail of ann"
    assert (reset, whole) == (("reset", len(before), ""), ("token", len(before), "whole"))


async def test_a_long_text_is_cut_into_records_that_follow_each_other() -> None:
    wire = Wire()
    live = publisher(wire)
    live.token("", "ü" * (3 * CHUNK_CHARS + 1))
    await live.flush()
    assert [(n, len(text)) for _, n, text in wire.told()] == [
        *((n, CHUNK_CHARS) for n in range(3)),
        (3, 1),
    ]


async def test_too_much_text_is_dropped_and_one_line_says_so() -> None:
    wire, now = Wire(), 0.0
    live = publisher(wire, lambda: now)
    live.token("", "x" * int(TOKENS.at_once))
    live.token("", "dropped")
    live.token("", "dropped, too")
    await live.flush()
    now = 1.0
    live.token("", "goes on")
    await live.flush()
    numbers = [n for _, n, _ in wire.told()]
    assert wire.told()[-1][2] == "goes on"
    assert numbers[-1] == numbers[-2] + 2, "a number is missing, so readers see the hole"
    (line,) = wire.told("log")
    assert "tokens are dropped" in line[2]


async def test_a_run_says_no_more_than_its_whole_share() -> None:
    wire, now = Wire(), 0.0
    live = publisher(wire, lambda: now)
    for _ in range(100):
        live.token("", "x" * int(TOKENS.at_once))
        now += 1.0
    await live.flush()
    assert sum(len(text) for _, _, text in wire.told()) == TOKENS.in_all


async def test_too_many_lines_are_dropped_and_one_line_says_so() -> None:
    wire = Wire()
    live = publisher(wire)
    for n in range(1_000):
        live.line("", Line("info", f"line {n}"))
    await live.flush()
    assert len(wire.sent) == LINES.at_once + 1
    assert "log lines are dropped" in wire.told("log")[-1][2]
    assert [n for _, n, _ in wire.told("log")] == list(range(len(wire.sent)))


async def test_threads_may_say_something_at_once() -> None:
    wire = Wire()
    live = publisher(wire)

    def say(step: str) -> None:
        for n in range(200):
            live.token(step, f"{n} ")

    threads = [threading.Thread(target=say, args=(f"s{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        await asyncio.sleep(0)
    await live.flush()
    for n in range(4):
        mine = [(number, text) for step, number, text in wire.told() if step == f"s{n}"]
        assert "".join(text for _, text in mine) == "".join(f"{k} " for k in range(200))
        assert [number for number, _ in mine] == list(range(len(mine)))


async def test_a_flush_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "FLUSH_SECONDS", 0.01)
    wire = Wire(prompt=False)
    live = publisher(wire)
    live.token("", "Hi")
    await live.flush()
    assert wire.open
    wire.acknowledge()


async def test_a_run_waits_once_for_a_broker_that_takes_nothing_of_what_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wire = Wire(prompt=False)
    live = publisher(wire)
    live.token("one", "Hi")
    monkeypatch.setattr(output, "FLUSH_SECONDS", 0.01)
    await live.flush()
    monkeypatch.setattr(output, "FLUSH_SECONDS", 60.0)
    async with asyncio.timeout(10):
        for step in ("two", "three"):
            live.token(step, "Hi")
            await live.flush()
    wire.acknowledge()
    while not wire.open:
        await asyncio.sleep(0)
    live.token("four", "Hi")
    flushed = asyncio.create_task(live.flush())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not flushed.done()
    while not flushed.done():
        wire.acknowledge()
        await asyncio.sleep(0)
    assert [step for step, _, _ in wire.told()] == ["one", "two", "three", "four"]


async def test_what_cannot_be_sent_any_more_ends_nothing() -> None:
    wire = Wire(prompt=False)
    live = publisher(wire)
    live.token("", "Hi")
    flushed = asyncio.create_task(live.flush())
    while not wire.open:
        await asyncio.sleep(0)
    wire.open.pop().set_exception(RuntimeError("too late"))
    await flushed
    wire.prompt = True
    live.token("", " again")
    await live.flush()
    assert wire.told()[-1] == ("", 1, " again")


def test_a_budget_fills_at_its_rate_and_ends_with_its_total() -> None:
    now = 0.0
    budget = Budget(Bounds(a_second=10, at_once=20, in_all=45), lambda: now)
    assert [budget.take(20), budget.take(1)] == [True, False]
    now = 1.0
    assert [budget.take(10), budget.take(1)] == [True, False]
    now = 100.0
    assert [budget.take(21), budget.take(15), budget.take(1)] == [False, True, False]


class Odd:
    """A value that cannot say what it is."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def nested(deep: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(deep):
        found = [found]
    return found


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1: object()},
        float("nan"),
        "\ud800",
        2**70,
        {1, 2},
        b"bytes",
        ValueError("no"),
        Odd(),
        nested(300),
        nested(50_000),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_line_with_any_field_is_json(value: object) -> None:
    found = orjson.loads(written(Line("info", "said \ud800", {"value": value}), Redaction()))
    assert found["level"] == "info"
    assert set(found["fields"]) & {"value", "fields"}


async def test_the_repr_of_a_field_may_write_a_line_itself() -> None:
    wire = Wire()
    live = publisher(wire)

    class Said:
        def __repr__(self) -> str:
            live.line("", Line("info", "from repr"))
            return "said"

    line = Line("info", "outer", {"value": Said()})
    thread = threading.Thread(target=live.line, args=("", line), daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    await live.flush()
    messages = [orjson.loads(text)["message"] for _, _, text in wire.told("log")]
    assert messages == ["from repr", "outer"]


def test_a_line_is_bounded() -> None:
    text = written(Line("info", "x" * 100_000, {"value": "y" * 100_000}), Redaction())
    assert len(text) < 10_000
    assert "left_out" in text


async def test_a_secret_in_pieces_is_taken_out_and_what_was_held_comes_before_the_end() -> None:
    wire = Wire()
    live = publisher(wire, redaction=Redaction(patterns=[r"CASE-\d+"], presets=["mail"]))
    for piece in ("write to ann", "@exam", "ple.com about CA", "SE-1", "23 tod", "ay"):
        live.token("draft", piece)
        await live.flush()
    live.token("other", "held")
    live.finish("draft")
    await live.flush()
    text = "".join(text for step, _, text in wire.told() if step == "draft")
    assert text == "write to [redacted] about [redacted] today"
    live.finish()
    await live.flush()
    assert "".join(text for step, _, text in wire.told() if step == "other") == "held"


def test_a_line_is_without_secrets_also_where_it_is_cut() -> None:
    redaction = Redaction(presets=["mail"])
    near = "x" * 1_990 + " ann@example.com"
    whole = written(Line("info", near, {"who": "bob@example.com"}), redaction)
    assert orjson.loads(whole)["fields"] == {"who": "[redacted]"}
    others = [
        written(Line("info", "m", {"odd": odd}), redaction) for odd in (ValueError(near), {near})
    ]
    assert not any("ann@" in text for text in (whole, *others))

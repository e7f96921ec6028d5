"""Large values of jobs lie in the store of artifacts, and come back as they were."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streams import App, Context, PermanentError, TransientError, user_json
from streams.artifacts.store import StoreUnavailable
from streams.redaction.redaction import Redaction
from streams.testing import Bench, Saved, crash_points
from streams.testing.memory_store import MemoryStore

LARGE = {"text": "x" * 300_000}


def run(function: Any, *, value: Any = None) -> Any:
    app = App("files")
    app.job("keep")(function)
    with Bench(app) as bench:
        job = bench.submit("keep", value).run()
        return job.status, job.result if job.status == "succeeded" else job.error, job.artifacts


def test_what_a_run_saved_is_loaded_by_its_reference() -> None:
    async def keep(ctx: Context) -> Any:
        reference = await ctx.save(b"%PDF-", name="bill.pdf", content_type="application/pdf")
        return {"content": (await ctx.load(reference)).decode(), "reference": reference}

    status, result, artifacts = run(keep)
    assert (status, result["content"]) == ("succeeded", "%PDF-")
    assert artifacts == [Saved("bill.pdf", b"%PDF-", "application/pdf")]
    assert result["reference"]["name"] == "bill.pdf"
    assert result["reference"]["size"] == 5


def test_a_result_of_ten_megabytes_is_kept_and_read_by_the_parent() -> None:
    app = App("files")

    @app.job("large")
    async def large(ctx: Context) -> str:
        return "x" * 10_000_000

    @app.job("parent")
    async def parent(ctx: Context) -> int:
        return len(await ctx.enqueue("large", None, wait=True))

    with Bench(app) as bench:
        job = bench.submit("parent", None).run()
        (child,) = job.children
        assert (job.status, job.result) == ("succeeded", 10_000_000)
        assert len(child.result) == 10_000_000
        assert len(child.record.result or "") < 1_000


def test_a_large_step_is_made_once_and_has_the_same_value_in_each_run() -> None:
    made = []

    def make() -> dict[str, str]:
        made.append(1)
        return LARGE

    async def keep(ctx: Context) -> bool:
        value = await ctx.step("large", make)
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return bool(value == LARGE)

    assert run(keep)[:2] == ("succeeded", True)
    assert len(made) == 1


def test_an_artifact_is_whole_wherever_the_worker_dies() -> None:
    for crash in crash_points():
        app = App("files")

        @app.job("keep")
        async def keep(ctx: Context) -> int:
            reference = await ctx.step("file", save, ctx)
            return len(await ctx.load(reference)) + len(
                (await ctx.step("large", lambda: LARGE))["text"]
            )

        with Bench(app, crash=crash) as bench:
            job = bench.submit("keep", None).run()
            assert (job.status, job.result) == ("succeeded", 300_004)


async def save(ctx: Context) -> Any:
    return await ctx.save(b"once", name="file")


@pytest.mark.parametrize(
    ("content", "name", "told"),
    [
        ("text", "a", "save bytes, and not str"),
        (b"", "", "give a name"),
        (b"", "x" * 256, "give a name"),
        (b"", "\ud800", "give a name"),
    ],
)
def test_what_cannot_be_saved_fails_the_job_by_name(content: Any, name: str, told: str) -> None:
    async def keep(ctx: Context) -> None:
        await ctx.save(content, name=name)

    status, error, artifacts = run(keep)
    assert (status, artifacts) == ("failed", [])
    assert told in error


def test_a_name_is_saved_once_in_a_run() -> None:
    async def keep(ctx: Context) -> None:
        await ctx.save(b"one", name="file")
        await ctx.save(b"two", name="file")

    status, error, _ = run(keep)
    assert status == "failed"
    assert "this run saved one" in error


@pytest.mark.parametrize("given", [None, "art_1", {}, {"artifact": 1}, {"$artifact": None}])
def test_what_is_no_reference_fails_the_job(given: Any) -> None:
    async def keep(ctx: Context) -> None:
        await ctx.load(given)

    status, error, _ = run(keep)
    assert status == "failed"
    assert "is no reference of an artifact" in error


def test_a_reference_of_another_tenant_leads_nowhere() -> None:
    async def keep(ctx: Context) -> Any:
        if not ctx.input:
            return await ctx.save(b"secret", name="file")
        return (await ctx.load(ctx.input)).decode()

    app = App("files")
    app.job("keep")(keep)
    with Bench(app) as bench:
        reference = bench.submit("keep", None).run().result
        assert bench.submit("keep", reference).run().result == "secret"
        job = bench.submit("keep", reference, tenant="globex").run()
        assert job.status == "failed"
        assert "there is no artifact" in (job.error or "")


def test_one_of_more_than_the_most_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.worker.handler.artifacts.MOST_BYTES", 1_000)

    async def keep(ctx: Context) -> None:
        with pytest.raises(PermanentError, match="more than 1,000"):
            await ctx.save(b"x" * 1_001, name="file")
        await ctx.step("large", lambda: LARGE)

    status, error, _ = run(keep)
    assert status == "failed"
    assert "more than 262,144" in error


LOOKS_LIKE_ONE = [
    {"$artifact": None},
    {"$artifact": "a body from outside"},
    {"$artifact": {"value": 1}},
    {"$artifact": {"value": {"$artifact": {"value": 2}}}},
    {"$artifact": "x" * 300_000},
    {"$artifact": {"artifact": "art", "of": "job", "name": "n", "size": 1, "content_type": "t"}},
    {"$artifact": 1, "other": 2},
]


@pytest.mark.parametrize("value", LOOKS_LIKE_ONE)
def test_a_value_that_looks_like_a_stand_in_is_itself(value: Any) -> None:
    app = App("files")

    @app.job("child")
    async def child(ctx: Context) -> Any:
        return value

    @app.job("keep")
    async def keep(ctx: Context) -> Any:
        made = await ctx.step("made", lambda: value)
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return [made, await ctx.enqueue("child", None, wait=True)] == [value, value]

    with Bench(app) as bench:
        job = bench.submit("keep", None).run()
        assert (job.status, job.result) == ("succeeded", True)
        assert job.children[0].result == value


def test_a_long_name_of_a_step_hides_no_large_value() -> None:
    name = "\u0001" * 200

    async def keep(ctx: Context) -> bool:
        value = await ctx.step(name, lambda: LARGE)
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return bool(value == LARGE)

    assert run(keep)[:2] == ("succeeded", True)


def test_a_name_may_be_saved_again_after_the_store_gave_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed: list[str] = []
    put = MemoryStore.put

    def once(self: MemoryStore, path: str, parts: Any) -> None:
        if not failed:
            failed.append(path)
            raise StoreUnavailable("away")
        put(self, path, parts)

    monkeypatch.setattr(MemoryStore, "put", once)

    async def keep(ctx: Context) -> Any:
        with pytest.raises(TransientError, match="away"):
            await ctx.save(b"one", name="file")
        return (await ctx.load(await ctx.save(b"two", name="file"))).decode()

    assert run(keep)[:2] == ("succeeded", "two")


def test_calls_that_hang_in_the_pool_of_threads_hold_no_large_value_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, go_on, clean = App("files"), threading.Event(), Redaction.json

    def seen(self: Redaction, text: str) -> str:
        if len(text) > 300_000:
            go_on.set()  # the search of the value has begun: the calls that hang may end
        return clean(self, text)

    monkeypatch.setattr(Redaction, "json", seen)

    @app.job("keep")
    async def keep(ctx: Context) -> str:
        loop = asyncio.get_running_loop()
        for _ in range(40):  # more than the pool of a loop has threads
            loop.run_in_executor(None, go_on.wait)
        return "x" * 300_000

    with Bench(app, patience=20) as bench:
        try:
            job = bench.submit("keep", None).run()
            assert (job.status, job.error) == ("succeeded", None)
        finally:
            go_on.set()


def test_a_large_value_is_searched_for_what_is_no_json_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes seconds, in which no other run of the worker would go on."""
    found, floats = set[int](), user_json._floats

    def seen(value: object) -> Iterator[float]:
        found.add(threading.get_ident())
        return floats(value)

    monkeypatch.setattr(user_json, "_floats", seen)

    async def keep(ctx: Context) -> Any:
        found.clear()
        await ctx.step("large", lambda: [None] * 100_000)
        assert found
        assert threading.get_ident() not in found

    assert run(keep)[:2] == ("succeeded", None)


def test_a_large_value_that_is_no_json_fails_the_job_by_name() -> None:
    async def keep(ctx: Context) -> Any:
        return ["x" * 300_000, float("nan")]

    status, error, artifacts = run(keep)
    assert (status, artifacts) == ("failed", [])
    assert "the handler's result is not JSON" in error


@pytest.mark.parametrize("pattern", [r"\b\d{6,}\b", r"\b\w{24,}\b"])
def test_rules_of_redaction_that_match_numbers_or_ids_leave_each_reference_good(
    pattern: str, tmp_path: Path
) -> None:
    app = App("files")

    @app.job("keep")
    async def keep(ctx: Context) -> Any:
        file = await ctx.step("file", lambda: ctx.save(b"x" * 300_000, name="file"))
        large = await ctx.step("large", lambda: "a value " * 40_000)
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return [
            len(await ctx.load(file)) == 300_000,
            len(large) == 320_000,
            "account 7654321 " + "k" * 24,
        ]

    rules = tmp_path / "rules.yaml"
    rules.write_text(f"redaction: {{patterns: ['{pattern}']}}\n")
    with Bench(app, topology=rules, strict=False) as bench:
        job = bench.submit("keep").run()
        assert job.status == "succeeded"
        assert job.result[:2] == [True, True]
        assert "[redacted]" in job.result[2]

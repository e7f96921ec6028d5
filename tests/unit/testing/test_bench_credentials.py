"""Handlers with credentials and requests, on the bench."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.bench_apps import app_of

from streams import Context, PermanentError, TransientError
from streams.errors import ConfigError
from streams.testing import Bench

KEY = "secret-key-1"


async def asks(ctx: Context) -> int:
    return len(await ctx.credentials("stripe"))


def topology(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "mine.yaml"
    file.write_text(text + "routes: [{match: {source: '*', event_type: '*'}, job: job}]\n")
    return file


def test_a_faked_credential_needs_no_declaration() -> None:
    with Bench(app_of(asks), strict=True) as bench:
        bench.credential("stripe", KEY)
        assert bench.submit("job").run().result == len(KEY)


def test_its_declared_scope_holds(tmp_path: Path) -> None:
    file = topology(
        tmp_path,
        "credentials: [{name: stripe, provider: file, reference: /no/file, tenants: [beta]}]\n",
    )
    with Bench(app_of(asks), topology=file) as bench:
        bench.credential("stripe", KEY)
        job = bench.submit("job").run()
        assert job.status == "failed"
        assert "is not for jobs of type 'job' of tenant 'acme'" in str(job.error)
        assert bench.submit("job", tenant="beta").run().result == len(KEY)


def test_a_declared_one_is_read_unless_the_bench_is_strict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a value of nineteen")
    declared = f"credentials: [{{name: stripe, provider: file, reference: {secret}}}]\n"
    file = topology(tmp_path, declared)
    with Bench(app_of(asks), topology=file) as bench:
        assert bench.submit("job").run().result == 19
    told = pytest.raises(AssertionError, match=r"add bench\.credential\('stripe', VALUE\)")
    with Bench(app_of(asks), topology=file, strict=True) as bench, told:
        bench.submit("job").run()


def test_each_tenant_may_have_a_value_of_its_own() -> None:
    with Bench(app_of(asks)) as bench:
        bench.credential("stripe", KEY)
        bench.credential("stripe", KEY * 2, tenant="beta")
        results = [bench.submit("job", tenant=name).run().result for name in ("acme", "beta")]
        assert results == [len(KEY), 2 * len(KEY)]


def test_a_rotated_value_is_seen_within_its_time() -> None:
    with Bench(app_of(asks)) as bench:
        bench.credential("stripe", KEY, seconds=60)
        assert bench.submit("job").run().result == len(KEY)
        bench.credential("stripe", KEY * 2)
        assert bench.submit("job").run().result == len(KEY)
        bench.advance(60)
        assert bench.submit("job").run().result == 2 * len(KEY)


def test_a_revoked_credential_fails_the_job_with_the_reason() -> None:
    with Bench(app_of(asks)) as bench:
        bench.credential("stripe", raises=PermanentError("revoked on Monday"))
        job = bench.submit("job").run()
        assert (job.status, job.attempts) == ("failed", 1)
        assert str(job.error).endswith("revoked on Monday")


def test_a_provider_that_hangs_costs_an_attempt_and_not_the_job() -> None:
    with Bench(app_of(asks)) as bench:
        bench.credential("stripe", KEY, takes=3_600)
        job = bench.submit("job").run(runs=1)
        assert [run.error for run in job.failed_runs] == [
            "TransientError: credential 'stripe': provider 'of the test' did not answer within 10 s"
        ]
        bench.credential("stripe", KEY)
        assert job.run().status == "succeeded"


def test_a_credential_is_no_argument_of_an_effect() -> None:
    async def passes(ctx: Context) -> None:
        key = await ctx.credentials("stripe")
        await ctx.effect("plain", act, key="1", headers={"Authorization": f"Bearer {key}"})

    async def act(headers: dict[str, str], idempotency_key: str) -> None: ...

    with Bench(app_of(passes)) as bench:
        bench.credential("stripe", KEY)
        job = bench.submit("job").run()
        assert job.status == "failed"
        assert "argument 'headers' holds a credential" in str(job.error)
        assert (bench.calls, job.effects) == ([], [])


def test_a_bench_is_given_a_value_or_an_error() -> None:
    with Bench(app_of(asks)) as bench:
        for given in ({}, {"value": KEY, "raises": PermanentError("no")}):
            with pytest.raises(ConfigError, match="'stripe': give its value, or what"):
                bench.credential("stripe", **given)  # type: ignore[arg-type]


@contextmanager
def service(status: int, **headers: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server that answers so, and the headers that it was asked with."""
    asked: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(dict(self.headers))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/", asked
    finally:
        server.shutdown()
        server.server_close()


async def refunds(ctx: Context) -> Any:
    key = await ctx.credentials("stripe")

    async def refund(url: str, idempotency_key: str) -> Any:
        answer = await ctx.http.post(url, headers={"Authorization": f"Bearer {key}"})
        answer.raise_for_status()
        return await answer.json()

    return await ctx.effect("plain", refund, key="1", url=ctx.input["url"])


def test_a_request_of_an_effect_has_its_key_and_the_ledger_its_outcome() -> None:
    with service(200) as (url, asked), Bench(app_of(refunds)) as bench:
        bench.credential("stripe", KEY)
        job = bench.submit("job", {"url": url}).run()
        assert (job.status, job.effects[0].status) == ("succeeded", "done")
        assert asked[0]["Idempotency-Key"] == job.effects[0].idempotency_key
        assert asked[0]["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("status", "headers", "effect", "job"),
    [
        (429, {"Retry_After": "1000"}, "failed", "scheduled"),
        (404, {}, "failed", "failed"),
        (500, {}, "review", "needs_review"),
    ],
)
def test_the_status_of_an_answer_is_the_outcome_of_the_effect(
    status: int, headers: dict[str, str], effect: str, job: str
) -> None:
    with service(status, **headers) as (url, _), Bench(app_of(refunds)) as bench:
        bench.credential("stripe", KEY)
        found = bench.submit("job", {"url": url}).run(runs=2 if effect == "review" else 1)
        assert (found.effects[0].status, found.status) == (effect, job)


def test_a_service_that_is_away_was_sent_nothing() -> None:
    with Bench(app_of(refunds)) as bench:
        bench.credential("stripe", KEY)
        job = bench.submit("job", {"url": "http://127.0.0.1:9/"}).run()
        assert (job.status, job.attempts, job.effects[0].status) == ("dead", 3, "failed")
        assert "nothing was sent" in str(job.error)


def test_an_error_of_a_credential_inside_an_effect_proves_nothing_about_it() -> None:
    async def late(ctx: Context) -> None:
        async def act(idempotency_key: str) -> None:
            await ctx.credentials("stripe")

        await ctx.effect("plain", act, key="1")

    with Bench(app_of(late)) as bench:
        bench.credential("stripe", raises=TransientError("away"))
        assert bench.submit("job").run().status == "needs_review"


PINS = "~" * 100_000


async def returns(ctx: Context) -> str:
    return PINS


async def steps(ctx: Context) -> None:
    await ctx.step("pins", lambda: PINS)


async def goes_on(ctx: Context) -> None:
    await ctx.progress(PINS)


async def acts(ctx: Context) -> None:
    async def act(idempotency_key: str) -> str:
        return PINS

    await ctx.effect("tool", act, key="1")


async def begins_again(ctx: Context) -> None:
    ctx.continue_as_new(PINS)


@pytest.mark.parametrize("handler", [returns, steps, goes_on, acts, begins_again])
def test_a_value_that_redaction_makes_too_large_is_refused(
    handler: Callable[[Context], Awaitable[Any]], tmp_path: Path
) -> None:
    """No broker takes a record of it, and the run would wait for that."""
    file = topology(tmp_path, "redaction: {patterns: ['~']}\n")
    with Bench(app_of(handler), topology=file, strict=False) as bench:
        job = bench.submit("job").run()
    assert job.status == "failed"
    assert "has 1,000,002 bytes of JSON, more than 262,144" in str(job.error)
    assert [effect.status for effect in job.effects] in ([], ["done"])

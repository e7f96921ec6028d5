"""What every provider of credentials keeps to; `PROVIDERS` has one row for each that ships."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from streams.errors import PermanentError
from streams.settings import Settings
from streams.worker.credentials.environment import Environment
from streams.worker.credentials.file import Files
from streams.worker.credentials.http import HttpKeyValue
from streams.worker.credentials.provider import Provider, Scope
from streams.worker.credentials.shipped import shipped

SCOPE = Scope("stripe", "acme", "refund")
FIRST, SECOND = "the-first-value", "the-second-value"


@dataclass(frozen=True)
class Kept:
    """A provider, the reference of one value, and how a test changes that; None removes it."""

    provider: Provider
    reference: str
    put: Callable[[str | None], None]


@asynccontextmanager
async def environment(tmp_path: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Kept]:
    def put(value: str | None) -> None:
        if value is None:
            patch.delenv("STRIPE_KEY", raising=False)
        else:
            patch.setenv("STRIPE_KEY", value)

    yield Kept(Environment(), "STRIPE_KEY", put)


@asynccontextmanager
async def file(tmp_path: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Kept]:
    path = tmp_path / "stripe"

    def put(value: str | None) -> None:
        if value is None:
            path.unlink()
        else:
            path.write_text(value)

    yield Kept(Files(), str(path), put)


@asynccontextmanager
async def http(tmp_path: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Kept]:
    held: list[str | None] = [None]

    async def answer(_: web.Request) -> web.Response:
        data = None if held[0] is None else {"api_key": held[0]}
        status = 404 if data is None else 200
        return web.json_response({"data": {"data": data, "metadata": {}}}, status=status)

    app = web.Application()
    app.router.add_get("/v1/secret/data/stripe", answer)
    token = tmp_path / "token"
    token.write_text("a-token")

    def put(value: str | None) -> None:
        held[0] = value

    async with TestServer(app) as server:
        provider = HttpKeyValue(str(server.make_url("/")), token)
        yield Kept(provider, "secret/data/stripe#api_key", put)


Made = Callable[[Path, pytest.MonkeyPatch], AbstractAsyncContextManager[Kept]]
PROVIDERS: dict[str, Made] = {"environment": environment, "file": file, "http": http}


@pytest.fixture(params=PROVIDERS)
async def kept(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Kept]:
    async with PROVIDERS[request.param](tmp_path, monkeypatch) as made:
        made.put(FIRST)
        yield made


def test_the_suite_has_each_provider_that_ships() -> None:
    settings = Settings(credentials_url="http://vault", credentials_token_file=Path("token"))
    assert set(PROVIDERS) == set(shipped(settings))


async def test_it_gives_the_present_value_and_for_how_long_it_may_be_used(kept: Kept) -> None:
    for value in (FIRST, SECOND):
        kept.put(value)
        found = await kept.provider.get(kept.reference, SCOPE)
        assert found.value.get_secret_value() == value
        assert 0 < found.seconds <= 300


async def test_a_value_that_is_gone_is_a_permanent_error(kept: Kept) -> None:
    kept.put(None)
    with pytest.raises(PermanentError, match=r"\w+ \w+"):
        await kept.provider.get(kept.reference, SCOPE)


async def test_nothing_but_the_answer_has_the_value(
    kept: Kept, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    found = await kept.provider.get(kept.reference, SCOPE)
    assert FIRST not in repr(found)
    assert FIRST not in repr(vars(kept.provider))
    assert FIRST not in "".join((*capsys.readouterr(), caplog.text))


async def test_many_jobs_may_ask_at_once(kept: Kept) -> None:
    found = await asyncio.gather(*(kept.provider.get(kept.reference, SCOPE) for _ in range(100)))
    assert {each.value.get_secret_value() for each in found} == {FIRST}


async def test_a_question_that_is_cancelled_harms_no_other(kept: Kept) -> None:
    first = asyncio.create_task(kept.provider.get(kept.reference, SCOPE))
    await asyncio.sleep(0)
    first.cancel()
    second = await kept.provider.get(kept.reference, SCOPE)
    assert second.value.get_secret_value() == FIRST
    await asyncio.wait({first})

"""The providers that ship: the environment, files, and a key-value store over HTTP."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientTimeout, web
from aiohttp.test_utils import TestServer

from streams import App
from streams.errors import ConfigError, PermanentError, TransientError
from streams.redaction.secrets import KnownSecrets
from streams.settings import Settings
from streams.topology.credentials import CredentialDeclaration
from streams.worker.credentials import credentials, http
from streams.worker.credentials.environment import Environment
from streams.worker.credentials.file import Files
from streams.worker.credentials.http import HttpKeyValue
from streams.worker.credentials.provider import Scope
from streams.worker.credentials.shipped import check_providers, shipped

SCOPE = Scope("stripe", "acme", "refund")


async def test_a_variable_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRIPE_KEY", "secret-1")
    found = await Environment().get("STRIPE_KEY", SCOPE)
    assert (found.value.get_secret_value(), found.seconds) == ("secret-1", 60)
    with pytest.raises(PermanentError, match="environment has no STRIPE_KEX"):
        await Environment().get("STRIPE_KEX", SCOPE)


async def test_a_file_is_read_each_time_and_one_that_is_gone_is_revoked(tmp_path: Path) -> None:
    path = tmp_path / "stripe"
    for text in ("secret-1\n", "secret-2\r\n"):
        path.write_text(text)
        found = await Files().get(str(path), SCOPE)
        assert found.value.get_secret_value() == text.strip()
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(PermanentError, match="no UTF-8"):
        await Files().get(str(path), SCOPE)
    path.unlink()
    with pytest.raises(PermanentError, match="no file"):
        await Files().get(str(path), SCOPE)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
async def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PermanentError, match="no file"):
        await Files().get(str(tmp_path / "pipe"), SCOPE)


async def test_a_file_that_hangs_costs_one_thread_however_often_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, may_go_on = list[str](), threading.Event()

    def hangs(reference: str) -> bytes:
        asked.append(reference)
        may_go_on.wait(30)
        return b"secret-1"

    monkeypatch.setattr("streams.worker.credentials.local.resolve", hangs)
    monkeypatch.setattr(credentials, "ANSWER_SECONDS", 0.02)
    declared = CredentialDeclaration("stripe", "file", "/on/a/drive")
    sources = credentials.Sources({"stripe": declared}.get, {"file": Files()})
    worker = credentials.Credentials(sources, KnownSecrets(), lambda: 0.0)
    for tenant in ("acme", "acme", "beta", "corp"):
        with pytest.raises(TransientError, match="did not answer"):
            await worker.get(Scope("stripe", tenant, "refund"))
    assert asked == ["file:/on/a/drive"]
    monkeypatch.setattr(credentials, "ANSWER_SECONDS", 10.0)
    may_go_on.set()
    assert await worker.get(SCOPE) == "secret-1"


class Store:
    """A key-value store that answers as told, and keeps what it was asked."""

    def __init__(self, tmp_path: Path) -> None:
        self.answer: web.Response = web.json_response({})
        self.asked: list[web.Request] = []
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", self.handle)
        self.server = TestServer(app)
        self.token_file = tmp_path / "token"
        self.token_file.write_text("token-1\n")

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        return self.answer

    async def value(self, reference: str = "secret/data/stripe#api_key") -> tuple[str, float]:
        found = await HttpKeyValue(str(self.server.make_url("/")), self.token_file).get(
            reference, SCOPE
        )
        return found.value.get_secret_value(), found.seconds


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    made = Store(tmp_path)
    await made.server.start_server()
    yield made
    await made.server.close()


async def test_the_store_is_asked_with_the_present_token(store: Store) -> None:
    store.answer = web.json_response({"data": {"data": {"api_key": "secret-1"}, "metadata": {}}})
    assert await store.value() == ("secret-1", 60)
    store.answer = web.json_response({"data": {"data": {"api_key": "secret-1"}, "metadata": {}}})
    store.token_file.write_text("token-2")
    await store.value()
    assert [r.path for r in store.asked] == ["/v1/secret/data/stripe"] * 2
    assert [r.headers["X-Vault-Token"] for r in store.asked] == ["token-1", "token-2"]


async def test_a_rented_value_lives_as_long_as_its_lease(store: Store) -> None:
    rented = {"data": {"token": "secret-1"}, "lease_id": "consul/1", "lease_duration": 900}
    store.answer = web.json_response(rented)
    assert await store.value("consul/creds/reporting#token") == ("secret-1", 900)


@pytest.mark.parametrize(("told", "seconds"), [(2_764_800, 60), (60, 60), (5, 5), (0, 60)])
async def test_without_a_lease_a_value_is_asked_for_again_within_a_minute(
    store: Store, told: int, seconds: float
) -> None:
    """Version 1 of the engine tells its default of 32 days with each value."""
    kept = {"data": {"api_key": "secret-1"}, "lease_id": "", "lease_duration": told}
    store.answer = web.json_response(kept)
    assert await store.value("kv/stripe#api_key") == ("secret-1", seconds)


GONE = {"data": {"data": None, "metadata": {"deletion_time": "2026-11-29T19:00:00Z"}}}


@pytest.mark.parametrize(
    ("status", "body", "error", "why"),
    [
        (404, GONE, PermanentError, "was revoked at 2026-11-29T19:00:00Z"),
        (404, {"errors": []}, PermanentError, "no value in the store"),
        (200, {"data": {"data": {"other": 1}, "metadata": {}}}, PermanentError, "no text in"),
        (200, {"data": {"api_key": 7}}, PermanentError, "no text in its field 'api_key'"),
        (200, [], PermanentError, "no text in"),
        (403, {"errors": ["permission denied"]}, TransientError, "answered 403"),
        (307, None, TransientError, "answered 307"),
        (500, None, TransientError, "answered 500"),
        (503, {"errors": ["Vault is sealed"]}, TransientError, "answered 503"),
    ],
)
async def test_an_answer_without_a_value(
    store: Store, status: int, body: Any, error: type[Exception], why: str
) -> None:
    headers = {"Location": "http://127.0.0.1:9/"} if status == 307 else None
    store.answer = web.json_response(body, status=status, headers=headers)
    with pytest.raises(error, match=why):
        await store.value()


async def test_a_store_that_is_away_or_hangs(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    away = HttpKeyValue("http://127.0.0.1:9", store.token_file)
    with pytest.raises(TransientError, match="does not answer"):
        await away.get("a#b", SCOPE)
    monkeypatch.setattr(http, "_TIMEOUT", ClientTimeout(total=1e-6))
    with pytest.raises(TransientError, match="does not answer"):
        await store.value()
    store.token_file.unlink()
    with pytest.raises(TransientError, match="token cannot be read"):
        await store.value()


def test_a_worker_starts_only_with_the_providers_of_its_types() -> None:
    declared = CredentialDeclaration("stripe", "http", "a#b", job_types=("refund",))
    with pytest.raises(ConfigError, match=r"'stripe': .* set TIDEGATE_CREDENTIALS_URL"):
        check_providers([declared], shipped(Settings()), ["refund"])
    check_providers([declared], shipped(Settings()), ["mail"])
    settings = Settings(credentials_url="http://vault", credentials_token_file=Path("token"))
    check_providers([declared], shipped(settings), ["refund"])
    own = CredentialDeclaration("bank", "bank-vault", "a")
    with pytest.raises(ConfigError, match=r"app\.provider\('bank-vault', \.\.\.\)"):
        check_providers([own], shipped(), ["refund"])


def test_an_application_adds_a_provider_once() -> None:
    app = App("a")
    app.provider("bank-vault", Environment())
    with pytest.raises(ConfigError, match="added twice"):
        app.provider("bank-vault", Environment())
    with pytest.raises(ConfigError, match="provider 'a b'"):
        app.provider("a b", Environment())

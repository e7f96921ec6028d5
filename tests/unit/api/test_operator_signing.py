"""A delivery is signed as the source's vendor would sign it, and the secret is never told."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from support.callers import AskedByAnybody, as_operator
from support.webhooks import SECRET, VAULT, source

from ingress.schemes import verify
from streams.api.operator_state import AppState
from streams.api.read_model.database import Database
from streams.api.rows.table import Row
from streams.api.serving.middlewares import problems
from streams.api.serving.routes import routes
from streams.api.serving.state import STATE
from streams.serde.codec import TENANT
from streams.serde.records import TenantRecord
from streams.tenants.source_keys import Reference

URL = "http://127.0.0.1:8080/v1/hooks/acme/shop"
BODY = b'{"id": "e1"}'


class Desk(AskedByAnybody):
    """What the call needs of the application's state."""

    newest, drop_shown, vault = AppState.newest, AppState.drop_shown, VAULT
    unshown: dict[Row, tuple[int, TenantRecord]] = {}  # noqa: RUF012

    def __init__(self, directory: Path) -> None:
        self.rows = Database(directory / "m.sqlite").open_writer()

    def set(self, record: tuple[bytes, bytes]) -> None:
        row = ("acme", "source", "shop", 0, record[1])
        self.rows.execute(
            "INSERT OR REPLACE INTO tenants VALUES (?, ?, ?, ?, 0, 1, NULL, NULL, ?)", row
        )

    async def query(self, look: Any) -> Any:
        return look(self.rows)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.rows.close()


async def asked(desk: Desk, **more: object) -> tuple[int, dict[str, Any]]:
    app = web.Application(middlewares=[problems, as_operator])
    app[STATE] = desk  # type: ignore[misc]
    app.add_routes(routes())
    body = {"url": URL, "body_base64": base64.b64encode(BODY).decode(), **more}
    async with TestClient(TestServer(app)) as client:
        answer = await client.post("/v1/tenants/acme/sources/shop/sign", json=body)
        return answer.status, await answer.json()


async def test_what_it_signs_verifies_under_the_newest_secret_and_options(desk: Desk) -> None:
    options = {"header": "X-Seal"}
    desk.set(source("acme", "shop", "hmac-sha256", (SECRET, b"old"), options=options))
    status, found = await asked(desk, headers={"X-Kind": "order"})
    assert (status, found["url"], found["headers"]["X-Kind"]) == (200, URL, "order")
    body = base64.b64decode(found["body_base64"])
    held = verify("hmac-sha256", [SECRET], found["headers"], body, url=URL, options=options)
    assert (held.key_index, body) == (0, BODY)
    assert SECRET.decode() not in str(found)


@pytest.mark.parametrize(
    ("scheme", "secret", "remedy"),
    [
        ("github", Reference("env:SHOP"), "--secret-file"),
        ("discord", b"a" * 64, "private"),
        ("standard-webhooks", b"whpk_" + base64.b64encode(b"\x02" * 32), "private"),
    ],
    ids=str,
)
async def test_what_the_operator_cannot_sign_is_refused_with_the_remedy(
    desk: Desk, scheme: str, secret: Any, remedy: str
) -> None:
    desk.set(source("acme", "shop", scheme, (secret,)))
    status, problem = await asked(desk)
    assert (status, problem["type"]) == (409, "urn:tidegate:problem:cannot-sign")
    assert remedy in problem["detail"]
    assert "--secret-file" in problem["detail"]


async def test_a_scheme_that_this_version_does_not_know_signs_nothing(desk: Desk) -> None:
    desk.set(source("acme", "shop", "carrier-pigeon"))
    status, problem = await asked(desk)
    assert (status, problem["type"]) == (409, "urn:tidegate:problem:cannot-sign")
    assert "does not know the source's scheme 'carrier-pigeon'" in problem["detail"]


async def test_only_standard_webhooks_gives_a_prefix_of_a_secret_a_meaning(desk: Desk) -> None:
    secret = b"whpk_" + base64.b64encode(b"\x02" * 32)
    desk.set(source("acme", "shop", "hmac-sha256", (secret,)))
    status, found = await asked(desk)
    assert status == 200
    assert verify("hmac-sha256", [secret], found["headers"], BODY, url=URL).key_index == 0


async def test_a_secret_that_the_vault_cannot_open_is_refused(desk: Desk) -> None:
    key, value = source("acme", "shop", "github")
    record = TENANT.decode(value)
    damaged = tuple(replace(each, sealed=b"no seal") for each in record.keys)
    desk.set((key, TENANT.encode(replace(record, keys=damaged))))
    status, problem = await asked(desk)
    assert (status, problem["type"]) == (409, "urn:tidegate:problem:cannot-sign")
    assert "cannot be opened" in problem["detail"]


async def test_a_body_as_large_as_a_source_may_take_is_signed(desk: Desk) -> None:
    desk.set(source("acme", "shop", "github"))
    large = base64.b64encode(b" " * 2 * 1024 * 1024).decode()
    assert (await asked(desk, body_base64=large))[0] == 200


async def test_a_source_that_is_not_there_or_disabled_signs_nothing(desk: Desk) -> None:
    assert (await asked(desk))[0] == 404
    key, value = source("acme", "shop", "github")
    disabled = replace(TENANT.decode(value), disabled=True, secrets=(), keys=())
    desk.set((key, TENANT.encode(disabled)))
    assert (await asked(desk))[0] == 409


async def test_a_body_that_the_scheme_cannot_sign_is_a_422(desk: Desk) -> None:
    desk.set(source("acme", "shop", "linear"))
    status, problem = await asked(desk, body_base64=base64.b64encode(b"[1]").decode())
    assert (status, "JSON" in str(problem)) == (422, True)
    assert (await asked(desk, body_base64="*"))[0] == 422

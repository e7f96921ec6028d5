"""Administrators read the whole audit, and everybody else what they did themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.typedefs import Handler
from support.operator_desk import OperatorDesk

from streams.access.permissions import READ, ROLES
from streams.access.principal import Principal
from streams.api.audit import table as audit
from streams.api.read_model.database import Database
from streams.api.serving.call import PRINCIPAL, STANDS
from streams.api.serving.middlewares import problems
from streams.api.serving.routes import routes
from streams.api.serving.state import STATE
from streams.audit.chain import Head, head_of, linked
from streams.audit.entries import encoded, of_call
from streams.serde.records import DONE, Call

NAMES = ("ann", "bob", "ann")


@web.middleware
async def as_named(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The token of a call is the role of Ann."""
    role = request.headers["Authorization"]
    request[PRINCIPAL] = Principal("token:ann", "ann", role, ROLES[role])
    request[STANDS] = lambda: True
    return await handler(request)


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[TestClient[Any, Any]]:
    rows = Database(tmp_path / "m.sqlite").open_writer()
    desk, head = OperatorDesk(rows), Head("dispatcher:0")
    for at, name in enumerate(NAMES):
        call = Call(f"token:{name}", "operator", f"req_{at}")
        entry = of_call(call, "job.cancel", f"job_{at}", DONE, at, tenant_id="acme")
        desk.project([("audit", *encoded(linked(entry, Head(head.chain, at))))])
    app = web.Application(middlewares=[problems, as_named])
    app[STATE] = desk  # type: ignore[misc]
    app.add_routes(routes())
    async with TestClient(TestServer(app)) as client:
        yield client
    rows.close()


async def test_entries_are_found_by_the_request_that_they_tell_of(
    api: TestClient[Any, Any],
) -> None:
    assert await listed(api, "admin", request_id="req_1") == (200, ["job_1"])
    assert await listed(api, "operator", request_id="req_1") == (200, []), "it is Bob's"


async def listed(api: TestClient[Any, Any], role: str, **query: str) -> tuple[int, list[str]]:
    answer = await api.get("/v1/audit", params=query, headers={"Authorization": role})
    found = (await answer.json()).get("audit", [])
    return answer.status, [each["target"] for each in found]


async def test_an_administrator_sees_what_all_have_done(api: TestClient[Any, Any]) -> None:
    assert await listed(api, "admin") == (200, ["job_2", "job_1", "job_0"])
    assert await listed(api, "admin", principal="token:bob") == (200, ["job_1"])


READERS = {role for role, rights in ROLES.items() if READ in rights}


@pytest.mark.parametrize("role", sorted(READERS - {"admin"}))
async def test_others_see_what_they_did_themselves(api: TestClient[Any, Any], role: str) -> None:
    assert await listed(api, role) == (200, ["job_2", "job_0"])
    assert await listed(api, role, principal="token:ann", target="job_0") == (200, ["job_0"])
    assert await listed(api, role, principal="token:bob") == (403, [])


@pytest.mark.parametrize(("role", "only_of"), [("admin", None), ("viewer", "token:ann")])
async def test_the_list_says_whether_it_has_the_acts_of_one_caller_alone(
    api: TestClient[Any, Any], role: str, only_of: str | None
) -> None:
    answer = await api.get("/v1/audit", headers={"Authorization": role})
    assert (await answer.json())["only_of"] == only_of


async def test_the_newest_entry_of_each_chain_stays_however_old_it_is(tmp_path: Path) -> None:
    """The operator links its next entry to it: without one, the chain would begin again at 1."""
    rows = Database(tmp_path / "m.sqlite").open_writer()
    desk, heads = OperatorDesk(rows), [Head("operator/one:0"), Head("operator/two:0")]
    for number, at in enumerate((5, 6, 7, 8, 9)):
        call = Call("token:ann", "operator", f"req_{at}")
        entry = linked(of_call(call, "tenant.set", "acme", DONE, at), heads[number % 2])
        heads[number % 2] = head_of(entry)
        desk.project([("audit", *encoded(entry))])
    while rows.execute(audit.TABLE.expire, (100, 2)).rowcount:
        pass
    assert [audit.head(rows, head.chain) for head in heads] == heads
    assert rows.execute("SELECT at FROM audit ORDER BY at").fetchall() == [(8,), (9,)]
    rows.close()


async def test_an_entry_is_known_by_its_number_and_its_hash(tmp_path: Path) -> None:
    rows = Database(tmp_path / "m.sqlite").open_writer()
    entry = of_call(Call("token:ann", "operator", "req_1"), "tenant.set", "acme", DONE, 1)
    first = linked(entry, Head("operator/one:0"))
    OperatorDesk(rows).project([("audit", *encoded(first))])
    assert audit.has(rows, head_of(first))
    assert not audit.has(rows, head_of(linked(entry, head_of(first))))
    assert not audit.has(rows, Head(first.chain, first.seq, b"another"))
    rows.close()

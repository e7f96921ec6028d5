"""Each route, asked by each role about its own tenant, another one, and an unknown one.

Rows of the other tenant lie in every table, and their records are no records: a call that found one
would fail, so its answer would differ from the one for an id that does not exist.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from support.access_desk import BOOTSTRAP_TOKEN, Api, serving

from streams.access.permissions import CUSTOM, PERMISSIONS, READ, ROLES, WORK
from streams.access.principal import BOOTSTRAP, Principal
from streams.api.refusal import Refusal
from streams.api.serving.access import OPEN_PATHS
from streams.api.serving.call import (
    EVERY_TENANT,
    LISTED,
    NAMED,
    OPEN,
    ROW,
    SHARED,
    TENANT_IN_PATH,
    Call,
    Calls,
    call_of,
    require_declared,
)
from streams.api.serving.routes import routes
from streams.api.tables import TABLES
from streams.errors import ConfigError

OWN, OTHER, NOBODY = "acme", "beta", "nobodys"
CALLS = [found for each in routes() if (found := call_of(getattr(each, "handler", None)))]
API = Path(__file__).parents[3] / "streams/api"
HOUR_MS = 3_600_000
BODIES: dict[str, dict[str, Any]] = {
    "ReplayRequest": {"incident_note": "x"},
    "BulkReplayRequest": {"incident_note": "x"},
    "DiscardRequest": {"note": "x"},
    "EditRequest": {"input": {}},
    "ManualRequest": {"note": "x"},
    "DoneRequest": {"note": "x"},
    "CauseRequest": {"note": "x"},
    "IgnoreRequest": {"note": "x", "until": "2999-01-01T00:00:00Z"},
    "SettleRequest": {"status": "not_done", "note": "x"},
    "MoveRequest": {"pool": "default", "note": "x"},
    "BulkMoveRequest": {"pool": "default", "note": "x", "type": "t"},
    "StepsRequest": {"note": "x"},
    "ReleaseRequest": {"note": "x"},
    "StopRequest": {"note": "x"},
    "BulkRequest": {"action": "dead_letters.replay", "note": "x"},
    "TicketRequest": {"jobs": ["x"]},
    "ReplayEventsRequest": {"note": "x", "job": "t", "since": "2026-01-01T00:00:00Z"},
}
"""Bodies with which a call gets as far as its row."""


def shown(call: Call) -> str:
    return f"{call.method} {call.path}"


def path_of(call: Call, tenant: str, id_: str) -> str:
    """A path of a call with these values."""
    path = call.path.replace("{tenant_id}", tenant)
    return re.sub(r"{\w+(:[^}]*)?}", id_, path)


def fill(writer: sqlite3.Connection) -> None:
    """Write a row of the other tenant, and of none, into every table; its record is none."""
    for table in TABLES:
        if table.belongs == "TRUE":
            continue  # its rows are of all tenants together
        columns = writer.execute(f"PRAGMA table_info({table.name})").fetchall()
        for tenant, id_ in ((OTHER, f"id-{OTHER}"), ("", "id-none")):
            row = [_value(name, kind, tenant, id_) for _, name, kind, *_ in columns]
            marks = ", ".join("?" * len(row))
            writer.execute(f"INSERT INTO {table.name} VALUES ({marks})", row)


def _value(name: str, kind: str, tenant: str, id_: str) -> Any:
    match name, kind:
        case "tenant_id", _:
            return tenant
        case _, "INTEGER":
            return len(id_)
        case _, "BLOB":
            return b"no record"
        case _:
            return id_


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serving(tmp_path) as made:
        fill(made.desk.rows)
        yield made


async def ask(api: Api, token: str, call: Call, path: str) -> tuple[int, dict[str, Any]]:
    """A call with the least body that it needs."""
    body = BODIES.get(call.body.__name__, {}) if call.body else None
    return await api.ask(token, call.method, path, body)


def of(*scopes: Any) -> Iterator[Call]:
    return (call for call in CALLS if call.of in scopes)


def test_every_route_is_declared_and_has_a_verb_of_its_own() -> None:
    assert len(CALLS) == len(list(routes())) > 80
    verbs = [call.verb for call in CALLS if call.verb]
    assert all(re.fullmatch(r"[a-z_]+\.[a-z_]+", verb) for verb in verbs)
    changing = [c for c in CALLS if c.method != "GET" and c.needs != READ]
    assert all(call.verb for call in changing), "what changes something is in the audit"


def test_no_call_reads_with_more_than_its_callers_rights() -> None:
    """The state of the application is the bootstrap token's; `state_of` has the caller's."""
    named = [*API.rglob("http.py"), *API.rglob("http_*.py"), API / "serving/listing.py"]
    assert len(named) > 20
    found = {path.parent.name for path in named if re.search(r"\bSTATE\b", path.read_text())}
    assert found == set()


def test_a_route_without_a_declaration_does_not_start() -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response()

    app = web.Application()
    app.router.add_get("/v1/forgotten", handler)
    with pytest.raises(ConfigError, match="GET /v1/forgotten"):
        require_declared(app, OPEN_PATHS)
    for path, needs, scope in (
        ("/v1/half", None, ROW),
        ("/v1/half", READ, OPEN),
        ("/v1/half", READ, TENANT_IN_PATH),
        ("/v1/half/{tenant_id}", READ, LISTED),
    ):
        with pytest.raises(ConfigError, match="/v1/half"):
            Calls().get(path, of=scope, needs=needs)


@pytest.mark.parametrize("role", [*ROLES, CUSTOM])
@pytest.mark.parametrize("tenants", [None, frozenset({OWN})])
def test_a_role_may_make_the_calls_for_which_it_has_the_permission(
    role: str, tenants: frozenset[str] | None
) -> None:
    principal = Principal("token:t", "t", role, ROLES.get(role, frozenset()), tenants)
    for call in CALLS:
        found = refused(call, principal, OWN)
        if call.of is OPEN:
            assert found is None
        elif call.needs not in principal.permissions:
            assert found == (403, "permission-missing"), shown(call)
        elif call.of is EVERY_TENANT and tenants is not None:
            assert found == (403, "every-tenant-needed"), shown(call)
        else:
            assert found is None, shown(call)
        if call.of is TENANT_IN_PATH and tenants and call.needs in principal.permissions:
            assert refused(call, principal, OTHER) == (404, "tenant-unknown"), shown(call)


def refused(call: Call, principal: Principal, tenant: str) -> tuple[int, str] | None:
    try:
        call.require(principal, tenant)
    except Refusal as refusal:
        return refusal.status, refusal.name
    return None


def test_each_permission_but_that_of_workers_opens_some_calls() -> None:
    opened = {permission: [c for c in CALLS if c.needs == permission] for permission in PERMISSIONS}
    assert [permission for permission, calls in opened.items() if not calls] == [WORK]
    assert BOOTSTRAP.permissions == set(PERMISSIONS)


async def test_without_a_token_only_open_calls_are_answered(api: Api) -> None:
    for call in of(TENANT_IN_PATH, ROW, LISTED, NAMED, EVERY_TENANT, SHARED):
        path = path_of(call, OTHER, f"id-{OTHER}")
        if path.startswith(("/schemas", "/subjects", "/config", "/mode", "/associations")):
            continue
        async with api.client.request(call.method, path) as answer:
            assert answer.status == 401, shown(call)


@pytest.mark.parametrize("role", list(ROLES))
async def test_a_missing_permission_is_refused_before_anything_is_looked_up(
    api: Api, role: str
) -> None:
    token = api.office.token(role, frozenset({OWN}))
    for call in of(TENANT_IN_PATH, ROW, LISTED, NAMED, EVERY_TENANT):
        if call.needs in ROLES[role]:
            continue
        answers = [
            await ask(api, token, call, path_of(call, OWN, id_)) for id_ in (f"id-{OTHER}", NOBODY)
        ]
        assert answers[0] == answers[1], shown(call)
        status, found = answers[0]
        assert (status, found["permission"]) == (403, call.needs), shown(call)
    assert api.desk.sent == []
    assert api.desk.tenant_records == []


async def test_another_tenants_path_is_as_unknown_as_one_that_is_not_there(api: Api) -> None:
    token = api.office.token("admin", frozenset({OWN}))
    for call in of(TENANT_IN_PATH):
        answers = [
            await ask(api, token, call, path_of(call, tenant, "x")) for tenant in (OTHER, NOBODY)
        ]
        assert renamed(answers[0], OTHER) == answers[1], shown(call)
        assert answers[0][0] == 404, shown(call)
    assert api.desk.tenant_records == []


async def test_another_tenants_row_is_as_unknown_as_one_that_is_not_there(api: Api) -> None:
    token = api.office.token("admin", frozenset({OWN}))
    for call in of(ROW):
        answers = [
            await ask(api, token, call, path_of(call, OWN, id_)) for id_ in (f"id-{OTHER}", NOBODY)
        ]
        assert renamed(answers[0], f"id-{OTHER}") == answers[1], shown(call)
        assert answers[0][0] == 404, shown(call)
    assert api.desk.sent == []


async def test_those_rows_are_there_for_whoever_has_all_tenants(api: Api) -> None:
    """Otherwise the tests above would prove nothing."""
    looks = [call for call in of(ROW) if call.method == "GET" and "events" not in call.path]
    asked = [
        await ask(api, BOOTSTRAP_TOKEN, call, path_of(call, OTHER, f"id-{OTHER}")) for call in looks
    ]
    assert [shown(c) for c, (status, _) in zip(looks, asked, strict=True) if status == 404] == []


def renamed(answer: tuple[int, Any], id_: str) -> tuple[int, Any]:
    status, found = answer
    return status, orjson.loads(orjson.dumps(found).replace(id_.encode(), NOBODY.encode()))


async def test_lists_counts_and_bulk_acts_have_no_row_of_another_tenant(api: Api) -> None:
    token = api.office.token("admin", frozenset({OWN}))
    for call in of(LISTED):
        for query in ("", f"?tenant_id={OTHER}"):
            status, found = await ask(api, token, call, path_of(call, OWN, "x") + query)
            assert status == 200 or (query and status == 422), (shown(call), found)
            assert OTHER not in orjson.dumps(found).decode().replace("next_cursor", ""), shown(call)
            lists = [value for value in found.values() if isinstance(value, list)]
            is_own = call.path == "/v1/tokens"  # the token of this call
            assert status != 200 or is_own or not any(lists), (shown(call), found)
    assert api.desk.sent == []


async def test_what_a_query_or_a_body_names_is_looked_up_as_the_callers_own(api: Api) -> None:
    token = api.office.token("admin", frozenset({OWN}))
    headers = {"Authorization": f"Bearer {token}"}
    cases: list[tuple[str, str, dict[str, Any] | None, int]] = [
        ("GET", f"/v1/stream?jobs=id-{OTHER}", None, 404),
        ("POST", "/v1/limits/pause", {"scope": "tenant", "value": OTHER, "reason": "x"}, 404),
        ("POST", "/v1/limits/pause", {"scope": "pool", "value": "default", "reason": "x"}, 403),
        ("POST", "/v1/limits/resume", {"scope": "tenant", "value": OTHER}, 409),
        ("POST", "/v1/limits/resume", {"scope": "pool", "value": "default"}, 403),
        ("POST", "/v1/replays", BODIES["ReplayEventsRequest"], 403),
        ("POST", "/v1/replays", BODIES["ReplayEventsRequest"] | {"tenant_id": OTHER}, 404),
        ("POST", "/v1/bulk", BODIES["BulkRequest"] | {"filter": {"tenant_id": OTHER}}, 404),
        ("POST", "/v1/tokens", {"name": "t", "role": "viewer", "tenants": [OTHER]}, 404),
        ("POST", "/v1/tokens", {"name": "t", "role": "viewer", "tenants": ["*"]}, 403),
    ]
    for method, path, body, expected in cases:
        async with api.client.request(method, path, headers=headers, json=body) as answer:
            found = orjson.loads(await answer.read())
            assert answer.status == expected, (path, body, found)
    assert api.desk.sent == []
    assert api.desk.tenant_records == []

"""Tokens are made within one's own rights, shown once, and end at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.access_desk import BOOTSTRAP_TOKEN, HOUR_MS, Api, serving

from streams.access.failures import MOST
from streams.access.tokens import mint, parse
from streams.api.tokens.upkeep import forget_ended, require_administrator, write_uses
from streams.errors import ConfigError
from streams.http.moments import milliseconds
from streams.kafka.fenced_write import Unsettled
from streams.process.wall_clock import wall_ms
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import TenantRecord

DAY_MS = 86_400_000
VIEWER = {"name": "ci", "role": "viewer", "tenants": ["*"]}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serving(tmp_path) as made:
        for tenant in ("acme", "beta"):
            key, record = (
                tenant_key(tenant, "tenant", ""),
                TenantRecord(tenant, "tenant", "", False, "{}"),
            )
            made.desk.project([("tenants", key, TENANT.encode(record))])
        yield made


async def made(api: Api, token: str = BOOTSTRAP_TOKEN, **body: Any) -> dict[str, Any]:
    status, found = await api.ask(token, "POST", "/v1/tokens", VIEWER | body)
    assert status == 201, found
    return found


async def refused(api: Api, token: str = BOOTSTRAP_TOKEN, **body: Any) -> tuple[int, str]:
    given = {name: value for name, value in (VIEWER | body).items() if value is not None}
    status, found = await api.ask(token, "POST", "/v1/tokens", given)
    return status, found.get("type", "").rpartition(":")[2]


async def test_a_token_is_shown_once_and_opens_what_it_grants(api: Api) -> None:
    found = await made(api, role="operator", tenants=["acme"])
    token = found.pop("token")
    assert parse(token) is not None
    assert found["permissions"] == ["read", "payload:read", "operate", "settle"]
    assert (found["tenants"], found["status"], found["made_by"]) == (["acme"], "active", "operator")
    assert found["last_used_at"] is None
    assert (await api.ask(token, "GET", "/v1/tenants/acme"))[0] == 200
    assert (await api.ask(token, "GET", "/v1/tenants/beta"))[0] == 404
    assert (await api.ask(token, "PUT", "/v1/tenants/acme", {}))[0] == 403
    _, listed = await api.ask(BOOTSTRAP_TOKEN, "GET", "/v1/tokens")
    assert token not in str(listed)
    (shown,) = listed["tokens"]
    assert shown["last_used_at"] is not None
    assert shown | {"last_used_at": None} == found
    assert (await api.ask(BOOTSTRAP_TOKEN, "GET", f"/v1/tokens/{found['id']}")) == (200, shown)
    assert api.desk.tenant_records == [(("", "token", found["id"]), 0)]


async def test_it_ends_after_90_days_unless_another_end_is_asked(api: Api) -> None:
    for given, days in ((None, 90), (1, 1), (3650, 3650)):
        ends = milliseconds((await made(api, expires_days=given))["expires_at"])
        assert abs(ends - wall_ms() - days * DAY_MS) < HOUR_MS


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"role": None}, (422, "invalid-request")),
        ({"permissions": ["read"]}, (422, "invalid-request")),
        ({"role": None, "permissions": []}, (422, "invalid-request")),
        ({"role": None, "permissions": ["fly"]}, (422, "invalid-request")),
        ({"role": "custom"}, (422, "invalid-request")),
        ({"role": "king"}, (422, "invalid-request")),
        ({"tenants": []}, (422, "invalid-request")),
        ({"tenants": ["*", "acme"]}, (422, "invalid-request")),
        ({"tenants": ["nobodys"]}, (404, "tenant-unknown")),
        ({"expires_days": 0}, (422, "invalid-request")),
        ({"expires_days": 3651}, (422, "invalid-request")),
        ({"name": ""}, (422, "invalid-request")),
        ({"name": "a\nb"}, (422, "invalid-request")),
        ({"secret": "mine"}, (422, "invalid-request")),
    ],
)
async def test_a_body_that_makes_no_token_is_refused(
    api: Api, body: dict[str, Any], refusal: tuple[int, str]
) -> None:
    assert await refused(api, **body) == refusal
    assert api.desk.tenant_records == []


async def test_nobody_makes_a_token_beyond_their_own_rights(api: Api) -> None:
    given = {"role": None, "permissions": ["read", "operate", "admin"], "tenants": ["acme"]}
    body = {name: value for name, value in (VIEWER | given).items() if value is not None}
    _, maker = await api.ask(BOOTSTRAP_TOKEN, "POST", "/v1/tokens", body | {"expires_days": 30})
    token = maker["token"]
    beyond = (403, "beyond-own-rights")
    assert await refused(api, token, tenants=["acme"], role="admin") == beyond
    assert await refused(api, token, tenants=["*"]) == beyond
    assert await refused(api, token, tenants=["beta"]) == (404, "tenant-unknown")
    assert await refused(api, token, tenants=["acme"], role="approver") == beyond
    assert await refused(api, token, tenants=["acme"], expires_days=31) == beyond
    within = await made(api, token, tenants=["acme"])
    assert within["made_by"] == f"token:{maker['id']}"
    assert within["expires_at"] == maker["expires_at"], "it ends with its maker's"
    _, own = await api.ask(
        token, "POST", "/v1/tokens", {"name": "n", "permissions": ["read"], "expires_days": 29}
    )
    assert own["tenants"] == ["acme"], "without tenants, it has those of its maker"


WORKER: dict[str, Any] = {"role": "worker", "pools": ["agents", "gpu-*"], "job_types": ["refund"]}


async def test_a_token_of_a_worker_has_pools_and_types_and_opens_no_call(api: Api) -> None:
    found = await made(api, **WORKER, tenants=["acme"])
    shown = {name: found[name] for name in ("permissions", "pools", "job_types", "tenants")}
    assert shown == {
        "permissions": ["work"],
        "pools": ["agents", "gpu-*"],
        "job_types": ["refund"],
        "tenants": ["acme"],
    }
    for path in ("/v1/jobs", "/v1/tenants/acme", "/v1/tokens"):
        assert (await api.ask(found["token"], "GET", path))[0] == 403
    assert (await made(api, role="worker"))["pools"] is None


@pytest.mark.parametrize("limit", ["pools", "job_types"])
@pytest.mark.parametrize("given", [{"role": "operator"}, {"role": "admin"}])
async def test_only_a_token_of_a_worker_is_limited_to_pools_and_types(
    api: Api, limit: str, given: dict[str, Any]
) -> None:
    """One that makes tokens could make another one without the limits."""
    some: dict[str, Any] = {limit: ["a"], **given}
    none: dict[str, Any] = {limit: [], "role": "worker"}
    assert await refused(api, **some) == (422, "invalid-request")
    assert await refused(api, **none) == (422, "invalid-request")


async def test_who_may_not_work_makes_no_token_of_a_worker(api: Api) -> None:
    given = {"role": None, "permissions": ["read", "admin"]}
    body = {name: value for name, value in (VIEWER | given).items() if value is not None}
    _, maker = await api.ask(BOOTSTRAP_TOKEN, "POST", "/v1/tokens", body)
    assert await refused(api, maker["token"], role="worker") == (403, "beyond-own-rights")


async def test_a_maker_knows_the_tokens_within_its_rights_alone(api: Api) -> None:
    wide = await made(api, role="admin")
    other = await made(api, role="viewer", tenants=["beta"])
    own = await made(api, role="viewer", tenants=["acme"])
    maker = await made(api, role="admin", tenants=["acme"])
    token = maker["token"]
    _, listed = await api.ask(token, "GET", "/v1/tokens")
    assert [each["id"] for each in listed["tokens"]] == [
        each["id"] for each in sorted((own, maker), key=lambda t: (t["made_at"], t["id"]))[::-1]
    ]
    for method in ("GET", "DELETE"):
        unknown = await api.ask(token, method, "/v1/tokens/none")
        for each in (wide, other):
            status, found = await api.ask(token, method, f"/v1/tokens/{each['id']}")
            assert (status, str(found).replace(each["id"], "none")) == (404, str(unknown[1]))


async def test_a_revoked_token_opens_nothing_and_stays_listed(api: Api) -> None:
    found = await made(api)
    assert (await api.ask(found["token"], "GET", "/v1/jobs"))[0] == 200
    status, ended = await api.ask(BOOTSTRAP_TOKEN, "DELETE", f"/v1/tokens/{found['id']}")
    assert (status, ended["status"], ended["revoked_by"]) == (200, "revoked", "operator")
    status, problem = await api.ask(found["token"], "GET", "/v1/jobs")
    assert (status, problem["detail"]) == (401, "the token sent is revoked: make another one")
    assert (await api.ask(BOOTSTRAP_TOKEN, "DELETE", f"/v1/tokens/{found['id']}"))[1] == ended
    assert (await api.ask(BOOTSTRAP_TOKEN, "GET", "/v1/tokens"))[1]["tokens"] == [ended]


async def test_an_expired_token_opens_nothing(api: Api) -> None:
    found = await made(api, expires_days=1)
    api.office.now = lambda: wall_ms() + DAY_MS + 1
    status, problem = await api.ask(found["token"], "GET", "/v1/jobs")
    assert (status, problem["detail"]) == (401, "the token sent has expired: make another one")


async def test_a_list_goes_on_behind_its_cursor(api: Api) -> None:
    names = [f"t{number}" for number in range(5)]
    for name in names:
        await made(api, name=name)
    seen, cursor = list[str](), ""
    for _ in range(3):
        _, page = await api.ask(BOOTSTRAP_TOKEN, "GET", f"/v1/tokens?limit=2{cursor}")
        seen += [each["name"] for each in page["tokens"]]
        cursor = f"&cursor={page['next_cursor']}"
    assert (sorted(seen), page["next_cursor"]) == (names, None)


async def test_the_last_administrator_cannot_be_lost_once_the_bootstrap_token_is_off(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, bootstrap=None) as api:
        first = api.office.token("admin", None)
        assert (await api.ask(BOOTSTRAP_TOKEN, "GET", "/v1/jobs"))[0] == 401
        second = await made(api, first, role="admin")
        await made(api, first, role="viewer")
        first_id = getattr(parse(first), "id", "")
        assert (await api.ask(second["token"], "DELETE", f"/v1/tokens/{first_id}"))[0] == 200
        status, found = await api.ask(second["token"], "DELETE", f"/v1/tokens/{second['id']}")
        assert (status, found["type"]) == (409, "urn:tidegate:problem:last-administrator")
        assert (await api.ask(second["token"], "GET", "/v1/jobs"))[0] == 200


async def test_a_token_that_can_make_no_other_kind_is_no_administrator(tmp_path: Path) -> None:
    """Nobody could configure anything any more once the one with all permissions is revoked."""
    async with serving(tmp_path, bootstrap=None) as api:
        first = api.office.token("admin", None)
        body = {"name": "minter", "permissions": ["read", "admin"], "tenants": ["*"]}
        assert (await api.ask(first, "POST", "/v1/tokens", body))[0] == 201
        first_id = getattr(parse(first), "id", "")
        status, found = await api.ask(first, "DELETE", f"/v1/tokens/{first_id}")
        assert (status, found["type"]) == (409, "urn:tidegate:problem:last-administrator")


@pytest.mark.parametrize("is_committed", [False, True])
async def test_two_operators_that_are_asked_at_once_leave_an_administrator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    async with serving(tmp_path, bootstrap=None) as api:
        first, opens = api.office.token("admin", None), 0
        other = await made(api, first, role="admin")
        grant = api.office.book.grant(other["id"])
        assert grant is not None

        async def opened() -> Any:
            """Meanwhile another operator has ended the other token, which is not known here."""
            nonlocal opens
            opens += 1
            if opens == 1:
                return Fenced(is_committed and api.desk.commit)
            ended = grant.revoked(wall_ms() + 1, "operator").record(wall_ms() + 1)
            if not is_committed:
                api.desk.project([("tenants", tenant_key(*grant.key), TENANT.encode(ended))])
            return api.desk

        monkeypatch.setattr(api.desk, "open", opened)
        first_id = getattr(parse(first), "id", "")
        status, found = await api.ask(other["token"], "DELETE", f"/v1/tokens/{first_id}")
        if is_committed:
            assert (status, found["status"]) == (200, "revoked")
        else:
            assert (status, found["type"]) == (409, "urn:tidegate:problem:last-administrator")
        assert len(api.office.book.administrators(wall_ms())) == 1


async def keyed(api: Api, token: str = BOOTSTRAP_TOKEN, **body: Any) -> tuple[int, dict[str, Any]]:
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "k1"}
    async with api.client.post("/v1/tokens", json=VIEWER | body, headers=headers) as answer:
        return answer.status, await answer.json()


async def test_a_key_makes_one_token_whose_id_a_repetition_is_told(api: Api) -> None:
    status, made_ = await keyed(api)
    assert (status, parse(made_["token"]) is not None) == (201, True)
    for name in ("ci", "another"):
        status, told = await keyed(api, name=name)
        assert (status, told["type"]) == (409, "urn:tidegate:problem:key-reused")
        assert (told["token_id"], "token" in told) == (made_["id"], False)
    other = api.office.token("admin", None)
    status, theirs = await keyed(api, other)
    assert (status, theirs["id"] != made_["id"]) == (201, True), "a key is its caller's own"
    assert (await api.ask(made_["token"], "GET", "/v1/jobs"))[0] == 200


@pytest.mark.parametrize("is_committed", [False, True])
async def test_a_keyed_token_whose_commit_saw_no_answer_is_made_once(
    api: Api, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    opened = [Fenced(is_committed and api.desk.commit), api.desk]

    async def open_() -> Any:
        return opened.pop(0)

    monkeypatch.setattr(api.desk, "open", open_)
    status, made_ = await keyed(api)
    assert (status, (await api.ask(made_["token"], "GET", "/v1/jobs"))[0]) == (201, 200)
    assert len(api.desk.rows.execute("SELECT 1 FROM tenants WHERE tenant_id = ''").fetchall()) == 1


class Fenced:
    """A write that another process came before; it was committed all the same, perhaps."""

    def __init__(self, commit: Any) -> None:
        self._commit = commit

    async def commit(self, *given: Any, **where: Any) -> int:
        if self._commit:
            await self._commit(*given, **where)
        raise Unsettled("fenced")


async def test_with_the_bootstrap_token_every_token_can_be_revoked(api: Api) -> None:
    found = await made(api, role="admin")
    assert (await api.ask(BOOTSTRAP_TOKEN, "DELETE", f"/v1/tokens/{found['id']}"))[0] == 200


async def test_an_operator_without_any_administrator_ends(tmp_path: Path) -> None:
    errors = list[Exception]()
    async with serving(tmp_path, bootstrap=None) as api:
        await require_administrator(api.office.access, lambda: True, errors.append)
        assert isinstance(errors.pop(), ConfigError)
        api.office.token("admin", None)
        await require_administrator(api.office.access, lambda: True, errors.append)
    async with serving(tmp_path / "b") as api:
        await require_administrator(api.office.access, lambda: True, errors.append)
    assert errors == []


async def test_the_last_use_is_written_at_most_once_in_a_time(api: Api) -> None:
    found = await made(api)
    await api.ask(found["token"], "GET", "/v1/jobs")
    for _ in range(2):
        await write_uses(api.desk, api.office.access, 60_000)  # type: ignore[arg-type]
        await api.ask(found["token"], "GET", "/v1/jobs")
    assert api.desk.tenant_records[1:] == [(("", "token_use", found["id"]), 0)]


async def test_a_token_is_forgotten_some_time_after_its_end_and_no_other_one(api: Api) -> None:
    revoked, expired = await made(api), await made(api, expires_days=1)
    good = await made(api, expires_days=60)
    await api.ask(revoked["token"], "GET", "/v1/jobs")
    await write_uses(api.desk, api.office.access)  # type: ignore[arg-type]
    await api.ask(BOOTSTRAP_TOKEN, "DELETE", f"/v1/tokens/{revoked['id']}")

    async def left(days: int) -> set[str]:
        now = wall_ms() + days * DAY_MS + HOUR_MS
        await forget_ended(api.desk, api.office.access, now)  # type: ignore[arg-type]
        _, listed = await api.ask(BOOTSTRAP_TOKEN, "GET", "/v1/tokens")
        return {each["id"] for each in listed["tokens"]}

    assert await left(29) == {revoked["id"], expired["id"], good["id"]}
    assert await left(30) == {expired["id"], good["id"]}
    assert await left(31) == {good["id"]}
    assert (await api.ask(revoked["token"], "GET", "/v1/jobs"))[0] == 401
    assert api.office.book.used_at(revoked["id"]) is None
    deleted = [key for key, _ in api.desk.tenant_records[-4:]]
    assert deleted == [
        ("", kind, id_) for id_ in (revoked["id"], expired["id"]) for kind in ("token_use", "token")
    ]


async def test_an_address_with_many_wrong_tokens_waits_but_minted_ones_are_taken(api: Api) -> None:
    found = await made(api)
    for _ in range(MOST):
        assert (await api.ask("wrong", "GET", "/v1/jobs"))[0] == 401
    status, problem = await api.ask(BOOTSTRAP_TOKEN, "GET", "/v1/jobs")
    assert (status, problem["type"]) == (429, "urn:tidegate:problem:too-many-failures")
    assert (await api.ask(found["token"], "GET", "/v1/jobs"))[0] == 200
    assert (await api.ask(mint().text, "GET", "/v1/jobs"))[0] == 401


async def test_calls_without_a_token_do_not_count_as_failures(api: Api) -> None:
    for _ in range(MOST + 1):
        async with api.client.get("/v1/jobs") as answer:
            assert answer.status == 401
    assert (await api.ask(BOOTSTRAP_TOKEN, "GET", "/v1/jobs"))[0] == 200


async def test_a_token_that_is_not_known_yet_is_told_to_come_again(api: Api) -> None:
    api.is_known = False
    assert (await api.ask(mint().text, "GET", "/v1/jobs"))[0] == 503
    assert (await api.ask("wrong", "GET", "/v1/jobs"))[0] == 401
    api.is_known = True
    assert (await api.ask(mint().text, "GET", "/v1/jobs"))[0] == 401


@pytest.mark.parametrize(
    "authorization", ["Bearer", "Bearer ", "bearer \udcff", "Basic eA==", "Bearer tg_"]
)
async def test_odd_headers_are_no_tokens(api: Api, authorization: str) -> None:
    raw = authorization.encode("utf-8", "surrogateescape").decode("latin-1")
    async with api.client.get("/v1/jobs", headers={"Authorization": raw}) as answer:
        assert answer.status in (400, 401)


async def test_a_decision_is_in_the_callers_own_name_unless_it_administers(api: Api) -> None:
    body = {"scope": "tenant", "value": "acme", "reason": "x", "by": "ann"}
    token = (await made(api, role="operator"))["token"]
    status, found = await api.ask(token, "POST", "/v1/limits/pause", body)
    assert (status, found["type"]) == (403, "urn:tidegate:problem:another-author")
    own = {name: value for name, value in body.items() if name != "by"}
    status, found = await api.ask(token, "POST", "/v1/limits/pause", own)
    assert (status, found["by"][:6]) == (200, "token:")
    status, found = await api.ask(BOOTSTRAP_TOKEN, "POST", "/v1/limits/pause", body)
    assert (status, found["by"]) == (200, "ann")

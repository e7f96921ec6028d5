"""What a person asks of the delivery stage reaches it, and the answer shows what came of it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from support.callers import AskedByAnybody, as_operator
from support.operator_cluster import answered, entry_of
from support.outgoing_rows import (
    AT,
    make_attempt,
    make_delivery,
    make_endpoint,
    make_recovery,
    make_state,
)

from streams.api.operator_state import AppState
from streams.api.read_model.database import Database
from streams.api.read_model.projections import Changes, project
from streams.api.serving.middlewares import problems
from streams.api.serving.routes import routes
from streams.api.serving.state import STATE
from streams.runtime.processor import Record
from streams.serde.codec import (
    AUDIT_ENTRY,
    DELIVERY,
    DELIVERY_ATTEMPT,
    DELIVERY_COMMAND,
    ENDPOINT_STATE,
    TENANT,
)
from streams.serde.delivery_records import Delivery, DeliveryAttempt, DeliveryCommand, EndpointState
from streams.serde.records import REFUSED, AuditEntry, TenantRecord
from streams.topology.load import load
from streams.vault.key_encryption import local_vault

CODECS: dict[type, tuple[str, Any]] = {
    Delivery: ("deliveries", DELIVERY),
    DeliveryAttempt: ("deliveries.attempts", DELIVERY_ATTEMPT),
    EndpointState: ("deliveries.endpoints", ENDPOINT_STATE),
    TenantRecord: ("tenants", TENANT),
    AuditEntry: ("audit", AUDIT_ENTRY),
}
ENDPOINT = "/v1/tenants/acme/endpoints/crm"
SINCE = "2023-11-14T22:13:20Z"
Api = TestClient[Any, Any]


class Desk(AskedByAnybody):
    """A read model, and the delivery stage beside it: `obey` makes records of each command."""

    home, newest, drop_shown = AppState.home, AppState.newest, AppState.drop_shown

    def __init__(self, rows: sqlite3.Connection) -> None:
        self.rows, self.topology, self.unshown = rows, load(), dict[Any, Any]()
        self.vault = local_vault(b"v" * 32)
        self.sent: list[DeliveryCommand] = []
        self.waits: list[tuple[Any, float | None]] = []
        self.found: Any = None
        self.obey: Callable[[DeliveryCommand], list[Any]] = lambda _: []

    def fold(self, *values: Any) -> None:
        batch: dict[str, Changes] = {}
        for each in values:
            topic, codec = CODECS[type(each)]
            project(Record(topic, 0, 0, 0, b"", codec.encode(each)), batch)
        for changes in batch.values():
            changes.write(self.rows)

    async def query(self, query: Callable[[sqlite3.Connection], Any]) -> Any:
        return query(self.rows)

    async def wait_for(
        self,
        row: Any,
        query: Callable[[sqlite3.Connection], Any],
        others: Any = (),
        seconds: float | None = None,
    ) -> Any:
        self.waits.append(((row, *others), seconds))
        self.found = query(self.rows)
        return self.found

    async def send_home(self, topic: str, tenant_id: str, value: bytes) -> int:
        assert topic == "deliveries.commands"
        command = DELIVERY_COMMAND.decode(value)
        self.sent.append(command)
        if made := self.obey(command):
            self.fold(*answered(command, made))
        return len(self.sent)

    async def read_barrier(self, *_: Any) -> None:
        """The read model has caught up."""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    rows = Database(tmp_path / "m.sqlite").open_writer()
    found = Desk(rows)
    found.fold(TenantRecord("acme", "tenant", "", False, "{}"), make_endpoint())
    yield found
    rows.close()


@pytest.fixture
async def api(desk: Desk) -> AsyncIterator[Api]:
    app = web.Application(middlewares=[problems, as_operator])
    app[STATE] = desk  # type: ignore[misc]
    app.add_routes(routes())
    async with TestClient(TestServer(app)) as client:
        yield client


async def asked(
    api: Api, path: str, body: dict[str, Any] | None = None, key: str | None = None
) -> tuple[int, Any]:
    headers = {} if key is None else {"Idempotency-Key": key}
    answer = await api.post(path, json=body or {}, headers=headers)
    return answer.status, await answer.json()


async def test_a_delivery_is_retried_again_and_again_also_while_it_is_pending(
    desk: Desk, api: Api
) -> None:
    row = make_delivery(status="dead", attempts=8)
    desk.fold(row)
    desk.obey = lambda c: [
        replace(row, status="pending", next_attempt_at=AT, command_id=c.command_id)
    ]
    for sent in (1, 2):
        status, told = await asked(api, "/v1/deliveries/dlv_a/retry")
        assert (status, told["answered"], told["status"]) == (202, True, "pending")
        assert told["command_id"] == desk.sent[-1].command_id
        assert len(desk.sent) == sent
    command = desk.sent[0]
    assert (command.kind, command.delivery_id) == ("retry", "dlv_a")
    assert (command.tenant_id, command.endpoint_id) == ("acme", "crm")
    assert command.command_id != desk.sent[1].command_id


async def test_a_retry_that_the_stage_has_not_read_says_so(desk: Desk, api: Api) -> None:
    desk.fold(make_delivery(status="dead"))
    status, told = await asked(api, "/v1/deliveries/dlv_a/retry")
    assert (status, told["answered"], told["status"]) == (202, False, "dead")


async def test_a_retry_that_the_stage_refuses_tells_its_reason(desk: Desk, api: Api) -> None:
    desk.fold(make_delivery(status="dead"))
    why = {"reason": "delivery_unknown", "detail": "it was purged"}
    desk.obey = lambda command: [entry_of(command, REFUSED, **why)]
    status, told = await asked(api, "/v1/deliveries/dlv_a/retry")
    assert (status, told["type"].rpartition(":")[2]) == (409, "delivery-unknown")
    assert (told["detail"], told["command_id"]) == ("it was purged", desk.sent[0].command_id)


async def test_an_unknown_delivery_is_neither_shown_nor_retried(desk: Desk, api: Api) -> None:
    status, told = await asked(api, "/v1/deliveries/dlv_none/retry")
    assert (status, "GET /v1/deliveries" in told["detail"]) == (404, True)
    assert (await api.get("/v1/deliveries/dlv_none")).status == 404
    assert desk.sent == []


async def test_a_list_below_an_endpoint_is_its_own_and_since_is_a_time(
    desk: Desk, api: Api
) -> None:
    desk.fold(
        make_delivery("dlv_old", created_at=AT - 1),
        make_delivery("dlv_new"),
        make_delivery("dlv_other", endpoint_id="audit"),
        make_delivery("dlv_theirs", "bolt"),
    )
    answer = await api.get(f"{ENDPOINT}/deliveries", params={"since": SINCE, "status": "pending"})
    listed = (await answer.json())["deliveries"]
    assert [each["delivery_id"] for each in listed] == ["dlv_new"]
    for query, field in (({"since": "yesterday"}, "since"), ({"status": "lost"}, "status")):
        refused = await api.get("/v1/deliveries", params=query)
        assert (refused.status, (await refused.json())["errors"][0]["field"]) == (422, field)


async def test_a_dry_run_counts_and_sends_nothing(desk: Desk, api: Api) -> None:
    desk.fold(
        make_delivery("dlv_1", status="dead"),
        make_delivery("dlv_2", status="parked"),
        make_delivery("dlv_3", status="delivered"),
    )
    body = {"since": SINCE, "dry_run": True}
    status, told = await asked(api, f"{ENDPOINT}/recover", body)
    assert (status, told["matched"], told["statuses"]) == (200, 2, ["parked", "dead"])
    _, told = await asked(api, f"{ENDPOINT}/recover", body | {"status": "dead"})
    assert told["matched"] == 1
    assert desk.sent == []


async def test_a_recovery_is_begun_and_its_progress_shown(desk: Desk, api: Api) -> None:
    desk.obey = lambda c: [
        make_state(recovery=make_recovery(c.command_id, since=c.since, statuses=c.statuses))
    ]
    body = {"since": SINCE, "until": "2023-11-14T22:13:21Z", "status": "dead"}
    status, told = await asked(api, f"{ENDPOINT}/recover", body)
    (command,) = desk.sent
    assert (command.kind, command.since, command.until) == ("recover", AT, AT + 1_000)
    assert command.statuses == ("dead",)
    assert (status, told["answered"], told["command_id"]) == (202, True, command.command_id)
    assert told["recovery"] == {
        "command_id": command.command_id,
        "since": "2023-11-14T22:13:20.000Z",
        "until": "2023-11-14T22:13:21.000Z",
        "statuses": ["dead"],
        "recovered": 3,
        "ended_at": None,
    }


async def test_a_recovery_without_an_end_leaves_its_end_to_the_stage_s_clock(
    desk: Desk, api: Api
) -> None:
    desk.fold(make_delivery("dlv_1", status="dead", created_at=2**52))  # our clock is late
    body = {"since": SINCE}
    _, counted = await asked(api, f"{ENDPOINT}/recover", body | {"dry_run": True})
    assert (counted["matched"], counted["until"]) == (1, None)
    await asked(api, f"{ENDPOINT}/recover", body)
    (command,) = desk.sent
    assert (command.since, command.until) == (AT, None)


async def test_one_key_is_one_recovery_however_often_it_is_sent(desk: Desk, api: Api) -> None:
    body = {"since": SINCE}
    first = await asked(api, f"{ENDPOINT}/recover", body, "k1")
    again = await asked(api, f"{ENDPOINT}/recover", body, "k1")
    other = await asked(api, f"{ENDPOINT}/recover", body, "k2")
    assert first[1]["answered"] is False
    assert first[1]["command_id"] == again[1]["command_id"] != other[1]["command_id"]
    state = make_recovery(first[1]["command_id"], since=AT, recovered=9, ended_at=AT + 5)
    desk.fold(make_state(recovery=state))
    status, told = await asked(api, f"{ENDPOINT}/recover", body, "k1")
    assert (status, told["recovery"]["recovered"]) == (202, 9)
    for other_body in ({"status": "dead"}, {"until": "2023-11-14T23:13:20Z"}):
        status, told = await asked(api, f"{ENDPOINT}/recover", body | other_body, "k1")
        assert (status, told["type"].rpartition(":")[2]) == (409, "key-reused")
        assert "since 2023-11-14T22:13:20" in told["detail"]


@pytest.mark.parametrize(
    ("records", "name"),
    [
        ([make_endpoint(enabled=False)], "endpoint-disabled"),
        ([make_state(disabled_because="gone", disabled_at=AT)], "endpoint-disabled"),
        ([replace(make_endpoint(), disabled=True)], "endpoint-missing"),
    ],
)
async def test_an_endpoint_that_takes_nothing_is_not_recovered(
    desk: Desk, api: Api, records: list[Any], name: str
) -> None:
    desk.fold(*records)
    status, told = await asked(api, f"{ENDPOINT}/recover", {"since": SINCE})
    assert (status, told["type"].rpartition(":")[2]) == (409, name)
    status, told = await asked(api, "/v1/tenants/acme/endpoints/none/recover", {"since": SINCE})
    assert (status, told["type"].rpartition(":")[2]) == (409, "endpoint-missing")
    assert desk.sent == []


async def test_an_endpoint_that_was_put_after_the_stage_disabled_it_is_recovered(
    desk: Desk, api: Api
) -> None:
    disabled = make_state(disabled_because="failing", disabled_at=AT)
    desk.fold(disabled, make_endpoint(at=AT + 1, set_at=AT - 1))  # rotated, not put
    assert (await asked(api, f"{ENDPOINT}/recover", {"since": SINCE}))[0] == 409
    desk.fold(make_endpoint(at=AT + 2, set_at=AT + 2))
    assert (await asked(api, f"{ENDPOINT}/recover", {"since": SINCE}))[0] == 202


async def test_until_is_after_since(desk: Desk, api: Api) -> None:
    status, _ = await asked(api, f"{ENDPOINT}/recover", {"since": SINCE, "until": SINCE})
    assert (status, desk.sent) == (422, [])


async def test_a_test_shows_its_attempts_once_it_is_delivered(desk: Desk, api: Api) -> None:
    def obey(command: DeliveryCommand) -> list[Any]:
        row = make_delivery(command.delivery_id or "", kind="test", status="delivered", attempts=2)
        return [row, make_attempt(row, 1), make_attempt(row, 2, status=200, error=None)]

    desk.obey = obey
    desk.fold(make_endpoint(enabled=False, timeout_seconds=4))
    status, told = await asked(api, f"{ENDPOINT}/test", {"sample": {"id": 7}})
    (command,) = desk.sent
    assert (command.kind, command.sample) == ("test", '{"id":7}')
    assert (status, told["delivered"], told["delivery_id"]) == (200, True, command.delivery_id)
    assert [each["status"] for each in told["attempts"]] == [503, 200]
    rows, seconds = desk.waits[-1]
    assert seconds == 3 * 4 + 5
    assert ("attempts", (command.delivery_id, 3)) in rows


@pytest.mark.parametrize(
    ("row", "attempts", "ended"),
    [
        ({"status": "pending", "attempts": 2}, 2, False),
        ({"status": "pending", "attempts": 3}, 3, True),
        ({"status": "dead", "attempts": 3}, 2, False),
        ({"status": "dead", "attempts": 1}, 1, True),
    ],
)
async def test_a_test_waits_until_no_attempt_follows_and_all_are_shown(
    desk: Desk, api: Api, row: dict[str, Any], attempts: int, ended: bool
) -> None:
    def obey(command: DeliveryCommand) -> list[Any]:
        made = make_delivery(command.delivery_id or "", kind="test", **row)
        return [made, *(make_attempt(made, n + 1) for n in range(attempts))]

    desk.obey = obey
    status, told = await asked(api, f"{ENDPOINT}/test")
    assert (status, told["delivered"], len(told["attempts"])) == (200, False, attempts)
    assert (desk.found is not None) == ended


async def test_a_test_that_no_stage_takes_names_the_remedy(desk: Desk, api: Api) -> None:
    status, told = await asked(api, f"{ENDPOINT}/test")
    assert (status, told["type"].rpartition(":")[2]) == (503, "delivery-silent")
    assert "is `tidegate delivery` running?" in told["detail"]


async def test_an_endpoint_without_a_url_cannot_be_tested(desk: Desk, api: Api) -> None:
    desk.fold(make_endpoint("callbacks", url=None))
    status, told = await asked(api, "/v1/tenants/acme/endpoints/callbacks/test")
    assert (status, told["type"].rpartition(":")[2]) == (409, "endpoint-without-url")
    assert desk.sent == []


async def test_endpoints_of_one_tenant_or_of_all_are_listed_a_page_at_a_time(
    desk: Desk, api: Api
) -> None:
    desk.fold(make_endpoint("a"), make_endpoint("a", "bolt"), make_endpoint("z", "bolt"))
    for path, expected in (
        ("/v1/endpoints", ["acme/a", "acme/crm", "bolt/a", "bolt/z"]),
        ("/v1/tenants/acme/endpoints", ["acme/a", "acme/crm"]),
    ):
        found, cursor = list[str](), dict[str, str]()
        while len(found) < len(expected):
            page = await (await api.get(path, params={"limit": "1", **cursor})).json()
            found += [f"{each['tenant_id']}/{each['endpoint_id']}" for each in page["endpoints"]]
            cursor = {"cursor": page["next_cursor"] or ""}
        assert (found, cursor) == (expected, {"cursor": ""})


async def test_endpoints_that_fail_are_listed_a_page_at_a_time(desk: Desk, api: Api) -> None:
    fails: dict[str, Any] = {"failing_since": 1}
    for tenant, name, given in (
        ("acme", "a", fails),
        ("bolt", "a", fails | {"disabled_because": "gone", "disabled_at": 1}),
        ("bolt", "ok", {}),
        ("bolt", "z", fails),
        ("acme", "cut", fails | {"circuit": "open", "open_until": 1}),
    ):
        desk.fold(make_endpoint(name, tenant), make_state(name, tenant, **given))
    for path, state, expected in (
        ("/v1/endpoints", "failing", ["acme/a", "bolt/a", "bolt/z"]),
        ("/v1/tenants/acme/endpoints", "failing", ["acme/a"]),
        ("/v1/endpoints", "cut_off", ["acme/cut"]),
    ):
        found, cursor = list[str](), dict[str, str]()
        while len(found) < len(expected):
            params: dict[str, str] = {"limit": "1", "state": state, **cursor}
            page = await (await api.get(path, params=params)).json()
            found += [f"{each['tenant_id']}/{each['endpoint_id']}" for each in page["endpoints"]]
            cursor = {"cursor": page["next_cursor"] or ""}
        assert (found, cursor) == (expected, {"cursor": ""})

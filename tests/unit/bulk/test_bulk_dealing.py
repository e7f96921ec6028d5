"""What becomes of an item of a bulk act, before its action is asked."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from support.outgoing_rows import make_delivery

from streams.access.authentication import Authentication
from streams.access.book import AccessBook
from streams.access.permissions import ROLES
from streams.access.token_records import TokenGrant
from streams.api import payloads
from streams.api.audit import table as audit
from streams.api.bulk import dealing
from streams.api.bulk.action import Dealt, Doing, NoParams
from streams.api.bulk.actions import ACTIONS
from streams.api.deliveries import table as deliveries
from streams.api.operator_state import not_shown
from streams.api.refusal import Refusal
from streams.api.serving.problems import not_ready
from streams.bulk.act import Act
from streams.errors import Erased, KafkaUnavailable, RecordTooLarge, TransientError
from streams.serde.bulk_records import BulkAsked, BulkItem
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key

ITEM = BulkItem("job_a", 0, "acme", b"d")
GRANT = TokenGrant("t1", "ci", "operator", frozenset(), None, b"d", 1, "operator", 1_000)


@dataclass(frozen=True)
class State:
    """An operator's parts, which are not asked for anything."""

    command_id: str | None = None
    is_ready: bool = True
    folded: int = 0
    late: Refusal | None = None
    read: list[Any] = field(default_factory=list)

    def ready(self) -> bool:
        return self.is_ready

    @property
    def follower(self) -> Any:
        return SimpleNamespace(folded=lambda _: self.folded)

    async def read_barrier(self, *places: Any) -> None:
        self.read.extend(places)
        if places and self.late is not None:
            raise self.late

    def asked_by(self, *_: Any) -> State:
        return self

    async def query(self, look: Any) -> Any:
        return look(None)


def act_of(asked_by: str) -> Act:
    asked = BulkAsked(
        "jobs.cancel", "{}", "{}", "why", "operator", None, None, 1, (), {}, (), None, b"d"
    )
    return Act("b1", asked, 1, asked_by)


@pytest.mark.parametrize("asked_by", ["token:t1", "token:t2", "person:corp:t1", "operator", "t1"])
@pytest.mark.parametrize("ended", [None, "revoked", "expired"])
def test_nothing_more_is_done_for_a_token_that_has_ended(
    monkeypatch: pytest.MonkeyPatch, asked_by: str, ended: str | None
) -> None:
    done: list[str] = []

    async def cancelled(_: Any, doing: Any) -> Dealt:
        done.append(doing.id)
        return Dealt()

    monkeypatch.setitem(ACTIONS, "jobs.cancel", replace(ACTIONS["jobs.cancel"], deal=cancelled))
    now = GRANT.expires_at if ended == "expired" else 1
    known = Authentication("admin", AccessBook(ROLES), lambda: now)
    grant = GRANT.revoked(2, "operator") if ended == "revoked" else GRANT
    known.book.apply(tenant_key(*grant.key), TENANT.encode(grant.record(2)))
    found = asyncio.run(dealing.deal(State(), known.withdrawn, act_of(asked_by), ITEM))  # type: ignore[arg-type]
    is_over = ended is not None and asked_by == "token:t1"
    assert done == ([] if is_over else ["job_a"])
    assert found.reason == (f"asker_{ended}" if is_over else None)


def dealt(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None, state: Any = None, at: int = 0
) -> BulkItem:
    async def cancelled(_: Any, __: Any) -> Dealt:
        if error is not None:
            raise error
        return Dealt()

    act = act_of("operator")
    assert act.asked is not None
    act = replace(act, asked=replace(act.asked, positions={"0": at}))
    monkeypatch.setitem(ACTIONS, "jobs.cancel", replace(ACTIONS["jobs.cancel"], deal=cancelled))
    parts: Any = state or State()
    deal = dealing.deal(parts, lambda *_: None, act, ITEM)
    return asyncio.run(deal)


def unreadable(cause: Exception | None) -> Refusal:
    refusal = Refusal(503, "payload-unreadable", "no key opens it")
    refusal.__cause__ = cause
    return refusal


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (unreadable(None), "payload_unreadable"),
        (Refusal(500, "odd", "x"), "odd"),
        (Refusal(409, "scope-in-use", "x"), "scope_in_use"),
        (RecordTooLarge("2 MB"), "record_too_large"),
        (Erased("acme"), "internal_error"),
        (ValueError("a bug"), "internal_error"),
    ],
)
def test_what_may_last_fails_the_item(
    monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    found = dealt(monkeypatch, error)
    assert (found.outcome, found.reason) == ("failed", reason)
    assert found.detail


@pytest.mark.parametrize(
    "error",
    [
        KafkaUnavailable("away"),
        sqlite3.OperationalError("database is locked"),
        not_ready(),
        not_shown(),
        Refusal(429, "backlog-full", "x"),
        unreadable(TransientError("no leader")),
    ],
)
def test_what_passes_by_itself_is_no_fault_of_the_item(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with pytest.raises(KafkaUnavailable):
        dealt(monkeypatch, error)


UNKNOWN = Refusal(404, "job-unknown", "no job 'job_a'")


def test_an_item_does_not_fail_while_rows_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KafkaUnavailable, match="reading its topics"):
        dealt(monkeypatch, UNKNOWN, State(is_ready=False))


def test_an_item_does_not_fail_if_the_rows_went_missing_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ready, state = iter([True, False]), State()
    monkeypatch.setattr(State, "ready", lambda _: next(ready))
    with pytest.raises(KafkaUnavailable, match="no job"):
        dealt(monkeypatch, UNKNOWN, state)


def test_an_item_waits_for_the_rows_from_which_another_operator_planned_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(KafkaUnavailable):
        dealt(monkeypatch, UNKNOWN, State(folded=4, late=not_shown()), at=5)
    state = State(folded=4)
    assert dealt(monkeypatch, None, state, at=5).outcome == "done"
    assert state.read == [("jobs", 0)]
    assert dealt(monkeypatch, UNKNOWN, State(folded=5, late=not_shown()), at=5).outcome == "failed"


def test_a_body_that_is_read_late_is_no_fault_of_the_item(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def known(*_: Any) -> None:
        return None

    async def opened() -> bytes:
        return await payloads.open_body(state, "acme", "evt_a", ref)

    late = Future[Any]()
    late.set_exception(TransientError("no leader"))
    ref: Any = SimpleNamespace(key_id="k1")
    state: Any = SimpleNamespace(payloads=SimpleNamespace(fetch=lambda _: late))
    monkeypatch.setattr(payloads, "_key", known)
    with pytest.raises(Refusal, match="no leader") as caught:
        asyncio.run(opened())
    with pytest.raises(KafkaUnavailable):
        dealt(monkeypatch, caught.value)


def test_a_delivery_that_arrived_meanwhile_is_not_recovered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit, "answer_to", lambda *_: None)
    monkeypatch.setattr(deliveries, "delivery", lambda *_: make_delivery(status="delivered"))
    doing = Doing("dlv_a", "acme", "why", NoParams(), "key")
    with pytest.raises(Refusal, match="is delivered: only one that is parked or dead"):
        asyncio.run(ACTIONS["deliveries.recover"].deal(State("cmd_1"), doing))  # type: ignore[arg-type]

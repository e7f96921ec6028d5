"""What becomes of an item of a bulk act, before its action is asked."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import pytest
from support.outgoing_rows import make_delivery

from streams.access.authentication import Authentication
from streams.access.book import AccessBook
from streams.access.permissions import ROLES
from streams.access.token_records import TokenGrant
from streams.api.audit import table as audit
from streams.api.bulk import dealing
from streams.api.bulk.action import Dealt, Doing, NoParams
from streams.api.bulk.actions import ACTIONS
from streams.api.deliveries import table as deliveries
from streams.api.refusal import Refusal
from streams.bulk.act import Act
from streams.serde.bulk_records import BulkAsked, BulkItem
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key

ITEM = BulkItem("job_a", 0, "acme", b"d")
GRANT = TokenGrant("t1", "ci", "operator", frozenset(), None, b"d", 1, "operator", 1 << 60)


@dataclass(frozen=True)
class State:
    """An operator's parts, which are not asked for anything."""

    command_id: str | None = None

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
@pytest.mark.parametrize("is_revoked", [False, True])
def test_nothing_more_is_done_for_a_token_that_was_revoked(
    monkeypatch: pytest.MonkeyPatch, asked_by: str, is_revoked: bool
) -> None:
    done: list[str] = []

    async def cancelled(_: Any, doing: Any) -> Dealt:
        done.append(doing.id)
        return Dealt()

    monkeypatch.setitem(ACTIONS, "jobs.cancel", replace(ACTIONS["jobs.cancel"], deal=cancelled))
    known = Authentication("admin", AccessBook(ROLES), lambda: 1)
    grant = GRANT.revoked(2, "operator") if is_revoked else GRANT
    known.book.apply(tenant_key(*grant.key), TENANT.encode(grant.record(2)))
    found = asyncio.run(dealing.deal(State(), known.is_revoked, act_of(asked_by), ITEM))  # type: ignore[arg-type]
    is_over = is_revoked and asked_by == "token:t1"
    assert done == ([] if is_over else ["job_a"])
    assert found.reason == ("asker_revoked" if is_over else None)


def test_a_delivery_that_arrived_meanwhile_is_not_recovered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit, "answer_to", lambda *_: None)
    monkeypatch.setattr(deliveries, "delivery", lambda *_: make_delivery(status="delivered"))
    doing = Doing("dlv_a", "acme", "why", NoParams(), "key")
    with pytest.raises(Refusal, match="is delivered: only one that is parked or dead"):
        asyncio.run(ACTIONS["deliveries.recover"].deal(State("cmd_1"), doing))  # type: ignore[arg-type]

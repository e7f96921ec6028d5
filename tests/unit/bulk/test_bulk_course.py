"""What two requests under one key come to, and what a plan says about its time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast
from weakref import WeakValueDictionary

import pytest

from streams.access.principal import BOOTSTRAP, Principal
from streams.api.bulk import course, plan
from streams.api.bulk import table as bulk_acts
from streams.api.bulk.bulk_request import BulkRequest
from streams.api.fields import validated
from streams.api.refusal import Refusal
from streams.bulk.act import Act
from streams.bulk.journal import Journal
from streams.kafka.fenced_write import OutgoingRecord
from streams.serde.bulk_records import BulkAsked, BulkBody, BulkRecord
from streams.serde.codec import BULK

WANTED = BulkRequest(action="jobs.cancel", note="why", ramp=[])


@dataclass
class State:
    """An operator's parts for one that asks; what is written is shown at once."""

    principal: Principal = BOOTSTRAP
    bulk_turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    known: dict[str, Act] = field(default_factory=dict)
    written: list[BulkBody] = field(default_factory=list)
    entries: list[Any] = field(default_factory=list)
    folded: int = 1
    topology: Any = field(
        default_factory=lambda: SimpleNamespace(
            topics={name: SimpleNamespace(partitions=1) for name in ("jobs", "dlq")}
        )
    )

    @property
    def follower(self) -> Any:
        return SimpleNamespace(folded=lambda _: self.folded)

    async def read_barrier(self, *_: Any) -> None:
        await asyncio.sleep(0)

    async def query(self, look: Any) -> Any:
        self.folded += 1
        return look(None)

    def entry(self, target: str, tenant_id: str = "", **said: Any) -> Any:
        return target, tenant_id, said

    async def audited(self, entry: Any, *records: OutgoingRecord) -> None:
        self.entries.append(entry)
        for each in records:
            self.take(BULK.decode(each.value))

    def take(self, record: BulkRecord) -> None:
        self.written.append(record.body)
        before = self.known.get(record.bulk_id, Act(record.bulk_id))
        self.known[record.bulk_id] = before.folded(replace(record, at=1))


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> State:
    found = State()

    async def shown(_: Any, bulk_id: str) -> Act:
        await asyncio.sleep(0)
        return found.known.get(bulk_id, Act(bulk_id))

    class PlayedJournal(Journal):
        async def write(self, bulk_id: str, bodies: Any) -> None:
            await asyncio.sleep(0)
            for body in bodies:
                found.take(BulkRecord(bulk_id, 1, self.by, body))

    def journal(state: State) -> Journal:
        return PlayedJournal(cast(Any, None), 1, state.principal.id)

    async def known_tenant(*_: Any) -> None: ...

    monkeypatch.setattr(course, "known_tenant", known_tenant)
    monkeypatch.setattr(course, "_shown", shown)
    monkeypatch.setattr(course, "_journal", journal)
    monkeypatch.setattr(bulk_acts, "joined", lambda *_: [])
    monkeypatch.setattr(course, "_begun_json", lambda *_: {"bulk_id": "known"})
    monkeypatch.setattr(plan, "_selected", lambda *_: ((), ()))
    return found


async def both(state: Any) -> list[Any]:
    begin = [course.begin(state, WANTED, "k1") for _ in range(2)]
    return await asyncio.gather(*begin)


def test_two_requests_under_one_key_at_once_are_one_plan(state: State) -> None:
    first, second = asyncio.run(both(state))
    assert first["bulk_id"] in state.known
    assert second == {"bulk_id": "known"}
    assert sum(isinstance(body, BulkAsked) for body in state.written) == 1
    assert not state.bulk_turns


def test_each_plan_of_a_request_has_a_digest_of_its_own(state: Any) -> None:
    plans = [asyncio.run(plan.planned(state, WANTED)) for _ in range(2)]
    asked = [each.asked(WANTED, BOOTSTRAP) for each in plans]
    assert asked[0].digest == asked[1].digest
    assert asked[0].items_digest != asked[1].items_digest


def test_the_positions_of_a_plan_are_behind_all_that_it_selected(state: Any) -> None:
    found = asyncio.run(plan.planned(state, WANTED))
    assert found.positions == {"0": state.folded}


@pytest.mark.parametrize(
    "part", [{"filter": {"x": 10**30}}, {"params": {"x": 10**30}}, {"action": "jobs.explode"}]
)
def test_a_body_that_cannot_be_meant_is_refused_under_a_known_key_too(
    state: Any, part: dict[str, Any]
) -> None:
    asyncio.run(course.begin(state, WANTED, "k1"))

    async def again() -> None:
        wanted = validated({"action": "jobs.cancel", "note": "why"} | part, BulkRequest)
        await course.begin(state, wanted, "k1")

    with pytest.raises(Refusal) as caught:
        asyncio.run(again())
    assert caught.value.status == 422


@pytest.mark.parametrize("depth", range(240, 258))
def test_a_patch_of_any_depth_is_taken_or_refused(state: Any, depth: int) -> None:
    deep: Any = 1
    for _ in range(depth):
        deep = {"a": deep}
    body = {"action": "dead_letters.edit", "note": "why", "params": {"patch": deep}}
    with suppress(Refusal):
        asyncio.run(course.begin(state, validated(body, BulkRequest), None))


def test_the_audit_has_who_began_an_act_and_who_changed_it(state: Any) -> None:
    wanted = BulkRequest(action="jobs.cancel", note="why", filter={"tenant_id": "acme"})
    act = asyncio.run(course.begin(state, wanted, "k1"))["bulk_id"]
    asyncio.run(course.begin(state, wanted, "k1"))
    asyncio.run(course.pause(state, act))
    asyncio.run(course.resume(state, act))
    asyncio.run(course.cancel(state, act, "wrong filter"))
    asyncio.run(course.cancel(state, act, "once more"))
    assert state.entries == [
        (act, "acme", {"after": '{"action":"jobs.cancel","count":0}', "note": "why"}),
        (act, "acme", {"before": '{"status":"queued"}', "note": None}),
        (act, "acme", {"before": '{"status":"paused"}', "note": None}),
        (act, "acme", {"before": '{"status":"queued"}', "note": "wrong filter"}),
    ]

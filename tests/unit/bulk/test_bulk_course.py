"""What two requests under one key come to, and what a plan says about its time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from weakref import WeakValueDictionary

import pytest

from streams.access.principal import BOOTSTRAP, Principal
from streams.api.bulk import course, plan
from streams.api.bulk.bulk_request import BulkRequest
from streams.api.refusal import Refusal
from streams.bulk.act import Act
from streams.serde.bulk_records import BulkAsked, BulkBody, BulkRecord

WANTED = BulkRequest(action="jobs.cancel", note="why", ramp=[])


@dataclass
class State:
    """An operator's parts for one that asks; what is written is shown at once."""

    principal: Principal = BOOTSTRAP
    bulk_turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    known: dict[str, Act] = field(default_factory=dict)
    written: list[BulkBody] = field(default_factory=list)
    folded: int = 1
    topology: Any = field(
        default_factory=lambda: SimpleNamespace(topics={"jobs": SimpleNamespace(partitions=1)})
    )

    @property
    def follower(self) -> Any:
        return SimpleNamespace(folded=lambda _: self.folded)

    async def read_barrier(self, *_: Any) -> None:
        await asyncio.sleep(0)

    async def query(self, look: Any) -> Any:
        self.folded += 1
        return look(None)


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> State:
    found = State()

    async def shown(_: Any, bulk_id: str) -> Act:
        await asyncio.sleep(0)
        return found.known.get(bulk_id, Act(bulk_id))

    class Journal:
        async def write(self, bulk_id: str, bodies: Any) -> None:
            await asyncio.sleep(0)
            for body in bodies:
                found.written.append(body)
                before = found.known.get(bulk_id, Act(bulk_id))
                found.known[bulk_id] = before.folded(BulkRecord(bulk_id, 1, "operator", body))

    monkeypatch.setattr(course, "_shown", shown)
    monkeypatch.setattr(course, "_journal", lambda _: Journal())
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
    wanted = BulkRequest.model_validate({"action": "jobs.cancel", "note": "why"} | part)
    with pytest.raises(Refusal) as caught:
        asyncio.run(course.begin(state, wanted, "k1"))
    assert caught.value.status == 422

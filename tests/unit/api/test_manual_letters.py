"""A dead letter that is left to a person waits for nobody else, and is replayed by nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp.test_utils import TestClient
from support.operator_cluster import make_job, make_letter
from support.operator_desk import OperatorDesk, client_of

from streams.api.bulk.action import Doing
from streams.api.bulk.actions import ACTIONS
from streams.api.bulk.dead_letter_actions import LetterFilter, ManualFilter, ManualParams
from streams.api.fields import Body
from streams.api.operator_state import AppState
from streams.api.read_model.database import Database
from streams.api.refusal import Refusal
from streams.kafka.fenced_write import OutgoingRecord
from streams.serde.codec import DEAD_LETTER, JOB
from streams.serde.records import DeadLetter

RECORD = DeadLetter(
    "dispatcher:events:1:7",
    "record",
    "acme",
    "output_refused",
    "",
    "dispatcher",
    1,
    "events",
    1,
    7,
    b"acme",
    b"envelope",
    timestamp=5,
)
DEAD = make_job("job_a", status="dead")
NOTE = {"note": "refund it"}
AGAIN = {"incident_note": "ticket 4711"}


class Desk(OperatorDesk):
    """Parts that keep the entries which the calls write, and the records that go to stages."""

    def __init__(self, rows: Any) -> None:
        super().__init__(rows)
        self.entries: list[tuple[Any, ...]] = []
        self.returned: list[OutgoingRecord] = []

    def entry(self, target: str, tenant_id: str = "", **told: Any) -> Any:
        return told["verb"], target, tenant_id, told["note"]

    async def audited(self, entry: Any, *records: OutgoingRecord) -> list[int]:
        self.entries.append(entry)
        self.returned += [each for each in records if each.topic != "dlq"]
        return await super().audited(entry, *(each for each in records if each.topic == "dlq"))

    def fold(self, *letters: DeadLetter) -> None:
        self.project([("dlq", each.id.encode(), DEAD_LETTER.encode(each)) for each in letters])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(Database(tmp_path / "m.sqlite").open_writer())
    made.fold(RECORD, make_letter(DEAD, at=2))
    made.project([("jobs", DEAD.job_id.encode(), JOB.encode(DEAD))])
    return made


@pytest.fixture
async def api(desk: Desk) -> AsyncIterator[TestClient[Any, Any]]:
    async with client_of(desk) as client:
        yield client


async def sent(
    api: TestClient[Any, Any], path: str, body: dict[str, Any]
) -> tuple[int, dict[str, Any]]:
    async with api.post(f"/v1/dlq/{path}", json=body) as answer:
        return answer.status, await answer.json()


async def listed(api: TestClient[Any, Any], **query: str) -> list[str]:
    async with api.get("/v1/dlq", params=query) as answer:
        return [each["id"] for each in (await answer.json())["dead_letters"]]


def name(answer: dict[str, Any]) -> str:
    return str(answer["type"]).rpartition(":")[2]


async def test_it_leaves_the_list_until_it_is_done(api: TestClient[Any, Any]) -> None:
    status, shown = await sent(api, "job_a/manual", {**NOTE, "assignee": "ann"})
    assert (status, shown["assignee"], shown["manual_by"]) == (200, "ann", "operator")
    assert (await listed(api), await listed(api, manual="true")) == ([RECORD.id], ["job_a"])
    assert await listed(api, manual="true", assignee="bob") == []
    status, shown = await sent(api, "job_a/done", {"note": "refunded, re_81"})
    assert (status, shown["done_by"], shown["done_note"]) == (200, "operator", "refunded, re_81")
    assert (await listed(api, manual="true"), await listed(api)) == ([], [RECORD.id])
    assert await listed(api, discarded="true") == ["job_a"]


async def test_each_step_is_in_the_audit_once(api: TestClient[Any, Any], desk: Desk) -> None:
    for _ in range(2):
        assert (await sent(api, "job_a/manual", NOTE))[0] == 200
    await sent(api, "job_a/manual", {**NOTE, "assignee": "bob"})
    for note in ("refunded", "once more"):
        _, shown = await sent(api, "job_a/done", {"note": note})
        assert shown["done_note"] == "refunded"
    assert desk.entries == [
        ("dead_letter.manual", "job_a", "acme", "refund it"),
        ("dead_letter.manual", "job_a", "acme", "refund it"),
        ("dead_letter.done", "job_a", "acme", "refunded"),
    ]


@pytest.mark.parametrize(
    ("fields", "path", "refusal"),
    [
        ({}, "job_b/manual", (404, "dead-letter-unknown")),
        ({}, "job_b/done", (404, "dead-letter-unknown")),
        ({}, "job_a/done", (409, "not-manual")),
        ({"replayed_at": 3, "replayed_as": "job_x"}, "job_a/manual", (409, "already-replayed")),
        ({"discarded_at": 3}, "job_a/manual", (409, "letter-closed")),
        ({"manual_at": 3, "done_at": 4}, "job_a/manual", (409, "letter-closed")),
        ({"manual_at": 3, "discarded_at": 4}, "job_a/done", (409, "not-manual")),
    ],
)
async def test_what_is_no_work_for_a_person_is_refused(
    api: TestClient[Any, Any],
    desk: Desk,
    fields: dict[str, Any],
    path: str,
    refusal: tuple[int, str],
) -> None:
    desk.fold(replace(make_letter(DEAD, at=2), **fields))
    status, told = await sent(api, path, NOTE)
    assert (status, name(told)) == refusal
    assert desk.entries == []


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("id_", ["job_a", RECORD.id])
async def test_what_a_person_does_is_not_replayed_unless_it_is_meant(
    api: TestClient[Any, Any], desk: Desk, id_: str, is_done: bool
) -> None:
    await sent(api, f"{id_}/manual", NOTE)
    if is_done:
        await sent(api, f"{id_}/done", NOTE)
    status, told = await sent(api, f"{id_}/replay", AGAIN)
    assert (status, name(told)) == (409, "by-hand")
    assert (desk.sent, desk.returned) == ([], [])
    assert (await sent(api, f"{id_}/replay", {**AGAIN, "again": True}))[0] == 202
    assert len(desk.sent) + len(desk.returned) == 1


async def test_a_record_that_is_sent_in_again_is_in_the_audit(
    api: TestClient[Any, Any], desk: Desk
) -> None:
    assert (await sent(api, f"{RECORD.id}/replay", AGAIN))[0] == 202
    assert desk.entries == [("dead_letter.replay", RECORD.id, "acme", "ticket 4711")]
    (back,) = desk.returned
    assert (back.topic, back.partition) == ("jobs.commands", 1)
    assert dict(back.headers)["tidegate-letter"] == RECORD.id.encode()


def selected(desk: Desk, action: str, chosen: Body) -> list[str]:
    return [row.id for row in ACTIONS[action].rows(desk.rows, chosen, 10)]


def test_bulk_acts_select_manual_work_only_to_say_that_it_is_done(desk: Desk) -> None:
    desk.fold(replace(make_letter(DEAD, at=2), manual_at=3, assignee="ann"))
    for action in ("replay", "edit", "discard", "manual"):
        assert selected(desk, f"dead_letters.{action}", LetterFilter()) == [RECORD.id]
    assert selected(desk, "dead_letters.done", ManualFilter()) == ["job_a"]
    assert selected(desk, "dead_letters.done", ManualFilter(assignee="bob")) == []


async def test_an_item_that_somebody_else_does_meanwhile_fails(desk: Desk) -> None:
    state = cast(AppState, desk)
    ours = Doing("job_a", "acme", "refund it", ManualParams(assignee="ann"), "key")
    for _ in range(2):
        await ACTIONS["dead_letters.manual"].deal(state, ours)
    assert len(desk.entries) == 1, "a repetition changes nothing"
    with pytest.raises(Refusal) as caught:
        await ACTIONS["dead_letters.manual"].deal(state, replace(ours, note="another act"))
    assert caught.value.name == "already-manual"
    params = ACTIONS["dead_letters.edit"].params.model_validate({"patch": {}})
    for action in ("replay", "edit"):
        with pytest.raises(Refusal) as caught:
            await ACTIONS[f"dead_letters.{action}"].deal(state, replace(ours, params=params))
        assert caught.value.name == "by-hand"

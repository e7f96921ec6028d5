"""What steps, waits and children leave is found by the next run, under the same ids."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from support.link_suite.leases import ended as ended_wait
from support.link_suite.leases import lease, next_run
from support.link_suite.play import Play
from support.link_suite.said import come
from support.link_suite.workers import WorkerUnderTest

from streams import user_json
from streams.event_match import match_of
from streams.serde.ids import approval_id
from streams.serde.link.messages import Answer, Done, Seal
from streams.serde.records import EventInfo, Reply, Sealed, StepResult

pytestmark = pytest.mark.long


async def test_a_step_is_kept_before_the_effect_and_found_by_the_next_run(play: Play) -> None:
    leased = await play.run("step_then_effect", {"name": "Ann"})
    kept = (await play.said.next("checkpoint", leased.job_id)).body
    assert (kept.run_id, kept.step.id, kept.step.kind) == (leased.run_id, "draft", "step")
    assert (kept.step.position, kept.step.value) == (0, '{"text":"Dear Ann"}')
    assert kept.step.digest == user_json.digest({"args": ["Ann"], "kwargs": {}})
    claim = await play.said.next("claim", leased.job_id)
    await play.owner.answer(claim, "lost")

    again = next_run(leased, StepResult("draft", "step", 0, kept.step.digest, '{"text":"Kept"}'))
    await play.owner.lease(again)
    claim = await play.said.next("claim", leased.job_id)
    assert claim.body.digest == user_json.digest({"text": "Kept"})
    await play.owner.answer(claim, "granted", idempotency_key="key-1")
    assert (await play.ended(again)).status == "succeeded"
    assert len(play.said.all("checkpoint")) == 1


async def test_an_effect_waits_until_the_step_before_it_is_acknowledged(play: Play) -> None:
    play.owner.holds = True
    leased = await play.run("step_then_effect", {"name": "Ann"})
    await play.said.next("checkpoint", leased.job_id)
    heartbeats = len(play.said.all("heartbeat"))
    await come(lambda: len(play.said.all("heartbeat")) > heartbeats + 1, "two more heartbeats")
    assert play.said.all("claim") == []
    play.owner.holds = False
    await play.owner.acknowledge()
    await play.granted(leased, "key-1")
    assert (await play.ended(leased)).status == "succeeded"


async def test_a_wait_for_an_event_parks_the_run_and_the_next_one_gets_it(play: Play) -> None:
    leased = await play.run("wait_event", {"ticket": "T-1"})
    parked = await play.ended(leased)
    (wait,) = parked.waits
    match = match_of({"event_type": "ticket.*", "subject": "T-1"}).text()
    assert parked.status == "parked"
    assert (wait.id, wait.kind, wait.position, wait.match) == ("event", "event", 0, match)
    assert wait.digest == user_json.digest({"kind": "event", "match": match, "consume": "all"})
    assert (wait.timeout_ms, wait.since, wait.group) == (60_000, "job", 0)

    event = EventInfo(
        "evt_1", "desk", "ticket.answered", "T-1", None, 1, "", None, None, "k", {"a": "b"}
    )
    ref = {"partition": 0, "offsets": [1], "size": 2, "key_id": ""}
    value = {
        "event": asdict(event),
        "payload_ref": ref,
        "number": 7,
        "at": 1,
        "after_event": "evt_1",
    }
    again = next_run(leased, ended_wait(wait, value))
    await play.owner.lease(again)
    done = await play.ended(again)
    assert (done.status, json.loads(done.result)) == ("succeeded", {"a": "b"})


async def test_a_wait_whose_time_is_over_raises(play: Play) -> None:
    leased = await play.run("wait_event", {"ticket": "T-1"})
    (wait,) = (await play.ended(leased)).waits
    again = next_run(leased, ended_wait(wait, raises="WaitTimeout", message="its time is over"))
    await play.owner.lease(again)
    done = await play.ended(again)
    assert done.status == "failed"
    assert "WaitTimeout" in done.error
    assert "its time is over" in done.error


async def test_a_wait_for_a_time_parks_the_run_and_the_next_one_goes_on(play: Play) -> None:
    leased = await play.run("wait_time", {"seconds": 1.5})
    parked = await play.ended(leased)
    (wait,) = parked.waits
    assert (parked.status, wait.id, wait.kind, wait.timeout_ms) == ("parked", "sleep", "time", 1500)
    assert wait.digest == user_json.digest({"kind": "time"})
    again = next_run(leased, ended_wait(wait, None))
    await play.owner.lease(again)
    done = await play.ended(again)
    assert (done.status, done.result) == ("succeeded", '"awake"')


async def test_children_are_asked_for_once_and_awaited_together(play: Play) -> None:
    leased = await play.run("children")
    made = []
    for key, number in (("first", 1), ("second", 2)):
        asked = await play.said.next("enqueue", leased.job_id)
        child, left = asked.body.child, asked.body.left
        assert child.call == left.id == f"echo[{key}]"
        assert (child.type, json.loads(child.input)) == ("echo", {"n": number})
        assert child.digest == user_json.digest({"type": "echo", "input": {"n": number}})
        value = json.dumps({"job_id": f"job_{key}"})
        await play.owner.answer(asked, "made", result=value)
        made.append(StepResult(left.id, "child", left.position, left.digest, value))

    parked = await play.ended(leased)
    assert parked.status == "parked"
    waits = {wait.id: wait for wait in parked.waits}
    assert {id_: w.job_id for id_, w in waits.items()} == {
        "echo[first]!end": "job_first",
        "echo[second]!end": "job_second",
    }
    assert all(wait.needs_all and wait.position == -1 for wait in waits.values())
    first = waits["echo[first]!end"]
    assert first.digest == user_json.digest({"kind": "job", "job_id": "job_first"})

    left = (ended_wait(wait, {"of": wait.job_id}) for wait in waits.values())
    again = next_run(leased, *made, *left)
    await play.owner.lease(again)
    done = await play.ended(again)
    assert json.loads(done.result) == [{"of": "job_first"}, {"of": "job_second"}]
    assert len(play.said.all("enqueue")) == 2


async def test_a_child_that_another_input_was_asked_for_fails_the_job(play: Play) -> None:
    leased = await play.run("children")
    asked = await play.said.next("enqueue", leased.job_id)
    await play.owner.answer(asked, "conflict", message="it was another input")
    ended = await play.ended(leased)
    assert ended.status == "failed"
    assert "it was another input" in ended.error


async def test_a_handler_that_passes_over_a_finished_step_stops_for_a_person(play: Play) -> None:
    """Its code was changed: it would do again what another step did."""
    other = StepResult("former", "step", 0, b"", "1")
    changed = next_run(lease("step_then_effect", {"name": "Ann"}), other)
    await play.owner.lease(changed)
    ended = await play.ended(changed)
    assert (ended.status, ended.diverged) == ("review", "former")
    assert play.said.all("checkpoint") == []


async def test_people_are_asked_for_an_approval(play: Play, linked_worker: WorkerUnderTest) -> None:
    if "approval" in linked_worker.lacks:
        pytest.skip(f"the worker in {linked_worker.name} asks nobody for approvals")
    leased = await play.run("approval")
    seal = await come(
        lambda: next((asked for asked in play.owner.requests if isinstance(asked, Seal)), None),
        "a text to seal",
    )
    assert seal.place == "approval refund"
    await play.owner.send(Done(seal.request, sealed=Sealed("key", b"sealed")))
    asked = (await play.said.next("ask_approval", leased.job_id)).body
    assert (asked.key, asked.asked) == ("refund", Sealed("key", b"sealed"))
    (wait,) = (await play.ended(leased)).waits
    assert wait.id == "approval[refund]"
    assert wait.approval_id == approval_id(leased.tenant_id, leased.scope, "refund")
    value = {"approved": True, "by": "ann", "note": "", "edit": None}
    again = next_run(leased, ended_wait(wait, value))
    await play.owner.lease(again)
    assert (await play.ended(again)).result == "true"


async def test_a_command_that_no_owner_can_apply_fails_its_call(play: Play) -> None:
    play.owner.holds = True
    leased = await play.run("step_then_effect", {"name": "Ann"})
    kept = await play.said.next("checkpoint", leased.job_id)
    reply = Reply(leased.job_id, leased.epoch, "", "refused", message="it cannot be read")
    await play.owner.send(Answer(kept.partition, reply, kept.order.number))
    play.owner.holds = False
    await play.owner.acknowledge()
    ended = await play.ended(leased)
    assert ended.status == "failed"
    assert "it cannot be read" in ended.error
    assert play.said.all("claim") == []

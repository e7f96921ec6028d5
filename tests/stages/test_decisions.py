"""A command that names its call is answered by one entry of `audit`, done or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import pytest
from support import audited
from support.audited import CALL
from support.delivering import Deliveries
from support.dispatching import Desk, ScriptedWorker
from support.former_commands import former
from support.returning import give_back, letters

from streams.audit.chain import linked
from streams.delivery.metrics import DECISIONS
from streams.runtime.memory_broker import CrashPoint
from streams.serde.records import (
    Cancel,
    Command,
    CommandBody,
    DeleteSchedule,
    Ended,
    Move,
    PauseSchedule,
    Replay,
    ScheduleSpec,
    SetSchedule,
    Settle,
    Submit,
)

CANCEL = Cancel("not needed", "ann")
SUBMIT = Submit("draft_reply", "{}", None, None, None, None, None, "ann", b"hash", None)
REPLAY = Replay("job_x", "mended", False, "ann")
SPEC = ScheduleSpec(
    "report", '{"key": "s3cret"}', "0 9 * * *", None, None, "UTC", "skip", 1, "skip", 0
)


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def stage() -> Deliveries:
    return Deliveries()


def answers(at: Desk | Deliveries) -> list[tuple[str, str, str, str | None]]:
    found = audited.entries(at.driver)
    return [(e.verb, e.target, e.outcome, e.reason) for e in found]


def seen(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def test_a_command_that_is_done_tells_who_asked_and_what_changed(desk: Desk) -> None:
    desk.submit("job_x")
    command_id = desk.command(CANCEL, "job_x", call=CALL)
    (entry,) = audited.entries(desk.driver)
    assert (entry.verb, entry.target, entry.outcome, entry.tenant_id) == (
        "job.cancel",
        "job_x",
        "done",
        "acme",
    )
    assert (entry.principal, entry.role, entry.request_id) == ("token:ann", "operator", "req-1")
    assert (entry.command_id, entry.note, entry.at) == (command_id, "not needed", desk.driver.now)
    before, after = seen(entry.before), seen(entry.after)
    assert (before["status"], after["status"]) == ("pending", "cancelled")
    assert [r.key for r in desk.driver.output("audit")] == [b"acme"]


def test_a_command_that_is_refused_leaves_an_entry_and_no_dead_letter(desk: Desk) -> None:
    desk.submit("job_x")
    command_id = desk.command(replace(REPLAY, replay_of="job_y"), "job_z", call=CALL)
    (entry,) = audited.entries(desk.driver)
    assert (entry.verb, entry.target, entry.outcome) == ("dead_letter.replay", "job_y", "refused")
    assert (entry.reason, entry.detail) == ("replay_of_unknown", "no job job_y to replay")
    assert (entry.command_id, entry.note) == (command_id, "mended")
    assert desk.dead_letters() == []


def test_a_command_without_a_call_leaves_a_dead_letter_and_no_entry(desk: Desk) -> None:
    desk.submit("job_x")
    desk.command(REPLAY, "job_z")
    desk.command(CANCEL, "job_x")
    assert [letter.reason for letter in desk.dead_letters()] == ["not_replayable"]
    assert audited.entries(desk.driver) == []
    assert desk.job("job_x").status == "cancelled"


def test_what_is_done_and_refused_in_one_batch_is_answered_one_by_one(desk: Desk) -> None:
    with desk.held_back():
        desk.submit("job_x")
        desk.command(CANCEL, "job_x", call=CALL)
        desk.command(Move("nowhere", "more room", "ann"), "job_x", call=CALL)
        desk.command(Move("default", "more room", "ann"), "job_y", call=CALL)
        desk.command(CANCEL, "job_x", call=CALL)
        desk.submit("job_z")
    assert answers(desk) == [
        ("job.cancel", "job_x", "done", None),
        ("job.move", "job_x", "refused", "pool_undeclared"),
        ("job.move", "job_y", "refused", "move_of_unknown"),
        ("job.cancel", "job_x", "refused", "job_ended"),
    ]
    assert (desk.job("job_x").status, desk.job("job_z").status) == ("cancelled", "pending")
    assert desk.dead_letters() == []


def test_a_submission_that_makes_a_job_is_answered_by_its_row_alone(desk: Desk) -> None:
    desk.command(SUBMIT, "job_x", call=CALL)
    assert desk.job("job_x").status == "pending"
    assert audited.entries(desk.driver) == []


def test_a_twin_is_answered_and_one_with_another_body_is_refused(desk: Desk) -> None:
    for digest in (b"hash", b"hash", b"other"):
        desk.command(replace(SUBMIT, request_hash=digest), "job_x", call=CALL)
    assert answers(desk) == [
        ("job.submit", "job_x", "done", "twin"),
        ("job.submit", "job_x", "refused", "key_reused"),
    ]
    assert seen(audited.entries(desk.driver)[0].after)["status"] == "pending"
    assert desk.dead_letters() == []


def test_a_twin_without_a_call_is_passed_by_whatever_its_body(desk: Desk) -> None:
    desk.submit("job_x")
    desk.submit("job_x", request_hash=b"other")
    assert (audited.entries(desk.driver), desk.dead_letters()) == ([], [])


def test_another_tenants_job_shows_nothing_of_itself(desk: Desk) -> None:
    desk.submit("job_x", tenant="globex")
    desk.command(CANCEL, "job_x", call=CALL)
    desk.command(SUBMIT, "job_x", call=CALL)
    assert answers(desk) == [
        ("job.cancel", "job_x", "refused", "cancel_of_unknown"),
        ("job.submit", "job_x", "refused", "id_taken"),
    ]
    assert all((e.before, e.after) == (None, None) for e in audited.entries(desk.driver))


def test_a_schedules_input_is_a_digest_in_the_entry(desk: Desk) -> None:
    desk.command(SetSchedule("daily", SPEC, None, "", "ann"), call=CALL)
    desk.command(PauseSchedule("daily", True, "holidays", "ann"), call=CALL)
    desk.command(DeleteSchedule("daily", "ann"), call=CALL)
    desk.command(PauseSchedule("daily", False, "", "ann"), call=CALL)
    assert answers(desk) == [
        ("schedule.set", "daily", "done", None),
        ("schedule.pause", "daily", "done", None),
        ("schedule.remove", "daily", "done", None),
        ("schedule.resume", "daily", "refused", "schedule_unknown"),
    ]
    created, paused, deleted, _ = audited.entries(desk.driver)
    assert (created.before, seen(created.after)["cron"]) == (None, "0 9 * * *")
    assert (seen(paused.before)["paused"], seen(paused.after)["paused"]) == (False, True)
    assert (seen(deleted.before)["paused"], deleted.after) == (True, None)
    assert not any(b"s3cret" in (r.value or b"") for r in desk.driver.output("audit"))


def test_a_settled_effect_shows_its_states(desk: Desk) -> None:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    job_id = desk.event("t1")
    lease = desk.lease(job_id)
    worker.claim(lease)
    settle = Settle("email:send/reply", "done", None, "it was sent", "ann")
    desk.command(settle, job_id, call=CALL)
    target = f"{job_id} email:send/reply"
    assert [(e[1], e[2]) for e in answers(desk)] == [(target, "refused")]


def test_a_cancel_that_overtakes_its_job_is_answered_once(desk: Desk) -> None:
    desk.command(CANCEL, "job_x", call=CALL)
    desk.submit("job_x")
    assert desk.job("job_x").status == "cancelled"
    assert answers(desk) == [("job.cancel", "job_x", "done", None)]


def test_a_command_that_is_written_twice_is_decided_once(desk: Desk) -> None:
    desk.submit("job_x")
    for pool in ("default", "nowhere"):
        desk.command(Move(pool, "", "ann"), "job_x", call=CALL, command_id="cmd_1")
        desk.driver.restart("dispatcher")
    assert answers(desk) == [("job.move", "job_x", "done", None)]
    assert desk.dead_letters() == []


def test_a_command_about_a_job_that_has_ended_is_refused_unless_it_ended_the_job(
    desk: Desk,
) -> None:
    desk.submit("job_x")
    for command_id in ("cmd_1", "cmd_1", "cmd_2"):
        desk.command(CANCEL, "job_x", call=CALL, command_id=command_id)
        desk.driver.restart("dispatcher")
    desk.command(Move("default", "more room", "ann"), "job_x", call=CALL)
    assert answers(desk) == [
        ("job.cancel", "job_x", "done", None),
        ("job.cancel", "job_x", "refused", "job_ended"),
        ("job.move", "job_x", "refused", "job_ended"),
    ]
    assert desk.dead_letters() == []


def test_a_cancel_of_an_earlier_life_is_refused(desk: Desk) -> None:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    start = desk.driver.now
    job_id = desk.event("t1", at=start)
    worker.end(desk.lease(job_id), "succeeded")
    desk.event("t1", at=start + 8 * 86_400_000)
    desk.command(replace(CANCEL, incarnation=1), job_id, call=CALL)
    assert answers(desk) == [("job.cancel", job_id, "refused", "job_ended")]
    assert not desk.job(job_id).cancel_requested


def test_an_answered_cancel_that_waited_for_its_job_keeps_no_later_job_out(desk: Desk) -> None:
    desk.command(CANCEL, "job_x", call=CALL)
    desk.driver.advance(60)
    desk.submit("job_x")
    assert desk.job("job_x").status == "pending"
    assert answers(desk) == [("job.cancel", "job_x", "done", None)]
    assert desk.dead_letters() == []


def test_a_refused_command_that_is_written_again_stays_refused(desk: Desk) -> None:
    for _ in range(2):
        desk.command(Move("default", "", "ann"), "job_x", call=CALL, command_id="cmd_1")
        desk.submit("job_x")
    assert answers(desk) == [("job.move", "job_x", "refused", "move_of_unknown")]
    assert desk.job("job_x").asked_pool is None


def test_answered_commands_are_forgotten_in_time(desk: Desk) -> None:
    desk.submit("job_x")
    for number in range(3):
        desk.command(CANCEL, "job_x", call=CALL, command_id=f"cmd_{number}")
    desk.driver.advance(31 * 86_400)
    desk.command(CANCEL, "job_x", call=CALL, command_id="cmd_9")
    kept = list(desk.driver.store("dispatcher", "parts").range(b"z", b"{"))
    assert len(kept) == 3  # the head, and two entries of the newest command
    assert len(answers(desk)) == 4


@pytest.mark.parametrize("point", get_args(CrashPoint))
def test_a_process_that_dies_while_it_decides_leaves_one_entry_of_each_command(
    desk: Desk, point: CrashPoint
) -> None:
    desk.submit("job_x")
    desk.driver.crash("dispatcher", point)
    with desk.held_back():
        desk.command(CANCEL, "job_x", call=CALL)
        desk.command(replace(REPLAY, replay_of="job_y"), "job_z", call=CALL)
    desk.driver.crash("dispatcher", point)
    desk.command(Move("nowhere", "more room", "ann"), "job_x", call=CALL)
    assert [each[0] for each in answers(desk)] == ["job.cancel", "dead_letter.replay", "job.move"]
    assert desk.job("job_x").status == "cancelled"


def test_an_aborted_transaction_leaves_no_entry_and_the_next_one_leaves_one(desk: Desk) -> None:
    desk.submit("job_x")
    with desk.held_back():
        desk.command(CANCEL, "job_x", call=CALL)
        desk.command(CANCEL, "job_y", tenant="", call=CALL)
        desk.abort()
        assert audited.entries(desk.driver) == []
    assert len(answers(desk)) == 2


def test_the_chain_goes_on_where_the_changelog_left_it(desk: Desk) -> None:
    for number in range(3):
        desk.command(CANCEL, f"job_{number}", call=CALL)
        desk.driver.restart("dispatcher", keep_state=number % 2 == 0)
    assert [e.seq for e in audited.entries(desk.driver)] == [1, 2, 3]


def test_a_dead_letter_that_brings_a_refused_command_back_is_answered_too(desk: Desk) -> None:
    desk.driver.set_aside.add(("jobs.commands", 0, 0))
    desk.driver.restart("dispatcher")
    desk.command(replace(REPLAY, replay_of="job_y"), "job_z", call=CALL)
    [id_] = letters(desk.driver)
    assert (letters(desk.driver)[id_].reason, audited.entries(desk.driver)) == ("set_aside", [])
    desk.driver.set_aside.clear()
    desk.driver.restart("dispatcher")
    give_back(desk.driver, desk.topology, id_)
    assert letters(desk.driver)[id_].reason == "replay_of_unknown"
    assert answers(desk) == [("dead_letter.replay", "job_y", "refused", "replay_of_unknown")]


def huge(text: str = "x" * 900_000) -> list[tuple[CommandBody, str]]:
    return [
        (Cancel(text, "ann"), "job_x"),
        (replace(REPLAY, replay_of=text), "job_z"),
        (replace(REPLAY, note=text), "job_z"),
        (CANCEL, "a\0b"),
        (Move(text, text, "ann"), "job_x"),
    ]


@pytest.mark.parametrize(("body", "job_id"), huge())
def test_every_entry_fits_a_message(desk: Desk, body: CommandBody, job_id: str) -> None:
    desk.submit("job_x")
    desk.command(body, job_id, call=replace(CALL, principal="p" * 5_000), command_id="c" * 5_000)
    [record] = desk.driver.output("audit")
    assert len(record.value or b"") < 64 * 1024


def test_a_command_of_another_tenant_with_a_bad_name_is_answered(desk: Desk) -> None:
    desk.command(CANCEL, "job_x", tenant="ac\0me", call=CALL)
    assert answers(desk) == [("job.cancel", "job_x", "refused", "bad_id")]


def test_a_workers_command_has_no_entry_whatever_call_it_names(desk: Desk) -> None:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    lease = desk.lease(desk.event("t1"))
    ended = Ended(lease.run_id, "succeeded", "1", None, None, None)
    told = Command("cmd_1", "acme", lease.job_id, 1, desk.driver.now, ended, CALL)
    desk.driver.pipe("jobs.commands", b"w1", former(told))
    assert desk.job(lease.job_id).status == "succeeded"
    assert audited.entries(desk.driver) == []


def test_the_entry_is_linked_as_its_chain_says(desk: Desk) -> None:
    desk.command(CANCEL, "job_x", call=CALL)
    (entry,) = audited.entries(desk.driver)
    assert (entry.id, entry.chain, entry.previous) == ("dispatcher:0:1", "dispatcher:0", b"")
    assert entry == linked(entry, replace(_head(), chain="dispatcher:0"))


def _head() -> Any:
    from streams.audit.chain import Head

    return Head("")


SEND: dict[str, Callable[[Deliveries], Any]] = {
    "delivery.retry": lambda s: s.command("retry", delivery_id="dlv_none", call=CALL),
    "endpoint.test": lambda s: s.command("test", "none", delivery_id="dlv_1", call=CALL),
    "endpoint.recover": lambda s: s.command("recover", "none", call=CALL),
}


@pytest.mark.parametrize("verb", SEND)
def test_the_delivery_stage_refuses_in_an_entry(stage: Deliveries, verb: str) -> None:
    command = SEND[verb](stage)
    stage.driver.advance(0.2)
    (entry,) = audited.entries(stage.driver)
    assert (entry.verb, entry.outcome, entry.command_id) == (verb, "refused", command.command_id)
    assert entry.reason in ("delivery_unknown", "endpoint_unknown")
    assert (entry.chain, entry.tenant_id, entry.principal) == ("delivery:0", "acme", "token:ann")
    assert stage.driver.output("dlq") == []


def test_the_delivery_stage_answers_what_it_does(stage: Deliveries) -> None:
    stage.endpoint()
    stage.event()
    stage.driver.advance(0.1)
    row = stage.row()
    for _ in range(2):  # the second is the same command
        stage.command("retry", delivery_id=row.delivery_id, call=CALL, command_id="cmd_1")
        stage.driver.advance(0.2)
    stage.command("test", delivery_id="dlv_1", call=CALL)
    stage.command("recover", since=0, call=CALL)
    stage.driver.advance(0.2)
    assert answers(stage) == [
        ("delivery.retry", row.delivery_id, "done", None),
        ("endpoint.test", "crm", "done", None),
        ("endpoint.recover", "crm", "done", None),
    ]
    assert len(stage.sender.sent) == 3


def test_a_disabled_endpoint_is_not_recovered(stage: Deliveries) -> None:
    stage.endpoint(enabled=False)
    stage.command("recover", call=CALL)
    stage.driver.advance(0.2)
    assert answers(stage) == [("endpoint.recover", "crm", "refused", "endpoint_disabled")]


def test_a_delivery_command_that_cannot_be_kept_is_answered_or_a_dead_letter(
    stage: Deliveries,
) -> None:
    before = counted_verbs()
    stage.command("dance", call=CALL)
    stage.command("dance")
    assert answers(stage) == [("delivery.dance", "crm", "refused", "not_supported")]
    assert len(stage.driver.output("dlq")) == 1
    assert counted_verbs() - before <= {"not_supported"}


def counted_verbs() -> set[str]:
    """The verbs that the metric of decisions has as labels."""
    return {each.labels["verb"] for family in DECISIONS.collect() for each in family.samples}


@pytest.mark.parametrize("point", get_args(CrashPoint))
def test_a_delivery_stage_that_dies_leaves_one_entry_of_each_command(
    stage: Deliveries, point: CrashPoint
) -> None:
    stage.endpoint()
    for times in (1, 2):
        stage.driver.crash("delivery", point, times)
        stage.command("test", delivery_id=f"dlv_{times}", call=CALL)
        stage.command("retry", delivery_id="dlv_none", call=CALL)
        stage.driver.advance(1)
    assert [each[2] for each in answers(stage)] == ["done", "refused"] * 2


def test_an_old_delivery_command_has_no_entry(stage: Deliveries) -> None:
    for send in SEND.values():
        command = send(stage)
        stage.repeat(replace(command, call=None, command_id="cmd_old"))
    stage.driver.advance(0.2)
    assert {e.command_id for e in audited.entries(stage.driver)}.isdisjoint({"cmd_old"})


def test_every_command_of_a_person_has_a_verb() -> None:
    from streams.audit.commands import verb_of
    from streams.serde.records import COMMANDS
    from streams.serde.records.command_kinds import KIND_OF

    people = {kind.name for kind in COMMANDS if kind.sender == "operator"}
    bodies = {body for body, kind in KIND_OF.items() if kind.name in people}
    for body in bodies:
        empty: Any = object.__new__(body)
        for name in body.__slots__:  # type: ignore[attr-defined]
            object.__setattr__(empty, name, False)
        assert verb_of(Command("", "", "", 0, 0, empty)) is not None, body

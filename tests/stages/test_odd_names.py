"""What is written today is found again when it is purged, looked up or taken over."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from support.dispatching import Desk, ScriptedWorker, envelope

from streams.serde.codec import ENVELOPE
from streams.serde.records import Cancel, Claim, ClaimStep, Replay, ReplayEvent, Submit
from streams.topology.limits import Limit, Rate, Scope

DAY = 86_400
SUBMISSION = Submit("draft_reply", "{}", None, None, None, None, None, "ops", b"hash", None)
EVENT = ENVELOPE.encode(envelope("acme", "t0", "ticket.created"))
CLAIM = Claim("clm", "run", "t/k", b"d", 0, "tenant", 1)
UNHANDLED = Submit("a\0b", "{}", None, None, None, None, None, "ops", b"hash", None)


@pytest.mark.parametrize(
    ("tenant", "job_id", "body"),
    [
        ("acme", "job\0x", Cancel("not needed", None)),
        ("acme", "job\0x", SUBMISSION),
        ("a\0b", "job_x", SUBMISSION),
        ("acme", "job_x", UNHANDLED),
        ("acme", "job_x", Replay("job_y", "note", False, None, type="a\0b")),
        ("acme", "job_x", ReplayEvent("rpl_1", EVENT, "a\0b", "webhook", "note")),
        ("acme", "job_x", replace(CLAIM, action="t/a\0b")),
        ("acme", "job_x", replace(CLAIM, once_per="a\0b")),
    ],
)
def test_a_command_with_a_nul_in_a_name_is_a_dead_letter(
    tenant: str, job_id: str, body: Submit | Cancel | Replay | ReplayEvent | Claim
) -> None:
    """A month later the purge of what it left could not tell the parts of its key."""
    desk = Desk()
    desk.command(body, job_id, tenant=tenant)
    desk.command(Cancel("not needed", None), "job_x", tenant="acme")
    assert desk.refusals() == ["bad_id"]
    desk.driver.advance(31 * DAY)
    desk.driver.restart("dispatcher")
    desk.driver.advance(1)
    assert desk.job(desk.event("t1")).status == "pending"


@pytest.mark.parametrize("shared", [None, False])
@pytest.mark.parametrize(
    "body",
    [
        replace(CLAIM, action="é" * 40_000 + "/k"),
        replace(CLAIM, model="m" * 70_000),
        ClaimStep("clm", "run", "step", "m" * 70_000),
        replace(SUBMISSION, type="t" * 70_000),
    ],
)
def test_a_name_that_no_key_of_a_limit_takes_ends_no_dispatcher(
    body: Claim | ClaimStep | Submit, shared: bool | None
) -> None:
    scopes: tuple[Scope, ...] = "tool", "model", "job_type"
    limits = (Limit(each, each, concurrency=9, rate=Rate(9, 1), shared=shared) for each in scopes)
    desk = Desk(*limits)
    worker = ScriptedWorker(desk, types=("draft_reply", "t" * 70_000))
    worker.heartbeat()
    first = desk.event("t1")
    worker.stay(2)
    lease = desk.lease(first)
    if isinstance(body, Submit):
        desk.command(body, "job_x")
    else:
        desk.command(replace(body, run_id=lease.run_id), first, lease.epoch)
    assert desk.refusals() == ["bad_id"]
    second = desk.event("t2")
    worker.stay(2, lease)
    assert desk.job(second).status == "running"


def test_a_run_that_ends_full_for_a_call_of_too_long_a_name_goes_on() -> None:
    desk = Desk(Limit("gpt", "model", concurrency=1))
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    lease = desk.lease(desk.event("t1"))
    worker.end(lease, "full", result=json.dumps([None, "m" * 70_000]), error="x")
    worker.stay(1)
    assert desk.lease(lease.job_id).epoch == lease.epoch + 1


def test_an_event_with_a_nul_in_its_tenant_is_a_dead_letter() -> None:
    desk = Desk()
    desk.event("t1", tenant="a\0b")
    assert [letter.reason for letter in desk.dead_letters()] == ["bad_id"]


def test_a_backoff_that_is_no_number_is_none() -> None:
    desk = Desk()
    worker = ScriptedWorker(desk, backoff=(math.nan,))
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.end(desk.lease(job_id), "retry", error="TransientError: once more")
    assert (desk.job(job_id).status, desk.lease(job_id).attempt) == ("running", 2)

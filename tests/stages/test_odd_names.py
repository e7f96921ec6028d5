"""What is written today is found again when it is purged, looked up or taken over."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from support.dispatching import Desk, ScriptedWorker, envelope

from streams.serde.codec import ENVELOPE
from streams.serde.records import Cancel, Claim, Replay, ReplayEvent, Submit

DAY = 86_400
SUBMISSION = Submit("draft_reply", "{}", None, None, None, None, None, "ops", b"hash", None)
EVENT = ENVELOPE.encode(envelope("acme", "t0", "ticket.created"))
CLAIM = Claim("w1", 0, "clm", "run", "t/k", b"d", 0, "tenant", 1)
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
    assert [letter.reason for letter in desk.dead_letters()] == ["bad_id"]
    desk.driver.advance(31 * DAY)
    desk.driver.restart("dispatcher")
    desk.driver.advance(1)
    assert desk.job(desk.event("t1")).status == "pending"


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

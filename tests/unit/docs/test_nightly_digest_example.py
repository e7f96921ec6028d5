"""Each tenant gets one digest for each working day, after a person has approved it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.nightly_digest.app import app
from streams import TransientError
from streams.testing import Bench, Job, crash_points

TOPOLOGY = Path(__file__).parents[3] / "examples/nightly_digest/topology.yaml"
DAY = 86_400


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(app, topology=TOPOLOGY, strict=True) as bench:
        bench.fake("email:send", returns={"sent": True})
        yield bench


def asked(bench: Bench, day: str = "2026-09-21") -> Job:
    """The digest of a day, as it waits for a person."""
    job = bench.submit("digest", {"day": day}, key=f"digest {day}").run()
    assert (job.status, job.waits, bench.calls) == ("waiting", ["approval[send]"], [])
    return job


def test_each_working_day_makes_one_digest(bench: Bench) -> None:
    for _ in range(7 * 4):
        bench.advance(DAY / 4)
        for job in bench.scheduled("digest"):
            if job.status == "waiting":
                job.approve("send").run()
    days = [call.key for call in bench.calls]
    assert len(days) == len(set(days)) == 5
    assert [call.args["subject"] for call in bench.calls] == [f"What happened on {d}" for d in days]


def test_each_tenant_has_a_digest_of_its_own(bench: Bench) -> None:
    bench.deliver("ticket.created", tenant="globex")  # what brings this tenant into the bench
    bench.advance(3 * DAY)
    digests = [bench.scheduled("digest", tenant=tenant) for tenant in ("acme", "globex")]
    assert len(digests[0]) == len(digests[1]) > 0
    assert {job.record.tenant_id for job in digests[1]} == {"globex"}


def test_a_digest_has_a_line_for_each_item_and_is_sent_as_it_was_approved(bench: Bench) -> None:
    job = asked(bench)
    assert [child.record.priority for child in job.children] == ["batch"] * 3
    job.approve("send", edit={"subject": "Monday"}).run()
    (call,) = bench.calls
    assert call.args["subject"] == "Monday"
    assert call.args["text"].splitlines()[0] == "- The printer is on fire"


def test_what_nobody_approves_is_not_sent(bench: Bench) -> None:
    job = asked(bench).reject("send", note="a holiday").run()
    assert job.result == "not sent: a holiday"
    late = asked(bench, "2026-09-22")
    bench.advance(14 * 3600 + 1)
    assert late.run().result == "not sent: expired"
    assert bench.calls == []


def test_a_mail_service_that_is_down_does_not_ask_again(bench: Bench) -> None:
    bench.fake("email:send", in_turn=[TransientError("down"), {"sent": True}])
    job = asked(bench).approve("send").run()
    assert (job.result, len(bench.calls)) == ("sent", 2)


def test_the_digest_of_a_day_that_is_submitted_twice_is_sent_once(bench: Bench) -> None:
    job = asked(bench)
    assert bench.submit("digest", {"day": "2026-09-21"}, key="digest 2026-09-21") == job
    job.approve("send").run()
    assert len(bench.calls) == 1


def test_wherever_the_worker_dies_the_digest_is_sent_once() -> None:
    for crash in crash_points():
        with Bench(app, topology=TOPOLOGY, strict=True, crash=crash) as bench:
            bench.fake("email:send", returns={"sent": True})
            job = bench.submit("digest", {"day": "2026-09-21"}).run().approve("send").run()
            assert (job.result, len(bench.happened), len(job.children)) == ("sent", 1, 3)

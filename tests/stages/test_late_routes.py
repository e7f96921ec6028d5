"""No answer names a job that will not be: an event that came before its route gets its job."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import REGISTRY
from support.dispatching import ROUTES, Desk, ScriptedWorker, envelope

from streams import dedup, dispatcher
from streams.runtime.driver import TopologyTestDriver
from streams.runtime.memory_broker import CrashPoint
from streams.serde.codec import DEAD_LETTER, ENVELOPE, JOB
from streams.serde.ids import event_job_id, fingerprint, new_id
from streams.serde.keys import after
from streams.serde.records import DeadLetter, Job, Reroute
from streams.topology.load import load
from streams.topology.model import Route

TRACE = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
DAY = 86_400


@pytest.fixture
def desk() -> Desk:
    """A dispatcher that has no route yet."""
    desk = Desk()
    desk.start_with()
    return desk


def jobs(desk: Desk) -> list[Job]:
    """The newest record of each job that there is."""
    found = {r.key: r.value for r in desk.driver.output("jobs")}
    return [JOB.decode(value) for value in found.values() if value is not None]


def kept(desk: Desk) -> list[bytes]:
    store = desk.driver.store("dispatcher", "parts")
    return [key for prefix in (b"u", b"w", b"y") for key, _ in store.range(prefix, after(prefix))]


def unreachable(desk: Desk) -> list[DeadLetter]:
    return [letter for letter in desk.dead_letters() if letter.kind == "record"]


class Arrivals:
    """Dedup and dispatcher, fed as an ingress feeds them."""

    def __init__(self) -> None:
        self.topology = replace(load(), routes=())
        stages = [dedup.stage(self.topology), dispatcher.stage(self.topology)]
        self.driver = TopologyTestDriver(stages, self.topology, partitions=1)

    def deliver(self, key: str = "t1") -> tuple[str, str | None]:
        """One delivery; event id, and the job that its answer names."""
        route = self.topology.route("zendesk", "ticket.created")
        event = replace(
            envelope("acme", key, "ticket.created"),
            event_id=new_id("evt"),
            routed=route is not None,
        )
        headers = [("traceparent", TRACE.encode()), ("ce_id", event.event_id.encode())]
        value = ENVELOPE.encode(event)
        self.driver.pipe("events.received", b"acme", value, headers=headers)
        return event.event_id, event_job_id("acme", "zendesk", key) if route else None

    def restart_with(self, *routes: Route) -> None:
        """Every process anew, with these routes."""
        self.topology = replace(self.topology, routes=routes)
        stages = {"dedup": dedup.stage(self.topology)}
        stages["dispatcher"] = dispatcher.stage(self.topology)
        for name, stage in stages.items():
            self.driver.run_of(name).stage = stage
            self.driver.restart(name)
        self.driver.advance(1)

    def jobs(self) -> dict[str, list[Job]]:
        """Every record of every job."""
        found: dict[str, list[Job]] = {}
        for record in self.driver.output("jobs"):
            job = JOB.decode(record.value)
            found.setdefault(job.job_id, []).append(job)
        return found


def test_an_event_that_came_before_its_route_gets_its_job_when_it_comes_again() -> None:
    at = Arrivals()
    came_at = at.driver.now
    first_id, named = at.deliver()
    assert named is None
    at.restart_with(*ROUTES)
    assert at.jobs() == {}, "nobody was told of a job yet"
    for _ in range(5):
        _, named = at.deliver()
        at.driver.advance(DAY)
    assert list(at.jobs()) == [named]
    (job,) = at.jobs()[named or ""]
    assert job.event is not None
    assert (job.event.event_id, job.event_time, job.traceparent) == (first_id, came_at, TRACE)
    assert len(at.driver.output("events")) == 1


@pytest.mark.parametrize("point", ["before_commit", "after_commit", "after_write"])
def test_a_crash_while_the_late_job_is_made_makes_no_second_one(point: CrashPoint) -> None:
    at = Arrivals()
    at.deliver()
    at.restart_with(*ROUTES)
    at.driver.crash("dispatcher", point)
    at.deliver()
    at.deliver()
    at.driver.advance(1)
    assert [len(written) for written in at.jobs().values()] == [1]


def test_redeliveries_that_came_together_make_one_job() -> None:
    at = Arrivals()
    at.deliver()
    at.restart_with(*ROUTES)
    with at.driver.together():
        for _ in range(3):
            at.deliver()
    assert [len(written) for written in at.jobs().values()] == [1]


def test_past_the_window_it_is_a_new_event_with_one_job() -> None:
    at = Arrivals()
    at.deliver()
    at.restart_with(*ROUTES)
    at.driver.advance(at.topology.window_ms / 1000)
    at.deliver()
    at.deliver()
    ((job,),) = at.jobs().values()
    assert job.event_time == at.driver.now


def test_an_event_whose_answer_named_a_job_gets_it_as_soon_as_the_route_is_here(
    desk: Desk,
) -> None:
    job_id = desk.event("t1", routed=True)
    desk.event("t2")
    assert jobs(desk) == []
    desk.start_with(*ROUTES)
    assert [job.job_id for job in jobs(desk)] == [job_id]
    assert desk.job(job_id).status == "pending"


def test_a_route_of_another_kind_gives_nobody_a_job(desk: Desk) -> None:
    job_id = desk.event("t1", routed=True)
    desk.start_with(Route("github", "*", "draft_reply", "webhook"))
    assert jobs(desk) == []
    desk.start_with(*ROUTES)
    assert [job.job_id for job in jobs(desk)] == [job_id]


def test_a_flood_of_expected_events_is_worked_off_in_parts(desk: Desk) -> None:
    with desk.held_back():
        for number in range(450):
            desk.event(f"t{number}", routed=number % 10 != 0)
    desk.start_with(*ROUTES)
    desk.driver.restart("dispatcher")
    desk.driver.advance(1)
    assert len(jobs(desk)) == 405
    assert len(kept(desk)) == 2 * 45, "of those that nobody was told of, event and expiry"
    written = len(desk.driver.output("dispatcher.parts.changelog"))
    desk.driver.advance(5)
    assert len(desk.driver.output("dispatcher.parts.changelog")) == written


def test_a_redelivery_during_a_rollout_counts_when_the_route_comes(desk: Desk) -> None:
    """Its ingress may have had the route already, and have named the job."""
    recent, old = desk.event("t1"), desk.event("t2")
    desk.again("t2")
    desk.driver.advance(3 * 3600)
    desk.again("t1")
    desk.driver.advance(60)
    desk.start_with(*ROUTES)
    assert [job.job_id for job in jobs(desk)] == [recent]
    desk.again("t2")
    assert {job.job_id for job in jobs(desk)} == {recent, old}


def test_an_event_with_a_route_is_not_kept(desk: Desk) -> None:
    desk.start_with(*ROUTES)
    job_id = desk.event("t1")
    desk.again("t1")
    assert (kept(desk), [job.job_id for job in jobs(desk)]) == ([], [job_id])


def test_without_a_kept_event_redeliveries_look_nothing_up(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.event("t1")
    desk.driver.advance(desk.topology.window_ms / 1000 + DAY)
    desk.driver.advance(1)
    store = desk.driver.store("dispatcher", "parts")
    asked: list[bytes] = []
    get = store.get

    def looked_up(key: bytes) -> bytes | None:
        asked.append(key)
        return get(key)

    monkeypatch.setattr(store, "get", looked_up)
    with desk.held_back():
        for number in range(100):
            desk.again(f"t{number}")
    assert len(asked) <= 1


def test_a_kept_event_is_forgotten_after_the_window(desk: Desk) -> None:
    for number in range(450):
        desk.event(f"t{number}")
    assert len(kept(desk)) == 900
    desk.driver.advance(desk.topology.window_ms / 1000)
    assert len(kept(desk)) == 900, "a redelivery of the window's end may still be on its way"
    desk.driver.advance(DAY)
    desk.driver.advance(10)
    assert (kept(desk), desk.dead_letters()) == ([], [])


def test_an_event_that_came_anew_is_kept_for_its_own_window(desk: Desk) -> None:
    start = desk.driver.now
    desk.event("t1", at=start)
    desk.driver.advance(desk.topology.window_ms / 1000)
    job_id = desk.event("t1")
    desk.driver.advance(DAY + 60)
    desk.start_with(*ROUTES)
    desk.again("t1")
    assert desk.job(job_id).event_time > start
    assert kept(desk) == []


def test_an_answer_that_named_a_job_for_which_no_route_ever_came_is_a_dead_letter(
    desk: Desk,
) -> None:
    desk.event("t1", routed=True)
    desk.driver.advance(desk.topology.window_ms / 1000 + DAY)
    desk.driver.advance(1)
    (letter,) = unreachable(desk)
    assert (letter.reason, letter.topic, letter.offset) == ("no_route", "events", 0)
    assert (letter.tenant_id, letter.key) == ("acme", b"acme")
    assert ENVELOPE.decode(letter.value).dedup_key == "t1"
    assert letter.value == desk.driver.output("events")[0].value
    assert kept(desk) == []


def reroute(
    desk: Desk, key: str = "t1", job_id: str = "", tenant: str = "acme", at: int = 0
) -> None:
    body = Reroute(fingerprint(tenant, "zendesk", key), "it was ours", "ops")
    desk.command(body, job_id, at=at)


def test_a_word_of_an_earlier_window_says_nothing_of_a_new_event(desk: Desk) -> None:
    told_at = desk.driver.now
    desk.driver.advance(60)
    desk.event("t1")
    desk.start_with(*ROUTES)
    desk.again("t1", at=told_at)
    reroute(desk, at=told_at)
    assert jobs(desk) == []
    assert [letter.reason for letter in unreachable(desk)] == ["event_not_kept"]


def test_an_operator_gives_a_kept_event_its_job(desk: Desk) -> None:
    job_id = desk.event("t1")
    desk.start_with(*ROUTES)
    reroute(desk, job_id=job_id)
    assert [job.job_id for job in jobs(desk)] == [job_id]
    reroute(desk, job_id=job_id)
    assert (len(jobs(desk)), desk.dead_letters()) == (1, [])


def test_a_reroute_that_cannot_be_says_why(desk: Desk) -> None:
    desk.event("t1")
    desk.event("t1", "globex")
    reroute(desk)
    reroute(desk, "t2")
    reroute(desk, tenant="globex")
    assert [letter.reason for letter in unreachable(desk)] == [
        "no_route",
        "event_not_kept",
        "event_not_kept",
    ]
    assert jobs(desk) == []


def test_a_reroute_that_is_read_before_its_event_says_so_and_the_event_gets_its_job(
    desk: Desk,
) -> None:
    desk.start_with(*ROUTES)
    reroute(desk)
    (letter,) = unreachable(desk)
    assert "it is not read yet" in letter.detail
    job_id = desk.event("t1")
    assert [job.job_id for job in jobs(desk)] == [job_id]


def test_a_late_job_runs_as_any_other(desk: Desk) -> None:
    job_id = desk.event("t1")
    desk.start_with(*ROUTES)
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    desk.again("t1")
    worker.end(desk.lease(job_id), "succeeded")
    desk.again("t1")
    assert desk.job(job_id).status == "succeeded"
    assert len(desk.leases()) == 1


def test_a_trace_header_that_is_no_text_costs_nobody_anything(desk: Desk) -> None:
    before = REGISTRY.get_sample_value("tidegate_dispatcher_unrouted_events_total") or 0
    value = ENVELOPE.encode(envelope("acme", "t1", "ticket.created"))
    headers = [("traceparent", b"\xff\xfe")]
    desk.driver.pipe("events", b"acme", value, headers=headers)
    assert REGISTRY.get_sample_value("tidegate_dispatcher_unrouted_events_total") == before + 1
    desk.start_with(*ROUTES)
    desk.driver.pipe("events", b"acme", value, headers=headers)
    assert [DEAD_LETTER.decode(r.value) for r in desk.driver.output("dlq")] == []
    assert len(jobs(desk)) == 1

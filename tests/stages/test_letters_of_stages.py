"""What a replayed dead letter does in the dispatcher and in delivery, whatever happened since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from support.delivering import Deliveries
from support.dispatching import ROUTES, Desk, ScriptedWorker, envelope
from support.returning import give_back, letters, outcome

from streams import dedup, dispatcher, pipeline, scheduler
from streams.runtime.driver import TopologyTestDriver
from streams.runtime.stage import AnyStage, FusedStage
from streams.serde.codec import ENVELOPE, JOB, TENANT
from streams.serde.ids import event_job_id, fingerprint
from streams.serde.keys import tenant_key
from streams.serde.records import DeadLetter, TenantRecord
from streams.topology.load import load

TOPOLOGY = replace(load(), routes=ROUTES)
DAY = 86_400


def stages(fused: bool) -> Sequence[AnyStage]:
    if fused:
        return [pipeline.stage(TOPOLOGY)]
    return [
        dedup.stage(TOPOLOGY),
        scheduler.stage(TOPOLOGY),
        dispatcher.stage(TOPOLOGY),
    ]


def made(fused: bool) -> TopologyTestDriver:
    driver = TopologyTestDriver(stages(fused), TOPOLOGY, partitions=1)
    driver.advance(0.2)
    return driver


def aside(driver: TopologyTestDriver, topic: str, offset: int) -> None:
    """Have the next record of a topic die."""
    driver.set_aside.add((topic, 0, offset))


def mended(driver: TopologyTestDriver, stage: str) -> None:
    driver.set_aside.clear()
    driver.restart(stage, keep_state=True)
    driver.advance(0.2)


def deliver(driver: TopologyTestDriver, key: str) -> str:
    event = envelope("acme", key, "ticket.created")
    driver.pipe("events.received", b"acme", ENVELOPE.encode(event))
    return event_job_id("acme", "zendesk", key)


def jobs_of(driver: TopologyTestDriver) -> list[tuple[bytes | None, int]]:
    found = [(r.key, JOB.decode(r.value).incarnation) for r in driver.output("jobs")]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("relaid", [False, True], ids=["same layout", "other layout"])
@pytest.mark.parametrize("fused", [False, True], ids=["apart", "fused"])
def test_an_event_that_the_dispatcher_left_gets_its_job_and_stands_on_events_once(
    fused: bool, relaid: bool
) -> None:
    driver = made(fused)
    aside(driver, "events", 0)
    driver.restart("dispatcher", keep_state=True)
    job_id = deliver(driver, "1")
    assert jobs_of(driver) == []
    mended(driver, "dispatcher")
    if relaid:
        driver.lay_out(stages(not fused))
    for _ in range(2):  # another operator, or `--again`
        give_back(driver, TOPOLOGY, "dispatcher:events:0:0")
    assert outcome(driver, "dispatcher:events:0:0") == "taken"
    assert jobs_of(driver) == [(job_id.encode(), 1)]
    assert len(driver.output("events")) == 1


@pytest.mark.parametrize("fused", [False, True], ids=["apart", "fused"])
def test_an_event_that_dedup_left_goes_on_once_also_if_it_was_delivered_again(
    fused: bool,
) -> None:
    driver = made(fused)
    for offset in (0, 1):
        aside(driver, "events.received", offset)
    driver.restart("dedup", keep_state=True)
    jobs = [deliver(driver, "1"), deliver(driver, "2")]
    assert driver.output("events") == []
    mended(driver, "dedup")
    deliver(driver, "2")
    for offset in (0, 1):
        give_back(driver, TOPOLOGY, f"dedup:events.received:0:{offset}")
        assert outcome(driver, f"dedup:events.received:0:{offset}") == "taken"
    assert sorted(jobs_of(driver)) == sorted((each.encode(), 1) for each in jobs)
    assert len(driver.output("events")) == 2
    first = driver.output("events.received")[0]
    assert first.timestamp in {record.timestamp for record in driver.output("events")}


def test_a_submission_that_was_sent_again_and_purged_is_not_made_again() -> None:
    """The record keeps its time, so that the dispatcher knows it for an old one."""
    desk = Desk()
    aside(desk.driver, "jobs.commands", 0)
    desk.driver.restart("dispatcher", keep_state=True)
    desk.submit("job_a")
    mended(desk.driver, "dispatcher")
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    desk.submit("job_a")
    worker.end(desk.lease("job_a"), "succeeded")
    desk.driver.advance(8 * DAY)
    (id_,) = letters(desk.driver)
    give_back(desk.driver, desk.topology, id_)
    assert jobs_of(desk.driver) == [(b"job_a", 1)]
    desk.driver.advance(30 * DAY)
    assert desk.driver.output("jobs")[-1].value is None, "purged"
    give_back(desk.driver, desk.topology, id_)
    assert desk.driver.output("jobs")[-1].value is None
    assert outcome(desk.driver, id_) == "taken"


@pytest.mark.parametrize("newer", [False, True])
def test_a_duplicate_gives_its_event_the_job_once_and_changes_no_count(newer: bool) -> None:
    desk = Desk()
    desk.start_with()
    desk.event("1")
    aside(desk.driver, "duplicates", 0)
    desk.driver.restart("dispatcher", keep_state=True)
    desk.again("1")
    mended(desk.driver, "dispatcher")
    desk.start_with(*ROUTES)
    if newer:
        desk.again("1")
    before = desk.driver.output("duplicates")
    give_back(desk.driver, desk.topology, "dispatcher:duplicates:0:0")
    wanted = "superseded" if newer else "taken"
    assert outcome(desk.driver, "dispatcher:duplicates:0:0") == wanted
    assert jobs_of(desk.driver) == [(event_job_id("acme", "zendesk", "1").encode(), 1)]
    assert desk.driver.output("duplicates") == before
    assert before[0].key == fingerprint("acme", "zendesk", "1")


@pytest.mark.parametrize("newer", [False, True])
@pytest.mark.parametrize("fused", [False, True], ids=["apart", "fused"])
def test_what_was_read_since_is_known_in_the_other_layout_too(fused: bool, newer: bool) -> None:
    driver = made(fused)
    aside(driver, "tenants", 0)
    driver.restart("dispatcher", keep_state=True)
    key, gone = tenant_key("acme", "tenant", ""), TenantRecord("acme", "tenant", "", True, "{}")
    driver.pipe("tenants", key, TENANT.encode(gone))
    mended(driver, "dispatcher")
    driver.lay_out(stages(not fused))
    if newer:
        driver.pipe("tenants", key, TENANT.encode(replace(gone, disabled=False)))
        driver.lay_out(stages(fused))
    give_back(driver, TOPOLOGY, "dispatcher:tenants:0:0")
    assert outcome(driver, "dispatcher:tenants:0:0") == ("superseded" if newer else "taken")


def test_a_letter_disables_no_tenant_that_was_enabled_since() -> None:
    desk = Desk()
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    aside(desk.driver, "tenants", 0)
    desk.driver.restart("dispatcher", keep_state=True)
    desk.tenant(disabled=True)
    mended(desk.driver, "dispatcher")
    desk.tenant()
    give_back(desk.driver, desk.topology, "dispatcher:tenants:0:0")
    assert outcome(desk.driver, "dispatcher:tenants:0:0") == "superseded"
    worker.heartbeat()
    assert desk.lease(desk.event("1")).tenant_id == "acme"


def whole_letter(record_topic: str, key: bytes, value: bytes | None) -> DeadLetter:
    """A letter that keeps a setting with its secrets, as a forger may write it."""
    place = f"delivery:{record_topic}:0:0"
    return DeadLetter(
        place,
        "record",
        "",
        "undecodable",
        "",
        "delivery",
        1,
        record_topic,
        0,
        0,
        key,
        value,
        timestamp=1,
    )


@pytest.mark.parametrize("since", ["deleted", "moved", "erased"])
def test_a_letter_of_an_endpoint_brings_nothing_back(since: str) -> None:
    desk = Deliveries()
    desk.endpoint(url="https://former.example/hook")
    former = desk.driver.output("tenants")[-1]
    letter = whole_letter("tenants", former.key or b"", former.value)
    if since == "deleted":
        desk.remove()
    elif since == "moved":
        desk.endpoint(url="https://present.example/hook")
    else:
        desk.tenant(kind="erasure", disabled=True)
    settings = desk.driver.output("tenants")
    give_back(desk.driver, desk.topology, letter)
    assert outcome(desk.driver, letter.id) == "superseded"
    desk.event()
    desk.driver.advance(5)
    urls = ["https://present.example/hook"] if since == "moved" else []
    assert [attempt.url for attempt in desk.sender.sent] == urls
    assert desk.driver.output("tenants") == settings


@pytest.mark.parametrize("kind", ["endpoint", "source", "data_key", "tenant", "erasure"])
def test_a_letter_keeps_no_secret_of_a_tenant(kind: str) -> None:
    desk = Deliveries()
    aside(desk.driver, "tenants", 0)
    desk.driver.restart("delivery", keep_state=True)
    record = TenantRecord("acme", kind, "crm", False, "{}", (b"sealed",))  # type: ignore[arg-type]
    desk.driver.pipe("tenants", tenant_key("acme", kind, "crm"), TENANT.encode(record))
    (letter,) = letters(desk.driver).values()
    public = kind in ("tenant", "erasure")
    assert (letter.cut, letter.value is None) == (not public, not public)
    assert b"sealed" not in (desk.driver.output("dlq")[0].value or b"") or public


@pytest.mark.parametrize("since", ["nothing", "succeeded", "purged", "erased"])
def test_the_letter_of_a_jobs_end_tells_what_holds_now(since: str) -> None:
    desk = Deliveries()
    desk.endpoint(events=("job.*",))
    aside(desk.driver, "jobs", 0)
    desk.driver.restart("delivery", keep_state=True)
    desk.job(status="needs_review")
    mended(desk.driver, "delivery")
    if since == "succeeded":
        desk.job(status="succeeded")
    elif since == "purged":
        desk.driver.pipe("jobs", b"job_1", None)
    elif since == "erased":
        desk.tenant(kind="erasure", disabled=True)
    desk.driver.advance(1)
    jobs = desk.driver.output("jobs")
    give_back(desk.driver, desk.topology, "delivery:jobs:0:0")
    desk.driver.advance(1)
    told = [row.type for row in desk.rows()]
    assert told == {"nothing": ["job.needs_review"], "succeeded": ["job.succeeded"]}.get(since, [])
    newer = since in ("succeeded", "purged")
    assert outcome(desk.driver, "delivery:jobs:0:0") == ("superseded" if newer else "taken")
    assert desk.driver.output("jobs") == jobs, "the operator and analytics see no second record"


def test_an_event_that_delivery_left_reaches_each_endpoint_once() -> None:
    desk = Deliveries()
    desk.endpoint()
    aside(desk.driver, "events", 0)
    desk.driver.restart("delivery", keep_state=True)
    desk.event()
    mended(desk.driver, "delivery")
    assert desk.rows() == []
    for _ in range(3):
        give_back(desk.driver, desk.topology, "delivery:events:0:0")
        desk.driver.advance(1)
    assert outcome(desk.driver, "delivery:events:0:0") == "taken"
    assert len(desk.rows()) == len(desk.driver.output("events")) == 1


def test_fused_stages_take_their_letters_from_inputs_of_their_own() -> None:
    fused = pipeline.stage(TOPOLOGY)
    assert isinstance(fused, FusedStage)
    own = {part.name: part.letters for part in fused.parts}
    assert own == {
        "dedup": "events.received",
        "scheduler": "schedule",
        "dispatcher": "jobs.commands",
    }
    assert TOPOLOGY.letter_input("delivery") == "deliveries.commands"
    assert TOPOLOGY.letter_input("analytics") is None

"""Fused stages: what one forwards to another is handled in the same transaction, and only once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from support.dispatching import ROUTES, envelope

from streams import dedup, dispatcher, pipeline, scheduler
from streams.errors import ConfigError
from streams.runtime.driver import TopologyTestDriver
from streams.runtime.partition_task import PartitionTask
from streams.runtime.processor import Record
from streams.runtime.record_handler import taken_by
from streams.runtime.stage import AnyStage, FusedStage
from streams.serde.codec import COMMAND, DEAD_LETTER, ENVELOPE, JOB, SCHEDULE
from streams.serde.ids import event_job_id, new_id, submitted_job_id
from streams.serde.records import Command, Handler, Heartbeat, Submit
from streams.topology.load import load
from streams.topology.model import StageDeclaration

TOPOLOGY = replace(load(), routes=ROUTES)
WORKER = "default:w1/b1"


def stages(fused: bool) -> list[AnyStage]:
    parts = (
        dedup.stage(TOPOLOGY),
        scheduler.stage(TOPOLOGY),
        dispatcher.stage(TOPOLOGY),
    )
    return [FusedStage("pipeline", parts)] if fused else list(parts)


@pytest.fixture
def driver() -> TopologyTestDriver:
    """One partition's fused stages, which have heard all that lay in the log."""
    made = TopologyTestDriver(stages(fused=True), TOPOLOGY, partitions=1)
    made.advance(0.2)
    return made


def deliver(driver: TopologyTestDriver, key: str) -> str:
    event = envelope("acme", key, "ticket.created")
    driver.pipe("events.received", b"acme", ENVELOPE.encode(event))
    return event_job_id("acme", "zendesk", key)


def command(driver: TopologyTestDriver, body: Submit | Heartbeat, job_id: str = "") -> None:
    value = COMMAND.encode(Command(new_id("cmd"), "acme", job_id, 0, driver.now, body))
    driver.pipe("jobs.commands", b"acme", value)


def heartbeat(driver: TopologyTestDriver) -> None:
    driver.link().connect(WORKER, "default", (Handler("draft_reply", 3, (10,), 300),))
    driver.link().beat(WORKER, 1, 4, driver._clock.monotonic())


def commits(driver: TopologyTestDriver, act: Callable[[], object]) -> int:
    """How many transactions something takes."""
    transactions = driver.run_of("pipeline").commits
    counted, commit = [0], transactions.commit

    def counting(tasks: Sequence[PartitionTask], *, alone: bool = False) -> None:
        counted[0] += 1
        commit(tasks, alone=alone)

    transactions.commit = counting  # type: ignore[method-assign]
    act()
    transactions.commit = commit  # type: ignore[method-assign]
    return counted[0]


def marks(records: list[Record]) -> list[bool]:
    """Of which records the next stage said that it has taken them."""
    return [taken_by("dispatcher") in record.headers for record in records]


def test_from_a_delivery_to_a_lease_is_one_transaction(driver: TopologyTestDriver) -> None:
    heartbeat(driver)
    assert commits(driver, lambda: deliver(driver, "1")) == 1
    assert len(driver.output("link")) == 1
    assert marks(driver.output("events")) == [True]


def test_a_timer_that_is_due_reaches_the_dispatcher_in_the_step_that_fires_it(
    driver: TopologyTestDriver,
) -> None:
    job_id = submitted_job_id("acme", "later")
    body = Submit("draft_reply", "1", None, None, None, None, None, "ops", b"h", None, 5_000)
    command(driver, body, job_id)
    heartbeat(driver)
    driver.advance(4.9)
    assert JOB.decode(driver.output("jobs")[-1].value).status == "scheduled"
    assert commits(driver, lambda: driver.advance(0.15)) == 1
    assert JOB.decode(driver.output("jobs")[-1].value).status == "running"
    (timer,) = (SCHEDULE.decode(record.value) for record in driver.output("schedule"))
    (fired,) = (r for r in driver.output("jobs.commands") if r.value == timer.value)
    assert marks([fired]) == [True]


def test_what_was_taken_is_passed_by_without_a_transaction_of_its_own(
    driver: TopologyTestDriver,
) -> None:
    deliver(driver, "1")
    assert commits(driver, lambda: driver.advance(0.7)) == 0
    assert driver.run_of("pipeline").offsets["events", 0] == 0
    assert commits(driver, lambda: driver.advance(0.3)) == 1
    assert driver.run_of("pipeline").offsets["events", 0] == 1
    assert len(driver.output("jobs")) == 1


def test_a_batch_of_which_nothing_is_passed_on_is_over(driver: TopologyTestDriver) -> None:
    """A duplicate that lies a window behind the stream leaves nothing, not even its count."""
    late = driver.now - 8 * 86_400_000
    deliver(driver, "1")
    for key in ("2", "2", "3"):
        value = ENVELOPE.encode(envelope("acme", key, "ticket.created"))
        driver.pipe("events.received", b"acme", value, timestamp=late)
    assert len(driver.output("events")) == len(driver.output("jobs")) == 3
    assert not driver.output("dlq")


def test_an_event_that_is_poison_goes_by_its_topic_and_its_letter_names_its_offset(
    driver: TopologyTestDriver,
) -> None:
    whole = ENVELOPE.encode(envelope("acme", "bad", "ticket.created"))
    with driver.together():
        deliver(driver, "1")
        driver.pipe("events.received", b"acme", whole[:40])  # dedup reads no further than that
        good = deliver(driver, "2")
    (letter,) = (DEAD_LETTER.decode(record.value) for record in driver.output("dlq"))
    assert letter.id == "dispatcher:events:0:1"
    assert marks(driver.output("events")) == [False, False, False]
    assert JOB.decode(driver.output("jobs")[-1].value).job_id == good
    deliver(driver, "3")
    assert marks(driver.output("events")) == [False, False, False, True]


def test_events_that_were_promised_a_job_and_get_none_have_letters_of_their_own(
    driver: TopologyTestDriver,
) -> None:
    ids = set()
    for key in ("1", "2"):
        event = replace(envelope("acme", key, "unknown"), event_id=new_id("evt"), routed=True)
        driver.pipe("events.received", b"acme", ENVELOPE.encode(event))
        ids.add(f"dispatcher:events:0:{event.event_id}")
    driver.advance(9 * 86_400)
    letters = [DEAD_LETTER.decode(record.value) for record in driver.output("dlq")]
    assert {letter.id for letter in letters} == ids
    assert {letter.reason for letter in letters} == {"no_route"}


@pytest.mark.parametrize("fused", [False, True])
def test_the_other_layout_passes_by_what_was_taken_and_goes_on_with_the_rest(
    fused: bool,
) -> None:
    driver = TopologyTestDriver(stages(fused), TOPOLOGY, partitions=1)
    driver.advance(0.2)
    deliver(driver, "1")
    driver.lay_out(stages(not fused))
    driver.advance(0.2)
    deliver(driver, "1")
    deliver(driver, "2")
    driver.lay_out(stages(fused))
    driver.advance(2)
    assert len(driver.output("jobs")) == 2, "each event has become one job"
    assert len(driver.output("events")) == 2
    task = driver.task("dispatcher")
    assert task.positions["events"] == 2


def test_a_record_whose_output_is_refused_costs_no_other_stage_a_record(
    driver: TopologyTestDriver,
) -> None:
    """The broker refuses the job that an event becomes: dedup's record is not to blame."""
    narrow = replace(TOPOLOGY.topics["jobs"], max_message_bytes=300)
    with driver.together():
        first, second = deliver(driver, "1"), deliver(driver, "2" * 300)
    assert len(driver.output("jobs")) == 2
    driver._broker._topology = replace(TOPOLOGY, topics={**TOPOLOGY.topics, "jobs": narrow})
    deliver(driver, "3" * 300)
    assert len(driver.output("events")) == 3
    (letter,) = (DEAD_LETTER.decode(record.value) for record in driver.output("dlq"))
    assert (letter.id, letter.reason) == ("dispatcher:events:0:2", "output_refused")
    assert {first, second} == {JOB.decode(r.value).job_id for r in driver.output("jobs")}


def test_a_stage_that_cannot_be_fused_is_told() -> None:
    topology = load()
    audit = StageDeclaration("audit", ("jobs",), (), ())
    stages = {**topology.stages, "audit": audit}
    with pytest.raises(ConfigError, match="stage audit cannot be fused: name only dedup, "):
        pipeline.stage(replace(topology, stages=stages, fused=("dedup", "audit")))

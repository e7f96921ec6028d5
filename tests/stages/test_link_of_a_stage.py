"""A stage with a link: commands come in without an offset, and answers leave after the commit."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs
from support.linked_stage import Roster, fused_linked_stage, linked_stage, linked_topology

from streams.errors import StageFailed
from streams.runtime import metrics
from streams.runtime.driver import TopologyTestDriver
from streams.runtime.link import LINK
from streams.runtime.memory_broker import CrashPoint
from streams.runtime.stage import AnyStage


class Office:
    """A stage with a link in memory, whose workers the test plays."""

    def __init__(self, stage: AnyStage, roster: Roster) -> None:
        self.roster = roster
        self.driver = TopologyTestDriver([stage], linked_topology())
        self.name = stage.name

    def say(self, *verbs: bytes, worker: bytes = b"w1", partition: int = 0) -> None:
        with self.driver.together():
            for verb in verbs:
                self.driver.pipe(LINK, worker, verb, partition=partition)

    def heard(self) -> list[tuple[bytes | None, bytes | None]]:
        """What workers were told so far: who, and what."""
        return [(record.key, record.value) for record in self.driver.output(LINK)]

    def commits(self) -> list[tuple[int, int]]:
        """Counts every commit from now on: of it, how many tasks and commands."""
        found: list[tuple[int, int]] = []
        transactions = self.driver.run_of(self.name).commits
        commit = transactions.commit

        def noted(tasks, *, alone=False) -> None:  # type: ignore[no-untyped-def]
            found.append((len(tasks), sum(len(task.commands) for task in tasks)))
            commit(tasks, alone=alone)

        transactions.commit = noted  # type: ignore[method-assign]
        return found


@pytest.fixture(params=["alone", "fused"])
def office(request: pytest.FixtureRequest) -> Office:
    roster = Roster()
    make = linked_stage if request.param == "alone" else fused_linked_stage
    return Office(make(roster), roster)


def test_commands_are_answered_in_their_order_and_nothing_of_them_is_in_a_topic(
    office: Office,
) -> None:
    office.say(b"count", b"count")
    office.say(b"count", worker=b"w2", partition=1)
    assert office.heard() == [(b"w1", b"1"), (b"w1", b"2"), (b"w2", b"1")]
    assert office.driver.store("counting", "counts", 1).get(b"w2") == b"1"
    topics = {topic for topic, _ in office.driver._broker.records if office.driver.output(topic)}
    assert topics == {"counting.counts.changelog"}


def test_a_command_that_changes_nothing_is_committed_and_moves_no_position(office: Office) -> None:
    commits = office.commits()
    office.say(b"idle")
    assert commits == [(1, 1)]
    assert set(office.driver.run_of(office.name).offsets.values()) == {0}


def test_a_poisonous_command_is_undone_and_answered_and_leaves_no_letter(office: Office) -> None:
    commits = office.commits()
    office.say(b"count", b"poison", b"count")
    assert office.heard() == [(b"w1", b"1"), (b"w1", b"bad_verb"), (b"w1", b"2")]
    assert office.driver.output("dlq") == []
    assert commits == [(1, 3)]


def test_a_poisonous_command_without_an_answer_is_dropped_and_counted(office: Office) -> None:
    counter = metrics.COMMANDS_DROPPED.labels("counting")
    before = counter._value.get()
    office.say(b"rude", b"count")
    assert office.heard() == [(b"w1", b"1")]
    assert office.driver.output("dlq") == []
    assert counter._value.get() == before + 1


def test_a_command_whose_output_is_refused_is_answered_and_the_others_are_done(
    office: Office,
) -> None:
    office.say(b"count", b"huge", b"count")
    assert office.heard() == [(b"w1", b"1"), (b"w1", b"output_refused"), (b"w1", b"2")]
    assert office.driver.output("dlq") == office.driver.output("out") == []


def test_each_commit_names_the_commands_that_it_holds(office: Office) -> None:
    """While a refused output is looked for, a step has several commits."""
    commits = office.commits()
    office.say(b"count", b"huge", b"count", b"idle")
    done = [commands for tasks, commands in commits if tasks]
    assert done[0] == 4, "it is tried together first"
    assert office.driver.link()._in_flight == []


def test_commands_of_an_aborted_step_are_taken_again_in_their_order(office: Office) -> None:
    office.driver.abort(office.name, times=2)
    office.say(b"count", b"poison", b"count")
    assert office.heard() == [(b"w1", b"1"), (b"w1", b"bad_verb"), (b"w1", b"2")]


@pytest.mark.parametrize("at", ["received", "produced", "before_commit"])
def test_a_crash_before_the_commit_loses_the_command_and_hands_nothing_out(
    office: Office, at: CrashPoint
) -> None:
    office.driver.link().connect("w1", "default")
    office.driver.crash(office.name, at)
    office.say(b"count")
    assert office.heard() == []
    assert office.driver.store("counting", "counts").get(b"w1") is None
    assert office.roster.calls[-1] == ("gone", "w1")
    office.say(b"count")
    assert office.heard() == [(b"w1", b"1")]


def test_a_command_that_the_code_cannot_handle_is_undone_and_refused(office: Office) -> None:
    """Its worker would send it to each owner, and end one after the other."""
    office.say(b"count", b"crash", b"count")
    assert office.heard() == [(b"w1", b"1"), (b"w1", b"not_handled"), (b"w1", b"2")]
    assert office.driver.link()._in_flight == []


def test_commands_that_the_code_cannot_handle_fill_no_log(office: Office) -> None:
    """A worker may send thousands in a second, and each has a traceback."""
    with capture_logs() as lines:
        for _ in range(40):
            office.say(b"crash")
    told = [line for line in lines if line["log_level"] == "error"]
    assert len(told) == len([1, 2, 4, 8, 16, 32])


def test_a_failure_of_the_machine_ends_the_stage(office: Office) -> None:
    with pytest.raises(StageFailed, match="No space left"):
        office.say(b"count", b"no disk")
    assert office.heard() == []
    office.say(b"count")
    assert office.heard() == [(b"w1", b"1")]


def test_records_of_topics_and_commands_share_a_step(office: Office) -> None:
    commits = office.commits()
    with office.driver.together():
        office.driver.pipe("in", b"a", b"w9")
        office.driver.pipe(LINK, b"w1", b"count")
    assert sorted(office.heard()) == [(b"w1", b"1"), (b"w9", b"told")]
    assert commits == [(1, 1)]


def test_what_a_part_before_it_causes_is_handed_out_too() -> None:
    roster = Roster()
    office = Office(fused_linked_stage(roster), roster)
    office.driver.advance(0.2)
    office.driver.pipe("raw", b"a", b"w1")
    assert office.heard() == [(b"w1", b"told")]


def test_the_roster_is_told_who_is_connected_until_the_process_ends(office: Office) -> None:
    link = office.driver.link()
    link.connect("w1", "default", tenants=frozenset({"acme"}))
    link.connect("w2", "gpu")
    link.beat("w1", 4, 20, now=7.0, draining=True)
    link.disconnect("w2")
    office.driver.restart("counting")
    assert office.roster.calls == [
        ("connected", "w1", "default", (), frozenset({"acme"})),
        ("connected", "w2", "gpu", (), None),
        ("heard", "w1", 4, 20, True, 7.0),
        ("gone", "w2"),
        ("gone", "w1"),
    ]
    assert office.driver.link() is not link

"""What a process does about the replays that it owns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from streams.errors import KafkaUnavailable
from streams.event_reader.span import Question, Span
from streams.event_replay.desk import Desk
from streams.event_replay.known import Known
from streams.event_replay.work import Work
from streams.serde.replay_records import (
    ReplayAsked,
    ReplayBody,
    ReplayPaused,
    ReplayProgress,
    ReplayRecord,
    ReplaySpan,
    ReplayStopped,
)

ASKED = ReplayAsked("why", None, None, (), None, None, None, (), "x", "batch", 10.0, b"d")
KEPT_MS = 1_000_000
OURS = "this desk"


@dataclass
class PlayedWork:
    """A work of three steps, which can be told to fail."""

    known: Known
    left: int = 3
    fault: Exception | None = None
    moved: bool = False
    closed: bool = False
    saved: ReplayProgress | None = None
    progress: ReplayProgress = field(default_factory=lambda: at(0, "running"))

    def step(self) -> bool:
        if self.fault is not None:
            raise self.fault
        self.left, self.moved = self.left - 1, True
        self.progress = at(3 - self.left, "running" if self.left else "done")
        return self.left > 0

    def save(self, status: Any, error: str | None = None) -> ReplayProgress:
        self.saved = replace(self.progress, status=status, error=error)
        return self.saved

    def close(self) -> None:
        self.closed = True


@dataclass
class SilentWork(PlayedWork):
    """A work whose partition gives nothing: after 30 s of empty steps it fails, as a scan does."""

    steps: Iterator[int] = field(default_factory=lambda: iter(range(150)))

    def step(self) -> bool:
        if next(self.steps, None) is None:
            raise KafkaUnavailable("partitions [0] answer no longer")
        return True


def at(offset: int, status: Any) -> ReplayProgress:
    return ReplayProgress(status, (ReplaySpan(0, 0, offset, 3),))


@dataclass
class PlayedQuestion:
    """A question to the brokers that is answered when it is told to be."""

    found: dict[int, Span]
    answered: bool = True
    fault: Exception | None = None

    def spans(self) -> dict[int, Span]:
        assert self.answered, "it would wait"
        if self.fault is not None:
            raise self.fault
        return self.found


class World:
    """A desk, the works that it has opened, and what it has written."""

    def __init__(self) -> None:
        self.works: list[PlayedWork] = []
        self.written: list[ReplayProgress] = []
        self.asked: list[PlayedQuestion] = []
        self.question = PlayedQuestion({0: Span(0, 0, 3)})
        self.opened_with: list[Mapping[int, Span]] = []
        self.broker_ms = 0
        self.now = 0.0
        self.fault: Exception | None = None
        self.seconds_of_a_fault = 0.0
        self.silent = set[str]()
        self.desk = Desk(
            OURS,
            KEPT_MS,
            self._ask,
            self._open,
            self._write,
            lambda: self.broker_ms,
            lambda: self.now,
        )

    def told(self, body: ReplayBody, by: str = "operator", at: int = 1, id_: str = "r1") -> None:
        self.desk.fold(0, ReplayRecord(id_, at, by, body))

    def work(self, times: int = 1, after_seconds: float = 10) -> None:
        for _ in range(times):
            self.now += after_seconds
            self.desk.work()

    def shown(self) -> Known:
        """A replay as the API shows it."""
        return Known("r1", ASKED, progress=self.written[-1])

    def _ask(self, _: ReplayAsked) -> Question:
        self.asked.append(replace(self.question))
        return cast(Question, self.asked[-1])

    def _open(self, known: Known, now: Mapping[int, Span]) -> Work:
        if self.fault is not None:
            self.now += self.seconds_of_a_fault
            raise self.fault
        self.opened_with.append(now)
        kind = SilentWork if known.replay_id in self.silent else PlayedWork
        self.works.append(kind(known))
        if known.replay_id in self.silent:
            self._slow(self.works[-1], 0.2)
        return cast(Work, self.works[-1])

    def _slow(self, work: PlayedWork, seconds: float) -> None:
        """Let each of its steps take some time."""
        step = work.step

        def slow() -> bool:
            self.now += seconds
            return step()

        work.step = slow  # type: ignore[method-assign]

    def _write(self, _: Known, progress: ReplayProgress) -> None:
        self.written.append(progress)


@pytest.fixture
def world() -> World:
    return World()


def begun(world: World) -> PlayedWork:
    world.told(ASKED)
    world.desk.read_to_end(0)
    world.work()
    return world.works[0]


def test_nothing_is_begun_before_everything_about_the_partition_is_known(world: World) -> None:
    world.told(ASKED)
    world.work(3)
    assert world.works == []
    world.told(ReplayStopped("enough"))
    world.desk.read_to_end(0)
    world.work(3)
    assert (world.works, [each.status for each in world.written]) == ([], ["stopped"])


def test_a_replay_is_stuck_until_it_moves_though_it_can_be_begun_again(world: World) -> None:
    shown: list[float | None] = []

    def look(times: int = 1) -> None:
        for _ in range(times):
            world.work()
            shown.append(REGISTRY.get_sample_value("tidegate_operator_replays_stuck"))

    begun(world).fault = KafkaUnavailable("gone")
    look(2)
    world.works[-1].fault = KafkaUnavailable("gone")
    look(2)
    look(1)
    assert len(world.works) == 3
    assert shown == [1, 1, 1, 1, 0]


def test_a_replay_is_worked_on_to_its_end_and_never_again(world: World) -> None:
    work = begun(world)
    world.work(5)
    assert (work.left, work.closed, len(world.works), world.desk.busy) == (0, True, 1, False)


def test_a_pause_is_obeyed_saved_once_and_ended_by_a_resumption(world: World) -> None:
    work = begun(world)
    world.work()
    world.told(ReplayPaused(True))
    world.work(3)
    assert (work.saved, work.closed) == (replace(at(1, "paused")), True)
    world.told(ReplayPaused(False))
    world.work()
    assert world.works[1].known.progress == at(1, "paused")


def test_a_stop_is_final_whatever_comes_after_it(world: World) -> None:
    work = begun(world)
    world.told(ReplayStopped("enough"))
    world.told(ReplayPaused(False))
    world.work(3)
    assert (work.saved, len(world.works)) == (at(0, "stopped"), 1)


@pytest.mark.parametrize("at_work", [False, True])
def test_two_replays_that_were_asked_for_with_one_key_at_once_are_stopped(
    world: World, at_work: bool
) -> None:
    """Otherwise what one of them has read would count as read by the other."""
    if at_work:
        begun(world)
    else:
        world.told(ASKED)
    world.told(ASKED)  # the same one, which a second process took
    world.told(replace(ASKED, tenant_id="acme", digest=b"e"))
    world.desk.read_to_end(0)
    world.work(3)
    ended = world.works[0].saved if at_work else world.written[-1]
    assert ended is not None
    assert (ended.status, "one Idempotency-Key" in str(ended.error)) == ("stopped", True)
    assert len(world.works) == at_work


def test_its_own_older_progress_read_late_does_not_take_it_back(world: World) -> None:
    begun(world)
    world.work(3)
    world.told(at(1, "running"), by=OURS)
    world.work(3)
    assert len(world.works) == 1


def test_progress_that_it_wrote_before_it_gave_the_partition_back_is_where_it_goes_on(
    world: World,
) -> None:
    work = begun(world)
    world.work()
    world.desk.give_back([0])
    assert (work.saved, work.closed) == (at(1, "running"), True)
    world.told(ASKED)
    world.told(at(1, "running"), by=OURS)
    world.desk.read_to_end(0)
    world.work()
    assert world.works[1].known.progress == at(1, "running")


def test_a_late_word_of_a_former_owner_is_worked_off_again(world: World) -> None:
    begun(world)
    world.work(3)
    world.told(at(1, "running"), by="another desk")
    world.work(4)
    assert [work.closed for work in world.works] == [True, True]
    assert world.works[1].known.progress == at(1, "running")


def test_after_a_failure_it_goes_on_from_what_is_saved_and_says_why_it_stood_still(
    world: World,
) -> None:
    work = begun(world)
    work.saved, work.fault = at(2, "running"), KafkaUnavailable("no broker")
    world.work(after_seconds=0)
    assert world.written[-1] == replace(at(2, "running"), error="no broker")
    world.work(after_seconds=1)
    assert (work.closed, len(world.works)) == (True, 1)
    world.work(2)
    assert world.works[1].known.progress == replace(at(2, "running"), error="no broker")


def test_the_reason_is_written_before_the_client_is_closed(world: World) -> None:
    """A client whose broker died may never close."""
    work, order = begun(world), list[str]()
    work.fault = KafkaUnavailable("no broker")
    work.close = lambda: order.extend(str(each.error) for each in world.written)  # type: ignore[method-assign]
    world.work()
    assert "no broker" in order


def test_a_replay_that_has_ended_is_told_of_again(world: World) -> None:
    begun(world)
    world.work(3)
    world.told(at(1, "running"), by="another desk")
    world.told(ReplayStopped("enough"))
    world.work()
    assert world.written[-1].status == "stopped"


def test_a_pause_is_obeyed_although_the_resumption_before_it_failed_unsaid(world: World) -> None:
    """The topic says `running`, and the reason could not be written: `paused` must follow."""
    world.told(ASKED)
    world.told(at(1, "paused"))
    world.desk.read_to_end(0)
    world.fault = KafkaUnavailable("no broker")
    world.work()
    world.told(ReplayPaused(True))
    world.work()
    assert [each.status for each in world.written] == ["running", "running", "paused"]


def test_a_replay_that_fails_unforeseen_hinders_no_other(world: World) -> None:
    broken = begun(world)
    broken.fault = KeyError("unforeseen")
    world.told(ASKED, id_="r2")
    world.work(5)
    others = [work for work in world.works if work.known.replay_id == "r2"]
    assert [work.left for work in others] == [0]
    assert "'unforeseen'" in {progress.error for progress in world.written}


def test_a_replay_whose_jobs_may_be_forgotten_is_not_begun_again(world: World) -> None:
    world.told(ASKED, at=5)
    world.told(at(1, "running"), by="another desk")
    world.desk.read_to_end(0)
    world.broker_ms = 5 + KEPT_MS + 1
    world.work(3)
    assert world.works == []
    assert world.written[-1].status == "expired"


def test_a_record_that_a_broker_took_with_a_wrong_clock_ends_no_replay(world: World) -> None:
    """It stays on the topic, and is read again at each start."""
    world.told(at(3, "done"), id_="another", by="another desk", at=5 + 2 * KEPT_MS)
    world.told(ASKED, at=5)
    world.desk.read_to_end(0)
    world.work(3)
    assert "expired" not in [each.status for each in world.written]


def test_four_replays_run_at_once_and_the_others_wait_their_turn(world: World) -> None:
    for number in range(6):
        world.told(ASKED, id_=f"r{number}")
    world.desk.read_to_end(0)
    world.work(2)
    assert len(world.works) == 4
    world.work(8)
    assert len(world.works) == 6


def test_a_replay_that_has_failed_and_waits_for_its_turn_is_not_stuck(world: World) -> None:
    for number in range(6):
        world.told(ASKED, id_=f"r{number}")
    world.desk.read_to_end(0)
    world.fault = KafkaUnavailable("no broker")
    world.work(6)
    assert REGISTRY.get_sample_value("tidegate_operator_replays_stuck") == 6
    world.fault = None
    world.work(2)
    assert len(world.works) == 4
    assert REGISTRY.get_sample_value("tidegate_operator_replays_stuck") == 0


def ahead(world: World, others: int) -> None:
    """Others that never end, and have all places."""
    for number in range(others):
        world.told(ASKED, id_=f"other{number}")
    world.desk.read_to_end(0)
    world.work()
    for work in world.works:
        work.left = 1_000_000


@pytest.mark.parametrize("paused", [False, True])
def test_what_a_replay_has_to_read_is_fixed_while_it_waits_and_stays_so(
    world: World, paused: bool
) -> None:
    """Some of it may be purged before its turn comes, which could not be told otherwise."""
    ahead(world, 0 if paused else 4)
    world.told(ASKED)
    world.told(ReplayPaused(paused))
    world.work(3)
    assert world.written[-1] == at(0, "paused")
    assert world.shown().status == "queued"
    world.question.found = {0: Span(2, 2, 9)}
    world.told(ReplayPaused(False))
    for other in world.works:
        other.left = 1
    world.work(2)
    assert world.works[-1].known.replay_id == "r1"
    assert world.works[-1].known.progress == at(0, "paused")
    assert world.opened_with[-1] == {0: Span(2, 2, 9)}


def test_what_a_replay_has_to_read_is_asked_and_written_once(world: World) -> None:
    ahead(world, 4)
    asked, written = len(world.asked), len(world.written)
    world.told(ASKED)
    world.work(5)
    assert (len(world.asked) - asked, len(world.written) - written) == (1, 1)


def test_what_a_former_release_has_begun_without_knowing_its_offsets_is_fixed(world: World) -> None:
    world.told(ASKED)
    world.told(ReplayProgress("running", ()), by="another desk")
    world.told(ReplayPaused(True))
    world.desk.read_to_end(0)
    world.work(2)
    assert world.written == [at(0, "paused")]


def test_a_replay_that_is_to_stop_before_it_was_begun_asks_for_no_offsets(world: World) -> None:
    world.told(ASKED)
    world.told(ReplayStopped("enough"))
    world.desk.read_to_end(0)
    world.work(2)
    assert (world.asked, world.written) == ([], [ReplayProgress("stopped", ())])


def test_brokers_that_do_not_answer_keep_no_other_replay_waiting(world: World) -> None:
    """A partition without a leader is asked for 10 s, and one thread carries all replays."""
    work = begun(world)
    world.question.answered = False
    for number in range(30):
        world.told(ASKED, id_=f"silent{number}")
    world.work(3, after_seconds=1)
    assert (work.left, len(world.asked)) == (0, 32)
    assert world.desk.busy, "the answers are looked for soon"
    for question in world.asked:
        question.answered, question.fault = True, KafkaUnavailable("no leader")
    world.work(30, after_seconds=0.02)
    assert [progress.error for progress in world.written[-30:]] == ["no leader"] * 30
    assert not world.desk.busy


def test_an_answer_that_comes_when_all_places_are_taken_is_not_used_later(world: World) -> None:
    """It says where the events lay before the others had their turn."""
    ahead(world, 3)
    for id_ in ("r1", "r2"):
        world.told(at(0, "paused"), id_=id_)
        world.told(ASKED, id_=id_)
    world.question.answered = False
    world.work()
    late = world.asked[-2:]
    for question in late:
        question.answered, question.found = True, {0: Span(1, 1, 3)}
    world.work(2)
    assert [work.known.replay_id for work in world.works[3:]] == ["r1"]
    world.question = PlayedQuestion({0: Span(2, 2, 3)})
    world.works[0].left = 1
    world.work(2)
    assert world.works[-1].known.replay_id == "r2"
    assert world.opened_with[-2:] == [{0: Span(1, 1, 3)}, {0: Span(2, 2, 3)}]


def stuck(world: World, replays: int, seconds: float) -> PlayedWork:
    """Replays of which each attempt fails after so many seconds, beside one that goes on."""
    healthy = begun(world)
    healthy.left = 1_000_000
    world.fault, world.seconds_of_a_fault = KafkaUnavailable("no leader"), seconds
    for number in range(replays):
        world.told(ASKED, id_=f"stuck{number}")
    return healthy


@pytest.mark.parametrize(("paused", "status"), [(False, "queued"), (True, "paused")])
def test_a_replay_of_which_no_offsets_are_known_waits_and_tells_why(
    world: World, paused: bool, status: str
) -> None:
    world.question.fault = KafkaUnavailable("no leader")
    world.told(ASKED)
    world.told(ReplayPaused(paused))
    world.desk.read_to_end(0)
    world.work(2)
    shown = replace(world.shown(), paused=paused)
    assert (shown.status, world.written[-1].error) == (status, "no leader")
    world.question.fault = None
    world.work()
    recorded = next(each for each in world.written if each.spans)
    assert recorded == at(0, "paused")


@pytest.mark.parametrize("replays", [1, 3, 30])
def test_replays_that_are_stuck_leave_the_others_half_of_the_time(
    world: World, replays: int
) -> None:
    healthy, longest = stuck(world, replays, 10), 0.0
    world.work(replays)
    before, until = healthy.left, world.now + 1_000
    while world.now < until:
        began = world.now
        world.work(after_seconds=0.2)
        longest = max(longest, world.now - began)
    assert before - healthy.left > 1_000 / 0.2 / 2.1
    assert longest < 11, "Kafka gives the partitions to another process after five minutes"


def test_a_replay_is_tried_again_five_seconds_after_its_attempt_has_ended(world: World) -> None:
    stuck(world, 1, 3)
    world.work()
    failures = [progress.error for progress in world.written].count("no leader")
    world.work(after_seconds=4.9)
    assert [progress.error for progress in world.written].count("no leader") == failures
    world.work(after_seconds=0.1)
    assert [progress.error for progress in world.written].count("no leader") > failures


def silent(world: World, replays: int) -> None:
    """Replays whose steps give nothing until they fail."""
    for number in range(replays):
        world.silent.add(f"silent{number}")
        world.told(ASKED, id_=f"silent{number}")


@pytest.mark.parametrize("replays", [1, 6])
def test_replays_that_get_nothing_stay_stuck_while_they_wait_for_events(
    world: World, replays: int
) -> None:
    world.desk.read_to_end(0)
    silent(world, replays)
    shown = []
    while world.now < 600:
        world.work(after_seconds=0.02)
        if world.now > 200:
            shown.append(REGISTRY.get_sample_value("tidegate_operator_replays_stuck"))
    assert None not in shown
    assert 0 not in shown


def test_replays_that_get_nothing_leave_the_others_half_of_the_time(world: World) -> None:
    healthy = begun(world)
    healthy.left = 1_000_000
    world._slow(healthy, 0.02)
    silent(world, 3)
    while world.now < 200:
        world.work(after_seconds=0)
    before, until = healthy.left, world.now + 600
    while world.now < until:
        world.work(after_seconds=0)
    assert before - healthy.left > 600 / 0.02 / 2.1


def test_a_stuck_replay_waits_a_minute_at_most_after_a_machine_that_stood_still(
    world: World,
) -> None:
    stuck(world, 1, 3_600)
    world.work()
    tried, world.seconds_of_a_fault = len(world.written), 0
    world.work(after_seconds=59)
    assert len(world.written) == tried
    world.work(after_seconds=1)
    assert len(world.written) > tried


def test_a_stuck_replay_leaves_no_time_to_others_if_there_are_none(world: World) -> None:
    world.told(ASKED)
    world.desk.read_to_end(0)
    world.fault, world.seconds_of_a_fault = KafkaUnavailable("no leader"), 30
    world.work()
    tried = len(world.written)
    world.work(after_seconds=5)
    assert len(world.written) > tried


def test_each_of_many_stuck_replays_is_tried_again(world: World) -> None:
    stuck(world, 30, 10)
    world.work(60 * 20, after_seconds=1)
    tried = [progress for progress in world.written if progress.error]
    assert len(tried) >= 2 * 30


def test_the_reason_why_a_replay_stands_still_is_shown_until_it_moves(world: World) -> None:
    world.fault = KafkaUnavailable("no leader")
    world.told(ASKED)
    world.desk.read_to_end(0)
    world.work()
    told = len(world.written)
    world.work(3)
    assert {progress.error for progress in world.written[told - 1 :]} == {"no leader"}
    world.fault = None
    world.work()
    assert world.works[0].known.progress is not None
    assert (world.written[-1].error, world.works[0].known.progress.error) == ("no leader",) * 2


def test_a_partition_that_is_given_back_before_a_replay_moved_keeps_the_reason(
    world: World,
) -> None:
    work = begun(world)
    work.progress = replace(work.progress, error="no leader")
    world.desk.give_back([0])
    assert work.saved is not None
    assert work.saved.error == "no leader"


def test_a_replay_that_another_process_has_ended_is_not_stuck(world: World) -> None:
    begun(world).fault = KafkaUnavailable("gone")
    world.work()
    world.told(at(3, "done"), by="another desk")
    world.work()
    assert REGISTRY.get_sample_value("tidegate_operator_replays_stuck") == 0


@pytest.mark.parametrize(
    ("known", "status"),
    [
        (Known("r", ASKED), "queued"),
        (Known("r", ASKED, paused=True), "paused"),
        (Known("r", ASKED, progress=at(1, "running")), "running"),
        (Known("r", ASKED, progress=at(1, "running"), paused=True), "pausing"),
        (Known("r", ASKED, progress=at(1, "paused"), paused=True), "paused"),
        (Known("r", ASKED, progress=at(1, "paused")), "queued"),
        (Known("r", ASKED, progress=at(1, "running"), stopped=ReplayStopped("")), "stopping"),
        (Known("r", ASKED, progress=at(1, "stopped"), stopped=ReplayStopped("")), "stopped"),
        (Known("r", ASKED, progress=at(3, "done"), stopped=ReplayStopped("")), "done"),
    ],
)
def test_the_status_tells_what_it_is_and_what_it_has_still_to_obey(
    known: Known, status: str
) -> None:
    assert known.status == status

"""Requests over the link: answered, made again elsewhere, failed, and given up."""

from __future__ import annotations

from support.linked_worker import LinkedWorker

from streams.errors import PermanentError, TransientError
from streams.serde.link.frames import MAX_COMMAND_BYTES
from streams.serde.link.messages import Announce, Body, Done, Failed, Message, Piece, Seal
from streams.serde.records import JobTypes
from streams.worker.link.requests import RETRY_SECONDS, Question, Result

Answers = list[Result | Exception]


def body(number: int) -> Message:
    return Body(number, 0, "job_1", 1)


def ask(worker: LinkedWorker, again: bool = True, partition: int | None = 0) -> Answers:
    """Ask for a body, which is worth something for 30 seconds."""
    answers: Answers = []
    until = worker.now + 30
    late = TransientError("no owner answers")
    question = Question(body, partition, lambda: until, late, again)
    worker.link.ask(question, answers.append)
    return answers


def test_a_body_comes_in_pieces() -> None:
    worker = LinkedWorker()
    owner = worker.owner("one", 0)
    answers = ask(worker)
    (asked,) = owner.of(Body)
    owner.say(Piece(asked.request, b"some ", False))
    assert answers == []
    owner.say(Piece(asked.request, b"text", True, 5), Piece(asked.request, b"x", True, 9))
    assert answers == [b"some text"]


def test_a_request_is_made_anew_at_the_heir_and_what_came_before_is_dropped() -> None:
    worker = LinkedWorker()
    one = worker.owner("one", 0)
    answers = ask(worker)
    one.say(Piece(1, b"half", False))
    two = worker.owner("two", 0)
    one.say(Piece(1, b" of it", True, 4))
    assert answers == []
    assert len(two.of(Body)) == 1
    two.say(Piece(1, b"whole", True))
    assert answers == [b"whole"]


def test_a_request_that_no_owner_takes_fails_alone() -> None:
    """It would end the connection each time, and with it the heartbeats of all other runs."""
    worker = LinkedWorker()
    owner = worker.owner("one", 0)
    answers: Answers = []
    large = lambda number: Seal(number, 0, "job_1", 1, "approval x", "x" * MAX_COMMAND_BYTES)  # noqa: E731
    question = Question(large, 0, lambda: worker.now + 30, TransientError("late"))
    worker.link.ask(question, answers.append)
    assert [type(answer) for answer in answers] == [PermanentError]
    worker.pass_time(1)
    assert owner.of(Seal) == []


def test_a_request_waits_for_an_owner_and_outlives_a_cut() -> None:
    worker = LinkedWorker()
    answers = ask(worker)
    worker.owner("one", 0).cut()
    again = worker.owner("one", 0)
    again.say(Done(again.of(Body)[0].request))
    assert answers == [Done(1)]


def test_a_request_that_an_owner_may_have_dropped_is_made_again() -> None:
    worker = LinkedWorker()
    owner = worker.owner("one", 0)
    ask(worker)
    owner.own()
    owner.own(0)
    assert len(owner.of(Body)) == 2


def test_parts_of_a_former_answer_are_dropped() -> None:
    worker = LinkedWorker()
    owner = worker.owner("one", 0)
    answers = ask(worker)
    owner.say(Piece(1, b"some ", False))
    owner.own()
    owner.own(0)
    owner.say(Piece(1, b"text", True, 5))
    assert answers == []
    owner.say(Piece(1, b"some ", False), Piece(1, b"text", True, 5))
    assert answers == [b"some text"]


def test_failures_are_permanent_or_pass() -> None:
    worker = LinkedWorker()
    owner = worker.owner("one", 0)
    permanent, passing, again = ask(worker), ask(worker, again=False), ask(worker)
    first, second, third = (asked.request for asked in owner.of(Body))
    owner.say(Failed(first, "gone", True), Failed(second, "slow", False))
    assert isinstance(permanent[0], PermanentError)
    assert isinstance(passing[0], TransientError)
    owner.say(Failed(third, "slow", False))
    assert again == []
    worker.pass_time(RETRY_SECONDS)
    assert [asked.request for asked in owner.of(Body)] == [first, second, third, third]
    owner.say(Done(third))
    assert again == [Done(third)]


def test_a_request_is_given_up_at_its_deadline() -> None:
    worker = LinkedWorker()
    owner = worker.owner("one", 0)
    answers = ask(worker)
    worker.pass_time(30)
    assert isinstance(answers[0], TransientError)
    owner.say(Done(1))
    assert len(answers) == 1


def test_a_request_of_no_partition_goes_to_any_owner() -> None:
    worker = LinkedWorker()
    types = JobTypes("app", None, ())
    question = Question(
        lambda number: Announce(number, types), None, lambda: float("inf"), TransientError("late")
    )
    answers: Answers = []
    worker.link.ask(question, answers.append)
    one = worker.owner("one")
    assert one.of(Announce) == [Announce(1, types)]
    two = worker.owner("two")
    one.cut()
    assert two.of(Announce) == [Announce(1, types)]
    two.say(Done(1))
    assert answers == [Done(1)]

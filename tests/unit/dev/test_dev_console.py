"""The screen of `tidegate dev`: one line for what happens, and nothing else."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from structlog.dev import ConsoleRenderer
from support.former_commands import former
from support.operator_cluster import make_quarantined

from streams.dev.console.activity import Activity
from streams.dev.console.log_line import parse
from streams.dev.console.pace import Pace
from streams.dev.console.process_lines import ProcessLines
from streams.dev.console.screen import Line, Screen, wants_colour
from streams.serde.records import (
    Command,
    DeadLetter,
    EventInfo,
    Heartbeat,
    Held,
    Job,
    LedgerEntry,
    PayloadRef,
    Settle,
    Wait,
)

JOB = "job_5m617qialfa4384hq99vmogle8"
"""An id in full, as it is pasted."""
EVENT = EventInfo("evt_1", "shop", "t", None, None, 0, "text/plain", None, None, "o-1", {})


def job(status: Any, **changed: Any) -> Job:
    made = Job(
        job_id=JOB,
        tenant_id="demo",
        incarnation=1,
        type="answer",
        pool="default",
        priority="webhook",
        status=status,
        scope="s",
        attempts=1,
        max_attempts=5,
        backoff=(10,),
        timeout_seconds=60,
        epoch=1,
        run_id="run_1",
        worker_id=None,
        event=EVENT,
        payload_ref=None,
        input="{}",
        request_hash=None,
        event_time=0,
        scheduled_at=None,
        next_retry_at=None,
        last_error=None,
        result=None,
        cancel_requested=False,
        workflow_id=None,
        callback_url=None,
        replay_of=None,
        replay_note=None,
        submitted_by=None,
        traceparent=None,
        created_at=0,
        updated_at=1_000,
        ready_at=0,
    )
    return replace(made, **changed)


def text(line: Line | None) -> str:
    assert line is not None
    return line.text


def test_a_job_starts_and_ends_with_its_duration() -> None:
    activity = Activity()
    assert activity.line(job("pending")) is None, "its event has its line"
    assert text(activity.line(job("running"))) == f"started    {JOB} answer"
    assert activity.line(job("running", cancel_requested=True)) is None, "the same run"
    ended = activity.line(job("succeeded", updated_at=1_420))
    assert text(ended) == f"succeeded  {JOB} answer in 0.42 s"


def test_a_retry_says_when_and_why_and_the_next_attempt_its_number() -> None:
    activity = Activity()
    failed = job("running", history=())
    activity.line(failed)
    attempt: Any = object()
    waits = activity.line(
        job("scheduled", history=(attempt,), next_retry_at=11_000, last_error="KeyError: 'x'")
    )
    assert waits == Line("job", f"retries    {JOB} answer after 10 s: KeyError: 'x'", "warning")
    again = activity.line(job("running", epoch=2, attempts=2))
    assert text(again) == f"started    {JOB} answer, attempt 2 of 5"


def test_a_delayed_job_is_submitted_once_and_its_time_is_no_submission() -> None:
    activity, asked = Activity(), {"event": None, "epoch": 0, "created_at": 1_000}
    assert text(activity.line(job("pending", **asked))) == f"submitted  {JOB} answer"
    assert text(activity.line(job("scheduled", **asked))) == f"scheduled  {JOB} answer"
    assert activity.line(job("pending", **asked, updated_at=6_000)) is None


def test_a_job_that_is_leased_in_the_transaction_of_its_submission_is_told_as_submitted() -> None:
    activity, asked = Activity(), {"event": None, "created_at": 1_000}
    assert text(activity.line(job("running", **asked))) == f"submitted  {JOB} answer, and started"
    assert activity.line(job("running", **asked, confirmed=True)) is None
    ended = activity.line(job("succeeded", **asked, updated_at=1_420))
    assert text(ended) == f"succeeded  {JOB} answer in 0.42 s"


def test_a_replay_does_not_repeat_the_old_jobs_end() -> None:
    line = Activity().line(job("failed", last_error="E", replayed_as="job_new"))
    assert line == Line("job", f"replayed   {JOB} answer as job_new")


@pytest.mark.parametrize(
    ("status", "level"),
    [("failed", "error"), ("dead", "error"), ("needs_review", "warning"), ("cancelled", "info")],
)
def test_a_bad_end_has_its_error_on_one_line(status: str, level: str) -> None:
    ended = job(status, last_error="E: a\nb", cancel_reason="E: a\nb")
    line = Activity().line(ended)
    assert line is not None
    assert (line.level, line.text) == (level, f"{status:<10} {JOB} answer: E: a b")


def test_a_job_that_waits_for_something_outside_is_no_end() -> None:
    activity = Activity()
    activity.line(job("running"))
    assert activity.line(job("waiting", last_error="E: old")) == Line(
        "job", f"waiting    {JOB} answer"
    )


def test_a_job_that_is_parked_names_what_it_waits_for() -> None:
    approval = Wait("approval[refund]", "approval", 1, b"", group=0, approval_id="apr_1")
    listened = Wait("paid", "event", 0, b"")
    for waits, told in (
        ((listened, approval), "approval[refund]; see tidegate approvals show apr_1"),
        (
            (Wait("event", "event", 0, b"", group=0), Wait("sleep", "time", 1, b"", group=0)),
            "event, sleep",
        ),
        (tuple(Wait(f"w{n}", "time", n, b"", group=0) for n in range(4)), "w0, w1, w2, ..."),
    ):
        line = Activity().line(job("waiting", waits=waits))
        assert text(line) == f"waiting    {JOB} answer for {told}"


def test_a_state_that_only_a_newer_release_knows_has_its_line() -> None:
    assert Activity().line(job("asleep")) == Line("job", f"asleep     {JOB} answer", "warning")


def test_effects_held_jobs_and_dead_letters_have_their_lines() -> None:
    activity = Activity()
    entry = LedgerEntry(
        "demo",
        "s",
        "email:send/reply",
        "claimed",
        JOB,
        1,
        "run_1",
        "c",
        b"",
        "idk",
        0,
        1,
        0,
        0,
        None,
        None,
        settled_by=None,
        note=None,
    )
    assert activity.line(entry) is None
    done = activity.line(replace(entry, status="done"))
    assert done == Line("effect", f"done       email:send/reply of {JOB}")
    noted = replace(entry, status="done", action="@tenant/email:send/reply")
    assert activity.line(noted) is None, "a job's note of an effect that has its own line"
    held = activity.line(Held(0, "slow", "answer", None, "no_worker", 0, 2, "start one"))
    assert held == Line("job", "held       2 jobs of answer: start one", "warning")
    letter = DeadLetter(JOB, "job", "demo", "permanent_error", "", "dispatcher", 0)
    line = activity.line(letter)
    assert line == Line("dead letter", f"permanent_error; see tidegate dlq show {JOB}", "error")
    assert activity.line(replace(letter, replayed_at=1)) is None


@pytest.mark.parametrize(
    ("body", "name", "level"),
    [
        (Settle("a/1", "done", "1", "a note", None), "command", "info"),
        (
            Heartbeat(()),
            "dead letter",
            "error",
        ),
    ],
)
def test_a_refused_command_of_an_operator_is_no_alarm(body: Any, name: str, level: str) -> None:
    command = former(Command("c", "demo", JOB, 1, 0, body))
    letter = DeadLetter(
        "d:1",
        "record",
        "demo",
        "too_early",
        "settle it later",
        "dispatcher",
        0,
        topic="jobs.commands",
        value=command,
    )
    line = Activity().line(letter)
    assert line is not None
    assert (line.name, line.level, "too_early" in line.text) == (name, level, True)


def test_a_quarantined_body_is_named_by_the_command_that_shows_it() -> None:
    body = make_quarantined(b"{}", PayloadRef(0, (0,), 2, "kek"))
    line = Activity().line(body)
    assert text(line).startswith(f"quarantine {body.tenant_id}/{body.source}: {body.reason}; ")
    assert text(line).endswith(f"see tidegate quarantine show {body.event_id}")
    assert Activity().line(replace(body, released_at=1)) is None


def test_a_flood_is_counted_and_its_records_are_not_read() -> None:
    pace = Pace(lines_a_second=2)
    assert pace.summary(1.0) is None
    for _ in range(2):
        assert pace.admits("jobs")
        pace.shown()
    assert [pace.admits(topic) for topic in ("jobs", "jobs", "ledger")] == [False] * 3
    assert pace.summary(1.9) is None, "the second is not over"
    assert pace.summary(2.0) == "and 2 changes of jobs, 1 changes of effects"
    assert pace.admits("jobs")


def shown(name: str, *lines: str, started: bool = True) -> list[Line]:
    chosen = ProcessLines()
    chosen.started = started
    return [found for line in lines for found in chosen.shown(name, line)]


INFO = "2026-11-23T20:27:15.000Z [info     ] read model has caught up       seconds=0.1"
WARNING = "2026-11-23T20:27:15.000Z [warning  ] handler raised    attempt=1 run_id=r type=answer"


def test_the_stages_news_stays_in_the_files_and_warnings_come_with_their_traceback() -> None:
    lines = shown("worker-0", INFO, WARNING, "Traceback:", "KeyError: 'x'", INFO)
    assert lines == [
        Line("worker-0", "warning: handler raised attempt=1 type=answer", "warning"),
        Line("worker-0", "Traceback:", "warning"),
        Line("worker-0", "KeyError: 'x'", "warning"),
    ]


@pytest.mark.parametrize(
    "value",
    [
        "KeyError: 'custmer'",
        'a "b" c',
        "both ' and \"",
        "a=1 b='2'",
        "back\\slash \\'",
        "two\nlines",
        "'",
        "",
        "plain",
        "['a', 'b']",
        "ümlaut ß",
        "error=",
        " spaces ",
    ],
)
def test_a_value_with_quotes_spaces_or_equals_signs_stays_whole(value: str) -> None:
    log = parse(_rendered(error=value, attempt=1, type="answer", jobs=["a b", "c"]))
    assert log is not None
    assert log.fields == {
        "error": value,
        "attempt": "1",
        "type": "answer",
        "jobs": "['a b', 'c']",
    }
    (line,) = shown("worker-0", _rendered(error="KeyError: 'custmer'", job_id="job_1"))
    assert line.text == "warning: handler raised error=\"KeyError: 'custmer'\" job_id=job_1"


def _rendered(**fields: Any) -> str:
    """A line as the log of a process writes it."""
    event = {"event": "handler raised", "level": "warning", "timestamp": "2026-11-23T20:27:15.000Z"}
    rendered = ConsoleRenderer(colors=False)(None, "warning", {**event, **fields})
    return str(rendered)


def test_json_logs_are_read_alike() -> None:
    (warning,) = shown("x-0", '{"level": "error", "event": "broken", "stage": "x", "why": 1}')
    assert warning == Line("x-0", "error: broken why=1", "error")
    assert shown("x-0", '{"level": "info", "event": "fine"}') == []


def test_what_the_application_prints_and_logs_is_shown() -> None:
    of_handler = "2026-11-23T20:27:15.000Z [info     ] sent    run_id=run_1 to=ada"
    assert shown("worker-0", "hello", of_handler) == [
        Line("worker-0", "hello"),
        Line("worker-0", "sent to=ada"),
    ]


def test_duplicates_and_refusals_of_the_ingress_are_events() -> None:
    again = (
        "2026-11-23T20:27:15.000Z [debug    ] delivered again event_id=evt_1 left_out=3 "
        "source=zendesk tenant_id=demo"
    )
    refused = (
        "2026-11-23T20:27:15.000Z [debug    ] delivery refused left_out=0 reason=unauthorized "
        "source=zendesk tenant_id=demo"
    )
    assert shown("ingress-0", again, refused) == [
        Line("event", "duplicate  evt_1 demo/zendesk; 3 like it were left out"),
        Line("event", "refused    demo/zendesk: unauthorized", "warning"),
    ]
    assert shown("ingress-0", refused, started=False) == [], "dev itself asks whether it is live"


def test_a_worker_that_stops_names_what_it_still_runs() -> None:
    draining = (
        "2026-11-23T20:27:15.000Z [info     ] draining    instance=0 jobs='job_1 answer' "
        "running=1 seconds=20 stage=worker"
    )
    assert shown("worker-0", draining) == [
        Line("dev", "worker-0 waits up to 20 s for what it runs: job_1 answer")
    ]
    assert shown("dispatcher-0", draining) == []


def written(line: Line, **options: Any) -> str:
    stream = io.StringIO()
    Screen(stream, **options).show(line)
    return stream.getvalue()


def test_a_pipe_has_no_colours_and_a_quiet_screen_no_news() -> None:
    news, wrong = Line("job", "started"), Line("job", "failed", "error")
    assert written(news) == "job          | started\n"
    assert "\x1b[" in written(news, coloured=True)
    assert (written(news, quiet=True), written(wrong, quiet=True)) == (
        "",
        "job          | failed\n",
    )


def test_what_a_tenant_wrote_does_not_steer_the_terminal() -> None:
    assert "\x1b" not in written(Line("job", "failed \x1b[2J"))
    reordering = "\u202e\u2066\u200f\u061c"
    assert not {*reordering, "\u2028", "\u2029"} & {
        *written(Line("job", f"a{reordering}b\u2028c\u2029d"))
    }


def test_a_second_line_stands_under_the_same_name() -> None:
    assert written(Line("job", "failed: a\ndev          | ready")) == (
        "job          | failed: a\njob          | dev          | ready\n"
    )


def test_a_log_line_is_not_cut_where_only_some_readers_see_an_end() -> None:
    forged = '{"level": "error", "event": "broken\\u2028dev | ready"}'
    assert shown("x-0", forged) == [Line("x-0", "error: broken\u2028dev | ready", "error")]


def test_colours_are_for_terminals_that_want_them() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert wants_colour(Terminal(), {})
    assert not wants_colour(Terminal(), {"NO_COLOR": "1"})
    assert not wants_colour(io.StringIO(), {})

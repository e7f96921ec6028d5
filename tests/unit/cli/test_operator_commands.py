"""`tidegate jobs`, `dlq`, `quarantine`, `events` against an API that records what it is asked."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.operator_api import OperatorApi, invoke
from support.operator_cluster import make_job, make_quarantined

from streams.api.backlog.table import depth_json
from streams.api.dead_letters.cli import dlq
from streams.api.dead_letters.table import dead_letter_json
from streams.api.duplicates.table import duplicate_json
from streams.api.events.cli import events
from streams.api.jobs.cli import jobs
from streams.api.jobs.held_table import held_json
from streams.api.jobs.view import JobDetails, job_json
from streams.api.quarantine.cli import quarantine
from streams.api.quarantine.table import quarantined_json
from streams.api.steps.table import Step
from streams.http.moments import milliseconds
from streams.limits.backlog import Depth, Line
from streams.serde.records import Attempt, DeadLetter, Duplicate, Held, PayloadRef

JOB = job_json(
    make_job("job_a", last_error="[bold]\x1b[31mTimeoutError"),
    JobDetails(steps=(Step("draft", '"Hi"'),)),
)
LETTER = dead_letter_json(
    DeadLetter("job_a", "job", "acme", "attempts_exhausted", "slow", "dispatcher", 1)
)

KEPT = json.loads(
    json.dumps(
        quarantined_json(
            replace(make_quarantined(b"{}", PayloadRef(0, (0,), 2, "kek")), job_id="job_a")
        )
    )
)
AGAIN = duplicate_json("0b" * 16, Duplicate("acme", 3, 1, 2, "evt_job_a"))


HELD = held_json(Held(0, "default", "draft_reply", "job_a", "tenant_disabled", 1, 3, "enable it"))
DEPTH = depth_json(Depth(Line("tenant", "job_a"), 9, 9))
RECORD = dead_letter_json(
    DeadLetter("dispatcher:events:1:7", "record", "", "output_refused", "job_a", "dispatcher", 1)
) | {"sent": {"topic": "events", "partition": 1, "timestamp": None}}
SENT = {
    "dry_run": True,
    "matched": 9,
    "replayed": 0,
    "replayable": 8,
    "next_cursor": None,
    "left_out": [{"id": "dispatcher:job_a:1:7", "reason": "not-replayable", "detail": "cut"}],
}


CALLS = [
    (jobs, ["show", "job_a"], JOB, ("GET", "/v1/jobs/job_a", None)),
    (
        jobs,
        ["list", "--tenant", "acme", "--status", "dead", "--type", "t", "--limit", "5"],
        {"jobs": [JOB], "next_cursor": "abc"},
        ("GET", "/v1/jobs?tenant_id=acme&limit=5&status=dead&type=t", None),
    ),
    (
        jobs,
        ["cancel", "job_a", "--reason", "no more"],
        JOB,
        ("POST", "/v1/jobs/job_a/cancel", {"reason": "no more"}),
    ),
    (jobs, ["backlog"], {"backlog": [DEPTH]}, ("GET", "/v1/backlog", None)),
    (
        dlq,
        ["list", "--cursor", "abc"],
        {"dead_letters": [LETTER], "next_cursor": None},
        ("GET", "/v1/dlq?limit=50&cursor=abc", None),
    ),
    (dlq, ["show", "job_a"], LETTER | {"job": JOB}, ("GET", "/v1/dlq/job_a", None)),
    (
        quarantine,
        ["list", "--tenant", "acme", "--status", "waiting"],
        {"quarantine": [KEPT], "next_cursor": None},
        ("GET", "/v1/quarantine?tenant_id=acme&limit=50&status=waiting", None),
    ),
    (quarantine, ["show", "evt_a"], KEPT, ("GET", "/v1/quarantine/evt_a", None)),
    (
        quarantine,
        ["release", "evt_a", "--note", "mended"],
        KEPT,
        ("POST", "/v1/quarantine/evt_a/release", {"note": "mended"}),
    ),
    (
        events,
        ["duplicates", "--tenant", "acme"],
        {"duplicates": [AGAIN], "next_cursor": None},
        ("GET", "/v1/duplicates?tenant_id=acme&limit=50", None),
    ),
    (
        dlq,
        ["replay", "job_a", "--note", "vendor is back", "--fresh-scope"],
        JOB | {"replay_of": "job_old"},
        ("POST", "/v1/dlq/job_a/replay", {"incident_note": "vendor is back", "fresh_scope": True}),
    ),
    (
        dlq,
        [
            "replay",
            "job_a",
            "--note",
            "n",
            "--fresh-scope",
            "--again",
            "--type",
            "t2",
            "--repeat-effect",
            "email/x",
            "--repeat-effect",
            "refund/y",
        ],
        JOB,
        (
            "POST",
            "/v1/dlq/job_a/replay",
            {
                "incident_note": "n",
                "fresh_scope": True,
                "again": True,
                "type": "t2",
                "repeat_effects": ["email/x", "refund/y"],
            },
        ),
    ),
    (
        dlq,
        ["replay", "dispatcher:events:1:7", "--note", "n"],
        RECORD,
        ("POST", "/v1/dlq/dispatcher:events:1:7/replay", {"incident_note": "n"}),
    ),
    (
        dlq,
        [
            "replay",
            "--all",
            "--stage",
            "dispatcher",
            "--reason",
            "output_refused",
            "--note",
            "n",
            "--since",
            "2026-11-21T00:00:00Z",
            "--dry-run",
        ],
        SENT,
        (
            "POST",
            "/v1/dlq:replay",
            {
                "incident_note": "n",
                "stage": "dispatcher",
                "reason": "output_refused",
                "since": "2026-11-21T00:00:00Z",
                "dry_run": True,
            },
        ),
    ),
    (
        dlq,
        ["replay", "--all", "--kind", "job", "--type", "t", "--tenant", "acme", "--note", "n"],
        {**SENT, "left_out": [{"id": "job_a", "reason": "scope-in-use", "detail": "d"}]},
        (
            "POST",
            "/v1/dlq:replay",
            {
                "incident_note": "n",
                "kind": "job",
                "type": "t",
                "tenant_id": "acme",
                "dry_run": False,
            },
        ),
    ),
    (
        dlq,
        ["list", "--not-replayed", "--discarded", "--type", "t"],
        {"dead_letters": [LETTER], "next_cursor": None},
        ("GET", "/v1/dlq?type=t&not_replayed=true&discarded=true&limit=50", None),
    ),
    (
        dlq,
        ["count", "--error", "no address", "--not-replayed"],
        {
            "errors": [
                {
                    "count": 2,
                    "error": "PermanentError job_a",
                    "reason": "permanent_error",
                    "type": "t",
                    "last_at": "2026-11-21T14:00:22.123Z",
                    "first_at": "2026-11-21T14:00:22.123Z",
                }
            ],
            "more": False,
        },
        ("GET", "/v1/dlq:count?error=no+address&not_replayed=true&limit=50", None),
    ),
    (
        dlq,
        ["discard", "job_a", "--note", "no more"],
        LETTER,
        ("POST", "/v1/dlq/job_a/discard", {"note": "no more"}),
    ),
    (
        dlq,
        ["list", "--assignee", "ann"],
        {"dead_letters": [LETTER | {"assignee": "ann"}], "next_cursor": None},
        ("GET", "/v1/dlq?manual=true&assignee=ann&limit=50", None),
    ),
    (
        dlq,
        ["manual", "job_a", "--note", "refund it", "--assignee", "ann"],
        LETTER,
        ("POST", "/v1/dlq/job_a/manual", {"note": "refund it", "assignee": "ann"}),
    ),
    (
        dlq,
        ["done", "job_a", "--note", "refunded"],
        LETTER,
        ("POST", "/v1/dlq/job_a/done", {"note": "refunded"}),
    ),
    (
        dlq,
        ["replay", "job_a", "--note", "n", "--input", "{}"],
        JOB | {"replay_of": "job_a"},
        ("POST", "/v1/dlq/job_a/replay", {"incident_note": "n", "input": {}}),
    ),
    (
        jobs,
        ["move", "job_a", "--pool", "gpu", "--note", "full"],
        JOB,
        ("POST", "/v1/jobs/job_a/move", {"pool": "gpu", "note": "full"}),
    ),
    (
        jobs,
        ["move", "--all", "--type", "t", "--pool", "gpu", "--note", "full", "--tenant", "job_a"],
        {
            "dry_run": False,
            "matched": 3,
            "movable": 3,
            "moved": 3,
            "next_cursor": None,
            "left_out": [{"id": "job_a", "reason": "r", "detail": "d"}],
        },
        (
            "POST",
            "/v1/jobs:move",
            {
                "pool": "gpu",
                "note": "full",
                "type": "t",
                "tenant_id": "job_a",
                "dry_run": False,
            },
        ),
    ),
    (
        jobs,
        ["settle", "job_a", "payment:refund/r 1", "--done", '{"id": "re_1"}', "--note", "found"],
        JOB,
        (
            "POST",
            "/v1/jobs/job_a/effects/payment:refund%2Fr%201/settle",
            {"status": "done", "result": {"id": "re_1"}, "note": "found"},
        ),
    ),
    (
        jobs,
        ["settle", "job_a", "email/x", "--not-done", "--note", "found"],
        JOB,
        (
            "POST",
            "/v1/jobs/job_a/effects/email%2Fx/settle",
            {"status": "not_done", "note": "found"},
        ),
    ),
    (
        jobs,
        ["steps", "job_a", "--keep", "a", "--keep", "b#2", "--drop", "c", "--note", "why"],
        JOB,
        ("POST", "/v1/jobs/job_a/steps", {"keep": ["a", "b#2"], "drop": ["c"], "note": "why"}),
    ),
    (
        jobs,
        ["held", "--tenant", "job_a"],
        {"held": [HELD], "next_cursor": None},
        ("GET", "/v1/held?tenant_id=job_a&limit=50", None),
    ),
    (
        events,
        ["route", "--tenant", "acme", "--source", "zendesk", "--dedup-key", "t-1", "--note", "n"],
        JOB,
        (
            "POST",
            "/v1/tenants/acme/events:route",
            {"source": "zendesk", "dedup_key": "t-1", "note": "n"},
        ),
    ),
]


@pytest.mark.parametrize(("group", "arguments", "answer", "asked"), CALLS)
def test_a_command_asks_the_api_and_prints_a_table_or_its_json(
    operator: OperatorApi,
    group: Any,
    arguments: list[str],
    answer: dict[str, Any],
    asked: tuple[str, str, Any],
) -> None:
    operator.on(asked[0], asked[1].partition("?")[0], answer)
    for_people, for_programs = (
        invoke(operator, group, *arguments),
        invoke(operator, group, *arguments, "--json"),
    )
    assert (for_people.exit_code, for_programs.exit_code) == (0, 0)
    assert json.loads(for_programs.stdout) == answer
    assert "job_a" in for_people.stdout or arguments[1] in for_people.stdout
    for call in operator.asked:
        assert (call.method, call.path, call.body) == asked
        assert call.headers["Authorization"] == "Bearer a-token"


@pytest.mark.parametrize(
    ("group", "id_", "path"),
    [
        (jobs, "job_a", "/v1/jobs/job_a/payload"),
        (quarantine, "evt_a", "/v1/quarantine/evt_a/payload"),
    ],
)
def test_a_body_is_written_as_it_came(
    operator: OperatorApi, group: Any, id_: str, path: str
) -> None:
    body = b"\x00\xff no text\r\n"
    operator.on("GET", path, body)
    done = invoke(operator, group, "payload", id_)
    assert (done.exit_code, done.stdout_bytes) == (0, body)
    operator.on("GET", path, {"detail": "tenant acme was erased"}, status=410)
    gone = invoke(operator, group, "payload", id_)
    assert (gone.exit_code, gone.stdout_bytes) == (1, b"")
    assert "was erased" in gone.stderr


def test_what_a_tenant_wrote_steers_no_terminal(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/jobs/job_a", JOB)
    shown = invoke(operator, jobs, "show", "job_a").stdout
    assert "[bold]\ufffd[31mTimeoutError" in shown


def test_a_job_of_several_events_names_them_and_any_other_does_not(
    operator: OperatorApi,
) -> None:
    own = {**JOB, "event_ids": ["evt_1"], "event_count": 1}
    operator.on("GET", "/v1/jobs/job_a", own)
    assert "event_ids" not in invoke(operator, jobs, "show", "job_a").stdout
    several = {**own, "event_ids": ["evt_1", "evt_2"], "event_count": 7, "superseded_by": "job_b"}
    operator.on("GET", "/v1/jobs/job_a", several)
    shown = invoke(operator, jobs, "show", "job_a").stdout
    assert "evt_2" in shown
    assert "superseded_by" in shown


def test_a_job_shows_its_history_and_what_holds_it(operator: OperatorApi) -> None:
    run = Attempt(1, 1_700_000_000_000, "w1/b", "lost", "WorkerLost: \x1b[31mgone")
    held = Held(0, "default", "t", None, "no_worker", 1_700_000_000_000, 3, "start one that does")
    job = job_json(make_job("job_a", history=(run,), lost=1), JobDetails(held=held))
    operator.on("GET", "/v1/jobs/job_a", job)
    shown = invoke(operator, jobs, "show", "job_a").stdout
    for told in ("no_worker", "start one that does", "lost", "w1 ", "WorkerLost: \ufffd[31mgone"):
        assert told in shown


@pytest.mark.parametrize(("group", "path"), [(jobs, "/v1/jobs/job_a"), (dlq, "/v1/dlq/job_a")])
def test_a_dead_job_shows_its_input_and_where_it_failed(
    operator: OperatorApi, group: Any, path: str
) -> None:
    trace = 'Traceback (most recent call last):\n  File "app.py", line 7, in greet\n\x1b[31m'
    run = Attempt(3, 1_700_000_000_000, "w1/b", "failed", "KeyError: 'to'", trace)
    job = job_json(make_job("job_a", history=(run,)), JobDetails())
    job["input"] = {"[bold]": "x" * 9_000}
    operator.on("GET", path, LETTER | {"job": job} if group is dlq else job)
    shown = invoke(operator, group, "show", "job_a").stdout
    assert 'where attempt 3 failed\nTraceback (most recent call last):\n  File "app.py"' in shown
    assert "\ufffd[31m" in shown
    assert 'input\n{"[bold]":"xxx' in shown
    assert "more characters: --json shows all" in shown


def test_a_job_of_an_event_shows_the_command_for_its_body(operator: OperatorApi) -> None:
    job = job_json(make_job("job_a", payload_ref=PayloadRef(0, (0,), 2, "kek")), JobDetails())
    operator.on("GET", "/v1/jobs/job_a", job)
    shown = invoke(operator, jobs, "show", "job_a").stdout
    assert f"tidegate jobs payload job_a --url {operator.url}" in shown


PAGE = {
    "dry_run": False,
    "matched": 5,
    "replayed": 3,
    "replayable": 3,
    "left_out": [HELD],
    "next_cursor": "abc",
}


def test_a_bulk_replay_goes_on_to_its_end_and_sums_up(operator: OperatorApi) -> None:
    last = PAGE | {"matched": 2, "replayed": 2, "next_cursor": None}
    operator.on("POST", "/v1/dlq:replay", PAGE, last)
    done = invoke(operator, dlq, "replay", "--all", "--note", "n", "--json")
    total = json.loads(done.stdout)
    assert (total["matched"], total["replayed"], len(total["left_out"])) == (5, 5, 2)
    assert done.stderr == "replayed 3 of 5\n"
    assert operator.bodies("POST") == [
        {"incident_note": "n", "dry_run": False},
        {"incident_note": "n", "dry_run": False, "cursor": "abc"},
    ]


@pytest.mark.parametrize(
    ("group", "arguments", "told"),
    [
        (dlq, ["replay"], "name one ID, or --all"),
        (dlq, ["replay", "job_a", "--all"], "name one ID, or --all"),
        (dlq, ["replay", "job_a", "--stage", "dedup"], "--stage goes with --all"),
        (dlq, ["replay", "job_a", "--dry-run"], "--dry-run goes with --all"),
        (dlq, ["replay", "--all", "--fresh-scope"], "--fresh-scope goes with one ID"),
        (dlq, ["replay", "--all", "--again"], "--again goes with one ID"),
        (dlq, ["replay", "--all", "--repeat-effect", "x"], "--repeat-effect goes with one ID"),
        (jobs, ["move", "--pool", "p"], "name one JOB_ID, or --all with --type"),
        (jobs, ["move", "--all", "--pool", "p"], "name one JOB_ID, or --all with --type"),
        (jobs, ["move", "j", "--dry-run", "--pool", "p"], "go with --all"),
        (jobs, ["settle", "j", "a"], "--done RESULT or --not-done"),
        (jobs, ["settle", "j", "a", "--done", "re_1"], "is not JSON"),
        (jobs, ["settle", "j", "a", "--done", str(2**64)], "cannot be kept as it is"),
    ],
)
def test_flags_that_do_not_go_together_ask_nothing(
    operator: OperatorApi, group: Any, arguments: list[str], told: str
) -> None:
    refused = invoke(operator, group, *arguments, "--note", "n")
    assert (refused.exit_code, operator.asked) == (2, [])
    assert told in " ".join(refused.stderr.replace("│", " ").split())


def test_a_replay_can_carry_a_key_and_an_id_stays_one_part_of_the_path(
    operator: OperatorApi,
) -> None:
    invoke(operator, dlq, "replay", "a/../b?c", "--note", "n", "--key", "once")
    (call,) = operator.asked
    assert call.path == "/v1/dlq/a%2F..%2Fb%3Fc/replay"
    assert call.headers["Idempotency-Key"] == "once"


def test_an_event_of_the_list_is_routed_by_its_id(operator: OperatorApi) -> None:
    event = {"tenant_id": "acme", "source": "shop", "dedup_key": "k 1"}
    operator.on("GET", "/v1/events/evt_1", event)
    operator.on("POST", "/v1/tenants/acme/events:route", JOB)
    assert invoke(operator, events, "route", "evt_1", "--note", "n").exit_code == 0
    assert [each.method for each in operator.asked] == ["GET", "POST"]
    assert operator.bodies("POST") == [{"source": "shop", "dedup_key": "k 1", "note": "n"}]


@pytest.mark.parametrize(
    "named", [(), ("evt_1", "--tenant", "acme"), ("--tenant", "acme", "--source", "shop")]
)
def test_an_event_to_route_is_named_in_one_way(
    operator: OperatorApi, named: tuple[str, ...]
) -> None:
    refused = invoke(operator, events, "route", *named, "--note", "n")
    assert (refused.exit_code, operator.asked) == (2, [])


@pytest.mark.parametrize(
    "arguments",
    [("cancel", "job_a"), ("move", "job_a", "--pool", "gpu", "--note", "n")],
)
def test_a_command_that_nothing_carried_out_in_time_says_so_and_exits_1(
    operator: OperatorApi, arguments: tuple[str, ...]
) -> None:
    path = f"/v1/jobs/job_a/{arguments[0]}"
    operator.on("POST", path, (202, {**JOB, "answered": False}), (202, {**JOB, "answered": True}))
    told = invoke(operator, jobs, *arguments)
    assert told.exit_code == 1
    assert "the command is written, but no dispatcher carried it out within 5 s" in told.stderr
    assert "tidegate jobs show job_a" in told.stderr
    assert "job_a" in told.stdout, "the job is shown all the same"
    done = invoke(operator, jobs, *arguments)
    assert (done.exit_code, done.stderr) == (0, "")


REVIEWED = [{"action": "a/1", "settle_after": None}, {"action": "a/2", "settle_after": "2026"}]


@pytest.mark.parametrize(
    ("words", "changed", "said"),
    [
        (
            ("cancel", "job_a"),
            {"status": "cancelled", "cancel_reason": "asked\n\x1b[31mtwice"},
            "is cancelled: asked \ufffd[31mtwice",
        ),
        (
            ("cancel", "job_a"),
            {"status": "running", "cancel_requested": True, "cancel_reason": "no more"},
            "is running until its handler stops: no more",
        ),
        (("cancel", "job_a"), {"status": "running"}, "is still running"),
        (
            ("settle", "job_a", "a/1", "--not-done", "--note", "n"),
            {"status": "pending"},
            "has the answer, and is pending",
        ),
        (
            ("settle", "job_a", "a/1", "--done", "1", "--note", "n"),
            {"status": "needs_review", "effects": REVIEWED},
            "has the answer, and is needs_review; settle these, too: a/2",
        ),
        (("steps", "job_a", "--note", "n"), {}, "has the decision, and is pending"),
        (
            ("steps", "job_a", "--drop", "draft", "--note", "n"),
            {"status": "needs_review", "diverged": "draft"},
            "has the decision, and is needs_review; it waits for draft",
        ),
        (
            ("move", "job_a", "--pool", "gpu", "--note", "n"),
            {"pool": "gpu"},
            "is pending in pool gpu",
        ),
        (
            ("move", "job_a", "--pool", "gpu", "--note", "n"),
            {"status": "running", "asked_pool": "gpu"},
            "still runs in pool default; next it waits in gpu",
        ),
    ],
)
def test_a_command_that_changes_a_job_says_one_sentence(
    operator: OperatorApi, words: tuple[str, ...], changed: dict[str, Any], said: str
) -> None:
    action = "effects/a%2F1/settle" if words[0] == "settle" else words[0]
    operator.on("POST", f"/v1/jobs/job_a/{action}", JOB | changed)
    done = invoke(operator, jobs, *words)
    assert (done.exit_code, done.stdout) == (0, f"job_a (draft_reply) {said}\n")


def test_a_step_that_was_asked_again_with_other_arguments_is_told(operator: OperatorApi) -> None:
    steps = (
        Step("draft", '"Hi"', changed_args=True),
        Step("event", "null", error="WaitTimeout: x"),
    )
    operator.on("GET", "/v1/jobs/job_a", job_json(make_job("job_a"), JobDetails(steps=steps)))
    shown = invoke(operator, jobs, "show", "job_a").stdout
    assert re.search(r"event +WaitTimeout: x", shown)
    assert "asked again with other arguments, and kept: draft\n" in shown


def test_a_routed_events_job_is_named_with_the_command_that_follows_it(
    operator: OperatorApi,
) -> None:
    operator.on("POST", "/v1/tenants/acme/events:route", JOB)
    keys = ("--tenant", "acme", "--source", "zendesk", "--dedup-key", "t-1", "--note", "n")
    done = invoke(operator, events, "route", *keys)
    assert done.stdout == "job_a (draft_reply) is the event's job, and is pending\n"
    assert done.stderr == f"follow it with: tidegate jobs watch job_a --url {operator.url}\n"


@pytest.mark.parametrize(
    ("words", "path", "answer", "said"),
    [
        (
            ("replay", "job_a"),
            "job_a/replay",
            JOB | {"job_id": "job_b", "replay_of": "job_a"},
            "job_a runs again as job_b (draft_reply)\n",
        ),
        (
            ("replay", RECORD["id"]),
            f"{RECORD['id']}/replay",
            RECORD,
            "dispatcher:events:1:7 is sent back to its stage by events, partition 1\n",
        ),
        (
            ("discard", "job_a"),
            "job_a/discard",
            LETTER | {"discard_note": "no\nmore"},
            "job_a is discarded: no more\n",
        ),
        (
            ("manual", "job_a"),
            "job_a/manual",
            LETTER | {"assignee": "ann", "manual_note": "refund\nit"},
            "job_a is manual work of ann: refund it\n",
        ),
        (
            ("done", "job_a"),
            "job_a/done",
            LETTER | {"done_note": "refunded"},
            "job_a is done by hand: refunded\n",
        ),
    ],
)
def test_a_command_that_changes_a_dead_letter_says_one_sentence(
    operator: OperatorApi, words: tuple[str, ...], path: str, answer: Any, said: str
) -> None:
    operator.on("POST", f"/v1/dlq/{path}", answer)
    done = invoke(operator, dlq, *words, "--note", "n")
    assert (done.exit_code, done.stdout) == (0, said)
    followed = f"follow it with: tidegate jobs watch job_b --url {operator.url}\n"
    assert done.stderr == (followed if "runs again" in said else "")


def test_a_released_body_is_said_to_be_an_event(operator: OperatorApi) -> None:
    operator.on("POST", "/v1/quarantine/evt_a/release", KEPT | {"status": "released"})
    done = invoke(operator, quarantine, "release", "evt_a", "--note", "n")
    said = f"{KEPT['event_id']} is an event of source shop now, and its job is job_a\n"
    assert (done.exit_code, done.stdout) == (0, said)


def test_a_waiting_job_shows_the_caps_that_keep_it(operator: OperatorApi) -> None:
    cap = {"limit": "per_tenant", "scope": "tenant", "value": "acme", "in_use": 5, "concurrency": 5}
    waits = {"reason": "cap", "since": None, "detail": "it starts after one ends", "caps": [cap]}
    operator.on("GET", "/v1/jobs/job_a", {**JOB, "why": waits})
    shown = invoke(operator, jobs, "show", "job_a").stdout
    for told in ("why it waits", "cap", "it starts after one ends", "per_tenant", "acme", "in use"):
        assert told in shown


def test_a_waiting_job_shows_the_command_that_helps(operator: OperatorApi) -> None:
    body = {"scope": "job_type", "value": "refund"}
    helps = {"method": "POST", "path": "/v1/limits/resume", "body": body}
    waits: dict[str, Any] = {"reason": "paused", "since": None, "detail": "by ann", "caps": []}
    waits["remedy"] = helps
    operator.on("GET", "/v1/jobs/job_a", {**JOB, "why": waits})
    shown = " ".join(invoke(operator, jobs, "show", "job_a").stdout.split())
    assert f"command tidegate limits resume job_type refund --url {operator.url}" in shown
    assert "/v1/limits/resume" not in shown


def told(job: dict[str, Any]) -> bytes:
    """A job's stream of events that tells how it is."""
    return f"id: 1\nevent: status\ndata: {json.dumps(job)}\n\n".encode()


@pytest.mark.parametrize(("status", "code"), [("succeeded", 0), ("dead", 3), ("needs_review", 4)])
def test_a_watched_replay_ends_with_the_exit_code_of_its_new_job(
    operator: OperatorApi, status: str, code: int
) -> None:
    operator.on("POST", "/v1/dlq/job_old/replay", JOB)
    operator.on("GET", "/v1/jobs/job_a/events", told(JOB | {"status": status}))
    done = invoke(operator, dlq, "replay", "job_old", "--note", "n", "--watch")
    assert done.exit_code == code
    assert f" job_a {status}" in done.stdout


def test_a_settled_job_is_watched_to_its_end(operator: OperatorApi) -> None:
    operator.on("POST", "/v1/jobs/job_a/effects/pay/settle", JOB)
    operator.on("GET", "/v1/jobs/job_a/events", told(JOB | {"status": "succeeded"}))
    done = invoke(operator, jobs, "settle", "job_a", "pay", "--not-done", "--note", "n", "--watch")
    assert done.exit_code == 0
    assert " job_a succeeded" in done.stdout


def test_a_watched_replay_of_a_record_has_no_job_to_watch(operator: OperatorApi) -> None:
    operator.on("POST", "/v1/dlq/dispatcher:events:1:7/replay", RECORD)
    done = invoke(operator, dlq, "replay", "dispatcher:events:1:7", "--note", "n", "--watch")
    assert (done.exit_code, len(operator.asked)) == (0, 1)


def test_a_time_may_be_told_by_its_distance(operator: OperatorApi) -> None:
    operator.on("POST", "/v1/dlq:replay", SENT)
    before = datetime.now(UTC)
    done = invoke(
        operator, dlq, "replay", "--all", "--note", "n", "--since", "2h", "--until", "30m"
    )
    assert done.exit_code == 0
    (asked,) = operator.bodies("POST")
    since, until = (datetime.fromisoformat(asked[name]) for name in ("since", "until"))
    assert timedelta(0) <= since - before + timedelta(hours=2) < timedelta(seconds=30)
    assert until - since == pytest.approx(timedelta(minutes=90), abs=timedelta(seconds=1))
    assert milliseconds(asked["since"]) > 0, "the API takes it"


def test_a_text_that_is_no_time_is_refused_with_both_forms(operator: OperatorApi) -> None:
    done = invoke(operator, dlq, "replay", "--all", "--note", "n", "--since", "yesterday")
    assert (done.exit_code, operator.asked) == (2, [])
    told = " ".join(re.sub(r"[^!-~]", " ", done.stderr).split())
    assert "RFC 3339" in told
    assert "20m, 2h or 7d" in told


def test_a_replay_of_all_is_told_in_a_sentence_and_lists_only_what_it_left_out(
    operator: OperatorApi,
) -> None:
    whole = {**SENT, "replayed": 9, "replayable": 9, "left_out": []}
    done = {**SENT, "dry_run": False}
    answers = ({**done, "replayed": 8}, {**whole, "dry_run": False}, SENT)
    operator.on("POST", "/v1/dlq:replay", *answers)
    told = [invoke(operator, dlq, "replay", "--all", "--note", "n").stdout for _ in range(3)]
    assert told[0].splitlines()[:2] == [
        "8 of 9 dead letters that match are replayed",
        "1 left out:",
    ]
    assert "not-replayable" in told[0]
    assert told[1] == "9 of 9 dead letters that match are replayed\n"
    assert told[2].startswith("8 of 9 dead letters that match would be replayed\n")


EDIT = {
    "job_id": "job_a",
    "tenant_id": "acme",
    "type": "draft_reply",
    "before": {"a": 1, "b": 2},
    "after": {"a": 1, "b": "\x1b[31m3"},
    "changed": True,
    "has_schema": True,
    "fits": False,
    "errors": [{"field": "input.b", "message": "must be a number"}],
}


def test_a_preview_shows_what_changes_and_what_does_not_fit(operator: OperatorApi) -> None:
    operator.on("POST", "/v1/dlq/job_a/preview", EDIT)
    ran = invoke(operator, dlq, "preview", "job_a", "--input", '{"a": 1, "b": 3}')
    assert ran.exit_code == 3
    assert operator.asked[-1].body == {"input": {"a": 1, "b": 3}}
    lines = ran.stdout.splitlines()
    assert ['-  "b": 2' in lines, "input.b: must be a number" in lines] == [True, True]
    assert "\x1b" not in ran.stdout

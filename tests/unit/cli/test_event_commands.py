"""`tidegate events list | show | payload` and `jobs review`, against an API that answers so."""

from __future__ import annotations

import json
import re
import shlex
import time
from typing import Any

import pytest
from support.operator_api import OperatorApi, invoke, problem
from support.operator_cluster import event_job, make_entry, make_event
from typer.testing import Result

from streams.api.dead_letters.cli import dlq
from streams.api.dead_letters.table import dead_letter_json
from streams.api.effects.table import effect_json
from streams.api.events.cli import events
from streams.api.events.table import event_details, event_json
from streams.api.jobs.cli import jobs
from streams.api.jobs.view import JobDetails, job_json
from streams.serde.ids import event_replay_id
from streams.serde.records import DeadLetter

EVENT = make_event("order 7's", subject="order 7")
OWNER = event_job(EVENT, status="needs_review", last_error="effect refund/r 1 is unknown")
UNKNOWN = make_entry(OWNER, "refund/r 1", status="review", result=None, error=None)
EFFECTS = (UNKNOWN, make_entry(OWNER, "email/done"))
JOB = job_json(OWNER, JobDetails(effects=EFFECTS, settle_after={UNKNOWN.action: 1}))
LOST = {
    "tenant_id": "acme",
    "type": "t",
    "job_status": "cancelled",
    **effect_json(UNKNOWN, 1),
    "job_id": "job_lost",
}
REPLAY = {
    "job_id": "job_again",
    "replay_of": OWNER.job_id,
    "type": "t",
    "status": "succeeded",
    "created_at": "2026-11-23T20:00:00.000Z",
    "note": "the mapping is mended",
    "submitted_by": "operator",
}
OF_ITS_RECORD = dead_letter_json(
    DeadLetter("dispatcher:events:1:7", "record", "", "output_refused", "large", "d", 1)
)
STORY: dict[str, Any] = {
    **event_json(EVENT, None),
    **event_details(EVENT),
    "partition": 1,
    "offset": 7,
    "duplicates": {"count": 3, "last_at": "2026-11-23T20:00:00.000Z", "last_event_id": "evt_9"},
    "job": None,
    "replays": [],
    "dead_letters": [],
    "quarantine": None,
    "deliveries": [],
}


def run(operator: OperatorApi, group: Any, *arguments: str) -> Result:
    done = invoke(operator, group, *arguments)
    assert done.exit_code == 0, done.output
    return done


def paths(operator: OperatorApi) -> list[str]:
    return [each.path for each in operator.asked]


def test_events_are_listed_by_their_subject_and_dedup_key(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/events", {"events": [], "next_cursor": None})
    run(operator, events, "list", "--subject", "ticket 1", "--key", "t-1")
    assert operator.asked[-1].path == "/v1/events?limit=50&subject=ticket+1&dedup_key=t-1"


def test_events_are_listed_by_what_is_asked_for(operator: OperatorApi) -> None:
    page = {"events": [event_json(EVENT, None)], "next_cursor": "abc"}
    operator.on("GET", "/v1/events", page)
    asked = ["list", "--tenant", "acme", "--source", "shop", "--type", "order.*", "--unrouted"]
    text = run(operator, events, *asked).stdout
    assert paths(operator) == [
        "/v1/events?tenant_id=acme&limit=50&source=shop&event_type=order.*&unrouted=true"
    ]
    assert all(part in text for part in ("evt_order 7's", "order.paid", "more: --cursor abc"))
    assert json.loads(run(operator, events, *asked, "--json").stdout) == page
    run(operator, events, "list", "--limit", "5")
    assert paths(operator)[-1] == "/v1/events?limit=5"


def test_an_event_without_a_job_comes_with_the_command_that_gives_it_one(
    operator: OperatorApi,
) -> None:
    operator.on("GET", "/v1/events/evt_1", STORY | {"routed": False})
    lines = run(operator, events, "show", "evt_1").stdout.splitlines()
    assert any("no route matched it" in line for line in lines)
    (command,) = (line for line in lines if line.startswith("tidegate "))
    assert shlex.split(command) == [
        "tidegate",
        "events",
        "route",
        "evt_1",
        "--note",
        "a route matches it now",
        "--url",
        operator.url,
    ]
    assert any("evt_9" in line for line in lines)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"routed": False, "replays": [REPLAY]}, ("no route matched it", "job_again")),
        ({"dead_letters": [OF_ITS_RECORD]}, ("it became a dead letter", "output_refused")),
        (
            {},
            (
                "has not come to it yet",
                "or the job was purged",
            ),
        ),
    ],
)
def test_an_event_without_a_job_shows_why_and_what_became_of_it(
    operator: OperatorApi, changed: Any, says: tuple[str, ...]
) -> None:
    operator.on("GET", "/v1/events/evt_1", STORY | changed)
    shown = run(operator, events, "show", "evt_1").stdout
    assert [each for each in says if each not in shown] == []


def test_an_event_whose_route_only_cancels_needs_no_route(operator: OperatorApi) -> None:
    route = {"job": None, "cancels": {"job": "follow_up", "by": "subject"}}
    operator.on("GET", "/v1/events/evt_1", STORY | {"route": route})
    shown = run(operator, events, "show", "evt_1").stdout
    assert "cancels earlier jobs of type follow_up by subject" in shown
    assert "events route" not in shown
    story = json.loads(run(operator, events, "show", "evt_1", "--json").stdout)
    assert "route_command" not in story


def test_an_event_that_jobs_wait_for_needs_no_route(operator: OperatorApi) -> None:
    awaited = {"route": None, "routed": False, "awaited_by": ["follow_up"]}
    operator.on("GET", "/v1/events/evt_1", STORY | awaited)
    shown = run(operator, events, "show", "evt_1").stdout
    assert "jobs of type follow_up that wait for such an event" in shown
    assert "events route" not in shown


def test_an_event_shows_its_job_its_replays_and_dead_letters(operator: OperatorApi) -> None:
    letter = dead_letter_json(
        DeadLetter("dispatcher:events:1:7", "record", "", "output_refused", "large", "d", 1)
    )
    story = STORY | {"job_id": OWNER.job_id, "job": JOB, "replays": [REPLAY]}
    operator.on("GET", "/v1/events/evt_1", story | {"dead_letters": [letter]})
    text = run(operator, events, "show", "evt_1").stdout
    wanted = (
        OWNER.job_id,
        "refund/r 1",
        "email/done",
        "job_again",
        "the mapping is mended",
        "output_refused",
    )
    assert [each for each in wanted if each not in text] == []
    assert "events route" not in text


def test_an_event_names_the_commands_that_deliver_it_again(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/events/evt_1", STORY)
    *_, body, send = run(operator, events, "show", "evt_1").stdout.splitlines()
    assert shlex.split(body) == [
        "tidegate",
        "events",
        "payload",
        STORY["event_id"],
        "--url",
        operator.url,
        ">",
        "body",
    ]
    assert shlex.split(send) == [
        "tidegate",
        "send",
        "body",
        "--tenant",
        STORY["tenant_id"],
        "--source",
        STORY["source"],
        "--url",
        operator.url,
    ]


def test_an_events_body_is_written_as_it_came(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/events/evt_1/payload", b"\x00\xff no text\r\n")
    assert run(operator, events, "payload", "evt_1").stdout_bytes == b"\x00\xff no text\r\n"


def test_a_dead_letter_shows_its_replays_with_their_notes(operator: OperatorApi) -> None:
    letter = DeadLetter("job_a", "job", "acme", "permanent_error", "no", "dispatcher", 1)
    shown = dead_letter_json(letter, [REPLAY], "succeeded") | {"job": None}
    operator.on("GET", "/v1/dlq/job_a", shown)
    text = run(operator, dlq, "show", "job_a").stdout
    wanted = (
        "replayed as",
        "job_again",
        "succeeded",
        "2026-11-23 20:00:00Z",
        "operator",
        "the mapping is mended",
    )
    assert [each for each in wanted if each not in text] == []


def test_review_gives_each_unknown_effect_with_both_answers_to_paste(operator: OperatorApi) -> None:
    soon = round((time.time() + 400) * 1000)
    job = job_json(OWNER, JobDetails(effects=EFFECTS, settle_after={UNKNOWN.action: soon}))
    page = {"jobs": [job], "next_cursor": None}
    operator.on("GET", "/v1/jobs", page)
    lost = {"effects": [LOST], "next_cursor": "more"}
    operator.on("GET", "/v1/effects/unknown", lost)
    text = run(operator, jobs, "review", "--tenant", "acme").stdout
    assert paths(operator) == [
        "/v1/jobs?tenant_id=acme&limit=50&status=needs_review",
        "/v1/effects/unknown?tenant_id=acme&limit=50",
    ]
    commands = [shlex.split(line) for line in text.splitlines() if "jobs settle" in line]
    assert commands == [
        ["tidegate", "jobs", "settle", job_id, "refund/r 1", *answer, "--url", operator.url]
        for job_id in (OWNER.job_id, "job_lost")
        for answer in (
            ("--done", "RESULT_AS_JSON", "--note", "the tool shows it"),
            ("--not-done", "--note", "the tool does not show it"),
        )
    ]
    assert re.search(r"settle_after +\S+Z \(in \d+ s\)", text)
    assert "RESULT_AS_JSON is what the handler gets as the call's result, null if nothing" in text
    assert "run run_1 ended without telling its outcome" in text
    assert "a replay calls the tool under the same key; or look at the tool and settle" in text
    answer = json.loads(run(operator, jobs, "review", "--json").stdout)
    (effect,) = answer["review"]
    assert (effect["tool"], effect["key"], effect["status"]) == ("refund", "r 1", "review")
    (shown,) = answer["lost"]
    assert LOST.items() <= shown.items()
    assert "jobs settle job_lost" in shown["if_not_done"]
    assert answer["more_lost"]


def test_review_gives_no_command_for_an_effect_that_no_job_can_settle(
    operator: OperatorApi,
) -> None:
    operator.on("GET", "/v1/jobs", b'{"jobs": [], "next_cursor": null}')
    gone = LOST | {"settle_after": None, "job_status": None}
    operator.on("GET", "/v1/effects/unknown", {"effects": [gone], "next_cursor": None})
    text = run(operator, jobs, "review").stdout
    assert "job_lost" in text
    assert "jobs settle" not in text


def test_review_gives_a_job_whose_code_diverged_with_the_ways_on(operator: OperatorApi) -> None:
    told = {"last_error": "HistoryDiverged: recorded draft #2", "diverged": "draft#2"}
    job = job_json(OWNER, JobDetails()) | told
    operator.on("GET", "/v1/jobs", {"jobs": [job], "next_cursor": None})
    operator.on("GET", "/v1/effects/unknown", b'{"effects": [], "next_cursor": null}')
    text = run(operator, jobs, "review").stdout
    assert "HistoryDiverged: recorded draft #2" in text
    assert "no effect waits" not in text
    ways = [shlex.split(line)[3:-4] for line in text.splitlines() if "jobs steps" in line]
    assert ways == [
        [OWNER.job_id],
        [OWNER.job_id, "--keep", "draft#2"],
        [OWNER.job_id, "--drop", "draft#2"],
    ]


def test_an_effect_that_can_be_settled_says_now(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/jobs", {"jobs": [JOB], "next_cursor": None})
    operator.on("GET", "/v1/effects/unknown", b'{"effects": [], "next_cursor": null}')
    assert "1970-01-01T00:00:00.001Z (now)" in run(operator, jobs, "review").stdout


def test_review_says_that_nothing_waits(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/jobs", b'{"jobs": [], "next_cursor": null}')
    operator.on("GET", "/v1/effects/unknown", b'{"effects": [], "next_cursor": null}')
    assert run(operator, jobs, "review").stdout.startswith("no effect waits ")


def test_a_replay_that_may_have_begun_is_named_with_the_command_that_shows_it(
    operator: OperatorApi,
) -> None:
    """A person who sends the command again begins another replay: it gets another key."""
    operator.on("POST", "/v1/replays", problem(502, "bad-gateway", "ended before it answered"))
    wanted = ["--tenant", "acme", "--job", "t", "--note", "lost"]
    done = invoke(operator, events, "replay", *wanted)
    assert done.exit_code == 1
    key = operator.asked[-1].headers["Idempotency-Key"]
    look = f"tidegate replays show {event_replay_id('acme', key)} --url {operator.url}"
    assert f"ended before it answered. The replay may have begun: see with `{look}`" in done.stderr
    blank = invoke(operator, events, "replay", *wanted, "--key", "")
    assert (blank.exit_code, operator.asked[-1].headers["Idempotency-Key"]) == (1, "")
    again = invoke(operator, events, "replay", *wanted)
    assert operator.asked[-1].headers["Idempotency-Key"] != key
    assert again.exit_code == 1


def test_a_replay_may_have_begun_behind_a_proxy_too(operator: OperatorApi) -> None:
    operator.on("POST", "/v1/replays", (504, b"<html>Gateway Time-out</html>"))
    done = invoke(operator, events, "replay", "--tenant", "acme", "--job", "t", "--note", "lost")
    assert f"{operator.url} answers 504" in done.stderr
    assert "The replay may have begun" in done.stderr


@pytest.mark.usefixtures("operator")
def test_a_replay_of_which_no_api_was_told_has_not_begun() -> None:
    nobody = OperatorApi("http://127.0.0.1:9")
    done = invoke(nobody, events, "replay", "--tenant", "acme", "--job", "t", "--note", "lost")
    assert "no operator's API answers" in done.stderr
    assert "may have begun" not in done.stderr

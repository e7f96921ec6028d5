"""An edit of a dead job's input: its difference is shown, and is sent by a second form alone."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path

import pytest
from support.console_desk import Console, console
from support.folding import fold
from support.operator_cluster import make_job

from streams.serde.codec import JOB_TYPES
from streams.serde.records import AnnouncedType, JobTypes, Replay

PREVIEW, REPLAY = "POST /v1/dlq/job_a/preview", "POST /v1/dlq/job_a/replay"
ODD = {"amount": 10**18 + 1, "of": "\u202e<b>\r\n</textarea>\U0001f468\u200d\U0001f469"}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Console]:
    async with console(tmp_path) as made:
        fold(made.api.desk.rows, make_job("job_a", status="dead", input=json.dumps(ODD)))
        yield made


def textarea(html: str) -> str:
    """What stands in the field of an input, as a browser sends it back."""
    found = re.search(r'<textarea name="input:json"[^>]*>(.*?)</textarea>', html, re.S)
    assert found is not None
    return unescape(found[1]).replace("\n", "\r\n")


async def test_a_changed_line_is_shown_by_word_and_sign_and_nothing_is_sent(
    desk: Console,
) -> None:
    browser = await desk.signed_in("operator")
    html = await browser.page("/console/jobs/job_a")
    typed = textarea(html).replace("amount", "sum")
    status, shown = await browser.act(html, PREVIEW, **{"input:json": typed})
    assert status == 200, shown
    lines = re.findall(r'<tr class="(removed|added)">(.*?)</tr>', shown, re.S)
    assert [kind for kind, _ in lines] == ["removed", "added"]
    assert ["\u2212 removed" in lines[0][1], "+ added" in lines[1][1]] == [True, True]
    assert ["amount" in lines[0][1], "sum" in lines[1][1]] == [True, True]
    assert "1 line removed, 1 line added" in shown
    assert "draft_reply announces no schema" in shown
    assert "\u202e" not in re.sub(r'<input type="hidden"[^>]*>', "", shown)
    assert desk.api.desk.sent == []


async def test_the_second_form_sends_exactly_what_was_shown(desk: Console) -> None:
    browser = await desk.signed_in("operator")
    html = await browser.page("/console/jobs/job_a")
    typed = textarea(html).replace("amount", "sum")
    _, shown = await browser.act(html, PREVIEW, **{"input:json": typed})
    desk.api.desk.answer("cmd_1")
    _, after = await browser.act(shown, REPLAY, incident_note="the field has another name")
    assert "Replay with this input: done." in after
    [sent] = desk.api.desk.sent
    assert isinstance(sent, Replay)
    assert json.loads(sent.input or "") == {"sum": ODD["amount"], "of": ODD["of"]}


async def test_an_input_that_nobody_has_changed_is_not_offered_for_a_replay(
    desk: Console,
) -> None:
    browser = await desk.signed_in("operator")
    html = await browser.page("/console/jobs/job_a")
    _, shown = await browser.act(html, PREVIEW, **{"input:json": textarea(html)})
    assert "You changed nothing in it." in shown
    assert f'value="{REPLAY}"' not in shown


async def test_an_input_that_does_not_fit_its_type_says_where_and_can_be_changed_further(
    desk: Console,
) -> None:
    schema = json.dumps({"type": "object", "properties": {"amount": {"type": "string"}}})
    announced = AnnouncedType("draft_reply", 5, (10.0,), 300.0, None, schema, None)
    types = JobTypes("support", "1", (announced,))
    desk.api.desk.project([("jobs.types", b"support", JOB_TYPES.encode(types))])
    browser = await desk.signed_in("operator")
    html = await browser.page("/console/jobs/job_a")
    _, shown = await browser.act(html, PREVIEW, **{"input:json": '{"amount": 2}'})
    assert "does not fit what draft_reply announces" in shown
    assert '<span class="mono">input.amount</span>' in shown
    assert f'value="{REPLAY}"' not in shown
    _, shown = await browser.act(shown, PREVIEW, **{"input:json": '{"amount": "2"}'})
    assert f'value="{REPLAY}"' in shown
    assert "It fits what draft_reply announces." in shown


async def test_text_that_is_no_json_is_refused_with_what_was_typed(desk: Console) -> None:
    browser = await desk.signed_in("operator")
    html = await browser.page("/console/jobs/job_a")
    status, shown = await browser.act(html, PREVIEW, **{"input:json": "{oops"})
    assert (status, "must be JSON" in shown, "{oops</textarea>" in shown) == (422, True, True)

"""A button for all that match takes what its list shows, and nothing else."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path

import pytest
from support.console_desk import Console, console

from streams.api.refusal import Refusal
from streams.console.serving.asked_for import as_json

REPLAY, RELEASE = 'value="dead_letters.replay"', 'value="quarantine.release"'


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Console]:
    async with console(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    ("path", "button"),
    [
        ("/console/dlq?discarded=true", REPLAY),
        ("/console/dlq?manual=true", REPLAY),
        ("/console/dlq?assignee=ann", REPLAY),
        ("/console/quarantine?status=released", RELEASE),
    ],
)
async def test_a_list_of_what_no_act_selects_has_no_button(
    desk: Console, path: str, button: str
) -> None:
    browser = await desk.signed_in("operator")
    assert button not in await browser.page(path)


@pytest.mark.parametrize(
    ("path", "button"),
    [
        ("/console/dlq", REPLAY),
        ("/console/dlq?discarded=false&manual=false&not_replayed=true&assignee=", REPLAY),
        ("/console/dlq?type=a&error=b&limit=10", REPLAY),
        ("/console/quarantine", RELEASE),
        ("/console/quarantine?status=waiting", RELEASE),
    ],
)
async def test_a_list_of_what_an_act_selects_has_its_button(
    desk: Console, path: str, button: str
) -> None:
    assert button in await (await desk.signed_in("operator")).page(path)


@pytest.mark.parametrize("blank", [" ", "\t", "\n "])
async def test_a_filter_of_blanks_selects_no_more_than_its_list(desk: Console, blank: str) -> None:
    with pytest.raises(Refusal, match=r"filter\.type"):
        as_json({"filter.type": blank})


@pytest.mark.parametrize("odd", ["a\u200cb", "\u202ea", "<a&amp;\"'", "a\u00adb"])
async def test_a_filter_is_sent_as_its_list_was_asked(desk: Console, odd: str) -> None:
    browser = await desk.signed_in("operator")
    async with browser.session.get(f"{desk.origin}/console/dlq", params={"type": odd}) as answer:
        html = await answer.text()
    for name in ("filter.type", "type"):
        value = re.findall(rf'name="{name}"[^>]* value="([^"]*)"', html)[0]
        assert unescape(value) == odd


async def test_somebody_with_several_tenants_says_which_one_an_act_is_about(desk: Console) -> None:
    browser = await desk.signed_in("operator", frozenset({"acme", "globex"}))
    for path in ("/console/dlq", "/console/quarantine"):
        html = await browser.page(path)
        assert re.search(r'<select name="filter\.tenant_id">\s*<option value="acme"', html)
        html = await browser.page(f"{path}?tenant_id=acme")
        assert '<input type="hidden" name="filter.tenant_id" value="acme">' in html
        assert '<select name="filter.tenant_id">' not in html

"""Every screen shows what the API documents, and an empty list that teaches."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.api_document.files import made
from support.console_desk import Console, console
from typer.main import get_command

from streams.cli.main import application
from streams.console.screens import SCREENS, modules
from streams.console.serving import asking
from streams.console.serving.asking import Answer
from streams.topology.load import load

NAMES = {"tenant": "acme", "source": "shop", "endpoint": "crm", "type": "draft_reply"}
PATHS = sorted({call.path for module in modules() for call in module.pages.calls})


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Console]:
    async with console(tmp_path) as made_:
        yield made_


@pytest.fixture
def documented(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the API answer what its document has as examples."""
    patterns = {
        re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path)): calls["get"]
        for path, calls in sorted(made()["paths"].items(), key=lambda each: each[0].count("{"))
        if "get" in calls
    }

    async def answer(_: Any, method: str, target: Any, *__: Any) -> Answer:
        path = str(target).partition("?")[0]
        found = next(call for pattern, call in patterns.items() if pattern.fullmatch(path))
        content = found["responses"]["200"]["content"]["application/json"]
        return Answer(content["example"], {"ETag": '"1f0c"'})

    monkeypatch.setattr(asking.Asking, "call", answer)


@pytest.mark.parametrize("path", PATHS)
async def test_a_page_shows_the_documented_example(
    desk: Console, path: str, documented: None
) -> None:
    browser = await desk.signed_in("admin")
    filled = re.sub(r"\{([^}:]+)[^}]*\}", lambda found: NAMES.get(found[1], f"{found[1]}_1"), path)
    html = await browser.page(filled)
    assert html.count("<h1>") == 1
    assert "Undefined" not in html


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: screen.folder)
async def test_a_screen_without_rows_says_what_makes_the_first(desk: Console, screen: Any) -> None:
    html = await (await desk.signed_in("admin")).page(screen.path)
    assert f'<a href="{screen.path}" data-key="{screen.key}" aria-current="page">' in html
    assert 'class="empty"' in html or "<tbody>" in html


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: screen.folder)
async def test_a_viewer_of_one_tenant_may_open_a_screen_or_is_told_why_not(
    desk: Console, screen: Any
) -> None:
    browser = await desk.signed_in("viewer", frozenset({"acme"}))
    status, html = await browser.get(screen.path)
    assert status in (200, 403), html
    assert '<form method="post" action="/console/act"' not in html


def test_each_key_of_the_navigation_opens_one_screen() -> None:
    keys = [screen.key for screen in SCREENS]
    assert len(set(keys)) == len(keys)
    assert not {"g", "?", "/"} & set(keys)


def test_the_commands_that_empty_screens_teach_are_commands() -> None:
    folder = Path(asking.__file__).parent.parent
    taught = re.findall(
        r"tidegate [a-z][^<\n']*", "\n".join(each.read_text() for each in folder.rglob("*.html"))
    )
    words = {tuple(each.split()[1:]) for each in taught}
    assert len(words) > 8
    for each in words:
        command: Any = get_command(application(each))
        for word in each:
            found = getattr(command, "commands", {}).get(word)
            if found is None:
                break
            command = found
        options = {name for param in command.params for name in param.opts}
        unknown = {word for word in each if word.startswith("--")} - options
        assert not getattr(command, "commands", {}), each
        assert unknown == set(), each


@pytest.mark.parametrize("path", PATHS)
async def test_a_page_watches_topics_that_are_there(
    desk: Console, path: str, documented: None
) -> None:
    browser = await desk.signed_in("admin")
    filled = re.sub(r"\{([^}:]+)[^}]*\}", lambda found: NAMES.get(found[1], f"{found[1]}_1"), path)
    html = await browser.page(filled)
    watched = re.findall(r"/console/changes\?of=([^\"&]*)", html)
    assert set(",".join(watched).split(",")) - {""} <= set(load().topics)


@pytest.mark.parametrize("path", PATHS)
async def test_nothing_that_cannot_be_undone_is_one_click(
    desk: Console, path: str, documented: None
) -> None:
    browser = await desk.signed_in("admin")
    filled = re.sub(r"\{([^}:]+)[^}]*\}", lambda found: NAMES.get(found[1], f"{found[1]}_1"), path)
    plain = re.findall(r'<form [^>]*class="plain">.*?</form>', await browser.page(filled), re.S)
    assert [form for form in plain if "class=danger" in form] == []


@pytest.mark.parametrize("path", ["/console/events/evt_1", "/console/quarantine/evt_1"])
async def test_a_link_that_somebody_may_not_follow_is_not_there(
    desk: Console, path: str, documented: None
) -> None:
    link = r'<a [^>]*href="/v1/[^"]*/payload"'
    for role, is_there in (("viewer", False), ("operator", True)):
        html = await (await desk.signed_in(role)).page(path)
        assert bool(re.search(link, html)) is is_there, role

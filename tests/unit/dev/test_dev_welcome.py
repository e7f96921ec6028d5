"""The banner of `tidegate dev`: what to do next, and no token on a terminal."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

import streams.dev
import streams.new
from streams.cli.main import application
from streams.dev.welcome import hook_text, next_text, ready_text
from streams.settings import load_settings

SAMPLE = Path(streams.dev.__file__).with_name("sample.yaml")


def pipeline() -> Any:
    return SimpleNamespace(
        url="http://127.0.0.1:8080",
        settings=load_settings({}),
        credentials=SimpleNamespace(admin_token="s3cret"),
    )


def commands(text: str) -> list[str]:
    return re.findall(r"^ +tidegate (.*)$", text, re.MULTILINE)


def test_every_command_of_the_banner_and_of_a_made_application_exists() -> None:
    root: Any = typer.main.get_command(application([]))
    readme = (Path(streams.new.__file__).parent / "template/README.md.in").read_text()
    typed = [
        *commands(next_text(load_settings({}, topology=SAMPLE), sample=True)),
        *commands(readme),
    ]
    assert len(typed) >= 6
    for line in typed:
        command, words = root, line.split()
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        flags = {flag for option in command.params for flag in option.opts}
        assert not getattr(command, "commands", {}), line
        assert {word for word in words if word.startswith("--")} <= flags, line


def test_a_terminal_is_told_where_the_token_lies_and_a_program_gets_it() -> None:
    shown = ready_text(pipeline(), on_terminal=True)
    given = ready_text(pipeline(), on_terminal=False)
    assert shown.splitlines() == [
        "tidegate ready http://127.0.0.1:8080",
        "admin token: in .tidegate/admin.token",
        "console: http://127.0.0.1:8080/console",
    ]
    assert given.splitlines()[1] == "admin token: s3cret"


def test_a_printed_delivery_needs_no_token_and_its_job_is_shown_by_a_command() -> None:
    text = hook_text(pipeline(), "a secret")
    assert text.count("curl") == 1
    assert not [word for word in ("Authorization", "s3cret", "admin.token") if word in text]
    assert re.fullmatch(r"jobs show job_\w+", commands(text)[-1])
    elsewhere = pipeline()
    elsewhere.settings = load_settings({}, data_dir=Path("/tmp/a b"))
    assert commands(hook_text(elsewhere, "a secret"))[-1].endswith("--data-dir '/tmp/a b'")


def test_the_next_commands_work_as_printed_whatever_the_data_directory() -> None:
    text = next_text(load_settings({}, topology=SAMPLE), sample=True)
    assert "  tidegate send --tenant demo --source zendesk --sample ticket.created" in text
    assert "--data-dir" not in text
    assert "outgoing webhooks and callbacks reach this machine and use http" in text
    other = next_text(load_settings({}, data_dir=Path("/tmp/a b")), sample=False)
    assert "  tidegate jobs list --data-dir '/tmp/a b'" in other
    assert "tidegate send" not in other


def hint(folder: Path, *routes: tuple[str, str]) -> list[str]:
    """The commands for an application with these routes, without those that only show things."""
    file = folder / "topology.yaml"
    lines = [
        f'  - {{match: {{source: "{source}", event_type: "{event_type}"}}, job: j}}\n'
        for source, event_type in routes
    ]
    file.write_text("routes:\n" + "".join(lines) if lines else "limits: []\n")
    text = next_text(load_settings({}, topology=file), sample=True)
    return [line for line in commands(text) if line.split()[0] not in ("jobs", "console")]


def test_the_first_event_is_one_that_the_applications_routes_make_into_a_job(
    tmp_path: Path,
) -> None:
    assert hint(tmp_path, ("stripe", "invoice.paid"), ("github", "issues.*")) == [
        "sources set stripe --tenant demo --scheme stripe --generate",
        "send --tenant demo --source stripe --sample invoice.paid --times 3",
    ]
    assert hint(tmp_path, ("github", "issues.*"))[-1] == (
        "send --tenant demo --source github --sample issues --times 3"
    )
    everything = hint(tmp_path, ("*", "*"))
    assert everything == ["send --tenant demo --source zendesk --sample ticket.created --times 3"]


@pytest.mark.parametrize(("source", "told"), [("stripe", True), ("shop", True), ("zendesk", False)])
def test_a_hint_that_makes_a_secret_says_when_to_give_the_vendors(
    tmp_path: Path, source: str, *, told: bool
) -> None:
    event_type = {"stripe": "invoice.paid", "zendesk": "*"}.get(source, "order.paid")
    file = tmp_path / "routes.yaml"
    file.write_text(
        f'routes:\n  - match: {{source: {source}, event_type: "{event_type}"}}\n    job: j\n'
    )
    text = next_text(load_settings({}, topology=file), sample=True)
    assert ("give --secret-file FILE, not --generate" in text) is told


def test_without_a_sample_that_fits_it_says_what_to_create(tmp_path: Path) -> None:
    for route, name in (("shop", "shop"), ("shop-*", "SOURCE")):
        assert hint(tmp_path, (route, "order.paid")) == [
            f"sources set {name} --tenant demo --scheme SCHEME --generate",
            f"send FILE --tenant demo --source {name} --times 3",
        ]
    assert hint(tmp_path) == []

"""The banner of `tidegate dev`: what to do next, and no token on a terminal."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer

import streams.new
from streams.cli.main import application
from streams.dev.welcome import next_text, ready_text
from streams.settings import load_settings


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
    typed = [*commands(next_text(load_settings({}), sample=True)), *commands(readme)]
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
        "tidegate ready http://127.0.0.1:8080", "admin token: in .tidegate/admin.token",
    ]  # fmt: skip
    assert given.splitlines()[-1] == "admin token: s3cret"


def test_the_next_commands_work_as_printed_whatever_the_data_directory() -> None:
    text = next_text(load_settings({}), sample=True)
    assert "  tidegate send --tenant demo --source zendesk --sample ticket.created" in text
    assert "--data-dir" not in text
    other = next_text(load_settings({}, data_dir=Path("/tmp/a b")), sample=False)
    assert "  tidegate jobs list --data-dir '/tmp/a b'" in other
    assert "tidegate send" not in other

"""The banner of `tidegate dev`: what to do next, and no token on a terminal."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from streams.dev.welcome import next_text, ready_text
from streams.settings import load_settings


def pipeline() -> Any:
    return SimpleNamespace(
        url="http://127.0.0.1:8080",
        settings=load_settings({}),
        credentials=SimpleNamespace(admin_token="s3cret"),
    )


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

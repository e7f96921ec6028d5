"""The table of rights in docs/rights.md is the one that the code makes."""

from __future__ import annotations

from pathlib import Path

from support.rights_page import HEADING, rows

from streams.topology.load import load

PAGE = Path(__file__).resolve().parents[3] / "docs/rights.md"


def test_the_table_has_every_user_with_the_rights_that_the_command_prints() -> None:
    table = "\n".join([HEADING, "|---|---|---|---|---|", *rows(load()), ""])
    assert table in PAGE.read_text(), f"the table must read:\n{table}"

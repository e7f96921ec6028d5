"""`docs/sizing.md` has the code's figures; its examples and the how-to's print what is shown."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from sizing.figures import FIGURES, RUNS, WHAT
from typer.testing import CliRunner

from streams.cli.topology import app

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "sizing.md").read_text()
SMALL = (DOCS / "how-to/small-cluster.md").read_text()
EXAMPLES = re.findall(r"```console\n\$ tidegate topology (size .*)\n((?:.*\n)*?)```", PAGE + SMALL)


def rows(first_column: str) -> list[list[str]]:
    """The cells of the table whose head begins so."""
    table = PAGE.partition(f"\n| {first_column} |")[2].partition("\n\n")[0]
    lines = table.splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def test_the_page_has_every_figure_of_the_code_and_no_other() -> None:
    expected = [
        [each.what, each.about, each.per, f"{each.value:,g} {WHAT[each.what]}".strip(), each.run]
        for each in FIGURES
    ]
    assert rows("figure") == expected


def test_the_page_has_every_run_with_its_machine() -> None:
    assert rows("run") == [[name, command, machine] for name, (command, machine) in RUNS.items()]


def test_there_are_four_examples() -> None:
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize(("command", "shown"), EXAMPLES)
def test_an_example_prints_what_the_page_shows(
    command: str, shown: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = CliRunner().invoke(app, shlex.split(command))
    assert printed.exit_code == 0
    assert trimmed(printed.output) == trimmed(shown)


def trimmed(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]

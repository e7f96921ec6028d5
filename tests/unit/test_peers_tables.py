"""The tables of docs/compared.md and of the README are drawn from the figures that are kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from peers.__main__ import PAGES
from peers.every import EVERY
from peers.rows import read, standings
from peers.tables import DRAWN, draw


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_the_tables_of_the_kept_figures(page: Path, tmp_path: Path) -> None:
    drawn = tmp_path / page.name
    shutil.copy(page, drawn)
    draw(drawn, standings(read()))
    assert drawn.read_text() == page.read_text(), "make peers ARGS=--draw writes them"


def test_every_table_is_on_a_page() -> None:
    text = "".join(page.read_text() for page in PAGES)
    for name in (*DRAWN, "parts", "conditions", "when"):
        assert f"<!-- peers: {name} -->" in text
        assert f"<!-- /peers: {name} -->" in text


def test_every_peer_has_a_figure_of_each_work_that_it_has() -> None:
    found = standings(read())
    titles = {"plain": "no-op", "effect": "one effect", "kills": "kills, lost", "idle": "idle"}
    for peer in EVERY.values():
        missing = [work for work, title in titles.items() if found.of(peer.name, title) is None]
        assert not set(missing) - peer.lacks.keys(), peer.name

"""Lines of the children: prefixed, kept in bounded files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from streams.dev import output as module
from streams.dev.output import Output


def reader(*chunks: bytes) -> asyncio.StreamReader:
    stream = asyncio.StreamReader()
    for chunk in chunks:
        stream.feed_data(chunk)
    stream.feed_eof()
    return stream


async def test_lines_are_told_under_their_name_and_kept_as_they_were(tmp_path: Path) -> None:
    console: list[str] = []
    output = Output(tmp_path, console.append)
    await output.pump("dedup-0", reader(b"one\ntw", b"o\nno newline"))
    output.close()
    assert console == [f"dedup-0      | {text}" for text in ("one", "two", "no newline")]
    assert (tmp_path / "dedup-0.log").read_text() == "one\ntwo\nno newline\n"


async def test_a_percent_sign_and_broken_utf8_are_plain_text(tmp_path: Path) -> None:
    console: list[str] = []
    await Output(tmp_path, console.append).pump("a", reader(b"100 %s \xff\n"))
    assert console == ["a            | 100 %s \N{REPLACEMENT CHARACTER}"]


async def test_an_endless_line_goes_in_pieces(tmp_path: Path) -> None:
    output = Output(tmp_path, None)
    await output.pump("a", reader(b"x" * 300_000))
    output.close()
    pieces = (tmp_path / "a.log").read_text().splitlines()
    assert sum(map(len, pieces)) == 300_000
    assert max(map(len, pieces)) <= 3 * 64 * 1024


def test_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FILE_BYTES", 1_000)
    output = Output(tmp_path, None)
    for number in range(500):
        output.line("a", f"line {number}")
    output.close()
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {"a.log", "a.log.1"}
    assert max(sizes.values()) <= 1_000
    assert (tmp_path / "a.log").read_text().endswith("line 499\n")

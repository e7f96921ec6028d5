"""The difference of two texts: what is said of each line, and how much it may cost."""

from __future__ import annotations

import time

from streams.console.serving.line_diff import difference


def shown(before: str, after: str) -> list[str]:
    return [f"{line.sign or ' '}{line.text}" for line in difference(before, after)]


def test_changed_lines_have_a_sign_and_those_around_them_none() -> None:
    assert shown("a\nb\nc", "a\nB\nc\nd") == [" a", "−b", "+B", " c", "+d"]
    kinds = [line.kind for line in difference("a\nb", "a\nc")]
    assert kinds == ["same", "removed", "added"]


def test_equal_texts_have_no_difference() -> None:
    assert difference("a\nb", "a\nb") == []
    assert shown("", "a") == ["+a"]


def test_lines_far_from_a_change_are_counted_and_not_shown() -> None:
    before = "\n".join(map(str, range(100)))
    found = shown(before, before.replace("\n50\n", "\nfifty\n"))
    assert found == [
        " 47 lines left out",
        *(f" {n}" for n in (47, 48, 49)),
        "−50",
        "+fifty",
        *(f" {n}" for n in (51, 52, 53)),
        " 46 lines left out",
    ]


def test_a_text_made_to_be_slow_is_compared_at_once_and_cut() -> None:
    before = "\n".join(f"{n % 100}" for n in range(60_000))
    after = "\n".join(f"{n * 7 % 100}" for n in range(60_000))
    began = time.process_time()
    found = difference(before, after)
    assert time.process_time() - began < 2
    assert len(found) <= 2_001
    assert "lines left out" in found[-1].text


def test_a_long_line_says_how_much_of_it_is_left_out() -> None:
    [_, added] = difference("a", "b" * 5_000)
    assert len(added.text) < 2_100
    assert "(3,000 more characters)" in added.text


def test_lines_that_come_again_and_again_are_compared_at_once() -> None:
    before = "\n".join(f"a\n{n}" for n in range(250))
    began = time.process_time()
    assert difference(before, "a\n" * 500)
    assert time.process_time() - began < 0.5

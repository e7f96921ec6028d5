"""How far a position moves past what an own transaction wrote, by the offsets on a broker."""

from __future__ import annotations

import pytest

from streams.runtime.own_records import OwnMarks, Written, reach


def after(position: int, *transactions: list[int], taken: int | None = None) -> int:
    """The position once transactions wrote at these offsets, all of them taken unless said."""
    marks = OwnMarks()
    for offsets in transactions:
        found = marks.written(0, {"events": offsets})["events"]
        position = reach(position, found, len(offsets) if taken is None else taken)
    return position


@pytest.mark.parametrize(
    ("position", "transactions", "expected"),
    [
        (7, [[7, 8, 9]], 10),
        (7, [[7, 8], [10], [12, 13]], 14),
        (6, [[7, 8]], 6),
        (3, [[7, 8], [10]], 3),
        (7, [[7, 9]], 7),
        (7, [[7], [10]], 8),
        (7, [[7], [11, 12]], 8),
        (9, [[7], [10]], 9),
        (8, [[7], [8]], 9),
    ],
    ids=[
        "one transaction from the position on",
        "one mark lies between each two",
        "an offset before the first transaction is unknown",
        "records before it are not read yet",
        "another producer's record lies between two of its own",
        "another producer's record lies beside the mark",
        "an aborted transaction lies between two",
        "the position was read up to the middle of what lies between",
        "a broker lost the mark",
    ],
)
def test_a_position_passes_own_records_and_marks_alone(
    position: int, transactions: list[list[int]], expected: int
) -> None:
    assert after(position, *transactions) == expected


def test_what_was_not_taken_is_not_passed() -> None:
    assert after(7, [7, 8, 9], taken=2) == 7
    assert after(7, [7], taken=0) == 7


def test_each_partition_and_topic_has_its_own_marks() -> None:
    marks = OwnMarks()
    marks.written(0, {"events": [7]})
    assert marks.written(1, {"events": [9]}) == {"events": Written(9, 9, 9, 1)}
    assert marks.written(0, {"duplicates": [9]}) == {"duplicates": Written(9, 9, 9, 1)}
    assert marks.written(0, {"events": [9]}) == {"events": Written(8, 9, 9, 1)}

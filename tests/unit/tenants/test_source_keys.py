"""A rotation keeps what is still valid, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from streams.serde.records import SigningKey
from streams.tenants.source_keys import holds, rotated

NOW = 1_800_000_000_000
A, B, C = (SigningKey(name) for name in (b"a", b"b", b"c"))


def test_the_new_key_is_first_and_the_old_one_ends_with_the_overlap() -> None:
    assert rotated([A], B, NOW + 500, NOW) == (B, replace(A, until=NOW + 500))


def test_a_key_holds_until_its_end_and_no_moment_longer() -> None:
    ending = replace(A, until=NOW)
    assert [holds(ending, at) for at in (NOW - 1, NOW, NOW + 1)] == [True, False, False]
    assert holds(A, NOW)


def test_a_second_rotation_neither_prolongs_an_older_key_nor_keeps_a_dead_one() -> None:
    first = rotated([A], B, NOW + 500, NOW)
    again = rotated(first, C, NOW + 9_000, NOW + 100)
    assert again == (C, replace(B, until=NOW + 9_000), replace(A, until=NOW + 500))
    assert rotated(first, C, NOW + 9_000, NOW + 500) == (C, replace(B, until=NOW + 9_000))


def test_without_an_overlap_the_old_key_is_gone_at_once() -> None:
    assert rotated([A], B, NOW, NOW) == (B,)

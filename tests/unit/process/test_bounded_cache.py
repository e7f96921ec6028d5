"""A cache forgets by what its entries cost, also if their contents are empty."""

from __future__ import annotations

import tracemalloc

from streams.process.bounded_cache import ENTRY_BYTES, BoundedCache


def test_what_was_used_last_is_kept() -> None:
    cache = BoundedCache[str, str](3 * ENTRY_BYTES)
    for key in "abc":
        cache.put(key, key.upper(), 0)
    assert cache.get("a") == "A"
    cache.put("d", "D", 0)
    assert [cache.get(key) for key in "abcd"] == ["A", None, "C", "D"]


def test_a_value_that_is_replaced_counts_once_and_cleared_ones_do_not() -> None:
    cache = BoundedCache[str, str](2 * ENTRY_BYTES + 10)
    for _ in range(5):
        cache.put("a", "A", 10)
    cache.put("b", "B", 0)
    assert (cache.get("a"), cache.get("b")) == ("A", "B")
    cache.clear()
    for key in "abcd":
        cache.put(key, key, 0)
    assert [key in cache for key in "abcd"] == [False, False, True, True]


def test_a_value_that_is_larger_than_all_is_not_kept() -> None:
    cache = BoundedCache[str, bytes](ENTRY_BYTES + 10)
    cache.put("a", b"", 11)
    assert cache.get("a") is None
    cache.put("b", b"", 10)
    assert cache.get("b") == b""


def test_entries_without_content_take_no_more_than_they_count() -> None:
    most = 4_000_000
    cache = BoundedCache[tuple[str, str], bytes](most)
    tracemalloc.start()
    try:
        for number in range(50_000):
            cache.put((f"tenant-{number}", f"evt_{number:036}"), b"%d" % number, 0)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < most

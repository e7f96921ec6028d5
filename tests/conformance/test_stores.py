"""Every backend keeps the same promises: key-value and window, in memory and on RocksDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.state.key_value import KeyValueBackend
from streams.state.memory import MemoryTables
from streams.state.overlay import Overlay
from streams.state.rocksdb import RocksTables
from streams.state.rocksdb_memory import RocksMemory
from streams.state.store import Backend, Changes, Checkpoint, Tables
from streams.state.window import WindowBackend

WINDOW = 1_000
MEMORY = RocksMemory()
OpenTables = Callable[[], Tables]
OpenBackend = Callable[[], Backend]


@pytest.fixture(params=["memory", "rocksdb, walked", "rocksdb, looked up"])
def open_tables(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenTables]:
    """Opens the same tables anew, closing those opened before."""
    kept = MemoryTables()
    opened: list[Tables] = []

    def open_() -> Tables:
        while opened:
            opened.pop().close()
        if request.param == "memory":
            opened.append(kept)
        else:
            walked = request.param == "rocksdb, walked"
            opened.append(RocksTables(tmp_path / "store", "test", MEMORY, walked=walked))
        return opened[0]

    yield open_
    for tables in opened:
        tables.close()


@pytest.fixture(params=["key_value", "window"])
def open_backend(request: pytest.FixtureRequest, open_tables: OpenTables) -> OpenBackend:
    if request.param == "window":
        return lambda: WindowBackend(open_tables(), 10**15)
    return lambda: KeyValueBackend(open_tables())


@pytest.fixture
def open_window(open_tables: OpenTables) -> OpenBackend:
    return lambda: WindowBackend(open_tables(), WINDOW)


def at(time: int, value: bytes = b"") -> bytes:
    """A value as a window store wants it; to any other it is as good as any."""
    return time.to_bytes(8, "big") + value


def put(**values: bytes | None) -> Changes:
    return {key.encode(): None if v is None else at(1, v) for key, v in values.items()}


def entries(backend: Backend) -> dict[bytes, bytes]:
    return dict(backend.range(b"", b"\xff"))


def test_a_new_store_is_empty_and_has_no_checkpoint(open_backend: OpenBackend) -> None:
    backend = open_backend()
    assert backend.checkpoint() is None
    assert backend.get(b"a") is None
    assert backend.get_many([b"a", b"b"]) == [None, None]
    assert backend.get_many([]) == []
    assert entries(backend) == {}


def test_what_is_written_is_read_and_outlives_a_reopening(open_backend: OpenBackend) -> None:
    open_backend().write(put(a=b"1", b=b"", c=b"3"), Checkpoint(7, 8, 9))
    for _ in range(2):
        backend = open_backend()
        assert backend.get(b"b") == at(1)
        found = backend.get_many([b"c", b"x", b"a", b"c"])
        assert found == [at(1, b"3"), None, at(1, b"1"), at(1, b"3")]
        assert entries(backend) == put(a=b"1", b=b"", c=b"3")
        assert backend.checkpoint() == Checkpoint(7, 8, 9)


def test_later_writes_replace_and_delete(open_backend: OpenBackend) -> None:
    backend = open_backend()
    backend.write(put(a=b"1", b=b"2"), Checkpoint(1, 0))
    backend.write(put(a=b"3", b=None, c=None), Checkpoint(2, 0))
    assert entries(backend) == put(a=b"3")
    assert backend.checkpoint() == Checkpoint(2, 0)


def test_a_range_is_ordered_and_half_open(open_backend: OpenBackend) -> None:
    backend = open_backend()
    backend.write(put(d=b"", a=b"", c=b"", b=b""), Checkpoint(1, 0))
    assert [key for key, _ in backend.range(b"a", b"c")] == [b"a", b"b"]
    assert list(backend.range(b"c", b"c")) == []
    assert list(backend.range(b"d", b"a")) == []


def test_keys_of_any_length_are_told_apart_and_ordered(open_backend: OpenBackend) -> None:
    keys = [b"k" * length for length in (0, 1, 15, 16, 17, 40)] + [b"k" * 16 + b"z", b"l"]
    backend = open_backend()
    values = [at(1, b"%d" % i) for i in range(len(keys))]
    backend.write(dict(zip(keys, values, strict=True)), Checkpoint(1, 0))
    for _ in range(2):
        assert backend.get_many(keys) == values
        assert backend.get(b"k" * 18) is None
        assert [key for key, _ in backend.range(b"", b"\xff")] == sorted(keys)
        assert [key for key, _ in backend.range(b"k" * 17, b"l")] == sorted(keys)[4:-1]
        backend = open_backend()  # then from the files


def test_many_keys_of_one_beginning_and_one_key_of_many_writes(open_backend: OpenBackend) -> None:
    backend = open_backend()
    keys = [b"the same beginning, %d" % i for i in range(600)]
    for offset in range(600):  # past 256 in one place, a hashed list becomes a skip list
        changes = {keys[offset]: at(1), b"hot": at(offset)}
        backend.write(changes, Checkpoint(offset, 0))
    asked = [*keys, b"hot", b"the same beginning"]
    assert backend.get_many(asked) == [at(1)] * 600 + [at(599), None]
    assert entries(backend) == {**dict.fromkeys(keys, at(1)), b"hot": at(599)}


def test_a_range_is_of_one_moment(open_backend: OpenBackend) -> None:
    backend = open_backend()
    backend.write(put(a=b"1", b=b"1"), Checkpoint(1, 0))
    ranged = list(backend.range(b"", b"\xff"))
    backend.write(put(a=None), Checkpoint(2, 0))
    assert ranged == list(put(a=b"1", b=b"1").items())


def test_a_wiped_store_is_new(open_backend: OpenBackend) -> None:
    backend = open_backend()
    backend.write(put(a=b"1"), Checkpoint(1, 0))
    backend.wipe()
    for wiped in (backend, open_backend()):
        assert entries(wiped) == {}
        assert wiped.checkpoint() is None
    backend = open_backend()
    backend.write(put(b=b"2"), Checkpoint(1, 0))
    assert entries(backend) == put(b=b"2")


def of(time: int, *keys: bytes) -> Changes:
    return dict.fromkeys(keys, at(time))


def test_an_entry_leaves_its_window_exactly_when_stream_time_has_passed_it(
    open_window: OpenBackend,
) -> None:
    backend = open_window()
    backend.write(of(10_000, b"a"), Checkpoint(1, 0, 10_000))
    backend.write(of(10_999, b"b"), Checkpoint(2, 0, 10_999))
    assert backend.get_many([b"a", b"b"]) == [at(10_000), at(10_999)]
    backend.write({}, Checkpoint(3, 0, 11_000))
    assert backend.get_many([b"a", b"b"]) == [None, at(10_999)]
    assert entries(backend) == {b"b": at(10_999)}


def test_stream_time_never_goes_back_and_outlives_a_reopening(open_window: OpenBackend) -> None:
    backend = open_window()
    backend.write(of(10_000, b"a"), Checkpoint(1, 0, 10_000))
    backend.write({}, Checkpoint(2, 0, 11_000))
    assert open_window().get(b"a") is None


def test_whole_segments_are_dropped_as_stream_time_passes(
    open_window: OpenBackend, open_tables: OpenTables
) -> None:
    backend = open_window()
    for time in range(10_000, 20_000, 100):
        backend.write(of(time, b"%d" % time), Checkpoint(1, 0, time))
    assert [key for key, _ in backend.range(b"", b"\xff")] == [
        b"%d" % time for time in range(19_000, 20_000, 100)
    ]
    assert list(open_tables().numbers()) == [18, 19]


def test_a_put_into_an_ended_segment_leaves_nothing_and_an_expired_one_is_hidden(
    open_window: OpenBackend, open_tables: OpenTables
) -> None:
    backend = open_window()
    backend.write(of(8_999, b"a"), Checkpoint(1, 0, 10_999))
    assert list(open_tables().numbers()) == []
    backend = open_window()
    backend.write({**of(8_999, b"a"), **of(10_000, b"b"), b"c": None}, Checkpoint(1, 0, 10_999))
    assert list(open_tables().numbers()) == [10]
    backend = open_window()
    backend.write(of(10_001, b"d"), Checkpoint(1, 0, 11_001))
    assert backend.get(b"d") is None


def test_a_segment_ends_with_its_last_entry(
    open_window: OpenBackend, open_tables: OpenTables
) -> None:
    backend = open_window()
    backend.write(of(10_999, b"a"), Checkpoint(1, 0, 11_998))
    assert backend.get(b"a") == at(10_999)
    backend.write({}, Checkpoint(2, 0, 11_999))
    assert list(open_tables().numbers()) == []


def test_one_write_files_each_entry_under_its_own_time(
    open_window: OpenBackend, open_tables: OpenTables
) -> None:
    backend = open_window()
    changes = {**of(10_999, b"a"), **of(11_000, b"b"), **of(10_001, b"c"), **of(11_500, b"d")}
    backend.write(changes, Checkpoint(1, 0, 11_500))
    assert entries(backend) == {key: changes[key] for key in (b"a", b"b", b"d")}
    assert list(open_tables().numbers()) == [10, 11]
    backend = open_window()
    backend.write({}, Checkpoint(2, 0, 11_999))
    assert backend.get_many([b"a", b"b"]) == [None, changes[b"b"]]
    assert list(open_tables().numbers()) == [11]


def test_a_store_without_changes_has_no_records_for_its_changelog(
    open_backend: OpenBackend,
) -> None:
    assert not open_backend().to_changelog({})


def test_a_store_is_what_its_changelog_tells(open_backend: OpenBackend) -> None:
    backend = open_backend()
    some = {b"%05d" % i: at(1, b"x" * (i % 3)) for i in range(5_000)}
    log: list[tuple[bytes, bytes | None]] = []
    for changes in (some, {b"00007": None, b"new": at(2)}, {b"00008": at(3, b"again"), b"": at(1)}):
        backend.write(changes, Checkpoint(1, 0, 5))
        log += backend.to_changelog(changes)
    expected = entries(backend)
    assert len(expected) == 5_001
    backend.wipe()
    backend.write(backend.from_changelog(log), Checkpoint(1, 0, 5))
    assert entries(backend) == expected


def test_the_newest_of_two_entries_of_a_key_is_found_and_a_deletion_takes_both(
    open_window: OpenBackend,
) -> None:
    backend = open_window()
    backend.write(of(10_600, b"a", b"b"), Checkpoint(1, 0, 10_600))
    backend.write(of(11_200, b"a"), Checkpoint(2, 0, 11_200))
    assert backend.get_many([b"a", b"b"]) == [at(11_200), at(10_600)]
    assert entries(backend) == {b"a": at(11_200), b"b": at(10_600)}
    backend.write({b"a": None}, Checkpoint(3, 0, 11_200))
    assert backend.get(b"a") is None


def test_a_window_is_what_its_changelog_tells_also_in_several_sittings(
    open_window: OpenBackend,
) -> None:
    backend = open_window()
    log: list[tuple[int, tuple[bytes, bytes | None]]] = []
    for now, changes in (
        (9_500, of(9_500, b"a", b"b", b"c", b"d")),
        (10_200, {**of(9_999, b"e"), **of(10_000, b"f", b"g"), b"c": None}),
        (10_400, of(10_400, b"b")),
        (10_900, {**of(9_500, b"d"), b"g": None}),
    ):
        backend.write(changes, Checkpoint(1, 0, now))
        log += [(now, record) for record in backend.to_changelog(changes)]
    expected = entries(backend)
    assert sorted(expected) == [b"b", b"e", b"f"]
    backend.wipe()
    for now, record in log:
        backend.write(backend.from_changelog([record]), Checkpoint(1, 0, now))
    assert entries(backend) == expected


KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"\xff\x01"])
WRITES = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=2)), max_size=12)


@pytest.mark.long
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rounds=st.lists(st.tuples(WRITES, WRITES, st.booleans()), max_size=4))
def test_an_overlay_shows_its_own_writes_and_undoes_them(
    rounds: list[tuple[list[tuple[bytes, bytes | None]], list[tuple[bytes, bytes | None]], bool]],
    open_tables: OpenTables,
) -> None:
    backend = KeyValueBackend(open_tables())
    backend.wipe()
    overlay, model = Overlay(backend), dict[bytes, bytes]()
    for kept, undone, commit in rounds:
        overlay.mark()
        for writes in (kept, undone):
            _apply(overlay, writes)
            if writes is kept:
                overlay.mark()
                _model(model, writes)
                list(overlay.range(b"", b"b"))
        overlay.undo()
        if commit:
            backend.write(overlay.changes, Checkpoint(1, 0))
            overlay.drop()
        assert list(overlay.range(b"", b"\xff\xff")) == sorted(model.items())
        assert list(overlay.range(b"b", b"d")) == sorted(
            (k, v) for k, v in model.items() if b"b" <= k < b"d"
        )
        assert overlay.get_many([b"a", b"d"]) == [model.get(b"a"), model.get(b"d")]
        assert overlay.get(b"c") == model.get(b"c")


def _apply(overlay: Overlay, writes: list[tuple[bytes, bytes | None]]) -> None:
    for key, value in writes:
        if value is None:
            overlay.delete(key)
        else:
            overlay.put(key, value)


def _model(model: dict[bytes, bytes], writes: list[tuple[bytes, bytes | None]]) -> None:
    for key, value in writes:
        if value is None:
            model.pop(key, None)
        else:
            model[key] = value

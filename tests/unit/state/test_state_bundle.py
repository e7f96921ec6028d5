"""Bundles: what they tell is what was to be told, and compaction takes none away."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from streams.state.bundle import bundles, changes_in

CHANGES = st.dictionaries(st.binary(max_size=20), st.none() | st.binary(max_size=24))


@given(CHANGES)
@example({b"bundle:": b"0"})
def test_bundles_tell_the_changes_in_their_order(changes: dict[bytes, bytes | None]) -> None:
    told = [change for record in bundles(changes) for change in changes_in(*record)]
    assert told == list(changes.items())


def test_many_changes_are_several_bundles_none_of_them_large() -> None:
    changes = {b"%016d" % i: b"%08d" % i for i in range(10_000)}
    written = list(bundles(changes))
    assert len(written) == 3
    assert max(len(body) for _, body in written) < 256 * 1024
    told = [change for record in written for change in changes_in(*record)]
    assert told == list(changes.items())


@given(st.lists(CHANGES, max_size=5))
def test_compaction_takes_no_change_away(batches: list[dict[bytes, bytes | None]]) -> None:
    written = [record for changes in batches for record in bundles(changes)]
    last_of_each_key = {key: at for at, (key, _) in enumerate(written)}
    compacted = [written[at] for at in sorted(last_of_each_key.values())]
    assert _folded(compacted) == _folded(written)


def test_a_put_that_is_alone_stands_under_its_key_and_a_deletion_does_not() -> None:
    """Compaction drops a key's deletion after a time, and would leave an older bundle's entry."""
    assert list(bundles({b"a": b"1"})) == [(b"a", b"1")]
    ((key, value),) = bundles({b"a": None})
    assert (key != b"a", bool(value)) == (True, True)


def _folded(records: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    folded: dict[bytes, bytes | None] = {}
    for record in records:
        folded.update(changes_in(*record))
    return {key: value for key, value in folded.items() if value is not None}

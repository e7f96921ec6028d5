"""A store of artifacts keeps whole objects, and says clearly where it cannot."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from streams.artifacts.local import LocalStore
from streams.artifacts.reference import Reference
from streams.artifacts.store import ArtifactGone, NotPermitted, StoreUnavailable, open_store
from streams.errors import ConfigError, PermanentError


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "artifacts")


def test_an_object_is_read_as_it_was_written_and_listed_in_its_folder(store: LocalStore) -> None:
    store.put("acme/job_1/art_1", [b"one", b"two"])
    store.put("acme/job_1/art_1", [b"three"])  # a repeated call replaces its own
    store.put("acme/job_2/art_2", [])
    assert store.get("acme/job_1/art_1") == b"three"
    assert store.get("acme/job_1/art_1", 2) == b"th"
    assert {(e.path, e.size) for e in store.entries("acme/job_1/")} == {("acme/job_1/art_1", 5)}
    assert {e.path for e in store.entries()} == {"acme/job_1/art_1", "acme/job_2/art_2"}
    assert all(e.written_at > 0 for e in store.entries())


def test_a_removed_object_is_gone_with_its_empty_folders(store: LocalStore, tmp_path: Path) -> None:
    store.put("acme/job_1/art_1", [b"one"])
    for _ in range(2):  # the second time there is nothing any more
        store.remove("acme/job_1/art_1")
    with pytest.raises(ArtifactGone, match="acme/job_1/art_1"):
        store.get("acme/job_1/art_1")
    assert list((tmp_path / "artifacts").iterdir()) == []


def test_an_object_that_is_not_written_whole_is_not_there(
    store: LocalStore, tmp_path: Path
) -> None:
    def broken() -> Iterator[bytes]:
        yield b"one"
        raise OSError("the disk is full")

    with pytest.raises(StoreUnavailable, match="the disk is full"):
        store.put("acme/job_1/art_1", broken())
    assert list(store.entries()) == []


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnavailable, match="file"):
        LocalStore(tmp_path / "file").put("acme/job_1/art_1", [b"one"])


@pytest.mark.parametrize(
    ("location", "told"),
    [
        (None, "set TIDEGATE_ARTIFACTS"),
        ("", "set TIDEGATE_ARTIFACTS"),
        ("relative/path", "give file:///a/directory"),
        ("file://host/path", "give file:///a/directory"),
        ("https://user:secret@host/path", "give file:///a/directory"),
        ("s3:///folder", "give file:///a/directory"),
        ("s3://key:secret@bucket/folder", "AWS_ACCESS_KEY_ID"),
        ("s3://bucket/folder?retries=3", "unknown options retries"),
        ("s3://bucket/folder?endpoint=host:9000", "http://host:port"),
    ],
)
def test_a_location_that_names_no_store_is_refused(location: str | None, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as refused:
        open_store(location)
    assert "secret" not in str(refused.value)


def test_a_url_of_a_file_names_a_directory(tmp_path: Path) -> None:
    open_store(f"file://{tmp_path}/kept").put("acme/job_1/art_1", [b"one"])
    assert (tmp_path / "kept" / "acme" / "job_1" / "art_1").read_bytes() == b"one"


@pytest.mark.parametrize("path", ["acme/job_1/", "acme/job_1/" + "x" * 300, "acme/job_1/art_1/x"])
def test_a_place_where_no_object_can_lie_is_empty(store: LocalStore, path: str) -> None:
    store.put("acme/job_1/art_1", [b"one"])
    with pytest.raises(ArtifactGone):
        store.get(path)


@pytest.mark.parametrize("field", ["artifact", "of", "name", "content_type"])
@pytest.mark.parametrize("text", ["\ud800", ""])
def test_a_reference_that_nobody_saved_is_refused(field: str, text: str) -> None:
    given = {"artifact": "art", "of": "job", "name": "n", "size": 1, "content_type": "t"}
    with pytest.raises(PermanentError):
        Reference.of_json({**given, field: text})


@pytest.mark.parametrize(("name", "refused"), [("scandir", "job_1"), ("stat", "art_1")])
def test_what_may_not_be_read_is_told_and_hides_nothing_else(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, name: str, refused: str
) -> None:
    """Workers of another user write what only they can read: nothing would be swept, silently."""
    for path in ("acme/job_1/art_1", "acme/job_2/art_2"):
        store.put(path, [b"one"])
    real = getattr(os, name)

    def for_some(path: object, **given: object) -> object:
        if str(path).endswith(refused):
            refuses()
        return real(path, **given)

    monkeypatch.setattr(os, name, for_some)
    with capture_logs() as lines:
        assert [each.path for each in store.entries()] == ["acme/job_2/art_2"]
    assert "Permission denied" in lines[0]["reason"]


def test_an_object_that_may_not_be_removed_is_told(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("acme/job_1/art_1", [b"one"])
    monkeypatch.setattr(os, "unlink", refuses)
    monkeypatch.setattr(os, "stat", refuses)
    with pytest.raises(NotPermitted, match="Permission denied"):
        store.remove("acme/job_1/art_1")


def refuses(*_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_an_object_outlives_a_loss_of_power(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folders are durable, too: Kafka may have the reference on other machines."""
    synced, fsync = list[bool](), os.fsync

    def noted(descriptor: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    store.put("acme/job_1/art_1", [b"one"])
    assert synced == [False, True, True, True]


def test_a_file_system_that_makes_no_folders_durable_keeps_objects_too(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_files(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", only_files)
    store.put("acme/job_1/art_1", [b"one"])
    assert store.get("acme/job_1/art_1") == b"one"

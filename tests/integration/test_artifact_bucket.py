"""Artifacts in a bucket: a server with S3's API, asked through the store as workers ask it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest
from moto.server import ThreadedMotoServer

from streams.artifacts.objects import ObjectStore
from streams.artifacts.store import ArtifactGone, ArtifactStore, StoreUnavailable, open_store

LARGE = bytes(range(256)) * 40_000  # more than one part of an upload has
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    urlopen(Request(f"{url}/kept", method="PUT"), timeout=30)  # makes the bucket
    yield url
    server.stop()


@pytest.fixture
def store(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> ArtifactStore:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    return open_store(f"s3://kept/some/folder?region=us-east-1&endpoint={endpoint}")


def test_an_object_is_read_as_it_was_written_and_listed(store: ArtifactStore) -> None:
    store.put("acme/job_1/art_1", [b"one", LARGE])
    store.put("acme/job_1/art_1", [LARGE])  # a repeated call replaces its own
    store.put("acme/job_2/art_2", [])
    assert store.get("acme/job_1/art_1") == LARGE
    assert store.get("acme/job_1/art_1", 300) == LARGE[:300]
    assert store.get("acme/job_2/art_2") == b""
    found = {(e.path, e.size) for e in store.entries("acme/job_1/")}
    assert found == {("acme/job_1/art_1", len(LARGE))}
    assert {e.path for e in store.entries()} == {"acme/job_1/art_1", "acme/job_2/art_2"}
    assert all(e.written_at > 1_000_000_000_000 for e in store.entries())


def test_a_removed_object_is_gone(store: ArtifactStore) -> None:
    store.put("acme/job_3/art_3", [b"one"])
    for _ in range(2):  # the second time there is nothing any more
        store.remove("acme/job_3/art_3")
    with pytest.raises(ArtifactGone, match="acme/job_3/art_3"):
        store.get("acme/job_3/art_3")
    assert list(store.entries("acme/job_3/")) == []


def test_the_last_removed_object_of_a_job_leaves_nothing_in_the_bucket(
    store: ArtifactStore, endpoint: str
) -> None:
    paths = ["acme/job_5/art_1", "acme/job_5/art_2"]
    for path in paths:
        store.put(path, [b"one"])
    store.remove(paths[0])
    assert store.get(paths[1]) == b"one"
    store.remove(paths[1])
    with urlopen(f"{endpoint}/kept?list-type=2&prefix=some/folder/acme/job_5", timeout=30) as told:
        assert b"<Key>" not in told.read()


def test_a_listing_takes_no_more_memory_than_the_objects_of_one_tenant(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tenant in ("acme", "globex"):
        store.put(f"{tenant}/job_6/art_6", [b"one"])
    listed, found = [], ObjectStore._found

    def noted(self: ObjectStore, folder: str, *, recursive: bool) -> list[Any]:
        listed.append((folder, recursive))
        return found(self, folder, recursive=recursive)

    monkeypatch.setattr(ObjectStore, "_found", noted)
    assert {"acme/job_6/art_6", "globex/job_6/art_6"} <= {each.path for each in store.entries()}
    assert listed == [("", False), ("acme", True), ("globex", True)]


def test_an_upload_that_breaks_off_leaves_nothing(store: ArtifactStore) -> None:
    def broken() -> Iterator[bytes]:
        yield LARGE
        raise RuntimeError("the tenant was erased")

    with pytest.raises(RuntimeError, match="erased"):
        store.put("acme/job_4/art_4", broken())
    assert list(store.entries("acme/job_4/")) == []


def test_a_bucket_that_is_not_there_is_told(endpoint: str, store: ArtifactStore) -> None:
    other = open_store(f"s3://nowhere/folder?region=us-east-1&endpoint={endpoint}")
    with pytest.raises(StoreUnavailable, match="nowhere"):
        other.put("acme/job_1/art_1", [b"one"])

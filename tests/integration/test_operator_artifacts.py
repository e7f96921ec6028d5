"""Artifacts of jobs, as an operator's client sees them, and their end with their job or tenant."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from support.conditions import PATIENCE_SECONDS, eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import (
    TOKEN,
    Cluster,
    RunningOperator,
    make_cluster,
    make_job,
    running,
)
from support.sealed_artifact import sealed

from streams.artifacts.local import LocalStore
from streams.artifacts.reference import Reference, path_of
from streams.cli.api_client import CallFailed
from streams.serde import keys
from streams.serde.codec import TENANT
from streams.vault.data_key import new_key_record
from streams.vault.key_encryption import local_vault
from streams.vault.keyring import DataKeyring

pytestmark = pytest.mark.broker

CONTENT = os.urandom(600_000)


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    return make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "artifacts")


@pytest.fixture
def operator(cluster: Cluster, tmp_path: Path) -> Iterator[RunningOperator]:
    settings = cluster.settings.model_copy(update={"artifacts": f"file://{tmp_path}/artifacts"})
    with running(settings, cluster.topology) as found:
        found.send("PUT", "/v1/tenants/acme", {"display_name": "Acme"})
        yield found


def saved(cluster: Cluster, store: LocalStore, job_id: str = "job_a") -> Reference:
    """What a job of `acme` has saved, under a data key of that tenant."""
    vault = local_vault(cluster.vault_key)
    record = new_key_record(vault, "acme")
    key = keys.tenant_key("acme", "data_key", record.id)
    cluster.write(("tenants", cluster.home("acme"), key, TENANT.encode(record)))
    book = DataKeyring(vault)
    book.apply(key, TENANT.encode(record))
    reference = Reference("art_1", job_id, "bill.pdf", len(CONTENT), "application/pdf")
    store.put(path_of("acme", job_id, "art_1"), sealed(book, "acme", reference, CONTENT))
    return reference


def content(operator: RunningOperator, path: str) -> tuple[int, dict[str, str], bytes]:
    request = Request(operator.url + path, headers={"Authorization": f"Bearer {TOKEN}"})
    try:
        with urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except HTTPError as error:
        return error.code, dict(error.headers), error.read()


def test_what_a_job_saved_is_listed_and_read_for_no_browser(
    cluster: Cluster, operator: RunningOperator, store: LocalStore
) -> None:
    reference = saved(cluster, store)
    store.put(path_of("acme", "job_a", ".unfinished-x"), [b"still written"])
    cluster.write(make_job("job_a"), make_job("job_b"))
    operator.shows("/v1/jobs/job_b", status="pending")
    (listed,) = operator.get("/v1/jobs/job_a/artifacts")["artifacts"]
    assert listed.items() >= reference.as_json().items()
    assert operator.get("/v1/jobs/job_b/artifacts") == {"artifacts": []}
    status, headers, body = content(operator, "/v1/jobs/job_a/artifacts/art_1")
    assert (status, body == CONTENT) == (200, True)
    assert headers["Content-Disposition"].startswith("attachment")
    assert content(operator, "/v1/jobs/job_a/artifacts/art_2")[0] == 404
    assert content(operator, "/v1/jobs/job_b/artifacts/art_1")[0] == 404
    assert content(operator, "/v1/jobs/job_c/artifacts/art_1")[0] == 404
    assert operator.plain("/v1/jobs/job_a/artifacts/art_1")[0] == 401


def test_a_damaged_one_is_told(
    cluster: Cluster, operator: RunningOperator, store: LocalStore
) -> None:
    saved(cluster, store)
    path = path_of("acme", "job_a", "art_1")
    store.put(path, [store.get(path)[:-1]])
    cluster.write(make_job("job_a"))
    operator.shows("/v1/jobs/job_a", status="pending")
    status, _, body = content(operator, "/v1/jobs/job_a/artifacts/art_1")
    assert (status, b"damaged" in body) == (410, True)


def test_erasing_a_tenant_removes_its_artifacts(
    cluster: Cluster, operator: RunningOperator, store: LocalStore
) -> None:
    saved(cluster, store)
    cluster.write(make_job("job_a"))
    operator.shows("/v1/jobs/job_a", status="pending")
    operator.send("POST", "/v1/tenants/acme/erase", {"note": "case 4711"})
    assert list(store.entries()) == []
    assert content(operator, "/v1/jobs/job_a/artifacts/art_1")[0] == 410


def test_artifacts_of_jobs_that_are_gone_are_removed_and_young_ones_stay(
    cluster: Cluster, store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.write(make_job("job_a"))
    for job_id in ("job_a", "job_gone"):
        saved(cluster, store, job_id)
        os.utime(tmp_path / "artifacts" / path_of("acme", job_id, "art_1"), (1, 1))
    saved(cluster, store, "job_young")
    (tmp_path / "artifacts" / "notes.txt").write_text("of somebody else")
    os.utime(tmp_path / "artifacts" / "notes.txt", (1, 1))
    monkeypatch.setattr("streams.api.artifacts.sweep.EVERY_SECONDS", 0.05)
    kept = {"notes.txt", path_of("acme", "job_a", "art_1"), path_of("acme", "job_young", "art_1")}
    with running(
        cluster.settings.model_copy(update={"artifacts": f"file://{tmp_path}/artifacts"}),
        cluster.topology,
    ):
        eventually(lambda: {e.path for e in store.entries()} == kept, what="the sweep")


def test_an_operator_without_a_place_says_what_to_set(cluster: Cluster) -> None:
    with running(cluster.settings, cluster.topology) as operator:
        cluster.write(make_job("job_a"))
        operator.shows("/v1/jobs/job_a", status="pending")
        with pytest.raises(CallFailed, match="TIDEGATE_ARTIFACTS"):
            operator.get("/v1/jobs/job_a/artifacts")

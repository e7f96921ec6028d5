"""Tenants, sources and their secrets through the operator's API, on a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.conditions import PATIENCE_SECONDS
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import TOKEN, Cluster, RunningOperator, make_cluster, running

from streams.cli.api_client import CallFailed, call, look
from streams.serde.codec import TENANT
from streams.serde.records import SigningKey
from streams.tenants.source_keys import MOST_KEYS, open_secret
from streams.vault.key_encryption import local_vault

pytestmark = pytest.mark.broker

SECRET = "not-to-be-seen-anywhere"


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    return make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)


@pytest.fixture
def operator(cluster: Cluster) -> Iterator[RunningOperator]:
    with running(cluster.settings, cluster.topology) as found:
        found.send("PUT", "/v1/tenants/acme", {"display_name": "Acme"})
        yield found


def test_a_source_s_secret_is_sealed_and_shown_to_nobody(
    cluster: Cluster, operator: RunningOperator, capfd: pytest.CaptureFixture[str]
) -> None:
    path = "/v1/tenants/acme/sources/zendesk"
    body = {"scheme": "zendesk", "secret": SECRET, "mapping": {"event_type": "type"}}
    put = operator.send("PUT", path, body)
    assert put == operator.get(path)
    assert (put["scheme"], put["secrets"], put["disabled"]) == ("zendesk", 1, False)
    assert operator.get("/v1/tenants/acme")["sources"] == ["zendesk"]
    with pytest.raises(CallFailed, match="scheme") as refused:
        operator.send("PUT", path, body | {"scheme": "md5"})
    record = TENANT.decode(cluster.read("tenants")[-1].value())
    [key] = record.keys
    vault = local_vault(cluster.vault_key)
    assert open_secret(vault, record, key.sealed or b"") == SECRET.encode()
    told = [json.dumps(put), str(refused.value), *capfd.readouterr()]
    kept = [m.value() or b"" for m in cluster.read("tenants")]
    files = [f for f in cluster.settings.data_dir.rglob("*") if f.is_file()]
    kept += [file.read_bytes() for file in files]
    assert len(kept) >= 4
    assert not [each for each in told if SECRET in each]
    assert not [each for each in kept if SECRET.encode() in each]


def test_a_source_s_secret_can_be_referred_to_and_the_record_holds_the_reference_alone(
    cluster: Cluster, operator: RunningOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    for name, reference in {"a": "env:HOOK_SECRET", "b": "file:/not/on/this/host"}.items():
        body = {"scheme": "github", "secret_ref": reference}
        put = operator.send("PUT", f"/v1/tenants/acme/sources/{name}", body)
        assert (put["secrets"], put["secret_ref"]) == (1, reference)
    values = [m.value() or b"" for m in cluster.read("tenants")]
    found = {r.id: r.keys for r in map(TENANT.decode, values) if r.kind == "source"}
    assert found == {
        "a": (SigningKey(None, "env:HOOK_SECRET"),),
        "b": (SigningKey(None, "file:/not/on/this/host"),),
    }
    assert not [value for value in values if SECRET.encode() in value]
    gone = operator.send("DELETE", "/v1/tenants/acme/sources/a")
    assert (gone["disabled"], gone["secrets"], gone["secret_ref"]) == (True, 0, None)


def test_a_rotation_puts_the_new_secret_first_and_gives_the_old_one_an_end(
    cluster: Cluster, operator: RunningOperator
) -> None:
    path = "/v1/tenants/acme/sources/shop"
    operator.send("PUT", path, {"scheme": "github", "secret": "first"})
    before = datetime.now(UTC)
    operator.send("POST", f"{path}/rotate", {"secret": "second", "overlap_seconds": 0})
    rotated = operator.send(
        "POST", f"{path}/rotate", {"secret_ref": "env:THIRD", "overlap_seconds": 3600}
    )
    assert rotated == operator.get(path)
    assert (rotated["scheme"], rotated["secrets"]) == ("github", 2)
    assert rotated["secret_ref"] == "env:THIRD"
    [old] = rotated["old_secrets"]
    ends = datetime.fromisoformat(old["valid_until"]) - before
    assert timedelta(seconds=3599) < ends < timedelta(seconds=3600 + PATIENCE_SECONDS)
    record = TENANT.decode(cluster.read("tenants")[-1].value())
    newest, older = record.keys
    assert (newest.reference, newest.until) == ("env:THIRD", None)
    assert open_secret(local_vault(cluster.vault_key), record, older.sealed or b"") == b"second"


def test_a_source_set_without_a_secret_keeps_its_own_and_their_ends(
    cluster: Cluster, operator: RunningOperator
) -> None:
    path, body = "/v1/tenants/acme/sources/shop", {"scheme": "github"}
    with pytest.raises(CallFailed, match="only a live source of the same scheme keeps its own"):
        operator.send("PUT", path, body)
    operator.send("PUT", path, body | {"secret": "first"})
    operator.send("POST", f"{path}/rotate", {"secret": "gone", "overlap_seconds": 0})
    before = operator.send("POST", f"{path}/rotate", {"secret": "now", "overlap_seconds": 3600})
    mended = operator.send("PUT", path, body | {"mapping": {"subject": "repository.name"}})
    changed = ("mapping", "updated_at")
    assert {k: v for k, v in mended.items() if k not in changed} == {
        k: v for k, v in before.items() if k not in changed
    }
    assert mended["mapping"] == {"subject": "repository.name"}
    record = TENANT.decode(cluster.read("tenants")[-1].value())
    vault = local_vault(cluster.vault_key)
    assert [open_secret(vault, record, k.sealed or b"") for k in record.keys] == [b"now", b"gone"]
    with pytest.raises(CallFailed, match="of the same scheme"):
        operator.send("PUT", path, {"scheme": "intercom"})
    operator.send("DELETE", path)
    with pytest.raises(CallFailed, match="only a live source"):
        operator.send("PUT", path, body)


def test_tenants_and_their_sources_are_listed_by_name(operator: RunningOperator) -> None:
    for tenant_id in ("zeta", "bolt"):
        operator.send("PUT", f"/v1/tenants/{tenant_id}")
    for name in ("b", "a"):
        operator.send(
            "PUT", f"/v1/tenants/bolt/sources/{name}", {"scheme": "github", "secret": "s"}
        )
    operator.send("DELETE", "/v1/tenants/zeta")
    whole = operator.get("/v1/tenants")
    assert [(t["tenant_id"], t["disabled"], t["sources"]) for t in whole["tenants"]] == [
        ("acme", False, []),
        ("bolt", False, ["a", "b"]),
        ("zeta", True, []),
    ]
    first = operator.get("/v1/tenants", limit="2")
    rest = operator.get("/v1/tenants", limit="2", cursor=first["next_cursor"])
    assert first["tenants"] + rest["tenants"] == whole["tenants"]
    assert rest["next_cursor"] is None
    listed = operator.get("/v1/tenants/bolt/sources")["sources"]
    assert listed == [operator.get(f"/v1/tenants/bolt/sources/{name}") for name in ("a", "b")]
    with pytest.raises(CallFailed, match="no tenant 'none'"):
        operator.get("/v1/tenants/none/sources")


def test_rotations_of_one_moment_are_all_kept_and_too_many_are_refused(
    cluster: Cluster, operator: RunningOperator
) -> None:
    path = "/v1/tenants/acme/sources/shop"
    operator.send("PUT", path, {"scheme": "github", "secret": "0"})

    def rotate(number: int) -> int:
        body = {"secret": str(number), "overlap_seconds": 60}
        return int(operator.send("POST", f"{path}/rotate", body)["secrets"])

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(rotate, range(1, MOST_KEYS))) == list(range(2, MOST_KEYS + 1))
    with pytest.raises(CallFailed, match=r"8 secrets are in use already: the next one ends at 20"):
        rotate(MOST_KEYS)
    operator.send("DELETE", path)
    with pytest.raises(CallFailed, match="a disabled source has no secret"):
        rotate(1)


def test_a_tenant_s_rate_is_set_shown_and_taken_away(operator: RunningOperator) -> None:
    rate = {"count": 600, "seconds": 60}
    assert operator.send("PUT", "/v1/tenants/acme", {"rate": rate})["rate"] == rate
    with pytest.raises(CallFailed, match=r"rate\.count"):
        operator.send("PUT", "/v1/tenants/acme", {"rate": {"count": -1, "seconds": 60}})
    assert operator.get("/v1/tenants/acme")["rate"] == rate
    assert operator.send("PUT", "/v1/tenants/acme", {})["rate"] is None


def test_of_two_operators_that_change_what_they_both_saw_one_wins(
    cluster: Cluster, operator: RunningOperator, tmp_path: Path
) -> None:
    path, rounds = "/v1/tenants/acme", 5
    winners = ["Acme"]
    other = cluster.settings.model_copy(update={"instance": "b", "data_dir": tmp_path / "b"})
    with running(other, cluster.topology) as second, ThreadPoolExecutor(4) as pool:
        second.shows(path, display_name="Acme")
        for turn in range(rounds):
            _, seen = look(operator.url, TOKEN, path)
            names = [f"{turn}-{n}" for n in range(4)]

            def change(name: str, seen: str | None = seen) -> str | CallFailed:
                of = (operator, second)[int(name[-1]) % 2]
                body, headers = {"display_name": name}, {"If-Match": str(seen)}
                try:
                    put = call(of.url, TOKEN, "PUT", path, body=body, headers=headers)
                except CallFailed as error:
                    return error
                return str(put["display_name"])

            ends = list(pool.map(change, names))
            won = [end for end in ends if isinstance(end, str)]
            lost = {end.name for end in ends if isinstance(end, CallFailed)}
            assert (len(won), lost) == (1, {"precondition-failed"})
            winners += won
            for each in (operator, second):
                each.shows(path, display_name=won[0])
            assert look(operator.url, TOKEN, path)[1] == look(second.url, TOKEN, path)[1] != seen
    records = [TENANT.decode(m.value() or b"") for m in cluster.read("tenants")]
    written = [json.loads(r.body)["display_name"] for r in records if r.kind == "tenant"]
    # The broker may have compacted older ones away meanwhile.
    assert written == winners[-len(written) :]


def test_one_of_two_operators_creates_what_both_are_to_create(
    cluster: Cluster, operator: RunningOperator, tmp_path: Path
) -> None:
    path, absent = "/v1/tenants/acme/sources/shop", {"If-None-Match": "*"}
    other = cluster.settings.model_copy(update={"instance": "b", "data_dir": tmp_path / "b"})
    with running(other, cluster.topology) as second, ThreadPoolExecutor(2) as pool:
        second.shows("/v1/tenants/acme", display_name="Acme")

        def create(of: RunningOperator) -> str:
            body = {"scheme": "github", "secret": of.url}
            try:
                call(of.url, TOKEN, "PUT", path, body=body, headers=absent)
            except CallFailed as error:
                return error.name
            return of.url

        ends = set(pool.map(create, (operator, second)))
    assert "precondition-failed" in ends
    (record,) = [
        r for m in cluster.read("tenants") if (r := TENANT.decode(m.value() or b"")).id == "shop"
    ]
    assert ends - {"precondition-failed"} == {
        open_secret(local_vault(cluster.vault_key), record, record.keys[0].sealed or b"").decode()
    }

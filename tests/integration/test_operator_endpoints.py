"""Outgoing endpoints, their keys and headers through the operator's API, on a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.conditions import eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import Cluster, RunningOperator, make_cluster, running

from streams.api.endpoints import changes
from streams.api.jobs import submit
from streams.cli.api_client import CallFailed
from streams.delivery.message.signing import new_key_pair, new_secret
from streams.serde import keys
from streams.serde.codec import ENDPOINT_STATE, TENANT
from streams.serde.delivery_records import EndpointState, Recovery
from streams.serde.records import TenantRecord
from streams.tenants.endpoints import endpoint_headers, endpoint_settings, open_key
from streams.vault.key_encryption import local_vault

pytestmark = pytest.mark.broker

PATH = "/v1/tenants/acme/endpoints/crm"
URL = "https://93.184.216.34/hooks"
HEADERS = {"Authorization": "Bearer not-to-be-seen", "X-Team": "crm"}


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    return make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)


@pytest.fixture
def operator(cluster: Cluster) -> Iterator[RunningOperator]:
    with running(cluster.settings, cluster.topology) as found:
        found.send("PUT", "/v1/tenants/acme", {"display_name": "Acme"})
        yield found


def standing(cluster: Cluster) -> dict[str, TenantRecord]:
    """The last records of endpoints by their ids."""
    found: dict[str, TenantRecord] = {}
    for message in cluster.read("tenants"):
        _, kind, name = keys.split(message.key() or b"")
        if kind == "endpoint" and message.value() is not None:
            found[name] = TENANT.decode(message.value())
        elif kind == "endpoint":
            found.pop(name, None)
    return found


def secrets(cluster: Cluster, name: str = "crm") -> list[str]:
    record, vault = standing(cluster)[name], local_vault(cluster.vault_key)
    return [open_key(vault, record, key.sealed or b"").decode() for key in record.keys]


def without_times(endpoint: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in endpoint.items() if k not in ("secret", "updated_at")}


def test_an_endpoint_gets_a_secret_that_is_shown_once_and_keeps_it(
    cluster: Cluster, operator: RunningOperator
) -> None:
    made = operator.send("PUT", PATH, {"url": URL, "events": ["order.*", "job.dead"]})
    assert made["secret"].startswith("whsec_")
    assert secrets(cluster) == [made["secret"]]
    assert operator.get(PATH) == {k: v for k, v in made.items() if k != "secret"}
    assert (made["events"], made["sources"], made["enabled"]) == (
        ["order.*", "job.dead"],
        ["*"],
        True,
    )
    assert made["keys"] == [{"kind": "v1", "secret_ref": None, "public_key": None, "until": None}]
    assert made["state"]["circuit"] == "closed"
    again = operator.send("PUT", PATH, {"url": URL, "timeout_seconds": 5})
    assert "secret" not in again
    assert (again["timeout_seconds"], again["events"]) == (5.0, ["*"])
    assert (again["created_at"], again["keys"]) == (made["created_at"], made["keys"])
    assert secrets(cluster) == [made["secret"]]
    kept = endpoint_settings(standing(cluster)["crm"])
    assert (kept.url, kept.timeout_seconds) == (URL, 5.0)


def test_headers_are_sealed_and_only_their_names_are_shown(
    cluster: Cluster, operator: RunningOperator, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = new_secret()
    put = operator.send("PUT", PATH, {"url": URL, "headers": HEADERS, "secret": secret})
    assert put["headers"] == ["Authorization", "X-Team"]
    changed = {"url": URL, "headers": {"Authorization": None, "X-Other": "o"}}
    assert operator.send("PUT", PATH, changed)["headers"] == ["Authorization", "X-Other"]
    operator.send("PUT", PATH, {"url": URL})
    opened = endpoint_headers(local_vault(cluster.vault_key), standing(cluster)["crm"])
    assert opened == {"Authorization": HEADERS["Authorization"], "X-Other": "o"}
    with pytest.raises(CallFailed, match="no value of X-New to keep"):
        operator.send("PUT", PATH, {"url": URL, "headers": {"X-New": None}})
    with pytest.raises(CallFailed, match="Webhook-Id is set by Tidegate"):
        operator.send("PUT", PATH, {"url": URL, "headers": {"Webhook-Id": "not-to-be-seen"}})
    told = [json.dumps(put), *capfd.readouterr()]
    kept = [m.value() or b"" for m in cluster.read("tenants")]
    for hidden in ("not-to-be-seen", secret):
        assert not [each for each in told if hidden in each]
        assert not [each for each in kept if hidden.encode() in each]


def test_the_old_key_signs_beside_the_new_one_until_the_overlap_is_over(
    cluster: Cluster, operator: RunningOperator
) -> None:
    private, public = new_key_pair()
    first = operator.send("PUT", PATH, {"url": URL})["secret"]
    rotated = operator.send("POST", f"{PATH}/rotate", {"secret": private})
    assert "secret" not in rotated
    newest, old = rotated["keys"]
    assert newest == {"kind": "v1a", "secret_ref": None, "public_key": public, "until": None}
    assert old["kind"] == "v1"
    assert old["until"] > rotated["updated_at"]
    assert secrets(cluster) == [private, first]
    referred = operator.send(
        "POST", f"{PATH}/rotate", {"secret_ref": "env:KEY", "overlap_seconds": 60}
    )
    assert referred["keys"][0] == {
        "kind": None,
        "secret_ref": "env:KEY",
        "public_key": None,
        "until": None,
    }
    assert len(referred["keys"]) == 3
    made = operator.send("POST", f"{PATH}/rotate", {"overlap_seconds": 0})
    assert len(made["keys"]) == 3, "those in their overlap keep their ends"
    assert secrets(cluster)[0] == made["secret"]
    assert operator.get(PATH) == {k: v for k, v in made.items() if k != "secret"}
    anew = operator.send("PUT", PATH, {"url": URL, "secret": first})
    assert (len(anew["keys"]), secrets(cluster)) == (1, [first])
    with pytest.raises(CallFailed, match="overlap_seconds"):
        operator.send("POST", f"{PATH}/rotate", {"overlap_seconds": 7 * 86_400 + 1})


def test_a_removed_endpoint_is_gone_and_comes_back_with_another_secret(
    cluster: Cluster, operator: RunningOperator
) -> None:
    made = operator.send("PUT", PATH, {"url": URL, "headers": HEADERS})
    gone = operator.send("DELETE", PATH)
    assert gone == {"tenant_id": "acme", "endpoint_id": "crm", "removed": True}
    assert standing(cluster) == {}
    for method, path in (("GET", PATH), ("DELETE", PATH), ("POST", f"{PATH}/rotate")):
        with pytest.raises(CallFailed, match="no endpoint 'crm': create it with PUT") as refused:
            operator.send(method, path)
        assert refused.value.name == "endpoint-unknown"
    again = operator.send("PUT", PATH, {"url": URL})
    assert (again["headers"], again["secret"] == made["secret"]) == ([], False)
    assert again["created_at"] > made["created_at"]


def test_endpoints_are_listed_by_id_a_page_at_a_time(operator: RunningOperator) -> None:
    operator.send("PUT", "/v1/tenants/bolt")
    for name in ("c", "a", "b"):
        operator.send("PUT", f"/v1/tenants/acme/endpoints/{name}", {"url": URL})
    operator.send("PUT", "/v1/tenants/bolt/endpoints/other", {"url": URL})
    first = operator.get("/v1/tenants/acme/endpoints", limit="2")
    rest = operator.get("/v1/tenants/acme/endpoints", limit="2", cursor=first["next_cursor"])
    assert rest["next_cursor"] is None
    found = first["endpoints"] + rest["endpoints"]
    assert [each["endpoint_id"] for each in found] == ["a", "b", "c"]
    assert found[0] == operator.get("/v1/tenants/acme/endpoints/a")
    with pytest.raises(CallFailed, match="no tenant 'none'"):
        operator.get("/v1/tenants/none/endpoints")
    first = operator.get("/v1/endpoints", limit="3")
    rest = operator.get("/v1/endpoints", limit="3", cursor=first["next_cursor"])
    of_all = [(each["tenant_id"], each["endpoint_id"]) for each in first["endpoints"]]
    assert of_all == [("acme", "a"), ("acme", "b"), ("acme", "c")]
    assert [each["endpoint_id"] for each in rest["endpoints"]] == ["other"]


def test_a_tenant_has_a_bounded_number_of_endpoints(
    operator: RunningOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "MOST_ENDPOINTS", 2)
    path = "/v1/tenants/acme/endpoints"
    for name in ("one", "two", "two"):
        operator.send("PUT", f"{path}/{name}", {"url": URL})
    with pytest.raises(CallFailed, match="has 2 endpoints"):
        operator.send("PUT", f"{path}/three", {"url": URL})
    operator.send("DELETE", f"{path}/one")
    assert operator.send("PUT", f"{path}/three", {"url": URL})["endpoint_id"] == "three"


def test_what_the_stage_knows_of_an_endpoint_is_shown_until_a_put_enables_it(
    cluster: Cluster, operator: RunningOperator
) -> None:
    made = operator.send("PUT", PATH, {"url": URL})
    at = standing(cluster)["crm"].updated_at + 1
    recovery = Recovery("cmd_1", 0, 1_000, ("parked",), 7, None)
    state = EndpointState("acme", "crm", "open", at, at, "gone", at, recovery, at)
    cluster.write(
        (
            "deliveries.endpoints",
            cluster.home("acme"),
            keys.join("acme", "crm"),
            ENDPOINT_STATE.encode(state),
        )
    )
    eventually(
        lambda: operator.get(PATH)["state"]["circuit"] == "open", what="the circuit is shown open"
    )
    shown = operator.get(PATH)
    assert shown["state"]["disabled_because"] == "gone"
    assert shown["state"]["recovery"]["recovered"] == 7
    assert shown["state"]["recovery"]["since"] == "1970-01-01T00:00:00.000Z"
    assert without_times(shown) == without_times(made) | {"state": shown["state"]}
    enabled = operator.send("PUT", PATH, {"url": URL})
    assert (enabled["state"]["disabled_because"], enabled["state"]["circuit"]) == (None, "open")


def test_a_url_is_refused_with_the_address_and_the_setting_that_allows_it(
    operator: RunningOperator,
) -> None:
    def put(url: str) -> None:
        operator.send("PUT", PATH, {"url": url})

    with pytest.raises(CallFailed, match=r"url: 10\.0\.0\.7 .*TIDEGATE_EGRESS_ALLOW_NETWORKS"):
        put("https://10.0.0.7/")
    with pytest.raises(CallFailed, match=r"url: .*TIDEGATE_EGRESS_ALLOW_HTTP"):
        put("http://93.184.216.34/")
    with pytest.raises(CallFailed, match="user or password"):
        put("https://u:p@93.184.216.34/")
    put("https://no.such.name.invalid/")
    job = {"type": "t", "callback_url": "https://169.254.169.254/latest"}
    with pytest.raises(CallFailed, match=r"callback_url: 169\.254\.169\.254"):
        operator.send("POST", "/v1/tenants/acme/jobs", job)
    source = {"scheme": "github", "secret": "s", "callback_url": "https://[::1]/"}
    with pytest.raises(CallFailed, match="callback_url: ::1"):
        operator.send("PUT", "/v1/tenants/acme/sources/shop", source)
    assert operator.get("/v1/tenants/acme/endpoints")["endpoints"][0]["endpoint_id"] == "crm"


@pytest.mark.parametrize("by", ["job", "source"])
def test_the_first_callback_url_sets_up_the_endpoint_that_signs_callbacks(
    cluster: Cluster, operator: RunningOperator, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dispatcher_is_late(*_: object) -> dict[str, object]:
        """There is none; the call would wait for it."""
        return {
            "job_id": "job_a",
            "tenant_id": "acme",
            "type": "t",
            "command_id": "cmd_a",
            "answered": False,
        }

    monkeypatch.setattr(submit, "submitted", dispatcher_is_late)

    def call_back() -> None:
        where = {"callback_url": "https://acme.example/done"}
        if by == "job":
            operator.send("POST", "/v1/tenants/acme/jobs", {"type": "t", **where})
        else:
            body = {"scheme": "github", "secret": "s", **where}
            operator.send("PUT", "/v1/tenants/acme/sources/shop", body)

    path = "/v1/tenants/acme/endpoints/callbacks"
    call_back()
    shown = operator.get(path)
    assert (shown["url"], [key["kind"] for key in shown["keys"]]) == (None, ["v1"])
    assert "secret" not in shown
    rotated = operator.send("POST", f"{path}/rotate", {"overlap_seconds": 0})
    assert secrets(cluster, "callbacks") == [rotated["secret"]]
    call_back()
    assert secrets(cluster, "callbacks") == [rotated["secret"]], "it is set up once"
    with pytest.raises(CallFailed, match="url: must not be given: callbacks serves"):
        operator.send("PUT", path, {"url": URL})
    tuned = operator.send("PUT", path, {"retry": [1, 2], "headers": {"X-Team": "jobs"}})
    assert (tuned["retry"], tuned["headers"]) == ([1.0, 2.0], ["X-Team"])


def test_a_key_rotation_seals_an_endpoint_again_and_an_erasure_deletes_it(
    cluster: Cluster, operator: RunningOperator
) -> None:
    operator.send("PUT", PATH, {"url": URL, "headers": HEADERS})
    before = operator.send("POST", "/v1/vault/rewrap")
    assert (before["endpoints"], before["unchanged"]) == (0, 1)
    done = operator.send("POST", "/v1/tenants/acme/erase", {"note": "case 4711"})
    assert (done["endpoints"], standing(cluster)) == (1, {})
    with pytest.raises(CallFailed, match="was erased"):
        operator.send("PUT", PATH, {"url": URL})

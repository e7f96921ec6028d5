"""Causes on a real broker: a decision outlives the read model, and is in the audit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.conditions import eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import (
    Cluster,
    RunningOperator,
    make_cluster,
    make_job,
    make_letter,
    running,
)

pytestmark = pytest.mark.broker


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    return make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)


def died(cluster: Cluster, number: int, **fields: Any) -> None:
    job = make_job(f"job_{number}", status="dead", code="1.0")
    cluster.write(job, make_letter(job, detail=f"KeyError: 'order {number}'", **fields))


def the_cause(operator: RunningOperator, **expected: Any) -> dict[str, Any]:
    """The one cause, once it is as expected."""

    def matching() -> dict[str, Any] | None:
        (found,) = operator.get("/v1/causes")["causes"] or [{}]
        return found if found.items() >= expected.items() else None

    return eventually(matching, what=f"the cause shows {expected}")


def test_a_decision_outlives_the_read_model_until_a_letter_comes(cluster: Cluster) -> None:
    for number in range(3):
        died(cluster, number)
    with running(cluster.settings, cluster.topology) as operator:
        cause = the_cause(operator, total=3, open=3, state="open")
        path = f"/v1/causes/{cause['id']}"
        done = operator.send("POST", f"{path}/resolve", {"note": "the field is optional now"})
        assert (done["state"], done["decided"]["by"]) == ("resolved", "operator")
        (entry,) = operator.get("/v1/audit", verb="cause.resolve")["audit"]
        assert (entry["target"], entry["note"]) == (cause["id"], "the field is optional now")
        assert (entry["before"]["state"], entry["after"]["state"]) == ("open", "resolved")
    (cluster.settings.data_dir / "operator" / "0" / "read_model.sqlite").unlink()
    with running(cluster.settings, cluster.topology) as operator:
        again = the_cause(operator, id=cause["id"], total=3, state="resolved")
        assert again["decided"] == done["decided"]
        died(cluster, 4)
        the_cause(operator, total=4, state="open", came_back=True)
        discarded = operator.send("POST", "/v1/dlq/job_4/discard", {"note": "x"})
        assert discarded["cause"] == cause["id"]
        the_cause(operator, total=4, open=3, came_back=True)

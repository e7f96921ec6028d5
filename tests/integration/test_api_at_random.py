"""Random requests to a running operator: no 500, and no answer that the document does not have."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from support.api_at_random import Known, Requests
from support.api_document.files import made
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import (
    TOKEN,
    RunningOperator,
    event_job,
    make_cluster,
    make_entry,
    make_event,
    make_job,
    make_letter,
    running,
)

from streams.api import operator_state as app_state

pytestmark = pytest.mark.broker

SOURCE = {"scheme": "github", "secret": "a secret", "mapping": {"event_type": "type"}}
ENDPOINT = {"url": "https://93.184.215.14/hooks", "enabled": False}
KNOWN: Known = {
    "tenant_id": ("acme",),
    "source": ("shop",),
    "endpoint": ("crm",),
    "endpoint_id": ("crm",),
    "job_id": ("job_dead", "job_done"),
    "event_id": ("evt_k1",),
    "id": ("job_dead",),
    "action": ("mail:send/m-1",),
    "workflow_id": ("job_done",),
    "subject": ("events-value", "jobs-value"),
}
"""Only jobs that have ended: a stream of another one would not end."""


@pytest.fixture
def operator(kafka: KafkaUnderTest, tmp_path: Path) -> Iterator[RunningOperator]:
    cluster = make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)
    dead = make_job("job_dead", status="dead", attempts=5, end_reason="attempts_exhausted")
    done = make_job("job_done", status="succeeded", result='{"ok":true}', workflow_id="job_done")
    event = make_event()
    with running(cluster.settings, cluster.topology) as found:
        for path, body in (("", {}), ("/sources/shop", SOURCE), ("/endpoints/crm", ENDPOINT)):
            found.send("PUT", f"/v1/tenants/acme{path}", body)
        entry = make_entry(done, "mail:send/m-1")
        cluster.write(make_job(), dead, make_letter(dead), done, entry, event, event_job(event))
        found.shows("/v1/jobs/job_done", status="succeeded")
        # No stage answers here: a call waits for none of them.
        with patch.object(app_state, "SHOWN_WITHIN_SECONDS", 0.05):
            yield found


def at_random(operator: RunningOperator, examples: int, seconds: float) -> Requests:
    given = os.environ.get("TIDEGATE_API_SEED")
    seed = int(given) if given else secrets.randbelow(2**32)
    requests = Requests(operator.url, TOKEN, made(), KNOWN, seed)
    print(f"TIDEGATE_API_SEED={seed}")
    requests.run(examples, seconds)
    print(f"{requests.made} requests of {requests.operations} calls: {requests.statuses}")
    print(f"the slowest: {requests.slowest}")
    return requests


def test_no_answer_is_a_failure_or_undocumented(operator: RunningOperator) -> None:
    requests = at_random(operator, examples=4, seconds=30)
    assert not requests.faults, requests.told()
    assert requests.made > 0


@pytest.mark.chaos
def test_no_answer_to_many_requests_is_either(operator: RunningOperator) -> None:
    requests = at_random(operator, examples=200, seconds=1_800)
    assert not requests.faults, requests.told()
    assert requests.operations > 100

"""The topics of shared limits, as they are before a release made them."""

from __future__ import annotations

import json

from support.shared_limits import Floor

from streams.topology.limits import Limit

CUSTOMER = Limit("customers", "key", "*", 2, by="input.customer", shared=True)


def test_without_the_topic_of_claims_only_jobs_under_shared_limits_wait() -> None:
    floor = Floor(CUSTOMER)
    place = floor.places[0]
    with place.without_topic("limits.claims"):
        (name,) = place.submit_some(1, input=json.dumps({"customer": "c" * 200}))
        floor.pass_time(1)
        assert place.job(name).status == "pending"
    floor.pass_time(31)
    assert place.job(name).status == "running"

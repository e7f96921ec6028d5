"""A partition with many buckets of shared limits goes on in bounded parts."""

from __future__ import annotations

import itertools
from typing import Any

from support.derived import part
from support.shared_limits import Floor

from streams.dispatcher import permit_rows
from streams.dispatcher.parts import permits
from streams.dispatcher.parts.permit_owners import PermitOwners
from streams.dispatcher.stage import Dispatcher
from streams.dispatcher.workers.roster import Roster
from streams.limits.buckets import Bucket
from streams.limits.permits import Holding
from streams.limits.sharing import Share
from streams.topology.limits import Limit

CUSTOMER = Limit("customers", "key", "*", 2, by="input.customer", shared=True)


def test_what_is_held_and_handed_out_of_many_buckets_is_loaded_in_parts() -> None:
    floor = Floor(CUSTOMER)
    task = floor.driver.task("dispatcher")
    for number in range(5_000):
        bucket = Bucket("customers", "", str(number))
        permit_rows.hold(task.stores["parts"], bucket, Holding(number + 1))
        permit_rows.give(task.stores["parts"], bucket, 1, Share(number + 1, 1, 1, 0, 1))
    fresh = Dispatcher(floor.topology, Roster(floor.topology.leases), 0)
    caps, owners = fresh.shared.queue.limited.caps, part(fresh, PermitOwners)
    loaded = [0]
    for _ in fresh.restored(task.ctx):
        loaded.append(len(caps.permits.holdings) + len(owners._to_share))
    assert loaded[-1] == 10_000
    assert max(now - before for before, now in itertools.pairwise(loaded)) <= 2_000


def test_a_new_bucket_does_not_wait_for_a_look_at_all_that_are_held(monkeypatch: Any) -> None:
    monkeypatch.setattr(permits, "_MOST", 4)
    floor = Floor(CUSTOMER)
    place = floor.places[0]
    for number in range(60):
        place.submit_some(1, input=f'{{"customer": {number}}}')
        floor.pass_time(0.2)
    assert len(place.running()) == 60
    (name,) = place.submit_some(1, input='{"customer": "ann"}')
    floor.driver.advance(0.2)
    assert name in place.running()
    place.end_all()
    floor.pass_time(30)
    assert not floor.rows()

"""G7: every outgoing delivery ends delivered or visibly parked, as seen from outside.

What has to be delivered follows from the topics `events` and `jobs` and from the endpoints that the
demo set; what was delivered is what its receiver took. The queue's rows are compared with both.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator

from streams.demo.verdict.evidence import Evidence
from streams.demo.verdict.finding import Finding
from streams.demo.world.receiver import Hook
from streams.demo.world.subscribers import CALLBACKS, RESTARTED, Place, Subscriber
from streams.serde.delivery_records import Delivery
from streams.serde.delivery_states import DEAD, DELIVERED, PARKED
from streams.serde.job_states import SENT, TERMINAL
from streams.serde.records import Envelope, Job


def owed(
    subscribers: Iterable[Subscriber],
    events: Iterable[Envelope],
    jobs: Iterable[Job],
    called_back: Collection[str],
) -> dict[Place, Subscriber]:
    """Every delivery that has to have a row; `called_back` are jobs with a `callback_url`."""
    by_tenant: dict[str, list[Subscriber]] = defaultdict(list)
    for each in subscribers:
        by_tenant[each.tenant_id].append(each)
    messages = {(e.tenant_id, e.event_id, e.event_type) for e in events}
    ended = [job for job in jobs if job.status in SENT]
    messages |= {(job.tenant_id, _message_id(job), f"job.{job.status}") for job in ended}
    found = {
        (tenant, each.endpoint_id, id_): each
        for tenant, id_, type_ in messages
        for each in by_tenant[tenant]
        if each.wants(type_)
    }
    of_callbacks = [each for each in subscribers if each.place == CALLBACKS]
    for job in ended:
        if job.job_id in called_back and job.status in TERMINAL:
            found |= {(*each.place, _message_id(job)): each for each in of_callbacks}
    return found


def _message_id(job: Job) -> str:
    return f"{job.job_id}_{job.incarnation}_{job.epoch}_{job.status}"


def place_of(row: Delivery) -> Place:
    return row.tenant_id, row.endpoint_id, row.message_id


def deliveries_end(evidence: Evidence) -> Finding:
    """G7: each owed delivery has one row, which ended as it may, and was received if it says so."""
    found = Finding()
    wanted, rows = _owed_by(evidence), _newest(evidence)
    taken = Counter(hook.place for hook in evidence.hooks if hook.taken)
    logged = Counter(seen.value.delivery_id for seen in evidence.records.attempts)
    for place, subscriber in wanted.items():
        name, mine = "/".join(place), rows.get(place, [])
        found.check(len(mine) == 1, f"{name}: {len(mine)} rows in the queue, not one")
        for row in mine:
            _check_end(name, row, subscriber, taken[place], found)
            found.check(
                logged[row.delivery_id] == row.attempts,
                f"{name}: {row.attempts} attempts, but {logged[row.delivery_id]} in their log",
            )
    for place in rows.keys() - wanted.keys():
        found.check(False, f"{'/'.join(place)}: a delivery that nothing explains")
    for hook in evidence.hooks:
        _check_received(hook, place_known=hook.place in rows, found=found)
    return found


def _check_end(
    name: str, row: Delivery, subscriber: Subscriber, taken: int, found: Finding
) -> None:
    found.check(
        row.status in subscriber.ends,
        f"{name}: is {row.status} and not {' or '.join(sorted(subscriber.ends))}",
    )
    if row.status == DELIVERED:
        found.check(taken > 0, f"{name}: is delivered, but its receiver never took it")
    if row.status == PARKED:
        found.check(row.parked_because is not None, f"{name}: is parked without a reason")
    if row.status == DEAD:
        shown = row.last_status is not None or row.last_error is not None
        found.check(shown, f"{name}: is dead without a reason")


def _check_received(hook: Hook, *, place_known: bool, found: Finding) -> None:
    name = "/".join(hook.place)
    found.check(hook.verified, f"{name}: came without a signature that holds")
    found.check(place_known, f"{name}: came under a webhook-id that has no row")


def repeats(hooks: Iterable[Hook]) -> int:
    """How often the receiver took a message that it had taken before, under the same webhook-id."""
    taken = Counter(hook.place for hook in hooks if hook.taken)
    return taken.total() - len(taken)


def not_shown(evidence: Evidence) -> Iterator[str]:
    """What the run had to show of deliveries, and did not."""
    rows = [row for found in _newest(evidence).values() for row in found]
    for status in (DELIVERED, PARKED, DEAD):
        if not any(row.status == status for row in rows):
            yield f"no outgoing delivery ended {status}"
    if not any(row.status == DELIVERED and row.attempts > 1 for row in rows):
        yield "no outgoing delivery failed at first and then arrived"
    if not any(row.status == DELIVERED and row.kind == "callback" for row in rows):
        yield "the delayed job's callback was not delivered"
    at_restarted = {
        seen.value.delivery_id
        for seen in evidence.records.attempts
        if (seen.value.tenant_id, seen.value.endpoint_id) == RESTARTED
        and seen.value.error is not None
    }
    if not at_restarted:
        yield "no attempt met the receiver while it was down"


def _owed_by(evidence: Evidence) -> dict[Place, Subscriber]:
    records = evidence.records
    return owed(
        evidence.scenario.subscribers,
        (seen.value for seen in records.events),
        (seen.value for seen in records.jobs),
        {each.job_id for each in evidence.submitted},
    )


def _newest(evidence: Evidence) -> dict[Place, list[Delivery]]:
    """The newest record of each row, by what the row is for."""
    newest = {seen.value.delivery_id: seen.value for seen in evidence.records.deliveries}
    found: dict[Place, list[Delivery]] = defaultdict(list)
    for row in newest.values():
        found[place_of(row)].append(row)
    return found

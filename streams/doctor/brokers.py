"""Judges the brokers: how many, which version, and the settings on which guarantees rest.

`docs/cluster.md` has the list of settings with the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from streams.doctor.cluster_view import Brokers, BrokerSettings
from streams.doctor.finding import Check, Finding, Unseen, counted
from streams.settings import Settings
from streams.topology.cluster import MIN_IN_SYNC, REPLICATION
from streams.topology.model import Topology

REACH = Check("cluster", "reach")
NUMBER = Check("cluster", "brokers")
CONTROLLER = Check("cluster", "controller")
VERSION = Check("cluster", "version")
SETTINGS = Check("cluster", "broker settings")
INTERNAL = Check("cluster", "internal topics")

_BEFORE_4_0 = "inter.broker.protocol.version"
"""Brokers before 4.0 have this setting (KIP-1124)."""
_SINCE_4_3 = "group.consumer.assignment.interval.ms"
"""Brokers since 4.3 have this setting (KIP-1263)."""
_MS_PER_MINUTE = 60_000


def number(brokers: Brokers, *, embedded: bool) -> Iterator[Finding]:
    """Three brokers keep acknowledged records when a disk is lost; `dev` has one on purpose."""
    count = len(brokers.nodes)
    if count >= REPLICATION:
        yield NUMBER.ok(f"{count} brokers can hold {REPLICATION} replicas")
    elif embedded:
        yield NUMBER.ok(f"{counted(count, 'broker')}: the embedded one, for one machine")
    else:
        yield NUMBER.warn(
            f"the cluster has {counted(count, 'broker')}, so one lost disk can lose records that "
            "were acknowledged",
            f"start those that are down, or add brokers until there are {REPLICATION}",
        )


def controller(
    brokers: Brokers, settings: BrokerSettings | Unseen, bootstrap: str
) -> Iterator[Finding]:
    """In KRaft mode brokers name one of themselves (KIP-590), which says nothing."""
    if brokers.controller is None:
        yield CONTROLLER.fail(
            "the brokers name no controller, so no topic or leader can change",
            "look at the logs of the controllers; start those that do not run",
        )
    elif not isinstance(settings, Unseen) and settings and not _kraft(settings):
        yield CONTROLLER.ok(f"broker {brokers.controller} is the controller")
    else:
        yield CONTROLLER.skipped(
            "Kafka shows its clients no controller in KRaft mode",
            f"kafka-metadata-quorum.sh --bootstrap-server {bootstrap} describe --status",
        )


def _kraft(settings: BrokerSettings) -> bool:
    return any(each.get("process.roles") for each in settings.values())


def version(settings: BrokerSettings | Unseen, started: str | None) -> Iterator[Finding]:
    """Whether the brokers may lose the ends of transactions (KAFKA-20734, 4.3.0 to 4.4.0).

    `started` is the version of brokers that `tidegate` started, in a way that avoids this.
    """
    if started is not None:
        yield VERSION.ok(f"Kafka {started}, started in a way that avoids KAFKA-20734")
    elif isinstance(settings, Unseen):
        yield VERSION.unseen(settings)
    elif any(_SINCE_4_3 in each for each in settings.values()):
        yield VERSION.warn(
            "Kafka is 4.3 or newer, and 4.3.0 to 4.4.0 may leave a transaction open for ever if a "
            "partition loses all its replicas for a moment (KAFKA-20734)",
            'look for "Kafka version" in a broker\'s log; from 4.4.1 on this is no concern, until '
            "then see docs/troubleshooting.md, An input is blocked",
        )
    elif any(_BEFORE_4_0 in each or "process.roles" in each for each in settings.values()):
        yield VERSION.ok("Kafka is older than 4.3, and KAFKA-20734 is not in it")
    else:
        yield VERSION.skipped("the brokers do not show settings that tell their version")


@dataclass(frozen=True, slots=True)
class _Rule:
    """A broker's setting, whether a value will do, and what happens otherwise."""

    setting: str
    wanted: str
    holds: Callable[[str], bool]
    why: str
    fatal: bool = False
    replicated: bool = False
    """Whether it matters on three brokers or more alone."""


def at_least(number: float) -> Callable[[str], bool]:
    return lambda value: float(value) >= number


def at_most(number: float) -> Callable[[str], bool]:
    return lambda value: float(value) <= number


def _false(value: str) -> bool:
    return value.lower() == "false"


_COPIES = (
    *(
        _Rule(
            name,
            f"at least {REPLICATION}",
            at_least(REPLICATION),
            "a lost broker can lose positions or transactions",
            fatal=True,
            replicated=True,
        )
        for name in ("transaction.state.log.replication.factor", "offsets.topic.replication.factor")
    ),
    _Rule(
        "transaction.state.log.min.isr",
        f"at least {MIN_IN_SYNC}",
        at_least(MIN_IN_SYNC),
        "a commit can be lost with one broker",
        fatal=True,
        replicated=True,
    ),
    _Rule(
        "unclean.leader.election.enable",
        "false",
        _false,
        "Kafka's own topics can lose acknowledged records",
        fatal=True,
    ),
    _Rule(
        "auto.create.topics.enable",
        "false",
        _false,
        "a misspelled name makes a topic with wrong settings instead of an error",
    ),
)
"""What keeps records, and keeps topics as they were declared."""


def _times(settings: Settings, topology: Topology | None) -> Iterator[_Rule]:
    """What brokers must allow, by the session that the stages ask for."""
    session = settings.session_timeout_ms
    joins = f"session_seconds of {settings.session_seconds:g} is refused, and no stage can join"
    begins = f"transactions of {settings.session_seconds:g} s are refused, and no stage can begin"
    least, most = at_least(session), at_most(session)
    yield _Rule("group.min.session.timeout.ms", f"at most {session}", most, joins, fatal=True)
    yield _Rule("group.max.session.timeout.ms", f"at least {session}", least, joins, fatal=True)
    yield _Rule("transaction.max.timeout.ms", f"at least {session}", least, begins, fatal=True)
    if topology is not None:
        minutes = topology.window_ms // _MS_PER_MINUTE
        yield _Rule(
            "offsets.retention.minutes",
            f"at least {minutes}, the dedup window",
            at_least(minutes),
            "a stage that is off for longer loses its position and reads its inputs from their "
            "start",
        )


def broker_settings(
    found: BrokerSettings, settings: Settings, topology: Topology | None
) -> Iterator[Finding]:
    """Every setting that is not as wanted, with the brokers that have it."""
    known = (*_COPIES, *_times(settings, topology))
    rules = [rule for rule in known if len(found) >= REPLICATION or not rule.replicated]
    wrong = [finding for rule in rules for finding in _broken(rule, found)]
    untold = [r.setting for r in rules if not found or not all(_told(r, e) for e in found.values())]
    yield from wrong
    if untold:
        yield SETTINGS.skipped(f"not every broker tells {', '.join(untold)}")
    elif not wrong:
        yield SETTINGS.ok(f"{counted(len(rules), 'setting')} of the brokers will do")


def _broken(rule: _Rule, found: BrokerSettings) -> Iterator[Finding]:
    wrong: dict[str, list[int]] = {}
    for id_, each in found.items():
        value = each.get(rule.setting)
        if value is not None and _told(rule, each) and not rule.holds(value):
            wrong.setdefault(value, []).append(id_)
    for value, ids in wrong.items():
        judged = SETTINGS.fail if rule.fatal else SETTINGS.warn
        yield judged(
            f"{rule.setting} is {value} on {_on(ids)}: {rule.why}",
            f"set {rule.setting} to {rule.wanted} in the brokers' server.properties",
        )


def _told(rule: _Rule, settings: Mapping[str, str | None]) -> bool:
    """Whether a broker shows a setting, with a value that can be read."""
    try:
        rule.holds(settings.get(rule.setting) or "")
    except ValueError:
        return False
    return bool(settings.get(rule.setting))


def _on(ids: Iterable[int]) -> str:
    ids = sorted(ids)
    return f"broker{'s' * (len(ids) > 1)} {', '.join(map(str, ids))}"


def internal_topics(brokers: Brokers) -> Iterator[Finding]:
    """A changed setting leaves topics as they are that exist already."""
    if len(brokers.nodes) < REPLICATION:
        return
    few: Mapping[str, int] = {n: r for n, r in brokers.internal.items() if r < REPLICATION}
    for name, replicas in sorted(few.items()):
        yield INTERNAL.fail(
            f"{name} has {counted(replicas, 'replica')}, so a lost broker stops every stage",
            f"give {name} {REPLICATION} replicas with kafka-reassign-partitions.sh",
        )
    if not brokers.internal:
        yield INTERNAL.skipped(
            "Kafka's own topics do not exist yet, or this user may not describe them"
        )
    elif not few:
        yield INTERNAL.ok(f"{' and '.join(sorted(brokers.internal))} are replicated")

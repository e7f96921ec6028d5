"""Whether a process's user has the rights that it needs, and which ones it lacks.

A process that lacks one often only waits: a topic that it may not see looks as if it did not exist,
and librdkafka tries again for ever. So each process asks the broker what it may do (KIP-430), and
logs each missing right by name. The broker tells this of topics, and of groups that exist; a
transactional id is logged when it is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Event
from typing import Any

import structlog
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from streams.errors import TidegateError
from streams.kafka.failures import DENIED, tell_missing
from streams.process.daemon_thread import DaemonThread
from streams.settings import Settings
from streams.topology.cluster import admin_client
from streams.topology.model import Topology
from streams.topology.rights import Resource, Right, rights_of

log = structlog.get_logger(__name__)

_EVERY_SECONDS = 10.0
_PATIENCE_SECONDS = 10.0
_LAST_SECONDS = 2.0
"""How long a process that fails waits to hear what it lacks."""

Held = dict[tuple[Resource, str], set[str]]
"""By resource and name what the user may do, where the broker tells it; without underscores."""


def missing(admin: AdminClient, rights: Collection[Right]) -> list[Right]:
    """Those of these rights that the broker says the user lacks.

    What it does not tell, because the topic or group does not exist, is not among them.

    Raises:
        KafkaException: not answered in time.
    """
    held = _on_topics(admin, _named(rights, "topic")) | _in_groups(admin, _named(rights, "group"))
    return [
        right
        for right in rights
        if (right.resource, right.name) in held
        and right.operation.upper() not in held[right.resource, right.name]
    ]


def _named(rights: Collection[Right], resource: Resource) -> list[str]:
    return sorted({each.name for each in rights if each.resource == resource})


def _on_topics(admin: AdminClient, names: list[str]) -> Held:
    if not names:
        return {}
    answers = admin.describe_topics(
        TopicCollection(names),
        include_authorized_operations=True,
        request_timeout=_PATIENCE_SECONDS,
    )
    return dict(_held("topic", answers))


def _in_groups(admin: AdminClient, names: list[str]) -> Held:
    if not names:
        return {}
    answers = admin.describe_consumer_groups(
        names, include_authorized_operations=True, request_timeout=_PATIENCE_SECONDS
    )
    return dict(_held("group", answers))


def _held(
    resource: Resource, answers: Mapping[str, Future[Any]]
) -> Iterator[tuple[tuple[Resource, str], set[str]]]:
    for name, answer in answers.items():
        try:
            told = answer.result().authorized_operations
        except KafkaException as error:
            if error.args[0].code() in DENIED:
                yield (resource, name), set()
            elif error.args[0].retriable():
                raise
            continue
        if told:  # a service that does not tell them gives none
            yield (resource, name), {each.name.replace("_", "") for each in told}


class RightsWatch:
    """Logs which rights are missing, each time that changes."""

    def __init__(self, admin: AdminClient, rights: Collection[Right], user: str | None) -> None:
        self._admin = admin
        self._rights = rights
        self._user = user
        self._missing: list[Right] = []
        self.looked = Event()
        self.thread = DaemonThread("rights", self._run)

    def look(self) -> None:
        """Ask once; without an answer, what was heard before stays."""
        try:
            found = missing(self._admin, self._rights)
        except KafkaException:
            return  # whoever needs the broker logs that it does not answer
        if found and found != self._missing:
            tell_missing([str(right) for right in found], user=self._user)
        elif self._missing and not found:
            log.info("no right on Kafka is missing any more", user=self._user)
        self._missing = found

    def _run(self) -> None:
        while not self.thread.stopping.is_set():
            self.look()
            self.looked.set()
            self.thread.stopping.wait(_EVERY_SECONDS)


@contextmanager
def rights_watched(process: str, settings: Settings, topology: Topology) -> Iterator[None]:
    """Within the block, log which rights the user of this process lacks."""
    rights = rights_of(process, topology, settings.topic_prefix)
    watch = RightsWatch(admin_client(settings), rights, settings.kafka.get("sasl.username"))
    watch.thread.start()
    try:
        yield
    except TidegateError:
        watch.looked.wait(_LAST_SECONDS)  # what is missing may be the cause
        raise
    finally:
        watch.thread.stop(0)

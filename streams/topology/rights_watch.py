"""Whether a process's user has the rights that it needs, and which ones it lacks.

A process that lacks one often only waits: a topic that it may not see looks as if it did not exist,
and librdkafka tries again for ever. So each process asks the broker what it may do (KIP-430), and
logs each missing right by name. The broker tells this of topics. Of a group it only refuses the
positions to a user that lacks all rights on it. A transactional id is logged when it is refused.

An admin client could ask for the rights on groups, too. But it aborts the whole process if its
connection to a group's coordinator ends at the wrong moment (librdkafka#4605).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from threading import Event

import structlog
from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from streams.errors import TidegateError
from streams.kafka.admin import admin_client
from streams.kafka.clients import consumer_config
from streams.kafka.failures import denied, tell_missing
from streams.process.daemon_thread import DaemonThread
from streams.settings import Settings
from streams.topology.model import Topology
from streams.topology.rights import Resource, Right, lacking, rights_of

log = structlog.get_logger(__name__)

_NOBODY = "PLAINTEXT"
_EVERY_SECONDS = 10.0
_PATIENCE_SECONDS = 10.0
_GROUP_SECONDS = 2.0
_LAST_SECONDS = 2.0
"""How long a process that fails waits to hear what it lacks."""


class Group:
    """A consumer group, as far as this user sees it; nobody joins it here.

    `client` names it, and `topic` is one of its inputs.
    """

    def __init__(self, client: Consumer, topic: str) -> None:
        self._client = client
        self._place = TopicPartition(topic, 0)
        self._hidden = False

    def hidden(self) -> bool:
        """Whether the user may not see its positions.

        Raises:
            KafkaException: not answered in time.
        """
        try:
            self._client.committed([self._place], _GROUP_SECONDS)
        except KafkaException as error:
            self._hidden = self._hidden or denied(error) or self._refused()
            if not self._hidden:
                raise
        else:
            self._hidden = False
        return self._hidden

    def _refused(self) -> bool:
        """Whether the user may not ask for the coordinator; librdkafka reports it once."""
        told = iter(partial(self._client.poll, 0), None)
        return any(denied(message.error()) for message in told)


def missing(
    admin: AdminClient, rights: Collection[Right], groups: Mapping[str, Group]
) -> list[Right]:
    """Those of these rights that the broker says the user lacks.

    What it does not tell, because the topic does not exist, is not among them. `groups` has
    those of the rights by full name.

    Raises:
        KafkaException: not answered in time.
    """
    held = dict(_on_topics(admin, _named(rights, "topic")))
    held |= {("group", name): frozenset() for name, group in groups.items() if group.hidden()}
    return lacking(rights, held)


def _named(rights: Collection[Right], resource: Resource) -> list[str]:
    return sorted({each.name for each in rights if each.resource == resource})


def _on_topics(
    admin: AdminClient, names: list[str]
) -> Iterator[tuple[tuple[Resource, str], frozenset[str]]]:
    if not names:
        return
    answers = admin.describe_topics(
        TopicCollection(names),
        include_authorized_operations=True,
        request_timeout=_PATIENCE_SECONDS,
    )
    for name, answer in answers.items():
        try:
            told = answer.result().authorized_operations
        except KafkaException as error:
            if denied(error):
                yield ("topic", name), frozenset()
            elif error.args[0].retriable():
                raise
            continue
        if told:  # a service that does not tell them gives none
            yield ("topic", name), frozenset(each.name for each in told)


class RightsWatch:
    """Logs which rights are missing, each time that changes."""

    def __init__(
        self,
        admin: AdminClient,
        rights: Collection[Right],
        groups: Mapping[str, Group],
        user: str | None,
    ) -> None:
        self._admin = admin
        self._groups = groups
        self._rights = rights
        self._user = user
        self._missing: list[Right] = []
        self.looked = Event()
        self.thread = DaemonThread("rights", self._run)

    def look(self) -> None:
        """Ask once; without an answer, the earlier answer stays."""
        try:
            found = missing(self._admin, self._rights, self._groups)
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
    """Within the block, log which rights the user lacks, if Kafka is told who the user is."""
    if settings.kafka.get("security.protocol", _NOBODY) == _NOBODY:
        yield
        return
    rights = rights_of(process, topology, settings.topic_prefix)
    groups = {name: _group(name, rights, settings) for name in _named(rights, "group")}
    user = settings.kafka.get("sasl.username")
    watch = RightsWatch(admin_client(settings), rights, groups, user)
    watch.thread.start()
    try:
        yield
    except TidegateError:
        watch.looked.wait(_LAST_SECONDS)  # what is missing may be the cause
        raise
    finally:
        watch.thread.stop(0)


def _group(name: str, rights: Collection[Right], settings: Settings) -> Group:
    config = consumer_config(settings, name.removeprefix(settings.topic_prefix))
    return Group(Consumer(config), _named(rights, "topic")[0])

"""Kafka's server.properties for a node that is broker and controller at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from streams.broker.member import IN_SYNC, REPLICAS, Member
from streams.broker.ports import HOST
from streams.errors import BrokerError

_CLIENTS = "CLIENTS"
_BROKERS = "BROKERS"
_CONTROLLER = "CONTROLLER"

_OF_A_BROKER = frozenset({"advertised.listeners", "inter.broker.listener.name"})

_BEHAVIOUR = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",  # the least of `session_seconds`
    "transaction.max.timeout.ms": "900000",
    # A stage waits for its positions in every transaction, and few groups profit from batching.
    "group.coordinator.append.linger.ms": "0",
    # Kafka looks for expired transactions every 10 s; a killed producer would hold back the last
    # stable offset for that long beyond its own timeout.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "unclean.leader.election.enable": "false",
    # A node would end itself if its controllers elected none of them for 60 s, as on a busy machine
    # after two of three were killed. Who starts it has a bound of their own.
    "initial.broker.registration.timeout.ms": "600000",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.num.partitions": "8",
    "share.coordinator.state.topic.num.partitions": "2",
    # A producer's batch has up to 1,000,000 bytes, and a lease nearly as many.
    "message.max.bytes": str(2 * 1024 * 1024),
    "replica.fetch.max.bytes": str(2 * 1024 * 1024),
}

# Nothing could take over from the only broker: neither a busy machine nor an orderly stop (see
# `fencing`) must cost it its leaderships.
_ALONE = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3600000",
    "controlled.shutdown.enable": "false",
}

# Kafka's own defaults: faults last as long here as on another cluster.
_AMONG_OTHERS = {
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
    "controlled.shutdown.enable": "true",
}

# This suits one developer's machine: few threads, and a cleaner that uses 16 MiB, not 128.
_FOOTPRINT = {
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "2",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
}


def server_properties(log_dir: Path, member: Member) -> dict[str, str]:
    """Every setting of the server.

    Raises:
        BrokerError: the path cannot be written as a setting.
    """
    alone = len(member.reached_at) == 1
    return {
        **(_replication(1, 1) if alone else _replication(REPLICAS, IN_SYNC)),
        **_BEHAVIOUR,
        **(_ALONE if alone else _AMONG_OTHERS),
        **_FOOTPRINT,
        **_identity(log_dir, member.node_id),
        **_listeners(member),
    }


def controller_properties(server: Mapping[str, str]) -> dict[str, str]:
    """The settings for a server's controller alone, which drops a silent broker at once."""
    controller = next(
        each for each in server["listeners"].split(",") if each.startswith(_CONTROLLER)
    )
    return {
        **{name: value for name, value in server.items() if name not in _OF_A_BROKER},
        "process.roles": "controller",
        "listeners": controller,
        "broker.heartbeat.interval.ms": "100",
        "broker.session.timeout.ms": "200",
    }


def render(properties: Mapping[str, str]) -> str:
    """The text of a Java properties file, escaped as `java.util.Properties` reads it (ASCII)."""
    return "".join(f"{name}={_escape(value)}\n" for name, value in sorted(properties.items()))


def _escape(value: str) -> str:
    plain = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    if plain.startswith(" "):
        plain = "\\" + plain
    units = plain.encode("utf-16-be")
    pairs = (int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2))
    return "".join(chr(unit) if unit < 0x7F else f"\\u{unit:04x}" for unit in pairs)


def _replication(replicas: int, in_sync: int) -> dict[str, str]:
    """Of topics that name no number, and of Kafka's own."""
    return {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
    }


def _identity(log_dir: Path, node_id: int) -> dict[str, str]:
    if "," in str(log_dir):
        raise BrokerError(
            f"the data directory {log_dir} has a comma in its path, which Kafka reads as two "
            "directories; choose another with --data-dir"
        )
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "log.dirs": str(log_dir),
    }


def _listeners(member: Member) -> dict[str, str]:
    bound = _listener_ports(member)
    at = member.reached_at[member.node_id]
    # A controller that leads tells the others its address, whatever the voters are named.
    of_nodes = {_BROKERS: at.brokers, _CONTROLLER: at.controller}
    advertised = {_CLIENTS: at.clients, **(of_nodes if _BROKERS in bound else {})}
    voters = (f"{node}@{HOST}:{at.controller}" for node, at in sorted(member.reached_at.items()))
    return {
        "listeners": _addresses(bound),
        "advertised.listeners": _addresses(advertised),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in bound),
        "inter.broker.listener.name": _BROKERS if _BROKERS in bound else _CLIENTS,
        "controller.listener.names": _CONTROLLER,
        "controller.quorum.voters": ",".join(voters),
    }


def _listener_ports(member: Member) -> dict[str, int]:
    """A broker alone dials only itself, at its clients' port."""
    ports = member.ports
    others = {} if len(member.reached_at) == 1 else {_BROKERS: ports.brokers}
    return {_CLIENTS: ports.clients, **others, _CONTROLLER: ports.controller}


def _addresses(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())

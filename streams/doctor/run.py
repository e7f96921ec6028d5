"""The doctor's round: look at everything at once, then judge what was seen.

Nothing here changes anything, and nothing waits for longer than its look: reaching a broker takes
6 s at most, and all the others together 10 s.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial

from streams.certificates import ends
from streams.doctor import configuration, disk, operator_state, versions
from streams.doctor.cluster_view import read_metadata
from streams.doctor.disk import DiskSeen
from streams.doctor.finding import Finding, Report, Unseen, report
from streams.doctor.looking import ANSWER_SECONDS, Look, judged
from streams.doctor.of_worker import examine_worker
from streams.doctor.on_kafka import on_kafka, unreached
from streams.doctor.operator_view import OperatorSeen, read_operator
from streams.doctor.subject import Subject
from streams.errors import ConfigError
from streams.topology.model import FUSED


def examine(subject: Subject) -> Report:
    """Look at everything, and say what is wrong."""
    if subject.stage == "worker":
        return examine_worker(subject)
    settings = subject.settings
    directory = Look("the state directory", partial(disk.look, settings.data_dir))
    installed = Look("the installed packages", versions.look)
    operator = _operator(subject.url)
    metadata = Look("Kafka", partial(read_metadata, settings), seconds=ANSWER_SECONDS + 1).seen()
    reached = not isinstance(metadata, Unseen)
    found = [
        *_configuration(subject),
        *judged(disk.STATE, partial(_disk, subject), directory.seen()),
        *judged(versions.PACKAGES, versions.packages, installed.seen()),
        *versions.extras(subject.stage, os.environ),
        *(
            unreached(subject, metadata)
            if isinstance(metadata, Unseen)
            else on_kafka(subject, metadata)
        ),
        *judged(
            operator_state.READY,
            partial(operator_state.operator, subject.commands),
            _seen(operator),
        ),
    ]
    return report(found, subject.secrets, reached=reached)


def _configuration(subject: Subject) -> Iterator[Finding]:
    settings = subject.settings
    for check, judge in (
        (configuration.TOPOLOGY, lambda s: configuration.topology(subject.topology, s.topology)),
        (configuration.VAULT, lambda _: configuration.keys(settings, subject.stage)),
        (configuration.CLIENT, configuration.kafka_client),
        (configuration.CERTIFICATES, lambda s: configuration.certificates(ends(s), time.time())),
        (configuration.ASIDE, configuration.set_aside),
    ):
        yield from judged(check, judge, settings)


def _disk(subject: Subject, seen: DiskSeen) -> Iterator[Finding]:
    """The state of stages, unless one is meant that keeps none."""
    yield from disk.state(seen)
    if isinstance(subject.topology, ConfigError):
        return
    stage = subject.stage or FUSED
    count = configuration.databases(subject.topology.topology, stage)
    if count:
        yield from disk.open_files(seen, stage, count)


def _operator(url: str | None) -> Look[OperatorSeen] | None:
    return Look(f"the operator at {url}", partial(read_operator, url)) if url else None


def _seen(operator: Look[OperatorSeen] | None) -> OperatorSeen | Unseen:
    if operator is None:
        return Unseen("the operator's address is not known", "give it with --url")
    return operator.seen()

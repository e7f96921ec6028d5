"""The doctor's round of a worker: its settings, its application, and the owners of partitions."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial

from uuid_utils import uuid7

from streams.access.link_token import read_link_token
from streams.certificates import ends
from streams.doctor import configuration, link, versions
from streams.doctor.finding import Check, Finding, Report, Unseen, report
from streams.doctor.link_view import LinkSeen, read_link
from streams.doctor.looking import Look, judged
from streams.doctor.subject import Subject
from streams.errors import ConfigError
from streams.serde.link.messages import VERSION, Hello
from streams.worker.app import App
from streams.worker.app_loader import load_app
from streams.worker.link.addresses import addresses
from streams.worker.pools import places

_ADDRESSES = Check("settings", "link addresses")
_TOKEN = Check("settings", "link token")
_AUTHORITIES = Check("settings", "link authorities")
_APPLICATION = Check("settings", "application")
_POOL = Check("settings", "pool")


def examine_worker(subject: Subject) -> Report:
    """Look at what a worker needs, which is nothing of Kafka."""
    installed = Look("the installed packages", versions.look)
    app = _application(subject.app)
    found = [
        *judged(
            configuration.TOPOLOGY,
            lambda s: configuration.topology(subject.topology, s.topology),
            subject.settings,
        ),
        *judged(
            configuration.CERTIFICATES,
            lambda s: configuration.certificates(ends(s), time.time()),
            subject.settings,
        ),
        *_of_pool(subject, app),
        *judged(versions.PACKAGES, versions.packages, installed.seen()),
        *versions.extras(subject.stage, os.environ),
    ]
    seen = _look(subject, app)
    if not isinstance(seen, LinkSeen):
        return report([*found, *seen], subject.secrets, reached=False)
    found += _of_link(subject, app, seen)
    return report(found, subject.secrets, reached=bool(link.reached(seen.met)))


def _application(target: str | None) -> App | ConfigError | None:
    try:
        return load_app(target) if target else None
    except ConfigError as error:
        return error


def _of_pool(subject: Subject, app: App | ConfigError | None) -> Iterator[Finding]:
    """The topology declares the pool, and the worker has slots for each job of it."""
    if isinstance(app, ConfigError):
        yield _APPLICATION.fail(str(app), "correct --app, or the application")
        return
    if app is not None and not app.jobs:
        yield _APPLICATION.fail(
            f"app {app.name!r} declares no job", "add a function under @app.job(...)"
        )
    if isinstance(subject.topology, ConfigError):
        return
    wanted = {subject.pool: None}
    try:
        places(app or App("doctor"), subject.settings, subject.topology.topology, wanted)
    except ConfigError as error:
        yield _POOL.fail(str(error), "correct --pool, or declare the pool in the topology")
    else:
        yield _POOL.ok(f"the topology declares {subject.pool}")


def _look(subject: Subject, app: App | ConfigError | None) -> LinkSeen | list[Finding]:
    """Dial the owners; if the settings do not say how, what is wrong with them."""
    settings = subject.settings
    try:
        dialed = addresses(settings.link)
    except ConfigError as error:
        return [_ADDRESSES.fail(str(error), "set TIDEGATE_LINK to where the owners listen")]
    try:
        token = read_link_token(settings)
    except ConfigError as error:
        return [_TOKEN.fail(str(error), "correct it, and let this user read the file")]
    if token is None:
        return [_TOKEN.fail("a worker needs a token, and none is set", link.NEW_TOKEN)]
    look = Look(
        "the link", partial(read_link, dialed, token, settings.link_ca, _hello(subject, app))
    )
    seen = look.seen()
    if isinstance(seen, Unseen):
        return [_AUTHORITIES.fail(seen.why, "correct TIDEGATE_LINK_CA: a file of PEM"), *_none()]
    return seen


def _none() -> Iterator[Finding]:
    for check in link.ALL:
        yield check.skipped("the owners were not dialed")


def _hello(subject: Subject, app: App | ConfigError | None) -> Hello:
    handlers = app.handlers() if isinstance(app, App) else ()
    return Hello(VERSION, "doctor", str(uuid7()), subject.pool, 1, handlers, check=True)


def _of_link(subject: Subject, app: App | ConfigError | None, seen: LinkSeen) -> Iterator[Finding]:
    types = sorted(app.jobs) if isinstance(app, App) else None
    met = seen.met
    yield from judged(link.NAMES, link.names, seen)
    yield from judged(link.REACH, link.reach, met)
    yield from judged(link.TLS, lambda met: link.tls(met, time.time()), met)
    yield from judged(link.TOKEN, lambda met: link.admission(met, subject.pool, types), met)
    yield from judged(link.PARTITIONS, link.partitions, met)

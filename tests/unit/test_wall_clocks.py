"""Nothing that lasts is decided by a process's own wall clock (docs/exactly-once.md, Time)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ingress.receive.duplicates import Duplicates
from streams.process.boot_clock import boot_seconds
from streams.runtime.clock import SystemClock

ROOT = Path(__file__).parents[2]
WALL_CLOCKS = {
    ("time", "time"),
    ("time", "time_ns"),
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("date", "today"),
}

READ_IN = {
    "ingress/receive/admission.py": "when a body was released or a batch came: shown",
    "ingress/receive/dead_letters.py": "the date of a dead letter: shown",
    "ingress/receive/headers.py": "when a delivery came: shown; its event's time is the broker's",
    "ingress/receive/receiver.py": "how old a signature or a secret may be: 401, never a loss",
    "ingress/receive/rejections.py": "when deliveries were refused: shown",
    "ingress/schemes/__init__.py": "how old a signature may be: 401, never a loss",
    "streams/api/artifacts/sweep.py": "which artifacts are young: they stay for a day more",
    "streams/api/causes/decisions.py": "when a cause was decided, and until when ignored: shown",
    "streams/api/causes/table.py": "which hours a trend has, whether an ignoring is over: shown",
    "streams/console/events/waterfall.py": "where what still goes on ends: shown",
    "streams/console/serving/readers.py": "how old rows are: shown",
    "streams/console/serving/written.py": "how long ago something was: shown",
    "streams/api/limits/buckets_table.py": "how long the oldest job waits: shown",
    "streams/api/overview/http.py": "how long the oldest waits, which minutes are the last: shown",
    "streams/api/pauses/pausing.py": "when something was paused: shown",
    "streams/api/schedules/changes.py": "whether a schedule never fires: an error",
    "streams/api/schedules/table.py": "which five times come next: shown",
    "streams/api/live/resumption.py": "whether an id is older than what is kept: a gap",
    "streams/api/live/reader.py": "the hour in which an id was given out: as above",
    "streams/api/live/tickets.py": "how long a ticket opens a stream: 401, ask for another",
    "streams/worker/live/output.py": "the date of what a run says: shown",
    "streams/analytics/http.py": "which windows are asked for, how long a job waits: shown",
    "streams/analytics/metrics.py": "which hour is the present one, ages: shown",
    "streams/broker/status.py": "when the embedded broker started: shown",
    "streams/vault/key_encryption.py": "the age of a key's file: a metric",
    "streams/vault/data_key.py": "which week's key seals: a key more, or one for longer",
    "streams/cli/delivery.py": "signs a test delivery",
    "streams/api/events/cli_seek.py": "whether a person named a time in the future: an error",
    "streams/api/events/cli_selection.py": "whether a person named a time in the future: an error",
    "streams/api/events/cli_tables.py": "how long until an effect can be settled: shown",
    "streams/cli/quantities.py": "the time that a person names by its distance from now",
    "streams/cli/send.py": "whether a source changed lately: a hint",
    "streams/api/live/cli_watch.py": "the time before a line: shown",
    "streams/cli/receiver.py": "when a request came: shown",
    "streams/delivery/sender.py": "signs attempts, and when they began: shown",
    "streams/dev/sample_event.py": "signs a test delivery",
    "streams/api/decisions.py": "when a command was given: shown",
    "streams/api/endpoints/destinations.py": "dates of records: shown",
    "streams/api/endpoints/table.py": "which keys still sign: shown",
    "streams/bulk/journal.py": "dates of records: shown",
    "streams/bulk/working.py": "when an act began: shown",
    "streams/event_replay/progress.py": "dates of records: shown",
    "streams/event_replay/replaying.py": "dates of records: shown",
    "streams/api/replays/course.py": "a time in the future is an error; dates",
    "streams/delivery/egress/retry_after.py": "how long a receiver asks to wait: at most a day",
    "streams/api/sources/signing.py": "signs a test delivery",
    "streams/dev/welcome.py": "signs the test delivery of `tidegate dev`",
    "streams/api/tokens/http.py": "whether a token has ended: shown",
    "streams/api/tokens/table.py": "as above",
    "streams/api/tokens/minting.py": "when a token was made, and for how long",
    "streams/api/tokens/upkeep.py": "whether an administrator's token has ended, at the start",
    "streams/operator/run.py": "whether a token has ended: 401, make another",
    "streams/access/oidc/client.py": "whether a person's ID token holds: 403, sign in again",
    "streams/api/session/desk.py": "whether a session has ended: 401, sign in again",
    "streams/api/session/ending.py": "which sessions end: those that began before",
    "streams/api/read_model/follower.py": "the age of rows in the read model: it is rebuilt",
    "streams/operator/metrics.py": "ages in metrics: shown",
    "streams/operator/key_age.py": "ages in metrics: shown",
    "streams/api/vault/erasure.py": "when a tenant was erased: shown",
    "streams/api/jobs/submit.py": "when a job was asked for: shown until the dispatcher says",
    "streams/api/quarantine/release.py": "when a body was released: shown",
    "streams/api/tenants/changes.py": "dates of records: shown",
    "streams/api/sources/changes.py": "dates of records; old secrets end by the ingress's clock",
    "streams/api/sources/table.py": "which secrets still verify: shown",
    "streams/api/endpoints/changes.py": "dates of records: shown",
    "streams/api/dead_letters/job_replay.py": "when a replay was asked for: shown before its job",
    "streams/api/dead_letters/discards.py": "when a dead letter was discarded: shown; a long wait",
    "streams/api/dead_letters/by_hand.py": "when manual work began and was done: shown",
    "streams/api/dead_letters/record_replay.py": "when a record was sent in again: shown",
    "streams/api/operator_state.py": "dates of records: shown; the order of its own writes",
    "streams/api/read_model/fold_session.py": "the age of the read model, which is rebuilt",
    "streams/api/read_model/undecodable.py": "the date of a dead letter: shown",
    "streams/tracing/steps.py": "when a step began and ended: shown",
    "streams/doctor/clock_view.py": "this machine's clock, which is judged against the broker's",
    "streams/doctor/group_view.py": "since when an input is not read: shown",
    "streams/doctor/of_worker.py": "how long a certificate still lasts: shown",
    "streams/doctor/run.py": "how long a certificate still lasts: shown",
    "streams/dispatcher/lease_spans.py": "when a lease was sent: shown",
    "ingress/receive/request_span.py": "when a request began: shown",
    "streams/process/wall_clock.py": "reads it for those who are named here",
    "streams/runtime/state_directory.py": "the age of a store that nobody opens: it is rebuilt",
    "streams/runtime/stalled_inputs.py": "since when an input is blocked: logged",
    "streams/runtime/broker_clock.py": "how far off this very clock is: a metric",
    "streams/runtime/clock.py": "the clock of tests that have no broker",
    "streams/runtime/source.py": "the clock of tests: the loop gives it the broker's",
    "streams/runtime/lag.py": "the age of the last record: a metric",
    "streams/link/access.py": "whether a token has ended: 401, make another",
    "streams/link/live.py": "that no run says something from the future: shown",
    "streams/api/sources/trial.py": "signs a test delivery",
    "streams/worker/link/run_requests.py": "the date of a progress: shown",
}
"""Modules that read a wall clock, and for what."""
OUTSIDE = "streams/demo/"
"""The demo judges from outside and on one machine."""


def readings(path: Path) -> Iterator[int]:
    """Lines on which a wall clock is read, or handed on to be."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            if (owner, node.attr) in WALL_CLOCKS:
                yield node.lineno
        if isinstance(node, ast.ImportFrom) and node.module in ("time", "datetime"):
            names = {alias.name for alias in node.names}
            if names & {"time", "time_ns"}:
                yield node.lineno
        if isinstance(node, ast.ImportFrom) and node.module == "streams.process.wall_clock":
            yield node.lineno


def modules() -> Iterator[tuple[str, Path]]:
    for package in ("streams", "ingress"):
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path


def test_every_reading_of_a_wall_clock_is_known_and_decides_nothing_that_lasts() -> None:
    found = [
        f"{name}:{line}"
        for name, path in modules()
        if name not in READ_IN and not name.startswith(OUTSIDE)
        for line in readings(path)
    ]
    assert found == [], "take ctx.now or boot_seconds, or say what the wall clock decides there"


def test_the_check_itself_sees_a_reading() -> None:
    assert {name for name, path in modules() if list(readings(path))} >= {
        "streams/vault/data_key.py",
        "streams/runtime/stalled_inputs.py",
        "streams/runtime/lag.py",
    }


def test_what_expires_counts_the_time_that_a_machine_is_suspended() -> None:
    """A receipt that outlived the window would hide an event that is a new one."""
    assert Duplicates()._clock is boot_seconds
    before = boot_seconds()
    assert before <= Duplicates()._clock() <= SystemClock().monotonic() <= boot_seconds()

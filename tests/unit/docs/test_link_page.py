"""docs/link.md has each message and command, its frames are frames, and its digests are those."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from streams import user_json
from streams.serde import run_ends
from streams.serde.ids import approval_id, child_job_id
from streams.serde.link import commands, frames
from streams.serde.link.messages import FromOwner, FromWorker, Refused
from streams.serde.records import Lease, Wait

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/link.md").read_text()
FRAMES: list[list[dict[str, Any]]] = [
    json.loads(text) for text in re.findall(r"^```json\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
]


def tags(union: Any) -> set[str]:
    return {str(each.__struct_config__.tag) for each in get_args(union)}


def section(heading: str) -> str:
    return re.split(r"^#+ ", PAGE.split(f"\n{heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def first_cells(heading: str) -> set[str]:
    rows = re.findall(r"^\s*\| ([^|]+) \|", section(heading), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_each_frame_is_one_of_its_side_and_no_field_is_unknown() -> None:
    shown = set()
    for frame in FRAMES:
        text = json.dumps(frame)
        said = {each["type"] for each in frame}
        read = frames.from_worker(text) if said <= tags(FromWorker) else frames.from_owner(text)
        for message, given in zip(read, frame, strict=True):
            assert set(given) <= {"type", *message.__struct_fields__}, given
        shown |= said
    assert shown == tags(FromWorker) | tags(FromOwner)


def test_each_command_shown_has_a_body_of_its_kind() -> None:
    for message in (each for frame in FRAMES for each in frame if each["type"] == "command"):
        body = commands.BODIES[message["kind"]]
        msgspec.json.decode(json.dumps(message["body"]), type=body)
        assert set(message["body"]) <= set(body.__struct_fields__)


@pytest.mark.parametrize("kind", commands.BODIES)
def test_each_command_is_named(kind: str) -> None:
    assert f"`{kind}`" in PAGE or f'"kind": "{kind}"' in PAGE


def test_each_end_of_a_run_is_listed() -> None:
    assert first_cells("## Ends of runs") == set(get_args(run_ends.ReportedEnd))


def test_each_reason_of_a_refusal_is_listed() -> None:
    reasons = set(get_args(get_type_hints(Refused)["reason"]))
    assert set(re.findall(r"`(\w+)`", section("### Hello and welcome"))) >= reasons


def test_each_field_of_a_wait_is_explained() -> None:
    known = set(Wait.__dataclass_fields__) - {"at", "listened"}  # the owner's own
    assert first_cells("## Waits") == known


def test_the_lease_shown_has_the_fields_that_every_lease_has() -> None:
    (shown,) = (each["lease"] for frame in FRAMES for each in frame if each["type"] == "lease")
    msgspec.json.decode(json.dumps(shown), type=Lease)


def test_the_digests_and_ids_shown_are_those() -> None:
    rows = re.findall(r"^\| `(\{.*\})` \| `([A-Za-z0-9+/=]{44})` \|$", PAGE, re.MULTILINE)
    assert len(rows) == 3
    for text, digest in rows:
        value = json.loads(text)
        assert user_json.write(value, sort_keys=True).decode() == text
        assert base64.b64encode(user_json.digest(value)).decode() == digest
    scope = "job_1.1.abc"
    assert f"`{child_job_id('acme', scope, 'echo[first]')}`" in PAGE
    assert f"`{approval_id('acme', scope, 'refund')}`" in PAGE


def test_the_digests_in_frames_are_those_of_what_they_ask() -> None:
    asked = {
        "checkpoint": {"args": ["Ann"], "kwargs": {}},
        "claim": {"text": "Dear Ann"},
        "enqueue": {"type": "echo", "input": {"n": 1}},
    }
    for message in (each for frame in FRAMES for each in frame if each["type"] == "command"):
        value = asked.get(message["kind"])
        if value is not None:
            body = message["body"]
            digest = body.get("digest") or body.get("child", body.get("step", {}))["digest"]
            assert base64.b64decode(digest) == user_json.digest(value)


def test_the_jobs_of_the_suite_are_those_of_its_applications() -> None:
    from support.link_suite.app import app

    listed = re.findall(r"^\| `(\w+)` \|", section("## The suite"), re.MULTILINE)
    assert set(listed) == set(app.jobs)
    script = (ROOT / "examples/worker-node/src/app.ts").read_text()
    named = set(re.findall(r"^  (?:async )?(\w+)(?:\(|:)", script, re.MULTILINE))
    assert set(listed) - {"approval"} <= named

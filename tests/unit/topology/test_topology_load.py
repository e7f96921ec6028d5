"""An application's file over the built-in one: what merges, and what each mistake is told as."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from streams.errors import ConfigError
from streams.shipped_files import resource
from streams.topology.limits import Limit
from streams.topology.load import load
from streams.topology.model import Cancels, Route

Overlay = Callable[[str], Path]


@pytest.fixture
def overlay(tmp_path: Path) -> Overlay:
    def write(text: str) -> Path:
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        return path

    return write


def problems(path: Path) -> list[str]:
    """The messages a file is refused with, its name cut off."""
    with pytest.raises(ConfigError) as refused:
        load(path)
    return [line.removeprefix(f"{path}:") for line in str(refused.value).splitlines()]


def test_the_built_in_topology_is_valid_and_complete() -> None:
    topology = load()
    assert topology.window_ms == 7 * 86_400_000
    assert topology.topics["events.received"].timestamp == "append"
    assert topology.topics["payloads"].max_message_bytes == 1024 * 1024
    assert topology.topics["ledger"].retention_ms is None
    assert topology.stages["dispatcher"].reads == (
        "events",
        "duplicates",
        "jobs.commands",
        "tenants",
        "limits.claims",
        "limits.grants",
    )
    assert topology.default_priority == "webhook"
    assert topology.route("zendesk", "ticket.created") is None


def test_what_is_deleted_by_its_time_carries_the_brokers_unless_told(overlay: Overlay) -> None:
    mine = overlay(
        "topics:\n"
        "  - {name: mine.notes, retention_days: 1}\n"
        "  - {name: mine.changelog, cleanup: compact}\n"
    )
    topics = load(mine).topics
    assert topics["mine.notes"].timestamp == "append"
    assert topics["mine.changelog"].timestamp == "create"
    by_their_writers = {t.name for t in load().topics.values() if t.timestamp == "create"}
    assert {name for name in by_their_writers if load().topics[name].cleanup == "delete"} == {
        "events"
    }


def test_an_application_writes_only_its_routes_and_limits() -> None:
    example = Path(__file__).parents[3] / "examples/support/topology.yaml"
    topology, built_in = load(example), load()
    refund = topology.route("zendesk", "ticket.refund_requested")
    created = topology.route("zendesk", "ticket.created")
    assert refund is not None
    assert created is not None
    assert (refund.job, created.job, created.priority) == ("refund", "draft_reply", "webhook")
    assert topology.route("github", "ticket.created") is None
    assert topology.limits == (
        Limit("per_tenant", "tenant", "*", 12),
        Limit("refunds", "job_type", "refund", 5),
    )
    assert topology.topics == built_in.topics
    assert topology.stages == built_in.stages


def test_named_things_merge_by_name_and_mappings_by_key(overlay: Overlay) -> None:
    topology = load(
        overlay(
            "window_days: 0.5\n"
            "topics:\n"
            "  - {name: dlq, retention_days: 20.5}\n"
            "  - {name: mine.notes, retention_days: 1}\n"
            "pools: [{name: gpu}]\n"
            "job_types: [{name: summarize, pool: gpu, max_attempts: 2}]\n"
            "priorities: [{name: batch, head_start_seconds: -9}]\n"
            "leases: {term_seconds: 60}\n"
        )
    )
    assert topology.window_ms == 43_200_000
    assert topology.topics["dlq"].retention_ms == 20.5 * 86_400_000
    assert topology.topics["dlq"].cleanup == "delete"
    assert topology.topics["mine.notes"].retention_ms == 86_400_000
    assert topology.pools == ("default", "gpu")
    assert topology.job_type("summarize").max_attempts == 2
    assert list(topology.priorities) == ["webhook", "interactive", "batch"]
    assert topology.priorities["batch"].head_start_seconds == -9
    assert (topology.leases.term_seconds, topology.leases.heartbeat_seconds) == (60, 5)


def test_stores_of_a_stage_merge_by_name_too(overlay: Overlay) -> None:
    topology = load(
        overlay(
            "topics: [{name: ledger.v2, cleanup: compact}]\n"
            "stages:\n"
            "  - name: dispatcher\n"
            "    stores: [{name: ledger, changelog: ledger.v2}]\n"
        )
    )
    changelogs = {s.name: s.changelog for s in topology.stages["dispatcher"].stores}
    assert changelogs["ledger"] == "ledger.v2"
    assert changelogs["parts"] == "dispatcher.parts.changelog"
    assert topology.stages["dispatcher"].reads == (
        "events",
        "duplicates",
        "jobs.commands",
        "tenants",
        "limits.claims",
        "limits.grants",
    )


def test_the_partitions_of_the_topology_are_those_of_its_topics(overlay: Overlay) -> None:
    topology = load(overlay("partitions: 12\n"))
    assert topology.topics["events"].partitions == 12


def test_topics_of_earlier_versions_are_left_out(overlay: Overlay) -> None:
    topology = load(
        overlay(
            "topics:\n"
            "  - {name: jobs.work.gpu, partitions: 9, retention_days: 1}\n"
            "  - {name: jobs.replies, partitions: 9, retention_days: 1}\n"
            "pools: [{name: gpu}]\n"
        )
    )
    assert topology.topics == load().topics
    assert topology.pools == ("default", "gpu")


def test_overlaid_routes_come_first(
    overlay: Overlay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "base.yaml"
    text = resource("topology.yaml").read_text()
    built_in = "routes:\n  - {match: {source: '*'}, job: built_in}\n"
    base.write_text(text.replace("routes: []\n", built_in))
    monkeypatch.setattr("streams.topology.load.resource", lambda _: base)
    topology = load(overlay("routes:\n  - {match: {source: zendesk}, job: mine}\n"))
    assert topology.routes == (
        Route("zendesk", "*", "mine", "webhook"),
        Route("*", "*", "built_in", "webhook"),
    )


def test_a_route_may_cancel_with_a_job_or_without(overlay: Overlay) -> None:
    topology = load(
        overlay(
            "routes:\n"
            "  - match: {source: zendesk, event_type: ticket.solved}\n"
            "    cancels: {job: follow_up, by: subject}\n"
            "  - match: {source: zendesk}\n"
            "    job: follow_up\n"
            "    cancels: {job: follow_up, by: attributes.order}\n"
        )
    )
    solved, other = topology.routes
    assert (solved.job, solved.cancels) == (None, Cancels("follow_up", "subject"))
    assert (other.job, other.cancels) == ("follow_up", Cancels("follow_up", "attributes.order"))
    assert topology.routed_types == {"follow_up"}


def test_an_empty_overlay_changes_nothing(overlay: Overlay) -> None:
    assert load(overlay("# nothing yet\n")) == load()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("partitons: 4\n", "1: partitons: unknown key (did you mean 'partitions'?)"),
        (
            "topics:\n  - {name: dlq, retention_day: 3}\n",
            "2: topics[dlq].retention_day: unknown key (did you mean 'retention_days'?)",
        ),
        (
            "routes:\n- match:\n    event_typ: x\n  job: a\n",
            "3: routes[0].match.event_typ: unknown key (did you mean 'event_type'?)",
        ),
        (
            "topics:\n  - {name: dlq, retention_days: ten}\n",
            "2: topics[dlq].retention_days: the text 'ten' stands here; write a number",
        ),
        (
            "\npartitions: '4'\n",
            "2: partitions: the text '4' stands here; write a whole number",
        ),
        ("partitions: true\n", "1: partitions: a truth value stands here; write a whole number"),
        ("partitions: 0\n", "1: partitions: the number 0 stands here; write a whole number of at"),
        ("window_days: .nan\n", "1: window_days: the number nan stands here; write a"),
        ("window_days: 0\n", "1: window_days: the number 0 stands here; write a number above 0"),
        ("window_days: 1.0e+305\n", "1: window_days: the number 1e+305 stands here; write"),
        (
            "topics: [{name: dlq, retention_days: 1.0e+15}]\n",
            "1: topics[dlq].retention_days: the number 1000000000000000.0 stands here; write a "
            "number of at most 1,000,000",
        ),
        (
            "topics: [{name: dlq, max_message_kib: 2097152}]\n",
            "1: topics[dlq].max_message_kib: the number 2097152 stands here; write a number below "
            "2,097,152",
        ),
        ("routes:\n", "1: routes: nothing stands here; write a list"),
        ("limits: {}\n", "1: limits: a mapping stands here; write a list"),
        ("leases: 3\n", "1: leases: the number 3 stands here; write a mapping"),
        ("- a\n", "1: a list stands here; write a mapping"),
        (
            "routes: [{match: {source: a}}]\n",
            "1: routes[0]: the route does nothing with its events; add job or cancels",
        ),
        (
            "routes:\n- match: {}\n  cancels: {job: a}\n",
            "3: routes[0].cancels.by: is missing; add it",
        ),
        (
            "routes:\n- match: {}\n  cancels: {job: a, by: subjct}\n",
            "3: routes[0].cancels.by: 'subjct' is nothing that events are compared by (did you "
            "mean 'subject'?); write subject, or attributes.NAME",
        ),
        (
            "routes:\n- match: {}\n  job: b\n  cancels: {job: a, by: attributes.}\n",
            "4: routes[0].cancels.by: 'attributes.' is nothing that events are compared by",
        ),
        (
            "routes:\n- match: {}\n  cancels: {type: a, by: subject}\n",
            "3: routes[0].cancels.type: unknown key; known here: job, by",
        ),
        (
            "routes:\n- match: {}\n  cancels: follow_up\n",
            "3: routes[0].cancels: the text 'follow_up' stands here; write a mapping",
        ),
        (
            "routes: [{match: {source: ''}, job: a}]\n",
            "1: routes[0].match.source: the text '' stands here; write text that is not empty",
        ),
        (
            "limits:\n  - {name: a, scope: pol, concurrency: 1}\n",
            "2: limits[a].scope: the text 'pol' stands here; write one of 'global', 'pool'",
        ),
        ("limits:\n  - {name: a, concurrency: 1}\n", "2: limits[a].scope: is missing; add it"),
        ("topics: [{name: 'a/b'}]\n", "1: topics[a/b].name: the text 'a/b' stands here; write let"),
        ("partitions: 4\npartitions: 8\n", "2: partitions: the key stands twice, first on line 1"),
        (
            "limits:\n  - {name: a, scope: global, concurrency: 1}\n"
            "  - {name: a, scope: global, concurrency: 2}\n",
            "3: limits[a]: the name stands twice, first on line 2; rename one",
        ),
        ("4: x\n", "1: the key 4 is not text; quote it"),
        ("a: &x [1]\nb: *x\n", "2: b: YAML aliases are not read here; write the value out"),
        ("window_days: 2026-01-01\n", "1: window_days: timestamp is no type known here; quote"),
        ("window_days: !!int x\n", "1: window_days: 'x' is no int; correct it"),
        ("routes: [\n", "2: is not valid YAML: "),
        ("a: 1\n---\nb: 1\n", "2: is not valid YAML: "),
        ("a: !!python/object:os.system {}\n", "1: a: python/object:os.system"),
    ],
)
def test_each_mistake_names_line_key_and_remedy(overlay: Overlay, text: str, problem: str) -> None:
    found = problems(overlay(text))
    assert any(line.startswith(problem) for line in found), found


def test_a_recursive_alias_is_refused(overlay: Overlay) -> None:
    assert "YAML aliases are not read here" in problems(overlay("a: &x [*x]\n"))[0]


def test_every_problem_is_told_in_one_run(overlay: Overlay) -> None:
    """Syntax of keys, types and rules together; a rule that may only follow is not told."""
    found = problems(
        overlay(
            "windo_days: 3\n"
            "topics:\n"
            "  - {name: payloads, retention_days: ten}\n"
            "  - {name: dedup.seen.changelog, cleanup: compact}\n"
            "  - {nam: events}\n"
            "routes:\n"
            "  - {match: {}, jbo: a}\n"
            "  - {match: {}, job: a, priority: webhok}\n"
            "limits:\n"
            "  - {name: refunds, scope: toll, concurrency: 5, rate: 1/parsec}\n"
            "leases: {heartbeat_seconds: 20}\n"
        )
    )
    places = sorted(line.split(": ", 2)[:2] for line in found)
    assert places == sorted(
        [
            ["1", "windo_days"],
            ["3", "topics[payloads].retention_days"],
            ["4", "topics[dedup.seen.changelog].cleanup"],
            ["5", "topics[2].name"],
            ["5", "topics[2].nam"],
            ["7", "routes[0].jbo"],
            ["8", "routes[1].priority"],
            ["10", "limits[refunds].rate"],
            ["10", "limits[refunds].scope"],
            ["11", "leases.heartbeat_seconds"],
            ["4", "topics[dedup.seen.changelog].cleanup"],
        ]
    ), found


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert problems(tmp_path / "none.yaml") == [
        "1: cannot be read: No such file or directory; name a topology file"
    ]


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"a: \xff\n")
    assert problems(path) == ["1: is not UTF-8 (byte 3); save it as UTF-8"]

"""The triage reads each failed job's log and comments once, whatever is redelivered or killed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import ClientResponseError, web

from examples.ci_triage import github
from examples.ci_triage.app import app
from ingress.samples import sample
from ingress.schemes.normalize import Normalizer
from streams import PermanentError, RetryAfter, TransientError
from streams.testing import Bench, Job, crash_points

TOPOLOGY = Path(__file__).parents[3] / "examples/ci_triage/topology.yaml"
SAMPLES = Path(__file__).parents[4] / "shared/samples/github"
JOBS = [{"id": n, "name": f"job {n}"} for n in range(1, 7)]


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(app, topology=TOPOLOGY, strict=True) as bench:
        yield faked(bench)


def faked(bench: Bench, jobs: Any = JOBS) -> Bench:
    bench.fake("github:jobs", returns=jobs)
    bench.fake("github:log", calls=lambda job_id, **_: f"fine\nerror {job_id}\nfine")
    bench.fake("github:comment", returns={"comment": 1})
    return bench


def failed(**changed: Any) -> Any:
    """A workflow run that failed; `changed` is of it."""
    body = orjson.loads(sample("github", "workflow_run", 0.0).body)
    return body | {"workflow_run": body["workflow_run"] | changed}


def deliver(bench: Bench, name: str, body: Any) -> Job | None:
    """Deliver a body with the fields that the source's preset reads in it."""
    raw = orjson.dumps(body)
    read = Normalizer("github", {}).normalize({"X-GitHub-Event": name}, raw)
    return bench.deliver(
        read.event_type, raw, source="github", subject=read.subject, attributes=read.attributes
    )


def triaged(bench: Bench, **changed: Any) -> Job:
    job = deliver(bench, "workflow_run", failed(**changed))
    assert job is not None
    return job


def test_each_failed_job_has_a_line_in_one_comment(bench: Bench) -> None:
    job = triaged(bench).run()
    assert job.result["comment"].splitlines()[2:] == [
        f"- **job {n}**: error {n}" for n in range(1, 7)
    ]
    (comment,) = [call for call in bench.calls if call.tool == "github:comment"]
    assert comment.args == {"repository": "ada/printer", "pull_request": 12}


def log_that_is_gone_for_the_first(job_id: int, **_: Any) -> str:
    if job_id == 1:
        raise PermanentError("gone")
    return "an error"


def test_a_log_that_cannot_be_read_is_a_line_too(bench: Bench) -> None:
    bench.fake("github:jobs", returns=JOBS[:2])
    bench.fake("github:log", calls=log_that_is_gone_for_the_first)
    assert triaged(bench).run().result["comment"].splitlines()[2:] == [
        "- **job 1**: PermanentError: gone",
        "- **job 2**: an error",
    ]


def test_a_run_that_passed_asks_nothing_of_github(bench: Bench) -> None:
    assert triaged(bench, conclusion="success").run().result == {"failed": 0}
    assert bench.calls == []


def test_one_commit_has_one_comment_however_many_of_its_runs_fail(bench: Bench) -> None:
    for run in (1, 2, 3):
        assert triaged(bench, id=run, head_sha="abc").run().status == "succeeded"
    assert [call.tool for call in bench.calls].count("github:comment") == 1
    triaged(bench, head_sha="def").run()
    assert [call.tool for call in bench.calls].count("github:comment") == 2


@pytest.mark.parametrize(
    ("event", "body"),
    [
        ("workflow_run", failed(run_attempt=2) | {"action": "in_progress"}),
        ("check_suite", {"action": "rerequested", "check_suite": {"id": 815}}),
    ],
)
def test_a_rerun_ends_the_triage_and_the_looks_at_logs(bench: Bench, event: str, body: Any) -> None:
    bench.fake("github:log", raises=RetryAfter(60))
    job = triaged(bench)
    bench.advance(10)
    assert (job.status, len(job.children)) == ("waiting", 4)
    assert deliver(bench, event, body) is None
    bench.advance(600)
    assert {each.status for each in (job, *job.children)} == {"cancelled"}
    assert "github:comment" not in [call.tool for call in bench.calls]


def test_wherever_the_worker_dies_each_log_is_read_once_and_one_comment_is_made() -> None:
    for crash in crash_points():
        with Bench(app, topology=TOPOLOGY, strict=True, crash=crash) as bench:
            job = triaged(faked(bench, JOBS[:2])).run()
            assert job.status == "succeeded"
            assert sorted(call.tool for call in bench.happened) == [
                "github:comment",
                "github:jobs",
                "github:log",
                "github:log",
            ]


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no samples at {SAMPLES}")
@pytest.mark.parametrize("name", ["completed", "completed.with-pull-requests"])
def test_githubs_own_samples_are_triaged(bench: Bench, name: str) -> None:
    body = orjson.loads((SAMPLES / f"workflow_run/{name}.payload.json").read_bytes())
    passed = deliver(bench, "workflow_run", body)
    assert passed is not None
    assert passed.run().result == {"failed": 0}
    body["workflow_run"]["conclusion"] = "failure"
    broken = deliver(bench, "workflow_run", body)
    assert broken is not None
    assert broken.run().result["failed"] == 6
    comments = [call.tool for call in broken.calls].count("github:comment")
    assert comments == len(body["workflow_run"]["pull_requests"])


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no samples at {SAMPLES}")
def test_githubs_own_sample_of_a_rerun_is_routed_to_end_a_triage(bench: Bench) -> None:
    (path,) = (SAMPLES / "check_suite").glob("rerequested.*")
    body = orjson.loads(path.read_bytes())
    bench.fake("github:log", raises=RetryAfter(60))
    job = triaged(bench, check_suite_id=body["check_suite"]["id"])
    bench.advance(10)
    deliver(bench, "check_suite", body)
    bench.advance(1)
    assert job.status == "cancelled"


@dataclass
class GitHub:
    """As much of GitHub as the tools call; `answers` are taken first."""

    answers: list[web.Response] = field(default_factory=list)
    comments: list[dict[str, Any]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        if self.answers:
            return self.answers.pop()
        if request.path.endswith("/jobs"):
            ends = ("failure", "success")
            jobs = [{"id": n, "name": "j", "conclusion": end} for n, end in enumerate(ends)]
            return web.json_response({"jobs": jobs})
        if request.path.endswith("/logs"):
            return web.Response(text="a log")
        if request.method == "GET":
            return web.json_response(self.comments)
        self.comments.append(await request.json() | {"id": len(self.comments)})
        return web.json_response(self.comments[-1])


@pytest.fixture
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GitHub]:
    found, server = GitHub(), web.Application()
    server.router.add_route("*", "/{any:.*}", found.answer)
    runner = web.AppRunner(server)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    monkeypatch.setenv("GITHUB_API_URL", f"http://{host}:{port}")
    yield found
    await runner.cleanup()


def test_the_token_is_a_credential_that_no_record_shows(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "of-the-worker")
    bench.credential("github", "the-token-of-a-test")

    def said(job_id: int, **_: Any) -> str:
        return f"an error: the-token-of-a-test was refused for {job_id}"

    bench.fake("github:log", calls=said)
    comment = triaged(bench).run().result["comment"]
    assert comment.splitlines()[2] == "- **job 1**: an error: [redacted] was refused for 1"


async def test_the_tools_call_github(served: GitHub) -> None:
    assert await github.failed_jobs("t", "a/b", 1, "k") == [{"id": 0, "name": "j"}]
    assert await github.log_of("t", "a/b", 1, "k") == "a log"
    for key in ("k1", "k1", "k2"):
        await github.post_comment("t", "failed", "a/b", 12, key)
    assert len(served.comments) == 2


@pytest.mark.parametrize(
    ("status", "headers", "error"),
    [
        (429, {}, RetryAfter),
        (403, {"Retry-After": "7"}, RetryAfter),
        (403, {}, PermanentError),
        (410, {}, PermanentError),
        (503, {}, TransientError),
        (500, {}, ClientResponseError),
    ],
)
async def test_an_answer_of_github_says_what_is_known(
    served: GitHub, status: int, headers: dict[str, str], error: type[Exception]
) -> None:
    served.answers = [web.Response(status=status, headers=headers)]
    with pytest.raises(error):
        await github.log_of("t", "a/b", 1, "k")

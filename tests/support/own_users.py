"""Every process of Tidegate with a user of its own, on a broker that authorizes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from streams.broker.ports import pick_free
from streams.topology.model import FUSED
from streams.topology.rights import Right, User
from streams.topology.rights_text import as_json
from support.authorized import AuthorizingKafka, Decision, Grant, authorizing
from support.conditions import eventually
from support.stage_process import StageProcess
from support.whole_calls import TOKEN, Calls

_COMMAND = (sys.executable, "-m", "streams.cli")
_USERS = ("--user-prefix", "tidegate-")
OVERLAY = {
    "partitions": 2,
    "routes": [{"match": {"source": "shop", "event_type": "ticket.*"}, "job": "answer"}],
    "limits": [{"name": "together", "scope": "global", "concurrency": 100}],
    "max_queued": [{"scope": "job_type", "match": "nobody.*", "jobs": 20}],
}
OWNERS = (f"{FUSED}-0", f"{FUSED}-1", "dispatcher-0")
"""The processes that listen for workers."""
_APPLICATION = """
from streams import App, Context, PermanentError

app = App("rights")
app.tool("mail:send", key_lifetime=3600)


@app.job("tree")
async def tree(ctx: Context):
    return await ctx.enqueue("answer", {"id": 5}, wait=True)


@app.job("ask")
async def ask(ctx: Context):
    return (await ctx.approval("send", prompt="May it be sent?")).approved


@app.job("answer")
async def answer(ctx: Context):
    asked = ctx.input or await ctx.json()
    if asked["id"] == 0:
        raise PermanentError("nothing to answer")
    text = await ctx.step("write", write, asked["id"])
    await ctx.progress({"written": True})
    ctx.stream(text)
    return await ctx.effect("mail:send", send, key="answer", text=text)


async def write(number: int) -> str:
    return f"answer {number}"


async def send(text: str, idempotency_key: str) -> str:
    return text
"""


class CommandProcess(StageProcess):
    """A process of `tidegate`; `url` is where it serves HTTP."""

    def __init__(
        self, arguments: list[str], log: Path, environ: dict[str, str], folder: Path | None = None
    ) -> None:
        self._log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [*_COMMAND, *arguments], stdout=out, stderr=out, env=environ, cwd=folder
            )


@dataclass
class OwnUsers:
    """The users by process, what they may, and the processes that run."""

    kafka: AuthorizingKafka
    folder: Path
    prefix: str
    running: dict[str, CommandProcess] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    granted: set[Grant] = field(default_factory=set)
    starts: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "topology.yaml").write_text(yaml.safe_dump(OVERLAY))
        (self.folder / "rights_app.py").write_text(_APPLICATION)
        (self.folder / "vault.key").write_bytes(os.urandom(32))
        for owner in OWNERS:
            self._pick(f"link of {owner}")

    def set_up(self) -> None:
        """Make the users, give them the rights that the command prints, and create the topics."""
        printed = self.command("topology", "topology", "describe", "--acls", "--json", *_USERS)
        for user in json.loads(printed.stdout)["users"]:
            self.kafka.add_user(user["user"])
            self.granted |= {Grant.of(user["user"], right) for right in user["rights"]}
        self.kafka.grant(self.granted)
        self.apply()

    @contextmanager
    def without(self, process: str, right: Right) -> Iterator[None]:
        """Within the block, the user of a process lacks a right."""
        (user,) = as_json([User(process, (right,))], "tidegate-")
        grant = Grant.of(user["user"], user["rights"][0])
        self.kafka.revoke(grant)
        try:
            yield
        finally:
            self.kafka.grant([grant])

    def apply(self) -> None:
        self.command("topology", "topology", "apply", "--allow-unsafe")

    def command(
        self, process: str, *arguments: str, fails: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end as the user of a process."""
        done = subprocess.run(
            [*_COMMAND, *arguments],
            env=self._environ(process, "0"),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done

    def start(self, process: str, instance: str = "0", **environ: str) -> CommandProcess:
        """Start a process, without waiting for it; `environ` is added to its environment."""
        name = f"{process}-{instance}"
        stage, _, pool = process.partition("-")
        port = self._pick(name)
        flag = "--port" if stage in ("ingress", "operator", "analytics") else "--probe-port"
        worker = ["--app", "rights_app:app", "--pool", pool] if pool else []
        started = CommandProcess(
            [stage, "--instance", instance, flag, str(port), *worker],
            self._new_log(name),
            self._environ(process, instance) | environ,
        )
        self.running[name] = started
        return started

    def _pick(self, name: str) -> int:
        """A port of its own for each name, which it keeps."""
        return self.ports.setdefault(name, pick_free(frozenset(self.ports.values())))

    def _new_log(self, name: str) -> Path:
        """A log of this start alone: what an earlier one said must not count."""
        self.starts += 1
        return self.folder / f"{name}.{self.starts}.log"

    def stop(self, name: str) -> None:
        assert self.running.pop(name).stop() == 0, name

    def lose(self, process: str) -> None:
        """Kill a process and delete its state."""
        self.running.pop(f"{process}-0").kill()
        shutil.rmtree(self.folder / f"{process}-0")

    def kill_all(self) -> None:
        for process in self.running.values():
            process.kill()
        self.running.clear()

    def ready(self, *names: str) -> None:
        """Return once these processes say that they are ready."""
        for name in names:
            url = f"http://127.0.0.1:{self.ports[name]}"
            eventually(lambda: self._ready(name, url), what=f"{name} is ready")  # noqa: B023

    def _ready(self, name: str, url: str) -> bool:
        assert self.running[name].alive, self.running[name].lines[-3000:]
        try:
            Calls(url, url).ask("GET", "/readyz")
        except json.JSONDecodeError:
            return True
        except OSError:
            return False
        return True

    def calls(self, ingress: str = "ingress-0") -> Calls:
        return Calls(*(f"http://127.0.0.1:{self.ports[n]}" for n in ("operator-0", ingress)))

    def denied(self) -> list[Decision]:
        return [each for each in self.kafka.decisions() if each.rule is None]

    def unused(self) -> set[Grant]:
        """Rights by which no request was allowed that needs just this operation."""
        used = {
            each.rule
            for each in self.kafka.decisions()
            if each.rule is not None and each.operation == each.rule.operation
        }
        return self.granted - used

    def _environ(self, process: str, instance: str) -> dict[str, str]:
        inside = self._of_worker() if "worker" in process else self._of_user(process, instance)
        return {
            **os.environ,
            **inside,
            "PYTHONPATH": str(self.folder),
            "TIDEGATE_TOPOLOGY": str(self.folder / "topology.yaml"),
            "TIDEGATE_LINK_TOKEN": TOKEN,
            "TIDEGATE_LOG_FORMAT": "json",
        }

    def _of_worker(self) -> dict[str, str]:
        """Where the owners of partitions listen, and nothing of Kafka."""
        places = (f"ws://127.0.0.1:{self.ports[f'link of {owner}']}" for owner in OWNERS)
        return {"TIDEGATE_LINK": ",".join(places)}

    def _of_user(self, process: str, instance: str) -> dict[str, str]:
        link = self.ports.get(f"link of {process}-{instance}")
        return {
            **self.kafka.environ(f"tidegate-{process}"),
            **({} if link is None else {"TIDEGATE_LINK_LISTEN": f"127.0.0.1:{link}"}),
            "TIDEGATE_TOPIC_PREFIX": self.prefix,
            "TIDEGATE_DATA_DIR": str(self.folder / f"{process}-{instance}"),
            "TIDEGATE_VAULT_KEY_FILE": str(self.folder / "vault.key"),
            "TIDEGATE_ADMIN_TOKEN": TOKEN,
            "TIDEGATE_SESSION_SECONDS": "4",
            "TIDEGATE_EGRESS_ALLOW_HTTP": "true",
            "TIDEGATE_EGRESS_ALLOW_NETWORKS": "127.0.0.0/8",
        }


@contextmanager
def own_users(folder: Path, prefix: str = "t.") -> Iterator[OwnUsers]:
    """The users on a new broker, with their rights and the topics."""
    with authorizing(folder) as kafka:
        found = OwnUsers(kafka, folder / "own", prefix)
        try:
            found.set_up()
            yield found
        finally:
            found.kill_all()

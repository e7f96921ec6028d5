"""An operator as a process of its own, which can be killed."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from support.conditions import eventually, exit_code
from support.operator_cluster import TOKEN, Cluster, RunningOperator


class OperatorProcess:
    """An operator as a process of its own, which can be killed."""

    def __init__(self, cluster: Cluster, instance: str) -> None:
        settings, log = cluster.settings, cluster.settings.data_dir / f"{instance}.log"
        passed = {
            f"TIDEGATE_KAFKA_{name.upper().replace('.', '_')}": str(value)
            for name, value in settings.kafka.items()
            if name != "log_level"
        }
        environ = {
            **os.environ,
            **passed,
            "TIDEGATE_BOOTSTRAP": settings.bootstrap,
            "TIDEGATE_ADMIN_TOKEN": TOKEN,
            "TIDEGATE_TOPIC_PREFIX": settings.topic_prefix,
            "TIDEGATE_LOG_FORMAT": "json",
            "TIDEGATE_VAULT_KEY_FILE": str(settings.data_dir / "vault.key"),
            "TIDEGATE_SESSION_SECONDS": "6",
        }
        words = ["operator", "--port", "0", "--instance", instance]
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "streams.cli", *words, "--data-dir", settings.data_dir],
                env=environ,
                stdout=out,
                stderr=out,
            )
        listens = r'"operator listens".*"port": (\d+)|"port": (\d+).*"operator listens"'
        found = eventually(lambda: re.search(listens, log.read_text()), what="it listens")
        self.api = RunningOperator(f"http://127.0.0.1:{found[1] or found[2]}")

    def kill(self) -> None:
        self._process.kill()
        exit_code(self._process)

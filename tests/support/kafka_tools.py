"""Kafka's own command-line tools, as an operator types them."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from streams.broker.jars import ensure_jars
from streams.broker.java import environment, java_binary

_LOCK = Path(__file__).with_name("kafka_tools.lock")
_CLASSES = {
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}
_SECONDS = 120


def typed(command: str) -> str:
    """What a command prints, such as `kafka-transactions.sh --bootstrap-server ... list`.

    Raises:
        AssertionError: it ended with an error.
    """
    script, *words = shlex.split(command)
    classes = os.pathsep.join(map(str, (*ensure_jars(), *ensure_jars(_LOCK))))
    done = subprocess.run(
        [
            str(java_binary()),
            "-Xmx128m",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            classes,
            _CLASSES[script],
            *words,
        ],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout

"""The counting stage as a process: `python counting_stage.py`, configured by TIDEGATE_*.

`KILL_AT` (`produced`: all is sent, nothing committed; `committed`: the broker has committed,
the stores do not know; `written`: all done) has it kill itself with SIGKILL at that step of the
first transaction whose outputs hold a record of the key `KILL_KEY`. `punctuated` has it stop
itself, once, with SIGSTOP between what a punctuation did and the transaction that carries it.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import confluent_kafka
from counting import counting_stage, counting_topology

from streams.runtime import transaction
from streams.runtime.runner import run_stage
from streams.runtime.task import Task
from streams.settings import load_settings
from streams.telemetry import configure_logging

KILL_AT = os.environ.get("KILL_AT", "")
KILL_KEY = os.environ.get("KILL_KEY", "").encode()
commit_task, punctuate_task = Task.committed, Task.punctuate
met: set[Any] = set()


def die_if(step: str) -> None:
    if KILL_KEY in met and step == KILL_AT:
        os.kill(os.getpid(), signal.SIGKILL)


class DoomedProducer(confluent_kafka.Producer):
    """Dies around a commit once the key to die for was produced."""

    def produce(self, topic: str, value: Any, key: Any, *args: Any, **kwargs: Any) -> None:
        met.add(key)
        super().produce(topic, value, key, *args, **kwargs)

    def commit_transaction(self, *args: Any) -> None:
        if KILL_AT == "produced":
            self.flush(10)
        die_if("produced")
        super().commit_transaction(*args)
        die_if("committed")


def commit_then_die(self: Task, offsets: Any) -> None:
    commit_task(self, offsets)
    die_if("written")


def punctuate_then_pause(self: Task) -> None:
    punctuate_task(self)
    if KILL_AT == "punctuated" and self.dirty and KILL_AT not in met:
        met.add(KILL_AT)
        os.kill(os.getpid(), signal.SIGSTOP)


if __name__ == "__main__":
    if KILL_AT:
        transaction.Producer = DoomedProducer  # type: ignore[misc]
        Task.committed = commit_then_die  # type: ignore[method-assign]
        Task.punctuate = punctuate_then_pause  # type: ignore[method-assign]
    settings = load_settings()
    configure_logging(settings, stage="counting", instance=settings.instance)
    width = int(os.environ.get("PARTITIONS", "2"))
    run_stage(counting_stage(), counting_topology(width), settings)

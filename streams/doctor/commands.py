"""Writes the commands of remedies: each means the installation that was looked at.

Whoever pastes one may be in another folder, and in a shell without the settings of the processes.
So it names its topology, cluster, topic prefix and operator wherever these are not the defaults.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streams.settings import Settings

_DATA_DIR = Settings.model_fields["data_dir"].default


@dataclass(frozen=True, slots=True)
class Commands:
    """How to name what was looked at.

    `url` is the operator's address if somebody gave it. `dev` is the state of the `tidegate dev`
    on the data directory, empty if none runs or was killed there.
    """

    settings: Settings
    url: str | None
    dev: Mapping[str, Any]

    def on_topology(self, *words: str) -> str:
        """A command that reads the topology's file alone."""
        return self._prefixed((*words, *self._file()))

    def on_kafka(self, *words: str) -> str:
        """A command that asks the brokers."""
        return self._prefixed((*words, "--bootstrap", self.settings.bootstrap, *self._file()))

    def on_operator(self, *words: str) -> str:
        """A command that asks the operator's API."""
        directory = self.settings.data_dir
        if self.url is not None:
            words += ("--url", self.url)
        elif directory != _DATA_DIR:
            words += ("--data-dir", str(directory))
        return _line(words)

    def process(self, *words: str) -> str:
        """What starts a stage's process, or has `dev` start one more."""
        if not self.dev:
            return self.on_kafka(*words)
        if words[0] == "analytics":
            return f"start dev again as: {self.start_dev('--analytics')}"
        logs = self.settings.data_dir / "logs"
        return f"dev restarts it by itself; if it does not stay up, see why in {logs}"

    def start_dev(self, *more: str) -> str:
        """The command that the `dev` on the data directory was started with."""
        told = self.dev.get("command") or ["dev", "--data-dir", str(self.settings.data_dir)]
        directory = self.dev.get("directory", "")
        there = not directory or os.path.realpath(directory) == os.path.realpath(".")
        return f"{'' if there else f'cd {shlex.quote(directory)} && '}{_line((*told, *more))}"

    def _file(self) -> tuple[str, ...]:
        file = self.settings.topology
        return () if file is None else ("--topology", str(file))

    def _prefixed(self, words: tuple[str, ...]) -> str:
        prefix = self.settings.topic_prefix
        named = f"TIDEGATE_TOPIC_PREFIX={shlex.quote(prefix)} " if prefix else ""
        return named + _line(words)


def _line(words: tuple[str, ...]) -> str:
    return shlex.join(("tidegate", *words))

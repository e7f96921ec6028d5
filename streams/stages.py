"""Every stage as a process: its name, the code that starts it, and when `dev` stops it.

The command line, `tidegate dev` and `tidegate pipeline` read this one table. Stages are imported
only when asked for: a stage's process loads that stage alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from streams.errors import ConfigError

if TYPE_CHECKING:
    from streams.runtime.stage import AnyStage
    from streams.settings import Settings
    from streams.topology.model import Topology


@dataclass(frozen=True, slots=True)
class StageProcess:
    """`does` and `needs` are its help: one sentence, and the settings that it requires.

    `target`, `module:function`, is called with a topology to make the stage if `kind` is `stream`;
    otherwise it runs the process. A `sender` is a stream stage that also calls out. A process of
    kind `http` has an API beside its probes. One that `owns_jobs` listens for workers. `own` names
    variables that `dev` gives to no other process. `dev` stops the stages of one `wave` together,
    lower waves first: first intake stops, then running jobs end, then the records that they wrote
    are processed.
    """

    name: str
    does: str
    kind: Literal["stream", "sender", "http", "worker"]
    target: str
    wave: int
    needs: tuple[str, ...] = ()
    owns_jobs: bool = False
    own: tuple[str, ...] = ()

    @property
    def help(self) -> str:
        return f"{self.does}\n\nNeeds {' and '.join(self.needs)}." if self.needs else self.does

    def make(self, topology: Topology) -> AnyStage:
        """Make the stage of a topology; only for kind `stream`."""
        made: AnyStage = load(self.target)(topology)
        return made

    def run(self, settings: Settings, topology: Topology) -> None:
        """Run the process until it is told to stop; for any kind but `worker`."""
        if self.kind in ("http", "sender"):
            load(self.target)(settings, topology)
            return
        if self.owns_jobs:
            from streams.link.running import run_owner

            run_owner(self.make(topology), topology, settings)
            return
        from streams.runtime.runner import run_stage

        run_stage(self.make(topology), topology, settings)


_VAULT = "TIDEGATE_VAULT_KEY_FILE"
_LINK_TOKEN = ("TIDEGATE_LINK_TOKEN", "TIDEGATE_LINK_TOKEN_FILE")

STAGES = {
    stage.name: stage
    for stage in (
        StageProcess(
            "ingress",
            "Receive signed webhooks over HTTP.",
            "http",
            "ingress.http.server:run",
            wave=0,
            needs=(_VAULT,),
            own=("TIDEGATE_PUBLIC_FD", "TIDEGATE_PUBLIC_REST"),
        ),
        StageProcess(
            "dedup",
            "Drop redeliveries within the window.",
            "stream",
            "streams.dedup:stage",
            wave=2,
        ),
        StageProcess(
            "scheduler",
            "Fire what is due, once and never early.",
            "stream",
            "streams.scheduler:stage",
            wave=2,
        ),
        StageProcess(
            "dispatcher",
            "Own jobs, leases and the ledger of effects.",
            "stream",
            "streams.dispatcher:stage",
            wave=2,
            needs=(_VAULT,),
            owns_jobs=True,
            own=_LINK_TOKEN,
        ),
        StageProcess(
            "pipeline",
            "Run dedup, scheduler and dispatcher as one.",
            "stream",
            "streams.pipeline:stage",
            wave=2,
            needs=(_VAULT,),
            owns_jobs=True,
            own=_LINK_TOKEN,
        ),
        StageProcess(
            "delivery",
            "Deliver what happened to customers' endpoints.",
            "sender",
            "streams.delivery.run:run",
            wave=3,
            needs=(_VAULT,),
        ),
        StageProcess(
            "operator",
            "Serve the operator's API.",
            "http",
            "streams.stages:run_operator",
            wave=3,
            needs=("TIDEGATE_ADMIN_TOKEN", _VAULT),
            own=("TIDEGATE_ADMIN_TOKEN",),
        ),
        StageProcess(
            "analytics",
            "Count events, jobs and effects, and serve the figures.",
            "http",
            "streams.stages:run_analytics",
            wave=3,
            needs=("TIDEGATE_ADMIN_TOKEN",),
            own=("TIDEGATE_ADMIN_TOKEN",),
        ),
        StageProcess(
            "worker",
            "Run an application's handlers.",
            "worker",
            "streams.worker.run:run",
            wave=1,
            needs=("TIDEGATE_LINK", "TIDEGATE_LINK_TOKEN"),
            own=_LINK_TOKEN,
        ),
    )
}
"""The stages by name, in the order in which the command line lists them."""


def run_operator(settings: Settings, topology: Topology) -> None:
    """Run the operator, whose API lets events in as an ingress does."""
    from ingress.receive.admission import DirectAdmission
    from streams.operator.run import run

    run(settings, topology, DirectAdmission)


def run_analytics(settings: Settings, topology: Topology) -> None:
    """Run analytics, if the packages that it needs are installed.

    Raises:
        ConfigError: they are not; the message says how to install them.
    """
    require_analytics()
    from streams.analytics.run import run

    run(settings, topology)


def require_analytics() -> None:
    """Raise ConfigError unless the extra `tidegate[analytics]` is installed."""
    if find_spec("faust") is None:
        raise ConfigError(
            "analytics needs Faust, which is not installed: pip install 'tidegate[analytics]'"
        )


def load(target: str) -> Any:
    """The object that `module:attribute` names."""
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)

"""Makes the context of a run, with all that its methods need."""

from __future__ import annotations

from streams.artifacts.store import ArtifactStore
from streams.topology.model import Topology
from streams.worker.app import App
from streams.worker.credentials.credentials import Credentials
from streams.worker.handler.approvals import Approvals
from streams.worker.handler.artifacts import Artifacts
from streams.worker.handler.children import Children
from streams.worker.handler.claiming import Claimant
from streams.worker.handler.context import Context
from streams.worker.handler.effects import Effects
from streams.worker.handler.gathering import Gathering
from streams.worker.handler.history import History
from streams.worker.handler.model_calls import ModelCalls
from streams.worker.handler.run_session import RunSession
from streams.worker.handler.steps import Steps
from streams.worker.handler.wait_calls import WaitCalls
from streams.worker.handler.waits import Waits
from streams.worker.link.replies import Replies
from streams.worker.middleware.chain import Chain


class Contexts:
    """The contexts of one worker's runs."""

    def __init__(
        self,
        app: App,
        topology: Topology,
        replies: Replies,
        credentials: Credentials,
        chain: Chain,
        store: ArtifactStore | None,
    ) -> None:
        self._app = app
        self._most_children = topology.workflows.most_children
        self._replies = replies
        self._credentials = credentials
        self._chain = chain
        self._store = store

    def make(self, session: RunSession) -> Context:
        """The context of a run that begins."""
        claimant = self._claimant(session)
        history = History(session.lease.steps, self._app.version, session.redaction)
        artifacts = self.artifacts(session)
        models = ModelCalls(session, self._replies)
        steps = Steps(session, history, models, artifacts)
        waits = Waits(session, history, steps, artifacts, self._replies)
        children = Children(session, history, steps, waits, self._replies)
        return Context(
            session,
            Effects(session, self._replies, claimant, self._chain),
            steps,
            history,
            waits,
            WaitCalls(history, waits),
            Approvals(session, history, waits),
            children,
            Gathering(session, history, waits, children, self._most_children),
            self._credentials,
            artifacts,
        )

    def artifacts(self, session: RunSession) -> Artifacts:
        """The artifacts of a run."""
        return Artifacts(session, self._store)

    def _claimant(self, session: RunSession) -> Claimant:
        return Claimant(
            self._app.tools,
            self._app.jobs[session.lease.type].scopes,
        )

"""Whether policies let an effect begin, decided when its claim is read.

The policies are those of the topology that the dispatcher has now: rights may have gone since the
job was submitted. What an application's `@app.policy` said comes with the claim. It is asked after
the topology, and can only deny an effect or have people approve it.
"""

from __future__ import annotations

from streams.dispatcher.step import Step
from streams.serde.principals import principal_of
from streams.serde.records import Claim, Job, PolicyObjection
from streams.topology.policies import Asked, Policy, decisive


def denial(step: Step, job: Job, asked: Claim) -> str | None:
    """Why an effect may not begin, or None; no approval changes that."""
    policy = _decisive(step, job, asked.action)
    if policy is not None and policy.decision == "deny":
        return _denied(policy.name, job, asked)
    own = asked.objection
    if own is not None and own.decision != "approve":  # also one that this release does not know
        return f"{_denied(own.policy, job, asked)}: {own.reason}"
    return None


def wants_approval(
    step: Step, job: Job, action: str, own: PolicyObjection | None = None
) -> str | None:
    """Which policy wants people to approve an effect, or None; `own` is the application's."""
    policy = _decisive(step, job, action)
    if policy is not None and policy.decision == "approve":
        return f"policy {policy.name} wants an approval"
    if own is not None and own.decision == "approve":
        return f"policy {own.policy} wants an approval: {own.reason}"
    return None


def _decisive(step: Step, job: Job, action: str) -> Policy | None:
    if not step.topology.policies:
        return None
    tool = action.partition("/")[0]
    asked = Asked(tool, job.tenant_id, job.type, principal_of(job))
    return decisive(step.topology.policies, asked)


def _denied(policy: str, job: Job, asked: Claim) -> str:
    tool = asked.action.partition("/")[0]
    return f"policy {policy} denies tool {tool} to principal {principal_of(job)}"

"""A tool-calling agent: ask the model, call its tools, tell it what they gave, until it answers.

    tidegate dev --app examples.agent_loop.app:app --topology examples/agent_loop/topology.yaml

The model is recorded: `model.py` answers from `transcript.json`, without a network.
"""

from __future__ import annotations

from typing import Any

from examples.agent_loop.model import ask_model
from examples.agent_loop.tools import TOOLS, fault
from streams import App, Context, PermanentError, Retry

DAY = 86_400
TURNS_IN_A_RUN, MOST_TURNS = 3, 20

app = App("agent_loop")
app.tool("shop:order", key_lifetime=DAY)  # it only reads: to do it again does no harm
app.tool("email:send", key_lifetime=DAY)
# shop:refund honours no key: if its answer is lost, a person finds out what it did.


@app.job("agent", retry=Retry(max_attempts=5, backoff=(5, 30, 120)), timeout=900, scopes=set(TOOLS))
async def agent(ctx: Context) -> dict[str, Any]:
    """Work on a task: `{"task": "..."}`. A new run goes on behind the last call that finished."""
    messages = _said(ctx.input)
    for _ in range(TURNS_IN_A_RUN):
        answer = await ctx.step("model", ask_model, messages)
        messages = [*messages, answer]
        turn = _turns(messages)
        await ctx.progress({"turn": turn, "says": answer["text"]})
        if not answer["calls"]:
            return {"answer": answer["text"], "turns": turn}
        if turn == MOST_TURNS:
            raise PermanentError(f"the agent has no answer after {turn} turns")
        messages += [await _called(ctx, call) for call in answer["calls"]]
    # A long conversation begins anew with what was said, so that its history stays short.
    return ctx.continue_as_new({"messages": messages})


async def _called(ctx: Context, call: dict[str, Any]) -> dict[str, Any]:
    """What one tool gave. The id that the model gave the call is the key of its effect."""
    wrong = fault(call)
    if wrong is not None:  # tell the model, and let it go on
        given: Any = {"error": wrong}
    else:
        tool = TOOLS[call["tool"]]
        given = await ctx.effect(call["tool"], tool, key=call["id"], **call["arguments"])
    return {"role": "tool", "id": call["id"], "result": given}


def _said(given: Any) -> list[dict[str, Any]]:
    """What was said before this run: the task, or the conversation that is continued."""
    match given:
        case {"messages": [*messages]}:
            return messages
        case {"task": str(task)}:
            return [{"role": "user", "text": task}]
    raise PermanentError('agent: submit it as {"task": "Refund order 4711, please."}')


def _turns(messages: list[dict[str, Any]]) -> int:
    return sum(message["role"] == "assistant" for message in messages)

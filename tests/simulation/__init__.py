"""Seeds of the whole flow on the virtual clock, judged from outside: `make simulate`.

A seed is a story: what is asked of the pipeline and what goes wrong, drawn by `story.py`.
`world.py` plays it on the product's own stages (`cluster.py`), with models of workers
(`worker_model.py`) that keep to the worker's protocol, and with tools (`outside.py`) that see
every call, and people who decide (`people.py`). `invariants.py` holds G1 to G6 against what the
topics and the tools show, at every moment and after everything has healed. `answers.py`,
`approvals.py`, `changed_code.py`, `event_cancels.py`, `trees.py` and `waiting.py` each judge one
more promise.
`injected_faults.py` puts faults back into the product, to prove that the simulation sees them.

How to read a failure:

    seed 24: scope_of_two: scope job_3143.1 served evt_..fa, now evt_..4f
      partitions: 2                         how the world is set up
      +8 s  deliver initech 1 pay           the shortest story found that breaks the same invariant
      +0 s  leap 744
      +0 s  deliver initech 1 pay
    run it alone: make simulate ARGS="--seed 24 --verbose"

The name behind the seed is the invariant. Each line is one operation: how long after the one
before it is done, its name, and its arguments, which `story.KINDS` explains. `--verbose` prints
everything that happened: operations, states of jobs, what workers read and said, calls of tools.
`--story` plays a story that you have changed by hand.
"""

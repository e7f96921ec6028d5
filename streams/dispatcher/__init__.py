"""The dispatcher stage: it owns every job of its partitions, from the event to the job's end.

`stage` routes each record and command to the part that handles it (`parts/`), and each change of a
job and the passing of time to all of them. A part works with a `step`: the clock, the `table` of
jobs, the outbox and the timers. `job` has the transitions as pure functions, `transitions` and
`failures` those with an effect beside the job. What is derived from jobs (`run_queue`, `workers/`)
follows each change of the table.
"""

from streams.dispatcher.stage import stage

__all__ = ["stage"]

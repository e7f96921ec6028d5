"""The stream runtime: runs a stage's processor over Kafka, exactly once.

    source ─► loop ─► executor ─► task ─► processor (a stage's plain code)
                         │          └──► stores (streams.state), restored by assignment
                         └──► transaction ─► sending: outputs, changelogs, positions together

`fused_task` runs several stages as one; `driver` runs all of it in memory for tests.
"""

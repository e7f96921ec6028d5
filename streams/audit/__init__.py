"""The record of who did what: entries of the topic `audit`, each chained to the one before it.

Each writer of a partition has a chain of its own there: the dispatcher, the delivery stage, and
each operator. An entry is written in the Kafka transaction of the change that it tells of.
"""

"""The parts of the delivery stage, each one concern with its keys, its inputs and its commands."""

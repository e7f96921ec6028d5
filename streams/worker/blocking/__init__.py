"""Handlers that are plain functions: in a thread, or, with `cpu=True`, in a process of their own.

`context` is what such a handler gets. `thread` and `parent` are the two ways to carry its calls to
the run's own context in the event loop; `child` is the process, and `messages` what the two say.
"""

"""`tidegate doctor`: what is wrong with a cluster, its topics, rights, settings, clocks, versions.

`run.py` has the list of steps. Modules that end in `_view` look at the world, within a time, and
change nothing there. The others judge what was seen: plain functions from values to findings.
"""

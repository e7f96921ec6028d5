"""What `tidegate dev` shows while it runs: its own lines, and one line for each thing that happens.

The full logs of every process are in `<data_dir>/logs`.
"""

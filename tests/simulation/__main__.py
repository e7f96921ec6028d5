"""`python -m simulation`: see `run.main`."""

from simulation.command import main

main()

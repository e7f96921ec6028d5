"""`python -m streams.cli` is `tidegate`."""

from streams.cli.main import main

main()

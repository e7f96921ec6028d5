"""The command line, `tidegate`."""

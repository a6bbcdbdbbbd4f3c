"""`python -m firn` is the `firn` command."""

from firn.coordinator.cli import main

main()

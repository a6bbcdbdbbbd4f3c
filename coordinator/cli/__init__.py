"""The command line: `firn`, one module per family of commands."""

from firn.coordinator.cli.main import main

__all__ = ["main"]

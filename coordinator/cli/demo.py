"""`firn demo`: see firn work, and have it proven."""

from __future__ import annotations

import sys
from typing import Final

import click
from rich.console import Console

from firn.coordinator.demo.ending import EndedError, signals_end
from firn.coordinator.demo.run import run_demo

PIPED_COLUMNS: Final = 140
"""Width of the tables where there is no terminal to ask."""


@click.command()
@click.option("--seconds", type=click.FloatRange(1, 3600), default=30.0, show_default=True, help="How long to write.")
@click.option("--writers", type=click.IntRange(1, 64), default=8, show_default=True, help="Writer processes.")
@click.option("--no-spark", is_flag=True, help="Without the Spark application, which takes Java and half a minute.")
@click.option("--keep", is_flag=True, help="Leave everything running at the end, and say what to try.")
def demo(*, seconds: float, writers: int, no_spark: bool, keep: bool) -> None:
    """Run writers, compactors, a deleter and Spark against one table, then prove that nothing was lost or doubled."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPED_COLUMNS)
    try:
        with signals_end():
            code = run_demo(seconds=seconds, writers=writers, keep=keep, spark=not no_spark, console=console)
    except EndedError as ended:
        code = ended.exit_code
    sys.exit(code)

"""The `firn` command: its commands, and how errors end.

Exit codes: 0 done; 1 the answer is no (a rejected intent, a breach found, no such table, a daemon that failed); 2 wrong
usage or settings; 3 a server does not answer, or an outcome could not be learnt; 4 `firn serve` was told to end, gave
everything up, and left calls behind in which a store hangs.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from typing import Final

import click

from firn.coordinator.cli.exits import EXIT_INTERRUPTED, EXIT_NO, EXIT_OK, complaint, exit_code_of
from firn.coordinator.cli.lazy_group import LazyCommand, LazyGroup
from firn.coordinator.thread_calls import end_process
from firn.model.errors import FirnError

_HERE: Final = "firn.coordinator.cli"
_PIPELINE: Final = "firn.pipeline.cli"

COMMANDS: Final = {
    "serve": LazyCommand(f"{_HERE}.serve", "serve", "Run the daemon until a signal, then drain and exit 0."),
    "demo": LazyCommand(
        f"{_HERE}.demo", "demo", "Writers, compactors and a deleter, and a proof by another engine.", extra="demo"
    ),
    "table": LazyCommand(f"{_HERE}.table", "table", "Create, look at and drop tables."),
    "tables": LazyCommand(f"{_HERE}.tables", "tables", "How all tables are: what waits, who pauses, what is wrong."),
    "view": LazyCommand(f"{_HERE}.view", "view", "Create, look at, change and drop views."),
    "branch": LazyCommand(f"{_HERE}.branch", "branch", "Branches: create, move, fast-forward, rename, remove, keep."),
    "tag": LazyCommand(f"{_HERE}.branch", "tag", "Tags: create, move, remove, keep."),
    "snapshot": LazyCommand(f"{_HERE}.snapshot", "snapshot", "Roll back, set current, cherry-pick, publish."),
    "expire": LazyCommand(f"{_HERE}.snapshot", "expire", "Forget old snapshots."),
    "schema": LazyCommand(f"{_HERE}.schema", "schema", "Columns: add, drop, rename, widen, document, reorder."),
    "partition": LazyCommand(f"{_HERE}.layout", "partition", "Partition fields: add, remove, rename."),
    "sort-order": LazyCommand(f"{_HERE}.layout", "sort_order", "The order that writers are asked for."),
    "property": LazyCommand(f"{_HERE}.upkeep", "property_group", "Table properties: list, set, unset."),
    "statistics": LazyCommand(f"{_HERE}.upkeep", "statistics", "Statistics files of snapshots."),
    "file": LazyCommand(f"{_HERE}.file", "file", "Data files: append, delete, overwrite, replace, stage."),
    "submit": LazyCommand(f"{_HERE}.submit", "submit", "Submit intents and wait for their outcomes."),
    "explain": LazyCommand(f"{_HERE}.explain", "explain", "The whole story of an intent, or of a snapshot."),
    "begin": LazyCommand(f"{_HERE}.reservations", "begin", "Reserve files, partitions or rows, so that others see it."),
    "renew": LazyCommand(f"{_HERE}.reservations", "renew", "Renew a reservation, and hear what disturbed it."),
    "end": LazyCommand(f"{_HERE}.reservations", "end", "Give a reservation up."),
    "reservations": LazyCommand(f"{_HERE}.reservations", "reservations", "Who is at work on a table."),
    "consumer": LazyCommand(f"{_HERE}.consumer", "consumer", "Who reads a table's changes, and for whom expiry waits."),
    "outcome": LazyCommand(f"{_HERE}.outcome", "outcome", "What became of an intent."),
    "conflicts": LazyCommand(f"{_HERE}.conflicts", "conflicts", "What was rejected and why, newest first."),
    "report": LazyCommand(
        f"{_PIPELINE}.report", "report", "Journals as a table for SQL, and what conflicts were about.", extra="maintain"
    ),
    "maintain": LazyCommand(
        f"{_PIPELINE}.maintain",
        "maintain_group",
        "What tables need, and doing it: plan, run, dropped.",
        extra="maintain",
    ),
    "spark": LazyCommand(
        f"{_PIPELINE}.spark", "spark", "Spark without code: try it, compact, clean up, report with SQL.", extra="spark"
    ),
    "status": LazyCommand(f"{_HERE}.status", "status", "Daemons, shards, what waits; exits with 1 on trouble."),
    "pause": LazyCommand(f"{_HERE}.pausing", "pause", "Commit nothing more to a table; its intents wait."),
    "resume": LazyCommand(f"{_HERE}.pausing", "resume", "Let a paused table be committed to again."),
    "drain": LazyCommand(f"{_HERE}.pausing", "drain_command", "Wait until a table's intents are decided, then pause."),
    "top": LazyCommand(f"{_HERE}.top", "top", "The fleet, live."),
    "lock": LazyCommand(f"{_HERE}.lock", "lock", "Who works on a table now, and how to end it."),
    "doctor": LazyCommand(f"{_HERE}.doctor", "doctor", "Check servers and settings, and say what to do about each."),
    "events": LazyCommand(f"{_HERE}.events", "events", "The newest events, or all from now on."),
    "journal": LazyCommand(f"{_HERE}.journal", "journal", "The swaps of a table, newest first."),
    "give-up": LazyCommand(f"{_HERE}.give_up", "give_up", "Decide an intent whose past is lost for good."),
    "dead-letters": LazyCommand(f"{_HERE}.dead_letters", "dead_letters", "Stream entries that were set aside."),
    "shard": LazyCommand(f"{_HERE}.shard", "shard", "The stream that a table's intents are added to."),
    "fsck": LazyCommand(f"{_HERE}.fsck", "fsck", "Check what must hold of a table, from what is stored."),
    "recover": LazyCommand(f"{_HERE}.recover", "recover", "Rebuild all pointers from table storage, after a disaster."),
    "config": LazyCommand(f"{_HERE}.config", "config", "Check the settings, or show those in force."),
    "completion": LazyCommand(f"{_HERE}.completion", "completion", "Complete firn's commands in bash, zsh or fish."),
    "version": LazyCommand(f"{_HERE}.version", "version_command", "The version of firn and of what it runs on."),
}


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="Exit codes: 0 done; 1 the answer is no (rejected, a breach, no such table); 2 wrong usage or settings; "
    "3 a server does not answer, or an outcome could not be learnt; 4 `firn serve` ended and left calls of a store "
    "that hangs.",
)
@click.option("--debug", is_flag=True, help="Show where in firn an error comes from.")
@click.version_option(package_name="firn", message="%(version)s")
def firn(*, debug: bool) -> None:  # the flag is read by `run`, where errors end
    """Commit coordinator for Apache Iceberg tables: many writers, one table, no retry storms."""


def main() -> None:
    """Run the command line and exit."""
    end_process(run(sys.argv[1:]))


def run(arguments: Sequence[str], *, connectors: object = None) -> int:
    """Run one command; its exit code. Every error is one line on standard error.

    `connectors` (`firn.coordinator.cli.reach.Connectors`) stand in for the servers in tests.
    """
    try:
        code = firn.main(list(arguments), prog_name="firn", standalone_mode=False, obj=connectors)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - a traceback says nothing to a user; --debug shows it
        if "--debug" in arguments[:1]:
            traceback.print_exc()
        click.echo(complaint(error), err=True)
        return exit_code_of(error) if isinstance(error, FirnError) else EXIT_NO
    return code if isinstance(code, int) else EXIT_OK

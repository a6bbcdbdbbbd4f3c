"""Work that was planned hundreds of commits ago is validated as if the table still had all of its snapshots: also by
another daemon, after maintenance, and after ZooKeeper was lost. (It is given ten snapshots, and forgets the others.)
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow.parquet as pq
import pytest

from firn.coordinator.client import TableView
from firn.model.intent import ContentFile, Intent
from firn.model.outcome import Committed, Rejected
from tests.acceptance.stack import SCHEMA, Stack
from tests.acceptance.test_disasters import (
    MAKE,
    ROWS,
    TIMEOUT_S,
    A,
    Told,
    ask,
    check,
    data_file,
    lose,
    recover,
    rows_of,
)

COMMITS: Final = 200
GROUPS: Final = 4


def compaction(view: TableView, old: ContentFile, base: int, **options: Any) -> Intent:
    """A rewrite of one of the first files, planned on `base`."""
    return MAKE.replace(
        A, removed=[old.file_path], added=[data_file(view, first_of(old))], base_snapshot_id=base, **options
    )


def first_of(file: ContentFile) -> int:
    return int(pq.read_table(file.file_path)["id"][0].as_py())


def committed(told: Told) -> int:
    """The snapshot that an intent became."""
    outcome = told[1]
    assert isinstance(outcome, Committed), outcome
    assert outcome.snapshot_id is not None
    return outcome.snapshot_id


@pytest.mark.timeout(120)
def test_a_rewrite_planned_two_hundred_commits_ago(stack: Stack) -> None:
    first = stack.daemon("a")
    with stack.client() as client:
        properties = {"firn.snapshots-max": "10", "firn.append-mode": "per-intent"}
        ask(client, MAKE.create_table(A, SCHEMA, properties=properties))
        view = client.table(A)
        old = [data_file(view, group * ROWS) for group in range(GROUPS)]
        base = committed(ask(client, MAKE.append(A, old)))
        appends = [MAKE.append(A, [data_file(view, (GROUPS + turn) * ROWS)]) for turn in range(COMMITS)]
        for start in range(0, COMMITS, 20):
            for ticket in [client.submit(one) for one in appends[start : start + 20]]:
                assert isinstance(ticket.result(TIMEOUT_S), Committed)
        metadata = client.table(A).metadata
        assert metadata.last_sequence_number == COMMITS + 1
        assert len(metadata.snapshots) < COMMITS / 2
        assert metadata.snapshot_by_id(base) is None

        committed(ask(client, compaction(view, old[0], base, writer="first")))
        _, refused = ask(client, compaction(view, old[0], base))
        assert isinstance(refused, Rejected)
        assert (refused.rule, refused.conflicting_writer, refused.conflicting_operation) == (
            "missing-file", "first", "replace",
        )  # fmt: skip

        first.kill()
        second = stack.daemon("b", ready=False)
        committed(ask(client, compaction(view, old[1], base)))

        ran = stack.firn("maintain", "run", A, "--no-spark", "--json")
        assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
        committed(ask(client, compaction(view, old[2], base)))
        second.terminate()

    lose(stack, redis=False, zookeeper=True)
    assert recover(stack, "--yes")["restored"] == [A]
    stack.daemon("c", ready=False)
    with stack.client() as client:
        committed(ask(client, compaction(view, old[3], base)))
        _, unknown = ask(client, compaction(view, old[3], 12345))
        assert isinstance(unknown, Rejected)
        assert unknown.rule == "unknown-base"
    assert rows_of(stack, A) == list(range((GROUPS + COMMITS) * ROWS))
    check(stack)

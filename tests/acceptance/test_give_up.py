"""An operator on call: a file of a table's journal is lost for good, and a writer asks again after an intent."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from firn.model.identifiers import uuid7
from tests.acceptance.stack import SCHEMA, Stack

TABLE = "db.lost"


@pytest.mark.long  # a daemon looks again every 20 s; tests/unit has the same on twins
def test_an_intent_whose_past_is_lost_is_decided_by_what_the_table_says(stack: Stack) -> None:
    daemon = stack.daemon()
    with stack.client() as client:
        client.create_table(TABLE, SCHEMA).committed(20)
        intent_id = uuid7(now_ms=time.time_ns() // 1_000_000, entropy=b"0123456789")
        file = {
            "file_path": f"{stack.warehouse}/db/lost/data/a.parquet", "file_format": "parquet", "spec_id": 0,
            "record_count": 10, "file_size_in_bytes": 1_000,
        }  # fmt: skip
        (stack.folder / "intent.json").write_text(
            json.dumps({
                "operation": "append", "intent-id": intent_id, "table": TABLE, "writer": "etl",
                "data-files": [{name.replace("_", "-"): value for name, value in file.items()}],
            })
        )  # fmt: skip
        submitted = stack.firn("submit", "intent.json", "--json")
        assert submitted.returncode == 0, submitted.stdout + submitted.stderr
        client.update_properties(TABLE, {"after": "it"}).committed(20)
    journal = Path(stack.warehouse) / "db" / "lost" / "metadata" / "_journal"
    lost = sorted(journal.iterdir())[1]
    lost.unlink()
    stack.redis.delete(stack.names.outcome(intent_id))

    waits = stack.firn("submit", "intent.json", "--timeout", "3")
    assert waits.returncode == 3, "nobody guesses"
    status = stack.firn("status")
    assert "what was decided on 1 intent before, if anything, cannot be read" in status.stderr
    assert lost.name in status.stderr
    shown = stack.firn("give-up", intent_id)
    assert shown.returncode == 0, shown.stderr
    assert lost.name in shown.stdout
    assert "names it in its summary" in shown.stdout
    snapshot = (
        next(line for line in shown.stdout.splitlines() if "--committed" in line).split("--committed ")[1].split()[0]
    )
    no = stack.firn("give-up", intent_id, "--never-committed", "--reason", "no idea")
    assert (no.returncode, "says that it was committed" in no.stderr) == (1, True)
    said = stack.firn("give-up", intent_id, "--committed", snapshot, "--reason", "the snapshot names it", "--json")
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["snapshot-id"] == int(snapshot)
    with stack.zookeeper() as zookeeper:
        assert zookeeper.get_children("/given-up") == []
    again = stack.firn("submit", "intent.json", "--json")
    assert (again.returncode, json.loads(again.stdout.splitlines()[0])["snapshot-id"]) == (0, int(snapshot))
    stack.wait_settled()
    assert daemon.terminate() == 0

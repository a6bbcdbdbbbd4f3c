"""Intents that must be refused whatever the table is like, and copies of good ones that were damaged on their way."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from tests.acceptance.outside_board import Seen
from tests.acceptance.outside_files import OutsideFile
from tests.acceptance.outside_wire import new_intent_id

Intent = dict[str, Any]
Hostile = Callable[[str, OutsideFile, Seen], Intent]


def damaged(intent: Intent, rng: random.Random) -> bytes:
    """A copy of a decided intent with another content under the same id, or no JSON at all. Answers go elsewhere."""
    copy = {**intent, "reply-to": "firn:replies:nobody"}
    whole = json.dumps(copy).encode()
    return rng.choice(
        (
            whole[: len(whole) // 2],
            whole.replace(b'"operation"', b'"operation": "append", "operation"', 1),
            json.dumps({**copy, "summary": {"damaged": "yes"}}).encode(),
            json.dumps({**copy, "operation": "drop-table"}).encode(),
            json.dumps({**copy, "digest": "0" * 32}).encode(),
            json.dumps({**copy, "deadline-ms": 1}).encode(),
        )
    )


def _append(table: str, *members: Intent, **more: Any) -> Intent:
    return {"operation": "append", "table": table, "data-files": list(members), **more}


def _changed(**changes: Any) -> Hostile:
    """An append of the file with members changed."""
    names = {name.replace("_", "-"): value for name, value in changes.items()}
    return lambda table, file, _seen: _append(table, {**file.member, **names})


def _property(name: str, value: str) -> Hostile:
    return lambda table, _file, _seen: {"operation": "update-properties", "table": table, "updates": {name: value}}


def _statistics(table: str, file: OutsideFile, seen: Seen) -> Intent:
    entry = {
        "snapshot-id": seen.head() or 1,
        "statistics-path": file.path,
        "file-size-in-bytes": file.member["file-size-in-bytes"],
        "file-footer-size-in-bytes": 8,
        "blob-metadata": [],
    }
    return {"operation": "set-statistics", "table": table, "statistics": entry}


def _twice(table: str, file: OutsideFile, _seen: Seen) -> Intent:
    return _append(table, file.member, {**file.member, "file-path": f"file://{file.path}"})


def _sum_beyond_63_bits(table: str, file: OutsideFile, _seen: Seen) -> Intent:
    other = {**file.member, "file-path": f"{file.path}.2"}
    return _append(table, *({**member, "record-count": 2**63 - 1} for member in (file.member, other)))


def _above(table: str, file: OutsideFile, seen: Seen) -> Intent:
    above = f"{seen.location.parent.parent}/data/../../../above.parquet"
    return _append(table, {**file.member, "file-path": above})


def _register(table: str, _file: OutsideFile, seen: Seen) -> Intent:
    name = f"{table}_{uuid.uuid4().hex}"
    return {"operation": "register-table", "table": name, "metadata-location": str(seen.location)}


def _create_inside(table: str, _file: OutsideFile, seen: Seen) -> Intent:
    return {
        "operation": "create-table", "table": f"{table}_{uuid.uuid4().hex}", "schema": seen.metadata["schemas"][0],
        "location": f"{seen.location.parent.parent}/inside",
    }  # fmt: skip


HOSTILE: Final[dict[str, Hostile]] = {
    "a file elsewhere": _changed(file_path="/etc/hostname"),
    "a file above the table": _above,
    "one file under two names": _twice,
    "a negative count": _changed(record_count=-1),
    "a count that is text": _changed(record_count="7"),
    "a count beyond 63 bits": _changed(record_count=2**63),
    "counts whose sum is beyond 63 bits": _sum_beyond_63_bits,
    "a partition with too many values": _changed(partition=[1, 2, 3, 4]),
    "a partition value of another type": _changed(partition=["x"]),
    "an unknown spec": _changed(spec_id=999),
    "a bound that is too short": _changed(lower_bounds={"keys": [1], "values": ["01"]}),
    "a column twice": _changed(value_counts={"keys": [1, 1], "values": [1, 1]}),
    "an unknown member": _changed(file_colour="red"),
    "another table's uuid": lambda t, f, _s: _append(t, f.member, **{"table-uuid": str(uuid.uuid4())}),
    "an unknown branch": lambda t, f, _s: _append(t, f.member, branch="nobody-made-this"),
    "a deadline that is over": lambda t, f, _s: _append(t, f.member, **{"deadline-ms": 1_700_000_000_000}),
    "an id of last week": lambda t, f, _s: _append(
        t,
        f.member,
        **{"intent-id": new_intent_id(random.Random(f.path), at_ms=int(time.time() * 1000) - 7 * 86_400_000)},
    ),
    "no table": lambda _t, f, _s: _append("db.nobody_made_this", f.member),
    "statistics that are a data file": _statistics,
    "data elsewhere": _property("write.data.path", "/etc"),
    "metadata elsewhere": _property("write.metadata.path", "/etc"),
    "a property that is no number": _property("commit.manifest.min-count-to-merge", "many"),
    "a table that is there": _register,
    "a table in another": _create_inside,
}
"""What must be refused, by what is wrong with it."""

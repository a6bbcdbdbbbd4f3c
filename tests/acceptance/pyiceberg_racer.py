"""PyIceberg at work on a table that others write, too: ``pyiceberg_racer.py <folder> <writer>``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from operator import methodcaller
from pathlib import Path

import msgspec
import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.table import Table

from tests.acceptance.folder_catalog import FolderCatalog
from tests.acceptance.race import Step, foreign_turns, ids_of

ARROW = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("writer", pa.string(), nullable=False)])
TRIES = 100


def main() -> None:
    """Append, and every third time delete some of what was appended: rows, so that a file is written anew."""
    catalog, writer = FolderCatalog(Path(sys.argv[1])), int(sys.argv[2])
    held: list[int] = []
    for turn in foreign_turns():
        if turn % 3 == 2:
            gone, held = held[:3], held[3:]
            _until_committed(catalog, methodcaller("delete", f"id in ({', '.join(map(str, gone))})"))
            _tell(catalog, deleted=tuple(gone))
        else:
            ids = ids_of(writer, turn)
            rows = pa.table({"id": ids, "writer": [f"pyiceberg-{writer}"] * len(ids)}, schema=ARROW)
            _until_committed(catalog, methodcaller("append", rows))
            _tell(catalog, added=tuple(ids))
            held += ids


def _until_committed(catalog: FolderCatalog, commit: Callable[[Table], None]) -> None:
    """Commit on what the table is now, again and again until nobody is faster."""
    for _ in range(TRIES):
        try:
            commit(catalog.load_table("db.raced"))
        except (CommitFailedException, ValidationException):
            continue
        return
    raise SystemExit(f"lost {TRIES} times in a row")


def _tell(catalog: FolderCatalog, **ids: tuple[int, ...]) -> None:
    assert catalog.committed is not None
    os.write(1, msgspec.json.encode(Step(snapshot_id=catalog.committed, **ids)) + b"\n")


if __name__ == "__main__":
    main()

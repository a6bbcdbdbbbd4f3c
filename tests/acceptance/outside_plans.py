"""Plans of every operation on a table, made from metadata that was read as JSON and from files that were written.

The checker derives what an operation must change from the intent and the registered files, so a plan has nothing else.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import fastavro
import pyarrow.parquet as pq

from tests.acceptance import outside_files as files
from tests.acceptance.outside_board import Board, Seen
from tests.acceptance.outside_files import OutsideFile

CATS: Final = 4
REGIONS: Final = 2
ROWS: Final = 8
Intent = dict[str, Any]


class Plans:
    """One writer's plans; each method returns an intent without id, or None where the table does not allow it yet."""

    def __init__(self, board: Board, tables: tuple[str, ...], rng: random.Random) -> None:
        self._board, self._tables, self._rng = board, tables, rng
        self._made = 0

    def append(self) -> Intent | None:
        """One to three files."""
        table = self.table()
        seen = self._board.seen(table)
        added = [self.data(table, seen) for _ in range(self._rng.randint(1, 3))]
        return {"operation": "append", "table": table, **self._branch(seen), "data-files": _members(added)}

    def delete_files(self) -> Intent | None:
        """Some files that are probably live."""
        table = self.table()
        gone = self._board.live(table, "main", self._rng, 2)
        return {"operation": "delete-files", "table": table, "removed-data-files": _paths(gone)} if gone else None

    def delete_where(self) -> Intent | None:
        """All files of a category, or those with small ids."""
        return {"operation": "delete-where", "table": self.table(), "row-filter": self._filter()}

    def replace(self) -> Intent | None:
        """Files of one place by one with the rows that they have left."""
        table = self.table()
        seen = self._board.seen(table)
        base = seen.head()
        picked = self._board.live(table, "main", self._rng, 6)
        if base is None or not picked:
            return None
        first = picked[0]
        together = [
            f for f in picked if (f.cat, f.region, f.spec_fields) == (first.cat, first.region, first.spec_fields)
        ]
        ids = [i for file in together for i in self._ids_left(file)]
        intent: Intent = {
            "operation": "replace", "table": table, "base-snapshot-id": base, "removed-data-files": _paths(together),
            "data-sequence-number": seen.snapshot(base)["sequence-number"],
        }  # fmt: skip
        if ids:
            intent["data-files"] = _members([self.data(table, seen, cat=first.cat, region=first.region, ids=ids)])
        return intent

    def overwrite(self) -> Intent | None:
        """What a filter takes, or named files, by new files of the same category."""
        table = self.table()
        seen = self._board.seen(table)
        base = seen.head()
        if base is None:
            return None
        cat = self._rng.randrange(CATS)
        intent: Intent = {"operation": "overwrite", "table": table, "base-snapshot-id": base}
        if self._rng.random() < 0.5:
            intent["row-filter"] = {"type": "eq", "term": "cat", "value": cat}
        else:
            gone = self._board.live(table, "main", self._rng, 2)
            if not gone:
                return None
            intent |= {"removed-data-files": _paths(gone), "isolation": "snapshot"}
        return {**intent, "data-files": _members([self.data(table, seen, cat=cat)])}

    def replace_partitions(self) -> Intent | None:
        """What is in a partition."""
        table = self.table()
        seen = self._board.seen(table)
        added = _members([self.data(table, seen)])
        mode = {"isolation": "snapshot"} if self._rng.random() < 0.5 else {}
        base = seen.head()
        if base is None:
            return None
        return {
            "operation": "replace-partitions", "table": table, "base-snapshot-id": base, "data-files": added, **mode,
        }  # fmt: skip

    def row_delta(self) -> Intent | None:
        """Deletes of some rows of a live file, by position or by id, with or without new rows."""
        table = self.table()
        seen = self._board.seen(table)
        targets = self._board.live(table, "main", self._rng, 1)
        base = seen.head()
        if not targets or base is None:
            return None
        (target,) = targets
        path = self._path(table, "deletes")
        if self._rng.random() < 0.4:
            some = self._rng.sample(target.ids, min(2, len(target.ids)))
            delete = files.equality_deletes(path, seen.layout, cat=target.cat, region=target.region, ids=some)
        else:
            make = files.position_deletes if seen.version == 2 else files.deletion_vector
            path = path if seen.version == 2 else path.with_suffix(".puffin")
            positions = self._rng.sample(range(len(target.ids)), min(2, len(target.ids)))
            delete = make(path, target, positions)
        self._board.add(delete)
        intent = {
            "operation": "row-delta", "table": table, "base-snapshot-id": base, "delete-files": _members([delete]),
            "isolation": "snapshot",
        }  # fmt: skip
        if self._rng.random() < 0.3:
            intent["data-files"] = _members([self.data(table, seen)])
        return intent

    def stage(self) -> Intent | None:
        """An append that nobody sees yet."""
        table = self.table()
        added = _members([self.data(table, self._board.seen(table))])
        return {
            "operation": "append", "table": table, "data-files": added, "stage": True, "wap-id": self.new_name("wap"),
        }  # fmt: skip

    def publish(self) -> Intent | None:
        """What was staged, by its id or by its snapshot."""
        if not self._board.staged:
            return None
        table, wap_id, snapshot_id = self._rng.choice(self._board.staged)
        if self._rng.random() < 0.5:
            return {"operation": "publish", "table": table, "wap-id": wap_id}
        return {"operation": "cherry-pick", "table": table, "snapshot-id": snapshot_id}

    def reference(self) -> Intent | None:
        """A branch or tag: made, moved, renamed, removed."""
        table = self.table()
        seen = self._board.seen(table)
        heads = [s["snapshot-id"] for s in seen.metadata.get("snapshots", ())]
        refs = [name for name in seen.metadata.get("refs", {}) if name != "main"]
        if not heads:
            return None
        snapshot = self._rng.choice(heads[-5:])
        if not refs or self._rng.random() < 0.4:
            operation = self._rng.choice(("create-branch", "create-tag"))
            return {
                "operation": operation, "table": table, "ref-name": self.new_name("ref"), "snapshot-id": snapshot,
            }  # fmt: skip
        ref = self._rng.choice(refs)
        now = seen.head(ref)
        choices: tuple[Intent, ...] = (
            {"operation": "set-ref", "ref-name": ref, "snapshot-id": snapshot, "expected-snapshot-id": now},
            {"operation": "remove-ref", "ref-name": ref, "expected-snapshot-id": now},
            {"operation": "rename-branch", "ref-name": ref, "new-name": self.new_name("ref")},
            {"operation": "fast-forward", "branch": ref, "to": "main"},
            {"operation": "rollback", "branch": ref, "snapshot-id": snapshot},
            {"operation": "set-retention", "ref-name": ref, "max-ref-age-ms": 10**12},
        )
        return {**self._rng.choice(choices), "table": table}

    def move_main(self) -> Intent | None:
        """Main back to an ancestor, or to any snapshot."""
        table = self.table()
        snapshots = self._board.seen(table).metadata.get("snapshots", ())
        if not snapshots:
            return None
        operation = self._rng.choice(("rollback", "set-current-snapshot"))
        return {"operation": operation, "table": table, "snapshot-id": self._rng.choice(snapshots[-3:])["snapshot-id"]}

    def expire(self) -> Intent | None:
        """All but the last ten snapshots, or one that is named."""
        table = self.table()
        snapshots = self._board.seen(table).metadata.get("snapshots", ())
        if snapshots and self._rng.random() < 0.3:
            named = self._rng.choice(snapshots)["snapshot-id"]
            return {"operation": "expire-snapshots", "table": table, "snapshot-ids": [named]}
        older = int(time.time() * 1000)
        return {"operation": "expire-snapshots", "table": table, "older-than-ms": older, "retain-last": 10}

    def statistics(self) -> Intent | None:
        """A Puffin file for the head, or none any more."""
        table = self.table()
        seen = self._board.seen(table)
        head = seen.head()
        if head is None:
            return None
        if self._rng.random() < 0.3:
            operation = self._rng.choice(("remove-statistics", "remove-partition-statistics"))
            return {"operation": operation, "table": table, "snapshot-id": head}
        path = seen.location.parent / f"{self.new_name('stats')}.stats"
        if self._rng.random() < 0.3:
            of_partitions = files.partition_statistics(path, snapshot_id=head)
            return {"operation": "set-partition-statistics", "table": table, "partition-statistics": of_partitions}
        number = seen.snapshot(head)["sequence-number"]
        entry = files.statistics(path, snapshot_id=head, sequence_number=number)
        return {"operation": "set-statistics", "table": table, "statistics": entry}

    def rewrite_manifests(self) -> Intent | None:
        """A manifest of the head by a copy of it."""
        table = self.table()
        seen = self._board.seen(table)
        head = seen.head()
        if head is None:
            return None
        with Path(seen.snapshot(head)["manifest-list"]).open("rb") as file:
            manifests: list[Any] = list(fastavro.reader(file))
        if not manifests:
            return None
        old = self._rng.choice(manifests)
        new = files.manifest_copy(old, seen.location.with_name(f"{self.new_name('m')}.avro"))
        return {
            "operation": "rewrite-manifests",
            "table": table,
            "base-snapshot-id": head,
            "removed-manifests": [old["manifest_path"]],
            "manifests": [new],
        }

    def schema(self) -> Intent | None:
        """One more column, or one less of those that were added."""
        table = self.table()
        metadata = self._board.seen(table).metadata
        columns = next(s for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"])["fields"]
        own = [c["name"] for c in columns if c["id"] > len(files.SCHEMA["fields"])]
        change: Intent = {"action": "add-column", "name": self.new_name("c"), "type": "string"}
        if own and self._rng.random() < 0.5:
            change = {"action": "drop-column", "name": self._rng.choice(own)}
        return {
            "operation": "update-schema", "table": table, "base-schema-id": metadata["current-schema-id"],
            "changes": [change],
        }  # fmt: skip

    def layout(self) -> Intent | None:
        """Partition by region too, or no longer; or sort in another way."""
        table = self.table()
        seen = self._board.seen(table)
        base = {"table": table, "base-schema-id": seen.metadata["current-schema-id"]}
        if self._rng.random() < 0.5:
            keys = [{"source": self._rng.choice(("id", "cat", "region"))}]
            order = seen.metadata["default-sort-order-id"]
            return {**base, "operation": "update-sort-order", "base-sort-order-id": order, "sort-by": keys}
        by_region = "region" in seen.layout.columns
        change = (
            {"action": "remove-field", "name": "region"} if by_region else {"action": "add-field", "source": "region"}
        )
        return {**base, "operation": "update-spec", "base-spec-id": seen.layout.spec_id, "changes": [change]}

    def properties(self) -> Intent | None:
        """One of a few keys, to a new value or away."""
        key = f"outside.{self._rng.randrange(4)}"
        change: Intent = {"updates": {key: self.new_name("v")}} if self._rng.random() < 0.7 else {"removals": [key]}
        return {"operation": "update-properties", "table": self.table(), **change}

    def upgrade(self) -> Intent | None:
        """A table to format v3."""
        return {"operation": "upgrade-format", "table": self.table(), "format-version": 3}

    def transaction(self) -> Intent | None:
        """Appends to two tables, and at times something that is refused."""
        pointed = [table for table in self._tables if not self._board.seen(table).in_file_system]
        one, other = self._rng.sample(pointed, 2)
        members: list[Intent] = [
            {"operation": "append", "table": t, "data-files": _members([self.data(t, self._board.seen(t))])}
            for t in (one, other)
        ]
        if self._rng.random() < 0.5:
            members.append({"operation": "delete-where", "table": one, "row-filter": self._filter()})
        return {"operation": "transaction", "table": one, "members": members}

    # -- parts --------------------------------------------------------------------------------------------------------

    def append_to(self, table: str, *, under: str | None = None) -> Intent:
        added = _members([self.data(table, self._board.seen(table))])
        return {"operation": "append", "table": under or table, "data-files": added}

    def moved(self, table: str) -> Intent:
        """The same table with another folder for what is new."""
        folder = self._board.seen(table).location.parent.parent
        return {"operation": "set-location", "table": table, "location": str(folder.with_name(self.new_name("moved")))}

    def replaced(self, table: str) -> Intent:
        metadata = self._board.seen(table).metadata
        seen = {
            "uuid": metadata["table-uuid"],
            "schema-id": metadata["current-schema-id"],
            "last-column-id": metadata["last-column-id"],
            "last-partition-id": metadata["last-partition-id"],
        }
        version = int(metadata["format-version"])
        return {"operation": "create-or-replace-table", "table": table, "seen": seen, **new_table(version=version)}

    def table(self) -> str:
        return self._rng.choice(self._tables)

    def new_name(self, kind: str) -> str:
        self._made += 1
        return f"{kind}_{self._rng.getrandbits(40):x}_{self._made}"

    def _path(self, table: str, kind: str) -> Path:
        return self._board.seen(table).location.parent.parent / "data" / f"{self.new_name(kind)}.parquet"

    def data(
        self, table: str, seen: Seen, *, cat: int | None = None, region: int | None = None, ids: list[int] | None = None
    ) -> OutsideFile:
        first = self._board.next_id()
        file = files.data_file(
            self._path(table, "data"),
            seen.layout,
            cat=self._rng.randrange(CATS) if cat is None else cat,
            region=self._rng.randrange(REGIONS) if region is None else region,
            ids=list(range(first, first + self._rng.randint(1, ROWS))) if ids is None else ids,
        )
        self._board.add(file)
        return file

    def _ids_left(self, file: OutsideFile) -> list[int]:
        """The ids in a file, read from it, without those that were deleted by position."""
        ids = pq.read_table(file.path, columns=["id"], partitioning=None).column("id").to_pylist()
        gone = self._board.deleted(file.path)
        return [one for position, one in enumerate(ids) if position not in gone]

    def _branch(self, seen: Seen) -> Intent:
        branches = [name for name, ref in seen.metadata.get("refs", {}).items() if ref["type"] == "branch"]
        other = [name for name in branches if name != "main"]
        return {"branch": self._rng.choice(other)} if other and self._rng.random() < 0.2 else {}

    def _filter(self) -> Intent:
        if self._rng.random() < 0.7:
            return {"type": "eq", "term": "cat", "value": self._rng.randrange(CATS)}
        return {"type": "lt", "term": "id", "value": self._rng.randrange(1, max(2, self._board.next_id() // 4))}


def new_table(*, version: int, catalog: str | None = None) -> Intent:
    """The members that create a table of the writers' schema."""
    made = {"schema": files.SCHEMA, "partition-spec": files.BY_CAT, "format-version": version}
    return made if catalog is None else {**made, "catalog": catalog}


def view(text: str) -> Intent:
    return {"schema": files.SCHEMA, "representations": [{"type": "sql", "sql": text, "dialect": "spark"}]}


def _members(some: Iterable[OutsideFile]) -> list[Intent]:
    return [file.member for file in some]


def _paths(some: Iterable[OutsideFile]) -> list[str]:
    return [file.path for file in some]


OPERATIONS: Final[dict[str, int]] = {
    "append": 30, "delete_files": 6, "delete_where": 3, "replace": 8, "overwrite": 5, "replace_partitions": 4,
    "row_delta": 12, "stage": 4, "publish": 4, "reference": 6, "move_main": 1, "expire": 3, "statistics": 4,
    "rewrite_manifests": 3, "schema": 3, "layout": 2, "properties": 4, "upgrade": 1, "transaction": 6,
}  # fmt: skip
"""The methods of `Plans`, and how often each is taken."""

"""State that the writers of a fault programme share: tables, probably live files, and every intent with its answers.

It comes from outcomes only, so it is late, and some plans made on it are rejected. That is wanted.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.outside_files import Layout, OutsideFile
from tests.acceptance.outside_history import read_metadata
from tests.acceptance.outside_wire import Wish

COLUMNS = {1: "id", 2: "cat", 3: "region"}


@dataclass(frozen=True)
class Seen:
    """A table's metadata as a writer read it."""

    location: Path
    metadata: dict[str, Any]

    @property
    def version(self) -> int:
        """Its format version."""
        return int(self.metadata["format-version"])

    @property
    def in_file_system(self) -> bool:
        """Whether it is a file-system table."""
        return self.location.name.startswith("v")

    @property
    def layout(self) -> Layout:
        """How new files are partitioned."""
        spec_id = self.metadata["default-spec-id"]
        spec = next(s for s in self.metadata["partition-specs"] if s["spec-id"] == spec_id)
        return Layout(spec_id, tuple(COLUMNS[f["source-id"]] for f in spec["fields"]))

    def head(self, branch: str = "main") -> int | None:
        """The snapshot that a branch points at."""
        ref = self.metadata.get("refs", {}).get(branch)
        return None if ref is None else int(ref["snapshot-id"])

    def snapshot(self, snapshot_id: int) -> dict[str, Any]:
        """One of its snapshots."""
        return next(s for s in self.metadata["snapshots"] if s["snapshot-id"] == snapshot_id)


def version_number(location: str | None) -> int:
    """The number in a metadata file's name, ``00007-….metadata.json`` or ``v7.metadata.json``; -1 without a file."""
    if location is None:
        return -1
    return int(Path(location).name.removeprefix("v").partition(".")[0].partition("-")[0])


class Board:
    """Shared by all writers of a run, and read by the checker after it."""

    def __init__(self) -> None:
        self.files: dict[str, OutsideFile] = {}
        self.wishes: list[Wish] = []
        self.staged: list[tuple[str, str, int]] = []
        """Table, write-audit-publish id and snapshot of what was staged and not published."""

        self._live: defaultdict[tuple[str, str], dict[str, OutsideFile]] = defaultdict(dict)
        self._deleted: defaultdict[str, set[int]] = defaultdict(set)
        self._newest: dict[str, str] = {}
        self._lock = threading.Lock()
        self._ids = itertools.count(1, 1000)

    def next_id(self) -> int:
        """The first of 1000 ids that nobody has."""
        with self._lock:
            return next(self._ids)

    def add(self, *files: OutsideFile) -> None:
        """Register files that were written."""
        with self._lock:
            self.files.update((file.path, file) for file in files)

    def seen(self, table: str) -> Seen:
        """The newest metadata of a table that somebody heard of."""
        location = Path(self._newest[table])
        return Seen(location, read_metadata(str(location)))

    def live(self, table: str, branch: str, rng: random.Random, most: int) -> list[OutsideFile]:
        """Some data files that are probably live on a branch."""
        with self._lock:
            files = sorted(self._live[table, branch].values(), key=lambda file: file.path)
        return rng.sample(files, min(most, len(files)))

    def deleted(self, path: str) -> set[int]:
        """Positions of a file's rows that were deleted, as far as is known."""
        with self._lock:
            return set(self._deleted[path])

    def note(self, wish: Wish) -> None:
        """Take in the answer to a wish."""
        with self._lock:
            self.wishes.append(wish)
            if not wish.committed:
                return
            outcome = wish.outcome
            parts = outcome.get("details", {}).get("members", [outcome])
            members = wish.intent.get("members", [wish.intent])
            for member, part in zip(members, parts, strict=True):
                self._note(member, part)

    def _note(self, member: dict[str, Any], part: dict[str, Any]) -> None:
        table, branch = str(member["table"]), str(member.get("branch", "main"))
        location = part.get("metadata-location")
        if location is not None and version_number(location) > version_number(self._newest.get(table)):
            self._newest[table] = location
        if member.get("stage"):
            self.staged.append((table, str(member["wap-id"]), int(part["snapshot-id"])))
            return
        if member["operation"] in ("publish", "cherry-pick"):
            done = (member.get("wap-id"), member.get("snapshot-id"))
            self.staged = [one for one in self.staged if one[1] not in done and one[2] not in done]
        live = self._live[table, branch]
        for path in member.get("removed-data-files", ()):
            live.pop(path, None)
        for one in member.get("data-files", ()):
            live[one["file-path"]] = self.files[one["file-path"]]
        for one in member.get("delete-files", ()):
            file = self.files[one["file-path"]]
            if file.target is not None:
                self._deleted[file.target] |= file.positions

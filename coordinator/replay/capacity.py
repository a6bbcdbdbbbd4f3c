"""What a table can still take: rows, bytes and row ids are counted in 63 bits by manifests, summaries and readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from firn.coordinator.replay import rules
from firn.model.amounts import plural
from firn.model.datafile import DataFile
from firn.model.json_members import LONG_MAX
from firn.model.manifest import ManifestFile
from firn.model.snapshot_summary import content_size

_TEXT_MAX: Final = 19


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """What a branch has: rows of its data files, rows of its delete files, bytes of all of them."""

    rows: int
    deletes: int
    size: int

    def after(self, added: Sequence[DataFile], *, removed: Sequence[DataFile] = ()) -> Totals:
        """Return the totals after a change; refuse one that takes them past 63 bits.

        Totals that another writer has taken past them already refuse nothing. Prevents: a table whose manifests cannot
        be merged or rewritten any more, and totals that readers cannot parse.
        """
        changed = Totals(
            rows=self.rows + _rows(added, data=True) - _rows(removed, data=True),
            deletes=self.deletes + _rows(added, data=False) - _rows(removed, data=False),
            size=self.size + sum(map(content_size, added)) - sum(map(content_size, removed)),
        )
        for name, now, then in (
            ("rows", self.rows, changed.rows),
            ("rows of delete files", self.deletes, changed.deletes),
            ("bytes", self.size, changed.size),
        ):
            if then > LONG_MAX >= now:
                largest = max(added, key=lambda file: file.record_count if name != "bytes" else content_size(file))
                rules.TOO_MANY_ROWS.refuse(
                    f"the branch has {now:,} {name} and would have {then:,}, at most {LONG_MAX:,} can be counted; the "
                    f"largest file is {largest.file_path} with record-count {largest.record_count:,} and "
                    f"file-size-in-bytes {largest.file_size_in_bytes:,}",
                    files=(largest.file_path,),
                )
        return changed


EMPTY: Final = Totals(rows=0, deletes=0, size=0)


def totals_of(summary: Mapping[str, str], manifests: Callable[[], Sequence[ManifestFile]]) -> Totals:
    """Return the totals of a snapshot: of its summary, and of its manifests where that does not have them.

    Bytes are known from the summary only, and are 0 without it.
    """
    rows, size = _number(summary, "total-records"), _number(summary, "total-files-size")
    positions, equality = _number(summary, "total-position-deletes"), _number(summary, "total-equality-deletes")
    deletes = None if positions is None or equality is None else positions + equality
    if rows is None or deletes is None:
        listed = manifests()
        rows = _listed_rows(listed, data=True) if rows is None else rows
        deletes = _listed_rows(listed, data=False) if deletes is None else deletes
    return Totals(rows=rows, deletes=deletes, size=size or 0)


def require_row_ids(first_row_id: int, rows: int, *, files: Sequence[DataFile] = ()) -> None:
    """Refuse a snapshot whose rows get ids past 63 bits. Prevents: a `next-row-id` that no reader can read."""
    if first_row_id + rows > LONG_MAX:
        largest = max(files, key=lambda file: file.record_count, default=None)
        named = "" if largest is None else f"; the largest file is {largest.file_path} with {largest.record_count:,}"
        rules.TOO_MANY_ROWS.refuse(
            f"the table's next row id is {first_row_id:,} and this takes ids for {plural(rows, 'row')}, but ids end at "
            f"{LONG_MAX:,}{named}",
            files=() if largest is None else (largest.file_path,),
        )


def _rows(files: Sequence[DataFile], *, data: bool) -> int:
    return sum([file.record_count for file in files if (file.content == "data") is data])


def _listed_rows(manifests: Sequence[ManifestFile], *, data: bool) -> int:
    return sum(manifest.live_rows_count or 0 for manifest in manifests if (manifest.content == "data") is data)


def _number(summary: Mapping[str, str], name: str) -> int | None:
    text = summary.get(name, "")
    return int(text) if len(text) <= _TEXT_MAX and text.isascii() and text.isdecimal() else None

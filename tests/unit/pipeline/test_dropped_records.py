"""What a table has dropped is tidied from its records alone, once no base needs it any more, and not before."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
import pytest

from firn.model.datafile import DataFile
from firn.model.dropped_snapshots import Header, RecordRef, encode_snapshot
from firn.model.limits import Limits
from firn.model.table_properties import DROPPED_SNAPSHOTS
from firn.pipeline.dropped_records import RECORD_GRACE_MS, dropped_by
from firn.pipeline.forgotten_files import Removal, Removing
from firn.storage.dropped_snapshots import pack_record, record_location
from firn.storage.manifest_reader import StoredManifests
from tests.strategies.table_histories import History

DAY_MS = 24 * 3_600_000


class Recorded(History):
    """A table that keeps no older version of its metadata, and puts on record what it drops."""

    def __init__(self, *, version: int = 2) -> None:
        super().__init__(version=version, log_max=1)
        self.refs: list[RecordRef] = []

    def drop(self, snapshot_ids: Collection[int], *, beyond: str | None = None) -> str:
        """Forget snapshots as a commit of firn's does; no older metadata names them."""
        gone = [one for one in self.metadata.snapshots if one.snapshot_id in snapshot_ids]
        at_ms = self.metadata.last_updated_ms
        header = Header(
            table_uuid=self.metadata.table_uuid, since_ms=at_ms, until_ms=at_ms, earlier=tuple(self.refs), beyond=beyond
        )
        location = record_location(self.metadata.location, sequence=len(self.versions), token="t")
        ids = [one.snapshot_id for one in gone]
        self.mirror.create(location, pack_record(header, ids, [encode_snapshot(one) for one in gone]))
        self.refs.insert(0, RecordRef(location=location, count=len(ids), since_ms=at_ms, until_ms=at_ms))
        properties = {**self.metadata.properties, DROPPED_SNAPSHOTS: location}
        self.table.metadata = msgspec.structs.replace(self.metadata, properties=properties)
        self.expire(snapshot_ids)
        for old in self.versions[:-1]:
            if old in self.stored():
                self.files.delete(old)
        self.table.metadata = msgspec.structs.replace(self.metadata, metadata_log=())
        self.store()
        return location

    def tidy(self, *, later_ms: int, dry_run: bool = False) -> Removal:
        removing = Removing(
            self.now, self.files, limits=Limits(), folders=[self.metadata.location],
            look=lambda: (self.now, frozenset()), dry_run=dry_run,
        )  # fmt: skip
        return removing.run(self.metadata.last_updated_ms + later_ms)


def compacted(version: int = 2) -> tuple[Recorded, DataFile]:
    """A table whose first file was rewritten, with a snapshot after that."""
    history = Recorded(version=version)
    file = history.file()
    history.commit(file)
    history.commit(history.file(), removed=[file])
    history.commit(history.file())
    return history, file


def test_what_a_base_needs_stays_a_day_and_then_all_of_it_goes_without_any_older_metadata() -> None:
    history, file = compacted()
    made = {one.manifest_list for one in history.metadata.snapshots}
    history.drop([1, 2])
    before = history.stored()
    assert history.tidy(later_ms=DAY_MS - 60_000).count == 0
    assert history.stored() == before
    assert made | {file.file_path} <= before
    shown = history.tidy(later_ms=DAY_MS + RECORD_GRACE_MS + 60_000, dry_run=True)
    assert history.stored() == before
    removal = history.tidy(later_ms=DAY_MS + RECORD_GRACE_MS + 60_000)
    assert removal.removed == shown.removed
    assert removal.removed["content files"] == 1
    assert removal.removed["manifest lists"] == 2
    newest = history.metadata.properties[DROPPED_SNAPSHOTS]
    assert history.stored() == {*history.reachable(), newest}, "the newest record stays: the table names it"
    assert history.tidy(later_ms=3 * DAY_MS).removed == {}


def test_a_table_may_ask_for_more_than_a_day() -> None:
    history, _ = compacted()
    properties = {**history.metadata.properties, "firn.base-hours": "48"}
    history.table.metadata = msgspec.structs.replace(history.metadata, properties=properties)
    history.drop([1, 2])
    assert history.tidy(later_ms=2 * DAY_MS - 60_000).count == 0
    assert history.tidy(later_ms=2 * DAY_MS + 60_000).count > 0


def test_a_snapshot_that_was_succeeded_long_before_it_was_dropped_is_no_base_any_more() -> None:
    history, _ = compacted()
    aged = [
        msgspec.structs.replace(one, timestamp_ms=one.timestamp_ms - 3 * DAY_MS) for one in history.metadata.snapshots
    ]
    history.table.metadata = msgspec.structs.replace(history.metadata, snapshots=tuple(aged))
    history.drop([1, 2])
    assert history.tidy(later_ms=60_000).removed["manifest lists"] == 2


def test_an_old_base_whose_successor_is_young_stays() -> None:
    history, _ = compacted()
    first, *others = history.metadata.snapshots
    aged = msgspec.structs.replace(first, timestamp_ms=first.timestamp_ms - 3 * DAY_MS)
    history.table.metadata = msgspec.structs.replace(history.metadata, snapshots=(aged, *others))
    history.drop([1, 2])
    assert history.tidy(later_ms=60_000).count == 0


def test_deletes_that_a_base_had_stay_with_it_though_older_snapshots_go() -> None:
    """They are of a snapshot that nobody needs, and tell which rows were deleted at the base already."""
    history = Recorded(version=3)
    data = history.file()
    history.commit(data)
    vector = history.table.vector(data, [0])
    history.commit(vector)
    history.commit(history.file())
    history.commit(removed=[vector])
    history.commit(history.file())
    first, second, *others = history.metadata.snapshots
    aged = [msgspec.structs.replace(one, timestamp_ms=one.timestamp_ms - 3 * DAY_MS) for one in (first, second)]
    (third, *newer) = others
    old_third = msgspec.structs.replace(third, timestamp_ms=third.timestamp_ms - 2 * DAY_MS)
    history.table.metadata = msgspec.structs.replace(history.metadata, snapshots=(*aged, old_third, *newer))
    stored = StoredManifests(history.files)
    (manifest,) = [one for one in stored.manifests(history.metadata, third) if one.content == "deletes"]
    history.drop([1, 2, 3, 4])
    removal = history.tidy(later_ms=60_000)
    assert removal.removed["manifest lists"] == 2, "those of the first two, which were succeeded long ago"
    assert {vector.file_path, manifest.manifest_path, third.manifest_list} <= history.stored()
    history.tidy(later_ms=4 * DAY_MS)
    assert vector.file_path not in history.stored()


def test_records_beyond_those_that_are_needed_are_followed_and_go_with_what_they_led_to() -> None:
    history = Recorded()
    history.commit(history.file())
    records: list[str] = []
    for number in range(1, 6):
        history.commit(history.file())
        if number == 4:
            history.refs.clear()  # a day later, no base needs them
        records.append(history.drop([number], beyond=records[2] if number >= 4 else None))
    assert dropped_by(
        history.metadata, history.files, limits=Limits(), now_ms=history.metadata.last_updated_ms + 2 * DAY_MS
    ).records == tuple(records[:-1])
    history.tidy(later_ms=2 * DAY_MS)
    assert history.stored() == {*history.reachable(), records[-1]}


@pytest.mark.parametrize("broken", ["gone", "garbage", "another table's"])
def test_records_that_cannot_be_read_remove_nothing(broken: str) -> None:
    history, file = compacted()
    location = history.drop([1, 2])
    history.files.delete(location)
    if broken == "garbage":
        history.files.create(location, b"garbage")
    if broken == "another table's":
        history.files.create(location, pack_record(Header(table_uuid="x", since_ms=0, until_ms=0), [], []))
    assert history.tidy(later_ms=30 * DAY_MS).removed == {}
    assert file.file_path in history.stored()

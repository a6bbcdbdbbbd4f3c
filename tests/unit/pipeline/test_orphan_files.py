"""Orphans go, and whatever anybody may still name stays."""

from __future__ import annotations

import asyncio
import itertools
import uuid

import msgspec
import pytest

from firn.coordinator.client.intents import new_intent_id
from firn.model.content_file import content_file_of
from firn.model.errors import CorruptFile, InvalidInput
from firn.model.intent import Append, WrittenManifest
from firn.model.manifest import ManifestEntry, Status
from firn.model.partitioning import UNPARTITIONED
from firn.model.reservation import Reservation, Scope
from firn.pipeline.orphan_files import HOUR_MS, OLDER_THAN_MS, Orphans, remove_orphans
from firn.storage.journal import both_locations
from firn.storage.manifests import encode_manifest
from tests.strategies.quiet_upkeep import QuietUpkeep
from tests.strategies.small_tables import START_MS
from tests.strategies.table_histories import SCHEMA, History

OLD_MS = START_MS + OLDER_THAN_MS + 1
"""When every file of a history is old."""


def old_orphans(upkeep: QuietUpkeep, **options) -> Orphans:
    return remove_orphans(upkeep, "db.t", **{"now_ms": OLD_MS, "dry_run": False, **options})


def append_of(history: History, *paths: str, **members) -> Append:
    files = [msgspec.structs.replace(history.file(), file_path=path) for path in paths]
    data_files = tuple(content_file_of(file, history.metadata) for file in files)
    return Append(intent_id=new_intent_id(), table="db.t", data_files=data_files, **members)


def test_what_nothing_names_is_removed_and_nothing_else():
    history = History()
    kept = history.file()
    history.commit(kept)
    history.commit(history.file())
    history.expire([1])
    orphan = history.file()
    journal = both_locations("memory://wh/t/metadata/_journal/0000000001-x.jsonl.gz")
    hidden = ["memory://wh/t/_SUCCESS", "memory://wh/t/data/.part.crc", "memory://wh/t/_tmp/x.parquet"]
    leftover = "memory://wh/t/data/.firn-1234"
    for path in (*journal, *hidden, leftover, "memory://wh/t/metadata/version-hint.text"):
        history.files.create(path, b"x")
    before = history.stored()
    found = old_orphans(QuietUpkeep(history), dry_run=True)
    assert history.stored() == before
    assert set(found.locations) >= {orphan.file_path, leftover}
    assert found.dry_run
    removed = old_orphans(QuietUpkeep(history))
    assert msgspec.structs.replace(removed, dry_run=True) == found
    stays = {*journal, *hidden, "memory://wh/t/metadata/version-hint.text"}
    assert history.stored() == history.reachable() | stays
    assert removed.count == len(before) - len(history.stored())
    assert old_orphans(QuietUpkeep(history)).count == 0


def test_young_files_stay_and_nobody_can_ask_for_those_of_a_commit_under_way():
    history = History()
    orphan = history.file()
    found = remove_orphans(QuietUpkeep(history), "db.t", now_ms=START_MS + OLDER_THAN_MS, dry_run=False)
    assert (found.count, found.young) == (0, 1)
    with pytest.raises(InvalidInput, match="24 hours"):
        old_orphans(QuietUpkeep(history), older_than_ms=23 * HOUR_MS)
    with pytest.raises(InvalidInput, match="at least 1 hour"):
        old_orphans(QuietUpkeep(history), older_than_ms=HOUR_MS - 1, force=True)
    assert old_orphans(QuietUpkeep(history), older_than_ms=HOUR_MS, force=True).locations == (orphan.file_path,)


def test_files_of_waiting_intents_stay_whether_they_list_them_or_their_manifests_do():
    history = History()
    inline, in_manifest, orphan = (history.file() for _ in range(3))
    encoded = encode_manifest(
        [ManifestEntry(status=Status.ADDED, data_file=in_manifest)],
        schema=SCHEMA, spec=UNPARTITIONED, content="data", format_version=2, snapshot_id=None,
    )  # fmt: skip
    manifest = f"memory://wh/t/metadata/{uuid.uuid4()}-m0.avro"
    history.files.create(manifest, encoded.data)
    upkeep = QuietUpkeep(history)
    upkeep.submit(append_of(history, inline.file_path.replace("memory://wh", "memory://WH")))
    written = WrittenManifest(
        manifest_path=manifest, manifest_length=len(encoded.data), partition_spec_id=0, files_count=1, rows_count=1
    )
    upkeep.submit(Append(intent_id=new_intent_id(), table="db.t", manifests=(written,)))
    found = old_orphans(upkeep)
    assert orphan.file_path in found.locations
    assert {inline.file_path, in_manifest.file_path, manifest} <= history.stored()
    assert found.under_way == 3


def test_files_that_a_reservations_holder_may_have_written_stay():
    history = History()
    named, later = history.file(), history.file()
    upkeep = QuietUpkeep(history)
    reservation = Reservation(
        reservation_id="r1", table="db.t", holder="job", scope=Scope(files=(named.file_path,)), begun_ms=0, until_ms=0
    )
    asyncio.run(upkeep.reservations.begin(reservation, lease_ms=60_000))
    found = old_orphans(upkeep)
    assert found.under_way == 1
    assert named.file_path in history.stored()
    assert later.file_path not in history.stored()  # older than the reservation
    asyncio.run(upkeep.reservations.end("db.t", "r1"))
    assert old_orphans(upkeep).locations == (named.file_path,)


def test_a_file_that_is_committed_while_orphans_are_looked_for_stays():
    history = History()
    history.commit(history.file())
    late, orphan = history.file(), history.file()
    upkeep = QuietUpkeep(history)
    looks = itertools.count()

    def commit_before_the_second() -> None:
        if next(looks) == 1:
            history.commit(late)

    upkeep.before_looking = commit_before_the_second
    assert old_orphans(upkeep).locations == (orphan.file_path,)
    assert late.file_path in history.stored()


def test_files_that_the_table_names_under_another_scheme_or_bucket_are_not_taken_without_asking():
    history = History()
    file = history.file()
    renamed = msgspec.structs.replace(file, file_path=file.file_path.replace("memory://wh", "s3://elsewhere"))
    history.commit(renamed)
    upkeep = QuietUpkeep(history)
    with pytest.raises(InvalidInput, match="another scheme or bucket"):
        old_orphans(upkeep)
    assert old_orphans(upkeep, mismatch="keep").mismatched == (file.file_path,)
    assert file.file_path in history.stored()
    assert old_orphans(upkeep, mismatch="remove").locations == (file.file_path,)
    assert file.file_path not in history.stored()


def test_a_table_that_cannot_be_read_whole_loses_nothing():
    history = History()
    history.commit(history.file())
    history.file()
    snapshot = history.metadata.current_snapshot
    assert snapshot is not None
    assert snapshot.manifest_list is not None
    history.files.replace(snapshot.manifest_list, b"Obj\x01")
    before = history.stored()
    with pytest.raises(CorruptFile):
        old_orphans(QuietUpkeep(history))
    history.table.metadata = msgspec.structs.replace(history.metadata, properties={"gc.enabled": "false"})
    with pytest.raises(InvalidInput, match=r"gc\.enabled"):
        old_orphans(QuietUpkeep(history))
    assert history.stored() == before

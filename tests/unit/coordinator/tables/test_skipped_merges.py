"""Merges of what other writers have stored: what cannot be merged is skipped, remembered, and not tried again."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from firn.coordinator.replay.attempt import FinishedMerge
from firn.coordinator.tables import merges_beside
from firn.coordinator.tables.merges_beside import MergesBeside
from firn.coordinator.tables.table_reader import TableReader
from firn.model.limits import Limits
from firn.model.manifest import FieldSummary, ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.operations.upkeep import UpdateProperties
from firn.model.types import STRING
from firn.storage.manifest_reader import StoredManifests
from firn.storage.merged_manifests import MergedManifest, merged_manifest
from tests.unit.coordinator.foreign_tables import register
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, new_id
from tests.unit.storage.foreign_manifests import BAD, OPEN, Case

MERGE_AT_THREE = {"commit.manifest.min-count-to-merge": "3"}
NO_MERGES = {"commit.manifest-merge.enabled": "false"}
NUMBERS = itertools.count()


class Merging:
    """Merges beside a table that no daemon serves, and why they failed."""

    def __init__(self, bench: Workbench, *, limits: Limits | None = None) -> None:
        self.failed: list[str] = []
        self.beside = MergesBeside(
            bench.files,
            TableReader(bench.files, limits=bench.limits).merge_source,
            limits=limits or bench.limits,
            keep=lambda _location, _packed: None,
            on_failed=self.failed.append,
        )

    async def of(self, metadata: TableMetadata, parts: Sequence[ManifestFile]) -> tuple[FinishedMerge, ...]:
        """Begin the merges of a list, wait for them, and return those that a commit may take over."""
        self.beside.begin(
            TABLE, metadata, parts, new_location=lambda: f"{metadata.location}/metadata/x{next(NUMBERS)}.avro"
        )
        while self.beside.under_way:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.001)
        return self.beside.finished(TABLE)


async def listed(bench: Workbench) -> tuple[TableMetadata, tuple[ManifestFile, ...]]:
    """The table and the manifests of its head."""
    metadata = await bench.metadata()
    assert metadata.current_snapshot is not None
    return metadata, StoredManifests(bench.files).manifests(metadata, metadata.current_snapshot)


async def three_manifests(bench: Workbench) -> tuple[TableMetadata, tuple[ManifestFile, ...]]:
    """A table whose list is long enough for a merge that no commit has begun."""
    async with bench.daemon():
        await bench.commit(create(properties=NO_MERGES))
        for number in range(3):
            await bench.commit(append(f"f{number}"))
        await bench.commit(
            UpdateProperties(intent_id=new_id(), table=TABLE, updates=MERGE_AT_THREE, removals=tuple(NO_MERGES))
        )
    return await listed(bench)


async def test_rows_of_all_parts_that_pass_what_can_be_counted_skip_their_merge() -> None:
    bench = Workbench()
    metadata, parts = await three_manifests(bench)
    many = [msgspec.structs.replace(one, added_rows_count=2**62) for one in parts]
    merging = Merging(bench)
    assert await merging.of(metadata, many) == ()
    assert merging.failed == ["merged"]
    assert "more than a manifest list can record" in merging.beside.unmergeable[TABLE]
    assert await merging.of(metadata, many) == ()
    assert merging.failed == ["merged"], "the same merge was tried again"


async def test_a_result_that_is_too_large_skips_its_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others compress better than the codec that is written here."""
    bench = Workbench()
    metadata, parts = await three_manifests(bench)

    def grown(*arguments: Any, **options: Any) -> MergedManifest:
        made = merged_manifest(*arguments, **options)
        return msgspec.structs.replace(made, data=made.data + bytes(100_000))

    monkeypatch.setattr(merges_beside, "merged_manifest", grown)
    merging = Merging(bench, limits=Limits(manifest_bytes_max=100_000))
    assert await merging.of(metadata, parts) == ()
    assert merging.failed == ["merged"]
    assert "of at most 100000" in merging.beside.unmergeable[TABLE]
    assert await merging.of(metadata, parts) == ()
    assert merging.failed == ["merged"], "the same merge was tried again"


@pytest.mark.parametrize("bad", [b"\xff", b"x" * 15 + b"\xe2"])
async def test_a_bound_that_cannot_be_decoded_leaves_a_merge_without_ranges(bad: bytes) -> None:
    bench = Workbench()
    good = FieldSummary(contains_null=False, lower_bound=b"a", upper_bound=b"z")
    async with bench.daemon():
        case, values = Case(STRING, "string", None, None), [["x"], ["y"], ["z"]]
        await register(bench, case, values, summaries=(good,), properties=MERGE_AT_THREE)
    metadata, parts = await listed(bench)
    (whole,) = await Merging(bench).of(metadata, parts)
    broken = msgspec.structs.replace(parts[1], partitions=(msgspec.structs.replace(good, upper_bound=bad),))
    merging = Merging(bench)
    (merged,) = await merging.of(metadata, [parts[0], broken, parts[2]])
    assert whole.row.partitions == (good,)
    assert merged.row.partitions is None or merged.row.partitions[0].upper_bound is None
    assert merging.failed == []


@pytest.mark.parametrize("name", [name for name in BAD if name not in OPEN])
async def test_a_partition_value_out_of_its_type_goes_along_or_its_manifest_is_left_alone(name: str) -> None:
    case = BAD[name]
    bench = Workbench()
    async with bench.daemon():
        properties = {**MERGE_AT_THREE, **NO_MERGES}
        await register(bench, case, [[None], [None], [case.stored], [None]], properties=properties)
        await bench.commit(UpdateProperties(intent_id=new_id(), table=TABLE, removals=tuple(NO_MERGES)))
    metadata, parts = await listed(bench)
    merging = Merging(bench)
    merged = await merging.of(metadata, parts)
    if not merged:
        assert merging.failed == ["part"]
        assert "m2.avro" in merging.beside.unmergeable[TABLE]
        merged = await merging.of(metadata, parts)
        assert {part for one in merged for part in one.locations} == {
            one.manifest_path for one in parts if "m2" not in one.manifest_path
        }
    stored = StoredManifests(bench.files)
    values = [entry.data_file.partition[0] for one in merged for entry in stored.entries(metadata, one.row)]
    assert values.count(None) == 3
    assert [value for value in values if value is not None] in ([], [case.value])

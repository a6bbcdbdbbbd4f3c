"""A manifest merged from stored ones holds what its parts held, each entry as the table saw it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import CorruptFile
from firn.model.manifest import ManifestEntry, ManifestFile
from firn.model.metadata import TableMetadata
from firn.storage.avro import is_sealed, open_avro
from firn.storage.manifest_lists import assign_first_row_ids
from firn.storage.manifest_merge import merge_entries
from firn.storage.manifest_pieces import ROW_IDS_KEY
from firn.storage.manifests import EncodedManifest, decode_manifest, encode_manifest, manifest_file
from firn.storage.merged_manifests import TAKEN_OVER_FROM, Ingredients, MergedManifest, Source, merged_manifest
from firn.storage.packed_entries import PackedEntries, carried_over, joined
from tests.strategies.manifests import EXAMPLE_PARTITION, SCHEMA, SPEC, added, entries
from tests.strategies.older_avro import unsealed

LOCATION = "/wh/t/metadata/merged.avro"


def metadata(version: int) -> TableMetadata:
    return TableMetadata(
        format_version=version, table_uuid="u", location="/wh/t", last_updated_ms=0, last_column_id=100,
        schemas=(SCHEMA,), current_schema_id=SCHEMA.schema_id, partition_specs=(SPEC,), default_spec_id=SPEC.spec_id,
        last_partition_id=2000, sort_orders=(), next_row_id=0 if version > 2 else None,
    )  # fmt: skip


class Stored:
    """Manifests as a commit leaves them, some of them kept in memory."""

    def __init__(self, version: int, content: Any = "data") -> None:
        self.version, self.content = version, content
        self.metadata = metadata(version)
        self.data: dict[str, bytes] = {}
        self.kept: dict[str, EncodedManifest] = {}
        self.packed: dict[str, PackedEntries] = {}
        self.manifests: list[ManifestFile] = []
        self.decoded = 0

    def add(self, listed: list[ManifestEntry], *, kept: bool, row_ids: bool = True) -> None:
        number = len(self.manifests)
        encoded = encode_manifest(
            listed, schema=SCHEMA, spec=SPEC, content=self.content, format_version=self.version, snapshot_id=5
        )
        path = f"/wh/t/metadata/m{number}.avro"
        sequence = number + 1 if self.version > 1 else 0
        row = manifest_file(encoded, path)
        numbered = {"sequence_number": sequence, "min_sequence_number": min(sequence, max(row.min_sequence_number, 0))}
        row = ManifestFile(**{name: getattr(row, name) for name in row.__struct_fields__} | numbered)
        if self.version > 2 and row_ids:
            (row,), _ = assign_first_row_ids([row], 10_000 * number)
        self.data[path] = encoded.data
        self.manifests.append(row)
        if kept:
            self.kept[path] = encoded

    def entries(self, _: TableMetadata, manifest: ManifestFile) -> list[ManifestEntry]:
        self.decoded += 1
        return decode_manifest(
            self.data[manifest.manifest_path], manifest=manifest, specs={SPEC.spec_id: SPEC}, schemas=[SCHEMA]
        )

    @property
    def source(self) -> Source:
        def packed(manifest: ManifestFile) -> Any:
            kept = self.kept.get(manifest.manifest_path)
            return self.packed.get(manifest.manifest_path) if kept is None else kept.packed

        return Source(packed=packed, read=lambda m: self.data[m.manifest_path], entries=self.entries)

    def merged(self, **elsewhere: Any) -> MergedManifest:
        return merged_manifest(self.manifests, self.metadata, self.source, location=LOCATION, **elsewhere)

    def expected(self) -> list[ManifestEntry]:
        return merge_entries((self.entries(self.metadata, m) for m in self.manifests), snapshot_id=None)

    def read(self, merged: MergedManifest) -> list[ManifestEntry]:
        number = 99 if self.version > 1 else 0
        row_id = 77 if self.version > 2 and self.content == "data" else None
        changes = {"added_snapshot_id": 99, "sequence_number": number, "first_row_id": row_id}
        row = merged.row
        listed = ManifestFile(**{name: getattr(row, name) for name in row.__struct_fields__} | changes)
        return decode_manifest(merged.data, manifest=listed, specs={SPEC.spec_id: SPEC}, schemas=[SCHEMA])


@pytest.mark.parametrize(
    ("version", "content"), [(1, "data"), (2, "data"), (3, "data"), (2, "deletes"), (3, "deletes")]
)
@given(data=st.data())
def test_a_merged_manifest_holds_what_its_parts_held(version: int, content: str, data: Any) -> None:
    stored = Stored(version, content)
    kind = "data" if content == "data" else "position-deletes"
    for _ in range(data.draw(st.integers(1, 4))):
        listed = data.draw(st.lists(entries(content=kind, format_version=version), min_size=1, max_size=3))
        stored.add(listed, kept=data.draw(st.booleans()))
    merged = stored.merged()
    assert stored.read(merged) == stored.expected()
    assert merged.row.existing_files_count == len(stored.expected())
    assert merged.row.existing_rows_count == sum(e.data_file.record_count for e in stored.expected())


@pytest.mark.parametrize("version", [2, 3])
@given(data=st.data())
def test_what_was_merged_before_is_taken_over_block_by_block(version: int, data: Any) -> None:
    first, second = Stored(version), Stored(version)
    listed = st.lists(entries(format_version=version), min_size=1, max_size=3)
    first.add(data.draw(listed), kept=True)
    first.add(data.draw(listed), kept=True)
    before = first.merged()
    expected = first.read(before)
    row = {"added_snapshot_id": 7, "sequence_number": 3, "first_row_id": 500_000 if version > 2 else None}
    members = {name: getattr(before.row, name) for name in before.row.__struct_fields__}
    second.add(data.draw(listed), kept=True)
    second.manifests.append(ManifestFile(**members | row))
    second.data[LOCATION] = before.data
    merged = second.merged()
    if expected:
        assert second.decoded == 0
    assert second.read(merged) == second.expected()


@pytest.mark.parametrize("version", [2, 3])
def test_of_a_large_merged_manifest_the_blocks_are_taken_over_though_it_is_in_memory(version: int) -> None:
    first, second = Stored(version), Stored(version)
    entry = _entry()
    first.add([entry] * TAKEN_OVER_FROM, kept=True)
    first.add([entry], kept=True)
    before = first.merged()
    assert before.packed is None  # nor are they kept
    row = {"added_snapshot_id": 7, "sequence_number": 3, "first_row_id": 500_000 if version > 2 else None}
    members = {name: getattr(before.row, name) for name in before.row.__struct_fields__}
    second.add([entry], kept=True)
    second.manifests.append(ManifestFile(**members | row))
    second.data[LOCATION] = before.data
    parts = zip(first.kept.values(), first.manifests, strict=True)
    second.packed[LOCATION] = joined(
        [carried_over(one.packed, manifest) for one, manifest in parts if one.packed is not None]
    )
    merged = second.merged()
    assert second.read(merged) == second.expected()
    blocks = open_avro(before.data, location="x").blocks
    assert all(before.data[block.start : block.end] in merged.data for block in blocks)


def test_a_merge_of_which_nothing_is_kept_is_offered_elsewhere() -> None:
    small, large = Stored(2), Stored(2)
    small.add([_entry()] * (TAKEN_OVER_FROM - 1), kept=True)
    large.add([_entry()] * TAKEN_OVER_FROM, kept=True)
    offered: list[Ingredients] = []

    def refused(made_of: Ingredients) -> None:
        offered.append(made_of)

    assert small.merged(elsewhere=refused).packed is not None
    assert not offered
    here = large.merged(elsewhere=refused)
    assert [made_of.files for made_of in offered] == [TAKEN_OVER_FROM]
    assert here == large.merged()
    there = large.merged(elsewhere=lambda _: b"made elsewhere")
    assert (there.data, there.packed) == (b"made elsewhere", None)
    assert there.row == msgspec.structs.replace(here.row, manifest_length=len(there.data))


def test_files_without_row_ids_are_not_taken_over_as_they_are() -> None:
    stored = Stored(3)
    stored.add([_entry()], kept=True, row_ids=False)
    assert ROW_IDS_KEY not in open_avro(stored.merged().data, location="x").metadata
    stored = Stored(3)
    stored.add([_entry()], kept=True)
    assert ROW_IDS_KEY in open_avro(stored.merged().data, location="x").metadata


def test_a_bit_that_changed_is_not_carried_on() -> None:
    stored = Stored(2)
    stored.add([_entry()], kept=True)
    data = unsealed(stored.merged().data)
    assert is_sealed(open_avro(data, location="x"))
    file = open_avro(data, location="x")
    at = file.blocks[0].start + 3
    assert not is_sealed(open_avro(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], location="x"))


def test_a_part_that_holds_less_than_its_list_says_is_refused() -> None:
    stored = Stored(2)
    stored.add([_entry()], kept=True)
    members = {name: getattr(stored.manifests[0], name) for name in stored.manifests[0].__struct_fields__}
    stored.manifests[0] = ManifestFile(**members | {"added_files_count": 2})
    with pytest.raises(CorruptFile):
        stored.merged()


def _entry() -> ManifestEntry:
    return added(spec_id=SPEC.spec_id, partition=EXAMPLE_PARTITION)

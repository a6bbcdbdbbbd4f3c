"""A manifest whose files go by name is spliced to exactly what decoding and encoding it anew would make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pyiceberg import manifest as peer
from pyiceberg.io.pyarrow import PyArrowFileIO

from firn.model.datafile import DataFile
from firn.model.errors import CorruptFile
from firn.model.manifest import ManifestEntry, ManifestFile, Status
from firn.model.partitioning import partition_type
from firn.storage import manifest_pieces, manifests
from firn.storage.avro import open_avro, write_avro
from firn.storage.manifest_lists import assign_first_row_ids
from firn.storage.manifest_merge import rewrite_without
from firn.storage.manifest_pieces import UNSETTLED_KEY, Layout, Piece, StoredBlock, read_pieces
from firn.storage.manifests import EncodedManifest, decode_manifest, encode_manifest, manifest_file
from firn.storage.merged_manifests import Source, merged_manifest
from firn.storage.packed_entries import PackedEntries
from firn.storage.spliced_entries import Splice, encode_spliced, named_entries, splice
from tests.strategies.manifests import DAY_SCHEMA, DAY_SPEC, SCHEMA, SPEC, added, data_file, entries
from tests.strategies.older_avro import unsealed
from tests.unit.storage.manifest_writing import COMMIT, committed, decode, encode, rewritten
from tests.unit.storage.test_foreign_manifests import describe, describe_peer
from tests.unit.storage.test_merged_manifests import metadata

replace = msgspec.structs.replace
TYPE = partition_type(SPEC, SCHEMA)
BLOCK_ENTRIES = 3
NUMBER = 2**40 + 1
"""Sequence number of the manifest: no file that it states the age of is younger."""

REMOVERS = (101, 102, 103)


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Blocks of few entries, so that a few have several."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (manifest_pieces, manifests):
            patch.setattr(module, "BLOCK_ENTRIES", BLOCK_ENTRIES)
        yield


class Table:
    """One manifest as it is after each removal, made in both ways."""

    def __init__(self, version: int, listed: list[ManifestEntry], *, row_ids: bool, codec: Any = "deflate") -> None:
        self.version = version
        self.layout = Layout(TYPE, version)
        self.number = NUMBER if version > 1 else 0
        self.next_row_id = 1_000 if row_ids else None
        first = encode_manifest(
            listed, schema=SCHEMA, spec=SPEC, content="data", format_version=version, snapshot_id=5, codec=codec
        )
        self.slow = self.fast = self.listed(first, "m0", snapshot_id=5)
        self.data = {"slow": first.data, "fast": first.data}
        self.kept = first.packed
        self.is_merged = False

    def listed(self, encoded: EncodedManifest, path: str, *, snapshot_id: int) -> ManifestFile:
        row = replace(committed(encoded, path, sequence_number=self.number), added_snapshot_id=snapshot_id)
        if self.version < 3 or self.next_row_id is None:
            return row
        (row,), _ = assign_first_row_ids([row], self.next_row_id)
        return row

    def merge(self) -> None:
        """Let both be what a merge makes of the manifest: all its blocks can stay as they are."""
        source = Source(
            packed=lambda _: None, read=lambda _: self.data["fast"], entries=lambda *_: self.entries("fast")
        )
        merged = merged_manifest([self.fast], metadata(self.version), source, location="merged")
        self.number += 1 if self.version > 1 else 0
        row = replace(merged.row, added_snapshot_id=100, sequence_number=self.number)
        if self.version > 2 and self.next_row_id is not None:
            (row,), _ = assign_first_row_ids([row], self.next_row_id + 10**9)
        self.slow = self.fast = row
        self.data = dict.fromkeys(self.data, merged.data)
        self.kept = None
        self.is_merged = True

    def entries(self, way: str) -> list[ManifestEntry]:
        row = self.slow if way == "slow" else self.fast
        return decode_manifest(self.data[way], manifest=row, specs={SPEC.spec_id: SPEC}, schemas=[SCHEMA])

    def _decoded(self, *_: object) -> list[ManifestEntry]:
        return self.entries("fast")

    def pieces(self) -> tuple[Piece, ...]:
        if self.kept is not None:
            return (self.kept,)
        found = read_pieces(self.data["fast"], self.fast, self.layout)
        assert found is not None
        return found

    def splice(self, paths: set[str], *, exact_age: bool, snapshot_id: int = REMOVERS[0]) -> Splice | None:
        return splice(
            self.pieces(), self.fast, paths, layout=self.layout, partitions=self.fast.partitions,
            snapshot_id=snapshot_id, exact_age=exact_age,
        )  # fmt: skip

    def remove(self, paths: set[str], *, snapshot_id: int, exact_age: bool, keep: bool) -> None:
        """Remove files in both ways, and compare what comes of it."""
        before = self.entries("slow")
        slow = encode_manifest(
            rewrite_without(before, paths, snapshot_id=snapshot_id), schema=SCHEMA, spec=SPEC, content="data",
            format_version=self.version, snapshot_id=snapshot_id,
        )  # fmt: skip
        spliced = self.splice(paths, exact_age=exact_age, snapshot_id=snapshot_id)
        assert spliced is not None
        assert sorted(map(str, spliced.removed)) == sorted(
            str(without_metrics(e.data_file)) for e in before if e.is_live and e.data_file.file_path in paths
        )
        fast = encode_spliced(spliced.entries, schema=SCHEMA, spec=SPEC, content="data", snapshot_id=snapshot_id)
        self.number += 1 if self.version > 1 else 0
        self.slow = self.listed(slow, f"m{snapshot_id}", snapshot_id=snapshot_id)
        self.fast = self.listed(fast, f"m{snapshot_id}", snapshot_id=snapshot_id)
        self.data = {"slow": slow.data, "fast": fast.data}
        self.kept = fast.packed if keep else None
        assert self.entries("fast") == self.entries("slow")
        assert [e for e in spliced.entries if e.status is Status.DELETED] == spliced.entries.removed()
        assert spliced.entries.counts == slow.counts
        self._compare_rows(is_cut=fast.packed is not None, exact_age=exact_age)

    def _compare_rows(self, *, is_cut: bool, exact_age: bool) -> None:
        loose: dict[str, Any] = {}
        if not is_cut or self.is_merged:  # those of all parts and of what is gone
            assert covers(self.fast.partitions, self.slow.partitions)
            loose["partitions"] = self.slow.partitions
        if not is_cut and not exact_age:
            assert self.fast.min_sequence_number <= self.slow.min_sequence_number
            loose["min_sequence_number"] = self.slow.min_sequence_number
        assert replace(self.fast, **{"manifest_length": self.slow.manifest_length, **loose}) == self.slow


def covers(one: Any, other: Any) -> bool:
    """Whether ranges leave out nothing that is in others, compared where that can be without their types."""
    return len(one) == len(other) and all(
        (a.contains_null or not b.contains_null) and (a.lower_bound is not None or b.lower_bound is None)
        for a, b in zip(one, other, strict=True)
    )


def without_metrics(file: DataFile) -> DataFile:
    return DataFile(
        file_path=file.file_path, file_format=file.file_format, spec_id=file.spec_id, partition=file.partition,
        record_count=file.record_count, file_size_in_bytes=file.file_size_in_bytes,
    )  # fmt: skip


def filled(listed: list[ManifestEntry], count: int) -> list[ManifestEntry]:
    """So many entries, of files of their own."""
    many = [listed[n % len(listed)] for n in range(count)]
    return [
        replace(one, data_file=replace(one.data_file, file_path=f"s3://b/t/{n:05d}{one.data_file.file_path}"))
        for n, one in enumerate(many)
    ]


@pytest.mark.parametrize("version", [1, 2, 3])
@given(data=st.data())
def test_a_spliced_manifest_is_what_decoding_and_encoding_it_makes(version: int, data: Any) -> None:
    drawn = data.draw(st.lists(entries(format_version=version), min_size=1, max_size=4))
    codec = data.draw(st.sampled_from(["deflate", "null"]))
    count = data.draw(st.integers(1, 4 * BLOCK_ENTRIES))
    table = Table(version, filled(drawn, count), row_ids=data.draw(st.booleans()), codec=codec)
    assume(table.fast.may_have_live_files)
    if data.draw(st.booleans()):
        table.merge()
    for snapshot_id in REMOVERS[: data.draw(st.integers(1, len(REMOVERS)))]:
        live = sorted(e.data_file.file_path for e in table.entries("slow") if e.is_live)
        if not live:
            break
        first = data.draw(st.integers(0, len(live) - 1))
        some = live[first : first + data.draw(st.integers(1, 5))]
        table.remove(
            set(some), snapshot_id=snapshot_id, exact_age=data.draw(st.booleans()), keep=data.draw(st.booleans())
        )


@pytest.mark.parametrize("version", [2, 3])
def test_only_the_blocks_of_the_files_are_opened(version: int) -> None:
    table = Table(version, [plain(n) for n in range(9)], row_ids=True)
    table.merge()
    paths = sorted(e.data_file.file_path for e in table.entries("slow"))
    table.remove(set(paths[3:5]), snapshot_id=REMOVERS[0], exact_age=False, keep=True)
    assert open_avro(table.data["fast"], location="m").metadata[UNSETTLED_KEY] == b"1"
    assert [type(piece) for piece in table.pieces()] == [StoredBlock, PackedEntries, StoredBlock]
    table.remove({paths[0], paths[8]}, snapshot_id=REMOVERS[1], exact_age=False, keep=True)
    assert open_avro(table.data["fast"], location="m").metadata[UNSETTLED_KEY] == b"0 2"
    table.merge()
    assert UNSETTLED_KEY not in open_avro(table.data["fast"], location="m").metadata
    assert len(table.entries("fast")) == 9 - 4


def test_the_oldest_files_of_a_manifest_go_and_its_age_is_that_of_the_rest() -> None:
    listed = [replace(plain(n), status=Status.EXISTING, snapshot_id=1, sequence_number=n, file_sequence_number=n)
              for n in range(1, 8)]  # fmt: skip
    for exact_age, least in ((True, 2), (False, 1)):
        table = Table(2, listed, row_ids=False)
        table.merge()
        table.remove({plain(1).data_file.file_path}, snapshot_id=101, exact_age=exact_age, keep=True)
        assert table.fast.min_sequence_number == least


@pytest.mark.parametrize("version", [1, 2, 3])
@given(data=st.data())
def test_named_entries_are_those_that_decoding_finds(version: int, data: Any) -> None:
    drawn = data.draw(st.lists(entries(format_version=version), min_size=1, max_size=4))
    table = Table(version, filled(drawn, 3 * BLOCK_ENTRIES), row_ids=data.draw(st.booleans()))
    if data.draw(st.booleans()):
        table.merge()
    live = [e for e in table.entries("slow") if e.is_live]
    assume(live)
    some = data.draw(st.sets(st.sampled_from([e.data_file.file_path for e in live]), min_size=1))
    found = named_entries(table.pieces(), table.fast, some, layout=table.layout)
    assert found == [replace(e, status=Status.EXISTING) for e in live if e.data_file.file_path in some]


def test_files_that_are_not_there_or_gone_already_are_not_spliced() -> None:
    gone = replace(plain(1), status=Status.DELETED, snapshot_id=1, sequence_number=1, file_sequence_number=1)
    table = Table(2, [plain(0), gone], row_ids=False)
    here, elsewhere = plain(0).data_file.file_path, plain(2).data_file.file_path
    for paths in ({gone.data_file.file_path}, {elsewhere}, {here, elsewhere}):
        assert table.splice(paths, exact_age=True) is None
        assert named_entries(table.pieces(), table.fast, paths, layout=table.layout) is None


def test_a_block_that_holds_a_location_elsewhere_than_a_file_stays_as_it_is() -> None:
    wanted = plain(0).data_file.file_path
    other = replace(plain(1), data_file=replace(plain(1).data_file, lower_bounds={1: wanted.encode()}))
    table = Table(2, [plain(0), plain(2), plain(3), other], row_ids=False)
    table.merge()
    table.remove({wanted}, snapshot_id=101, exact_age=False, keep=False)
    assert [type(piece) for piece in table.pieces()] == [PackedEntries, StoredBlock]


def test_a_header_is_believed_when_it_is_sealed_and_names_blocks() -> None:
    table = Table(2, [plain(n) for n in range(3)], row_ids=False)
    file = open_avro(table.data["fast"], location="m")
    header = {k: v.decode() for k, v in file.metadata.items() if not k.startswith(("avro.", "firn."))}
    blocks = [(block.count, file.data[block.start : block.end]) for block in file.blocks]

    def pieces(said: str, *, change: Callable[[bytes], bytes] = bytes) -> Any:
        data = change(write_avro(file.metadata["avro.schema"], blocks, metadata=header | {UNSETTLED_KEY: said}))
        return read_pieces(data, replace(table.fast, manifest_length=len(data)), table.layout)

    assert [type(piece) for piece in pieces("")] == [StoredBlock]
    assert [type(piece) for piece in pieces("", change=unsealed)] == [PackedEntries]
    for damaged in ("1", "0 x", "-1"):
        with pytest.raises(CorruptFile, match="names no blocks"):
            pieces(damaged)


def _another_field(root: Any) -> None:
    root["fields"].append({"name": "extra", "type": ["null", "long"], "field-id": 9_999})


def _value_first(root: Any) -> None:
    root["fields"][1] |= {"type": root["fields"][1]["type"][::-1]}
    del root["fields"][1]["default"]


def _numbers_in_another_order(root: Any) -> None:
    root["fields"][2:4] = root["fields"][3:1:-1]


@pytest.mark.parametrize("change", [_another_field, _value_first, _numbers_in_another_order])
def test_another_layout_is_left_to_decoding(change: Callable[[Any], None]) -> None:
    one = encode([added("s3://b/t/a")])
    layout = Layout(partition_type(DAY_SPEC, DAY_SCHEMA), 2)
    assert read_pieces(one.data, manifest_file(one, "m"), layout) is not None
    foreign = rewritten(one, change)
    row = replace(manifest_file(one, "m"), manifest_length=len(foreign.data))
    assert read_pieces(foreign.data, row, layout) is None


@pytest.mark.parametrize("version", [1, 2, 3])
def test_pyiceberg_reads_what_was_spliced(version: int, tmp_path: Path) -> None:
    layout = Layout(partition_type(DAY_SPEC, DAY_SCHEMA), version)
    one = encode([added(f"s3://b/t/{n}", lower_bounds={1: b"x"}) for n in range(8)], version=version)
    number, later = (COMMIT, COMMIT + 1) if version > 1 else (0, 0)
    row = committed(one, sequence_number=number, first_row_id=500 if version > 2 else None)
    spliced = splice(
        [one.packed] if one.packed else [], row, {"s3://b/t/1", "s3://b/t/7"}, layout=layout,
        partitions=row.partitions, snapshot_id=77, exact_age=True,
    )  # fmt: skip
    assert spliced is not None
    made = encode_spliced(spliced.entries, schema=DAY_SCHEMA, spec=DAY_SPEC, content="data", snapshot_id=77)
    path = tmp_path / "m.avro"
    path.write_bytes(made.data)
    foreign = peer.ManifestFile.from_args(
        manifest_path=str(path), manifest_length=len(made.data), partition_spec_id=0,
        content=peer.ManifestContent.DATA, sequence_number=later, min_sequence_number=number, added_snapshot_id=77,
    )  # fmt: skip
    found = foreign.fetch_manifest_entry(PyArrowFileIO(), discard_deleted=False)
    listed = committed(made, sequence_number=later)
    ours = decode(made, replace(listed, first_row_id=9_000) if version > 2 else listed)
    assert [describe_peer(entry) for entry in found] == [describe(entry) for entry in ours]
    assert [entry.status.value for entry in found] == [0, 2, 0, 0, 0, 0, 0, 2]
    assert [entry.snapshot_id for entry in found] == [5, 77, 5, 5, 5, 5, 5, 77]
    assert [e.data_file.first_row_id for e in ours] == [500 + 10 * n if version > 2 else None for n in range(8)]


def plain(number: int) -> ManifestEntry:
    drawn = data_file(f"s3://b/t/data/{number:05d}.parquet", spec_id=SPEC.spec_id, partition=(None,) * len(SPEC.fields))
    return ManifestEntry(status=Status.ADDED, snapshot_id=None, sequence_number=None, data_file=drawn)

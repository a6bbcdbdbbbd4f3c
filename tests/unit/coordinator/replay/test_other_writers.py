"""Tables as other engines leave them: odd, and legal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from firn.model.intent import ContentFile, DropTable, RegisterTable
from firn.model.manifest import ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.operations.refs import CreateBranch, FastForward
from firn.model.outcome import Committed
from firn.model.snapshot import Snapshot
from firn.storage.manifest_lists import encode_manifest_list
from firn.storage.manifest_reader import StoredManifests
from firn.storage.metadata_files import encode_metadata
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.replay.real_rows import RealRows, field_is
from tests.unit.coordinator.workbench import TABLE, Workbench, new_id


def manifests_of(table: RealRows, metadata: TableMetadata, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
    return tuple(StoredManifests(table.bench.files).manifests(metadata, snapshot))


async def left_as(table: RealRows, metadata: TableMetadata) -> None:
    """Another engine has left the table like this."""
    location = f"{metadata.location}/metadata/{new_id()}.metadata.json"
    table.bench.files.create(location, encode_metadata(metadata))
    await table.bench.commit(DropTable(intent_id=new_id(), table=TABLE))
    await table.bench.commit(RegisterTable(intent_id=new_id(), table=TABLE, metadata_location=location))


def with_head(metadata: TableMetadata, **changes: Any) -> TableMetadata:
    """The metadata with another current snapshot, which stands last."""
    assert metadata.current_snapshot is not None
    changed = msgspec.structs.replace(metadata.current_snapshot, **changes)
    return msgspec.structs.replace(metadata, snapshots=(*metadata.snapshots[:-1], changed))


# ---------------------------------------------------------------------------------------------------------------------
# Totals


@pytest.mark.parametrize("deletes", [False, True])
async def test_totals_that_have_drifted_are_put_right_and_not_held_against_the_table(deletes: bool) -> None:
    """A summary of firn's that does not add up is damage: nobody could commit to the table any more."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        base = await table.commit(table.append(table.data((1, "eu"), (2, "eu"))))
        if deletes:
            await table.commit(table.delta(base, table.equality(1)))
        drifted = {"operation": "append", "total-data-files": "7", "total-records": "1", "total-files-size": "5"}
        drifted |= {"total-delete-files": "3", "total-position-deletes": "4", "total-equality-deletes": "4"}
        await left_as(table, with_head(await table.metadata(), summary=drifted))
        await table.commit(table.append(table.data((3, "eu"))))
        summary = (await table.snapshot()).summary or {}  # type: ignore[union-attr]
    async with bench.daemon("b"):
        await table.commit(table.append(table.data((4, "eu"))))
        assert await table.unsound() == ()
    assert [summary[f"total-{what}"] for what in ("data-files", "records", "delete-files")] == [
        "2", "3", "1" if deletes else "0",
    ]  # fmt: skip
    assert "total-position-deletes" not in summary
    assert await table.ids() == ([2, 3, 4] if deletes else [1, 2, 3, 4])


# ---------------------------------------------------------------------------------------------------------------------
# Files that are listed twice


async def doubled(table: RealRows, *files: ContentFile) -> int:
    """The table with data files, the first of them listed twice, in two manifests. Gives its head."""
    first = table.manifest(table.added(files[0]))
    await table.commit(table.append(manifests=(first,)))
    await table.commit(table.append(*files[1:]))
    metadata = await table.metadata()
    head = metadata.current_snapshot
    assert head is not None
    listed = manifests_of(table, metadata, head)
    copy = table.manifest(table.added(*files[:1]))
    (row,) = [one for one in listed if one.manifest_path == first.manifest_path]
    numbers: dict[str, Any] = {"sequence_number": 2, "min_sequence_number": 2, "added_snapshot_id": head.snapshot_id}
    if metadata.format_version > 2:
        numbers["first_row_id"] = metadata.next_row_id
        metadata = msgspec.structs.replace(metadata, next_row_id=(metadata.next_row_id or 0) + files[0].record_count)
    twin = msgspec.structs.replace(
        row, manifest_path=copy.manifest_path, manifest_length=copy.manifest_length, **numbers
    )
    location = f"{metadata.location}/metadata/snap-{new_id()}.avro"
    table.bench.files.create(location, _list_of(metadata, head, (twin, *listed)))
    await left_as(table, with_head(metadata, manifest_list=location, summary={"operation": "append"}))
    return head.snapshot_id


def _list_of(metadata: TableMetadata, snapshot: Snapshot, manifests: Sequence[ManifestFile]) -> bytes:
    return encode_manifest_list(
        manifests,
        format_version=metadata.format_version,
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number,
        first_row_id=snapshot.first_row_id,
    )


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("how", ["by name", "by filter", "overwrite", "replace"])
async def test_a_file_that_is_listed_twice_goes_whole(how: str, version: int) -> None:
    """Java adds the same file twice when it is told so. Who deletes it means its rows, however often it is listed."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        file, other = table.data((1, "eu"), (2, "eu")), table.data((9, "us"))
        base = await doubled(table, file, other)
        assert await table.ids() == [1, 1, 2, 2, 9]
        match how:
            case "by name":
                intent: Any = table.delete(file)
            case "by filter":
                intent = table.delete_where(field_is("region", "eu"))
            case "overwrite":
                intent = table.overwrite(base, [table.data((2, "eu"))], [file])
            case _:
                intent = table.replace(base, [file], [table.data((1, "eu"), (1, "eu"), (2, "eu"), (2, "eu"))])
        await table.commit(intent)
        removed = (await table.snapshot()).summary or {}  # type: ignore[union-attr]
    async with bench.daemon("b"):
        await table.commit(table.append(table.data((10, "us"))))
    assert await table.ids() == {"overwrite": [2, 9, 10], "replace": [1, 1, 2, 2, 9, 10]}.get(how, [9, 10])
    assert removed["deleted-data-files"] == "2"


async def test_a_file_that_is_listed_twice_goes_whole_from_a_branch_that_its_batch_has_moved() -> None:
    bench = Gathering()
    async with bench.daemon() as daemon:
        table = await RealRows.create(bench)
        file = table.data((1, "eu"), (2, "eu"))
        head = await doubled(table, file, table.data((9, "us")))
        for name in ("b", "c"):
            await bench.commit(CreateBranch(intent_id=new_id(), table=TABLE, ref_name=name, snapshot_id=head))
        outcomes = await bench.gathered(
            daemon,
            table.append(table.data((10, "us")), branch="b"),
            FastForward(intent_id=new_id(), table=TABLE, branch="c", to="b"),
            table.delete(file, branch="c"),
        )
        assert all(isinstance(outcome, Committed) for outcome in outcomes)
    assert await table.ids(ref="c") == [9, 10]
    assert await table.ids(ref="b") == [1, 1, 2, 2, 9, 10]

"""fsck names what hostile writers left in a table before it was refused: each finding has its file and member."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace as changed

from firn.coordinator.fsck.run import Verdict
from firn.coordinator.fsck.sound_entries import sound_entries
from firn.model.intent import ValueMap
from firn.storage.pointers import Pointers
from firn.storage.puffin import encode_puffin
from tests.unit.coordinator.fsck.broken_tables import Broken, healthy, metadata
from tests.unit.coordinator.replay.real_rows import RealRows
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, Workbench, append, content_file, create

BUCKETS = {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "b", "transform": "bucket[4]"}]}
HUGE = 2**62


def found(verdict: Verdict, invariant: str = "content-agrees") -> list[str]:
    return [f"{one.where}: {one.message}" for one in verdict.findings if one.invariant == invariant]


async def unchecked(bench: Workbench, monkeypatch: pytest.MonkeyPatch, *files: Any, **table: Any) -> Verdict:
    """What fsck says of a table that took these files in unchecked."""
    monkeypatch.setattr("firn.coordinator.replay.files_rules.require_fitting", lambda *_, **__: None)
    monkeypatch.setattr("firn.model.content_file.check_writable", lambda *_, **__: None)
    monkeypatch.setattr("firn.coordinator.replay.capacity.LONG_MAX", 2**70)
    async with bench.daemon():
        await bench.commit(create(**table))
        for file in files:
            await bench.commit(append(data_files=(file,)))
        return await verdict_of(bench)


async def verdict_of(bench: Workbench) -> Verdict:
    pointer = (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer
    return Broken(bench, pointer).check()


@pytest.mark.parametrize(
    ("column", "bound", "member"),
    [(1, "00", "lower-bounds"), (2, "00" * 4, "upper-bounds"), (3, "ff", "lower-bounds")],
)
async def test_an_impossible_bound_is_found(
    column: int, bound: str, member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = {member.replace("-", "_"): ValueMap((column,), (bound,))}
    verdict = await unchecked(Workbench(), monkeypatch, changed(content_file("bad"), **bounds))
    (text,) = [one for one in found(verdict) if "the bound of column" in one]
    assert text.partition(": ")[0].endswith("-m0.avro")
    assert f"bad.parquet: {member}: the bound of column {column}" in text


async def test_an_impossible_partition_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = changed(content_file("bad"), partition=(99,))
    verdict = await unchecked(Workbench(), monkeypatch, bad, partition_spec=BUCKETS)
    assert any("bad.parquet: partition: partition[0]: partition field 'b'" in one for one in found(verdict))


async def test_sums_past_63_bits_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [changed(content_file(name), record_count=HUGE, file_size_in_bytes=HUGE) for name in ("a", "b")]
    verdict = await unchecked(Workbench(), monkeypatch, *files)
    for member in ("record-count", "file-size-in-bytes"):
        assert any("snap-" in one and f"{member} adds up to {2 * HUGE} " in one for one in found(verdict))


async def test_a_row_id_that_changes_from_one_snapshot_to_the_next_is_found() -> None:
    table = await healthy(format_version=3)
    evidence, contents = table.gathered()
    current = evidence.current
    assert current is not None
    assert current.current_snapshot_id is not None
    assert list(sound_entries(current, contents, at="m")) == []
    newest = contents.snapshots[current.current_snapshot_id]
    moved = tuple(
        changed(one, facts=tuple(changed(fact, first_row_id=(fact.first_row_id or 0) + 1) for fact in one.facts or ()))
        for one in newest
    )
    other = changed(contents, snapshots={**contents.snapshots, current.current_snapshot_id: moved})
    findings = list(sound_entries(current, other, at="m"))
    assert findings
    assert all(one.invariant == "no-doubles" and one.where.endswith(".parquet") for one in findings)
    assert all("first-row-id is" in one.message for one in findings)


@pytest.mark.parametrize(("member", "value"), [("last_column_id", 2), ("next_row_id", 3)])
async def test_a_counter_below_what_the_metadata_shows_is_found(member: str, value: int) -> None:
    table = await healthy(format_version=3)
    metadata(**{member: value})(table)
    assert any(f"{member.replace('_', '-')} is {value}, but" in one for one in found(table.check()))


@pytest.mark.parametrize("content", [b"x" * 200, b"PFA1" + b"x" * 196, b"x" * 196 + b"PFA1", b""])
async def test_a_deletion_vector_that_is_no_puffin_is_found(content: bytes) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data((1, "eu"), (2, "eu"))
        base = await table.commit(table.append(file))
        vector = table.vector(file, 0)
        await table.commit(table.delta(base, vector))
        assert (await verdict_of(bench)).ok
        bench.files.replace(vector.file_path, content)
        texts = found(await verdict_of(bench))
    assert any(text.startswith(f"{vector.file_path}: is no Puffin file") for text in texts)


async def test_a_deletion_vector_that_is_not_where_it_should_be_is_found() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data((1, "eu"), (2, "eu"))
        base = await table.commit(table.append(file))
        vector = table.vector(file, 0)
        offset = (vector.content_offset or 0) + 1
        await table.commit(table.delta(base, changed(vector, content_offset=offset)))
        texts = found(await verdict_of(bench))
    assert any(f"at content-offset {offset}" in text and vector.file_path in text for text in texts)


async def test_a_statistics_file_that_is_no_puffin_is_found() -> None:
    table = await healthy()
    path = f"{WAREHOUSE}/{TABLE.replace('.', '/')}/metadata/some.stats"
    snapshot = table.metadata.current_snapshot_id
    statistics: dict[str, Any] = {
        "snapshot-id": snapshot, "statistics-path": path, "file-size-in-bytes": 100, "file-footer-size-in-bytes": 50,
        "blob-metadata": [],
    }  # fmt: skip
    metadata(statistics=(statistics,))(table)
    right, _ = encode_puffin([])
    table.files.create(path, right)
    assert not any("Puffin" in text for text in found(table.check()))
    table.files.replace(path, b"PAR1" * 30)
    assert any(text.startswith(f"{path}: is no Puffin file") for text in found(table.check()))

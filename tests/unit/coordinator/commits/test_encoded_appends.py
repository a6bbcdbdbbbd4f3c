"""Files whose metrics came as bytes are committed as those whose metrics came as members, and judged alike."""

import pytest
from msgspec.structs import replace

from firn.coordinator.client.encoded_files import with_encoded_metrics
from firn.coordinator.tables.table_reader import TableReader
from firn.model.expressions.expression_json import expression_to_json
from firn.model.expressions.filter_text import filter_from_text
from firn.model.intent import CountMap, Overwrite, ValueMap
from firn.model.limits import Limits
from firn.model.outcome import Committed, Rejected
from tests.unit.coordinator.workbench import Workbench, append, content_file, create, new_id


def measured(name, *, low=1, high=9):
    """A file with metrics of its id column."""
    return replace(
        content_file(name),
        column_sizes=CountMap((1,), (40,)),
        value_counts=CountMap((1,), (10,)),
        null_value_counts=CountMap((1,), (0,)),
        lower_bounds=ValueMap((1,), (low.to_bytes(8, "little").hex(),)),
        upper_bounds=ValueMap((1,), (high.to_bytes(8, "little").hex(),)),
        split_offsets=(4,),
        sort_order_id=0,
    )


async def entries(bench):
    metadata = await bench.metadata()
    reader = TableReader(bench.files, limits=Limits())
    found = [e for m in reader.manifests(metadata, metadata.current_snapshot) for e in reader.entries(metadata, m)]
    return {entry.data_file.file_path.rpartition("/")[2]: entry.data_file for entry in found}


@pytest.mark.parametrize("format_version", [1, 2, 3])
async def test_what_is_in_the_table_does_not_depend_on_the_form(format_version):
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(format_version=format_version))
        await bench.settle(
            append(data_files=(measured("plain"),)), append(data_files=(with_encoded_metrics(measured("bytes")),))
        )
        found = await entries(bench)
    plain, encoded = found["plain.parquet"], found["bytes.parquet"]
    assert encoded.lower_bounds == {1: (1).to_bytes(8, "little")}
    row_ids = {"first_row_id": None}
    assert replace(encoded, file_path=plain.file_path, **row_ids) == replace(plain, **row_ids)


async def test_an_overwrite_in_the_same_swap_sees_the_bounds():
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        base = await bench.commit(append("first"))
        first = append(data_files=(with_encoded_metrics(measured("far", low=100, high=200)),))
        overwrite = Overwrite(
            intent_id=new_id(), table=first.table, base_snapshot_id=base.snapshot_id,
            data_files=(with_encoded_metrics(measured("new")),),
            conflict_filter=expression_to_json(filter_from_text("id < 50", where="filter")),
            removed_data_files=(content_file("first").file_path,),
        )  # fmt: skip
        await bench.send(first, overwrite)
        appended, overwritten = await bench.outcome(first), await bench.outcome(overwrite)
        assert isinstance(appended, Committed), appended
        assert isinstance(overwritten, Committed), overwritten
        near = append(data_files=(with_encoded_metrics(measured("near", low=10, high=20)),))
        late = replace(
            overwrite, intent_id=new_id(), base_snapshot_id=overwritten.snapshot_id, data_files=(measured("newer"),),
            removed_data_files=(content_file("new").file_path,),
        )  # fmt: skip
        await bench.send(near, late)
        assert isinstance(await bench.outcome(near), Committed)
        judged = await bench.outcome(late)
        assert isinstance(judged, Rejected)
        assert judged.rule == "new-data"


async def test_bytes_that_are_no_metrics_are_refused_and_cost_nobody_else():
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        broken = append(data_files=(replace(content_file("broken"), encoded=b"\x02\x05broken"),))
        good = append("good")
        await bench.send(broken, good)
        refused = await bench.outcome(broken)
        assert isinstance(refused, Rejected)
        assert (refused.rule, refused.files) == ("invalid-field", (content_file("broken").file_path,))
        assert "data-files[0].encoded" in refused.message
        assert isinstance(await bench.outcome(good), Committed)
        assert await bench.live() == ["good"]


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"column_sizes": CountMap((1,), (4,))}, "data-files[0].column-sizes"),
        ({"sort_order_id": 0}, "data-files[0].sort-order-id"),
        ({"content": "equality-deletes"}, "data-files[0].encoded"),
    ],
)
async def test_metrics_are_said_once_and_of_data_files(changes, where):
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        twice = replace(with_encoded_metrics(measured("twice")), **changes)
        refused = await bench.refuse(append(data_files=(twice,)))
        assert refused.rule == "invalid-field"
        assert where in refused.message


def test_encoding_twice_changes_nothing_and_deletes_are_left_alone():
    once = with_encoded_metrics(measured("a"))
    assert with_encoded_metrics(once) is once
    deletes = replace(measured("d"), content="position-deletes")
    assert with_encoded_metrics(deletes) is deletes

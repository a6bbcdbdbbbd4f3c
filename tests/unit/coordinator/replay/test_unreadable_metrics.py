"""Metrics that some reader fails on are refused at every door; what readers pass over is taken."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from msgspec.structs import replace as changed

from firn.model.intent import Append, ContentFile, CountMap, Intent, Overwrite, ReplacePartitions, RowDelta, ValueMap
from firn.model.outcome import Committed, Rejected
from firn.storage.column_maps import NULL, SOME, encode_int
from firn.storage.wire_metrics import encode_wire_metrics
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.workbench import TABLE, Workbench, append, content_file, create, new_id
from tests.unit.coordinator.workbench import replace as rewrite

TYPES = (
    "boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "string", "uuid",
    "binary", "fixed[3]", "decimal(9, 2)", "decimal(38, 0)",
)  # fmt: skip
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "fields": [{"id": n, "name": f"c{n}", "type": name, "required": False} for n, name in enumerate(TYPES, start=1)],
}
COLUMN = {name: n for n, name in enumerate(TYPES, start=1)}

WRONG = {
    "boolean": ("", "0000"),
    "int": ("", "00", "0000000000000000"),
    "long": ("", "000000", "00" * 9),
    "float": ("00", "00" * 8),
    "double": ("00", "00" * 9),
    "date": ("00" * 8,),
    "time": ("00" * 4,),
    "timestamp": ("00" * 7,),
    "timestamptz": ("00" * 4,),
    "string": ("ff", "c328", "eda080", "e282"),
    "uuid": ("00" * 15, "00" * 17),
    "fixed[3]": ("0000", "00000000"),
    "decimal(9, 2)": ("", "3b9aca00", "00" * 65, "8000000000"),
    "decimal(38, 0)": ("", "4b3b4ca85a86c47a098a224000000000"),
}
RIGHT = {
    "boolean": ("00", "01"),
    "int": ("ffffffff",),
    "long": ("00" * 8, "01000000"),
    "float": ("0000c07f",),  # NaN
    "double": ("00" * 8, "0000c07f"),
    "timestamp": ("00" * 8, "00" * 4),
    "string": ("", "61", "c3a4", "f09f9880"),
    "uuid": (uuid.UUID(int=1).hex,),
    "binary": ("", "ff"),
    "fixed[3]": ("ff" * 3,),
    "decimal(9, 2)": ("00", "3b9ac9ff", "c4653601", "00" * 16),
    "decimal(38, 0)": ("ff", "7f" * 8, "4b3b4ca85a86c47a098a223fffffffff"),
}
WRONG_BOUNDS = [(COLUMN[name], bound) for name, bounds in WRONG.items() for bound in bounds]
RIGHT_BOUNDS = [(COLUMN[name], bound) for name, bounds in RIGHT.items() for bound in bounds] + [(999, "ff")]


def bounded(name: str, column: int, bound: str, *, member: str = "upper_bounds") -> ContentFile:
    return changed(content_file(name), **{member: ValueMap((column,), (bound,))})


def with_bytes(file: ContentFile) -> ContentFile:
    """The file as a writer sends it who encodes metrics and checks nothing."""
    encoded = encode_wire_metrics(file, where="")
    return changed(file, lower_bounds=None, upper_bounds=None, encoded=encoded)


def appended(*files: ContentFile) -> Append:
    return append(data_files=files)


async def test_each_wrong_bound_is_refused_and_names_its_member() -> None:
    bench = Gathering()
    intents = [
        appended(change(bounded(f"{n}-{member}-{change.__name__}", column, bound, member=member)))
        for n, (column, bound) in enumerate(WRONG_BOUNDS)
        for member in ("lower_bounds", "upper_bounds")
        for change in (with_bytes, changed)
    ]
    good = [appended(bounded(f"good{n}", column, bound)) for n, (column, bound) in enumerate(RIGHT_BOUNDS)]
    async with bench.daemon() as daemon:
        await bench.commit(create(schema=SCHEMA))
        outcomes = await bench.gathered(daemon, *intents, *good)
        alone = [await bench.settle(changed(intent, intent_id=new_id())) for intent in intents[:4]]
        live = await bench.live()
    refused = [*outcomes[: len(intents)], *(one for (one,) in alone)]
    assert [(type(one), getattr(one, "rule", "")) for one in refused] == [(Rejected, "invalid-field")] * len(refused)
    assert all(
        isinstance(one, Rejected)
        and one.hint == "fix"
        and ("data-files[0].upper-bounds" in one.message or "data-files[0].lower-bounds" in one.message)
        for one in refused
    )
    assert all(isinstance(one, Committed) for one in outcomes[len(intents) :])
    assert len(live) == len(good) + 1


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("encode", [False, True])
@pytest.mark.parametrize("operation", ["append", "stage", "overwrite", "replace", "replace-partitions", "row-delta"])
async def test_no_operation_takes_a_wrong_bound(operation: str, encode: bool, version: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(schema=SCHEMA, format_version=version))
        base = await bench.commit(append("first"))
        assert base.snapshot_id is not None
        file = bounded("bad", COLUMN["string"], "ff")
        files = (with_bytes(file) if encode else file,)
        common: dict[str, Any] = {"intent_id": new_id(), "table": TABLE, "base_snapshot_id": base.snapshot_id}
        intents: dict[str, Intent] = {
            "append": append(data_files=files),
            "stage": append(data_files=files, stage=True),
            "overwrite": Overwrite(**common, data_files=files, row_filter=True),
            "replace": rewrite(["first"], [], base=base.snapshot_id, data_files=files),
            "replace-partitions": ReplacePartitions(**common, data_files=files),
            "row-delta": RowDelta(**common, data_files=files),
        }
        (outcome,) = await bench.settle(intents[operation])
    assert isinstance(outcome, Rejected)
    assert (outcome.rule, outcome.hint) == ("invalid-field", "fix")
    assert outcome.message.startswith("data-files[0].upper-bounds")


@pytest.mark.parametrize(
    ("column", "bound"), [(COLUMN["int"], "00"), (2147483546, "ff"), (2147483545, "00")], ids=["column", "path", "pos"]
)
async def test_no_delete_file_has_a_wrong_bound(column: int, bound: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(schema=SCHEMA))
        base = await bench.commit(append("first"))
        file = changed(bounded("d", column, bound), content="position-deletes")
        delta = RowDelta(
            intent_id=new_id(), table=TABLE, base_snapshot_id=base.snapshot_id, delete_files=(file,),
            referenced_data_files=(content_file("first").file_path,),
        )  # fmt: skip
        (outcome,) = await bench.settle(delta)
    assert isinstance(outcome, Rejected)
    assert (outcome.rule, outcome.hint) == ("invalid-field", "fix")
    assert outcome.message.startswith("delete-files[0].upper-bounds")


TWICE = SOME + encode_int(2) + (encode_int(1) + encode_int(7)) * 2 + NULL
"""A map of counts that has column 1 twice."""


@pytest.mark.parametrize(
    "changes",
    [
        {"value_counts": CountMap((1, 1), (10, 10))},
        {"column_sizes": CountMap((1, 2, 1), (10, 10, 10))},
        {"lower_bounds": ValueMap((3, 3), ("00" * 8, "01" * 8))},
        {"encoded": TWICE + NULL * 9},
        {"encoded": NULL * 3 + TWICE + NULL * 6},
        {"encoded": NULL * 4 + SOME + encode_int(2) + (encode_int(3) + encode_int(8) + bytes(8)) * 2 + NULL * 6},
    ],
)
async def test_a_column_twice_in_a_map_is_refused(changes: dict[str, Any]) -> None:
    bench = Workbench()
    bad = changed(content_file("bad"), **changes)
    async with bench.daemon():
        await bench.commit(create(schema=SCHEMA))
        outcomes = await asyncio.gather(bench.settle(appended(bad)), bench.settle(append("good")))
        again = await bench.settle(appended(content_file("a"), changed(bad, file_path=content_file("b").file_path)))
    ((refused,), (good,)), (second,) = outcomes, again
    assert isinstance(good, Committed)
    for outcome in (refused, second):
        assert isinstance(outcome, Rejected)
        assert (outcome.rule, outcome.hint) == ("invalid-field", "fix")
        assert "twice" in outcome.message

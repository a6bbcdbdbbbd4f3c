from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidInput, InvalidMetadata, Unsupported
from firn.model.partition_update import (
    SPEC_CHANGES_MAX,
    AddField,
    RemoveField,
    RenameField,
    add_spec,
    changes_from_json,
    changes_to_json,
    evolve_spec,
    reassign_field_ids,
    rebind_spec,
)
from firn.model.partitioning import UNPARTITIONED, PartitionField, PartitionSpec, check_spec, same_partitioning
from firn.model.schema import Schema
from firn.model.types import LONG, STRING, TIMESTAMPTZ, NestedField, StructType
from tests.strategies.examples import examples


def column(field_id, name, type):
    return NestedField(field_id=field_id, name=name, type=type, required=False)


SCHEMA = Schema(
    schema_id=0,
    struct=StructType(
        (
            column(1, "id", LONG),
            column(2, "ts", TIMESTAMPTZ),
            column(3, "category", STRING),
            column(4, "place", StructType((column(5, "city", STRING),))),
        )
    ),
)


def field(field_id, name, transform, *source_ids):
    return PartitionField(field_id=field_id, name=name, transform=transform, source_ids=source_ids)


def spec_of(*fields, spec_id=0):
    return PartitionSpec(spec_id=spec_id, fields=fields)


BY_DAY_AND_SHARD = spec_of(field(1000, "ts_day", "day", 2), field(1001, "shard", "bucket[16]", 1))


class Table:
    """The part of a table that partition evolution changes."""

    def __init__(self, format_version, spec=UNPARTITIONED):
        self.format_version = format_version
        self.spec = spec
        self.specs = [spec]
        self.last_partition_id = spec.last_field_id

    def update(self, *changes):
        self.spec = evolve_spec(
            self.spec,
            SCHEMA,
            changes,
            format_version=self.format_version,
            specs=self.specs,
            last_partition_id=self.last_partition_id,
        )
        self.last_partition_id = max(self.last_partition_id, self.spec.last_field_id)
        if self.spec not in self.specs:
            self.specs.append(self.spec)
        return [f"{f.field_id} {f.name} {f.transform}" for f in self.spec.fields]


def refusal(*changes, spec=BY_DAY_AND_SHARD, format_version=2, error=InvalidInput):
    with pytest.raises(error) as refused:
        evolve_spec(spec, SCHEMA, changes, format_version=format_version)
    return refused.value.where


# ---------------------------------------------------------------------------------------------------------------------
# JSON

NAMES = st.text(max_size=5)
CHANGES = st.lists(
    st.builds(AddField, source=NAMES, transform=NAMES, name=st.none() | NAMES)
    | st.builds(RemoveField, name=st.none() | NAMES, source=st.none() | NAMES, transform=NAMES)
    | st.builds(RenameField, name=NAMES, new_name=NAMES),
    max_size=3,
)


@given(CHANGES)
@examples(50)
def test_changes_survive_json(changes):
    assert changes_from_json(json.loads(json.dumps(changes_to_json(changes)))) == tuple(changes)


def test_changes_are_written_without_what_goes_without_saying():
    changes = (AddField(source="ts", transform="day"), RemoveField(name="a"), RenameField(name="b", new_name="c"))
    assert changes_to_json(changes) == [
        {"action": "add-field", "source": "ts", "transform": "day"},
        {"action": "remove-field", "name": "a"},
        {"action": "rename-field", "name": "b", "new-name": "c"},
    ]


@pytest.mark.parametrize(
    ("obj", "where"),
    [
        (3, "changes"),
        ([3], "changes[0]"),
        ([{"action": "split-field"}], "changes[0].action"),
        ([{"source": "ts"}], "changes[0]"),
        ([{"action": "add-field"}], "changes[0]"),
        ([{"action": "add-field", "source": 1}], "changes[0].source"),
        ([{"action": "add-field", "source": "ts", "width": 3}], "changes[0]"),
        ([{"action": "rename-field", "name": "a"}], "changes[0]"),
        ([{"action": "remove-field", "name": "a"}] * (SPEC_CHANGES_MAX + 1), "changes"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_wrong_change_is_named_by_its_path(obj, where):
    with pytest.raises(InvalidInput) as refused:
        changes_from_json(obj)
    assert refused.value.where == where


# ---------------------------------------------------------------------------------------------------------------------
# Adding


def test_a_field_of_a_nested_column_gets_the_whole_name():
    assert Table(2).update(AddField(source="place.city", transform="truncate[2]")) == [
        "1000 place.city_trunc_2 truncate[2]"
    ]


def test_a_field_that_comes_back_gets_its_former_id_and_name_from_v2_on():
    table = Table(2, BY_DAY_AND_SHARD)
    table.update(RemoveField(name="shard"), AddField(source="category"))
    assert table.update(AddField(source="id", transform="bucket[16]"))[-1] == "1001 shard bucket[16]"


def test_a_field_that_comes_back_under_another_name_gets_another_id():
    table = Table(2, BY_DAY_AND_SHARD)
    table.update(RemoveField(name="shard"))
    assert table.update(AddField(source="id", transform="bucket[16]", name="slot"))[-1] == "1002 slot bucket[16]"


def test_a_former_name_that_is_taken_now_is_not_given_again():
    table = Table(2, BY_DAY_AND_SHARD)
    table.update(RemoveField(name="shard"))
    table.update(AddField(source="id", transform="bucket[8]", name="shard"))
    assert table.update(AddField(source="id", transform="bucket[16]"))[-1] == "1003 id_bucket_16 bucket[16]"


def test_ids_of_removed_fields_are_not_given_to_others():
    table = Table(2, BY_DAY_AND_SHARD)
    table.update(RemoveField(name="shard"))
    assert table.update(AddField(source="category")) == ["1000 ts_day day", "1002 category identity"]


def test_a_v1_field_that_comes_back_is_a_new_field_behind_its_void_one():
    table = Table(1, BY_DAY_AND_SHARD)
    table.update(RemoveField(name="shard"))
    assert table.update(AddField(source="id", transform="bucket[16]", name="shard")) == [
        "1000 ts_day day",
        "1001 shard_1001 void",
        "1002 shard bucket[16]",
    ]


def test_v1_ids_follow_the_spec_even_when_another_spec_was_longer():
    short = spec_of(field(1000, "ts_day", "day", 2))
    evolved = evolve_spec(
        short,
        SCHEMA,
        [AddField(source="category")],
        format_version=1,
        specs=(short, spec_of(*BY_DAY_AND_SHARD.fields, spec_id=1)),
        last_partition_id=1001,
    )
    assert [f.field_id for f in evolved.fields] == [1000, 1001]
    assert evolved.spec_id == 2


def test_removing_and_adding_the_same_values_in_one_update_is_a_renaming():
    changes = (RemoveField(name="shard"), AddField(source="id", transform="BUCKET[16]", name="slot"))
    for version in (1, 2, 3):
        assert Table(version, BY_DAY_AND_SHARD).update(*changes) == ["1000 ts_day day", "1001 slot bucket[16]"]


def test_a_name_passes_to_another_field_in_one_update():
    changes = (RemoveField(name="shard"), AddField(source="category", name="shard", transform="truncate[1]"))
    assert Table(2, BY_DAY_AND_SHARD).update(*changes) == ["1000 ts_day day", "1002 shard truncate[1]"]
    assert Table(1, BY_DAY_AND_SHARD).update(*changes) == [
        "1000 ts_day day",
        "1001 shard_1001 void",
        "1002 shard truncate[1]",
    ]


@pytest.mark.parametrize(
    "change",
    [
        AddField(source="id", transform="bucket[16]"),
        AddField(source="ts", transform="day", name="other"),
        AddField(source="category", name="shard"),
        AddField(source="moon"),
        AddField(source="id", transform="bucket[0]"),
    ],
)
def test_what_exists_or_cannot_exist_is_not_added(change):
    where = refusal(change)
    assert where is not None
    assert where.startswith("changes[0]")


def test_one_update_does_not_add_two_time_fields_of_a_column_but_two_updates_may():
    assert refusal(AddField(source="ts", transform="hour"), AddField(source="ts", transform="year")) == "changes[1]"
    assert Table(2, BY_DAY_AND_SHARD).update(AddField(source="ts", transform="hour"))[-1] == "1002 ts_hour hour"


def test_unknown_transforms_are_neither_added_nor_evolved():
    assert refusal(AddField(source="id", transform="spiral"), error=Unsupported) == "changes[0]"
    assert refusal(RemoveField(name="a"), spec=spec_of(field(1000, "a", "spiral", 1)), error=Unsupported) == "changes"


def test_the_result_is_checked_against_the_schema():
    refusal(AddField(source="id", transform="day"), error=InvalidMetadata)
    refusal(AddField(source="place"), error=InvalidMetadata)
    refusal(AddField(source="id", name="category"), error=InvalidMetadata)
    refusal(RenameField(name="shard", new_name="ts_day"), error=InvalidMetadata)


# ---------------------------------------------------------------------------------------------------------------------
# Removing and renaming


@pytest.mark.parametrize(
    "change", [RemoveField(), RemoveField(name="shard", source="id", transform="bucket[16]"), RemoveField(name="moon")]
)
def test_a_removal_names_one_field_in_one_way(change):
    assert refusal(change) == "changes[0]"


def test_a_field_is_not_removed_and_renamed_in_one_update():
    remove, rename = RemoveField(name="shard"), RenameField(name="shard", new_name="slot")
    assert refusal(remove, rename) == refusal(rename, remove) == "changes[1]"


def test_what_an_update_adds_it_neither_removes_nor_renames():
    add = AddField(source="category")
    assert refusal(add, RemoveField(name="category")) == "changes[1]"
    assert refusal(add, RemoveField(source="category")) == "changes[1]"
    assert refusal(add, RenameField(name="category", new_name="kind")) == "changes[1]"


def test_two_fields_swap_their_names():
    swap = (RenameField(name="ts_day", new_name="shard"), RenameField(name="shard", new_name="ts_day"))
    assert Table(1, BY_DAY_AND_SHARD).update(*swap) == ["1000 shard day", "1001 ts_day bucket[16]"]


def test_a_v1_void_field_gives_way_to_a_field_that_is_renamed_to_its_name():
    spec = spec_of(
        field(1000, "a", "void", 1), field(1001, "a_1000", "void", 1), field(1002, "category", "identity", 3)
    )
    assert Table(1, spec).update(RenameField(name="category", new_name="a")) == [
        "1000 a_1000 void",
        "1001 a_1000_1001 void",
        "1002 a identity",
    ]


def test_a_long_chain_of_taken_names_is_resolved():
    names = ["a"]
    for i in range(1, 1100):
        names.append(f"{names[-1]}_{999 + i}")
    voids = [field(1000 + i, name, "void", 1) for i, name in enumerate(names)]
    table = Table(1, spec_of(*voids, field(2100, "category", "identity", 3)))
    table.update(RenameField(name="category", new_name="a"))
    assert table.spec.fields[-1].name == "a"
    assert table.spec.fields[0].name == "a_1000"


def test_removing_everything_leaves_void_fields_in_v1_and_nothing_later():
    removals = (RemoveField(name="shard"), RemoveField(source="ts", transform="day"))
    assert Table(1, BY_DAY_AND_SHARD).update(*removals) == ["1000 ts_day void", "1001 shard void"]
    assert Table(2, BY_DAY_AND_SHARD).update(*removals) == []


# ---------------------------------------------------------------------------------------------------------------------
# Spec ids


def test_a_spec_that_the_table_had_before_is_used_again():
    table = Table(2, BY_DAY_AND_SHARD)
    table.update(AddField(source="category"))
    assert table.spec.spec_id == 1
    table.update(RemoveField(name="category"))
    assert table.spec == BY_DAY_AND_SHARD
    assert len(table.specs) == 2


def test_no_changes_are_no_new_spec():
    table = Table(2, BY_DAY_AND_SHARD)
    table.update()
    assert table.spec is BY_DAY_AND_SHARD


def test_a_new_spec_gets_the_id_after_the_highest():
    assert add_spec(BY_DAY_AND_SHARD, [spec_of(spec_id=7), spec_of(field(1000, "x", "day", 2), spec_id=3)]).spec_id == 8
    assert add_spec(BY_DAY_AND_SHARD, []).spec_id == 0


SOURCES = {"id": ["bucket[2]", "bucket[4]", "identity"], "ts": ["day", "hour"], "category": ["identity", "truncate[1]"]}
STEPS = st.lists(
    st.tuples(st.sampled_from(sorted(SOURCES)), st.integers(0, 2), st.sampled_from(["add", "remove", "rename"])),
    max_size=12,
)


@given(STEPS, st.sampled_from([1, 2, 3]))
@examples(60)
def test_whatever_the_history_an_id_means_one_thing_and_specs_are_never_doubled(steps, format_version):
    table = Table(format_version)
    for n, (source, choice, action) in enumerate(steps):
        transform = SOURCES[source][choice % len(SOURCES[source])]
        existing = next(
            (f for f in table.spec.fields if f.transform == transform and f.source_id == SCHEMA.ids_by_name[source]),
            None,
        )
        if action == "add" and existing is None:
            table.update(AddField(source=source, transform=transform))
        elif action == "remove" and existing is not None:
            table.update(RemoveField(source=source, transform=transform))
        elif action == "rename" and existing is not None:
            table.update(RenameField(name=existing.name, new_name=f"p{n}"))
        check_spec(table.spec, SCHEMA, format_version=format_version)
    if format_version >= 2:
        meanings: dict[int, tuple] = {}
        for f in (f for spec in table.specs for f in spec.fields):
            assert meanings.setdefault(f.field_id, (f.source_ids, f.transform)) == (f.source_ids, f.transform)
    ids = [spec.spec_id for spec in table.specs]
    assert len(set(ids)) == len(ids)
    for i, spec in enumerate(table.specs):
        assert not any(same_partitioning(spec, other) for other in table.specs[i + 1 :])


# ---------------------------------------------------------------------------------------------------------------------
# Whole specs


def test_a_spec_of_another_schema_is_bound_by_column_names():
    renumbered = Schema(schema_id=0, struct=StructType((column(11, "ts", TIMESTAMPTZ), column(12, "id", LONG))))
    rebound = rebind_spec(BY_DAY_AND_SHARD, planned_on=SCHEMA, schema=renumbered)
    assert [f.source_ids for f in rebound.fields] == [(11,), (12,)]
    dropped = spec_of(field(1000, "gone", "void", 99))
    assert rebind_spec(dropped, planned_on=SCHEMA, schema=renumbered) == dropped
    with pytest.raises(InvalidMetadata, match="category"):
        rebind_spec(spec_of(field(1000, "c", "identity", 3)), planned_on=SCHEMA, schema=renumbered)


def test_a_replacing_spec_keeps_known_ids_from_v2_on():
    wanted = spec_of(field(1000, "c", "identity", 3), field(1001, "slot", "bucket[16]", 1))
    result = reassign_field_ids(
        wanted, current=UNPARTITIONED, specs=[UNPARTITIONED, BY_DAY_AND_SHARD], format_version=2, last_partition_id=1007
    )
    assert [(f.field_id, f.name) for f in result.fields] == [(1008, "c"), (1001, "slot")]


def test_a_replacing_spec_goes_on_from_the_current_one_in_v1():
    wanted = spec_of(field(1000, "ts_day", "identity", 3), field(1001, "slot", "bucket[16]", 1))
    result = reassign_field_ids(
        wanted, current=BY_DAY_AND_SHARD, specs=[BY_DAY_AND_SHARD], format_version=1, last_partition_id=1001
    )
    assert [f"{f.field_id} {f.name} {f.transform}" for f in result.fields] == [
        "1000 ts_day_1000 void",
        "1001 slot bucket[16]",
        "1002 ts_day identity",
    ]

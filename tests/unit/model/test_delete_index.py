import math
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.datafile import DataFile
from firn.model.delete_index import DeleteIndex, partition_key, referenced_data_file
from firn.model.errors import CorruptFile
from firn.model.manifest import ManifestEntry, Status
from firn.model.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from firn.model.reserved import DELETE_FILE_PATH_ID
from firn.model.schema import Schema
from firn.model.types import DOUBLE, INT, LONG, STRING, UUID, ListType, NestedField, StructType, Type
from firn.model.values import to_bytes

BY_DOUBLE = PartitionSpec(
    spec_id=1, fields=(PartitionField(source_ids=(2,), field_id=1000, name="d", transform="identity"),)
)
VOIDED = PartitionSpec(spec_id=2, fields=(PartitionField(source_ids=(2,), field_id=1000, name="d", transform="void"),))
SPECS = {spec.spec_id: spec for spec in (UNPARTITIONED, BY_DOUBLE, VOIDED)}
NAN = float("nan")
OTHER_NAN = math.copysign(NAN, -1)


def column(field_id: int, name: str, type: Type, *, required: bool = False) -> NestedField:
    return NestedField(field_id=field_id, name=name, type=type, required=required)


SCHEMA = Schema(
    schema_id=0,
    struct=StructType(
        (
            column(1, "id", LONG),
            column(2, "d", DOUBLE),
            column(3, "name", STRING),
            column(4, "u", UUID),
            column(5, "s", StructType((column(6, "x", INT, required=True),))),
            column(7, "l", ListType(element_id=8, element=LONG, element_required=False)),
            column(9, "key", LONG, required=True),
        )
    ),
)
TYPES = {field_id: field.type for field_id, field in SCHEMA.fields_by_id.items()}


def entry(number: int | None, file: DataFile) -> ManifestEntry:
    return ManifestEntry(status=Status.ADDED, snapshot_id=1, sequence_number=number, data_file=file)


def file(path: str = "data.parquet", *, spec_id: int = 0, partition: tuple = (), **members) -> DataFile:
    given: dict[str, Any] = {"file_format": "parquet", "record_count": 10, "file_size_in_bytes": 100, **members}
    return DataFile(file_path=path, spec_id=spec_id, partition=partition, **given)


def positions(path: str = "pos.parquet", **members) -> DataFile:
    return file(path, content="position-deletes", **members)


def equality(path: str = "eq.parquet", ids: tuple[int, ...] = (1,), **members) -> DataFile:
    return file(path, content="equality-deletes", equality_ids=ids, **members)


def vector(path: str = "dv.puffin", data_file: str | None = "data.parquet", **members) -> DataFile:
    given: dict[str, Any] = {"content_offset": 4, "content_size_in_bytes": 40, **members}
    return positions(path, file_format="puffin", referenced_data_file=data_file, **given)


def metrics(ranges: dict, *, nulls: dict | None = None, rows: int = 10) -> dict:
    """Metrics of columns from (lower, upper); no nulls unless `nulls` says how many."""
    counts = {i: (nulls or {}).get(i, 0) for i in {*ranges, *(nulls or {})}}
    return {
        "record_count": rows,
        "value_counts": dict.fromkeys(counts, rows),
        "null_value_counts": counts,
        "lower_bounds": {i: to_bytes(TYPES[i], bounds[0]) for i, bounds in ranges.items()},
        "upper_bounds": {i: to_bytes(TYPES[i], bounds[1]) for i, bounds in ranges.items()},
    }


def index(*deletes: ManifestEntry, schemas: tuple[Schema, ...] = (SCHEMA,)) -> DeleteIndex:
    return DeleteIndex(deletes, specs=SPECS, schemas=schemas)


def applied(data: ManifestEntry, *deletes: ManifestEntry, schemas: tuple[Schema, ...] = (SCHEMA,)) -> list[str]:
    return [delete.file_path for delete in index(*deletes, schemas=schemas).of(data)]


# ---------------------------------------------------------------------------------------------------------------------
# Age


@pytest.mark.parametrize(
    ("delete", "reaches_its_own_age"), [(positions(), True), (positions(referenced_data_file="data.parquet"), True),
                                        (vector(), True), (equality(), False)]
)  # fmt: skip
def test_deletes_reach_older_files_and_all_but_equality_deletes_those_of_their_own_commit(delete, reaches_its_own_age):
    assert applied(entry(4, file()), entry(5, delete)) == [delete.file_path]
    assert applied(entry(5, file()), entry(5, delete)) == ([delete.file_path] if reaches_its_own_age else [])


@pytest.mark.parametrize("delete", [positions(), positions(referenced_data_file="data.parquet"), equality()])
def test_deletes_never_reach_younger_files(delete):
    assert applied(entry(6, file()), entry(5, delete)) == []


@given(st.integers(0, 9), st.lists(st.tuples(st.sampled_from(["pos", "path", "eq"]), st.integers(0, 9)), max_size=12))
def test_deletes_of_any_ages_are_found_as_by_looking_at_each(age, wanted):
    make: dict[str, Callable[[str], DataFile]] = {
        "pos": positions,
        "path": lambda name: positions(name, referenced_data_file="data.parquet"),
        "eq": equality,
    }
    deletes = [entry(number, make[kind](f"{kind}-{at}")) for at, (kind, number) in enumerate(wanted)]
    found = applied(entry(age, file()), *deletes)
    expected = {
        f"{kind}-{at}" for at, (kind, number) in enumerate(wanted) if (age < number if kind == "eq" else age <= number)
    }
    assert set(found) == expected
    assert len(found) == len(expected)


def test_v1_files_and_files_of_age_0_are_reached_by_all_deletes_of_later_commits():
    assert applied(entry(0, file()), entry(1, equality()), entry(0, positions())) == ["eq.parquet", "pos.parquet"]


def test_deletes_come_equality_first_and_oldest_first():
    deletes = [
        entry(9, positions("p9")),
        entry(3, positions("p3")),
        entry(8, equality("e8")),
        entry(4, equality("e4")),
        entry(5, positions("path5", referenced_data_file="data.parquet")),
    ]
    assert applied(entry(1, file()), *deletes) == ["e4", "e8", "p3", "p9", "path5"]


# ---------------------------------------------------------------------------------------------------------------------
# Partitions


@pytest.mark.parametrize("delete", [positions, equality])
def test_deletes_stay_in_their_partition_and_spec(delete):
    here: dict[str, Any] = {"spec_id": 1, "partition": (1.5,)}
    assert applied(entry(1, file(**here)), entry(2, delete("d", **here))) == ["d"]
    assert applied(entry(1, file(**here)), entry(2, delete("d", spec_id=1, partition=(2.5,)))) == []
    assert applied(entry(1, file(spec_id=2, partition=(None,))), entry(2, delete("d", **here))) == []


@pytest.mark.parametrize("spec_id", [0, 2])
def test_equality_deletes_of_an_unpartitioned_spec_reach_every_partition(spec_id):
    everywhere = equality(spec_id=spec_id, partition=(None,) if spec_id else ())
    assert applied(entry(1, file(spec_id=1, partition=(1.5,))), entry(2, everywhere)) == ["eq.parquet"]


def test_position_deletes_of_an_unpartitioned_spec_do_not():
    assert applied(entry(1, file(spec_id=1, partition=(1.5,))), entry(2, positions())) == []


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (NAN, NAN, True),
        (NAN, OTHER_NAN, True),
        (0.0, -0.0, False),
        (-0.0, -0.0, True),
        (None, None, True),
        (None, 0.0, False),
        (None, NAN, False),
        (math.inf, math.inf, True),
        (math.inf, -math.inf, False),
    ],
)
def test_partitions_of_floats_compare_by_their_bits(one, other, same):
    assert (partition_key(1, (one,)) == partition_key(1, (other,))) is same
    found = applied(entry(1, file(spec_id=1, partition=(one,))), entry(2, positions(spec_id=1, partition=(other,))))
    assert bool(found) is same


def test_equal_tuples_of_different_specs_are_different_partitions():
    assert partition_key(1, (1,)) != partition_key(2, (1,))


# ---------------------------------------------------------------------------------------------------------------------
# Deletes that name their data file


def test_position_deletes_that_name_a_file_are_for_it_only():
    named = entry(2, positions(referenced_data_file="data.parquet"))
    assert applied(entry(1, file()), named) == ["pos.parquet"]
    assert applied(entry(1, file("other.parquet")), named) == []


def test_equal_bounds_of_paths_name_a_file():
    bounds = {DELETE_FILE_PATH_ID: b"data.parquet"}
    named = positions(lower_bounds=bounds, upper_bounds=bounds)
    assert referenced_data_file(named) == "data.parquet"
    assert applied(entry(1, file()), entry(2, named)) == ["pos.parquet"]
    assert applied(entry(1, file("other.parquet")), entry(2, named)) == []


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ({DELETE_FILE_PATH_ID: b"a"}, {DELETE_FILE_PATH_ID: b"z"}),
        ({DELETE_FILE_PATH_ID: b"a"}, None),
        (None, {DELETE_FILE_PATH_ID: b"a"}),
        ({}, {}),
        ({DELETE_FILE_PATH_ID: b"\xff"}, {DELETE_FILE_PATH_ID: b"\xff"}),
    ],
)
def test_other_bounds_of_paths_name_none(lower, upper):
    unnamed = positions(lower_bounds=lower, upper_bounds=upper)
    assert referenced_data_file(unnamed) is None
    assert applied(entry(1, file()), entry(2, unnamed)) == ["pos.parquet"]


def test_equality_deletes_name_no_file():
    assert referenced_data_file(equality(referenced_data_file="data.parquet")) is None


@pytest.mark.parametrize("delete", [positions(referenced_data_file="data.parquet"), vector()])
def test_deletes_that_name_a_file_of_another_partition_are_corrupt(delete):
    with pytest.raises(CorruptFile, match=r"spec 0, partition \(\) name data.parquet, which is of spec 1"):
        applied(entry(1, file(spec_id=1, partition=(1.5,))), entry(2, delete))


# ---------------------------------------------------------------------------------------------------------------------
# Deletion vectors


def test_a_deletion_vector_replaces_all_position_deletes_but_no_equality_deletes():
    deletes = [
        entry(2, positions("old")),
        entry(9, positions("younger")),
        entry(2, positions("named", referenced_data_file="data.parquet")),
        entry(3, vector()),
        entry(3, equality()),
    ]
    assert applied(entry(1, file()), *deletes) == ["eq.parquet", "dv.puffin"]
    assert applied(entry(1, file("other.parquet")), *deletes) == ["eq.parquet", "old", "younger"]


def test_two_deletion_vectors_of_one_file_are_refused_naming_both():
    two = [entry(2, vector("a.puffin", content_offset=4)), entry(3, vector("b.puffin", content_offset=9))]
    with pytest.raises(CorruptFile, match=r"data.parquet: has two deletion vectors, a.puffin at 4 and b.puffin at 9"):
        index(*two)


def test_vectors_of_different_files_may_share_a_puffin_file():
    vectors = [entry(2, vector(data_file=path)) for path in ("a", "b")]
    assert applied(entry(1, file("b")), *vectors) == ["dv.puffin"]


def test_a_deletion_vector_older_than_its_file_is_corrupt():
    with pytest.raises(CorruptFile, match=r"sequence number 2 for data.parquet, which is of 3"):
        applied(entry(3, file()), entry(2, vector()))


# ---------------------------------------------------------------------------------------------------------------------
# Equality deletes that share no key with a file


def found(data: dict, deletes: dict, ids: tuple[int, ...] = (1,), schemas: tuple[Schema, ...] = (SCHEMA,)) -> bool:
    return bool(applied(entry(1, file(**data)), entry(2, equality(ids=ids, **deletes)), schemas=schemas))


@pytest.mark.parametrize(
    ("data", "deletes", "needed"),
    [
        (metrics({1: (1, 10)}), metrics({1: (5, 20)}), True),
        (metrics({1: (1, 10)}), metrics({1: (10, 20)}), True),
        (metrics({1: (1, 10)}), metrics({1: (11, 20)}), False),
        (metrics({1: (21, 30)}), metrics({1: (11, 20)}), False),
        # Null deletes null.
        (metrics({1: (1, 10)}, nulls={1: 1}), metrics({1: (11, 20)}, nulls={1: 1}), True),
        (metrics({1: (1, 10)}, nulls={1: 1}), metrics({1: (11, 20)}), False),
        (metrics({1: (1, 10)}), metrics({}, nulls={1: 10}), False),
        (metrics({}, nulls={1: 10}), metrics({1: (1, 10)}), False),
        (metrics({}, nulls={1: 10}), metrics({}, nulls={1: 10}), True),
        # What is not known cannot rule anything out.
        ({}, metrics({1: (11, 20)}), True),
        (metrics({1: (1, 10)}), {}, True),
        ({**metrics({1: (1, 10)}), "null_value_counts": None}, {**metrics({1: (11, 20)}, nulls={1: 1})}, True),
        ({**metrics({1: (1, 10)}), "upper_bounds": None}, metrics({1: (11, 20)}), True),
        # Bounds the wrong way round mean nothing.
        (metrics({1: (10, 1)}), metrics({1: (11, 20)}), True),
        (metrics({1: (11, 20)}), metrics({1: (10, 1)}), True),
        # NaN deletes NaN, and no bounds tell.
        ({**metrics({2: (1.0, 2.0)}), "nan_value_counts": {2: 1}}, metrics({2: (5.0, 6.0)}), True),
        ({**metrics({2: (1.0, 2.0)}), "nan_value_counts": {2: 0}}, metrics({2: (5.0, 6.0)}), False),
    ],
)
def test_equality_deletes_without_a_common_value_are_left_out(data, deletes, needed):
    ids = tuple(data.get("lower_bounds") or {}) or (1,)
    assert found(data, deletes, ids) is needed


def test_one_column_without_a_common_value_is_enough():
    data = metrics({1: (1, 10), 3: ("a", "c")})
    assert not found(data, metrics({1: (5, 6), 3: ("x", "z")}), (1, 3))
    assert found(data, metrics({1: (5, 6), 3: ("b", "z")}), (1, 3))


def test_metrics_of_columns_that_are_not_compared_rule_nothing_out():
    assert found(metrics({1: (1, 10), 3: ("a", "c")}), metrics({1: (5, 6), 3: ("x", "z")}), (1,))


def test_bounds_of_uuids_rule_nothing_out_since_writers_order_them_differently():
    low, high = uuid.UUID(int=1), uuid.UUID(int=2**127 + 1)
    assert found(metrics({4: (low, low)}), metrics({4: (high, high)}), (4,))


def test_a_struct_that_may_be_null_may_hide_nulls_from_the_counts():
    # ORC counts no value for a column whose struct is null, so that "no nulls" is of 5 rows of 10.
    data = metrics({6: (1, 5)}) | {"value_counts": {6: 5}}
    assert found(data, metrics({6: (7, 9)}, nulls={6: 1}), (6,))
    assert not found(data, metrics({6: (7, 9)}), (6,))


def test_elements_of_lists_rule_nothing_out():
    assert found(metrics({8: (1, 2)}), metrics({8: (5, 6)}), (8,))


def test_a_column_once_optional_may_be_null_in_old_files():
    required = metrics({9: (1, 5)}) | {"null_value_counts": None}
    deletes = metrics({9: (7, 9)}) | {"null_value_counts": None}
    optional = Schema(schema_id=1, struct=StructType((column(9, "key", LONG),)))
    assert not found(required, deletes, (9,))
    assert found(required, deletes, (9,), schemas=(SCHEMA, optional))


def test_deletes_of_a_dropped_column_are_pruned_by_its_last_type():
    now = Schema(schema_id=1, struct=StructType((column(3, "name", STRING),)))
    data, deletes = metrics({1: (1, 10)}), metrics({1: (11, 20)})
    assert not found(data, deletes, schemas=(now, SCHEMA))
    assert found(data, metrics({1: (1, 20)}), schemas=(now, SCHEMA))
    assert found(data, deletes, schemas=(now,)), "a column that no schema has must not rule anything out"


def test_bounds_written_before_a_promotion_are_compared():
    old = {**metrics({1: (1, 1)}), "lower_bounds": {1: to_bytes(INT, 1)}, "upper_bounds": {1: to_bytes(INT, 10)}}
    assert not found(old, metrics({1: (11, 20)}))
    assert found(old, metrics({1: (10, 20)}))


@given(
    st.lists(st.none() | st.integers(-3, 3), min_size=1, max_size=4),
    st.lists(st.none() | st.integers(-3, 3), min_size=1, max_size=4),
    st.sets(st.sampled_from(["value_counts", "null_value_counts", "lower_bounds", "upper_bounds"])),
    st.sets(st.sampled_from(["value_counts", "null_value_counts", "lower_bounds", "upper_bounds"])),
)
def test_no_equality_delete_that_deletes_a_row_is_left_out(data, deletes, unknown_of_data, unknown_of_deletes):
    def described(values, unknown):
        numbers = [value for value in values if value is not None]
        ranges = {1: (min(numbers), max(numbers))} if numbers else {}
        return {
            **metrics(ranges, nulls={1: len(values) - len(numbers)}, rows=len(values)),
            **dict.fromkeys(unknown),
        }

    if set(data) & set(deletes):
        assert found(described(data, unknown_of_data), described(deletes, unknown_of_deletes))


# ---------------------------------------------------------------------------------------------------------------------
# Entries that are not what they must be


@pytest.mark.parametrize(
    ("delete", "message"),
    [
        (vector(data_file=None), "does not name its data file"),
        (equality(ids=()), "names no columns"),
        (equality(spec_id=7), "partition spec 7"),
        (file(), "a data file among the delete files"),
    ],
)
def test_incomplete_entries_are_corrupt(delete, message):
    with pytest.raises(CorruptFile, match=message):
        index(entry(1, delete))


def test_entries_without_a_sequence_number_are_corrupt():
    with pytest.raises(CorruptFile, match="no data sequence number"):
        index(entry(None, positions()))
    with pytest.raises(CorruptFile, match="no data sequence number"):
        applied(entry(None, file()), entry(1, positions()))


def test_an_empty_index_says_so():
    assert not index()
    assert index(entry(1, positions()))
    assert index().of(entry(1, file())) == ()

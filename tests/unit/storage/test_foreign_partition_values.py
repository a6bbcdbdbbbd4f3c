"""Partition values as other writers store them: their units and types are honoured, and what is no value of its type
survives the rewriting of its manifest.
"""

import json
from decimal import Decimal

import pytest
from pyiceberg import manifest as peer
from pyiceberg.io.pyarrow import PyArrowFileIO

from firn.model.errors import CorruptFile, InvalidInput
from firn.model.expressions.binding import bind
from firn.model.expressions.expression_json import expression_from_json
from firn.model.expressions.predicates import FALSE, TRUE
from firn.model.expressions.residuals import Residuals
from firn.model.foreign_value import ForeignValue, stored_type
from firn.model.manifest import Status
from firn.model.metadata import TableMetadata
from firn.model.partitioning import partition_type
from firn.model.types import (
    BINARY,
    INT,
    LONG,
    STRING,
    UUID,
)
from firn.storage.avro import open_avro, write_avro
from firn.storage.manifest_merge import rewrite_without
from firn.storage.manifest_pieces import Layout, read_pieces
from firn.storage.manifest_schema import manifest_schema
from firn.storage.manifests import decode_manifest, encode_manifest
from firn.storage.merged_manifests import Source, merged_manifest
from tests.strategies.manifests import added
from tests.strategies.older_avro import unsealed
from tests.unit.storage.foreign_manifests import (
    BAD,
    CASES,
    DEC,
    GOOD,
    ID,
    MILLIS,
    OPEN,
    Case,
    foreign,
    long,
    number,
    stored_bytes,
    tables,
)
from tests.unit.storage.manifest_writing import COMMIT, committed, decode, encode, replace


def values_of(entries):
    return [entry.data_file.partition[0] for entry in entries]


def without(entries, case, *names):
    """The manifest that takes the place of these entries' when files go, and what is read of it."""
    spec, schema = tables(case)
    kept = rewrite_without(entries, {f"s3://b/t/{name}" for name in names}, snapshot_id=6)
    encoded = encode_manifest(kept, schema=schema, spec=spec, content="data", format_version=2, snapshot_id=6)
    return encoded, decode(encoded, spec=spec, schema=schema)


@pytest.mark.parametrize("name", CASES)
def test_a_value_is_read_and_kept_when_its_manifest_is_written_anew(name):
    case = CASES[name]
    spec, schema = tables(case)
    stored = stored_bytes(case.stored)
    found = decode(foreign(case, stored, None, stored), spec=spec, schema=schema)
    assert values_of(found) == [case.value, None, case.value]
    encoded, again = without(found, case, "a")
    assert values_of(again) == [case.value, None, case.value]
    assert [entry.status for entry in again] == [Status.DELETED, Status.EXISTING, Status.EXISTING]
    _, once_more = without(again, case, "c")
    assert values_of(once_more) == [None, case.value]
    assert encoded.counts.deleted_files == 1


@pytest.mark.parametrize("name", BAD)
def test_other_readers_find_the_same_value_before_and_after(name):
    case = BAD[name]
    spec, schema = tables(case)
    before = foreign(case, stored_bytes(case.stored), None)
    after, _ = without(decode(before, spec=spec, schema=schema), case, "b")
    assert raw_values(after.data)[0] == raw_values(before.data)[0]


def raw_values(data):
    """The partition values as their bytes say them: numbers, flags, texts and bytes."""
    file = open_avro(data, location="m")
    values = []
    for block in file.read_blocks(text_errors="surrogateescape"):
        values += [record["f2"]["f102"]["f1000"] for record in block]
    data_file = file.schema.root.field(2)
    partition = None if data_file is None else data_file.field(102)
    declared = None if partition is None else partition.field(1000)
    assert declared is not None
    if declared.logical == "decimal":
        return [None if v is None else (int.from_bytes(v, "big", signed=True), declared.scale) for v in values]
    return values


GOOD_BESIDE = {
    "decimal of more digits": number(1000, 4),
    "decimal of more bytes": number(1000, 6),
    "decimal of more places": number(100_000, 5),
    "time at midnight": 5,
    "int past its width": 5,
    "date past its width": 5,
    "double in a float": 0.5,
    "longer fixed": b"abcd",
    "uuid of three bytes": ID.bytes,
    "uuid that is no text of one": str(ID).encode(),
    "text that is no UTF-8": b"good",
    "bytes that are no text": b"good",
}


@pytest.mark.parametrize("name", GOOD_BESIDE)
def test_a_good_file_beside_a_bad_one_can_be_deleted(name):
    case = BAD[name]
    spec, schema = tables(case)
    found = decode(
        foreign(case, stored_bytes(case.stored), GOOD_BESIDE[name], GOOD_BESIDE[name]), spec=spec, schema=schema
    )
    good = values_of(found)[1]
    encoded, again = without(found, case, "b")
    assert values_of(again) == [case.value, good, good]
    assert encoded.partitions is None or len(encoded.partitions) == 1
    _, rest = without(again, case, "a")
    assert values_of([entry for entry in rest if entry.is_live]) == [good]


@pytest.mark.parametrize("name", [*BAD, *OPEN])
def test_a_value_out_of_its_type_has_no_range_that_could_hide_its_file(name):
    case = CASES[name]
    spec, schema = tables(case)
    encoded, _ = without(decode(foreign(case, stored_bytes(case.stored), None), spec=spec, schema=schema), case, "b")
    assert encoded.partitions is None


@pytest.mark.parametrize("name", GOOD)
def test_bytes_are_copied_only_where_they_mean_the_same(name):
    """Prevents: milliseconds that are copied into a manifest that says microseconds."""
    case = GOOD[name]
    spec, schema = tables(case)
    encoded = foreign(case, stored_bytes(case.stored))
    type_ = partition_type(spec, schema)
    pieces = read_pieces(encoded.data, committed(encoded), Layout(type_, 2))
    own = json.loads(manifest_schema(type_, 2))["fields"][-1]["type"]["fields"]
    own = next(f["type"]["fields"] for f in own if f["field-id"] == 102)[0]["type"][1]
    assert (pieces is not None) is (unnamed(own) == unnamed(case.written))


def unnamed(written):
    """The type without what does not change what its bytes mean."""
    if isinstance(written, str):
        return written
    return {key: value for key, value in written.items() if key not in {"name", "adjust-to-utc"}}


def merge(case, *manifests):
    """The manifest that others are merged into, and what is read of it."""
    spec, schema = tables(case)
    metadata = TableMetadata(
        format_version=2, table_uuid="u", location="file:///t", last_updated_ms=0, last_column_id=2,
        schemas=(schema,), current_schema_id=0, partition_specs=(spec,), default_spec_id=7,
        last_partition_id=1000, sort_orders=(),
    )  # fmt: skip
    stored = {f"file:///t/m{n}.avro": one for n, one in enumerate(manifests)}
    rows = [committed(one, path) for path, one in stored.items()]
    source = Source(
        packed=lambda _: None,
        read=lambda row: stored[row.manifest_path].data,
        entries=lambda _, row: decode(stored[row.manifest_path], row, spec=spec, schema=schema),
    )
    merged = merged_manifest(rows, metadata, source, location="file:///t/merged.avro")
    row = replace(merged.row, sequence_number=COMMIT + 1, added_snapshot_id=9)
    return values_of(decode_manifest(merged.data, manifest=row, specs={7: spec}, schemas=[schema]))


@pytest.mark.parametrize("name", CASES)
def test_manifests_of_one_writer_are_merged_with_their_values(name):
    case = CASES[name]
    one = foreign(case, stored_bytes(case.stored))
    assert merge(case, one, one, one) == [case.value] * 3


@pytest.mark.parametrize("name", BAD)
def test_a_manifest_with_a_bad_value_is_merged_with_it_or_named_as_the_one_to_leave(name):
    case = BAD[name]
    spec, schema = tables(case)
    declared = partition_type(spec, schema)
    good = encode([added("s3://b/t/z", spec_id=7, partition=(None,))], spec=spec, schema=schema)
    parts = (good, foreign(case, stored_bytes(case.stored)), good)
    if stored_type(declared, [(case.value,)]) == declared:
        assert merge(case, *parts) == [None, case.value, None]
    else:
        with pytest.raises(CorruptFile, match=r"m1\.avro.*partition values of another type"):
            merge(case, *parts)


@pytest.mark.parametrize(("one", "other"), [("string", "int"), ("bytes", "double"), (long("timestamp-micros"), "int")])
def test_values_of_types_that_do_not_go_together_are_refused(one, other):
    case = Case(LONG, one, None, None, transform="zorder[4]")
    spec, schema = tables(case)
    stored = [{"string": b"x", "bytes": b"x"}.get(kind if isinstance(kind, str) else "", 1) for kind in (one, other)]
    (first,) = decode(foreign(case, stored[0]), spec=spec, schema=schema)
    (second,) = decode(foreign(case._replace(written=other), stored[1]), spec=spec, schema=schema)
    if one == "string":  # the type that such a field is taken for
        assert first.data_file.partition == ("x",)
    kept = [replace(entry, status=Status.EXISTING) for entry in (first, second)]
    with pytest.raises(InvalidInput, match=r"partition\.p"):
        encode_manifest(kept, schema=schema, spec=spec, content="data", format_version=2, snapshot_id=6)


def test_an_added_file_may_not_have_a_value_of_another_type():
    spec, schema = tables(BAD["uuid of three bytes"])
    with pytest.raises(InvalidInput, match=r"partition\.p"):
        encode([added(spec_id=7, partition=(ForeignValue(BINARY, b"abc"),))], spec=spec, schema=schema)


def test_a_location_that_is_no_utf8_is_damage():
    spec, schema = tables(GOOD["int as long"])
    encoded = foreign(GOOD["int as long"], 5)
    broken = replace(encoded, data=_uncompressed(encoded.data).replace(b"s3://b/t/a", b"s3://b/t/\xff"))
    with pytest.raises(CorruptFile, match="UTF-8"):
        decode(broken, spec=spec, schema=schema)


def _uncompressed(data):
    file = open_avro(data, location="m")
    header = {k: v.decode() for k, v in file.metadata.items() if not k.startswith(("avro.", "firn.seal"))}
    return write_unsealed(file.metadata["avro.schema"], list(file.read_contents()), header)


def write_unsealed(schema, blocks, header):
    return unsealed(write_avro(schema, blocks, metadata=header, codec="null"))


@pytest.mark.parametrize(
    ("type", "value", "sure"),
    [
        (UUID, ForeignValue(BINARY, b"abc"), False),
        (STRING, ForeignValue(STRING, b"\xff"), False),
        (INT, 2**40, True),
        (DEC, Decimal("-10000.000"), True),
    ],
)
def test_a_filter_knows_of_a_bad_value_what_can_be_known(type, value, sure):
    """Numbers compare whatever their range; of the rest only that it is not null."""
    spec, schema = tables(Case(type, None, None, None))
    other = {UUID: str(ID), STRING: "x", INT: 3, DEC: "3.000"}[type]

    def residual(op, *operands):
        term = {"type": op, "term": "c"} | ({"value": operands[0]} if operands else {})
        return Residuals(bind(expression_from_json(term), schema), spec).of((value,))

    assert residual("is-null") == FALSE
    assert residual("not-null") == TRUE
    assert (residual("eq", other) == FALSE) is sure
    assert (residual("not-eq", other) == TRUE) is sure


PEER_READS = {
    "timestamp in milliseconds": MILLIS * 1000,
    "time in milliseconds": 86_399_999_000,
    "date as a plain int": 19_000,
    "int as long": -5,
    "decimal of another scale": Decimal("1.500"),
    "uuid as text": ID,
    "text as bytes": "ä",
    "decimal of more digits": Decimal("-10000.000"),
    "time at midnight": 86_400_000_000,
    "int past its width": 2**40,
    "column that is gone: text": "x",
    "unknown transform: int": 7,
}


@pytest.mark.parametrize("name", PEER_READS)
def test_pyiceberg_reads_the_values_of_a_manifest_that_was_written_anew(name, tmp_path):
    case = CASES[name]
    spec, schema = tables(case)
    after, _ = without(decode(foreign(case, stored_bytes(case.stored), None), spec=spec, schema=schema), case, "b")
    path = tmp_path / "m.avro"
    path.write_bytes(after.data)
    row = peer.ManifestFile.from_args(
        manifest_path=str(path), manifest_length=len(after.data), partition_spec_id=7,
        content=peer.ManifestContent.DATA, sequence_number=COMMIT, min_sequence_number=0, added_snapshot_id=6,
    )  # fmt: skip
    read = row.fetch_manifest_entry(PyArrowFileIO(), discard_deleted=False)
    assert [entry.data_file.partition[0] for entry in read] == [PEER_READS[name], None]

"""Entries cut out of a stored manifest are those that were stored; what cannot be cut is said so."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.model.errors import CorruptFile
from firn.model.partitioning import partition_type
from firn.storage.avro import open_avro, write_avro
from firn.storage.manifest_paths import live_paths
from firn.storage.manifest_pieces import Layout, read_pieces
from firn.storage.manifest_rows import RowDecoder
from firn.storage.manifests import encode_manifest, manifest_file
from firn.storage.packed_entries import unpack
from tests.strategies.avro_records import spelt_anew
from tests.strategies.manifests import SCHEMA, SPEC, entries

TYPE = partition_type(SPEC, SCHEMA)


def encoded(listed, *, version, content="data"):
    return encode_manifest(
        listed, schema=SCHEMA, spec=SPEC, content=content, format_version=version, snapshot_id=5, codec="null"
    )


def read_packed(data, row, *, partition_type, format_version):
    """The one piece of a manifest of which no block can stay as it is."""
    pieces = read_pieces(data, row, Layout(partition_type, format_version))
    return None if pieces is None else one_of(pieces)


def one_of(pieces):
    (piece,) = pieces
    return piece


def some(version, kind="data"):
    return st.lists(entries(content=kind, format_version=version), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("version", "kind"),
    [(1, "data"), (2, "data"), (3, "data"), (2, "equality-deletes"), (2, "position-deletes"), (3, "position-deletes")],
)
@given(data=st.data())
def test_what_was_packed_is_read_packed(version, kind, data):
    one = encoded(data.draw(some(version, kind)), version=version, content="data" if kind == "data" else "deletes")
    row = manifest_file(one, "m.avro")
    packed = read_packed(one.data, row, partition_type=TYPE, format_version=version)
    assert packed is not None
    assert packed.files == one.packed.files
    assert packed.marks == one.packed.marks


@pytest.mark.parametrize(
    ("version", "kind"), [(1, "data"), (2, "data"), (3, "data"), (2, "equality-deletes"), (3, "position-deletes")]
)
@settings(max_examples=30)
@given(data=st.data())
def test_numbers_and_arrays_that_others_put_in_more_bytes_are_the_same(version, kind, data):
    one = encoded(data.draw(some(version, kind)), version=version, content="data" if kind == "data" else "deletes")
    file = open_avro(one.data, location="m")
    anew = [
        (count, data.draw(spelt_anew(file.schema.layout, content, count))) for count, content in file.read_contents()
    ]
    header = {k: v.decode() for k, v in file.metadata.items() if not k.startswith("avro.")}
    stored = write_avro(file.metadata["avro.schema"], anew, metadata=header, codec="null")
    row = resized(manifest_file(one, "m.avro"), stored)
    assert decoded(stored) == decoded(one.data)
    if kind == "data":
        assert live_paths(stored, manifest=row) == live_paths(one.data, manifest=manifest_file(one, "m.avro"))
    packed = read_packed(stored, row, partition_type=TYPE, format_version=version)
    if packed is not None:  # else whoever wants it decodes it
        assert packed.marks == one.packed.marks
        assert unpack(packed, spec_id=SPEC.spec_id) == unpack(one.packed, spec_id=SPEC.spec_id)


def decoded(data):
    """The entries of a manifest as they are stored."""
    file = open_avro(data, location="m")
    rows = RowDecoder(file.schema.root, partition_type=TYPE, spec_id=SPEC.spec_id)
    return [rows.decode(record) for block in file.read_blocks() for record in block]


@given(some(2))
def test_other_names_do_not_matter_another_layout_does(listed):
    one = encoded(listed, version=2)
    row = manifest_file(one, "m.avro")
    renamed = with_schema(one.data, lambda fields: fields[0].update(name="stat"))
    packed = read_packed(renamed, resized(row, renamed), partition_type=TYPE, format_version=2)
    assert packed is not None
    assert packed.files == one.packed.files
    assert read_packed(one.data, row, partition_type=TYPE, format_version=3) is None
    assert read_packed(one.data, row, partition_type=partition_type(SPEC_LESS, SCHEMA), format_version=2) is None


@given(some(2), st.data())
def test_a_changed_bit_is_noticed_or_leaves_every_count_as_listed(listed, data):
    one = encoded(listed, version=2)
    (block,) = open_avro(one.data, location="m").blocks
    broken = bytearray(one.data)
    broken[data.draw(st.integers(block.start, block.end - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        packed = read_packed(bytes(broken), manifest_file(one, "m"), partition_type=TYPE, format_version=2)
    except CorruptFile:
        return
    assert packed is not None
    assert [mark[0] for mark in packed.marks] == [mark[0] for mark in one.packed.marks] or len(packed.files) > 1
    assert sum(mark[5] for mark in packed.marks) == sum(mark[5] for mark in one.packed.marks)


SPEC_LESS = type(SPEC)(spec_id=SPEC.spec_id, fields=SPEC.fields[:-1])


def with_schema(data, change):
    file = open_avro(data, location="m")
    root = json.loads(file.metadata["avro.schema"])
    change(root["fields"])
    header = {k: v.decode() for k, v in file.metadata.items() if not k.startswith("avro.")}
    blocks = [(block.count, data[block.start : block.end]) for block in file.blocks]
    return write_avro(json.dumps(root).encode(), blocks, metadata=header, codec=file.codec)


def resized(row, data):
    members = {name: getattr(row, name) for name in row.__struct_fields__}
    return type(row)(**{**members, "manifest_length": len(data)})

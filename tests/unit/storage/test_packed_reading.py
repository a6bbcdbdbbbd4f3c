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
from firn.storage.spliced_entries import named_entries
from tests.strategies.avro_records import spelt_anew
from tests.strategies.manifests import EXAMPLE_PARTITION, SCHEMA, SPEC, added, entries
from tests.unit.storage.manifest_writing import committed

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
    stored = spelt_otherwise(one.data, data.draw)
    row = resized(manifest_file(one, "m.avro"), stored)
    assert decoded(stored) == decoded(one.data)
    if kind == "data":
        assert live_paths(stored, manifest=row) == live_paths(one.data, manifest=manifest_file(one, "m.avro"))
    packed = read_packed(stored, row, partition_type=TYPE, format_version=version)
    if packed is not None:  # else whoever wants it decodes it
        assert packed.marks == one.packed.marks
        assert unpack(packed, spec_id=SPEC.spec_id) == unpack(one.packed, spec_id=SPEC.spec_id)


@pytest.mark.parametrize("version", [1, 2, 3])
@given(data=st.data())
def test_files_are_found_by_name_however_others_put_numbers(version, data):
    one = encoded([added(name, spec_id=7, partition=EXAMPLE_PARTITION) for name in "abc"], version=version)
    stored = spelt_otherwise(one.data, data.draw)
    row = committed(one, "m.avro", sequence_number=0 if version == 1 else 9)
    as_it_was = Layout(TYPE, version)
    pieces = read_pieces(stored, resized(row, stored), as_it_was)
    if pieces is not None:  # else whoever wants it decodes it
        expected = named_entries([one.packed], row, ["b"], layout=as_it_was)
        assert expected is not None
        assert named_entries(pieces, row, ["b"], layout=as_it_was) == expected


@pytest.mark.parametrize(
    ("content", "size", "is_cut"),
    [
        (b"\0", b"\x82\x80\x80\x80\x80\x80\x80\x80\x80\x7e", True),
        (b"\x80\0", b"\2", False),  # where a file's record begins is known by its one byte
    ],
)
def test_a_file_is_found_behind_numbers_that_are_longer(content, size, is_cut):
    one = encoded([added("a", spec_id=7, partition=EXAMPLE_PARTITION)], version=2)
    ((count, block),) = open_avro(one.data, location="m").read_contents()
    before, path, rest = block.partition(b"\2a\x0ePARQUET")
    stored = with_blocks(one.data, [(count, before[:-1] + content + size + path[1:] + rest)])
    row = resized(committed(one, "m.avro"), stored)
    assert decoded(stored) == decoded(one.data)
    pieces = read_pieces(stored, row, Layout(TYPE, 2))
    assert (pieces is not None) is is_cut
    assert pieces is None or named_entries(pieces, row, ["a"], layout=Layout(TYPE, 2)) is not None


def spelt_otherwise(data, draw):
    """The same manifest as others may write its numbers and arrays."""
    file = open_avro(data, location="m")
    contents = file.read_contents()
    return with_blocks(
        data, [(count, draw(spelt_anew(file.schema.layout, content, count))) for count, content in contents]
    )


def with_blocks(data, blocks):
    file = open_avro(data, location="m")
    header = {k: v.decode() for k, v in file.metadata.items() if not k.startswith("avro.")}
    return write_avro(file.metadata["avro.schema"], blocks, metadata=header, codec="null")


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

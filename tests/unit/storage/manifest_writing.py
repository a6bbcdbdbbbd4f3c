"""Manifests to look at: written as commits write them, decoded and walked, and changed as others would write them."""

import json

import msgspec
import pytest

from firn.model.errors import CorruptFile
from firn.model.manifest import UNASSIGNED_SEQUENCE_NUMBER
from firn.storage.avro import open_avro, write_avro
from firn.storage.manifest_paths import live_paths
from firn.storage.manifests import (
    decode_manifest,
    encode_manifest,
    manifest_file,
)
from tests.strategies.manifests import (
    DAY_SCHEMA,
    DAY_SPEC,
)

replace = msgspec.structs.replace
COMMIT = 9


def encode(rows, *, version=2, content="data", spec=DAY_SPEC, schema=DAY_SCHEMA, snapshot_id=5, **options):
    return encode_manifest(
        rows,
        schema=schema,
        spec=spec,
        content=content,
        format_version=version,
        snapshot_id=snapshot_id,
        **options,
    )


def committed(encoded, path="file:///t/m.avro", *, sequence_number=COMMIT, first_row_id=None):
    """The manifest's row once its snapshot has numbers."""
    row = manifest_file(encoded, path)
    least = row.min_sequence_number
    return replace(
        row,
        sequence_number=sequence_number,
        min_sequence_number=sequence_number if least == UNASSIGNED_SEQUENCE_NUMBER else least,
        first_row_id=first_row_id,
    )


def decode(encoded, row=None, *, spec=DAY_SPEC, schema=DAY_SCHEMA, **options):
    row = committed(encoded) if row is None else row
    return decoded_and_walked(encoded.data, manifest=row, specs={spec.spec_id: spec}, schemas=[schema], **options)


def decoded_and_walked(data, *, manifest, **options):
    """The entries; of a data manifest their live locations must be found without decoding, too."""
    entries = decode_manifest(data, manifest=manifest, **options)
    if manifest.content == "data":
        assert live_paths(data, manifest=manifest) == [e.data_file.file_path for e in entries if e.is_live]
    return entries


def refused_by_both(data, why, *, manifest, **options):
    """Neither decoding nor walking takes the bytes; what decoding says of them."""
    with pytest.raises(CorruptFile):
        live_paths(data, manifest=manifest)
    with pytest.raises(CorruptFile, match=why) as caught:
        decode_manifest(data, manifest=manifest, **options)
    return caught.value


def rewritten(encoded, change_schema, *, metadata=None):
    """The manifest under another schema text of the same layout."""
    file = open_avro(encoded.data, location="m")
    root = json.loads(file.metadata["avro.schema"])
    change_schema(root)
    header = {k: v.decode() for k, v in file.metadata.items() if not k.startswith("avro.")}
    header = {**header, **(metadata or {})}
    blocks = [(block.count, encoded.data[block.start : block.end]) for block in file.blocks]
    data = write_avro(json.dumps(root).encode(), blocks, metadata=header, codec=file.codec)
    return replace(encoded, data=data)

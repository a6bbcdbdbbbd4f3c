"""View metadata files as bytes: named, compressed and limited as tables' are (view specification, "Overview")."""

from __future__ import annotations

import msgspec

from firn.model.strict_json import JSON_VALUES_MAX
from firn.model.view import ViewMetadata
from firn.model.view_json import VIEW_METADATA_BYTES_MAX, view_metadata_from_json, view_metadata_to_json
from firn.model.view_properties import VIEW_METADATA_COMPRESSION
from firn.storage.metadata_files import Codec, compressed, decoded_json, metastore_name


def view_codec_for(metadata: ViewMetadata) -> Codec:
    """The codec that the view asks for with ``write.metadata.compression-codec``; gzip by default, as in Java."""
    return "gzip" if VIEW_METADATA_COMPRESSION.sane(metadata.properties) == "gzip" else "none"


def view_metadata_name(metadata: ViewMetadata, *, version: int, unique: str) -> str:
    """Name of the view's metadata file: ``00042-<unique>.gz.metadata.json``.

    `version` counts the metadata files (`firn.storage.metadata_files.version_of` the last one, and one more); it is not
    the id of a version of the view.
    """
    return metastore_name(version=version, unique=unique, codec=view_codec_for(metadata))


def decode_view(
    data: bytes, *, location: str, bytes_max: int = VIEW_METADATA_BYTES_MAX, values_max: int = JSON_VALUES_MAX
) -> ViewMetadata:
    """View metadata from a file's bytes, decompressed when they are gzip.

    Raises as `firn.storage.metadata_files.decode_metadata`.
    """
    with decoded_json(data, location=location, bytes_max=bytes_max, values_max=values_max) as obj:
        return view_metadata_from_json(obj, where=location)


def encode_view(metadata: ViewMetadata, *, codec: Codec = "none") -> bytes:
    """The bytes of a view metadata file. The codec must be the one that the file's name says."""
    return compressed(msgspec.json.encode(view_metadata_to_json(metadata)), codec=codec)

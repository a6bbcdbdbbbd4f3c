"""What merged manifests are made of (`firn.storage.merged_manifests`), as bytes for a process that lays them out.

The process gets no table's metadata, reads no store and writes none: entries and files of manifests go there, and the
bytes of a manifest come back. Of a manifest's row nothing goes that these do not depend on, so no keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from firn.model.errors import InvalidInput
from firn.model.manifest import ManifestContent, ManifestFile
from firn.model.type_json import type_from_json, type_to_json
from firn.model.types import StructType
from firn.storage.manifest_bytes import FileBytes
from firn.storage.manifest_pieces import Layout
from firn.storage.merged_manifests import Ingredients
from firn.storage.packed_entries import Mark, PackedEntries

SPARE_BYTES: Final = 64 * 1024
"""Room for a merged manifest beyond the size of what it is made of and an eighth: few entries may make more bytes, with
their header."""


class MergeAsked(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A manifest is to be laid out; what it is made of begins at `start` of the shared memory with its description.

    Behind that, in order, are the parts' bytes. The manifest is put in the place of all, and may take `room` bytes.
    """

    number: int
    start: int
    description: int
    room: int


class _Part(msgspec.Struct, frozen=True, array_like=True):
    row: ManifestFile
    packed: bool
    size: int


class _Description(msgspec.Struct, frozen=True, array_like=True):
    partition_type: Any
    format_version: int
    content: ManifestContent
    header: dict[str, str]
    parts: tuple[_Part, ...]


class _Entries(msgspec.Struct, frozen=True, array_like=True):
    files: tuple[FileBytes, ...]
    marks: tuple[Mark, ...]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DESCRIPTIONS: Final = msgspec.msgpack.Decoder(_Description)
_ENTRIES: Final = msgspec.msgpack.Decoder(_Entries)


def spelled(made_of: Ingredients) -> list[bytes]:
    """What `ingredients` reads: the description, then each part's bytes."""
    stored = [
        _ENCODER.encode(_Entries(one.files, one.marks)) if isinstance(one, PackedEntries) else one
        for _, one in made_of.parts
    ]
    parts = tuple(
        _Part(_known(row), isinstance(one, PackedEntries), len(data))
        for (row, one), data in zip(made_of.parts, stored, strict=True)
    )
    type_, version, header = (
        type_to_json(made_of.layout.partition_type),
        made_of.layout.format_version,
        dict(made_of.header),
    )
    return [_ENCODER.encode(_Description(type_, version, made_of.content, header, parts)), *stored]


def room_for(parts: Sequence[bytes]) -> int:
    """Bytes that a manifest made of `spelled` parts may take."""
    size = sum(map(len, parts))
    return size + size // 8 + SPARE_BYTES


def ingredients(memory: memoryview, description: int) -> Ingredients:
    """What was spelled, with a description of so many bytes. Raises msgspec.MsgspecError and InvalidInput."""
    read = _DESCRIPTIONS.decode(memory[:description])
    type_ = type_from_json(read.partition_type, where="partition type")
    if not isinstance(type_, StructType):
        raise InvalidInput(f"must be a struct, not {type_}", where="partition type")
    parts: list[tuple[ManifestFile, PackedEntries | bytes]] = []
    at = description
    for part in read.parts:
        stored = memory[at : at + part.size]
        parts.append((part.row, _packed(stored, type_, read.format_version) if part.packed else bytes(stored)))
        at += part.size
    return Ingredients(
        layout=Layout(type_, read.format_version), content=read.content, header=read.header, parts=tuple(parts)
    )


def _packed(stored: memoryview, type_: StructType, format_version: int) -> PackedEntries:
    entries = _ENTRIES.decode(stored)
    return PackedEntries(
        format_version=format_version, partition_type=type_, files=entries.files, marks=entries.marks
    )  # fmt: skip


def _known(row: ManifestFile) -> ManifestFile:
    """A row with what its entries inherit and are checked against."""
    return msgspec.structs.replace(row, partitions=None, key_metadata=None, extra={})

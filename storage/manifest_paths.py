"""The live data files of a manifest by location, without decoding anything else of them.

This is what opening a large table costs, so that entries are walked over (`firn.storage.avro_walk`) and not made. What
the manifest list says is checked all the same: length, files and rows by status.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from firn.model.amounts import plural
from firn.model.datafile import CONTENT_CODES
from firn.model.errors import CorruptFile, InvalidInput
from firn.model.manifest import ManifestFile, Status
from firn.model.manifest_summary import ManifestCounts, count_mismatches
from firn.storage.avro import DEFAULT_LIMITS, AvroLimits
from firn.storage.avro_numbers import encode_long
from firn.storage.avro_schema import AvroSchema
from firn.storage.avro_shapes import ShapedWalk
from firn.storage.avro_steps import content_of, long_of
from firn.storage.avro_walk import Walk
from firn.storage.manifest_container import open_manifest
from firn.storage.manifest_rows import FILE_FORMATS, check_entry_schema

_STATUS: Final = (0,)
_CONTENT: Final = (2, 134)
_PATH: Final = (2, 100)
_FORMAT: Final = (2, 101)
_ROWS: Final = (2, 103)
_SIZE: Final = (2, 104)

_TABLE_SCHEMA: Final = "schema"
"""What a manifest's header calls it."""

_STATUSES: Final = {encode_long(status): int(status) for status in Status}
_DATA: Final = (None, encode_long(CONTENT_CODES["data"]))
"""How a file says that it is a data file; in v1 none does."""


def live_paths(data: bytes, *, manifest: ManifestFile, limits: AvroLimits = DEFAULT_LIMITS) -> list[str]:
    """Locations of the live files of a data manifest, in its order.

    Raises CorruptFile naming the check that failed, Unsupported for a format version that firn does not know.
    """
    file = open_manifest(data, manifest=manifest, limits=limits)
    paths: list[str] = []
    files, rows, deleted = [0, 0, 0], [0, 0, 0], int(Status.DELETED)
    try:
        walk = _shaped(file.schema, file.metadata.get(_TABLE_SCHEMA, b""))
        for count, content in file.read_contents():
            for _, (stored_status, kind, stored_path, file_format, stored_rows, size) in walk.records(content, count):
                status = _STATUSES.get(stored_status or b"")
                path, row_count = checked_file(stored_path, file_format, stored_rows, size)
                if status is None or kind not in _DATA:
                    status = _status_of_data(stored_status, kind, path)
                files[status] += 1
                rows[status] += row_count
                if status != deleted:
                    paths.append(path)
    except (InvalidInput, ValueError, IndexError) as error:
        raise CorruptFile(file.location, str(error)) from None
    counts = ManifestCounts(
        added_files=files[Status.ADDED],
        existing_files=files[Status.EXISTING],
        deleted_files=files[Status.DELETED],
        added_rows=rows[Status.ADDED],
        existing_rows=rows[Status.EXISTING],
        deleted_rows=rows[Status.DELETED],
    )
    mismatches = count_mismatches(manifest, counts)
    if mismatches:
        raise CorruptFile(file.location, "; ".join(mismatches))
    return paths


def _status_of_data(status: bytes | None, content: bytes | None, path: str) -> int:
    """The status of an entry of which not all is as firn stores it: numbers may take more bytes than they need.

    Raises InvalidInput for what no entry of a data file has.
    """
    number, code = None if status is None else long_of(status), 0 if content is None else long_of(content)
    if number is None or number not in _STATUSES.values() or code != CONTENT_CODES["data"]:
        raise InvalidInput(f"status {number}, content {code}", where=f"{path!r:.200}")
    return number


def checked_file(
    stored_path: bytes | None, file_format: bytes | None, stored_rows: bytes | None, size: bytes | None
) -> tuple[str, int]:
    """Location and rows of a file of which these are stored. Raises InvalidInput or ValueError for what none has."""
    if not stored_path or not file_format or not stored_rows or not size:
        raise InvalidInput("a file without location, format, rows or size")
    path, row_count = content_of(stored_path).decode(), long_of(stored_rows)
    # An odd first byte is a negative number's.
    if not path or row_count < 0 or size[0] & 1 or not _is_format(file_format):
        raise InvalidInput(f"{plural(row_count, 'row')}, {long_of(size)} bytes", where=f"{path!r:.200}")
    return path, row_count


@lru_cache(maxsize=64)
def _shaped(schema: AvroSchema, table_schema: bytes) -> ShapedWalk:  # noqa: ARG001 - entries of a table look alike
    return ShapedWalk(_walk(schema))


@lru_cache(maxsize=64)
def _walk(schema: AvroSchema) -> Walk:
    check_entry_schema(schema.root)
    return Walk(schema, (_STATUS, _CONTENT, _PATH, _FORMAT, _ROWS, _SIZE), long=(_PATH,))


@lru_cache(maxsize=64)
def _is_format(stored: bytes) -> bool:
    return content_of(stored).decode(errors="replace").lower() in FILE_FORMATS

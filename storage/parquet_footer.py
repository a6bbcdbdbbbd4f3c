"""What a Parquet footer says of its row groups and column chunks, checked (parquet-format, ``parquet.thrift``)."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from struct import Struct
from typing import Any, BinaryIO, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from firn.model.amounts import plural
from firn.model.errors import CorruptFile, InvalidInput, Unsupported
from firn.storage.parquet_columns import PARQUET_ERRORS
from firn.storage.thrift import read_struct

ROW_GROUPS_MAX: Final = 100_000
"""Most row groups of one file."""

_PHYSICAL: Final = (
    "BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY",
)  # fmt: skip
_PLAIN: Final[Mapping[str, Struct]] = {
    "BOOLEAN": Struct("<?"),
    "INT32": Struct("<i"),
    "INT64": Struct("<q"),
    "FLOAT": Struct("<f"),
    "DOUBLE": Struct("<d"),
}
_TAIL_BYTES: Final = 8
_ENCRYPTION_ALGORITHM: Final = 8


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """The bounding box of a geometry column's values; z and m are None when no value has them."""

    x: tuple[float, float]
    y: tuple[float, float]
    z: tuple[float, float] | None = None
    m: tuple[float, float] | None = None


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """One column in one row group.

    `values` counts nulls too, `size` is bytes as stored, `start` the first byte. `low` and `high` are physical values
    that no value is below or above; None where the writer does not say, as `nulls` and `box` are. `as_signed` says that
    an old writer found them by the order of signed numbers.
    """

    physical: str
    values: int
    size: int
    start: int
    nulls: int | None = None
    low: Any = None
    high: Any = None
    as_signed: bool = False
    box: Box | None = None


class Footer(msgspec.Struct, frozen=True):
    """The row groups of a file, each with a chunk for every column, in the order of the file."""

    rows: int
    row_groups: tuple[tuple[Chunk, ...], ...]

    def chunks(self, column: int) -> list[Chunk]:
        """The chunks of the column with this index."""
        return [group[column] for group in self.row_groups]


def read_footer(metadata: pq.FileMetaData, *, location: str) -> Footer:
    """The checked content of a footer; CorruptFile, naming the check, for what cannot be."""
    sink = io.BytesIO()
    try:
        metadata.write_metadata_file(sink)
        fields = read_struct(sink.getvalue()[4:-_TAIL_BYTES])
        return _footer(fields, columns=metadata.num_columns)
    except InvalidInput as refusal:
        raise CorruptFile(location, f"Parquet footer: {refusal}") from None
    except PARQUET_ERRORS as refusal:
        raise CorruptFile(location, f"its footer cannot be read: {refusal}") from None


def check_not_encrypted(source: BinaryIO | pa.NativeFile, *, location: str) -> None:
    """Raise Unsupported for a file with encrypted columns, CorruptFile for one without a readable footer.

    The position of `source` is its start afterwards.
    """
    size = source.seek(0, io.SEEK_END)
    tail = _at_end(source, size, _TAIL_BYTES)
    if tail[4:] != b"PAR1":
        if tail[4:] == b"PARE":
            raise Unsupported("its footer is encrypted", where=location)
        raise CorruptFile(location, f"not a Parquet file: it ends in {tail[4:]!r}")
    length = int.from_bytes(tail[:4], "little")
    if length + _TAIL_BYTES > size:
        raise CorruptFile(location, f"not a Parquet file: a footer of {length} bytes in a file of {size}")
    try:
        fields = read_struct(_at_end(source, size, length + _TAIL_BYTES)[:-_TAIL_BYTES])
    except InvalidInput as refusal:
        raise CorruptFile(location, f"not a Parquet file: its footer {refusal}") from None
    if _ENCRYPTION_ALGORITHM in fields:
        raise Unsupported("its columns are encrypted", where=location)
    source.seek(0)


def _at_end(source: BinaryIO | pa.NativeFile, size: int, length: int) -> bytes:
    source.seek(max(size - length, 0))
    return bytes(source.read(length)).rjust(_TAIL_BYTES, b"\0")


def _footer(fields: Mapping[int, Any], *, columns: int) -> Footer:
    groups = _list(fields, 4, "row groups")
    if len(groups) > ROW_GROUPS_MAX:
        raise InvalidInput(f"{len(groups)} row groups are more than {ROW_GROUPS_MAX}")
    rows = _count(fields, 3, "rows")
    row_groups = []
    for index, group in enumerate(groups):
        where = f"row group {index}"
        chunks = _list(group, 1, f"columns of {where}")
        if len(chunks) != columns:
            raise InvalidInput(f"{where} has {plural(len(chunks), 'column')}, the schema {columns}")
        row_groups.append(tuple(_chunk(chunk, f"{where}, column {at}") for at, chunk in enumerate(chunks)))
    counted = sum(_count(group, 3, f"rows of row group {index}") for index, group in enumerate(groups))
    if counted != rows:
        raise InvalidInput(f"the row groups have {plural(counted, 'row')}, the file {rows}")
    return Footer(rows, tuple(row_groups))


def _chunk(chunk: Any, where: str) -> Chunk:
    members = chunk.get(3) if isinstance(chunk, dict) else None
    if not isinstance(members, dict):
        raise InvalidInput(f"{where} has no metadata")
    code = members.get(1)
    if not isinstance(code, int) or not 0 <= code < len(_PHYSICAL):
        raise InvalidInput(f"{where} has no physical type")
    physical = _PHYSICAL[code]
    start = _count(members, 9, f"data page offset of {where}")
    dictionary = members.get(11)
    if isinstance(dictionary, int) and 0 < dictionary < start:
        start = dictionary
    statistics = members.get(12)
    statistics = statistics if isinstance(statistics, dict) else {}
    values = _count(members, 5, f"values of {where}")
    nulls = statistics.get(3, _nulls_by_levels(members.get(16), values))
    if nulls is not None and not (isinstance(nulls, int) and 0 <= nulls <= values):
        raise InvalidInput(f"{where} has a null count of {nulls} for {plural(values, 'value')}")
    return Chunk(
        physical=physical,
        values=values,
        size=_count(members, 7, f"size of {where}"),
        start=start,
        nulls=nulls,
        low=_plain(statistics, physical, new=6, old=2),
        high=_plain(statistics, physical, new=5, old=1),
        as_signed=6 not in statistics and 5 not in statistics,
        box=_box(members.get(17)),
    )


def _nulls_by_levels(sizes: Any, values: int) -> int | None:
    """Nulls by the histogram of definition levels, of which the last is that of values that are there.

    Columns without an order of their own, such as geometries, have no other statistics.
    """
    levels = sizes.get(3) if isinstance(sizes, dict) else None
    if not isinstance(levels, list) or not levels or not all(isinstance(one, int) and one >= 0 for one in levels):
        return None
    return values - levels[-1] if sum(levels) == values else None


def _plain(statistics: Mapping[int, Any], physical: str, *, new: int, old: int) -> Any:
    """A minimum or maximum. The `old` field was ordered as if signed, which holds for numbers only."""
    raw = statistics.get(new)
    layout = _PLAIN.get(physical)
    if raw is None and layout is not None:
        raw = statistics.get(old)
    if not isinstance(raw, bytes) or physical == "INT96":
        return None
    if layout is None:
        return raw
    return layout.unpack(raw)[0] if len(raw) == layout.size else None


def _box(statistics: Any) -> Box | None:
    corners = statistics.get(1) if isinstance(statistics, dict) else None
    if not isinstance(corners, dict):
        return None
    x, y, z, m = (_range(corners, at) for at in (1, 3, 5, 7))
    return None if x is None or y is None else Box(x=x, y=y, z=z, m=m)


def _range(corners: Mapping[int, Any], at: int) -> tuple[float, float] | None:
    low, high = corners.get(at), corners.get(at + 1)
    if not isinstance(low, float) or not isinstance(high, float) or math.isnan(low) or math.isnan(high):
        return None
    return low, high


def _count(fields: Any, field_id: int, what: str) -> int:
    value = fields.get(field_id) if isinstance(fields, dict) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidInput(f"{what}: {value!r} is not a count")
    return value


def _list(fields: Any, field_id: int, what: str) -> list[Any]:
    value = fields.get(field_id) if isinstance(fields, dict) else None
    if not isinstance(value, list):
        raise InvalidInput(f"there is no list of {what}")
    return value

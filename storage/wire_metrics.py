"""The metrics of a data file as an intent says them, straight to the bytes that a manifest has of them.

Nothing looks at the metrics of an appended file, so nothing is made of them but these bytes: the lists of the wire
(`firn.model.intent.CountMap`, `ValueMap`) are laid into what a manifest has around them. What does not fit goes the
long way by a `DataFile`, and whatever is wrong with it is said there.
"""

from __future__ import annotations

from binascii import unhexlify
from typing import Final

from firn.model.content_file import unpartitioned, with_bytes
from firn.model.datafile import DataFile
from firn.model.errors import InvalidInput
from firn.model.intent import ContentFile, CountMap, ValueMap
from firn.storage.column_maps import EMPTY, NULL, SOME, Columns, columns_of, encode_int, encode_list
from firn.storage.encoded_metrics import is_plain, with_metrics
from firn.storage.manifest_bytes import encode_metrics


class EncodedFile(ContentFile, frozen=True, kw_only=True, gc=False):
    """A data file with `encoded` metrics that firn has made or checked: nobody need look at them again."""


def encoded_file(file: ContentFile) -> EncodedFile:
    """The same data file with its metrics as bytes, made or checked.

    Raises InvalidIntent or InvalidInput for metrics with which something is wrong; the file as it is says what.
    """
    encoded = encode_wire_metrics(file, where="") if file.encoded is None else in_plain_form(file.encoded)
    return with_bytes(EncodedFile, file, encoded, file.partition)


def in_plain_form(encoded: bytes) -> bytes:
    """The metrics that came as these bytes, laid out as firn lays them out. Raises InvalidInput for what is none.

    They may be in blocks of other sizes, or have numbers in more bytes than their types take: firn reads these, and
    Java's decoder ends with an error.
    """
    return encoded if is_plain(encoded) else encode_metrics(with_metrics(with_bytes(DataFile, _NO_FILE, encoded, ())))


_NO_FILE: Final = ContentFile(file_path="-", file_format="parquet", spec_id=0, record_count=0, file_size_in_bytes=0)
_UNFIT: Final = (ValueError, TypeError, IndexError, InvalidInput)
_EMPTY_HEX: Final = EMPTY.hex()
_NULL_HEX: Final = NULL.hex()


def encode_wire_metrics(file: ContentFile, *, where: str) -> bytes:
    """What `ContentFile.encoded` is of a file that has its metrics in its other members.

    Raises InvalidIntent (``invalid-field``) for bounds that are too long or not hexadecimal, InvalidInput for values
    that their Avro types do not hold.
    """
    if file.key_metadata is None and file.equality_ids is None:
        try:
            return _encoded(file)
        except _UNFIT:
            pass  # what it is about is found below
    return encode_metrics(unpartitioned(file, where=where))


def _encoded(file: ContentFile) -> bytes:
    """The bytes; raises one of `_UNFIT` for a file that is not like most."""
    sizes, order = file.column_sizes, file.sort_order_id
    like = columns_of(sizes.keys) if sizes is not None and sizes.keys else None
    bounds = _hex_bounds(file.lower_bounds, like) + _hex_bounds(file.upper_bounds, like)
    return b"".join((
        _counts(sizes, like),
        _counts(file.value_counts, like),
        _counts(file.null_value_counts, like),
        _counts(file.nan_value_counts, like),
        unhexlify(bounds),  # which takes no white space, as `bytes.fromhex` does
        NULL,
        encode_list(file.split_offsets),
        NULL,
        NULL if order is None else SOME + encode_int(order),
    ))  # fmt: skip


def _counts(counts: CountMap | None, like: Columns | None) -> bytes:
    if counts is None:
        return NULL
    return _columns(counts.keys, like).listed_counts(counts.values) if counts.keys or counts.values else EMPTY


def _hex_bounds(bounds: ValueMap | None, like: Columns | None) -> str:
    if bounds is None:
        return _NULL_HEX
    return _columns(bounds.keys, like).hex_bounds(bounds.values) if bounds.keys or bounds.values else _EMPTY_HEX


def _columns(ids: tuple[int, ...], like: Columns | None) -> Columns:
    """The columns with these ids, which are mostly those of the file's other maps."""
    columns = like if like is not None and like.ids == ids else columns_of(ids)
    if not columns.unique:
        raise ValueError(f"{ids} repeats a column")
    return columns

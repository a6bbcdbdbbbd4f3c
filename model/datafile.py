"""Content files: data files and delete files with their metrics (table specification, "Manifests", data_file).

Values inside (partition tuple, and what bounds decode to) are *internal values*: int for int, long, date (days since
1970-01-01), time (µs) and timestamps (µs or ns since 1970-01-01); float, bool, str; bytes for binary and fixed;
uuid.UUID; decimal.Decimal; None for null. Bounds themselves stay in their binary single-value form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

Content = Literal["data", "position-deletes", "equality-deletes"]
FileFormat = Literal["avro", "orc", "parquet", "puffin"]

CONTENT_CODES: Final[Mapping[Content, int]] = {"data": 0, "position-deletes": 1, "equality-deletes": 2}
CONTENT_NAMES: Final[Mapping[int, Content]] = {code: name for name, code in CONTENT_CODES.items()}


class DataFile(msgspec.Struct, frozen=True, kw_only=True, gc=False):  # nothing in it leads back to it
    """One content file as a manifest describes it. Metric maps are keyed by column field id; None = not known.

    `file_path` is an absolute location, `partition` a tuple in the order of the spec `spec_id`,
    `file_size_in_bytes` and `column_sizes` are bytes, counts are rows or values.
    A deletion vector is ``content="position-deletes"``, ``file_format="puffin"`` with `referenced_data_file`,
    `content_offset` and `content_size_in_bytes` set (v3).

    With `encoded`, the fields from `column_sizes` to `sort_order_id` are None and said by these bytes, which go into a
    manifest as they are: `firn.storage.encoded_metrics.with_metrics` reads them. Only files that are being appended
    have any, and nobody but the encoder of manifests meets them.
    """

    content: Content = "data"
    file_path: str
    file_format: FileFormat
    spec_id: int
    partition: tuple[Any, ...] = ()
    record_count: int
    file_size_in_bytes: int
    column_sizes: dict[int, int] | None = None
    value_counts: dict[int, int] | None = None
    null_value_counts: dict[int, int] | None = None
    nan_value_counts: dict[int, int] | None = None
    lower_bounds: dict[int, bytes] | None = None
    upper_bounds: dict[int, bytes] | None = None
    key_metadata: bytes | None = None
    split_offsets: tuple[int, ...] | None = None
    equality_ids: tuple[int, ...] | None = None
    sort_order_id: int | None = None
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None
    encoded: bytes | None = None

    @property
    def is_deletion_vector(self) -> bool:
        """Whether this is a deletion vector rather than a file of deletes."""
        return self.content == "position-deletes" and self.file_format == "puffin"

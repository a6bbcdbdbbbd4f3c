"""Files whose metrics their writer encodes, so that the daemon need not: it takes the bytes into a manifest."""

from __future__ import annotations

import msgspec

from firn.model.intent import ContentFile
from firn.storage.wire_metrics import encode_wire_metrics


def with_encoded_metrics(file: ContentFile) -> ContentFile:
    """The same data file with its metrics as bytes (`ContentFile.encoded`), which the daemon then need not make.

    An intent that is submitted again must be what it was, so encode its files always or never. Delete files, and those
    that are encoded already, are returned as they are. Raises InvalidInput for metrics that no manifest holds.
    """
    if file.content != "data" or file.encoded is not None:
        return file
    return msgspec.structs.replace(
        file,
        encoded=encode_wire_metrics(file, where=file.file_path),
        column_sizes=None,
        value_counts=None,
        null_value_counts=None,
        nan_value_counts=None,
        lower_bounds=None,
        upper_bounds=None,
        key_metadata=None,
        split_offsets=None,
        equality_ids=None,
        sort_order_id=None,
    )

"""Appends that are read by compiled code, where it takes them, and by Python: what is read, or said, is the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from firn.coordinator.intake.read_appends import Rules, read_intent
from firn.model.errors import InvalidInput, InvalidIntent
from firn.model.identifiers import uuid7
from firn.model.intent import Append, ContentFile, CountMap, ValueMap, encode_intent
from firn.model.intent_codec import DecodedIntent, decode_intent
from firn.model.limits import Limits
from firn.storage.wire_metrics import EncodedFile, encoded_file

RULES: Final = Rules(Limits(), "firn:replies:")
ID: Final = uuid7(now_ms=1_760_000_000_000, entropy=bytes(10))
FILE: Final = ContentFile(
    file_path="/wh/t/a.parquet", file_format="parquet", spec_id=3, partition=(1, "x", None, True, False, -7),
    record_count=3, file_size_in_bytes=2**63 - 1, column_sizes=CountMap((0, 2, 2**31 - 1), (0, 127, 2**63 - 1)),
    value_counts=CountMap((1,), (64,)), null_value_counts=CountMap((1,), (0,)), nan_value_counts=CountMap((1,), (1,)),
    lower_bounds=ValueMap((1, 2), ("00ff", "")), upper_bounds=ValueMap((1,), ("aB" * 255,)), split_offsets=(4, 9),
    sort_order_id=1,
)  # fmt: skip
BARE: Final = ContentFile(file_path="b", file_format="orc", spec_id=0, record_count=0, file_size_in_bytes=0)
APPEND: Final = Append(intent_id=ID, table="db.t", data_files=(FILE,), reply_to="firn:replies:a")


def spelled(*files: ContentFile, **changes: Any) -> bytes:
    """An append of these files."""
    return encode_intent(replace(APPEND, data_files=files, **changes))


def around(files: bytes) -> bytes:
    """An append with this text as its list of files, brackets aside."""
    payload = spelled(BARE)
    return payload[: payload.index(b"[") + 1] + files + payload[payload.rindex(b"]") :]


def by_python(payload: bytes) -> str:
    """What Python reads."""
    return _outcome(partial(decode_intent, limits=Limits()), payload)


def by_both(payload: bytes) -> str:
    """What is read wherever there is compiled code."""
    return _outcome(partial(read_intent, rules=RULES), payload)


def _outcome(read: Callable[[bytes], DecodedIntent], payload: bytes) -> str:
    """What is read, with its metrics as bytes, or what is wrong; as text, in which 1 is neither True nor 1.0."""
    try:
        found = read(payload)
        if isinstance(found.intent, Append):
            files = [file if isinstance(file, EncodedFile) else encoded_file(file) for file in found.intent.data_files]
            found = replace(found, intent=replace(found.intent, data_files=tuple(files)))
    except (InvalidIntent, InvalidInput) as error:
        return str(error)
    return repr(found)

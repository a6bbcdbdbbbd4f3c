"""What compiled code reads is what Python reads, to the byte; whatever else comes, it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from firn.coordinator.client.encoded_files import with_encoded_metrics
from firn.coordinator.intake.read_appends import Rules, read_intent
from firn.model.errors import InvalidInput, InvalidIntent
from firn.model.identifiers import uuid7
from firn.model.intent import Append, ContentFile, CountMap, ValueMap, encode_intent
from firn.model.intent_codec import DecodedIntent, decode_intent
from firn.model.limits import Limits
from firn.storage.wire_files import IS_COMPILED, read_files
from firn.storage.wire_metrics import EncodedFile, encoded_file

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="firn was installed without a C compiler: nothing is compiled")

RULES = Rules(Limits(), "firn:replies:")
ID = uuid7(now_ms=1_760_000_000_000, entropy=bytes(10))
FILE = ContentFile(
    file_path="/wh/t/a.parquet", file_format="parquet", spec_id=3, partition=(1, "x", None, True, False, -7),
    record_count=3, file_size_in_bytes=2**63 - 1, column_sizes=CountMap((0, 2, 2**31 - 1), (0, 127, 2**63 - 1)),
    value_counts=CountMap((1,), (64,)), null_value_counts=CountMap((1,), (0,)), nan_value_counts=CountMap((1,), (1,)),
    lower_bounds=ValueMap((1, 2), ("00ff", "")), upper_bounds=ValueMap((1,), ("aB" * 255,)), split_offsets=(4, 9),
    sort_order_id=1,
)  # fmt: skip
BARE = ContentFile(file_path="b", file_format="orc", spec_id=0, record_count=0, file_size_in_bytes=0)
APPEND = Append(intent_id=ID, table="db.t", data_files=(FILE,), reply_to="firn:replies:a")


def spelled(*files: ContentFile, **changes: Any) -> bytes:
    return encode_intent(replace(APPEND, data_files=files, **changes))


def outcome(read: Callable[[bytes], DecodedIntent], payload: bytes) -> object:
    """What is read, with its metrics as bytes, or what is wrong."""
    try:
        found = read(payload)
        assert isinstance(found.intent, Append)
        files = [file if isinstance(file, EncodedFile) else encoded_file(file) for file in found.intent.data_files]
    except (InvalidIntent, InvalidInput) as error:
        return str(error)
    return replace(found, intent=replace(found.intent, data_files=tuple(files)))


def by_python(payload: bytes) -> object:
    return outcome(partial(decode_intent, limits=Limits()), payload)


def by_both(payload: bytes) -> object:
    """What is read wherever there is compiled code."""
    return outcome(partial(read_intent, rules=RULES), payload)


@pytest.mark.parametrize(
    "files",
    [
        (FILE,),
        (BARE,),
        (with_encoded_metrics(FILE),),
        (FILE, BARE, with_encoded_metrics(replace(FILE, file_path="c"))),
        tuple(replace(BARE, file_path=f"{n}", partition=(n,)) for n in range(300)),
    ],
    ids=["all metrics", "none", "encoded", "several", "many"],
)
def test_files_are_what_python_reads(files: tuple[ContentFile, ...]) -> None:
    payload = spelled(*files)
    read = read_files(payload)
    assert read is not None
    assert read.files == tuple(map(encoded_file, files))
    assert by_both(payload) == by_python(payload)


@pytest.mark.parametrize(
    "changes",
    [
        {"digest": "0" * 32},
        {"summary": {'"data-files":[': "x"}},
        {"writer": '"data-files":[', "branch": "audit", "base_snapshot_id": 3},
        {"priority": "maintenance", "stage": True},
        {"intent_id": "x"},
    ],
    ids=["wrong digest", "name in a key", "name in a value", "others", "bad id"],
)
def test_what_stands_around_the_files_is_read_as_ever(changes: dict[str, Any]) -> None:
    payload = spelled(FILE, BARE, **changes)
    assert by_both(payload) == by_python(payload)


PLAIN = spelled(
    replace(FILE, upper_bounds=ValueMap((1,), ("ab",)), partition=(1, "x")),
    with_encoded_metrics(replace(BARE, sort_order_id=5)),
)


def test_whatever_befalls_a_byte_both_read_the_same() -> None:
    for at in range(len(PLAIN)):
        for cut in (0, 1):
            for new in (b"", b"0", b"-", b".", b"e", b'"', b",", b" ", b"[]", b"\\", b"\x7f", b"\xc3"):
                payload = PLAIN[:at] + new + PLAIN[at + cut :]
                assert by_both(payload) == by_python(payload), payload
    assert read_files(PLAIN) is not None


def test_every_beginning_of_a_payload_is_read_to_its_end_at_most() -> None:
    for end in range(len(PLAIN)):
        assert by_both(PLAIN[:end]) == by_python(PLAIN[:end])

"""What compiled code reads is what Python reads, to the byte; whatever else comes, it leaves alone."""

from __future__ import annotations

import base64
import importlib
import string
from typing import Any

import pytest
from msgspec.structs import replace

from firn.coordinator.client.encoded_files import with_encoded_metrics
from firn.model.intent import ContentFile, ValueMap
from firn.storage import compiled, wire_files
from firn.storage.compiled import IS_COMPILED
from firn.storage.wire_files import read_files
from firn.storage.wire_metrics import encoded_file
from tests.unit.storage.listed_files import LEFT, TAKEN, bare, encoded
from tests.unit.storage.read_twice import BARE, FILE, around, by_both, by_python, spelled

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="firn was installed without a C compiler: nothing is compiled")


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


@pytest.mark.parametrize("origin", [{"table_uuid": "u"}, {"schema_id": 0}])
def test_a_file_that_says_its_origin_is_left_to_python(origin: dict[str, Any]) -> None:
    payload = spelled(BARE, replace(FILE, **origin))
    assert read_files(payload) is None
    assert by_both(payload) == by_python(payload)


def _with_key(key: bytes) -> bytes:
    """Metrics that say nothing but a key of any bytes (63 of them at most)."""
    return bytes(6) + b"\x02" + bytes([2 * len(key)]) + key + bytes(3)


LETTERS = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"


@pytest.mark.parametrize("size", [46, 47, 48], ids=["two letters at the end", "three", "four"])
def test_every_letter_of_base64_is_what_it_says_and_every_other_sign_is_none(size: int) -> None:
    metrics = _with_key(base64.b64decode(LETTERS)[:size])
    text = base64.b64encode(metrics).decode()
    read = read_files(around(encoded(text).encode()))
    assert read is not None
    assert read.files[0].encoded == metrics
    for place in range(len(text.rstrip("="))):
        for sign in sorted(set(range(256)) - set(LETTERS.encode())):
            damaged = text[:place].encode() + bytes([sign]) + text[place + 1 :].encode()
            assert read_files(around(encoded("MARK").encode().replace(b"MARK", damaged))) is None, (place, sign)


@pytest.mark.parametrize("letter", LETTERS)
def test_a_letter_means_the_same_wherever_it_stands(letter: str) -> None:
    metrics = _with_key(base64.b64decode(letter * 4 * 15))
    read = read_files(around(encoded(base64.b64encode(metrics).decode()).encode()))
    assert read is not None
    assert read.files[0].encoded == metrics


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


# ---------------------------------------------------------------------------------------------------------------------
# How far it goes


@pytest.mark.parametrize("files", TAKEN.values(), ids=TAKEN)
def test_what_is_just_like_most_is_taken(files: str) -> None:
    payload = around(files.encode())
    assert read_files(payload) is not None
    assert by_both(payload) == by_python(payload)


@pytest.mark.parametrize("files", LEFT.values(), ids=LEFT)
def test_what_is_not_like_most_is_left_to_python(files: str) -> None:
    payload = around(files.encode())
    first = payload.index(b"[") + 1
    read = read_files(payload)
    assert read is None or payload[first : read.end - 1] != files.encode()
    assert by_both(payload) == by_python(payload)


@pytest.mark.parametrize("count", [1_000, 100_000])
def test_as_many_files_as_an_intent_may_have(count: int) -> None:
    payload = around(b",".join(bare(path=str(n)).encode() for n in range(count)))
    read = read_files(payload)
    assert read is not None
    assert len(read.files) == count
    assert by_both(payload) == by_python(payload)


def test_a_start_outside_the_payload_is_a_mistake() -> None:
    from firn.storage.native.wire_files import read  # noqa: PLC0415 - it need not be there

    for start in (-1, len(PLAIN) + 1, 2**62, -(2**62)):
        with pytest.raises(ValueError, match="outside"):
            read(PLAIN, start)
    assert read(PLAIN, len(PLAIN)) is None
    assert read(b"", 0) is None


def test_an_older_build_that_was_left_there_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        native = importlib.import_module("firn.storage.native.wire_files")
        monkeypatch.setattr(native, "INTERFACE", compiled.INTERFACE - 1)
        importlib.reload(compiled)
        importlib.reload(wire_files)
        assert not compiled.IS_COMPILED
        assert wire_files.read_files(spelled(FILE)) is None
    finally:
        monkeypatch.undo()
        importlib.reload(compiled)
        importlib.reload(wire_files)
    assert compiled.IS_COMPILED

"""Appends as they are read quickly, by the daemon or by a process beside it, and what the two say to each other.

Only appends in the clients' own spelling with which nothing is wrong are read so; everything else goes to
`decode_intent`, in the daemon, so that there is one place that says what is wrong with an intent. See
`firn.coordinator.intake.intent_reader`.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Final, cast

import msgspec

from firn.model.errors import FirnError
from firn.model.intent import Append, spells_out_defaults
from firn.model.intent_codec import DecodedIntent, decode_intent, decode_own_append
from firn.model.limits import Limits
from firn.storage.wire_files import read_files
from firn.storage.wire_metrics import EncodedFile, encoded_file

SPARE_BYTES: Final = 128
"""Room for each payload beyond its size and an eighth: one with few metrics may take more when it has been read."""


class Rules(msgspec.Struct, frozen=True):
    """What the door depends on."""

    limits: Limits
    reply_prefix: str


def spare(sizes: Sequence[int]) -> int:
    """Bytes that are kept free behind payloads of these sizes."""
    return sum(sizes) // 8 + SPARE_BYTES * len(sizes)


class Page(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The process is to read payloads of these sizes, which begin at `start` of the shared memory.

    What it has read is put in their place.
    """

    number: int
    start: int
    sizes: tuple[int, ...]

    @property
    def room(self) -> int:
        """Bytes from `start` on that an answer may take."""
        return sum(self.sizes) + spare(self.sizes)


class ReadAppend(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An append that has passed the door, with its digest. Its `data_files` are in `files`, their metrics as bytes."""

    intent: Append
    files: tuple[EncodedFile, ...]
    digest: str


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[ReadAppend | None])


def read_intent(payload: bytes, rules: Rules) -> DecodedIntent:
    """Any intent; an append in a client's own spelling by compiled code, if it is there. Raises as `decode_intent`."""
    return _read_quickly(payload, rules) or decode_intent(payload, limits=rules.limits, reply_prefix=rules.reply_prefix)


def read_append(payload: bytes, rules: Rules) -> ReadAppend | None:
    """The append, None for anything else and where anything is wrong."""
    decoded = _read_quickly(payload, rules)
    if decoded is None:
        decoded = _read_with_encoded_files(payload, rules)
    if decoded is None or not isinstance(decoded.intent, Append):
        return None
    files = cast("tuple[EncodedFile, ...]", decoded.intent.data_files)
    return ReadAppend(msgspec.structs.replace(decoded.intent, data_files=()), files, decoded.digest)


def _read_quickly(payload: bytes, rules: Rules) -> DecodedIntent | None:
    """An append that compiled code knows, with `EncodedFile`s; None for anything else and where anything is wrong."""
    files = read_files(payload) if len(payload) <= rules.limits.intent_bytes_max else None
    if files is None:
        return None
    try:
        return decode_own_append(payload, limits=rules.limits, reply_prefix=rules.reply_prefix, files=files)
    except FirnError:
        return None


def _read_with_encoded_files(payload: bytes, rules: Rules) -> DecodedIntent | None:
    """The same without compiled code."""
    try:
        decoded = decode_own_append(payload, limits=rules.limits, reply_prefix=rules.reply_prefix)
        if decoded is None or not isinstance(decoded.intent, Append) or spells_out_defaults(decoded.intent):
            return None
        files = tuple(map(encoded_file, decoded.intent.data_files))
    except FirnError:
        return None
    return msgspec.structs.replace(decoded, intent=msgspec.structs.replace(decoded.intent, data_files=files))


def read_page(page: Page, memory: mmap.mmap, rules: Rules) -> int | None:
    """Read the page's payloads and put the answer in their place; its size, None when there is no room for it."""
    read, at = [], page.start
    for size in page.sizes:
        read.append(read_append(memory[at : at + size], rules))
        at += size
    answer = encode_page(read)
    if len(answer) > page.room:
        return None
    memory[page.start : page.start + len(answer)] = answer
    return len(answer)


def encode_page(read: Sequence[ReadAppend | None]) -> bytes:
    """What `decode_page` reads."""
    return _ENCODER.encode(read)


def decode_page(data: memoryview, sizes: Sequence[int]) -> list[DecodedIntent | None]:
    """The intents of a page whose payloads had these `sizes`; None for those that were not read."""
    intents: list[DecodedIntent | None] = []
    for one, size in zip(_DECODER.decode(data), sizes, strict=True):
        if one is None:
            intents.append(None)
            continue
        msgspec.structs.force_setattr(one.intent, "data_files", one.files)  # nobody else has seen it yet
        intents.append(DecodedIntent(one.intent, one.digest, size))
    return intents

"""Theta sketches: how many distinct values a column has (Puffin specification, `apache-datasketches-theta-v1`).

The bytes are those of compact sketches of the Apache DataSketches library for Java, which Iceberg's engines read and
merge.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Any, Final

import mmh3
import msgspec

from firn.model.amounts import plural
from firn.model.errors import CorruptFile, InvalidInput, Unsupported
from firn.model.puffin import NDV, THETA_SKETCH
from firn.model.types import Type
from firn.model.values import to_bytes
from firn.storage.puffin import Blob

NOMINAL_ENTRIES: Final = 4096
"""Hashes that a full sketch keeps; the estimate is then within about 3 % (two standard deviations)."""

ENTRIES_MAX: Final = 1 << 26
"""Most hashes in a sketch that is read: the library's own limit."""

THETA_MAX: Final = 2**63 - 1
SEED: Final = 9001
_SEED_HASH: Final = 37836
_SERIAL_VERSION: Final = 3
_FAMILY_COMPACT: Final = 3
_FLAG_EMPTY: Final = 0x04
_FLAG_SINGLE: Final = 0x20
_FLAGS: Final = 0x1A
"""Read-only, compact, ordered."""

_HEAD: Final = Struct("<BBBBBBH")
_COUNTS: Final = Struct("<If")
"""How many hashes there are, and the sampling probability, of which the library for Java writes that it is 1."""
_LONG: Final = Struct("<Q")


class ThetaSketch(msgspec.Struct, frozen=True):
    """The hashes below `theta` of all values seen, ascending; `theta` is 2⁶³-1 while all of them are kept."""

    hashes: tuple[int, ...] = ()
    theta: int = THETA_MAX

    @property
    def estimate(self) -> float:
        """Estimated number of distinct values; exact while nothing was left out."""
        return len(self.hashes) * (float(THETA_MAX) / self.theta)

    def union(self, *others: ThetaSketch) -> ThetaSketch:
        """The sketch of what this or any other one has seen."""
        sketches = (self, *others)
        theta = min(one.theta for one in sketches)
        return _trimmed({hashed for one in sketches for hashed in one.hashes if hashed < theta}, theta)

    def to_bytes(self) -> bytes:
        """The compact ordered form."""
        exact = self.theta == THETA_MAX
        if exact and len(self.hashes) <= 1:
            flags, seed = (_FLAGS | _FLAG_SINGLE, _SEED_HASH) if self.hashes else (_FLAGS | _FLAG_EMPTY, 0)
            head = _HEAD.pack(1, _SERIAL_VERSION, _FAMILY_COMPACT, 0, 0, flags, seed)
        else:
            longs = 2 if exact else 3
            head = _HEAD.pack(longs, _SERIAL_VERSION, _FAMILY_COMPACT, 0, 0, _FLAGS, _SEED_HASH)
            head += _COUNTS.pack(len(self.hashes), 1.0) + (b"" if exact else _LONG.pack(self.theta))
        return head + b"".join(_LONG.pack(hashed) for hashed in self.hashes)


def sketch_of(values: Iterable[Any], type: Type) -> ThetaSketch:
    """The sketch of internal values of a type. Nulls do not count, nor do empty ones, which the library leaves out.

    Raises InvalidInput for other values.
    """
    hashes: set[int] = set()
    theta = THETA_MAX
    for value in values:
        if value is None:
            continue
        hashed = hash_of(to_bytes(type, value))
        if 0 < hashed < theta:
            hashes.add(hashed)
            if len(hashes) == 2 * NOMINAL_ENTRIES:
                trimmed = _trimmed(hashes, theta)
                hashes, theta = set(trimmed.hashes), trimmed.theta
    return _trimmed(hashes, theta)


def hash_of(value: bytes) -> int:
    """The hash of a value's binary form, 63 bits; 0, which no sketch holds, for an empty one."""
    if not value:
        return 0
    high, _ = mmh3.hash64(value, seed=SEED, x64arch=True, signed=False)
    return high >> 1


def _trimmed(hashes: set[int], theta: int) -> ThetaSketch:
    ordered = sorted(hashes)
    if len(ordered) > NOMINAL_ENTRIES:
        theta = ordered[NOMINAL_ENTRIES]
        del ordered[NOMINAL_ENTRIES:]
    return ThetaSketch(tuple(ordered), theta)


def sketch_from_bytes(data: bytes, *, location: str) -> ThetaSketch:
    """The sketch in a compact form, ordered or not.

    Raises CorruptFile for bytes that are none, Unsupported for another seed or the library's compressed form.
    """
    if len(data) < _HEAD.size:
        raise CorruptFile(location, f"{len(data)} bytes are too few for a theta sketch")
    longs, version, family, _, _, flags, seed_hash = _HEAD.unpack_from(data)
    longs &= 0x3F
    if version != _SERIAL_VERSION or seed_hash not in (_SEED_HASH, 0):
        raise Unsupported(f"a theta sketch of version {version}, seed hash {seed_hash} in {location}")
    if family != _FAMILY_COMPACT or not 1 <= longs <= 3:
        raise CorruptFile(location, f"no compact theta sketch: family {family}, preamble {longs}")
    if flags & _FLAG_EMPTY:
        return ThetaSketch()
    if len(data) < 8 * longs:
        raise CorruptFile(location, "theta sketch ends in its preamble")
    count = 1 if longs == 1 else _COUNTS.unpack_from(data, 8)[0]
    theta: int = _LONG.unpack_from(data, 16)[0] if longs == 3 else THETA_MAX
    if count > ENTRIES_MAX or len(data) != 8 * (longs + count):
        raise CorruptFile(location, f"theta sketch of {len(data)} bytes states {plural(count, 'entry', 'entries')}")
    hashes = sorted(memoryview(data)[8 * longs :].cast("Q"))
    if not 0 < theta <= THETA_MAX or len(set(hashes)) != count or (hashes and not 0 < hashes[0] <= hashes[-1] < theta):
        raise CorruptFile(location, "theta sketch has entries that repeat or are not below its theta")
    return ThetaSketch(tuple(hashes), theta)


def sketch_blob(sketch: ThetaSketch, *, field_id: int, snapshot_id: int, sequence_number: int) -> Blob:
    """The blob that says how many distinct values a column had in a snapshot."""
    if snapshot_id < 0 or sequence_number < 0:
        raise InvalidInput("a sketch belongs to a snapshot", where="snapshot-id")
    return Blob(
        type=THETA_SKETCH,
        fields=(field_id,),
        data=sketch.to_bytes(),
        snapshot_id=snapshot_id,
        sequence_number=sequence_number,
        compression="zstd",
        properties={NDV: str(int(sketch.estimate))},
    )

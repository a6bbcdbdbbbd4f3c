"""Digests that tell whether a file is as it was written: enough to notice damage, not to keep off an attacker.

A digest is of all bytes, 64 bits in hexadecimal. Or it is of the digests of the file's parts, behind their sizes
(``3400618+1204+570011:…``): then what a file has in common with the one before it need not be digested again, wherever
in the file it stands.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final

DIGEST_BYTES: Final = 8

_PARTS_MAX: Final = 16


def begun_digest(data: bytes | memoryview = b"") -> Any:
    """What more can be added to: a digest of `hashlib`, of one part or all of a file."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES)


def digest_of_bytes(data: bytes) -> str:
    """The digest of a whole file."""
    digest: str = begun_digest(data).hexdigest()
    return digest


def digest_of_parts(parts: Iterable[tuple[int, Any]]) -> str:
    """The digest of a file by its parts in order: how many bytes each has, and its digest (of `begun_digest`)."""
    sizes, digests = zip(*((str(size), digest.digest()) for size, digest in parts), strict=True)
    return f"{'+'.join(sizes)}:{digest_of_bytes(b''.join(digests))}"


def is_of_parts(digest: str) -> bool:
    """Whether this is a digest of the file's parts."""
    return ":" in digest


def is_digest_of(data: bytes, digest: str) -> bool:
    """Whether `digest`, of either kind, is of these bytes."""
    if not is_of_parts(digest):
        return digest_of_bytes(data) == digest
    listed = digest.partition(":")[0].split("+")
    if len(listed) > _PARTS_MAX or not all(size.isascii() and size.isdecimal() and len(size) < 16 for size in listed):
        return False
    view, at, parts = memoryview(data), 0, []
    for size in map(int, listed):
        parts.append((size, begun_digest(view[at : at + size])))
        at += size
    return at == len(data) and digest_of_parts(parts) == digest

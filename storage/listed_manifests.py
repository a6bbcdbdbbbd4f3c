"""A manifest list as it was written, for the next one: that has the same manifests, most of the time, and a few before
them. So what is encoded and compressed of them is kept, in blocks, and a commit pays for what it changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from firn.model.long_tuples import are_same, ends_with
from firn.model.manifest import ManifestFile
from firn.storage.avro import compress
from firn.storage.deflate import behind_stored
from firn.storage.manifest_lists import Block, list_record

BLOCK_MANIFESTS: Final = 128
"""Manifests in a block that is kept for long."""

YOUNG_MANIFESTS: Final = 32
"""Manifests in a block that becomes a part of such a one. Fewer than twice as many stand before all blocks, and are
compressed every time.
"""

STORED_BYTES_MAX: Final = 1024
"""Bytes of records at the start of a list that are stored as they are: of some eight manifests. What stands before all
blocks is compressed once in as many commits; lists are a twentieth larger than if it were each time.
"""

YOUNG_BLOCKS_MAX: Final = 2 * BLOCK_MANIFESTS // YOUNG_MANIFESTS
"""Blocks of the newest manifests, of which the older half are then made into one."""


class ListedManifests(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The manifests of one list in its order, which have all their numbers.

    `kept` are blocks of the last of them, `records` those of the `front`, not compressed: in the next list these stand
    behind a few others. The first `stored` bytes of them are not compressed in the front either. `all_live`: no one has
    only tombstones, which the next list leaves out; `all_data`: no one is of delete files.
    """

    format_version: int
    manifests: Sequence[ManifestFile]
    front: Block | None
    records: bytes
    stored: int
    kept: tuple[Block, ...]
    all_live: bool
    all_data: bool

    @property
    def blocks(self) -> list[Block]:
        """All of the list."""
        return [*(() if self.front is None else (self.front,)), *self.kept]

    def shared_by(self, manifests: Sequence[Any]) -> int:
        """How many manifests at the end of a list are the last ones of this."""
        own = self.manifests
        if own and ends_with(manifests, own):
            return len(own)
        shared = 0
        for block in reversed(self.kept):
            start, end = len(own) - shared - block[0], len(own) - shared
            at = len(manifests) - shared - block[0]
            if at < 0 or not are_same(manifests[at : at + block[0]], own[start:end]):
                break
            shared += block[0]
        return shared


def listed(
    manifests: Sequence[ManifestFile],
    *,
    format_version: int,
    before: ListedManifests | None = None,
    goes_on: bool = False,
) -> ListedManifests:
    """The list of `manifests`, with what it has in common with the one `before`; `goes_on`: all of that is in it.

    Raises InvalidInput for rows that the version does not allow.
    """
    shared = 0
    kept: tuple[Block, ...] = ()
    if before is not None and before.format_version == format_version:
        shared = len(before.manifests) if goes_on else before.shared_by(manifests)
        kept = _last(before.kept, shared)
    at = len(manifests) - sum(count for count, _ in kept)
    if before is not None and shared == len(before.manifests) and at < 2 * YOUNG_MANIFESTS:
        added = _records(manifests[: len(manifests) - shared], format_version)
        records = added + before.records
        front, stored = _front(at, added, before)
    else:
        rest = manifests[:at]
        more: list[Block] = []
        for size in (BLOCK_MANIFESTS, YOUNG_MANIFESTS):
            while len(rest) >= 2 * size:
                more.append(_block(rest[-size:], format_version))
                rest = rest[:-size]
        at = len(rest)
        kept = _grown_up((*reversed(more), *kept), manifests, at=at, format_version=format_version)
        records = _records(rest, format_version)
        front, stored = ((at, compress(records, codec="deflate")) if at else None), 0
    some = before if before is not None and shared else None
    new = manifests[: len(manifests) - shared]
    return ListedManifests(
        format_version=format_version,
        manifests=manifests,
        front=front,
        records=records,
        stored=stored,
        kept=kept,
        all_live=all(m.may_have_live_files for m in (new if some is not None and some.all_live else manifests)),
        all_data=all(m.content == "data" for m in (new if some is not None and some.all_data else manifests)),
    )


def _front(at: int, added: bytes, before: ListedManifests) -> tuple[Block | None, int]:
    """So many manifests before all blocks, of which those of some records come before what the last list had there; and
    how many bytes are stored as they are.
    """
    stored = before.stored + len(added)
    if before.front is not None and stored <= STORED_BYTES_MAX:
        return (at, behind_stored(added, before.front[1]) if added else before.front[1]), stored
    return ((at, compress(added + before.records, codec="deflate")) if at else None), 0


def _last(blocks: tuple[Block, ...], manifests: int) -> tuple[Block, ...]:
    """The last blocks, as far as they hold no more than so many manifests."""
    at = len(blocks)
    while at and blocks[at - 1][0] <= manifests:
        at -= 1
        manifests -= blocks[at][0]
    return blocks[at:]


def _grown_up(
    blocks: tuple[Block, ...], manifests: Sequence[ManifestFile], *, at: int, format_version: int
) -> tuple[Block, ...]:
    """The blocks of what is listed from `at` on; the older of too many young ones are made into one."""
    young = next((n for n, (count, _) in enumerate(blocks) if count != YOUNG_MANIFESTS), len(blocks))
    while young >= YOUNG_BLOCKS_MAX:
        end, left = at + young * YOUNG_MANIFESTS, young - BLOCK_MANIFESTS // YOUNG_MANIFESTS
        joined = _block(manifests[end - BLOCK_MANIFESTS : end], format_version)
        blocks, young = (*blocks[:left], joined, *blocks[young:]), left
    return blocks


def _block(manifests: Sequence[ManifestFile], format_version: int) -> Block:
    return len(manifests), compress(_records(manifests, format_version), codec="deflate")


def _records(manifests: Sequence[ManifestFile], format_version: int) -> bytes:
    return b"".join([list_record(manifest, format_version) for manifest in manifests])

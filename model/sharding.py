"""Which stream shard a table's intents travel on, and which daemon serves which shard.

A shard is Redis Cluster's key slot modulo the number of shards, so that clients in any language compute it with what
their Redis library has already (``CLUSTER KEYSLOT``).
"""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Iterable
from functools import lru_cache

KEY_SLOTS = 16384


@lru_cache(maxsize=10_000)
def key_slot(key: str) -> int:
    """Redis Cluster's slot of `key`: CRC-16/XMODEM modulo 16384, of the hash tag when there is one.

    A hash tag is what stands between the first ``{`` and the first ``}`` after it, unless that is empty.
    """
    data = key.encode()
    start = data.find(b"{")
    if start >= 0:
        end = data.find(b"}", start + 1)
        if end > start + 1:
            data = data[start + 1 : end]
    return binascii.crc_hqx(data, 0) % KEY_SLOTS


def shard_of(table: str, *, shards: int) -> int:
    """The shard, 0 to `shards` - 1, of a table by its name."""
    assert shards > 0
    return key_slot(table) % shards


def assign(shards: int, members: Iterable[str]) -> dict[int, str]:
    """Which member serves each shard: rendezvous hashing, at most ⌈shards / members⌉ shards each.

    Every daemon computes the same answer from the same members, in any order, and a member that comes or goes moves few
    shards besides its own. No members: no shards are served.
    """
    names = sorted(set(members))
    if not names:
        return {}
    share_max = -(-shards // len(names))
    load = dict.fromkeys(names, 0)
    chosen: dict[int, str] = {}
    for shard in range(shards):
        free = [name for name in names if load[name] < share_max]
        best = max(free, key=lambda name: _weight(shard, name))
        load[best] += 1
        chosen[shard] = best
    return chosen


def _weight(shard: int, member: str) -> bytes:
    return hashlib.blake2b(f"{shard}/{member}".encode(), digest_size=8).digest()

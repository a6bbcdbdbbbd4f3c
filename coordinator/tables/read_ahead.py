"""Reading many manifests one after the other while the next ones are on their way: an object store takes as long for
the first byte of each as a thousand of them take to be looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from firn.model.manifest import ManifestFile

READS_AT_ONCE: Final = 16
READ_AHEAD_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of manifests that are read before they are asked for; the next one is, whatever its size."""

_FEW: Final = 2
"""So many manifests are read as they are asked for."""


class ReadAhead:
    """Reads manifests in order, the next ones at once. `read` is called in threads."""

    def __init__(self, read: Callable[[ManifestFile], bytes]) -> None:
        self._read = read

    def ahead(self, manifests: Sequence[ManifestFile]) -> Iterator[tuple[ManifestFile, bytes]]:
        """Each manifest with its bytes. Raises what reading the one whose turn it is raises."""
        if len(manifests) <= _FEW:
            yield from ((manifest, self._read(manifest)) for manifest in manifests)
            return
        under_way: deque[tuple[ManifestFile, Future[bytes]]] = deque()
        size, following = 0, 0
        pool = ThreadPoolExecutor(min(READS_AT_ONCE, len(manifests)), thread_name_prefix="firn-reads")
        try:
            while under_way or following < len(manifests):
                while following < len(manifests) and len(under_way) < 2 * READS_AT_ONCE:
                    one = manifests[following]
                    if under_way and size + one.manifest_length > READ_AHEAD_BYTES_MAX:
                        break
                    under_way.append((one, pool.submit(self._read, one)))
                    size += one.manifest_length
                    following += 1
                manifest, read = under_way.popleft()
                data = read.result()
                size -= manifest.manifest_length
                yield manifest, data
        finally:
            pool.shutdown(cancel_futures=True)

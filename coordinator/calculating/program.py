"""The program that computes for a daemon: ``python -m … <socket> <shared memory> <rules>``.

The first two are descriptors, the third is JSON (`Rules`). See `firn.coordinator.calculating.calculator`.
"""

from __future__ import annotations

import mmap
import socket
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from firn.coordinator.calculating.messages import Answer, Request
from firn.coordinator.intake.read_appends import Rules, read_page
from firn.model.errors import FirnError, Unsupported
from firn.model.manifest import ManifestEntry, ManifestFile
from firn.storage.companion_program import MESSAGE_BYTES_MAX, serving
from firn.storage.malloc_settings import give_freed_memory_back, give_holes_back
from firn.storage.merge_messages import MergeAsked, ingredients
from firn.storage.merged_manifests import laid_out

STEP_S: Final = 0.001
"""How long a page of intents waits for a merge at most: a batch waits for the page, which takes a few milliseconds."""


class Service:
    """Answers requests one after the other; a page of intents does not wait for a merge that is under way."""

    def __init__(self, connection: socket.socket, memory: mmap.mmap, rules: Rules) -> None:
        self._connection = connection
        self._memory = memory
        self._rules = rules
        self._decoder: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
        self._merges: deque[MergeAsked] = deque()
        self._looks_at = 0.0

    def serve(self) -> None:
        """Take requests until there are no more, and finish them."""
        while message := self._connection.recv(MESSAGE_BYTES_MAX):
            self._take(message)
            while self._merges:
                self._merge(self._merges.popleft())

    def _take(self, message: bytes) -> None:
        request = self._decoder.decode(message)
        if isinstance(request, MergeAsked):
            self._merges.append(request)
        else:
            self._answer(request, read_page(request, self._memory, self._rules))

    def _merge(self, request: MergeAsked) -> None:
        self._looks_at = time.monotonic() + STEP_S
        self._answer(request, self._lay_out(request))
        give_holes_back()

    def _lay_out(self, request: MergeAsked) -> int | None:
        """Put the manifest into the shared memory; how many bytes it has, None when the daemon is to make it."""
        try:
            with memoryview(self._memory)[request.start : request.start + request.room] as memory:
                made_of = ingredients(memory, request.description)
                data = laid_out(made_of, decode=_decode, after_each=self._look_for_a_page).data
                if len(data) > request.room:
                    return None
                memory[: len(data)] = data
        except FirnError:
            return None
        return len(data)

    def _look_for_a_page(self) -> None:
        """Between two steps of a merge: one page, if one has come. The end of requests is seen when it is finished."""
        if time.monotonic() < self._looks_at:
            return
        try:
            message = self._connection.recv(MESSAGE_BYTES_MAX, socket.MSG_DONTWAIT)
        except BlockingIOError:
            message = b""
        if message:
            self._take(message)
        self._looks_at = time.monotonic() + STEP_S

    def _answer(self, request: Request, size: int | None) -> None:
        self._connection.send(msgspec.msgpack.encode(Answer(request.number, size)))


def _decode(part: ManifestFile) -> Sequence[ManifestEntry]:
    raise Unsupported("a manifest of another layout, which the daemon decodes", where=part.manifest_path)


def main() -> None:
    """Serve the daemon at the other end of the socket."""
    give_freed_memory_back()
    rules = msgspec.json.decode(sys.argv[3], type=Rules)
    with serving() as (connection, memory):
        Service(connection, memory, rules).serve()


if __name__ == "__main__":
    main()

"""The program that writes local files for a daemon: ``python -m … <socket> <shared memory>``, both descriptors.

See `firn.storage.file_writes`. It ends when the daemon's end of the socket is closed, which the operating system does
for a daemon that is killed.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping

import msgspec

from firn.model.errors import FirnError
from firn.storage.begun_files import BegunFiles
from firn.storage.local_files import Bytes, LocalFiles, Rest
from firn.storage.locations import normalize
from firn.storage.malloc_settings import give_freed_memory_back
from firn.storage.write_messages import FORGOTTEN, MESSAGE_BYTES_MAX, Reply, Request

PARALLEL_REQUESTS = 16
"""Lanes whose files are written at once."""


class _Service:
    def __init__(self, connection: socket.socket, memory: memoryview) -> None:
        self._connection = connection
        self._memory = memory
        self._files = LocalFiles()
        self._begun = BegunFiles()

    def serve(self) -> None:
        """Take requests until there are no more, and finish them."""
        threads = [threading.Thread(target=self._take) for _ in range(PARALLEL_REQUESTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _take(self) -> None:
        """All threads wait for the next request: the one that gets it writes the files itself, without a hand-over."""
        decoder = msgspec.msgpack.Decoder(Request)
        # A daemon that is killed with replies unread resets the connection.
        with contextlib.suppress(ConnectionError):
            while message := self._connection.recv(MESSAGE_BYTES_MAX):
                request = decoder.decode(message)
                reply = self._write(request)
                announced = [
                    (self._begun.announce(one.then), normalize(request.locations[one.file]), one.then_bytes)
                    for one in request.continued
                    if one.then is not None and reply.error is None
                ]
                self._connection.send(msgspec.msgpack.encode(reply))
                for file, path, size in announced:
                    file.begin(path, size)
                for number in request.given_up:
                    self._begun.drop(number)

    def _write(self, request: Request) -> Reply:
        taken = {one.file: self._begun.take(one.begun) for one in request.continued if one.begun is not None}
        try:
            if None in taken.values():
                return Reply(request.number, FORGOTTEN)
            return self._create(request, {file: begun for file, begun in taken.items() if begun is not None})
        finally:
            for descriptor in taken.values():
                if descriptor is not None:
                    os.close(descriptor)

    def _create(self, request: Request, begun: Mapping[int, int]) -> Reply:
        files: list[tuple[str, Bytes | Rest]] = []
        start = request.start
        for number, (location, size) in enumerate(zip(request.locations, request.sizes, strict=True)):
            data = self._memory[start : start + size]
            files.append((location, Rest(begun[number], data) if number in begun else data))
            start += size
        try:
            self._files.create_all(files)
        except FirnError as error:
            return Reply(request.number, type(error).__name__, str(error))
        except Exception as error:  # noqa: BLE001 - whoever asked waits for an answer
            return Reply(request.number, "Unavailable", f"{type(error).__name__}: {error}")
        return Reply(request.number)


def main() -> None:
    """Serve the daemon at the other end of the socket."""
    give_freed_memory_back()
    for ignored in (signal.SIGINT, signal.SIGTERM):  # a terminal sends them to the daemon, which ends in good order
        signal.signal(ignored, signal.SIG_IGN)
    memory = memoryview(mmap.mmap(int(sys.argv[2]), 0, access=mmap.ACCESS_READ))  # ends with the process
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        _Service(connection, memory).serve()


if __name__ == "__main__":
    main()

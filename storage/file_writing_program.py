"""The program that writes local files for a daemon: ``python -m … <socket> <shared memory>``, both descriptors.

See `firn.storage.file_writes`. It ends when the daemon's end of the socket is closed, which the operating system does
for a daemon that is killed.
"""

from __future__ import annotations

import contextlib
import mmap
import signal
import socket
import sys
import threading

import msgspec

from firn.model.errors import FirnError
from firn.storage.local_files import LocalFiles
from firn.storage.write_messages import MESSAGE_BYTES_MAX, Reply, Request

PARALLEL_REQUESTS = 16
"""Lanes whose files are written at once."""


class _Service:
    def __init__(self, connection: socket.socket, memory: memoryview) -> None:
        self._connection = connection
        self._memory = memory
        self._files = LocalFiles()

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
                self._connection.send(msgspec.msgpack.encode(self._write(decoder.decode(message))))

    def _write(self, request: Request) -> Reply:
        files, start = [], request.start
        for location, size in zip(request.locations, request.sizes, strict=True):
            files.append((location, self._memory[start : start + size]))
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
    for ignored in (signal.SIGINT, signal.SIGTERM):  # a terminal sends them to the daemon, which ends in good order
        signal.signal(ignored, signal.SIG_IGN)
    memory = memoryview(mmap.mmap(int(sys.argv[2]), 0, access=mmap.ACCESS_READ))  # ends with the process
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        _Service(connection, memory).serve()


if __name__ == "__main__":
    main()

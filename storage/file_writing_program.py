"""The program that writes local files for a daemon (`firn.storage.file_writes`): ``python -m … <descriptor>``.

It ends when the daemon's end of the socket is closed, which the operating system does for a daemon that is killed.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

import msgspec

from firn.model.errors import FirnError
from firn.storage.file_writes import LENGTH_BYTES, Reply, Request
from firn.storage.local_files import LocalFiles

PARALLEL_REQUESTS = 16
"""Lanes whose files are written at once."""


class _Service:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._files = LocalFiles()
        self._sending = threading.Lock()
        self._requests = ThreadPoolExecutor(PARALLEL_REQUESTS, thread_name_prefix="firn-writes")

    def serve(self) -> None:
        """Take requests until there are no more, and finish them."""
        decoder = msgspec.msgpack.Decoder(Request)
        # A daemon that is killed with replies unread resets the connection.
        with contextlib.suppress(ConnectionError), self._connection.makefile("rb") as stream:
            while length := stream.read(LENGTH_BYTES):
                request = decoder.decode(_exactly(stream, int.from_bytes(length, "big")))
                files = [
                    (location, _exactly(stream, size))
                    for location, size in zip(request.locations, request.sizes, strict=True)
                ]
                self._requests.submit(self._write, request.number, files)
        self._requests.shutdown()

    def _write(self, number: int, files: list[tuple[str, bytes]]) -> None:
        try:
            self._files.create_all(files)
        except FirnError as error:
            reply = Reply(number, type(error).__name__, str(error))
        except Exception as error:  # noqa: BLE001 - whoever asked waits for an answer
            reply = Reply(number, "Unavailable", f"{type(error).__name__}: {error}")
        else:
            reply = Reply(number)
        content = msgspec.msgpack.encode(reply)
        with self._sending, contextlib.suppress(ConnectionError):
            self._connection.sendall(len(content).to_bytes(LENGTH_BYTES, "big") + content)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise SystemExit(0)  # the daemon ended in the middle of a request
    return content


def main() -> None:
    """Serve the daemon at the other end of the socket whose descriptor is the argument."""
    for ignored in (signal.SIGINT, signal.SIGTERM):  # a terminal sends them to the daemon, which ends in good order
        signal.signal(ignored, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        _Service(connection).serve()


if __name__ == "__main__":
    main()

"""What programs that run beside a daemon begin with (see `firn.storage.companion`)."""

from __future__ import annotations

import contextlib
import mmap
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Final

MESSAGE_BYTES_MAX: Final = 64 * 1024
"""A message, which is sent whole or not at all."""


@contextlib.contextmanager
def serving() -> Iterator[tuple[socket.socket, mmap.mmap]]:
    """The socket and the memory that the program shares with its daemon, as its first arguments name them.

    The other end of the socket is closed with the daemon, by the operating system if it is killed; replies that nobody
    has read then reset the connection, which ends the program like the end of requests.
    """
    for ignored in (signal.SIGINT, signal.SIGTERM):  # a terminal sends them to the daemon, which ends in good order
        signal.signal(ignored, signal.SIG_IGN)
    with (
        mmap.mmap(int(sys.argv[2]), 0) as memory,
        socket.socket(fileno=int(sys.argv[1])) as connection,
        contextlib.suppress(ConnectionError),
    ):
        yield connection, memory

"""The program that writes local files for a daemon: ``python -m … <socket> <shared memory> <marks>``.

The first two are descriptors, the last the marks of folders, a JSON object (`firn.storage.marked_folders`).

See `firn.storage.file_writes`.
"""

# Descriptors are the point here; pathlib hides them.
# ruff: noqa: PTH120

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Container, Iterator, Mapping

import msgspec

from firn.model.errors import AlreadyExists, FirnError
from firn.storage.begun_files import SWAP_S, BegunFiles
from firn.storage.companion_program import MESSAGE_BYTES_MAX, serving
from firn.storage.local_files import Bytes, LocalFiles, Rest
from firn.storage.locations import normalize
from firn.storage.malloc_settings import give_freed_memory_back
from firn.storage.marked_folders import MarkedFolders
from firn.storage.spare_files import SpareFiles
from firn.storage.whole_sync import WholeSyncs
from firn.storage.write_messages import FORGOTTEN, Reply, Request

PARALLEL_REQUESTS = 16
"""Lanes whose files are written at once."""


class _Service:
    def __init__(self, connection: socket.socket, memory: memoryview, folders: MarkedFolders) -> None:
        self._connection = connection
        self._memory = memory
        self._folders = folders
        self._files = LocalFiles(whole_syncs=WholeSyncs())
        self._begun = BegunFiles()
        self._spare = SpareFiles()

    def serve(self) -> None:
        """Take requests until there are no more, and finish them."""
        threads = [threading.Thread(target=self._take) for _ in range(PARALLEL_REQUESTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._spare.close()

    def _take(self) -> None:
        """All threads wait for the next request: the one that gets it writes the files itself, without a hand-over."""
        decoder = msgspec.msgpack.Decoder(Request)
        # A daemon that is killed with replies unread resets the connection.
        with contextlib.suppress(ConnectionError), _whole_or_not_at_all():
            while message := self._connection.recv(MESSAGE_BYTES_MAX):
                self._serve(decoder.decode(message))

    def _serve(self, request: Request) -> None:
        reply = self._write(request)
        announced = [
            (self._begun.announce(one.then), normalize(request.locations[one.file]), one.stretches)
            for one in request.continued
            if one.then is not None and reply.error is None
        ]
        self._connection.send(msgspec.msgpack.encode(reply))
        time.sleep(SWAP_S)
        for file, path, stretches in announced:  # first: of all that is made ahead these take longest to write
            file.begin(path, stretches)
        if reply.error is None:
            self._restock(request)
        for number in request.given_up:
            self._begun.drop(number)

    def _restock(self, request: Request) -> None:
        """Make files for a request like this one: all but those that are begun for it."""
        begun = {one.file for one in request.continued if one.then is not None}
        self._spare.restock(_folder_of(request, file) for file in range(len(request.locations)) if file not in begun)

    def _write(self, request: Request) -> Reply:
        begun = {
            one.file: self._begun.take(one.begun, size=one.places[-1][0])
            for one in request.continued
            if one.begun is not None
        }
        spare: dict[int, int] = {}
        try:
            if None in begun.values():
                return Reply(request.number, FORGOTTEN)
            spare = self._spare_for(request, but=begun)
            self._create(request, {**begun, **spare})
        except FirnError as error:
            if not isinstance(error, AlreadyExists):
                self._spare.failed(_folder_of(request, file) for file in spare)
            return Reply(request.number, type(error).__name__, str(error))
        except Exception as error:  # noqa: BLE001 - whoever asked waits for an answer
            return Reply(request.number, "Unavailable", f"{type(error).__name__}: {error}")
        finally:
            for descriptor in (*begun.values(), *spare.values()):
                if descriptor is not None:
                    os.close(descriptor)
        if spare:
            self._spare.worked()
        return Reply(request.number)

    def _spare_for(self, request: Request, *, but: Container[int]) -> dict[int, int]:
        """Spare files, as far as there are any, for the files of a request that are not begun."""
        wanted = (file for file in range(len(request.locations)) if file not in but)
        found = ((file, self._spare.take(_folder_of(request, file))) for file in wanted)
        return {file: descriptor for file, descriptor in found if descriptor is not None}

    def _create(self, request: Request, nameless: Mapping[int, int | None]) -> None:
        """Write the files, some of them into ones that have no name yet."""
        files: list[tuple[str, Bytes | Rest]] = []
        places = {one.file: one.places for one in request.continued}
        start = request.start
        for file, (location, size) in enumerate(zip(request.locations, request.sizes, strict=True)):
            data = self._memory[start : start + size]
            descriptor = nameless.get(file)
            files.append((location, data if descriptor is None else Rest(descriptor, data, places.get(file, ()))))
            start += size
        with self._folders.changing(*request.locations):
            self._files.create_all(files)


@contextlib.contextmanager
def _whole_or_not_at_all() -> Iterator[None]:
    """End the process where a thread fails: whoever waits for it is told so, and the next write starts another."""
    try:
        yield
    except ConnectionError:
        raise
    except Exception as error:  # noqa: BLE001 - a request that nobody understands, for one: of another version's files
        sys.stderr.write(f"the process that writes files ends: {type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(1)


def _folder_of(request: Request, file: int) -> str:
    return os.path.dirname(normalize(request.locations[file]))


def main() -> None:
    """Serve the daemon at the other end of the socket."""
    give_freed_memory_back()
    marks = sys.argv[3] if len(sys.argv) > 3 else "{}"  # an older daemon, whose files were replaced, names none
    folders = MarkedFolders(msgspec.json.decode(marks, type=dict[str, str]))
    with serving() as (connection, memory), memoryview(memory) as view:
        _Service(connection, view, folders).serve()


if __name__ == "__main__":
    main()

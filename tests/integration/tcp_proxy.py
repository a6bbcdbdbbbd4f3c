"""A TCP proxy that loses what it is told to: the network between firn and a server."""

import asyncio
import contextlib
from typing import Literal, Self

Loss = Literal["nothing", "requests", "replies"]


class TcpProxy:
    """Forwards a loopback port to `host`:`port`.

    `lose` makes bytes of one direction vanish, as on a network that is about to fail; `drop` closes all connections;
    `cut` also refuses new ones until `restore`, and `point_to` leads them elsewhere. `mince` has replies come in
    pieces, `drop_within` closes the connection after so many more bytes of them.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._loss: Loss = "nothing"
        self._cut = False
        self._piece_bytes = 65536
        self._left_bytes: int | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.drop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._writers) // 2

    def point_to(self, host: str, port: int) -> None:
        """Lead new connections to another server; those that there are stay where they are."""
        self._target = (host, port)

    def lose(self, loss: Loss) -> None:
        self._loss = loss

    def drop(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    def cut(self) -> None:
        self._cut = True
        self.drop()

    def mince(self, piece_bytes: int) -> None:
        self._piece_bytes = piece_bytes

    def drop_within(self, reply_bytes: int) -> None:
        self._left_bytes = reply_bytes

    def restore(self) -> None:
        self._cut = False
        self._loss = "nothing"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, server_writer}
        self._writers |= both
        try:
            await asyncio.gather(
                self._pump(reader, server_writer, "requests"), self._pump(server_reader, writer, "replies")
            )
        finally:
            self._writers -= both
            for one in both:
                one.transport.abort()
            self._tasks.discard(task)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Loss) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self._loss == direction:
                    continue
                if direction == "requests":
                    writer.write(data)
                    await writer.drain()
                elif await self._reply(data, writer):
                    break
        while direction == "replies" and self._loss == "replies":  # noqa: ASYNC110 - the end of the stream is lost, too
            await asyncio.sleep(0.02)
        writer.transport.abort()

    async def _reply(self, data: bytes, writer: asyncio.StreamWriter) -> bool:
        """Pass a reply on, in pieces; whether the connection ends within it."""
        left, ends = self._left_bytes, self._left_bytes is not None and self._left_bytes < len(data)
        if left is not None:
            self._left_bytes = None if ends else left - len(data)
            data = data[:left]
        for start in range(0, len(data), self._piece_bytes):
            writer.write(data[start : start + self._piece_bytes])
            await writer.drain()
            if self._piece_bytes < len(data):
                await asyncio.sleep(0.001)  # so that each is read by itself
        if ends:
            writer.write_eof()
        return ends

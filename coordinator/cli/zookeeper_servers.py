"""Each ZooKeeper server asked by itself: a session only ever tells that enough of them are there."""

from __future__ import annotations

import asyncio
import os
import re
from typing import Final

import msgspec

TIMEOUT_S: Final = 2.0
ANSWER_BYTES_MAX: Final = 64 * 1024
DEFAULT_PORT: Final = 2181

_MODE: Final = re.compile(r"^Mode: (\w+)", re.MULTILINE)


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A server of the ensemble. `mode` is leader, follower, standalone or ``?`` (it does not say); None: `trouble`."""

    address: str
    mode: str | None = None
    trouble: str = ""


async def servers_of(hosts: str, *, tls: bool) -> list[Server]:
    """Every server of ``zookeeper.hosts``, asked ``srvr``; with TLS it is only seen whether somebody listens."""
    addresses = [address.strip() for address in hosts.partition("/")[0].split(",") if address.strip()]
    return list(await asyncio.gather(*(_asked(address, tls=tls) for address in addresses)))


async def _asked(address: str, *, tls: bool) -> Server:
    host, _, port = address.rpartition(":") if re.search(r":\d+$", address) else (address, "", str(DEFAULT_PORT))
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            try:
                if tls:
                    return Server(address=address, mode="?")
                writer.write(b"srvr")
                answer = (await reader.read(ANSWER_BYTES_MAX)).decode(errors="replace")
            finally:
                writer.close()
    except TimeoutError:
        return Server(address=address, trouble=f"no answer within {TIMEOUT_S:g} s")
    except OSError as error:
        return Server(address=address, trouble=os.strerror(error.errno) if error.errno else str(error))
    if "not currently serving requests" in answer:
        return Server(address=address, trouble="it runs, and has no leader to follow")
    mode = _MODE.search(answer)
    return Server(address=address, mode="?" if mode is None else mode[1])

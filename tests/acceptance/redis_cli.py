"""As much of `redis-cli` as the documentation uses, for machines without one: the same arguments, replies as in a pipe.

``redis-cli [-u URL] [-x] COMMAND ARGUMENT…``; with ``-x`` the last argument is standard input.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import redis


def lines(reply: Any) -> list[str]:
    """A reply as redis-cli writes it where standard output is no terminal: one value a line."""
    match reply:
        case None:
            return [""]
        case bytes():
            return [reply.decode(errors="replace")]
        case list():
            return [line for one in reply for line in lines(one)]
        case _:
            return [str(reply)]


def main() -> int:
    """Send one command and print its reply."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-u", dest="url", default="redis://127.0.0.1:6379/0")
    parser.add_argument("-x", dest="from_input", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    words: list[bytes] = [word.encode() for word in given.command]
    if given.from_input:
        words.append(sys.stdin.buffer.read())
    with redis.Redis.from_url(given.url, socket_timeout=30, protocol=2) as client:
        client.response_callbacks.clear()
        try:
            reply = client.execute_command(*words)
        except redis.ResponseError as error:
            print(error)
            return 1
    print("\n".join(lines(reply)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

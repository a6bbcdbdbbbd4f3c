"""Commands as they go to Redis: packed here or by the client library's code, they are the same bytes."""

from __future__ import annotations

from typing import Any

import hiredis
import pytest

from firn.storage.redis_lines import LARGE_BYTES, packed


@pytest.mark.parametrize(
    "command",
    [
        ("PING",),
        ("XADD", "firn:intents:0", "*", "intent", b"{}"),
        ("EVALSHA", "0" * 40, 2, "firn:events", "schnee:häufig", b"\xff\x00\r\n" * LARGE_BYTES),
        ("SET", b"key", b"x" * (LARGE_BYTES - 1)),
        ("SET", b"key", b"x" * LARGE_BYTES),
    ],
)
def test_a_command_is_packed_as_the_client_library_packs_it(command: tuple[Any, ...]) -> None:
    assert packed(command) == hiredis.pack_command(command)

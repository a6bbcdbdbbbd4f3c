"""Messages through a pipe to another process and back, each behind its size."""

from __future__ import annotations

from typing import Any, Final

SIZE_BYTES: Final = 8
"""Of the number before each message, which says how long it is."""

MESSAGE_BYTES_MAX: Final = 1 << 30
"""No message is longer, unless the other side is something else."""


def put(stream: Any, *messages: bytes) -> None:
    """Write messages, each behind its size, at once: each call would wait for the interpreter afterwards."""
    stream.write(b"".join(part for message in messages for part in (len(message).to_bytes(SIZE_BYTES, "big"), message)))
    stream.flush()


def take(stream: Any) -> bytes | None:
    """Read a message that `put` wrote, None where the other side has ended. Raises ValueError for what is none."""
    head = stream.read(SIZE_BYTES)
    if len(head) < SIZE_BYTES:
        return None
    size = int.from_bytes(head, "big")
    if size > MESSAGE_BYTES_MAX:
        raise ValueError(f"a message of {size} bytes")
    message: bytes = stream.read(size)
    return message if len(message) == size else None

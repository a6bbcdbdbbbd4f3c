"""Has the compiled code, built with AddressSanitizer, read damaged lists: `damaging_program.py MODULE SEEDS COUNT`.

A program of its own, which needs nothing of firn. SEEDS is JSON, a list of lists in base64. Prints how many lists were
read and how many of them were taken.
"""

from __future__ import annotations

import base64
import ctypes
import importlib.util
import json
import random
import sys
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from typing import Any

PIECES = (
    *(bytes([sign]) for sign in b'019-+.e",:[]{}=\\ \0\x7f\xff'), b"null", b"9223372036854775808", b"AA==", b"],[",
    b'"keys":[', b'"values":[', b'"partition":[1],', b',"split-offsets":[',
)  # fmt: skip


def load(path: Path) -> Any:
    """The module's `read`."""
    name = "firn.storage.native.wire_files"
    spec = importlib.util.spec_from_file_location(name, path, loader=ExtensionFileLoader(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.read


class WatchedBytes:
    """A list behind which nothing may be read, not even the zero that Python puts behind all bytes."""

    def __init__(self) -> None:
        sanitizer = ctypes.CDLL(None)
        self._forbid = sanitizer["__asan_poison_memory_region"]
        self._allow = sanitizer["__asan_unpoison_memory_region"]
        self._forbid.argtypes = self._allow.argtypes = (ctypes.c_void_p, ctypes.c_size_t)

    def is_taken(self, read: Any, text: bytes) -> bool:
        """Whether the list is read."""
        zero = id(text) + bytes.__basicsize__ - 1 + len(text)
        self._forbid(zero, 1)
        try:
            return read(text, 0) is not None
        finally:
            self._allow(zero, 1)


def damaged(seeds: list[bytes], chance: random.Random) -> bytes:
    """A list to which a few things have happened."""
    text = chance.choice(seeds)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = chance.randrange(len(text) + 1)
        end = at + chance.choice((0, 1, 1, 2, 20, 200))
        match chance.randrange(6):
            case 0:
                text = text[:at] + bytes([chance.randrange(256)]) + text[at + 1 :]
            case 1:
                text = text[:at] + chance.choice(PIECES) + text[end:]
            case 2:
                text = text[:at] + text[end:]
            case 3:
                text = text[:end] + text[at:]
            case 4:
                other = chance.choice(seeds)
                text = text[:at] + other[chance.randrange(len(other)) :]
            case _:
                text = text[:at]
    return text


def main() -> None:
    """Read the seeds, all their beginnings, and then damaged ones."""
    read = load(Path(sys.argv[1]))
    seeds = [base64.b64decode(seed) for seed in json.loads(Path(sys.argv[2]).read_bytes())]
    chance = random.Random(1)
    lists = [*seeds, *(seed[:end] for seed in seeds for end in range(min(len(seed), 3_000)))]
    lists += [damaged(seeds, chance) for _ in range(int(sys.argv[3]))]
    watched = WatchedBytes()
    print(len(lists), sum(watched.is_taken(read, text) for text in lists))


if __name__ == "__main__":
    main()

"""The program that reads intents for a daemon: ``python -m … <socket> <shared memory> <rules>``.

The first two are descriptors, the third is JSON (`Rules`). See `firn.coordinator.intake.intent_reader`.
"""

from __future__ import annotations

import mmap
import sys

import msgspec

from firn.coordinator.intake.read_appends import Page, PageRead, Rules, encode_page, read_append
from firn.storage.companion_program import MESSAGE_BYTES_MAX, serving
from firn.storage.malloc_settings import give_freed_memory_back


def main() -> None:
    """Read page after page until there are no more."""
    give_freed_memory_back()
    rules = msgspec.json.decode(sys.argv[3], type=Rules)
    decoder, encoder = msgspec.msgpack.Decoder(Page), msgspec.msgpack.Encoder()
    with serving() as (connection, memory):
        while message := connection.recv(MESSAGE_BYTES_MAX):
            connection.send(encoder.encode(read_page(decoder.decode(message), memory, rules)))


def read_page(page: Page, memory: mmap.mmap, rules: Rules) -> PageRead:
    """Read the page's payloads, and put the answer in their place."""
    read, at = [], page.start
    for size in page.sizes:
        read.append(read_append(memory[at : at + size], rules))
        at += size
    answer = encode_page(read)
    if len(answer) > page.room:
        return PageRead(page.number, None)
    memory[page.start : page.start + len(answer)] = answer
    return PageRead(page.number, len(answer))


if __name__ == "__main__":
    main()

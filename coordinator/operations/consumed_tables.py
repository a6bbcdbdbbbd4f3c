"""Finding the table that consumers read, also after it was renamed."""

from __future__ import annotations

from typing import Final

from firn.model.consumer import TableConsumers
from firn.model.errors import NotFound
from firn.model.pointer import Pointer
from firn.storage.pointers import Pointers

RENAMES_FOLLOWED_MAX: Final = 8


async def pointer_of(found: TableConsumers, pointers: Pointers, *, anywhere: bool = True) -> Pointer | None:
    """Return the pointer of the table that has these consumers, also after it was renamed; None where there is none.

    It is looked for under its last known name, under those that this one was renamed to, and, if `anywhere`, under all.
    """
    name: str | None = found.table
    for _ in range(RENAMES_FOLLOWED_MAX):
        pointer = None if name is None else await pointer_at(name, pointers)
        if pointer is None:
            break
        if pointer.uuid == found.table_uuid and pointer.renamed_to is None:
            return pointer
        name = pointer.renamed_to
    for other in await pointers.list() if anywhere else ():
        pointer = await pointer_at(other, pointers)
        if pointer is not None and pointer.uuid == found.table_uuid and pointer.renamed_to is None:
            return pointer
    return None


async def pointer_at(name: str, pointers: Pointers) -> Pointer | None:
    """Return what a name points to; None where it points to nothing. Raises CorruptFile, Unavailable."""
    try:
        return (await pointers.read(name)).pointer
    except NotFound:
        return None

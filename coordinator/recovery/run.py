"""The whole recovery: what would be restored, and the restoring."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, Literal

import msgspec

from firn.coordinator.recovery.contents import Contents
from firn.coordinator.recovery.heads import AmbiguousJournalError, Certainty, Head, Heads, Witness
from firn.coordinator.recovery.journals import Journals, find_segments, read_journals
from firn.coordinator.recovery.pointers import pointer_of
from firn.coordinator.tables.table_reader import TableReader
from firn.model.errors import AlreadyExists, CorruptFile, InvalidInput, NotFound, Unavailable
from firn.model.limits import Limits
from firn.storage.files import FileStore
from firn.storage.intent_streams import TablePlace
from firn.storage.journal import JournalFiles
from firn.storage.pause_notes import PauseNotes
from firn.storage.pauses import Pauses
from firn.storage.pointers import Lost, Pointer, PointerChange, Pointers, Won

ANNOUNCED_AT_ONCE: Final = 500

Finding = Literal["restore", "exists", "nothing", "damaged"]
"""``nothing``: the name was never committed to. ``damaged``: its pointer cannot be made from what is there."""


class Found(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """One name and what is to become of it. `passed_over` are segments that were written and not committed."""

    table: str
    finding: Finding
    pointer: Pointer | None = None
    certainty: Certainty | None = None
    evidence: tuple[str, ...] = ()
    journal_number: int | None = None
    passed_over: tuple[str, ...] = ()
    trouble: str | None = None


class Survey(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Everything that was found. `torn` segment files are no whole segments, `copies` lie elsewhere than written."""

    segments: int
    torn: dict[str, str]
    copies: tuple[str, ...]
    tables: tuple[Found, ...]


class Storage:
    """Table storage, as recovery reads it."""

    def __init__(self, files: FileStore, *, limits: Limits) -> None:
        self.files = files
        self.journal = JournalFiles(files, bytes_max=limits.journal_bytes_max)
        self.pause_notes = PauseNotes(files)
        self.contents = Contents(
            files, reader=TableReader(files, limits=limits), metadata_bytes_max=limits.metadata_bytes_max
        )

    def journals(self, places: Iterable[str]) -> Journals:
        """All journals below these places; blocking. Raises Unavailable."""
        return read_journals(sorted(find_segments(self.files, places)), self.journal)


def survey(storage: Storage, journals: Journals, *, existing: Collection[str], witness: Witness) -> Survey:
    """Decide for every name; `existing` have a pointer, which is never touched. Blocking. Raises Unavailable."""
    heads = Heads(journals, journal=storage.journal, contents=storage.contents, witness=witness)
    found = [
        Found(table=name, finding="exists") if name in existing else _found(name, heads, storage, journals)
        for name in journals.by_name
    ]
    return Survey(segments=len(journals.by_key), torn=journals.torn, copies=journals.copies, tables=tuple(found))


def _found(name: str, heads: Heads, storage: Storage, journals: Journals) -> Found:
    try:
        head = heads.of(name)
        if head.link is None:
            return Found(table=name, finding="nothing", evidence=head.evidence, passed_over=_passed_over(head))
        pointer = pointer_of(head.link, journals=journals, journal=storage.journal, contents=storage.contents)
    except (AmbiguousJournalError, CorruptFile, InvalidInput, NotFound) as error:
        return Found(table=name, finding="damaged", trouble=str(error))
    missing = storage.contents.what_is_missing(head.link)
    if missing is not None:
        return Found(table=name, finding="damaged", trouble=f"{head.link.location} was committed, but: {missing}")
    if not pointer.dropped:
        paused = storage.pause_notes.newest(pointer.location, name)
        pointer = msgspec.structs.replace(pointer, paused=paused)
    return Found(
        table=name, finding="restore", pointer=pointer, certainty=head.certainty, evidence=head.evidence,
        journal_number=head.link.batch.sequence, passed_over=_passed_over(head),
    )  # fmt: skip


def _passed_over(head: Head) -> tuple[str, ...]:
    return tuple(link.location for link in head.passed_over)


async def restore(pointers: Pointers, pauses: Pauses, pointer: Pointer) -> None:
    """Make a pointer that is not there, and the pause that it is marked with.

    Raises AlreadyExists when there is one by now, Unavailable.
    """
    if pointer.paused is not None:
        await pauses.note(pointer.table, pointer.paused)
    change = PointerChange(table=pointer.table, pointer=pointer, expected=None)
    outcome = await pointers.swap([change], leases=())
    if isinstance(outcome, Won):
        return
    if isinstance(outcome, Lost) and (await pointers.read(pointer.table)).pointer != pointer:
        raise AlreadyExists(f"{pointer.table!r} has a pointer by now: it is left as it is")
    if not isinstance(outcome, Lost):
        raise Unavailable(f"whether the pointer of {pointer.table!r} was made is not known: recover --missing-only")


def places_of(pointers: Sequence[Pointer]) -> dict[str, bytes | None]:
    """What Redis tells writers of where tables are."""
    return {
        pointer.table: None if pointer.dropped else msgspec.json.encode(
            TablePlace(table_uuid=pointer.uuid, metadata_location=pointer.metadata_location, kind=pointer.kind)
        )
        for pointer in pointers
    }  # fmt: skip

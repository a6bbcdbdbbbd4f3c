"""The whole recovery: what would be restored, and the restoring."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from firn.coordinator.recovery.contents import Contents
from firn.coordinator.recovery.heads import AmbiguousJournalError, Certainty, Head, Heads, Witness
from firn.coordinator.recovery.journals import Journals, Link, find_segments, read_journals
from firn.coordinator.recovery.pointers import pointer_of
from firn.coordinator.tables.table_reader import TableReader
from firn.model.amounts import plural
from firn.model.errors import AlreadyExists, CorruptFile, InvalidInput, NotFound, Unavailable
from firn.model.limits import Limits
from firn.model.progress import Progress, counted, unseen
from firn.storage.files import FileStore
from firn.storage.intent_streams import TablePlace
from firn.storage.journal import JournalFiles, is_same_segment, sequence_of
from firn.storage.leases import Lease
from firn.storage.pause_notes import PauseNotes
from firn.storage.pauses import Pauses
from firn.storage.pointers import Lost, Pointer, PointerChange, Pointers, Won

ANNOUNCED_AT_ONCE: Final = 500

Finding = Literal["restore", "exists", "stale", "split", "nothing", "damaged"]
"""``stale``: its pointer is older than its journal. ``split``: its pointer leads to one of the name's several journals.
``nothing``: the name was never committed to. ``damaged``: its pointer cannot be made from what is there."""


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

    def journals(self, places: Iterable[str], *, progress: Progress = unseen) -> Journals:
        """All journals below these places; blocking. Raises Unavailable."""
        found = counted(find_segments(self.files, places), "journal segment", total=None, progress=progress)
        return read_journals(sorted(found), self.journal, progress=progress)


def survey(
    storage: Storage,
    journals: Journals,
    *,
    existing: Collection[str],
    witness: Witness,
    pointers: Mapping[str, Pointer] | None = None,
    progress: Progress = unseen,
) -> Survey:
    """Decide for every name. Blocking. Raises Unavailable.

    `existing` have a pointer; it is compared with the journal where it is in `pointers`, and else never touched.
    """
    heads = Heads(journals, journal=storage.journal, contents=storage.contents, witness=witness)
    known, found = pointers or {}, []
    for name in counted(journals.by_name, "table", total=len(journals.by_name), progress=progress):
        if name not in existing:
            found.append(_found(name, heads, storage, journals))
        elif name in known:
            found.append(_compared(known[name], heads, storage, journals))
        else:
            found.append(Found(table=name, finding="exists"))
    return Survey(segments=len(journals.by_key), torn=journals.torn, copies=journals.copies, tables=tuple(found))


def of_uuid(journals: Journals, name: str, uuid: str) -> Journals:
    """The journals with only that one of a name's which goes on with the table of this uuid."""
    links = [link for link in journals.by_name.get(name, []) if link.batch.table_uuid == uuid]
    chain: dict[str, Link] = {}
    for link in links:
        before: Link | None = link
        while before is not None and before.key not in chain:
            chain[before.key] = before
            named = before.batch.previous_segment
            before = None if named is None else journals.find(named)
    of_name = [link for link in chain.values() if link.batch.table == name]
    kept = {key: link for key, link in journals.by_key.items() if link.batch.table != name or key in chain}
    by_name = {other: found for other, found in journals.by_name.items() if other != name}
    return Journals(
        by_name={**by_name, **({name: of_name} if of_name else {})}, by_key=kept, torn=journals.torn,
        copies=journals.copies,
    )  # fmt: skip


def _compared(pointer: Pointer, heads: Heads, storage: Storage, journals: Journals) -> Found:
    """Whether a pointer is where its journal is; a file-system table goes by its files, which are newer at times."""
    name, head = pointer.table, pointer.journal_head
    if (pointer.catalog == "file-system" and not pointer.dropped) or head is None:
        return Found(table=name, finding="exists")
    try:
        newest = heads.of(name)
    except (AmbiguousJournalError, CorruptFile, InvalidInput, NotFound) as error:
        newest, trouble = None, str(error)
    if newest is not None:
        if newest.link is None or is_same_segment(newest.link.location, head):
            return Found(table=name, finding="exists")
        steps = _steps_to(newest.link, head, journals)
        if steps is not None:
            found = _found(name, heads, storage, journals)
            if found.finding != "restore":
                return found
            finding: Finding = "stale" if steps > 1 or newest.certainty == "proven" else "exists"
            at = f"the pointer is at segment {sequence_of(head)}, {plural(steps, 'segment')} behind"
            return msgspec.structs.replace(found, finding=finding, evidence=(at, *found.evidence))
        if (own := journals.find(head)) is not None and own.batch.sequence >= newest.link.batch.sequence:
            follows = is_same_segment(own.batch.previous_segment, newest.link.location)
            if follows:  # the newest number is void by its files, and was swapped in all the same
                return Found(table=name, finding="exists")
        trouble = f"its pointer names {head}, which is in another journal than {newest.link.location}"
    uuids: dict[str, int] = {}
    for link in journals.by_name[name]:
        uuids[link.batch.table_uuid] = uuids.get(link.batch.table_uuid, 0) + 1
    if len(uuids) < 2:
        return Found(table=name, finding="exists", trouble=trouble)
    listed = ", ".join(
        f"{uuid} ({plural(count, 'segment')}{'; has the name' if uuid == pointer.uuid else ''})"
        for uuid, count in uuids.items()
    )
    return Found(
        table=name, finding="split",
        trouble=f"several tables have had the name, and none follows the other: {listed}. firn recover {name} --uuid "
        f"UUID --yes gives the name to one of them; {trouble}",
    )  # fmt: skip


def _steps_to(link: Link, head: str, journals: Journals) -> int | None:
    """How many segments a journal's newest one is ahead of `head`; None where it does not follow from that."""
    steps, at = 0, link
    while not is_same_segment(at.location, head):
        named = at.batch.previous_segment
        if named is None:
            return None
        steps += 1
        if is_same_segment(named, head):
            return steps
        before = journals.find(named)
        if before is None:
            return None
        at = before
    return steps


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


async def replace(pointers: Pointers, pointer: Pointer, *, expected: int, lease: Lease) -> None:
    """Set a pointer that is older than its journal, or leads to another one, under the table's lock.

    Raises AlreadyExists when it was moved meanwhile, Unavailable.
    """
    change = PointerChange(table=pointer.table, pointer=pointer, expected=expected)
    outcome = await pointers.swap([change], leases=[lease])
    if isinstance(outcome, Lost):
        raise AlreadyExists(f"the pointer of {pointer.table!r} was moved meanwhile: look again with firn recover")
    if not isinstance(outcome, Won):
        raise Unavailable(f"whether the pointer of {pointer.table!r} was set is not known: run it again")


def places_of(pointers: Sequence[Pointer]) -> dict[str, bytes | None]:
    """What Redis tells writers of where tables are."""
    return {
        pointer.table: None if pointer.dropped else msgspec.json.encode(
            TablePlace(table_uuid=pointer.uuid, metadata_location=pointer.metadata_location, kind=pointer.kind)
        )
        for pointer in pointers
    }  # fmt: skip

"""The whole check of one table."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from firn.coordinator.fsck.all_or_nothing import PointerOf, all_or_nothing
from firn.coordinator.fsck.content_agrees import content_agrees, files_agree
from firn.coordinator.fsck.contents import Contents, file_sizes, read_contents
from firn.coordinator.fsck.evidence import gather
from firn.coordinator.fsck.exactly_once import exactly_once
from firn.coordinator.fsck.finding import INVARIANTS, Finding, InvariantName
from firn.coordinator.fsck.linear_history import linear_history
from firn.coordinator.fsck.no_doubles import no_doubles
from firn.coordinator.fsck.nothing_missing import nothing_missing, reachable_files
from firn.coordinator.fsck.pointer_age import pointer_age
from firn.coordinator.fsck.sound_entries import puffin_files, sound_entries
from firn.coordinator.fsck.view_history import ViewHistory
from firn.coordinator.tables.table_reader import TableReader
from firn.model.limits import Limits
from firn.model.progress import Progress, unseen
from firn.storage.files import FileStore
from firn.storage.journal import JournalFiles
from firn.storage.pointers import Pointer

TRIES_MAX = 3
"""A table that moves while it is checked may seem broken (an expired file is gone): then it is looked at again."""


class Checked(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """How much of a table was looked at."""

    segments: int
    intents: int
    versions: int
    snapshots: int
    manifests: int
    files: int


class Verdict(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What fsck says of one table."""

    table: str
    checked: Checked
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether everything holds."""
        return not self.findings

    def of(self, invariant: InvariantName) -> tuple[Finding, ...]:
        """The breaches of one invariant."""
        return tuple(finding for finding in self.findings if finding.invariant == invariant)


def check_table(
    pointer: Pointer, *, files: FileStore, limits: Limits, deep: bool = False, pointer_of: PointerOf | None = None,
    progress: Progress = unseen,
) -> Verdict:  # fmt: skip
    """Check everything that can be checked of a table or view from what is stored; `deep` opens data files, too.

    With `pointer_of` (pointers of other tables, by name) its transactions are looked for in the others' journals.
    `progress` is called for each segment, version, snapshot and file as it is read.
    A dropped table's journal is checked, and not its files, which may be gone for good reasons. Blocking. Raises
    Unavailable when a store does not answer.
    """
    reader = TableReader(files, limits=limits)
    journal = JournalFiles(files, bytes_max=limits.journal_bytes_max)
    evidence = gather(pointer, reader=reader, journal=journal, progress=progress)
    current = evidence.current
    contents = Contents(snapshots={}, findings=())
    findings = [*evidence.findings]
    if current is not None:
        contents = read_contents(current, files, limits=limits, progress=progress)
        sizes = file_sizes(files, reachable_files(current, contents), progress=progress)
        findings += contents.findings
        findings += content_agrees(current, contents, sizes)
        findings += nothing_missing(current, contents, sizes)
        findings += no_doubles(current, contents)
        findings += sound_entries(current, contents, at=pointer.metadata_location)
        findings += puffin_files(current, contents, sizes, files)
        if deep:
            findings += files_agree(contents, sizes, files, progress=progress)
    view = ViewHistory(pointer, evidence.segments, reader=reader)
    findings += view.findings
    findings += linear_history(evidence)
    findings += pointer_age(pointer, files=files, journal=journal)
    findings += exactly_once(evidence, contents)
    if pointer_of is not None:
        findings += all_or_nothing(evidence, pointer_of=pointer_of, journal=journal)
    return Verdict(
        table=pointer.table,
        checked=Checked(
            segments=len(evidence.segments),
            intents=sum(len(segment.decided) for segment in evidence.segments),
            versions=len(evidence.versions) + view.files,
            snapshots=0 if current is None else len(current.snapshots),
            manifests=contents.manifests,
            files=len(contents.live_files()),
        ),
        findings=tuple(sorted(findings, key=lambda finding: list(INVARIANTS).index(finding.invariant))),
    )


def check_moving_table(read_pointer: Callable[[], Pointer], check: Callable[[Pointer], Verdict]) -> Verdict:
    """`check` a table that may move meanwhile: breaches count when it stood still, or again and again."""
    pointer = read_pointer()
    for _ in range(TRIES_MAX - 1):
        verdict = check(pointer)
        now = read_pointer() if verdict.findings else pointer
        if now == pointer:
            return verdict
        pointer = now
    return check(pointer)

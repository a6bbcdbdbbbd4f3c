"""Every committed intent is in the table exactly once, and is decided once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from firn.coordinator.fsck.contents import Contents
from firn.coordinator.fsck.evidence import Evidence, Version
from firn.coordinator.fsck.finding import Finding
from firn.model.amounts import plural
from firn.model.ancestry import ancestors_of
from firn.model.effects import effects_on
from firn.model.intent import OPERATIONS, Append, DeleteFiles, Replace
from firn.model.journal import Checkpoint, Segment
from firn.model.manifest import Status
from firn.model.metadata import TableMetadata
from firn.storage.journal import is_same_segment
from firn.storage.locations import canonical

MAKING_SNAPSHOTS: Final = frozenset({OPERATIONS[Append], OPERATIONS[DeleteFiles], OPERATIONS[Replace]})
"""Operations that always become a new snapshot. Others may be told of one that was there before: a table that is taken
over brings its own along, a reference is set to one."""


def exactly_once(evidence: Evidence, contents: Contents) -> Iterator[Finding]:
    """Breaches, as far as journal, versions and manifests reach back."""
    yield from _decided_once(evidence.segments)
    if evidence.journal_complete:
        yield from _checkpoints_remember(evidence.segments)
    yield from _snapshots_answer_intents(evidence)
    if evidence.current is not None:
        if evidence.journal_complete:
            yield from _snapshots_are_journaled(evidence, evidence.current)
        yield from _files_added_once(evidence.current, contents)


def _decided_once(segments: Sequence[Segment]) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for segment in segments:
        for decided in segment.decided:
            before = first.setdefault(decided.intent_id, segment.location)
            if decided.outcome.intent_id != decided.intent_id:
                yield _finding(
                    segment.location, f"intent {decided.intent_id} has the outcome of {decided.outcome.intent_id}"
                )
            if before is not segment.location:
                yield _finding(segment.location, f"intent {decided.intent_id} was decided before, in {before}")
        twice = [name for name, count in Counter(d.intent_id for d in segment.decided).items() if count > 1]
        if twice:
            yield _finding(segment.location, f"intent {twice[0]} is decided twice")


def _checkpoints_remember(segments: Sequence[Segment]) -> Iterator[Finding]:
    """A checkpoint that forgets an intent lets a late duplicate of it be committed again."""
    since: dict[str, str] = {}
    last: str | None = None
    for segment in segments:
        since.update((decided.intent_id, decided.digest) for decided in segment.decided)
        if not is_same_segment(segment.batch.previous_checkpoint, last):
            yield _finding(
                segment.location, f"names {segment.batch.previous_checkpoint} as the last checkpoint, which is {last}"
            )
        if segment.checkpoint is not None:
            yield from _checkpoint(segment, segment.checkpoint, since)
            since, last = {}, segment.location


def _checkpoint(segment: Segment, checkpoint: Checkpoint, since: Mapping[str, str]) -> Iterator[Finding]:
    listed = {intent_id: digest for intent_id, digest, _ in checkpoint.intents}
    forgotten = since.keys() - listed.keys()
    if forgotten:
        yield _finding(
            segment.location, f"its checkpoint forgets {plural(len(forgotten), 'intent')}, first {min(forgotten)}"
        )
    other = [intent_id for intent_id, digest in listed.items() if since.get(intent_id, digest) != digest]
    if other:
        yield _finding(segment.location, f"its checkpoint has another digest for intent {other[0]}")


def _snapshots_answer_intents(evidence: Evidence) -> Iterator[Finding]:
    """Each swap added exactly the snapshots that its committed intents were told, and none was told twice."""
    versions = {version.location: version for version in evidence.versions if version.compared}
    told: dict[int, str] = {}
    for segment in evidence.segments:
        claims, made = _claims(segment)
        for snapshot_id in made:
            before = told.setdefault(snapshot_id, segment.location)
            if before != segment.location:
                yield _finding(segment.location, f"snapshot {snapshot_id} was committed before, in {before}")
        moved = segment.batch.new_metadata not in (None, segment.batch.base_metadata)
        if made and not moved:
            yield _finding(segment.location, f"{plural(len(made), 'snapshot')} committed, and the table did not change")
        version = versions.get(segment.batch.new_metadata or "")
        if version is not None and version.base is not None and moved:
            yield from _version_answers(version, claims, made)


def _version_answers(version: Version, claims: Mapping[int, _Claims], made: set[int]) -> Iterator[Finding]:
    added = {snapshot.snapshot_id: snapshot for snapshot in version.new_snapshots}
    for snapshot_id in made - added.keys():
        yield _finding(version.location, f"snapshot {snapshot_id}, which intents were told, is not in it")
    for snapshot_id in added.keys() - claims.keys():
        yield _finding(version.location, f"adds snapshot {snapshot_id}, which no intent of its batch made")
    for snapshot_id in added.keys() & claims.keys():
        stated = (added[snapshot_id].summary or {}).get("firn.intents")
        if stated is not None and stated != str(claims[snapshot_id].makers):
            yield _finding(
                version.location,
                f"snapshot {snapshot_id} says that it answers {stated}, and "
                f"{plural(claims[snapshot_id].makers, 'intent')} had it as an answer",
            )


class _Claims(msgspec.Struct):
    """The intents of a batch that were told one snapshot: those that are certain to have made it, and others."""

    certain: int = 0
    others: int = 0

    @property
    def makers(self) -> int:
        """How many of them it is made for. Others have moved a branch to it, or had nothing to do when it was there."""
        return self.certain or min(self.others, 1)


def _claims(segment: Segment) -> tuple[dict[int, _Claims], set[int]]:
    """The intents that were told each snapshot, and the snapshots that must be new with this swap."""
    claims: dict[int, _Claims] = {}
    made: set[int] = set()
    for decided in segment.decided:
        for effect in effects_on(segment.batch.table, decided):
            for snapshot_id in effect.snapshot_ids:
                claim = claims.setdefault(snapshot_id, _Claims())
                if effect.operation in MAKING_SNAPSHOTS:
                    claim.certain += 1
                    made.add(snapshot_id)
                else:
                    claim.others += 1
    return claims, made


def _snapshots_are_journaled(evidence: Evidence, current: TableMetadata) -> Iterator[Finding]:
    first = next((version for version in reversed(evidence.versions) if version.base is None), None)
    if first is None:
        return  # what the table had when it came here cannot be told from what was added since
    brought = {snapshot.snapshot_id for snapshot in first.new_snapshots}
    batches = {segment.batch.batch for segment in evidence.segments}
    for snapshot in current.snapshots:
        batch = (snapshot.summary or {}).get("firn.batch-id")
        if batch is not None and batch not in batches and snapshot.snapshot_id not in brought:
            yield _finding(
                f"snapshot {snapshot.snapshot_id}", f"says that batch {batch} made it, which is not in the journal"
            )


def _files_added_once(current: TableMetadata, contents: Contents) -> Iterator[Finding]:
    """On the way to each branch's head, a file is only added again after it was removed."""
    reported: set[str] = set()
    for ref in current.refs.values():
        if ref.type != "branch":
            continue
        present: dict[str, int] = {}
        for snapshot in reversed(list(ancestors_of(current, ref.snapshot_id))):
            added, removed = _changes(contents, snapshot.snapshot_id)
            for path in removed:
                present.pop(path, None)
            for path in added:
                before = present.setdefault(path, snapshot.snapshot_id)
                if before != snapshot.snapshot_id and path not in reported:
                    reported.add(path)
                    yield _finding(path, f"added by snapshot {before}, and again by {snapshot.snapshot_id}")


def _changes(contents: Contents, snapshot_id: int) -> tuple[list[str], list[str]]:
    """The canonical names of the files that the snapshot itself added and removed."""
    added, removed = [], []
    for listed in contents.snapshots.get(snapshot_id, ()):
        if listed.manifest.added_snapshot_id != snapshot_id or listed.manifest.content != "data":
            continue
        for fact in listed.facts or ():
            if fact.snapshot_id == snapshot_id and fact.status is Status.ADDED:
                added.append(canonical(fact.path))
            elif fact.snapshot_id == snapshot_id and fact.status is Status.DELETED:
                removed.append(canonical(fact.path))
    return added, removed


def _finding(where: str, message: str) -> Finding:
    return Finding(invariant="exactly-once", where=where, message=message)

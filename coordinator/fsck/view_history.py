"""Views: every version stays what it was, and the log tells one history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firn.coordinator.fsck.finding import Finding
from firn.coordinator.tables.table_reader import TableReader
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.journal import Segment
from firn.model.view import VersionLogEntry, ViewMetadata
from firn.storage.pointers import Pointer


class ViewHistory:
    """The metadata files of a view, oldest first, and what is wrong with them. Raises Unavailable."""

    def __init__(self, pointer: Pointer, segments: Sequence[Segment], *, reader: TableReader) -> None:
        self._reader = reader
        self.files = 0
        self.findings: list[Finding] = []
        self._check(pointer, segments)

    def _check(self, pointer: Pointer, segments: Sequence[Segment]) -> None:
        before: ViewMetadata | None = None
        for segment in segments:
            batch = segment.batch
            if batch.kind != "view" or batch.new_metadata in (None, batch.base_metadata):
                continue
            assert batch.new_metadata is not None
            current = not pointer.dropped and batch.new_metadata == pointer.metadata_location
            view = self._read(batch.new_metadata, needed=current, digest=pointer.digest if current else None)
            if view is not None and before is not None and batch.base_metadata is not None:
                self.findings += _follows(before, view, where=batch.new_metadata)
            if view is not None and view.view_uuid != batch.table_uuid:
                self._found(batch.new_metadata, f"is of view {view.view_uuid}, the journal says {batch.table_uuid}")
            before = view

    def _read(self, location: str, *, needed: bool, digest: str | None) -> ViewMetadata | None:
        """A metadata file; an old one that is gone is nobody's loss."""
        try:
            view = self._reader.view(location, digest=digest)
        except NotFound:
            if needed:
                self.findings.append(
                    Finding(invariant="nothing-missing", where=location, message="the metadata file is gone")
                )
            return None
        except (CorruptFile, InvalidInput) as error:
            if needed:
                self.findings.append(Finding(invariant="content-agrees", where=location, message=str(error)))
            return None
        self.files += 1
        return view

    def _found(self, where: str, message: str) -> None:
        self.findings.append(Finding(invariant="linear-history", where=where, message=message))


def _follows(before: ViewMetadata, after: ViewMetadata, *, where: str) -> Iterator[Finding]:
    """Versions never change; the log goes on where it was, but for what was let go of at its beginning."""
    known = {version.version_id: version for version in before.versions}
    changed = [one.version_id for one in after.versions if known.get(one.version_id, one) != one]
    if changed:
        yield Finding(
            invariant="linear-history", where=where, message=f"changes version {changed[0]}, which was committed"
        )
    times = [entry.timestamp_ms for entry in after.version_log]
    if times != sorted(times):
        yield Finding(invariant="linear-history", where=where, message="its version log runs backwards")
    last = before.current_version
    if before.version_log and last in after.versions and not _goes_on(before.version_log, after.version_log):
        yield Finding(
            invariant="linear-history",
            where=where,
            message=f"its version log does not go on from version {last.version_id}, which was current",
        )


def _goes_on(before: Sequence[VersionLogEntry], after: Sequence[VersionLogEntry]) -> bool:
    """Whether the log begins with the end of the one before it."""
    shared = range(1, min(len(before), len(after)) + 1)
    return any(tuple(after[:count]) == tuple(before[-count:]) for count in shared)

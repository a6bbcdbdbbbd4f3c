"""Reading which rows deletes are of: deletion vectors and position delete files, within the limits of one intent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeVar

from firn.coordinator.replay import rules
from firn.coordinator.replay.head import Head
from firn.coordinator.replay.live_deletes import DeleteKey, delete_key
from firn.coordinator.replay.working import Working
from firn.model.datafile import DataFile
from firn.model.deletion_vector import DeletionVector, from_blob
from firn.model.errors import CorruptFile, InvalidInput, NotFound

DELETES_READ_MAX: Final = 10_000
"""Deletion vectors and position delete files that are read for one intent."""

DELETE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes of them, as they are read."""

NOTHING: Final = DeletionVector.of(())

_Read = TypeVar("_Read")


class DeletedPositions:
    """Positions by data file. Each delete file is read once, and counted against the limits of the intent."""

    def __init__(self, working: Working) -> None:
        self._working = working
        self._vectors: dict[DeleteKey, DeletionVector] = {}
        self._positions: dict[DeleteKey, Mapping[str, DeletionVector]] = {}
        self._bytes = 0

    def own(self, file: DataFile, data_file: str) -> DeletionVector:
        """What a delete file of the intent deletes from a data file; one that cannot be read is its writer's mistake.

        Prevents: a delete file in the table that fails every scan.
        """
        return self._own(file, lambda: self._of(file, data_file))

    def named_by_own(self, file: DataFile) -> tuple[str, ...]:
        """The data files that a position delete file of the intent names."""
        return self._own(file, lambda: tuple(self._of_file(file)))

    def stored(self, file: DataFile, data_file: str) -> DeletionVector:
        """What a delete file of the table deletes from a data file; one that is damaged raises, as the table is.

        Refuses `unknown-base` for one that is not live any more, and that has been removed.
        """
        try:
            return self._of(file, data_file)
        except NotFound as error:
            if any(head.deletes is not None and head.deletes.get(delete_key(file)) for head in self._heads()):
                raise
            rules.UNKNOWN_BASE.refuse(
                f"deletes that came to {data_file} after the intent was planned cannot be looked at any more: {error}",
                files=(file.file_path,),
            )
        except InvalidInput as error:
            rules.MERGE_TOO_LARGE.refuse(str(error), files=(file.file_path,))

    def _heads(self) -> Collection[Head]:
        return self._working.heads.values()

    def _own(self, file: DataFile, read: Callable[[], _Read]) -> _Read:
        try:
            return read()
        except (CorruptFile, NotFound) as error:
            rules.INVALID_DELETE_FILE.refuse(f"{file.file_path}: {error}", files=(file.file_path,))
        except InvalidInput as error:
            rules.MERGE_TOO_LARGE.refuse(str(error), files=(file.file_path,))

    def _of(self, file: DataFile, data_file: str) -> DeletionVector:
        if not file.is_deletion_vector:
            return self._of_file(file).get(data_file, NOTHING)
        return self._vector(file) if file.referenced_data_file == data_file else NOTHING

    def _vector(self, file: DataFile) -> DeletionVector:
        key = delete_key(file)
        if key not in self._vectors:
            self._count_in(file, file.content_size_in_bytes or 0)
            drafted = self._working.drafted_files.get(file.file_path)
            if drafted is None:
                self._vectors[key] = self._working.reader.deletion_vector(file)
            else:  # merged for another intent of this very batch
                start, length = file.content_offset or 0, file.content_size_in_bytes or 0
                blob = drafted[start : start + length]
                self._vectors[key] = from_blob(blob, location=file.file_path, cardinality=file.record_count)
        return self._vectors[key]

    def _of_file(self, file: DataFile) -> Mapping[str, DeletionVector]:
        key = delete_key(file)
        if key not in self._positions:
            self._count_in(file, file.file_size_in_bytes)
            self._positions[key] = self._working.reader.position_deletes(file)
        return self._positions[key]

    def _count_in(self, file: DataFile, size: int) -> None:
        self._bytes += size
        if len(self._vectors) + len(self._positions) >= DELETES_READ_MAX or self._bytes > DELETE_BYTES_MAX:
            rules.MERGE_TOO_LARGE.refuse(
                f"more than {DELETES_READ_MAX} delete files or {DELETE_BYTES_MAX} bytes of them are to be compared",
                files=(file.file_path,),
            )

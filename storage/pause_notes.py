"""A note of a table's pause beside its journal: what is left to know of it when ZooKeeper was lost.

Nobody goes by it while ZooKeeper has the pause. It is written after the table is paused and removed after it is
resumed, so a note that was left over says of a table that it is paused when it is not, which is the safe way round.
Notes are files of their own, never overwritten; the newest counts.
"""

from __future__ import annotations

from typing import Final

import msgspec

from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.pause import Pause
from firn.storage.files import FileStore
from firn.storage.journal import JOURNAL_FOLDER, JOURNAL_FOLDERS

NOTES_FOLDER: Final = f"{JOURNAL_FOLDER}/paused"
NOTES_FOLDERS: Final = tuple(f"{folder}/paused" for folder in JOURNAL_FOLDERS)
"""Earlier versions of firn wrote notes into the old folder."""

NOTE_BYTES_MAX: Final = 65_536


class PauseNote(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The content of a note: the name that was paused, since tables may be renamed, and copied with their folder."""

    table: str
    pause: Pause


class PauseNotes:
    """Notes by table folder. Synchronous, for worker threads; raises as the store does."""

    def __init__(self, files: FileStore) -> None:
        self._files = files

    def write(self, location: str, table: str, pause: Pause, *, token: str) -> None:
        """Note a pause of the table in the folder `location`; `token` tells notes of the same millisecond apart."""
        note = msgspec.json.format(msgspec.json.encode(PauseNote(table=table, pause=pause)))
        self._files.create(f"{location}/{NOTES_FOLDER}/{pause.since_ms:013d}-{token}.json", note)

    def remove(self, location: str) -> None:
        """Remove all notes of the folder."""
        for name in self._names(location):
            self._files.delete(name)

    def newest(self, location: str, table: str) -> Pause | None:
        """The newest pause that is noted of a table; None when there is none. What is no note says nothing."""
        for name in reversed(self._names(location)):
            try:
                note = msgspec.json.decode(self._files.read(name, bytes_max=NOTE_BYTES_MAX), type=PauseNote)
            except (NotFound, CorruptFile, InvalidInput, msgspec.MsgspecError):
                continue
            if note.table == table:
                return note.pause
        return None

    def _names(self, location: str) -> list[str]:
        """Return the notes of both folders, oldest first: their file names begin with the time."""
        listed = (one.location for folder in NOTES_FOLDERS for one in self._files.list(f"{location}/{folder}"))
        return sorted((one for one in listed if one.endswith(".json")), key=lambda one: one.rpartition("/")[2])

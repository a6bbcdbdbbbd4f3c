"""Removing metadata files that commits have replaced, beside the commit path.

A table that sets ``write.metadata.delete-after-commit.enabled``, as new ones do, keeps as many replaced files as its
metadata log names. What drops out of the log goes `Limits.replaced_metadata_ms` later, because a reader that has just
read a pointer opens the file by then. Only names that firn gives, in the table's own folder, are removed. A file that
cannot be removed is tried again; what a daemon leaves behind when it ends, or does not hear of because a swap's answer
was lost, is found with the next swap, in the logs of the files that are still there.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from firn.coordinator.lanes.lane_threads import Run
from firn.model.errors import CorruptFile, FirnError, InvalidInput, NotFound, Unavailable
from firn.model.limits import Limits
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import dropped_metadata_files
from firn.model.snapshot import MetadataLogEntry
from firn.model.table_properties import GC_ENABLED, METADATA_DELETE_AFTER_COMMIT
from firn.storage.files import FileStore
from firn.storage.log import get_logger
from firn.storage.metadata_files import decompressed

PAUSE_S: Final = 2.0
"""Between two looks at what is due."""

AT_ONCE: Final = 64
"""Files that are removed in one go, so that the turn of others comes."""

SEARCHES_AT_ONCE: Final = 20
"""Tables whose leftovers are looked for before others' files go."""

RETRY_S: Final = 60.0
"""After this pause a removal that failed is tried again."""

WAITING_MAX: Final = 500_000
"""Files that wait to be removed, of all tables. Past it `firn maintain run` finds the others."""

TABLES_KNOWN_MAX: Final = 10_000
"""Tables whose leftovers have been looked for; the oldest are forgotten, and looked at again."""

MISSING_MAX: Final = 8
"""After so many files in a row that are gone the older ones are, too: they are removed from the oldest on."""

LEFT_MAX: Final = 100_000
"""Leftovers of one table that are looked for."""

_OWN_NAME: Final = re.compile(
    r"[0-9]{5,18}-[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}(?:\.gz)?\.metadata\.json"
)
"""What firn calls a metadata file: its version, and the attempt that wrote it. Others use random ids."""


class _Waiting(msgspec.Struct, frozen=True):
    """A file that may go from `due_s` on, by the monotonic clock."""

    due_s: float
    location: str


class _Logged(msgspec.Struct, frozen=True, rename="kebab"):
    """What the search for leftovers reads of a metadata file."""

    table_uuid: str
    metadata_log: tuple[MetadataLogEntry, ...] = ()


class ReplacedMetadata:
    """Metadata files of all tables that wait to be removed. All methods but `run` return at once.

    `on_removed` is called with how many files are gone.
    """

    def __init__(
        self,
        files: FileStore,
        *,
        limits: Limits,
        run: Run,
        on_removed: Callable[[int], None] = lambda _: None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = files
        self._limits = limits
        self._run = run
        self._on_removed = on_removed
        self._clock_s = clock_s
        self._waiting: deque[_Waiting] = deque()
        self._known: OrderedDict[str, str | None] = OrderedDict()
        """By table uuid, the newest file in the log after the last swap that this daemon has taken note of."""
        self._unseen: deque[TableMetadata] = deque(maxlen=TABLES_KNOWN_MAX)
        """Tables whose leftovers are yet to be looked for, as they were before their first commit here."""
        self._retry_at_s = float("-inf")
        self._log = get_logger()

    @property
    def waiting(self) -> int:
        """Files that wait to be removed."""
        return len(self._waiting)

    def moved(self, before: TableMetadata | None, after: TableMetadata | None) -> None:
        """Take note of a won swap of a metastore table: what has dropped out of its log may go after a while."""
        if before is None or after is None or before.table_uuid != after.table_uuid or not _is_wanted(after):
            return
        if self._known.pop(after.table_uuid, "") != _newest(before):  # others have swapped it, or an answer was lost
            self._unseen.append(before)
            while len(self._known) >= TABLES_KNOWN_MAX:
                self._known.popitem(last=False)
        self._known[after.table_uuid] = _newest(after)
        due_s = self._clock_s() + self._limits.replaced_metadata_ms / 1000
        for location in _dropped(before, after):
            if is_own(location, after.location) and len(self._waiting) < WAITING_MAX:
                self._waiting.append(_Waiting(due_s, location))

    async def run(self) -> None:
        """Remove what is due, until cancelled."""
        while True:
            await asyncio.sleep(PAUSE_S)
            try:
                await self.tidy()
            except (FirnError, OSError) as error:
                self._retry_at_s = self._clock_s() + RETRY_S
                self._log.warning("replaced metadata files stay for now", reason=str(error), waiting=self.waiting)

    async def tidy(self) -> None:
        """Remove what is due by now. Raises what the store raises: what is left is tried again after a pause."""
        if self._clock_s() < self._retry_at_s:
            return
        for _ in range(min(len(self._unseen), SEARCHES_AT_ONCE)):
            await self._look_for_leftovers(self._unseen[0])
            self._unseen.popleft()
        while self._waiting and self._waiting[0].due_s <= self._clock_s():
            now_s = self._clock_s()
            due = [one.location for one in islice(self._waiting, AT_ONCE) if one.due_s <= now_s]
            await self._run(self._delete, due)
            for _ in due:
                self._waiting.popleft()
            self._on_removed(len(due))

    def _delete(self, locations: Sequence[str]) -> None:
        for location in locations:
            try:
                self._files.delete(location)
            except Unavailable:
                raise
            except FirnError as error:  # about this one file: others must not wait for it
                self._log.warning("replaced metadata file stays", location=location, reason=str(error))

    async def _look_for_leftovers(self, metadata: TableMetadata) -> None:
        """Have what an earlier daemon left behind removed, too."""
        left = await self._run(self._leftovers, metadata)
        if left:
            self._log.info("replaced metadata files found", location=metadata.location, files=len(left))
        due_s = self._clock_s() + self._limits.replaced_metadata_ms / 1000
        # What has dropped out of the log since is newer: it waits behind them.
        self._waiting.extendleft(_Waiting(due_s, location) for location in reversed(left))

    def _leftovers(self, metadata: TableMetadata) -> list[str]:
        """Return files that are there and that the log does not name, oldest first. Raises Unavailable."""
        found: list[str] = []
        missing = 0
        for location in islice(self._beyond_log(metadata), LEFT_MAX):
            if not is_own(location, metadata.location):
                break  # what was there before firn had the table stays
            if self._is_there(location):
                found.append(location)
                missing = 0
            elif (missing := missing + 1) >= MISSING_MAX:
                break
        return found[::-1]

    def _beyond_log(self, metadata: TableMetadata) -> Iterator[str]:
        """Return the names of replaced files that the table's log names no longer, newest first.

        The oldest file of each log names those before it.
        """
        log: Sequence[MetadataLogEntry] = metadata.metadata_log
        while log:
            oldest = log[0].metadata_file
            log = self._log_of(oldest, uuid=metadata.table_uuid)
            yield from (entry.metadata_file for entry in reversed(log))

    def _log_of(self, location: str, *, uuid: str) -> tuple[MetadataLogEntry, ...]:
        """Return the log of a replaced file; an empty one where the file is gone, or is none of this table's."""
        limits = self._limits
        try:
            data = self._files.read(location, bytes_max=limits.metadata_bytes_max)
            text = decompressed(data, location=location, bytes_max=limits.metadata_bytes_max)
            logged = msgspec.json.decode(text, type=_Logged)
        except (NotFound, CorruptFile, InvalidInput, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return ()
        return logged.metadata_log if logged.table_uuid == uuid else ()

    def _is_there(self, location: str) -> bool:
        try:
            self._files.size(location)
        except (NotFound, InvalidInput):
            return False
        return True


def is_own(location: str, table_location: str) -> bool:
    """Return whether firn gave a metadata file its name, in the folder of the table's metadata."""
    folder, _, name = location.rpartition("/")
    return folder == f"{table_location}/metadata" and _OWN_NAME.fullmatch(name) is not None


def _is_wanted(metadata: TableMetadata) -> bool:
    properties = metadata.properties
    return METADATA_DELETE_AFTER_COMMIT.of(properties) and GC_ENABLED.of(properties)


def _newest(metadata: TableMetadata) -> str | None:
    """Return the file in the log that was replaced last."""
    return metadata.metadata_log[-1].metadata_file if metadata.metadata_log else None


def _dropped(before: TableMetadata, after: TableMetadata) -> Sequence[str]:
    """Return the files that the log before a swap names, and that after it does not."""
    if len(after.metadata_log) == len(before.metadata_log) + 1:
        return ()
    return dropped_metadata_files(after, base=before)

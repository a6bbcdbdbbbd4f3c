"""Submitting what a job has written, and what becomes of its files."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final

from firn.coordinator.client.answers import Answer
from firn.model.errors import FirnError
from firn.model.intent import ContentFile, Intent
from firn.model.outcome import Committed, Rejected
from firn.pipeline.connection import Connection
from firn.pipeline.data_locations import DataLocations
from firn.pipeline.file_removal import remove_files
from firn.pipeline.write_target import WriteTarget

LISTED_FILES_MAX: Final = 100_000
"""Files looked at for those of a failed job; what is beyond is left to the removal of orphans."""

_log: Final = logging.getLogger(__name__)


def submit(connection: Connection, intent: Intent, written: Iterable[ContentFile]) -> Answer:
    """Return the outcome of `intent`, and remove the files `written` for it if they are not in the table.

    That is so when it is rejected, or repeats an epoch that another intent committed: then only those that bear the
    intent's id are removed, which the other intent cannot have named.
    """
    answer = connection.client().submit(intent).result(connection.timeout_s)
    if isinstance(answer, Committed) and answer.is_repeat:
        _log.warning(
            "%s: epoch %s of writer %s was committed before, by intent %s; nothing was added",
            intent.table, intent.writer_sequence, intent.writer, answer.repeats,
        )  # fmt: skip
        own = [file.file_path for file in written if intent.intent_id in file.file_path.rpartition("/")[2]]
        remove_files(connection.store(), own)
    if isinstance(answer, Rejected):
        manifests = (one.manifest_path for one in getattr(intent, "manifests", ()))
        remove_files(connection.store(), [*(file.file_path for file in written), *manifests])
    return answer


@contextmanager
def job_of(connection: Connection, target: WriteTarget) -> Iterator[None]:
    """While a job writes for `target`: when it fails, what its finished tasks have written is removed.

    Nothing has been submitted then, so no snapshot can name these files.
    """
    try:
        yield
    except BaseException:
        files = connection.store()
        root = DataLocations(location=target.metadata.location, properties=target.metadata.properties).root
        try:
            listed = islice(files.list(root), LISTED_FILES_MAX)
            found = [file.location for file in listed if target.run in file.location.rsplit("/", 1)[-1]]
        except FirnError as error:
            _log.warning("cannot look for the files of failed job %s: %s", target.run, error)
            found = []
        remove_files(files, found)
        raise

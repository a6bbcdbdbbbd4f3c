"""A PyIceberg catalog over one folder: the table is its newest ``v<N>.metadata.json``, a commit is the next number.

PyIceberg has no catalog for such tables. This one puts a version as the decision record on file-system tables says
(a link fails where the name is taken), so it is a foreign writer that keeps the rules.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata


class FolderCatalog(NoopCatalog):
    """The catalog of one table, in `folder`."""

    def __init__(self, folder: Path) -> None:
        super().__init__("folder")
        self._folder = folder / "metadata"
        self._version = 1
        self.committed: int | None = None
        """The snapshot of the last commit that came off."""

    def load_table(self, identifier: Any) -> Table:
        while self._path(self._version + 1).exists():
            self._version += 1
        return self._table(self._version)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        current = self.load_table(table.name())
        version = self._version
        for requirement in requirements:
            requirement.validate(current.metadata)
        metadata = update_table_metadata(
            current.metadata, updates, enforce_validation=False, metadata_location=current.metadata_location
        )
        staged = self._folder / f"{uuid.uuid4()}.metadata.json"
        staged.write_text(metadata.model_dump_json(exclude_none=True))
        try:
            os.link(staged, self._path(version + 1))
        except FileExistsError as error:
            raise CommitFailedException(f"version {version + 1} is taken") from error
        finally:
            staged.unlink()
        self.committed = metadata.current_snapshot_id
        return CommitTableResponse.model_validate({
            "metadata": metadata, "metadata-location": str(self._path(version + 1)),
        })  # fmt: skip

    def _path(self, version: int) -> Path:
        return self._folder / f"v{version}.metadata.json"

    def _table(self, version: int) -> Table:
        location = str(self._path(version))
        io = PyArrowFileIO()
        metadata = FromInputFile.table_metadata(io.new_input(location))
        return Table(("db", "raced"), metadata, location, io, self)

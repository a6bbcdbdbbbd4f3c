"""What a writer needs to know of a view in order to change it."""

from __future__ import annotations

import msgspec

from firn.model.schema import Schema
from firn.model.view import ViewMetadata, ViewVersion


class ViewFound(msgspec.Struct, frozen=True, kw_only=True):
    """A view as it was when it was looked at. Changes name its version, and are refused if it has another by then."""

    name: str
    metadata_location: str
    metadata: ViewMetadata

    @property
    def uuid(self) -> str:
        """What distinguishes it from an earlier view of the same name."""
        return self.metadata.view_uuid

    @property
    def version(self) -> ViewVersion:
        """The definition that readers use."""
        return self.metadata.current_version

    @property
    def schema(self) -> Schema:
        """The columns that readers see."""
        return self.metadata.current_schema

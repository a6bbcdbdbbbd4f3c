"""Operations on views. Each change names the version that its writer saw."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from firn.model.operations.common import Name, Operation, Path
from firn.model.operations.tables import TableName
from firn.model.operations.upkeep import PropertyName

VersionId = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Timestamp = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Representations = Annotated[tuple[dict[str, Any], ...], msgspec.Meta(min_length=1, max_length=1_000)]
Namespace = Annotated[tuple[Name, ...], msgspec.Meta(max_length=16)]
Properties = Annotated[dict[PropertyName, str], msgspec.Meta(max_length=1_000)]


class ChangeView(Operation, frozen=True, kw_only=True):
    """What every change of a view has: the whole version that its writer saw, by id and time.

    The time tells a version from another that was given the same id after the first had been dropped.
    """

    base_version_id: VersionId
    base_timestamp_ms: Timestamp


class CreateView(Operation, frozen=True, kw_only=True, tag="create-view"):
    """Create a view from a schema and the query in one or more dialects (REST JSON forms); the name must be free.

    `representations` hold one query a dialect. `default_namespace` completes names in the query (None: the view's own
    namespace), `default_catalog` too (None: the catalog that the view is in). `location` None places it under the
    daemon's warehouse. `summary` goes into the version.
    """

    schema: dict[str, Any]
    representations: Representations
    default_catalog: Name | None = None
    default_namespace: Namespace | None = None
    location: Path | None = None
    properties: Properties = {}  # noqa: RUF012 - msgspec copies defaults


class RegisterView(Operation, frozen=True, kw_only=True, tag="register-view"):
    """Take over a view that exists in storage, given by its metadata file."""

    metadata_location: Path


class ReplaceView(ChangeView, frozen=True, kw_only=True, tag="replace-view"):
    """Give a view another definition; a version of the same content is used again. `properties` are added."""

    schema: dict[str, Any]
    representations: Representations
    default_catalog: Name | None = None
    default_namespace: Namespace | None = None
    location: Path | None = None
    properties: Properties = {}  # noqa: RUF012 - msgspec copies defaults


class UpdateViewProperties(ChangeView, frozen=True, kw_only=True, tag="update-view-properties"):
    """Set and remove properties, key by key, if those in `expect` have the value there (null: are not set)."""

    updates: Properties = {}  # noqa: RUF012 - msgspec copies defaults
    removals: Annotated[tuple[PropertyName, ...], msgspec.Meta(max_length=1_000)] = ()
    expect: Annotated[dict[PropertyName, str | None], msgspec.Meta(max_length=1_000)] = {}  # noqa: RUF012 - msgspec copies defaults


class SetCurrentViewVersion(ChangeView, frozen=True, kw_only=True, tag="set-current-view-version"):
    """Set a view to another of the versions that it still has, such as an older one."""

    version_id: VersionId


class RenameView(ChangeView, frozen=True, kw_only=True, tag="rename-view"):
    """Give a view another, free name; its files stay where they are."""

    new_name: TableName


class DropView(ChangeView, frozen=True, kw_only=True, tag="drop-view"):
    """Forget a view's pointer; its files stay, unless maintenance is to `purge` them some days later."""

    purge: bool = False


ViewOperation = (
    CreateView | RegisterView | ReplaceView | UpdateViewProperties | SetCurrentViewVersion | RenameView | DropView
)

"""What a client and an intent can be told beyond the essentials; all of it is optional."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, TypedDict

from firn.storage.files import FileStore
from firn.storage.intent_streams import IntentStreams
from firn.storage.zookeeper_place import ZooKeeperOptions

RESUBMIT_AFTER_S: Final = 2.0
"""Silence after which a client looks for the outcome and submits again; it doubles each time."""

RESUBMIT_AFTER_S_MAX: Final = 15.0
UNRESOLVED_MAX: Final = 10_000
"""Intents without an outcome before `submit` waits."""


FilterLike = str | bool | Mapping[str, Any]
"""A filter as text (``day >= '2026-01-01' and country = 'FI'``), in its JSON form, or True for every row."""


class ClientOptions(TypedDict, total=False):
    """How a client works.

    `resubmit_after_s`: silence (seconds) after which it looks for the outcome and submits again, doubled each time up
    to 15. `unresolved_max`: intents without an outcome before submitting waits. `prefix`: what every key in Redis
    begins with (default ``firn``; the daemon's ``redis.prefix``). `zookeeper`: ``host:port,host:port/root``
    (without a path: ``/firn``), or `ZooKeeperOptions` with a password or certificates: where `table` looks when Redis
    does not know a table. `files`: the store that metadata is read from
    (default: local files). `connect`: makes the connection to Redis, instead of the URL.
    """

    resubmit_after_s: float
    unresolved_max: int
    prefix: str
    zookeeper: str | ZooKeeperOptions
    files: FileStore
    connect: Callable[[], IntentStreams]


class IntentOptions(TypedDict, total=False):
    """What every intent can carry (`firn.model.intent`).

    `intent_id`: made by the client unless given, which is how an intent of an earlier process is submitted again.
    `writer` with `writer_sequence`: a streaming writer and its rising epoch; with `epoch_label`, what the writer calls
    the content of that epoch (another label is other content, and is refused). `deadline`: a time with time zone after
    which it must not be applied. `priority`: ``maintenance`` gives way to ``ingest``. `summary` goes into the
    snapshot's summary. `reservation_id`: what the work was done under (`begin`); it ends with the commit.
    `traceparent` (W3C): the span that made it; the current one of OpenTelemetry if that is installed and none is given.
    """

    intent_id: str
    table_uuid: str
    writer: str
    writer_sequence: int
    epoch_label: str
    deadline: datetime
    priority: Literal["ingest", "maintenance"]
    summary: Mapping[str, str]
    reservation_id: str
    traceparent: str


class BranchOptions(IntentOptions, total=False):
    """As `IntentOptions`, for operations on files.

    `branch`: instead of ``main``. `stage`: make a snapshot that no branch points at yet, named `wap_id` for
    publishing (write-audit-publish). `schema_ids`: the schemas by which the files were described; those of
    `data_files_from_parquet` say it themselves, as they do for which table.
    """

    branch: str
    stage: bool
    wap_id: str
    schema_ids: Sequence[int]


class FileOptions(BranchOptions, total=False):
    """As `BranchOptions`, with the snapshot that the intent was planned on."""

    base_snapshot_id: int


class CheckOptions(BranchOptions, total=False):
    """As `BranchOptions`, with what is compared with what came since the base (``docs/replay.md``).

    `conflict_filter`: the rows that were read, instead of the whole table. `isolation`: ``serializable`` (default) or
    ``snapshot``. `validate`: ``none`` commits over everything that came.
    """

    conflict_filter: FilterLike
    case_sensitive: bool
    isolation: Literal["serializable", "snapshot"]
    validate: Literal["all", "none"]


class RefOptions(IntentOptions, total=False):
    """As `IntentOptions`, with the snapshot at which the writer saw the branch or tag: refused if it moved."""

    expected_snapshot_id: int


class RetentionOptions(IntentOptions, total=False):
    """As `IntentOptions`, with how long a branch and its snapshots are kept. Ages in milliseconds."""

    min_snapshots_to_keep: int
    max_snapshot_age_ms: int
    max_ref_age_ms: int


class ViewOptions(IntentOptions, total=False):
    """As `IntentOptions`, for a view's definition.

    `default_catalog` and `default_namespace` complete names in the query (by default the view's own); `location` is
    where it is, instead of below the daemon's warehouse; `properties` are set.
    """

    default_catalog: str
    default_namespace: Sequence[str]
    location: str
    properties: Mapping[str, str]


class TableOptions(IntentOptions, total=False):
    """As `IntentOptions`, for a new table: spec, order and properties as in the REST specification.

    `location`: where, instead of below the daemon's warehouse. `format_version`: 1, 2 (default) or 3. `catalog`:
    ``metastore`` (default), or ``file-system`` for a table that engines open by its path.
    """

    partition_spec: Mapping[str, Any]
    write_order: Mapping[str, Any]
    location: str
    properties: Mapping[str, str]
    format_version: int
    catalog: Literal["metastore", "file-system"]

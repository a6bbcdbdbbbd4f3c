"""The standard table properties that firn acts on: their names, defaults and types.

Properties are text in the metadata. Each is read through its declaration here, so that a malformed value is reported
once, by name, and a default is written down once. Names and defaults are those of Iceberg's configuration page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from firn.model.errors import InvalidPropertyError
from firn.model.spelling import did_you_mean

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_LONG_MIN: Final = -(2**63)
_LONG_MAX: Final = 2**63 - 1
_INT_MIN: Final = -(2**31)
_INT_MAX: Final = 2**31 - 1


class IntProperty(msgspec.Struct, frozen=True):
    """An integer; the unit is in the name. Values are within `low` and `high`."""

    name: str
    default: int
    low: int = 0
    high: int = _LONG_MAX

    def of(self, properties: Mapping[str, str]) -> int:
        """The value, or the default when it is not set; raises InvalidPropertyError naming the property."""
        text = properties.get(self.name)
        if text is None:
            return self.default
        value = int(text) if _INTEGER.fullmatch(text.strip()) else None
        if value is None:
            raise InvalidPropertyError(f"must be an integer, not {text[:40]!r}", where=f"properties.{self.name}")
        if not self.low <= value <= self.high:
            raise InvalidPropertyError(f"{value} is outside {self.low} … {self.high}", where=f"properties.{self.name}")
        return value

    def sane(self, properties: Mapping[str, str]) -> int:
        """Return the value, or the default where the stored value is unusable: a commit does not need this setting."""
        try:
            return self.of(properties)
        except InvalidPropertyError:
            return self.default


class BoolProperty(msgspec.Struct, frozen=True):
    """A switch; as in Java, everything but ``true`` (in any case) is off."""

    name: str
    default: bool

    def of(self, properties: Mapping[str, str]) -> bool:
        """Whether it is on."""
        text = properties.get(self.name)
        return self.default if text is None else text.strip().lower() == "true"


class ChoiceProperty(msgspec.Struct, frozen=True):
    """One of a few words, in any case."""

    name: str
    default: str
    choices: tuple[str, ...]

    def of(self, properties: Mapping[str, str]) -> str:
        """The word in lower case; raises InvalidPropertyError naming the property and the choices."""
        text = properties.get(self.name)
        if text is None:
            return self.default
        if text.lower() not in self.choices:
            raise InvalidPropertyError(
                f"must be one of {', '.join(self.choices)}, not {text[:40]!r}", where=f"properties.{self.name}"
            )
        return text.lower()

    def sane(self, properties: Mapping[str, str]) -> str:
        """Return the word, or the default where the stored value is unusable: a commit does not need this setting."""
        try:
            return self.of(properties)
        except InvalidPropertyError:
            return self.default


class TextProperty(msgspec.Struct, frozen=True):
    """Free text, absent by default."""

    name: str

    def of(self, properties: Mapping[str, str]) -> str | None:
        """The text, None when it is not set or empty."""
        return properties.get(self.name) or None


class NamesProperty(msgspec.Struct, frozen=True):
    """Names with commas between them; none by default."""

    name: str

    def names(self, properties: Mapping[str, str]) -> frozenset[str]:
        """Return the names, without the blanks around them."""
        return frozenset(part.strip() for part in properties.get(self.name, "").split(",") if part.strip())


FORMAT_VERSION: Final = IntProperty("format-version", 2, 1, 3)
"""Never stored: setting it creates or upgrades the table to that version."""

RESERVED: Final = frozenset(
    {
        "format-version", "uuid", "snapshot-count", "current-snapshot-id", "current-snapshot-summary",
        "current-snapshot-timestamp-ms", "current-schema", "default-partition-spec", "default-sort-order",
    }
)  # fmt: skip
"""Names that engines show as properties but that are fields of the metadata; they are never stored."""

MANIFEST_TARGET_SIZE_BYTES: Final = IntProperty("commit.manifest.target-size-bytes", 8 * 1024 * 1024, _LONG_MIN)
MANIFEST_MIN_MERGE_COUNT: Final = IntProperty("commit.manifest.min-count-to-merge", 100, _INT_MIN, _INT_MAX)
MANIFEST_MERGE_ENABLED: Final = BoolProperty("commit.manifest-merge.enabled", default=True)
COMMIT_RETRIES: Final = IntProperty("commit.retry.num-retries", 4, 0, _INT_MAX)
COMMIT_RETRY_MIN_WAIT_MS: Final = IntProperty("commit.retry.min-wait-ms", 100, 0, _INT_MAX)
COMMIT_RETRY_MAX_WAIT_MS: Final = IntProperty("commit.retry.max-wait-ms", 60_000, 0, _INT_MAX)
COMMIT_RETRY_TOTAL_MS: Final = IntProperty("commit.retry.total-timeout-ms", 1_800_000, 0, _INT_MAX)

DATA_PATH: Final = TextProperty("write.data.path")
METADATA_PATH: Final = TextProperty("write.metadata.path")
METADATA_COMPRESSION: Final = ChoiceProperty("write.metadata.compression-codec", "none", ("none", "gzip"))
METADATA_PREVIOUS_VERSIONS_MAX: Final = IntProperty("write.metadata.previous-versions-max", 100, _INT_MIN, _INT_MAX)
METADATA_DELETE_AFTER_COMMIT: Final = BoolProperty("write.metadata.delete-after-commit.enabled", default=False)
NEW_METASTORE_TABLES: Final = {METADATA_COMPRESSION.name: "gzip", METADATA_DELETE_AFTER_COMMIT.name: "true"}
"""Stored in every new table whose pointer firn holds, unless its creator decides: a busy one replaces its metadata file
many times a second."""
SUMMARY_PARTITION_LIMIT: Final = IntProperty("write.summary.partition-limit", 0, _INT_MIN, _INT_MAX)
METRICS_DEFAULT: Final = "write.metadata.metrics.default"
METRICS_COLUMN_PREFIX: Final = "write.metadata.metrics.column."
METRICS_INFERRED_COLUMNS_MAX: Final = IntProperty("write.metadata.metrics.max-inferred-column-defaults", 100, 0)
WAP_ENABLED: Final = BoolProperty("write.wap.enabled", default=False)
FILE_FORMAT: Final = ChoiceProperty("write.format.default", "parquet", ("avro", "orc", "parquet"))
PARQUET_COMPRESSION: Final = TextProperty("write.parquet.compression-codec")
PARQUET_COMPRESSION_NEW_TABLES: Final = "zstd"
"""Stored in every new table, because the default of readers of the property is still gzip."""
PARQUET_COMPRESSION_LEVEL: Final = TextProperty("write.parquet.compression-level")
PARQUET_PAGE_BYTES: Final = IntProperty("write.parquet.page-size-bytes", 1024 * 1024, 1, _INT_MAX)
PARQUET_DICTIONARY_BYTES: Final = IntProperty("write.parquet.dict-size-bytes", 2 * 1024 * 1024, 1, _INT_MAX)
AVRO_COMPRESSION: Final = TextProperty("write.avro.compression-codec")
TARGET_FILE_SIZE_BYTES: Final = IntProperty("write.target-file-size-bytes", 512 * 1024 * 1024, 1)
DELETE_TARGET_FILE_SIZE_BYTES: Final = IntProperty("write.delete.target-file-size-bytes", 64 * 1024 * 1024, 1)
NAME_MAPPING: Final = TextProperty("schema.name-mapping.default")

GC_ENABLED: Final = BoolProperty("gc.enabled", default=True)
EXPIRE_SNAPSHOT_AGE_MS: Final = IntProperty("history.expire.max-snapshot-age-ms", 5 * 24 * 3600 * 1000, _LONG_MIN)
EXPIRE_SNAPSHOTS_MIN: Final = IntProperty("history.expire.min-snapshots-to-keep", 1, _INT_MIN, _INT_MAX)
EXPIRE_REF_AGE_MS: Final = IntProperty("history.expire.max-ref-age-ms", _LONG_MAX, _LONG_MIN)
MAX_SWAPS_PER_SECOND: Final = IntProperty("firn.max-swaps-per-second", 0, 0, 10_000)
"""Metadata files that a busy table gets a second at most: intents gather meanwhile; 0 for as many as can be."""

APPEND_MODE: Final = ChoiceProperty("firn.append-mode", "merge", ("merge", "per-intent"))
"""``merge`` lets consecutive appends share a snapshot, ``per-intent`` gives each its own."""

REST_APPEND: Final = ChoiceProperty("firn.rest.append", "always", ("always", "blind-only"))
"""Appends of REST clients that are replayed on rows which came since: all, or those of writers that read nothing."""

REST_HARMLESS_KEYS: Final = NamesProperty("firn.rest.harmless-keys")
"""Entries of clients' summaries that several snapshots may have: none of them says how far a source was read."""

ISOLATION_LEVELS: Final = (
    "write.delete.isolation-level", "write.update.isolation-level", "write.merge.isolation-level",
)  # fmt: skip
"""Of Spark's statements: ``serializable`` or ``snapshot``."""

EXPIRE_ON_COMMIT: Final = BoolProperty("firn.expire-on-commit", default=True)
SNAPSHOTS_MAX: Final = IntProperty("firn.snapshots-max", 1_000, 0, _INT_MAX)
"""Snapshots of a branch that a busy table keeps, whatever their age; 0 for as many as there are."""
HISTORY_PER_MINUTE: Final = IntProperty("firn.history.per-minute", 2, 0, 60_000)
"""Snapshots that stay of each minute of the last hour, once the newest alone are more than a table keeps."""
HISTORY_PER_HOUR: Final = IntProperty("firn.history.per-hour", 4, 0, 3_600_000)
HISTORY_PER_DAY: Final = IntProperty("firn.history.per-day", 2, 0, 86_400_000)
"""Snapshots that stay of each day before the last; 0: what is older than a day goes first."""

BASE_HOURS: Final = IntProperty("firn.base-hours", 24, 24, 744)
"""Hours for which a snapshot that was dropped can still be the base of an intent, from when another took its place."""

MAINTAIN: Final = BoolProperty("firn.maintain.enabled", default=True)
MAINTAIN_DELETE_FILES_MIN: Final = IntProperty("firn.maintain.delete-files-min", 10, 1, _INT_MAX)
"""Files of deleted positions that a rewrite would replace, from which on it is done."""
MAINTAIN_MANIFESTS_MIN: Final = IntProperty("firn.maintain.manifests-min", 20, 2, _INT_MAX)
"""Manifests that are small or overlap in their partitions, from which on they are rewritten."""
MAINTAIN_SNAPSHOTS_MIN: Final = IntProperty("firn.maintain.snapshots-min", 1, 1, _INT_MAX)
"""Snapshots that may expire, or that have expired and left their files, from which on it is done."""
MAINTAIN_STATISTICS: Final = ChoiceProperty("firn.maintain.statistics", "partitions", ("none", "partitions", "all"))
"""Which statistics are kept up to date: of partitions, or of distinct values (which takes Spark), too."""
MAINTAIN_STATISTICS_SNAPSHOTS: Final = IntProperty("firn.maintain.statistics-snapshots", 100, 1, _INT_MAX)
"""Snapshots after which statistics are stale."""
MAINTAIN_ORPHANS_EVERY_HOURS: Final = IntProperty("firn.maintain.orphans-every-hours", 168, 0, 1_000_000)
"""Hours from one search for orphans to the next; 0 for no search."""
MAINTAIN_ORPHANS_AGE_HOURS: Final = IntProperty("firn.maintain.orphans-older-than-hours", 72, 24, 1_000_000)
MAINTAIN_ORPHANS_SEARCHED_MS: Final = IntProperty("firn.maintain.orphans-searched-ms", 0)
"""When orphans were last searched for; set by whoever did it."""

SPLIT_SIZE_BYTES: Final = IntProperty("read.split.target-size", 128 * 1024 * 1024, 1)

ENCRYPTION_KEY_ID: Final = TextProperty("encryption.key-id")
"""A table with this property is encrypted, which firn does not implement."""

CHECKED: Final[tuple[IntProperty | ChoiceProperty, ...]] = (
    MANIFEST_TARGET_SIZE_BYTES, MANIFEST_MIN_MERGE_COUNT, COMMIT_RETRIES, COMMIT_RETRY_MIN_WAIT_MS,
    COMMIT_RETRY_MAX_WAIT_MS, COMMIT_RETRY_TOTAL_MS, METADATA_COMPRESSION, METADATA_PREVIOUS_VERSIONS_MAX,
    SUMMARY_PARTITION_LIMIT, METRICS_INFERRED_COLUMNS_MAX, FILE_FORMAT, TARGET_FILE_SIZE_BYTES,
    DELETE_TARGET_FILE_SIZE_BYTES, EXPIRE_SNAPSHOT_AGE_MS, EXPIRE_SNAPSHOTS_MIN, EXPIRE_REF_AGE_MS, SPLIT_SIZE_BYTES,
    APPEND_MODE, REST_APPEND,
    SNAPSHOTS_MAX, BASE_HOURS, HISTORY_PER_MINUTE, HISTORY_PER_HOUR, HISTORY_PER_DAY, MAX_SWAPS_PER_SECOND,
    MAINTAIN_DELETE_FILES_MIN, MAINTAIN_MANIFESTS_MIN,
    MAINTAIN_SNAPSHOTS_MIN,
    MAINTAIN_STATISTICS, MAINTAIN_STATISTICS_SNAPSHOTS, MAINTAIN_ORPHANS_EVERY_HOURS, MAINTAIN_ORPHANS_AGE_HOURS,
    MAINTAIN_ORPHANS_SEARCHED_MS,
)  # fmt: skip


FAMILIES: Final = ("firn.history.", "firn.maintain.", "firn.rest.")
"""Beginnings of names of which all are known here: another is misspelt."""


def check_properties(properties: Mapping[str, str]) -> None:
    """Refuse names and values that do not mean what they should; for properties that are being set, not stored ones."""
    for declared in CHECKED:
        declared.of(properties)
    known = {MAINTAIN.name, REST_HARMLESS_KEYS.name, *(declared.name for declared in CHECKED)}
    for name in properties:
        if name.startswith(FAMILIES) and name not in known:
            siblings = sorted(other for other in known if other.startswith(FAMILIES))
            raise InvalidPropertyError(
                "there is no such property",
                where=f"properties.{name[:80]}",
                hint=did_you_mean(name, siblings) or f"there are {', '.join(siblings)}",
            )


def unusable_properties(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return one line for each stored property whose value cannot be used, naming it and the reason.

    Commits go on with the default; operations that need the setting (an expiry, a compaction) refuse with
    ``invalid-property``.
    """
    problems = []
    for declared in CHECKED:
        try:
            declared.of(properties)
        except InvalidPropertyError as error:
            problems.append(f"{declared.name}: {error.message}")
    return tuple(problems)


def without_reserved(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that are stored: all but the reserved names."""
    return {name: value for name, value in properties.items() if name not in RESERVED}


JOURNAL_HEAD: Final = "firn.journal-head"
"""Property of a file-system table that names its newest journal segment."""

DROPPED_SNAPSHOTS: Final = "firn.dropped-snapshots"
"""Property of a table that names the newest record of the snapshots that it has dropped."""

"""The HTTP status of a refused intent, by its rule.

A status of 400 to 499 promises that the request will never be committed: clients delete the files that they wrote for
it. A `firn.model.outcome.Rejected` is such a promise, so each rule has one of them, also those that are not the
client's fault: 409 then, after which clients look at the table and try again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from firn.model.errors import FirnError
from firn.model.outcome import Rejected


class Status(msgspec.Struct, frozen=True):
    """A status and the exception of Iceberg that it stands for."""

    code: int
    error: str


class CatalogError(FirnError):
    """A request that is answered by a status and a text; `retry_after_s` where it may be sent again after a while."""

    def __init__(self, status: Status, message: str, *, retry_after_s: int | None = None) -> None:
        self.status = status
        self.message = message
        self.retry_after_s = retry_after_s
        super().__init__(message)


BAD_REQUEST: Final = Status(400, "BadRequestException")
ILLEGAL_ARGUMENT: Final = Status(400, "IllegalArgumentException")
COMMIT_FAILED: Final = Status(409, "CommitFailedException")
ALREADY_EXISTS: Final = Status(409, "AlreadyExistsException")
NO_SUCH_TABLE: Final = Status(404, "NoSuchTableException")
NO_SUCH_VIEW: Final = Status(404, "NoSuchViewException")
STATE_UNKNOWN: Final = Status(504, "CommitStateUnknownException")
NOT_NOW: Final = Status(503, "ServiceUnavailableException")
TOO_MANY: Final = Status(429, "TooManyRequestsException")

MISTAKES: Final = frozenset({
    "malformed-entry", "malformed-json", "intent-too-large", "unknown-operation", "unknown-field", "missing-field",
    "invalid-field", "invalid-intent-id", "invalid-table-name", "invalid-reply-to", "summary-too-large",
    "too-many-files", "metadata-too-large", "invalid-transaction", "transaction-too-large", "intent-too-old",
    "clock-skew", "intent-id-reuse", "writer-sequence-passed", "writer-sequence-reuse", "too-many-writers",
    "invalid-table", "location-not-allowed", "location-taken", "unknown-branch", "not-a-branch", "unknown-ref",
    "invalid-ref", "unreadable-snapshot", "already-picked", "gc-disabled", "invalid-change", "column-in-use",
    "invalid-view", "lost-dialect", "invalid-property", "reserved-property", "location-fixed", "format-downgrade",
    "not-a-data-file", "not-a-statistics-file", "invalid-partition", "duplicate-file", "more-rows", "too-many-rows",
    "invalid-filter", "outside-filter", "invalid-delete-file", "lost-deletes", "wrong-sequence-number",
    "invalid-manifest", "manifest-mismatch", "invalid-update", "invalid-snapshot",
})  # fmt: skip
"""Rules that refuse a request which would be refused again whenever it were sent."""

CONFLICTS: Final = frozenset({
    "digest-mismatch", "deadline-passed", "past-lost", "poison", "internal-error", "table-unreadable",
    "table-uuid-mismatch", "columns-replaced", "table-changed", "ref-exists", "ref-moved", "unknown-snapshot",
    "not-an-ancestor", "cannot-pick", "changed-partition", "schema-conflict", "layout-conflict", "view-conflict",
    "unknown-version", "expectation-failed", "unknown-spec", "missing-file", "unknown-base", "lost-row-ids",
    "new-deletes", "new-data", "removed-data", "row-conflict", "merge-too-large", "partial-match",
    "occupied-partition", "delete-format", "missing-manifest", "requirement-failed", "snapshot-in-use",
    "watermark", "rows-came", "merge-rows-came", "list-contradicts",
})  # fmt: skip
"""Rules that refuse what another commit has overtaken, or what another attempt may get through."""

BY_NAME: Final[Mapping[str, str]] = {
    "unknown-table": "no such table or view",
    "wrong-kind": "a table where a view is meant, or the other way round",
    "table-exists": "the name is taken",
}
"""Rules whose answer depends on what the request was about (`firn.coordinator.catalog.refusals`)."""


def status_of(rejected: Rejected) -> Status:
    """Return the status of a refusal; a rule that this version does not know is judged by what its writer can do."""
    if rejected.rule in MISTAKES:
        return BAD_REQUEST
    if rejected.rule in CONFLICTS or rejected.hint != "fix":
        return COMMIT_FAILED
    return BAD_REQUEST

"""Every rule by which an intent can be refused: its name, what it prevents, and what its writer can do.

A rule is declared once, here; `docs/replay.md` is checked against this list. Rules of the door (what is no intent at
all) are raised in `firn.model.intent_codec` and declared here, too, so that the list is whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn, TypedDict, Unpack

import msgspec

from firn.coordinator.replay.decision import Refusal, Refused
from firn.model.landmark import Landmark
from firn.model.outcome import Hint
from firn.model.snapshot import Snapshot


class Told(TypedDict, total=False):
    """What a refusal says beside its message.

    `files`, `columns`, `partitions` (folder names in Hive's style) are those concerned. `winner` is the snapshot that
    came first, `by` the intent that did where no snapshot tells; `base` is the snapshot that was planned on. `hint`
    stands in for the rule's own.
    """

    files: Sequence[str]
    columns: Sequence[str]
    partitions: Sequence[str]
    winner: Snapshot | None
    by: Landmark | None
    base: int | None
    hint: Hint | None


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. `prevents` is a sentence on the harm it keeps away; `hint` what a writer can do, mostly."""

    name: str
    hint: Hint
    prevents: str

    def refused(
        self,
        message: str,
        **told: Unpack[Told],
    ) -> Refused:
        """The refusal as a value."""
        winner, by = told.get("winner"), told.get("by")
        summary = {} if winner is None else winner.summary or {}
        return Refused(
            rule=self.name,
            message=message,
            hint=told.get("hint") or self.hint,
            files=tuple(told.get("files", ())),
            columns=tuple(told.get("columns", ())),
            partitions=tuple(dict.fromkeys(p for p in told.get("partitions", ()) if p)),
            conflicting_snapshot_id=by.snapshot_id if winner is None and by is not None else _id_of(winner),
            conflicting_intent_id=summary.get("firn.intent-id") if by is None else by.intent_id,
            conflicting_writer=summary.get("firn.writer") if by is None else by.writer,
            conflicting_operation=_operation_of(winner) if by is None else by.operation,
            conflicting_metadata_location=None if by is None else by.metadata_location,
            base_snapshot_id=told.get("base"),
        )

    def refuse(
        self,
        message: str,
        **told: Unpack[Told],
    ) -> NoReturn:
        """End the replay of the intent with this refusal."""
        raise Refusal(self.refused(message, **told))


def _operation_of(snapshot: Snapshot | None) -> str | None:
    """Return the operation that a snapshot was committed for; Iceberg's where firn did not make the snapshot."""
    return None if snapshot is None else (snapshot.summary or {}).get("firn.operation") or snapshot.operation


def _id_of(snapshot: Snapshot | None) -> int | None:
    return None if snapshot is None else snapshot.snapshot_id


RULES: Final[dict[str, Rule]] = {}
"""All rules by name."""


def _rule(name: str, hint: Hint, prevents: str) -> Rule:
    assert name not in RULES
    RULES[name] = Rule(name=name, hint=hint, prevents=prevents)
    return RULES[name]


# The door: what is no intent. Same payload, same refusal, whatever the table is.
MALFORMED_ENTRY: Final = _rule("malformed-entry", "fix", "A stream entry without exactly one intent is guessed at.")
MALFORMED_JSON: Final = _rule("malformed-json", "fix", "Two parsers read one text differently: duplicate keys, NaN.")
INTENT_TOO_LARGE: Final = _rule("intent-too-large", "fix", "One intent takes the memory of all others.")
UNKNOWN_OPERATION: Final = _rule("unknown-operation", "fix", "A misspelt operation does something else.")
UNKNOWN_FIELD: Final = _rule("unknown-field", "fix", "A typo silently makes another commit than was meant.")
MISSING_FIELD: Final = _rule("missing-field", "fix", "An assumption that a check needs is made up.")
INVALID_FIELD: Final = _rule("invalid-field", "fix", "A value of the wrong type or range reaches metadata.")
INVALID_INTENT_ID: Final = _rule("invalid-intent-id", "fix", "An intent cannot be told from its repetition.")
INVALID_TABLE_NAME: Final = _rule("invalid-table-name", "fix", "A name becomes a path or a znode that it is not.")
INVALID_REPLY_TO: Final = _rule("invalid-reply-to", "fix", "A writer makes the daemon write to a key of its choice.")
SUMMARY_TOO_LARGE: Final = _rule("summary-too-large", "fix", "Metadata grows with every commit's remarks.")
TOO_MANY_FILES: Final = _rule("too-many-files", "fix", "One intent holds up every other of its table.")
METADATA_TOO_LARGE: Final = _rule(
    "metadata-too-large", "fix", "Reading or writing the metadata of one table holds up all others."
)
INVALID_TRANSACTION: Final = _rule(
    "invalid-transaction", "fix", "Of what belongs together, only a part can be committed."
)
TRANSACTION_TOO_LARGE: Final = _rule("transaction-too-large", "fix", "One transaction holds up all other tables.")
DIGEST_MISMATCH: Final = _rule("digest-mismatch", "retry", "An entry that was damaged on its way is committed.")

# Identity and time.
INTENT_TOO_OLD: Final = _rule("intent-too-old", "fix", "A very late repetition is taken for a new intent.")
CLOCK_SKEW: Final = _rule("clock-skew", "fix", "A writer's wrong clock hides its own repetitions.")
INTENT_ID_REUSE: Final = _rule("intent-id-reuse", "fix", "Another content is answered with the first one's outcome.")
WRITER_SEQUENCE_PASSED: Final = _rule(
    "writer-sequence-passed", "fix", "An epoch that a streaming writer has left behind is written again."
)
WRITER_SEQUENCE_REUSE: Final = _rule(
    "writer-sequence-reuse", "fix", "Other rows under an epoch's number are taken for its repetition, and are lost."
)
TOO_MANY_WRITERS: Final = _rule(
    "too-many-writers", "fix", "A streaming writer is forgotten, and its last epoch is committed again."
)
DEADLINE_PASSED: Final = _rule("deadline-passed", "retry", "An intent lands after its writer has given it up.")
PAST_LOST: Final = _rule("past-lost", "replan", "What the table may have already is committed a second time.")
POISON: Final = _rule("poison", "retry", "One intent takes daemon after daemon down.")
INTERNAL_ERROR: Final = _rule("internal-error", "retry", "A mistake in firn stops a table.")

# The table.
UNKNOWN_TABLE: Final = _rule("unknown-table", "fix", "Files are committed to a table nobody made.")
TABLE_UNREADABLE: Final = _rule("table-unreadable", "fix", "A commit is built on state that does not pass its checks.")
TABLE_UUID_MISMATCH: Final = _rule(
    "table-uuid-mismatch", "replan", "A commit planned on a dropped table lands in the one that took its name."
)
COLUMNS_REPLACED: Final = _rule(
    "columns-replaced", "replan", "Rows are read as nulls, because other columns have taken the names of theirs."
)
TABLE_EXISTS: Final = _rule("table-exists", "fix", "A table or view is made over another.")
WRONG_KIND: Final = _rule(
    "wrong-kind", "fix", "A view, which has no files, is given some; or a table is made a query that hides them."
)
INVALID_TABLE: Final = _rule("invalid-table", "fix", "A table is made that no engine can read.")
LOCATION_NOT_ALLOWED: Final = _rule(
    "location-not-allowed", "fix", "A table names files that are not its own, which another's cleanup deletes."
)
LOCATION_TAKEN: Final = _rule(
    "location-taken", "fix", "Two tables share a folder, and one's cleanup deletes the other."
)
TABLE_CHANGED: Final = _rule(
    "table-changed", "replan", "A transaction rests on what another table does not say any more."
)
UNKNOWN_BRANCH: Final = _rule("unknown-branch", "fix", "A misspelt branch comes into being.")
NOT_A_BRANCH: Final = _rule("not-a-branch", "fix", "A tag moves.")

# Requests of the REST catalog.
REQUIREMENT_FAILED: Final = _rule(
    "requirement-failed", "replan", "A client's change is made to another table than the one that it has read."
)
WATERMARK: Final = _rule(
    "watermark", "replan", "An exactly-once sink commits the same rows twice, because nobody had it look again."
)
ROWS_CAME: Final = _rule(
    "rows-came", "replan", "A client's statement and another each did not see the other's rows, and both commit."
)
MERGE_ROWS_CAME: Final = _rule(
    "merge-rows-came", "replan", "A MERGE of a client inserts rows that another has inserted since it read the table."
)
LIST_CONTRADICTS: Final = _rule(
    "list-contradicts", "replan", "What a client's manifests say of themselves is taken for what they do to the table."
)
INVALID_UPDATE: Final = _rule(
    "invalid-update", "fix", "A client's update makes metadata that no engine can read, or that readers disagree on."
)
INVALID_SNAPSHOT: Final = _rule(
    "invalid-snapshot", "fix", "A branch is moved to a snapshot that cannot be read, or whose numbers others have."
)
SNAPSHOT_IN_USE: Final = _rule(
    "snapshot-in-use", "retry", "Work that waits cannot be validated any more, because the snapshot it needs is gone."
)

# Branches, tags, snapshots.
UNKNOWN_REF: Final = _rule(
    "unknown-ref", "fix", "A change to a misspelt branch or tag reports success and does nothing."
)
REF_EXISTS: Final = _rule("ref-exists", "fix", "Two writers each think that a branch or tag is theirs.")
REF_MOVED: Final = _rule(
    "ref-moved", "replan", "Commits that came to a branch meanwhile fall off it, and nobody knows."
)
INVALID_REF: Final = _rule("invalid-ref", "fix", "A table loses its main, or has a reference that engines refuse.")
UNKNOWN_SNAPSHOT: Final = _rule(
    "unknown-snapshot", "replan", "A branch, tag or statistics file leads to a snapshot that was expired."
)
UNREADABLE_SNAPSHOT: Final = _rule(
    "unreadable-snapshot", "fix", "A branch is moved to a damaged snapshot, and refuses every later commit."
)
NOT_AN_ANCESTOR: Final = _rule(
    "not-an-ancestor", "replan", "A branch lands in a history it never had, and its own commits are lost."
)
ALREADY_PICKED: Final = _rule("already-picked", "fix", "What was staged is published twice, and its rows count double.")
CANNOT_PICK: Final = _rule("cannot-pick", "replan", "A change is repeated on a state that it was not made for.")
CHANGED_PARTITION: Final = _rule(
    "changed-partition", "replan", "A partition holds what was to be replaced beside what replaced it."
)
GC_DISABLED: Final = _rule("gc-disabled", "fix", "Files go that other tables share.")

# Schema, partitioning, order.
INVALID_CHANGE: Final = _rule("invalid-change", "fix", "A table gets columns or partitions that no engine can read.")
SCHEMA_CONFLICT: Final = _rule(
    "schema-conflict", "replan", "Of two changes of one column, the second undoes the first or hits another column."
)
COLUMN_IN_USE: Final = _rule("column-in-use", "fix", "Nobody can write: a column to partition or sort by is gone.")
LAYOUT_CONFLICT: Final = _rule(
    "layout-conflict", "replan", "Two changes of partitioning or order end in one that neither writer has asked for."
)

# Views.
INVALID_VIEW: Final = _rule(
    "invalid-view", "fix", "A view is made that no engine can read, or that two read differently."
)
VIEW_CONFLICT: Final = _rule(
    "view-conflict", "replan", "A definition that came meanwhile is undone by a writer who never saw it."
)
LOST_DIALECT: Final = _rule(
    "lost-dialect", "fix", "An engine that could read the view no longer can, and nobody has decided that."
)
UNKNOWN_VERSION: Final = _rule("unknown-version", "replan", "A view is set to a definition that it no longer has.")

# Properties, location, format version.
EXPECTATION_FAILED: Final = _rule(
    "expectation-failed", "replan", "A setting is undone by a writer who never knew of it."
)
INVALID_PROPERTY: Final = _rule("invalid-property", "fix", "A setting that nobody can read fails every later commit.")
RESERVED_PROPERTY: Final = _rule(
    "reserved-property", "fix", "A table loses its journal, or a property stands in for a field of the table."
)
LOCATION_FIXED: Final = _rule(
    "location-fixed", "fix", "A table that engines open by its path is not where they look for it."
)
FORMAT_DOWNGRADE: Final = _rule(
    "format-downgrade",
    "fix",
    "What only the newer format can say is lost: sequence numbers, row ids, deletion vectors.",
)

# Files.
NOT_A_DATA_FILE: Final = _rule("not-a-data-file", "fix", "A delete file is read as rows.")
NOT_A_STATISTICS_FILE: Final = _rule(
    "not-a-statistics-file", "fix", "A live file is taken for statistics, or planners read statistics that are none."
)
UNKNOWN_SPEC: Final = _rule("unknown-spec", "replan", "A partition tuple is read by another spec than it was made by.")
INVALID_PARTITION: Final = _rule("invalid-partition", "fix", "A file is pruned from the very scans it belongs to.")
DUPLICATE_FILE: Final = _rule("duplicate-file", "fix", "The same rows are counted twice.")
MISSING_FILE: Final = _rule(
    "missing-file",
    "replan",
    "A rewrite brings back rows that were deleted meanwhile, or a delete reports success and does nothing.",
)
UNKNOWN_BASE: Final = _rule(
    "unknown-base", "replan", "What happened since the intent was planned cannot be validated, and is ignored."
)
MORE_ROWS: Final = _rule(
    "more-rows", "fix", "A compaction doubles rows, or brings back those that deletion vectors had deleted."
)
TOO_MANY_ROWS: Final = _rule(
    "too-many-rows",
    "fix",
    "Rows, bytes or row ids pass 63 bits: the table can be read by nobody, or its manifests not be rewritten.",
)
LOST_ROW_IDS: Final = _rule(
    "lost-row-ids", "replan", "A row that nobody has changed becomes another one: it was given its id meanwhile."
)
NEW_DELETES: Final = _rule("new-deletes", "replan", "Rows come back that were deleted after a rewrite read them.")

# What came meanwhile.
NEW_DATA: Final = _rule(
    "new-data",
    "replan",
    "A statement commits as if rows that came meanwhile, and that it would have read, were not there.",
)
REMOVED_DATA: Final = _rule(
    "removed-data", "replan", "Rows that were deleted meanwhile come back in the files that overwrite them."
)
ROW_CONFLICT: Final = _rule(
    "row-conflict", "replan", "A row that was deleted or changed meanwhile comes back as a second version."
)
MERGE_TOO_LARGE: Final = _rule(
    "merge-too-large", "replan", "The merge of two deletion vectors takes the memory of all other tables."
)

# Filters.
INVALID_FILTER: Final = _rule(
    "invalid-filter", "fix", "A filter that means nothing for the table takes the wrong rows, or none."
)
PARTIAL_MATCH: Final = _rule(
    "partial-match", "narrow-filter", "Rows go that do not match, with the file that they share with some that do."
)
OCCUPIED_PARTITION: Final = _rule(
    "occupied-partition", "replan", "A load that runs twice, or beside another, replaces what the first one has loaded."
)
OUTSIDE_FILTER: Final = _rule(
    "outside-filter", "fix", "An overwrite that is repeated adds rows again that it has not taken away."
)

# Delete files.
INVALID_DELETE_FILE: Final = _rule(
    "invalid-delete-file", "fix", "A delete file that no reader can apply makes its data files unreadable."
)
DELETE_FORMAT: Final = _rule(
    "delete-format", "replan", "Deletes are in a form that readers of this format version ignore or cannot read."
)
LOST_DELETES: Final = _rule("lost-deletes", "fix", "Deleted rows come back, because nothing stands for their deletes.")
WRONG_SEQUENCE_NUMBER: Final = _rule(
    "wrong-sequence-number",
    "fix",
    "Equality deletes reach rows that they are not for, or no longer those they are for.",
)

# Manifests.
INVALID_MANIFEST: Final = _rule(
    "invalid-manifest", "fix", "Files come to the table that nobody has checked, or with an age of their own making."
)
MISSING_MANIFEST: Final = _rule(
    "missing-manifest", "replan", "A rewrite of manifests takes back what came to the table meanwhile."
)
MANIFEST_MISMATCH: Final = _rule(
    "manifest-mismatch", "fix", "A rewrite of manifests loses files, or changes which deletes reach them."
)

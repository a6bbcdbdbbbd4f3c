"""The journals of all tables collected into one Iceberg table, which is committed through firn like any other.

Incremental and exactly once: rows and positions (`firn.pipeline.journal_positions`) are one transaction. Needs neither
Spark nor Java.

The table's own journal is collected, too, as far as it is news: segments that hold nothing but collections do not by
themselves make another one, or every collection would have the next one to collect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, Protocol

import msgspec

from firn.coordinator.client.answers import Answer, committed
from firn.coordinator.client.intents import new_intent_id
from firn.coordinator.client.table_view import TableView
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.intent import Append, ContentFile, CreateTable, Intent
from firn.model.operations.transaction import Transaction
from firn.model.operations.upkeep import UpdateProperties
from firn.model.outcome import Committed, Rejected
from firn.pipeline.file_removal import remove_files
from firn.pipeline.journal_positions import position_of, positions_in, property_of, segments_after
from firn.pipeline.journal_rows import COLUMNS, SCHEMA_JSON, Decision, decisions_of, rows_of_decisions
from firn.pipeline.parquet_sink import ParquetSink
from firn.pipeline.write_target import WriteTarget
from firn.storage.files import FileStore
from firn.storage.journal import JournalFiles

COMMITS_TABLE: Final = "firn.commits"

COLLECTOR: Final = "firn-journal-collector"
"""The writer that collections are submitted as."""

ROWS_MAX: Final = 100_000
"""Rows of one commit; what is more comes with the next."""

TABLES_MAX: Final = 500
"""Tables whose positions one commit moves."""

ROWS_PER_BATCH: Final = 10_000
OVERTAKEN_MAX: Final = 10
"""Collections in a row that others may have been first with, before this one gives up."""

OUTCOME_TIMEOUT_S: Final = 120.0

_SPEC: Final[dict[str, Any]] = {
    "spec-id": 0,
    "fields": [{"source-id": 4, "field-id": 1000, "name": "decided_at_day", "transform": "day"}],
}
_ORDER: Final[dict[str, Any]] = {
    "order-id": 1,
    "fields": [
        {"source-id": source, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
        for source in (1, 2)
    ],
}
_PROPERTIES: Final = {"comment": "the decisions of all tables' journals; collected by firn report commits"}
_OVERTAKEN: Final = "expectation-failed"
"""The rule that refuses a collection whose positions somebody else has moved."""


class Submits(Protocol):
    """What a collection needs of a client (`firn.coordinator.client.Client`)."""

    def submit(self, intent: Intent, /) -> Awaited:
        """Queue an intent."""
        ...

    def table(self, name: str, /) -> TableView:
        """The table as it is now."""
        ...


class Awaited(Protocol):
    """What `Submits.submit` gives back."""

    def result(self, timeout: float, /) -> Answer:
        """The outcome, or that there is none after so many seconds."""
        ...


class JournalHead(msgspec.Struct, frozen=True):
    """A table or view, dropped ones too, and the newest segment of its journal."""

    table: str
    segment: str


class TableCollected(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What one collection brought of one table; `sequence` is its journal's number up to which it is collected."""

    table: str
    committed: int
    rejected: int
    sequence: int


class Collected(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What a collection brought. `problems` are journals that could not be read; the others were collected."""

    tables: tuple[TableCollected, ...]
    commits: int
    problems: tuple[str, ...]

    @property
    def rows(self) -> int:
        """Rows that it added."""
        return sum(one.committed + one.rejected for one in self.tables)


class _Share(msgspec.Struct, frozen=True):
    """Decisions of one table for one commit, and its position before and after them."""

    table: str
    decisions: list[Decision]
    before: str | None
    after: str


class CommitsTable:
    """The table that journals are collected into; it is made when it is not there.

    `files` are the stores of all tables, `table` is its name, `progress` is told the rows of every commit.
    """

    def __init__(
        self,
        client: Submits,
        *,
        files: FileStore,
        journal: JournalFiles,
        table: str = COMMITS_TABLE,
        catalog: Literal["metastore", "file-system"] = "metastore",
        rows_max: int = ROWS_MAX,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._files = files
        self._journal = journal
        self._table = table
        self._catalog: Literal["metastore", "file-system"] = catalog
        self._rows_max = rows_max
        self._progress = progress

    def collect(self, heads: Iterable[JournalHead]) -> Collected:
        """Bring every decision up to these heads that is not there yet.

        Raises RejectedError when the table refuses the rows (somebody changed its columns, say), UnknownOutcome when
        the last commit's outcome could not be learnt: collect again, nothing is doubled.
        """
        # Its own journal last: when nothing but that is left, it is left.
        ordered = sorted(heads, key=lambda head: (head.table == self._table, head.table))
        done: dict[str, TableCollected] = {}
        commits = overtaken = 0
        while True:
            view = self._view()
            problems: list[str] = []
            shares, more = self._next_shares(view, ordered, problems)
            if all(share.table == self._table and _only_collections(share) for share in shares):
                break
            answer = self._commit(view, shares)
            if isinstance(answer, Rejected) and answer.rule == _OVERTAKEN and overtaken < OVERTAKEN_MAX:
                overtaken += 1
                continue
            committed(answer)
            overtaken = 0
            commits += 1
            for share in shares:
                done[share.table] = _told(share, done.get(share.table))
            self._progress(sum(len(share.decisions) for share in shares))
            if not more:
                break
        return Collected(tables=tuple(done.values()), commits=commits, problems=tuple(problems))

    def _view(self) -> TableView:
        """The table; made if there is none."""
        try:
            return require_commits(self._client.table(self._table))
        except NotFound:
            create = CreateTable(
                intent_id=new_intent_id(), table=self._table, schema=SCHEMA_JSON, partition_spec=_SPEC,
                write_order=_ORDER, properties=dict(_PROPERTIES), catalog=self._catalog, writer=COLLECTOR,
            )  # fmt: skip
            answer = self._client.submit(create).result(OUTCOME_TIMEOUT_S)
            if not (isinstance(answer, Rejected) and answer.rule == "table-exists"):
                committed(answer)
            return self._client.table(self._table)

    def _next_shares(
        self, view: TableView, heads: Sequence[JournalHead], problems: list[str]
    ) -> tuple[list[_Share], bool]:
        """What the next commit brings of each table, and whether there is more."""
        positions = positions_in(view.metadata.properties)
        shares: list[_Share] = []
        left = self._rows_max
        for head in heads:
            if left <= 0 or len(shares) == TABLES_MAX:
                return shares, True
            try:
                share, whole = self._share(head, positions.get(head.table), rows_max=left)
            except (CorruptFile, NotFound, InvalidInput) as error:
                problems.append(f"the journal of {head.table} is not collected: {error}")
                continue
            if share is not None:
                shares.append(share)
                left -= len(share.decisions)
            if not whole:
                return shares, True
        return shares, False

    def _share(self, head: JournalHead, position: str | None, *, rows_max: int) -> tuple[_Share | None, bool]:
        """The table's oldest decisions after its position, whole segments of them, and whether these are all."""
        decisions: list[Decision] = []
        after: str | None = None
        for segment in segments_after(self._journal, head.segment, position=position):
            if after is not None and len(decisions) + len(segment.decided) > rows_max:
                return _Share(head.table, decisions, position, after), False
            decisions.extend(decisions_of(segment))
            after = position_of(segment.location)
        return (None if after is None else _Share(head.table, decisions, position, after)), True

    def _commit(self, view: TableView, shares: Sequence[_Share]) -> Answer:
        """Rows and positions, in one transaction; the files of one that is rejected are removed."""
        run = new_intent_id()
        by_name = sorted(shares, key=lambda share: share.table)  # the table's sort order
        files = self._written(view, [decision for share in by_name for decision in share.decisions], run=run)
        moved = UpdateProperties(
            intent_id=run,
            table=view.name,
            updates={property_of(share.table): share.after for share in shares},
            expect={property_of(share.table): share.before for share in shares},
        )
        added = Append(intent_id=run, table=view.name, data_files=tuple(files))
        transaction = Transaction(
            intent_id=run, table=view.name, table_uuid=view.uuid, writer=COLLECTOR,
            members=(added, moved) if files else (moved,),
        )  # fmt: skip
        answer = self._client.submit(transaction).result(OUTCOME_TIMEOUT_S)
        if isinstance(answer, Rejected):
            remove_files(self._files, [file.file_path for file in files])
        return answer

    def _written(self, view: TableView, decisions: list[Decision], *, run: str) -> list[ContentFile]:
        # A table that an earlier version made lacks columns that came later, until somebody adds them.
        target = WriteTarget.of(view, run=run, files={}, sort_order_id=view.metadata.default_sort_order_id)
        with ParquetSink(target, name="journal", files=self._files) as sink:
            for start in range(0, len(decisions), ROWS_PER_BATCH):
                rows = rows_of_decisions(decisions[start : start + ROWS_PER_BATCH])
                sink.write(
                    rows.select([name for name in rows.schema.names if view.schema.find_field(name) is not None])
                )
            return sink.close()


def require_commits(view: TableView) -> TableView:
    """The table, which is one of commits. Raises InvalidInput for any other."""
    lacking = [one.name for one in COLUMNS if one.required and view.schema.find_field(one.name) is None]
    if lacking:
        raise InvalidInput(
            f"is no table of commits: it has no column {lacking[0]!r}",
            where=view.name,
            hint="firn report commits makes one, under a name that is free",
        )
    return view


def _only_collections(share: _Share) -> bool:
    return all(decision.decided.writer == COLLECTOR for decision in share.decisions)


def _told(share: _Share, before: TableCollected | None) -> TableCollected:
    """A share as it is told, added to what was brought of the table before."""
    accepted = sum(isinstance(one.decided.outcome, Committed) for one in share.decisions)
    refused = len(share.decisions) - accepted
    return TableCollected(
        table=share.table,
        committed=accepted + (before.committed if before else 0),
        rejected=refused + (before.rejected if before else 0),
        sequence=int(share.after.partition("-")[0]),
    )

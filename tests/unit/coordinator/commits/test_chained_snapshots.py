"""A snapshot of a swap goes on from the one before it; what is written must be as if it had been made from nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from firn.coordinator.commits.commit import Part, Plan, Prepared, prepare
from firn.coordinator.pending import Pending
from firn.coordinator.replay.attempt import Attempt, Placement
from firn.coordinator.replay.head import Head
from firn.coordinator.tables.table_reader import TableReader
from firn.coordinator.tables.table_state import TableState
from firn.model.identifiers import uuid7
from firn.model.intent import Append, Intent, RowDelta, digest_of
from firn.model.intent_codec import DecodedIntent
from firn.model.manifest import ManifestFile
from firn.model.operations.layout import UpdateSchema
from firn.model.operations.upkeep import UpgradeFormat
from firn.model.outcome import Committed
from firn.storage.intent_streams import Entry
from firn.storage.journal import JournalFiles
from firn.storage.manifest_lists import check_totals, decode_manifest_list
from firn.storage.pointers import Pointers
from tests.unit.coordinator.workbench import (
    TABLE,
    WAREHOUSE,
    Workbench,
    append,
    content_file,
    create,
    delete,
    new_id,
    replace,
)

PER_INTENT = {"firn.append-mode": "per-intent"}
FIRST = tuple(f"old-{number}" for number in range(5))


async def a_table(version: int, *, merge_from: int = 100) -> tuple[Workbench, int]:
    """A table of a few small manifests, and its snapshot."""
    bench = Workbench()
    async with bench.daemon():
        properties = {**PER_INTENT, "commit.manifest.min-count-to-merge": str(merge_from)}
        await bench.commit(create(format_version=version, properties=properties))
        for name in FIRST:
            last = await bench.commit(append(name))
    assert last.snapshot_id is not None
    return bench, last.snapshot_id


async def attempt(bench: Workbench, intents: Sequence[Intent], *, written: dict[str, ManifestFile]) -> Prepared:
    """The intents as one swap on what the table is now, told from others by nothing."""
    reader = TableReader(bench.files, limits=bench.limits)
    journal = JournalFiles(bench.files, bytes_max=bench.limits.journal_bytes_max)
    state = TableState(TABLE, reader=reader, journal=journal, limits=bench.limits)
    state.load(await Pointers(bench.zookeeper.connect()).read(TABLE))
    plan = Plan(
        daemon="d",
        batch=uuid7(now_ms=1, entropy=bytes(10)),
        pendings=tuple(pending(number, intent) for number, intent in enumerate(intents, 1)),
        limits=bench.limits,
        written=written,
        placement=Placement(warehouse=WAREHOUSE, allowed=(WAREHOUSE,)),
    )
    token = uuid7(now_ms=len(written), entropy=bytes(10))
    this = Attempt(batch=plan.batch, token=token, number=0, now_ms=1_900_000_000_000)
    return prepare(plan, state, reader=reader, attempt=this, retried=(), lock_token=1, clock=lambda: 1.0)


def pending(number: int, intent: Intent) -> Pending:
    entry = Entry(shard=0, entry_id=f"{number}-0", payload=b"", deliveries=1)
    return Pending(decoded=DecodedIntent(intent, digest_of(intent), 0), entry=entry, epoch="e", entry_ms=0, taken_at=0)


async def with_and_without(
    bench: Workbench, intents: Sequence[Intent], monkeypatch: pytest.MonkeyPatch, *, attempts: int = 1
) -> tuple[Part, Part]:
    """The swap's part as it is made, and made with nothing carried over from one of its snapshots to the next.

    With several `attempts` the last, which finds the manifests that those before it have written.
    """
    parts = []
    for carries_over in (True, False):
        with monkeypatch.context() as patch:
            if not carries_over:
                patch.setattr(Head, "is_followed_by", lambda *_, **__: False)
            written: dict[str, ManifestFile] = {}
            for _ in range(attempts):
                prepared = await attempt(bench, intents, written=written)
            assert [outcome for outcome in prepared.outcomes if not isinstance(outcome, Committed)] == []
            parts.append(prepared.parts[0])
    with_it, without = parts
    assert any(draft.goes_on for draft in with_it.working.snapshots)
    assert not any(draft.goes_on for draft in without.working.snapshots)
    return with_it, without


def lists_of(part: Part) -> dict[str, list[ManifestFile]]:
    """The manifest lists of the swap, read again; each adds up to its snapshot."""
    data = {name: bytes(content) for name, content in part.files}
    found = {}
    for draft in part.working.snapshots:
        location = draft.snapshot.manifest_list
        assert location is not None
        found[location] = decode_manifest_list(data[location], location=location)
        check_totals(draft.snapshot, found[location])
    return found


def require_same(with_it: Part, without: Part, *, blocks: bool = True) -> None:
    """Every file is the same, byte for byte; without `blocks`, lists may be cut into others."""
    assert lists_of(with_it) == lists_of(without)
    lists = set() if blocks else set(lists_of(with_it))
    ours, theirs = ([(n, n in lists or bytes(c)) for n, c in part.files] for part in (with_it, without))
    assert ours == theirs
    assert with_it.change == without.change
    assert with_it.working.metadata == without.working.metadata
    for branch, head in with_it.working.heads.items():
        assert tuple(head.manifests) == tuple(without.working.heads[branch].manifests)


def appends(count: int, *, mark: str = "new", **changes: Any) -> list[Append]:
    return [append(f"{mark}-{number}", **changes) for number in range(count)]


def more_columns(number: int) -> UpdateSchema:
    change = {"action": "add-column", "name": f"more_{number}", "type": "long"}
    return UpdateSchema(intent_id=new_id(), table=TABLE, base_schema_id=number, changes=(change,))


def mixed(base: int, *, version: int) -> list[Intent]:
    """Appends; deletes of old files and of the swap's own, a rewrite, columns and a staged snapshot between them."""
    has_row_ids = version > 2  # which a rewrite would have to keep
    return [
        *appends(3, mark="a"),
        delete(FIRST[1]),
        *appends(2, mark="b"),
        delete("a-0", "a-1"),  # both manifests are left with tombstones only
        *appends(2, mark="c"),
        more_columns(0),
        *appends(2, mark="d"),
        delete("a-2", FIRST[0]) if has_row_ids else replace(["a-2", FIRST[0]], ["e-0"], base=base, rows=20),
        append("f-0", "f-1"),
        append("staged", stage=True),
        *appends(2, mark="g"),
        more_columns(1),
        delete("g-1", "f-1"),
        *appends(3, mark="h"),
    ]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("merge_from", [3, 100])
@pytest.mark.parametrize("attempts", [1, 2])
async def test_mixed_operations_are_written_as_if_nothing_were_carried_over(version, merge_from, attempts, monkeypatch):
    bench, base = await a_table(version, merge_from=merge_from)
    parts = await with_and_without(bench, mixed(base, version=version), monkeypatch, attempts=attempts)
    require_same(*parts, blocks=version < 3)


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_long_swap_of_appends_is_written_as_if_nothing_were_carried_over(version, monkeypatch):
    """More manifests than stand before all blocks of a list, and than make a long tuple."""
    bench, _ = await a_table(version)
    with_it, without = await with_and_without(bench, appends(300), monkeypatch)
    require_same(with_it, without, blocks=version < 3)
    assert sum(draft.goes_on for draft in with_it.working.snapshots) == 299


@pytest.mark.parametrize("version", [1, 2])
async def test_a_table_that_is_upgraded_in_the_swap_starts_over(version, monkeypatch):
    bench, _ = await a_table(version)
    upgrade = UpgradeFormat(intent_id=new_id(), table=TABLE, format_version=version + 1)
    intents: list[Intent] = [*appends(3, mark="before"), upgrade, *appends(3, mark="after")]
    with_it, without = await with_and_without(bench, intents, monkeypatch)
    require_same(with_it, without, blocks=version < 2)
    assert [draft.goes_on for draft in with_it.working.snapshots] == [False, True, True, False, True, True]


async def test_delete_files_between_appends(monkeypatch):
    """New data manifests stand before those of deletes, new ones of deletes between the two."""
    bench, base = await a_table(2)
    deltas = [
        RowDelta(
            intent_id=new_id(), table=TABLE, base_snapshot_id=base, data_files=(content_file(f"u{number}"),),
            delete_files=(_equality(f"eq-{number}"),),
        )
        for number in range(2)
    ]  # fmt: skip
    intents: list[Intent] = [
        *appends(2, mark="a"), deltas[0], *appends(2, mark="b"), deltas[1], delete("a-0"), *appends(2, mark="c"),
    ]  # fmt: skip
    require_same(*await with_and_without(bench, intents, monkeypatch))


def _equality(name: str) -> Any:
    return msgspec.structs.replace(content_file(name), content="equality-deletes", equality_ids=(1,))


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_comes(seed, monkeypatch):
    """Appends, staged ones and deletes of what is live, in any order."""
    rng = random.Random(seed)
    bench, _ = await a_table(rng.choice((1, 2)), merge_from=rng.choice((3, 100)))
    live = [*FIRST]
    intents: list[Intent] = [append("start-0"), append("start-1")]
    for number in range(25):
        kind = rng.choice(("append", "append", "append", "delete", "stage"))
        if kind == "delete" and live:
            intents.append(delete(*[live.pop(rng.randrange(len(live))) for _ in range(rng.randint(1, 2)) if live]))
            continue
        names = [f"n{number}-{n}" for n in range(rng.randint(1, 3))]
        intents.append(append(*names, stage=kind == "stage"))
        live += names if kind == "append" else []
    require_same(*await with_and_without(bench, intents, monkeypatch))

"""Compare what storage holds with what the outcomes promise: history, references, files, row ids and events.

Storage is read by `outside_history`, the expectation is computed by `table_model`; neither uses firn.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from tests.acceptance.outside_files import OutsideFile
from tests.acceptance.outside_history import (
    Entry,
    History,
    HistoryFault,
    Version,
    batches,
    canonical,
    read_metadata,
    require,
)
from tests.acceptance.outside_wire import Wish
from tests.acceptance.table_model import Step, TableModel

COUNTERS: Final = ("last-column-id", "last-partition-id", "next-row-id", "last-sequence-number", "last-updated-ms")
Json = dict[str, Any]


def check_answers(wishes: Sequence[Wish]) -> None:
    """Each wish has one final outcome, however often it was answered; what had to be refused was."""
    for wish in wishes:
        require(wish.answers, f"no outcome: {wish.intent}")
        other = wish.contradiction()
        require(other is None, f"two outcomes of {wish.intent_id}: {wish.outcome} and {other}")
        require(not (wish.hostile and wish.committed), f"committed although it has {wish.hostile}: {wish.intent}")
        internal = wish.outcome.get("rule") in ("internal-error", "poison", "table-unreadable")
        require(not internal, f"{wish.intent} was answered {wish.outcome}")


def steps_of(wishes: Iterable[Wish]) -> dict[str, list[Step]]:
    """Committed steps by the metadata file that they are in."""
    found: defaultdict[str, list[Step]] = defaultdict(list)
    for wish in wishes:
        if not wish.committed:
            continue
        members = wish.intent.get("members", [wish.intent])
        parts = wish.outcome.get("details", {}).get("members", [wish.outcome])
        for member, part in zip(members, parts, strict=True):
            if "metadata-location" in part:
                found[part["metadata-location"]].append(Step(wish.intent_id, wish.outcome["batch"], member, part))
    return found


def check_names(wishes: Iterable[Wish], pointers: Mapping[str, Json]) -> None:
    """Raise unless names are there, gone, or another's, as the outcomes of their writers have it.

    Each name has one writer, who does one thing after the other.
    """
    there: dict[str, Sql | None] = {}
    by_file: dict[str, Sql] = {}
    for wish in wishes:
        if not wish.committed:
            continue
        table, operation = str(wish.intent["table"]), str(wish.intent["operation"])
        if operation in ("create-table", "register-table"):
            there[table] = None
        elif operation == "register-view":
            there[table] = by_file[wish.intent["metadata-location"]]
        elif operation in ("create-view", "replace-view", "set-current-view-version"):
            there[table] = _view_after(there.get(table), wish)
        elif operation in ("drop-table", "drop-view"):
            del there[table]
        elif operation in ("rename-table", "rename-view"):
            there[wish.intent["new-name"]] = there.pop(table)
        view = there.get(table)
        if view is not None and "metadata-location" in wish.outcome:
            by_file[wish.outcome["metadata-location"]] = view
    found = {name for name, pointer in pointers.items() if not pointer["dropped"]}
    require(found == set(there), f"tables and views: only found {found - set(there)}, missing {set(there) - found}")
    for name, view in there.items():
        if view is not None:
            metadata = read_metadata(pointers[name]["metadata-location"])
            version = next(v for v in metadata["versions"] if v["version-id"] == metadata["current-version-id"])
            text = version["representations"][0]["sql"]
            require(text == view.text, f"view {name} is {text!r}, and was answered to be {view.text!r}")


@dataclass(frozen=True)
class Sql:
    """A view: its current text, and the texts of all its versions."""

    text: str
    versions: Mapping[int, str]


def _view_after(before: Sql | None, wish: Wish) -> Sql:
    """Return a view after a wish that gave it another version."""
    versions = {} if before is None else before.versions
    version = wish.outcome["details"]["version-id"]
    representations = wish.intent.get("representations")
    text = versions[version] if representations is None else representations[0]["sql"]
    return Sql(text, {**versions, version: text})


def check_events(history: History, steps: Mapping[str, list[Step]], events: Iterable[Json]) -> None:
    """Raise unless each version has its event, and the event names the intents that made the version."""
    of_swaps = [e for e in events if e["type"] == "firn.table.committed" and e["data"]["metadata-location"] is not None]
    by_swap = {(e["data"]["metadata-location"], e["data"]["base-metadata"]): e for e in of_swaps}
    base: str | None = None
    for version in history.versions:
        event = by_swap.get((version.location, base))
        base = version.location
        if event is None:
            raise HistoryFault(f"no event of {version.location}")
        made = {
            step.intent_id for step in steps.get(version.location, ()) if step.batch == event["id"].partition("/")[0]
        }
        named = set(event["data"]["intents"])
        require(named == made, f"the event of {version.location} names {named}, made by {made}")


class TableCheck:
    """One table, version by version, against the model."""

    def __init__(self, history: History, steps: Mapping[str, list[Step]], files: Mapping[str, OutsideFile]) -> None:
        self._history, self._steps, self._files = history, steps, files
        self._segments = batches({Path(version.location).parent for version in history.versions})
        staged = {
            step.member["wap-id"]: step.part["snapshot-id"]
            for some in steps.values() for step in some if step.member.get("stage")
        }  # fmt: skip
        self._model = TableModel(files, staged)
        self._row_ids: dict[str, int] = {}
        self._ages: dict[str, int] = {}
        self._born_v3 = history.versions[0].metadata["format-version"] >= 3

    def run(self) -> None:
        """Raise a HistoryFault where storage is not as it was answered."""
        before: Version | None = None
        for version in self._history.versions:
            made, later = self._ordered(version)
            require(made or Path(version.location).name[0] == "v", f"nobody was answered with {version.location}")
            for step in made:
                self._model.apply(step)
                self._note_ages(step)
            for step in later:
                require(not self._model.would_change(step), f"{step} changed nothing")
            self._compare(version, before)
            before, self._model.expiring = version, False
        for snapshot in self._history.newest.snapshots.values():
            self._check_reachable(snapshot)
        if self._born_v3:
            paths = set(self._row_ids) - self._model.picked
            _check_disjoint((self._row_ids[path], len(self._files[path].ids), path) for path in paths)

    def _ordered(self, version: Version) -> tuple[list[Step], list[Step]]:
        """Return the steps that made a version, in the order of decision, and later ones that changed nothing."""
        steps = self._steps.get(version.location, [])
        known = {step.intent_id for step in steps}
        found = sorted(self._segments.get(version.location, ()), key=len, reverse=True)
        for outcomes in found:
            order = {outcome["intent-id"]: place for place, outcome in enumerate(outcomes)}
            ours = [s for s in steps if s.intent_id in order and s.batch == outcomes[0]["batch"]]
            if order.keys() <= known and bool(ours) == bool(outcomes):
                made = sorted(ours, key=lambda step: order[step.intent_id])
                return made, [step for step in steps if step not in ours]
        raise HistoryFault(f"{version.location}: no journal segment of {found} has what was answered: {steps}")

    def _compare(self, version: Version, before: Version | None) -> None:
        model, at = self._model, version.location
        old = {} if before is None else before.snapshots
        for name, found, expected in (
            ("references", version.refs, model.refs),
            ("properties", version.properties, model.properties),
            ("columns", version.columns, model.columns),
            ("partition fields", version.partition_columns, model.partition_columns),
        ):
            require(found == expected, f"{at}: {name} are {found}, by the outcomes {expected}")
        for member, paths in (
            ("statistics", model.statistics),
            ("partition-statistics", model.partition_statistics),
        ):
            kept = {snapshot: path for snapshot, path in paths.items() if snapshot in version.snapshots}
            listed = version.statistics(member)
            require(listed == kept, f"{at}: {member} are {listed}, by the outcomes {kept}")
        gone = old.keys() - version.snapshots.keys()
        require(model.expiring or not gone, f"{at}: snapshots {gone} are gone and nobody expired them")
        require(set(version.refs.values()) <= version.snapshots.keys(), f"{at}: a reference leads nowhere")
        self._check_line(version, before)
        for snapshot_id, snapshot in version.snapshots.items():
            if snapshot_id not in old:
                require(snapshot_id in model.parents, f"{at}: nobody was answered with snapshot {snapshot_id}")
                parent = snapshot.get("parent-snapshot-id")
                require(parent == model.parents[snapshot_id], f"{at}: snapshot {snapshot_id} has parent {parent}")
                self._check_snapshot(snapshot)

    def _check_line(self, version: Version, before: Version | None) -> None:
        new, at = version.metadata, version.location
        if before is None:
            return
        old = before.metadata
        for name in COUNTERS:
            require(new.get(name, 0) >= old.get(name, 0), f"{at}: {name} falls from {old.get(name)} to {new.get(name)}")
        require(new["table-uuid"] == old["table-uuid"], f"{at}: the table became another")
        added = sorted(
            (s for i, s in version.snapshots.items() if i not in before.snapshots), key=lambda s: s["sequence-number"]
        )
        numbers = [s["sequence-number"] for s in added]
        last = old["last-sequence-number"]
        if not self._model.expiring:
            require(numbers == list(range(last + 1, last + 1 + len(added))), f"{at}: {numbers} after {last}")
            require(new["last-sequence-number"] == last + len(added), f"{at}: last-sequence-number is no snapshot's")
        times = [s["timestamp-ms"] for s in added]
        require(times == sorted(times), f"{at}: times of snapshots fall: {times}")
        log = new.get("metadata-log", ())
        require(log and log[-1]["metadata-file"] == before.location, f"{at}: does not name the version before it")

    def _check_snapshot(self, snapshot: Json) -> None:
        """Its live files are those that the outcomes make, and all that it lists agrees with itself."""
        entries = self._history.entries(snapshot)
        if entries is None:
            return
        where = f"snapshot {snapshot['snapshot-id']} ({snapshot['sequence-number']})"
        data = [e for e in entries if e.kind == "data"]
        expected = self._model.live[snapshot["snapshot-id"]]
        twice = [path for path, times in Counter(canonical(e.path) for e in data).items() if times > 1]
        require(not twice, f"{where}: live more than once: {twice}")
        found = {e.path for e in data}
        require(
            found == expected.data.keys(),
            f"{where}: nobody was answered {sorted(found - expected.data.keys())[:3]}, missing"
            f" {sorted(expected.data.keys() - found)[:3]}",
        )
        for entry in data:
            require(entry.count == len(self._files[entry.path].ids), f"{where}: {entry.path} has another count")
            require(
                entry.size == self._files[entry.path].member["file-size-in-bytes"], f"{where}: size of {entry.path}"
            )
        self._check_positions(entries, expected.data, where)
        self._check_equality(entries, expected.equality, snapshot)
        total = snapshot["summary"].get("total-records")
        require(total in (None, str(sum(e.count for e in data))), f"{where}: total-records is {total}")
        if "first-row-id" in snapshot and snapshot["first-row-id"] is not None:
            self._check_row_ids(data, where)

    def _check_positions(self, entries: Sequence[Entry], expected: Mapping[str, frozenset[int]], where: str) -> None:
        ages = {e.path: e.sequence for e in entries if e.kind == "data"}
        found: defaultdict[str, frozenset[int]] = defaultdict(frozenset)
        vectors: Counter[str] = Counter()
        for entry in sorted((e for e in entries if e.kind == "positions"), key=lambda e: e.is_vector):
            for target, positions in self._history.positions(entry).items():
                if target not in ages or entry.sequence < ages[target]:
                    continue
                if entry.is_vector:
                    vectors[target] += 1
                    found[target] = positions  # hides what position delete files say
                else:
                    found[target] |= positions
        doubled = [target for target, times in vectors.items() if times > 1]
        require(not doubled, f"{where}: several deletion vectors of {doubled}")
        for path, positions in expected.items():
            require(
                found[path] == positions, f"{where}: {sorted(found[path])} of {path} deleted, not {sorted(positions)}"
            )

    def _check_equality(self, entries: Sequence[Entry], expected: frozenset[str], snapshot: Json) -> None:
        """Only those that were committed; one that is not there any more could reach no file."""
        found = {e.path for e in entries if e.kind == "equality"}
        require(found <= expected, f"equality deletes that nobody was answered: {found - expected}")
        for path in expected - found:
            delete = self._files[path].member
            reached = [
                e.path for e in entries
                if e.kind == "data" and e.sequence < self._ages[path]
                and all(self._files[e.path].member[n] == delete[n] for n in ("spec-id", "partition"))
            ]  # fmt: skip
            require(not reached, f"snapshot {snapshot['snapshot-id']}: {path} is gone, and was for {reached}")

    def _note_ages(self, step: Step) -> None:
        """Equality deletes are as old as the snapshot that brought them, whose own files may be gone since."""
        for file in step.member.get("delete-files", ()):
            if step.part.get("sequence-number") is not None:
                self._ages.setdefault(file["file-path"], step.part["sequence-number"])

    def _check_row_ids(self, data: Sequence[Entry], where: str) -> None:
        for entry in data:
            require(entry.first_row_id is not None, f"{where}: {entry.path} has no row ids")
            assert entry.first_row_id is not None
            known = self._row_ids.setdefault(entry.path, entry.first_row_id)
            same = known == entry.first_row_id or not self._born_v3 or entry.path in self._model.picked
            require(same, f"{where}: row ids of {entry.path} changed from {known} to {entry.first_row_id}")
        _check_disjoint((e.first_row_id or 0, e.count, e.path) for e in data)
        ends = max((e.count + (e.first_row_id or 0) for e in data), default=0)
        newest = self._history.newest.metadata["next-row-id"]
        require(ends <= newest, f"{where}: row ids up to {ends}, next-row-id is {newest}")

    def _check_reachable(self, snapshot: Json) -> None:
        """Every file of a snapshot that the table still has is there, as it was listed."""
        for entry in self._history.entries(snapshot) or ():
            path = Path(entry.path)
            require(path.exists(), f"{path} is missing, which snapshot {snapshot['snapshot-id']} lists")
            require(path.stat().st_size == entry.size, f"{path} has {path.stat().st_size} bytes, not {entry.size}")
            if entry.kind == "data":
                rows = pq.read_metadata(path).num_rows
                require(rows == entry.count, f"{path} has {rows} rows, not {entry.count}")


def _check_disjoint(ranges: Iterable[tuple[int, int, str]]) -> None:
    for (first, count, path), (after, _, other) in pairwise(sorted(ranges)):
        require(first + count <= after, f"{path} and {other} share row ids from {after} on")


def operations_committed(wishes: Iterable[Wish]) -> Counter[str]:
    """How often each operation was committed, and refused by which rule: what a run was worth."""
    return Counter(
        f"{w.intent['operation']} {'committed' if w.committed else w.outcome.get('rule')}" for w in wishes if w.answers
    )

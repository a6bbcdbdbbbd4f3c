"""`firn recover`: the pointers of all tables, made anew from table storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
import msgspec

from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK
from firn.coordinator.cli.output import Column, complain
from firn.coordinator.cli.progress import showing_progress
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.text import one_line, shown
from firn.coordinator.operations.table_health import EVENTS_MAX
from firn.coordinator.recovery.heads import Witness
from firn.coordinator.recovery.journals import Journals, Link
from firn.coordinator.recovery.run import (
    ANNOUNCED_AT_ONCE,
    Found,
    Storage,
    Survey,
    of_uuid,
    places_of,
    replace,
    restore,
    survey,
)
from firn.coordinator.store_identity import StoreIdentity
from firn.model.amounts import plural
from firn.model.deployment import judge
from firn.model.errors import AlreadyExists, CorruptFile, FirnError, InvalidInput, Misconfigured, NotFound, Unavailable
from firn.model.event import Event
from firn.model.identifiers import check_table_name
from firn.model.progress import Progress, counted
from firn.storage.intent_streams import TablePlace
from firn.storage.journal import segment_key
from firn.storage.leases import Leases
from firn.storage.metadata_files import version_of
from firn.storage.pauses import Pauses
from firn.storage.pointers import Pointer, Pointers

COLUMNS: Final = (
    Column("TABLE"), Column("FOUND"), Column("KIND"), Column("VERSION", right=True), Column("JOURNAL", right=True),
    Column("EVIDENCE"), Column("WHY", long=True),
)  # fmt: skip

LISTED_MAX: Final = 20

LOCK_S: Final = 30.0
"""How long a table's lock is waited for."""

_EVENT: Final = msgspec.json.Decoder(Event)
_PLACE: Final = msgspec.json.Decoder(TablePlace)


@click.command(
    epilog="Examples: firn recover   firn recover --yes   firn recover db.events --yes   "
    "firn recover --location s3://old-bucket/tables --missing-only"
)
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--yes", is_flag=True, help="Make and set the pointers. Without it, only what would be done is shown.")
@click.option("--missing-only", is_flag=True, help="Make missing pointers only: those that are there stay as they are.")
@click.option(
    "--location", "locations", multiple=True, metavar="PLACE",
    help="A further place in which tables are [default: the warehouse and all allowed places].",
)  # fmt: skip
@click.option("--uuid", help="Of several tables that have had the name: give it to this one.")
@click.option("--adopt-redis", is_flag=True, help="Take a Redis over that is marked as another's.")
@click.option("--adopt-warehouse", is_flag=True, help="Take a warehouse over that has no mark, or another's.")
@reaching
def recover(
    reach: Reach,
    *,
    tables: tuple[str, ...],
    yes: bool,
    missing_only: bool,
    locations: tuple[str, ...],
    uuid: str | None,
    adopt_redis: bool,
    adopt_warehouse: bool,
) -> int:
    """Rebuild pointers of tables and views from their journals and metadata: those that ZooKeeper has lost, and those
    that are older than the journal.

    Each journal segment is read once, and nothing in table storage is changed. What was committed stays committed, what
    was decided is answered again, dropped tables stay dropped, renamed ones renamed. ZooKeeper and Redis are marked as
    the warehouse's, so that daemons go on. It may be run beside daemons. docs/recovery.md tells the whole procedure.
    """
    if uuid is not None and len(tables) != 1:
        raise InvalidInput("--uuid needs the name of one table", where="firn recover")
    for name in tables:
        check_table_name(name)
    adopting = Adopting(redis=adopt_redis, warehouse=adopt_warehouse)
    reach.run(_refuse_if_foreign(reach, adopting))
    pointers = reach.run(_in_zookeeper(reach))
    storage = Storage(reach.files, limits=reach.settings.limits)
    places = (*dict.fromkeys((*reach.settings.allowed_locations, *locations)),)
    complain(f"firn: looking for journals below {', '.join(map(shown, places))}")
    with showing_progress(reach.output) as progress:
        journals = storage.journals(places, progress=progress)
    complain(f"firn: {plural(len(journals.by_key), 'journal segment')} of {plural(len(journals.by_name), 'name')}")
    if uuid is not None:
        journals = of_uuid(journals, tables[0], uuid)
    known = {name: pointer for name, pointer in pointers.items() if pointer is not None}
    witness = reach.run(_witness(reach, journals))
    with showing_progress(reach.output) as progress:
        found = survey(
            storage, journals, existing=pointers.keys(), witness=witness, pointers={} if missing_only else known,
            progress=progress,
        )  # fmt: skip
    if tables:
        found = msgspec.structs.replace(found, tables=tuple(one for one in found.tables if one.table in tables))
        missing = sorted({*tables} - {one.table for one in found.tables})
        if missing:
            raise NotFound(f"there is no journal of {_listed(missing)}{'' if uuid is None else f' with uuid {uuid}'}")
    if uuid is not None:
        found = _given_to(found, storage, journals)
    if not yes:
        _show(reach, found, restored=None)
        return _code(found)
    with showing_progress(reach.output) as progress:
        restored = reach.run(_restore(reach, found, known, named=bool(tables), progress=progress))
    if not tables:
        reach.run(_mark(reach, adopting))
    _show(reach, found, restored=restored)
    return _code(found)


def _given_to(found: Survey, storage: Storage, journals: Journals) -> Survey:
    """The survey of one name, whose pointer is to lead to the only journal that is left of it."""
    (one,) = found.tables
    if one.finding in {"restore", "stale", "exists"} and one.trouble is None:
        return found
    alone = survey(storage, journals, existing=(), witness=lambda _: None)
    (chosen,) = (other for other in alone.tables if other.table == one.table)
    if chosen.finding == "restore":
        chosen = msgspec.structs.replace(chosen, finding="stale")
    return msgspec.structs.replace(found, tables=(chosen,))


def _code(found: Survey) -> int:
    return EXIT_NO if any(one.finding in {"damaged", "split"} for one in found.tables) else EXIT_OK


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED_MAX} more" if len(names) > LISTED_MAX else ""
    return ", ".join(map(shown, names[:LISTED_MAX])) + more


# -- what the servers still have ---------------------------------------------------------------------------------------


class Adopting(msgspec.Struct, frozen=True, kw_only=True):
    """Which stores are taken over although they are marked as another deployment's."""

    redis: bool
    warehouse: bool


async def _refuse_if_foreign(reach: Reach, adopting: Adopting) -> None:
    """Raise Misconfigured where pointers would be made in another deployment's ZooKeeper."""
    async with reach.session() as session, reach.streams_if_any() as streams:
        stores = StoreIdentity(reach.settings, session=session, streams=streams, files=reach.files)
        await stores.read_warehouse()
        verdict = judge(await stores.marks(redis_may_be_away=True))
    taken = {"redis-foreign": adopting.redis, "warehouse-foreign": adopting.warehouse, "zookeeper-other-root": True}
    if verdict.is_foreign and not taken.get(verdict.finding, False):
        raise Misconfigured(verdict.reason)
    if not verdict.is_fine:
        complain(f"firn: {one_line(verdict.reason)}")


async def _mark(reach: Reach, adopting: Adopting) -> None:
    """Mark ZooKeeper and Redis as the warehouse's deployment, so that daemons take them for their own."""
    async with reach.session() as session, reach.streams_if_any() as streams:
        stores = StoreIdentity(reach.settings, session=session, streams=streams, files=reach.files)
        await stores.read_warehouse()
        try:
            await stores.adopt(redis=adopting.redis, warehouse=adopting.warehouse)
        except Unavailable as error:
            complain(f"firn: not all stores were marked; a daemon marks them when it starts: {one_line(str(error))}")


async def _in_zookeeper(reach: Reach) -> dict[str, Pointer | None]:
    """The names that have a pointer, with it; None where it cannot be read."""
    found: dict[str, Pointer | None] = {}
    async with reach.session() as session:
        pointers = Pointers(session)
        for name in await pointers.list():
            try:
                found[name] = (await pointers.read(name)).pointer
            except CorruptFile as error:
                complain(f"firn: {one_line(str(error))}")
                found[name] = None
            except NotFound:
                continue
    return found


async def _witness(reach: Reach, journals: Journals) -> Witness:
    """What Redis says of commits, if it was not lost, too."""
    segments: set[str] = set()
    places: dict[str, str] = {}
    try:
        async with reach.streams() as streams:
            for message in await streams.newest_events(count=EVENTS_MAX):
                segments.add(segment_key(_segment_of(message.data)))
            for name in journals.by_name:
                place = await streams.table(name)
                if place is not None:
                    places[name] = _metadata_of(place)
    except Unavailable as error:
        complain(f"firn: nothing is known but what is in storage: {one_line(str(error))}")

    def witness(link: Link) -> str | None:
        if link.key in segments:
            return "Redis has the event of its commit"
        batch = link.batch
        is_new = batch.new_metadata is not None and batch.new_metadata != batch.base_metadata
        if is_new and places.get(batch.table) == batch.new_metadata:
            return "Redis tells writers of its metadata"
        return None

    return witness


def _segment_of(data: bytes) -> str:
    try:
        return str(_EVENT.decode(data).data.get("journal-segment", ""))
    except msgspec.DecodeError:
        return ""  # somebody else's


def _metadata_of(data: bytes) -> str:
    try:
        return _PLACE.decode(data).metadata_location
    except msgspec.DecodeError:
        return ""


# -- doing it ----------------------------------------------------------------------------------------------------------


async def _restore(
    reach: Reach, found: Survey, known: Mapping[str, Pointer], *, named: bool, progress: Progress
) -> list[str]:
    """Make and set the pointers, and tell Redis where all tables are; the names that were restored."""
    restored: list[Pointer] = []
    wanted = [one for one in found.tables if one.pointer is not None and (
        one.finding in {"restore", "stale"} or (one.finding == "exists" and named)
    )]  # fmt: skip
    async with reach.session() as session:
        pointers, pauses = Pointers(session), Pauses(session)
        leases = Leases(session, member="operator (firn recover)")
        try:
            for one in counted(wanted, "pointer", total=len(wanted), progress=progress):
                assert one.pointer is not None
                try:
                    if one.finding == "restore":
                        await restore(pointers, pauses, one.pointer)
                    else:
                        await _set(pointers, leases, one.pointer, surveyed=known[one.table])
                except (AlreadyExists, InvalidInput) as error:
                    complain(f"firn: {one_line(str(error))}")
                else:
                    restored.append(one.pointer)
        finally:
            await leases.close()
    existing = [pointer for name, pointer in known.items() if name not in {one.table for one in restored}]
    places = list(places_of([*restored, *existing]).items())
    try:
        async with reach.streams() as streams:
            for start in range(0, len(places), ANNOUNCED_AT_ONCE):
                progress("table announced in Redis", start + 1, len(places))
                await streams.announce_tables(dict(places[start : start + ANNOUNCED_AT_ONCE]))
    except FirnError as error:
        complain(
            "firn: Redis did not take where the tables are; clients find each after its next commit, or after "
            f"firn recover --missing-only --yes: {one_line(str(error))}"
        )
    return [pointer.table for pointer in restored]


async def _set(pointers: Pointers, leases: Leases, pointer: Pointer, *, surveyed: Pointer) -> None:
    """Set a pointer that is there, under the table's lock. Raises AlreadyExists, Unavailable."""
    lease = await leases.acquire(pointer.table, timeout_s=LOCK_S)
    if lease is None:
        raise Unavailable(f"the lock of {pointer.table!r} was not free within {LOCK_S:g} s")
    try:
        known = await pointers.read(pointer.table)
        if known.pointer.journal_head != surveyed.journal_head:
            raise AlreadyExists(f"the pointer of {pointer.table!r} was moved meanwhile: look again with firn recover")
        kept = msgspec.structs.replace(pointer, paused=known.pointer.paused or pointer.paused)
        await replace(pointers, kept, expected=known.version, lease=lease)
    finally:
        await leases.release(lease)


# -- what is shown -----------------------------------------------------------------------------------------------------


def _show(reach: Reach, found: Survey, *, restored: list[str] | None) -> None:
    if reach.output.as_json:
        members: dict[str, Any] = msgspec.to_builtins(found)
        reach.output.document({**members, "dry-run": restored is None, "restored": restored or []})
        return
    reach.output.grid(COLUMNS, map(_row, found.tables), empty="no journals: no table below these places is firn's")
    reach.output.say()
    for location, why in list(found.torn.items())[:LISTED_MAX]:
        complain(f"firn: no whole segment: {one_line(location)}: {one_line(why)}")
    if len(found.torn) > LISTED_MAX:
        complain(f"firn: and {len(found.torn) - LISTED_MAX} more (--json lists all)")
    if found.copies:
        complain(f"firn: {plural(len(found.copies), 'segment')} of copied or moved tables left out (--json)")
    counts = {
        finding: sum(one.finding == finding for one in found.tables)
        for finding in ("restore", "stale", "split", "damaged")
    }
    if counts["damaged"]:
        complain(
            f"firn: {plural(counts['damaged'], 'table')} not restorable as stored: bring the files back that are "
            "named, and run it again; or take the table over without its journal: firn table register"
        )
    paused = [one.table for one in found.tables if one.pointer is not None and one.pointer.paused is not None]
    if paused:
        reach.output.say(
            f"{plural(len(paused), 'table')} {'was' if len(paused) == 1 else 'were'} paused, and "
            f"{'stays' if len(paused) == 1 else 'stay'} so until firn resume: {_listed(paused)}"
        )
    stale = f", {plural(counts['stale'], 'stale one')} set" if counts["stale"] else ""
    if restored is None:
        reach.output.say(
            f"{plural(counts['restore'], 'pointer')} would be made{stale}; nothing was changed"
            + (f" (--yes makes {'and sets ' if stale else ''}them)" if counts["restore"] or stale else "")
        )
    else:
        reach.output.say(
            f"{plural(len(restored), 'pointer')} made{' or set' if stale else ''}; firn fsck --all checks the tables"
        )


def _row(one: Found) -> tuple[object, ...]:
    pointer = one.pointer
    kind: str = "-" if pointer is None else pointer.kind
    if pointer is not None and pointer.dropped:
        kind = "dropped" if pointer.renamed_to is None else f"now {pointer.renamed_to}"
    version = "-" if pointer is None or pointer.dropped else version_of(pointer.metadata_location)
    pause = None if pointer is None else pointer.paused
    paused = None if pause is None else f"paused by {pause.by}: {pause.reason}"
    return (
        one.table, one.finding, kind, "-" if version is None else version, one.journal_number or "-",
        one.certainty or "-", one.trouble or "; ".join(filter(None, (paused, *one.evidence))),
    )  # fmt: skip

"""`firn recover`: the pointers of all tables, made anew from table storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK
from firn.coordinator.cli.output import Column, complain
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.text import one_line, shown
from firn.coordinator.operations.table_health import EVENTS_MAX
from firn.coordinator.recovery.heads import Witness
from firn.coordinator.recovery.journals import Journals, Link
from firn.coordinator.recovery.run import ANNOUNCED_AT_ONCE, Found, Storage, Survey, places_of, restore, survey
from firn.model.amounts import plural
from firn.model.errors import AlreadyExists, CorruptFile, FirnError, InvalidInput, Misconfigured, NotFound, Unavailable
from firn.model.event import Event
from firn.storage.intent_streams import TablePlace
from firn.storage.journal import segment_key
from firn.storage.membership import Membership
from firn.storage.metadata_files import version_of
from firn.storage.pauses import Pauses
from firn.storage.pointers import Pointer, Pointers

COLUMNS: Final = (
    Column("TABLE"), Column("FOUND"), Column("KIND"), Column("VERSION", right=True), Column("JOURNAL", right=True),
    Column("EVIDENCE"), Column("WHY", long=True),
)  # fmt: skip

LISTED_MAX: Final = 20

_EVENT: Final = msgspec.json.Decoder(Event)
_PLACE: Final = msgspec.json.Decoder(TablePlace)


@click.command(
    epilog="Examples: firn recover   firn recover --yes   firn recover --location s3://old-bucket/tables --missing-only"
)
@click.option("--yes", is_flag=True, help="Make the pointers. Without it, only what would be done is shown.")
@click.option("--missing-only", is_flag=True, help="Go on where some tables have pointers: those stay as they are.")
@click.option(
    "--location", "locations", multiple=True, metavar="PLACE",
    help="A further place in which tables are [default: the warehouse and all allowed places].",
)  # fmt: skip
@reaching
def recover(reach: Reach, *, yes: bool, missing_only: bool, locations: tuple[str, ...]) -> int:
    """Rebuild the pointers of all tables and views from their journals and metadata, after ZooKeeper was lost.

    Each journal segment is read once, and nothing in table storage is changed. What was committed stays committed, what
    was decided is answered again, dropped tables stay dropped, renamed ones renamed. Run it before any daemon is
    started: one that finds no pointers refuses intents. docs/recovery.md tells the whole procedure.
    """
    pointers, members = reach.run(_in_zookeeper(reach))
    storage = Storage(reach.files, limits=reach.settings.limits)
    places = (*dict.fromkeys((*reach.settings.allowed_locations, *locations)),)
    complain(f"firn: looking for journals below {', '.join(map(shown, places))}")
    journals = storage.journals(places)
    complain(f"firn: {plural(len(journals.by_key), 'journal segment')} of {plural(len(journals.by_name), 'name')}")
    found = survey(
        storage, journals, existing=pointers.keys(), witness=reach.run(_witness(reach, journals))
    )  # fmt: skip
    if not yes:
        _show(reach, found, restored=None)
        return _code(found)
    _refuse_if_unwise(found, members, missing_only=missing_only)
    restored = reach.run(_restore(reach, found, list(pointers.values())))
    _show(reach, found, restored=restored)
    return _code(found)


def _code(found: Survey) -> int:
    return EXIT_NO if any(one.finding == "damaged" for one in found.tables) else EXIT_OK


def _refuse_if_unwise(found: Survey, members: Sequence[str], *, missing_only: bool) -> None:
    if missing_only:
        return
    existing = [one.table for one in found.tables if one.finding == "exists"]
    if existing:
        raise Misconfigured(
            f"{plural(len(existing), 'pointer')} there already ({_listed(existing)}), so ZooKeeper was not lost whole: "
            "nothing was done. --missing-only restores the others, and leaves these as they are"
        )
    if members:
        raise Misconfigured(
            f"daemons are running ({_listed(members)}): nothing was done. Stop them first, they refuse intents for "
            "tables that have no pointer; or give --missing-only"
        )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED_MAX} more" if len(names) > LISTED_MAX else ""
    return ", ".join(map(shown, names[:LISTED_MAX])) + more


# -- what the servers still have ---------------------------------------------------------------------------------------


async def _in_zookeeper(reach: Reach) -> tuple[dict[str, Pointer | None], list[str]]:
    """The names that have a pointer, with it (None where it cannot be read), and the daemons that are there."""
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
        return found, await Membership(session).members()


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


async def _restore(reach: Reach, found: Survey, existing: Sequence[Pointer | None]) -> list[str]:
    """Make the pointers, and tell Redis where all tables are; the names that were restored."""
    restored: list[Pointer] = []
    async with reach.session() as session:
        pointers, pauses = Pointers(session), Pauses(session)
        for one in found.tables:
            if one.finding != "restore" or one.pointer is None:
                continue
            try:
                await restore(pointers, pauses, one.pointer)
            except (AlreadyExists, InvalidInput) as error:
                complain(f"firn: {one_line(str(error))}")
            else:
                restored.append(one.pointer)
    places = list(places_of([*restored, *(pointer for pointer in existing if pointer is not None)]).items())
    try:
        async with reach.streams() as streams:
            for start in range(0, len(places), ANNOUNCED_AT_ONCE):
                await streams.announce_tables(dict(places[start : start + ANNOUNCED_AT_ONCE]))
    except FirnError as error:
        complain(
            "firn: Redis did not take where the tables are; clients find each after its next commit, or after "
            f"firn recover --missing-only --yes: {one_line(str(error))}"
        )
    return [pointer.table for pointer in restored]


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
    counts = {finding: sum(one.finding == finding for one in found.tables) for finding in ("restore", "damaged")}
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
    if restored is None:
        reach.output.say(
            f"{plural(counts['restore'], 'pointer')} would be made; nothing was changed"
            + (" (--yes makes them)" if counts["restore"] else "")
        )
    else:
        reach.output.say(f"{plural(len(restored), 'pointer')} made; firn fsck --all checks the tables")


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

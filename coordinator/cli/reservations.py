"""`firn begin`, `renew`, `end` and `reservations`: early notice of work on a table, for scripts and for people."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK
from firn.coordinator.cli.making import wanted_of
from firn.coordinator.cli.output import Column, complain
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.text import one_line, time_of
from firn.coordinator.outcomes.reservations import Reservations, Standing
from firn.model.amounts import plural
from firn.model.errors import InvalidInput, Unavailable
from firn.model.identifiers import check_table_name
from firn.model.reservation import Reservation

if TYPE_CHECKING:
    from firn.coordinator.client.reservations import ReservationOptions

LEASE_MINUTES: Final = 10.0

COLUMNS: Final = (
    Column("RESERVATION"), Column("HOLDER"), Column("RESERVED", long=True), Column("BASE", right=True),
    Column("BEGUN"), Column("UNTIL"), Column("DISTURBED BY", right=True), Column("PURPOSE", long=True),
)  # fmt: skip

_Result = TypeVar("_Result")
_minutes = click.option(
    "--minutes", type=click.FloatRange(min=0.02), default=LEASE_MINUTES, show_default=True,
    help="How long it lives unless it is renewed.",
)  # fmt: skip


@click.command()
@click.argument("table")
@click.option("--file", "files", multiple=True, help="A data file that is worked on; may be repeated.")
@click.option(
    "--partition", "partitions", multiple=True, help="A partition as a JSON list of its values; may be repeated."
)
@click.option("--spec-id", type=click.IntRange(min=0), default=0, show_default=True, help="The spec of the partitions.")
@click.option("--where", "rows", help="The rows that are worked on, as a filter.")
@click.option("--branch", default="main", show_default=True, help="The branch.")
@click.option("--base", type=click.IntRange(min=0), help="The snapshot that the work is planned on: kept from expiry.")
@click.option("--holder", help="Who works [default: host and process].")
@click.option("--purpose", default="", help="What for.")
@click.option("--anyway", is_flag=True, help="Begin even when others have reserved it.")
@_minutes
@reaching
def begin(  # noqa: PLR0913 - all of it is optional
    reach: Reach,
    *,
    table: str,
    files: tuple[str, ...],
    partitions: tuple[str, ...],
    spec_id: int,
    rows: str | None,
    branch: str,
    base: int | None,
    holder: str | None,
    purpose: str,
    anyway: bool,
    minutes: float,
) -> int:
    """Reserve work on TABLE, and print the reservation's id. With no file, partition or filter it is the whole branch.

    Exits with 1, and says who is at it and until when, if others have reserved it. It refuses nobody's commit.
    """
    options: ReservationOptions = {
        "files": files, "partitions": [(spec_id, _values(text)) for text in partitions], "branch": branch,
        "purpose": purpose,
    }  # fmt: skip
    if rows is not None:
        options["rows"] = rows
    if base is not None:
        options["base_snapshot_id"] = base
    if holder is not None:
        options["holder"] = holder
    wanted = wanted_of(table, options)
    _require_table(reach, table)
    begun = _with(reach, lambda r: r.begin(wanted, lease_ms=round(minutes * 60_000), anyway=anyway))
    if reach.output.as_json:
        reach.output.document(begun)
    for overlap in begun.overlaps:
        complain(f"firn: {one_line(str(overlap))}, until {time_of(overlap.reservation.until_ms)}")
    if begun.reservation is None:
        return EXIT_NO
    reach.output.say(begun.reservation.reservation_id)
    return EXIT_OK


@click.command()
@click.argument("table")
@click.argument("reservation_id", metavar="ID")
@_minutes
@reaching
def renew(reach: Reach, *, table: str, reservation_id: str, minutes: float) -> int:
    """Renew a reservation. Exits with 1 when it has been disturbed, or is gone."""
    check_table_name(table)
    standing = _with(reach, lambda r: r.renew(table, reservation_id, lease_ms=round(minutes * 60_000)))
    if reach.output.as_json:
        reach.output.document(standing)
    if standing is None:
        _require_table(reach, table)
        complain(f"firn: reservation {one_line(reservation_id)} of {table} is gone: begin again")
        return EXIT_NO
    for found in standing.disturbances:
        by = found.writer or ", ".join(found.intents[:3]) or "another"
        complain(f"firn: {one_line(found.what)} by {one_line(by)} in snapshot {found.snapshot_id}")
    reach.output.say(f"until {time_of(standing.reservation.until_ms)}")
    return EXIT_NO if standing.disturbances else EXIT_OK


@click.command()
@click.argument("table")
@click.argument("reservation_id", metavar="ID")
@reaching
def end(reach: Reach, *, table: str, reservation_id: str) -> int:
    """Give a reservation up. Exits with 1 when there is none such."""
    check_table_name(table)
    ended = _with(reach, lambda r: r.end(table, reservation_id))
    if reach.output.as_json:
        reach.output.document({"ended": bool(ended)})
    if not ended:
        _require_table(reach, table)
        complain(f"firn: {table} has no reservation {one_line(reservation_id)}: it was ended, or not renewed in time")
        return EXIT_NO
    reach.output.say("ended")
    return EXIT_OK


@click.command()
@click.argument("table")
@reaching
def reservations(reach: Reach, *, table: str) -> None:
    """List who is at work on TABLE, on what, and until when."""
    check_table_name(table)
    board = _with(reach, lambda r: r.of(table))
    if not board.standings:
        _require_table(reach, table)
    if reach.output.as_json:
        reach.output.document(board)
    reach.output.grid(COLUMNS, map(_row, board.standings), empty=f"Nobody has reserved anything of {table}.")


def _row(standing: Standing) -> tuple[object, ...]:
    one: Reservation = standing.reservation
    count = len(standing.disturbances)
    return (
        one.reservation_id, one.holder, str(one.scope), one.base_snapshot_id or "-", time_of(one.begun_ms),
        time_of(one.until_ms), plural(count, "commit") if count else "-", one.purpose,
    )  # fmt: skip


def _require_table(reach: Reach, table: str) -> None:
    """Raise NotFound for a table that does not exist: Redis keeps reservations for any name.

    Whoever reaches Redis alone is told that nobody can say.
    """
    try:
        reach.pointer(table, kind="table")
    except Unavailable as error:
        complain(f"firn: whether there is a table {table!r} is not known: {one_line(str(error))}")


def _with(reach: Reach, work: Callable[[Reservations], Awaitable[_Result]]) -> _Result:
    async def run() -> _Result:
        async with reach.streams() as streams:
            return await work(Reservations(streams, limits=reach.settings.limits))

    return reach.run(run())


def _values(text: str) -> list[Any]:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"{text[:80]!r} is no JSON: {error}", where="--partition") from error
    if not isinstance(values, list):
        raise InvalidInput(f"{text[:80]!r} is no list of values", where="--partition")
    return values

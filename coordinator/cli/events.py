"""`firn events`: the event stream, for people and for pipes."""

from __future__ import annotations

from typing import Any

import click

from firn.coordinator.cli.following import event_of, events_after, newest_id, until_interrupted
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.text import shown
from firn.coordinator.operations.table_health import EVENTS_MAX
from firn.model.amounts import plural
from firn.model.event import Event
from firn.storage.intent_streams import FIRST_ID


@click.command()
@click.option("--table", help="Events of this table only.")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Newest events to begin with.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@reaching
def events(reach: Reach, *, table: str | None, limit: int, follow: bool) -> None:
    """Print the newest events, oldest first. With --json they are CloudEvents, one a line."""

    async def read() -> None:
        async with reach.streams() as streams:
            # Those of one table are among all others.
            newest = await streams.newest_events(count=limit if table is None else EVENTS_MAX) if limit else []
            after = newest[-1].entry_id if newest else FIRST_ID if limit else await newest_id(streams)
            found = [event for event in filter(None, map(event_of, newest)) if table in (None, event.subject)]
            for event in found[-limit:] if limit else []:
                _print(reach, event)
            if follow:
                async for event in events_after(streams, after):
                    if table in (None, event.subject):
                        _print(reach, event)
            elif not found:
                reach.output.say("no events" if table is None else f"no events of {shown(table)}")

    until_interrupted(reach, read)


def _print(reach: Reach, event: Event) -> None:
    if reach.output.as_json:
        reach.output.line(event)
    reach.output.say(event_line(event))


def event_line(event: Event) -> str:
    """An event as one line."""
    kind = event.type.removeprefix("firn.")
    return f"{shown(event.time[:23]).replace('T', ' ')}Z  {shown(kind):<22}  {shown(event.subject):<20}  {_gist(event)}"


def _gist(event: Event) -> str:
    data: dict[str, Any] = event.data
    match event.type:
        case "firn.table.committed" | "firn.view.committed":
            version = str(data.get("metadata-location") or "dropped").rpartition("/")[2]
            snapshots = data.get("snapshot-ids")
            parts = [f"{data.get('committed', '?')} committed", f"{data.get('rejected', '?')} rejected"]
            if isinstance(snapshots, list) and snapshots:
                parts.append(plural(len(snapshots), "snapshot"))
            return shown(f"{', '.join(parts)}: {version}")
        case _:
            who = f" ({data['writer']})" if data.get("writer") else ""
            return shown(f"{data.get('rule', '?')}: {data.get('message', '')}{who} {data.get('intent-id', '')}")

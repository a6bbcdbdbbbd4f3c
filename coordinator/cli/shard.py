"""`firn shard`: where a writer without our client adds a table's intents."""

from __future__ import annotations

import click

from firn.coordinator.cli.reach import Reach, reaching, shards_of
from firn.model.identifiers import check_table_name
from firn.model.sharding import shard_of


@click.command()
@click.argument("table")
@reaching
def shard(reach: Reach, *, table: str) -> None:
    """Print the name of the stream that a table's intents are added to (XADD … '*' intent '{…}')."""
    check_table_name(table)

    async def look() -> tuple[int, str, int]:
        async with reach.streams() as streams:
            shards = await shards_of(streams)
            number = shard_of(table, shards=shards)
            return number, streams.names.intents(number), shards

    number, stream, shards = reach.run(look())
    if reach.output.as_json:
        reach.output.document({"table": table, "shard": number, "stream": stream, "shards": shards})
    reach.output.say(stream)

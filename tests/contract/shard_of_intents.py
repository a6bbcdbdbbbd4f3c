"""Short ways to take, take over and settle what is on a shard."""

from firn.storage.intent_streams import Settlement


async def take(streams, *shards, consumer="c", count=100, block_ms=0):
    return await streams.take(shards or [0], consumer=consumer, count=count, block_ms=block_ms)


async def opened(redis_world, *shards, **options):
    """Streams whose groups exist."""
    streams = await redis_world.connect(**options)
    await take(streams, *shards)
    return streams


async def taken_over(streams, shard, *, consumer, min_idle_ms=0, count=10, counted=True):
    """What is pending, as a daemon takes it over."""
    found = await streams.pending(shard, count=count, min_idle_ms=min_idle_ms)
    entries = await streams.read_again(shard, found, consumer=consumer)
    return await streams.count_delivery(shard, entries, consumer=consumer) if counted else entries


def settled(entry, **changes):
    told = {"intent_id": "i", "outcome": b"{}", "outcome_ttl_s": 60, **changes}
    return Settlement(shard=entry.shard, entry_id=entry.entry_id, **told)

"""The first page: is it healthy, how fast is it, what is refused. What no server tells is ``?``, with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from firn.coordinator.operations.fleet import Fleet, Shard, runbook_of_server
from firn.coordinator.pages.survey import Conflict

NEWEST_CONFLICTS = 10
RULES_SHOWN = 8


class Home(msgspec.Struct, frozen=True, kw_only=True):
    """What the page shows of a fleet.

    `no_redis`, `no_zookeeper` and `no_work` are the reasons why what they tell is not known; None where it is.
    """

    fleet: Fleet
    no_redis: str | None
    no_zookeeper: str | None
    no_work: str | None
    busy: tuple[Shard, ...]
    """Shards that have something waiting, or that nobody reads."""
    idle: tuple[Shard, ...]
    conflicts: tuple[Conflict, ...]
    by_rule: tuple[tuple[str, int], ...]

    @property
    def no_waiting(self) -> str | None:
        """Why it is not known how much waits."""
        if self.fleet.waiting is not None:
            return None
        return self.no_redis or "Redis cannot count the entries of a stream that others have removed entries from"


def home_of(fleet: Fleet, conflicts: Sequence[Conflict] | None) -> Home:
    """Sort out what is known; `conflicts` None: Redis does not tell them."""
    busy = tuple(shard for shard in fleet.shards if _is_busy(shard))
    rules = Counter(conflict.outcome.rule for conflict in conflicts or ())
    no_zookeeper = None if fleet.zookeeper_answers else _why(fleet, "ZooKeeper")
    return Home(
        fleet=fleet,
        no_redis=None if fleet.redis_answers and conflicts is not None else _why(fleet, "Redis"),
        no_zookeeper=no_zookeeper,
        no_work=no_zookeeper or _no_work(fleet),
        busy=busy,
        idle=tuple(shard for shard in fleet.shards if shard not in busy),
        conflicts=tuple(conflicts or ())[:NEWEST_CONFLICTS],
        by_rule=tuple(rules.most_common(RULES_SHOWN)),
    )


def _is_busy(shard: Shard) -> bool:
    lag = shard.lag
    return shard.owner is None or (lag is not None and (lag.undelivered is None or lag.undelivered + lag.pending > 0))


def _why(fleet: Fleet, server: str) -> str:
    said = (cause.text for cause in fleet.causes if cause.runbook == runbook_of_server(server))
    return next(said, f"{server} does not answer")


def _no_work(fleet: Fleet) -> str | None:
    if not fleet.members:
        return "no daemon runs"
    silent = [member.id for member in fleet.members if member.work is None]
    return f"{', '.join(silent)}: just started, or of another version" if silent else None

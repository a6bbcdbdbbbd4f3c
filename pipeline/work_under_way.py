"""The files that work which is not committed yet names: intents in the queue, and reservations.

They are nobody's orphans, however old: their intent may be committed the next moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from firn.model.errors import CorruptFile, InvalidInput, NotFound, Unavailable
from firn.model.manifest import UNASSIGNED_SEQUENCE_NUMBER, ManifestFile
from firn.pipeline.manifest_paths import files_named_by
from firn.pipeline.upkeep import Upkeep
from firn.storage.intent_streams import FIRST_ID, IntentStreams, SharedSettings
from firn.storage.locations import normalize

PAGE: Final = 512


class WorkUnderWay(msgspec.Struct, frozen=True, kw_only=True):
    """`files` by their normalised locations; `since_ms`: when the oldest reservation of the table began, if any did.

    What a reservation's holder has written since then is not named anywhere yet.
    """

    files: frozenset[str]
    since_ms: int | None = None


def work_under_way(upkeep: Upkeep, table: str) -> WorkUnderWay:
    """The files that undecided intents (of any table, for transactions) and the table's reservations name.

    What waiting intents name through manifests that they have written is read. Raises Unavailable.
    """
    board = upkeep.client.reserved(table)
    named: set[str] = set()
    manifests: dict[str, ManifestFile] = {}
    upkeep.with_streams(lambda streams: _collect_undecided(streams, named, manifests))
    for reservation in board.reservations:
        named.update(_normalised(reservation.scope.files))
    for manifest in manifests.values():
        try:
            listed = files_named_by(manifest, upkeep.files, bytes_max=upkeep.limits.manifest_bytes_max)
        except (NotFound, CorruptFile, InvalidInput):
            continue  # the intent will be refused for it
        named.update(_normalised((*listed.live, *listed.gone)))
    began = [reservation.begun_ms for reservation in board.reservations]
    return WorkUnderWay(files=frozenset(named), since_ms=min(began, default=None))


async def _collect_undecided(streams: IntentStreams, named: set[str], manifests: dict[str, ManifestFile]) -> None:
    """What all entries name whose outcome has not been told."""
    for shard in range(await shards_of_streams(streams)):
        after = FIRST_ID
        while page := await streams.standing(shard, after=after, count=PAGE):
            for one in page:
                if one.state != "settled" and one.payload is not None:
                    _collect(one.payload, named, manifests)
            after = page[-1].entry_id


async def shards_of_streams(streams: IntentStreams) -> int:
    """How many intent streams there are, as the daemons say; the usual number when none has said."""
    return (await shared_settings(streams)).shards


async def shared_settings(streams: IntentStreams) -> SharedSettings:
    """Return what the daemons have announced; the default where none has. Raises Unavailable."""
    told = await streams.settings()
    if told is None:
        return SharedSettings()
    try:
        return msgspec.json.decode(told, type=SharedSettings)
    except msgspec.DecodeError as error:
        raise Unavailable(f"the daemons' settings in Redis cannot be read: {error}") from error


def _collect(payload: bytes, named: set[str], manifests: dict[str, ManifestFile]) -> None:
    """Every text in an intent that may be a location, whatever member it stands in, and the manifests that it names."""
    try:
        members = msgspec.json.decode(payload)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return  # no intent, and never committed
    waiting: list[Any] = [members]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            named.update(_normalised((one,)))
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            waiting += one.values()
            if "manifest-path" in one:
                _add_manifest(one, manifests)


def _add_manifest(members: dict[str, Any], manifests: dict[str, ManifestFile]) -> None:
    path, length = members["manifest-path"], members.get("manifest-length")
    if isinstance(path, str) and isinstance(length, int):
        manifests[path] = ManifestFile(
            manifest_path=path,
            manifest_length=length,
            partition_spec_id=0,
            sequence_number=UNASSIGNED_SEQUENCE_NUMBER,
            added_snapshot_id=None,
        )


def _normalised(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        if "/" in text:
            try:
                yield normalize(text)
            except InvalidInput:
                continue  # no location

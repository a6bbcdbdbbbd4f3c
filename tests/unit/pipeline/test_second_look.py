"""Removal after expiry looks at queue, reservations and table once more right before files go."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import msgspec
import pytest

from firn.coordinator.client.intents import new_intent_id
from firn.model.content_file import content_file_of
from firn.model.datafile import DataFile
from firn.model.errors import InvalidInput
from firn.model.intent import Append
from firn.model.reservation import Reservation, Scope
from firn.pipeline.snapshot_expiry import remove_unreachable
from firn.storage.pointers import Pointer
from tests.strategies.quiet_upkeep import QuietUpkeep
from tests.strategies.table_histories import History

LATER_MS = 10**15


def expired() -> tuple[QuietUpkeep, DataFile, DataFile]:
    """A table of which two files were removed with snapshots that have expired."""
    history = History()
    file, other = history.file(), history.file()
    history.commit(file, other)
    history.commit(removed=[file, other])
    history.commit(history.file())
    history.expire([1, 2])
    return QuietUpkeep(history), file, other


def add_again(upkeep: QuietUpkeep, file: DataFile) -> None:
    upkeep.history.commit(file)


def add_to_a_branch(upkeep: QuietUpkeep, file: DataFile) -> None:
    upkeep.history.commit(file, branch="audit")


def submit(upkeep: QuietUpkeep, file: DataFile) -> None:
    files = (content_file_of(file, upkeep.history.metadata),)
    upkeep.submit(Append(intent_id=new_intent_id(), table="db.t", data_files=files))


def reserve(upkeep: QuietUpkeep, file: DataFile) -> None:
    scope = Scope(files=(file.file_path,))
    reservation = Reservation(reservation_id="r", table="db.t", holder="job", scope=scope, begun_ms=0, until_ms=0)
    asyncio.run(upkeep.reservations.begin(reservation, lease_ms=60_000))


@pytest.mark.parametrize("use", [add_again, add_to_a_branch, submit, reserve])
def test_a_file_that_is_used_again_after_the_first_look_stays(
    use: Callable[[QuietUpkeep, DataFile], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    upkeep, file, other = expired()
    read_places = upkeep.tables

    def use_meanwhile() -> tuple[Pointer, ...]:
        """The places of all tables are read between the two looks."""
        use(upkeep, file)
        return read_places()

    monkeypatch.setattr(upkeep, "tables", use_meanwhile)
    removal = remove_unreachable(upkeep, "db.t", now_ms=LATER_MS)
    assert removal.removed["content files"] == 1
    stored = upkeep.history.stored()
    assert file.file_path in stored
    assert other.file_path not in stored
    assert upkeep.history.reachable() <= stored


def test_nothing_goes_of_a_table_that_shares_its_files_since_the_first_look() -> None:
    upkeep, file, _ = expired()
    looks = itertools.count()

    def share_before_the_second() -> None:
        if next(looks) == 1:
            history = upkeep.history
            history.table.metadata = msgspec.structs.replace(history.metadata, properties={"gc.enabled": "false"})
            history.store()

    upkeep.before_looking = share_before_the_second
    with pytest.raises(InvalidInput, match=r"gc\.enabled"):
        remove_unreachable(upkeep, "db.t", now_ms=LATER_MS)
    assert file.file_path in upkeep.history.stored()

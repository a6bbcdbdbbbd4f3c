"""Maintenance removes files only from folders that are wholly the table's own, whatever the table names."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import msgspec
import pytest

from firn.model.errors import InvalidInput, Unavailable
from firn.pipeline.orphan_files import OLDER_THAN_MS, remove_orphans
from firn.pipeline.own_folders import own_folders
from firn.pipeline.snapshot_expiry import remove_unreachable
from firn.pipeline.upkeep import TableNow
from firn.storage.local_files import LocalFiles
from firn.storage.pointers import Pointer
from tests.strategies.quiet_upkeep import QuietUpkeep
from tests.strategies.small_tables import START_MS
from tests.strategies.table_histories import History

LATER_MS = 10**15


class Own(QuietUpkeep):
    """Upkeep of a table on a disk, at `<root>/wh/t`, that names `places` beside its location."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.places: tuple[str, ...] = ()
        (root / "wh").mkdir()
        super().__init__(History(files=LocalFiles(), location=f"{root}/wh/t"))

    def table(self, name: str) -> TableNow:
        now = super().table(name)
        return msgspec.structs.replace(now, pointer=msgspec.structs.replace(now.pointer, also_at=self.places))

    def tables(self) -> tuple[Pointer, ...]:
        return (self.table("db.t").pointer, *self.others)

    def beside(self, place: str, *also_at: str) -> None:
        """Have another table at a place."""
        other = Pointer(table="db.o", uuid=str(uuid.uuid4()), location=place, metadata_location="/m", also_at=also_at)
        self.others = (*self.others, other)

    def write(self, *parts: str) -> Path:
        """An old file that nothing names."""
        path = self.root.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        os.utime(path, (0, 0))
        return path


@pytest.fixture
def upkeep(tmp_path: Path) -> Own:
    return Own(tmp_path)


def linked_place(upkeep: Own) -> str:
    (upkeep.root / "wh" / "real").mkdir()
    (upkeep.root / "wh" / "link").symlink_to(upkeep.root / "wh" / "real")
    return f"{upkeep.root}/wh/link"


def place_below_a_link(upkeep: Own) -> str:
    return f"{linked_place(upkeep)}/x"


def beside(place: str, *also_at: str):
    def make(upkeep: Own) -> str:
        upkeep.beside(f"{upkeep.root}/wh/o", *(f"{upkeep.root}/{one}" for one in also_at))
        return f"{upkeep.root}/{place}"

    return make


def link_to_another_table(upkeep: Own) -> str:
    upkeep.write("wh", "o", "data", "a.parquet")
    (upkeep.root / "wh" / "alias").symlink_to(upkeep.root / "wh" / "o")
    upkeep.beside(f"{upkeep.root}/wh/o")
    return f"{upkeep.root}/wh/alias"


FOREIGN = {
    "the warehouse": (lambda upkeep: f"{upkeep.root}/wh", "holds .*/wh, a place of many tables"),
    "above the warehouse": (lambda upkeep: str(upkeep.root), "holds .*/wh, a place of many tables"),
    "everything": (lambda _: "/", "holds .*/wh"),
    "outside": (lambda upkeep: f"{upkeep.root}/elsewhere", "is outside of"),
    "/etc": (lambda _: "/etc", "is outside of"),
    "beside by name": (lambda upkeep: f"{upkeep.root}/wh2/t", "is outside of"),
    "a link": (linked_place, "symbolic link: it is .*/real"),
    "below a link": (place_below_a_link, "symbolic link: it is .*/real/x"),
    "another table": (beside("wh/o"), "overlaps with .*/wh/o of table 'db.o'"),
    "inside another table": (beside("wh/o/data/x"), "overlaps with .*/wh/o of table 'db.o'"),
    "above another table": (beside("wh/ns", "wh/ns/p"), "overlaps with .*/wh/ns/p of table 'db.o'"),
    "another table's link": (link_to_another_table, "symbolic link: it is .*/wh/o"),
}


@pytest.mark.parametrize("where", FOREIGN)
def test_orphans_are_not_looked_for_in_folders_that_are_not_wholly_the_tables_own(upkeep: Own, where: str) -> None:
    make, reason = FOREIGN[where]
    place = make(upkeep)
    orphans = [upkeep.write("wh", "t", "data", "orphan.parquet")]
    if Path(place).is_relative_to(upkeep.root):
        orphans.append(upkeep.write(place, "data", "old.parquet"))
    upkeep.places = (place,)
    with pytest.raises(InvalidInput, match=reason) as refused:
        remove_orphans(upkeep, "db.t", now_ms=LATER_MS, dry_run=False)
    assert str(refused.value).startswith(f"db.t: {place} ")
    assert all(one.exists() for one in orphans)
    assert own_folders(upkeep, upkeep.table("db.t")).own == (f"{upkeep.root}/wh/t",)


@pytest.mark.parametrize("where", [one for one in FOREIGN if one not in {"everything", "/etc"}])
def test_expired_files_stay_where_the_folder_is_not_the_tables_own(upkeep: Own, where: str) -> None:
    make, _ = FOREIGN[where]
    place = make(upkeep)
    history = upkeep.history
    strange = upkeep.write(place, "data", "strange.parquet")
    own, foreign = history.file(), msgspec.structs.replace(history.file(), file_path=str(strange))
    history.commit(own, foreign)
    history.commit(removed=[own, foreign])
    history.expire([1])
    upkeep.places = (place,)
    removal = remove_unreachable(upkeep, "db.t", now_ms=LATER_MS)
    assert (removal.elsewhere, removal.removed["content files"]) == (1, 1)
    assert strange.exists()


def test_an_own_place_beside_the_location_is_tidied_too(upkeep: Own) -> None:
    upkeep.beside(f"{upkeep.root}/wh/o")
    upkeep.places = (f"{upkeep.root}/wh/t2", f"{upkeep.root}/wh/t/data")
    orphans = [upkeep.write("wh", "t2", "a.parquet"), upkeep.write("wh", "t", "data", "b.parquet")]
    found = remove_orphans(upkeep, "db.t", now_ms=START_MS + OLDER_THAN_MS, dry_run=False)
    assert set(found.locations) == {str(one) for one in orphans}
    assert not any(one.exists() for one in orphans)


def test_a_warehouse_behind_a_link_is_no_obstacle(upkeep: Own) -> None:
    (upkeep.root / "mnt").symlink_to(upkeep.root / "wh")
    upkeep.history = History(files=LocalFiles(), location=f"{upkeep.root}/mnt/u")
    upkeep.announce(f"{upkeep.root}/mnt")
    orphan = upkeep.write("wh", "u", "data", "a.parquet")
    assert remove_orphans(upkeep, "db.t", now_ms=LATER_MS, dry_run=False).count >= 1
    assert not orphan.exists()


def test_files_behind_a_link_inside_the_tables_folder_stay(upkeep: Own) -> None:
    outside = upkeep.write("elsewhere", "a.parquet")
    history = upkeep.history
    data = history.file()
    history.commit(data)
    Path(history.metadata.location, "data", "link").symlink_to(outside.parent)
    behind = msgspec.structs.replace(data, file_path=f"{history.metadata.location}/data/link/a.parquet")
    history.commit(behind, removed=[data])
    history.commit(removed=[behind])
    history.expire([1, 2])
    assert remove_unreachable(upkeep, "db.t", now_ms=LATER_MS).elsewhere == 1
    remove_orphans(upkeep, "db.t", now_ms=LATER_MS, dry_run=False)
    assert outside.exists()


def test_nothing_is_removed_while_no_daemon_has_told_where_tables_may_be(upkeep: Own) -> None:
    upkeep.announce()
    orphan = upkeep.write("wh", "t", "data", "a.parquet")
    for remove in (remove_orphans, remove_unreachable):
        with pytest.raises(Unavailable, match="start a daemon"):
            remove(upkeep, "db.t", now_ms=LATER_MS, dry_run=False)
    assert orphan.exists()

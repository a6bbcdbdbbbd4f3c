"""Every location in force is checked at every door: where a table is, where its files may be, what its files are."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firn.coordinator.insight.dry_runs import DryRuns
from firn.coordinator.replay.attempt import Placement
from firn.coordinator.replay.tables import FOLDER_BYTES_MAX
from firn.model.intent import Append, ContentFile, CreateTable, DropTable, Intent, RegisterTable
from firn.model.limits import Limits
from firn.model.metadata import TableMetadata
from firn.model.operations.tables import CreateOrReplaceTable, SeenTable
from firn.model.operations.upkeep import ExpireSnapshots, SetLocation, SetStatistics, UpdateProperties
from firn.storage.local_files import LocalFiles
from firn.storage.locations import MARK_NAME
from firn.storage.metadata_files import encode_metadata
from firn.storage.pointers import Pointers
from tests.unit.coordinator.replay.real_rows import RealRows
from tests.unit.coordinator.transactions.ledger import transaction
from tests.unit.coordinator.view_intents import new_view
from tests.unit.coordinator.workbench import SCHEMA, TABLE, Workbench, new_id

PLACES = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")

OTHER = "db.other"


class LocalBench(Workbench):
    """Daemons on a warehouse on the disk, beside a folder that is nobody's business."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "wh"
        self.outside = folder / "outside"
        self.root.mkdir()
        self.outside.mkdir()
        super().__init__(files=LocalFiles(), warehouse=str(self.root))

    def link(self, name: str, to: Path | str) -> str:
        """A symbolic link in the warehouse."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(to)
        return str(path)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[LocalBench]:
    made = LocalBench(tmp_path)
    yield made
    made.files.close()  # type: ignore[attr-defined]


@asynccontextmanager
async def other_table(bench: LocalBench) -> AsyncIterator[str]:
    """A daemon, and the folder of a table that is there already."""
    async with bench.daemon():
        await bench.commit(created(table=OTHER))
        yield str(bench.root / "db" / "other")


def created(table: str = TABLE, **members: Any) -> CreateTable:
    return CreateTable(intent_id=new_id(), table=table, schema=SCHEMA, **members)


async def rule_of(bench: LocalBench, intent: Intent) -> str:
    """The rule that refuses the intent, which the writer has to put right."""
    rejected = await bench.refuse(intent)
    assert rejected.hint == "fix", rejected
    return rejected.rule


# ---------------------------------------------------------------------------------------------------------------------
# Where a table is


def doors(location: str) -> list[Intent]:
    """Every intent that gives a new name a place."""
    member = CreateTable(intent_id=new_id(), table=TABLE, schema=SCHEMA, location=location)
    return [
        created(location=location),
        created(location=location, catalog="file-system"),
        CreateOrReplaceTable(intent_id=new_id(), table=TABLE, schema=SCHEMA, location=location, seen=None),
        new_view(table=TABLE, location=location),
        transaction(member),
    ]


async def test_a_link_to_another_tables_folder_is_taken(bench: LocalBench) -> None:
    async with other_table(bench) as folder:
        for location in (bench.link("alias", folder), bench.link("up", bench.root / "db") + "/other/data"):
            for intent in doors(location):
                assert await rule_of(bench, intent) == "location-taken", intent


async def test_a_link_out_of_the_warehouse_is_not_allowed(bench: LocalBench) -> None:
    async with other_table(bench):
        for location in (bench.link("out", bench.outside), bench.link("etc", "/etc") + "/table"):
            for intent in doors(location):
                assert await rule_of(bench, intent) == "location-not-allowed", intent


async def test_a_table_has_no_place_under_two_names(bench: LocalBench) -> None:
    async with bench.daemon():
        own = str(bench.root / "db" / "events")
        alias, place = bench.link("alias", own), f"{bench.root}/place"
        other_alias = bench.link("other", place)
        for properties in ({PLACES[0]: f"{alias}/files"}, {PLACES[0]: place, PLACES[2]: other_alias}):
            for intent in (
                created(properties=properties),
                await registering(bench, await metadata_of(bench), location=own, properties=properties),
            ):
                assert await rule_of(bench, intent) == "location-taken", intent
        await bench.commit(created())
        for updates in ({PLACES[0]: alias}, {PLACES[0]: place, PLACES[2]: other_alias}):
            changing = UpdateProperties(intent_id=new_id(), table=TABLE, updates=updates)
            assert await rule_of(bench, changing) == "location-taken"


async def metadata_of(bench: LocalBench) -> TableMetadata:
    """The metadata of some new table."""
    name = f"db.t{new_id()}"
    await bench.commit(created(name))
    return await bench.metadata(name)


def become_a_file(link: Path) -> None:
    link.unlink()
    link.write_text("a file")


@pytest.mark.parametrize("folder", ["metadata", "data"])
async def test_a_place_whose_folders_are_links_is_not_allowed(bench: LocalBench, folder: str) -> None:
    async with other_table(bench) as other:
        link = Path(bench.link(f"mine/{folder}", f"{other}/{folder}"))
        for intent in doors(str(link.parent)):
            assert await rule_of(bench, intent) in {"location-not-allowed", "location-taken"}, intent
        become_a_file(link)
        for intent in doors(str(link.parent)):
            assert await rule_of(bench, intent) == "location-not-allowed", intent


async def test_two_tables_cannot_meet_behind_a_link(bench: LocalBench) -> None:
    """Whichever of the two names comes first."""
    (bench.root / "real").mkdir()
    link = bench.link("link", bench.root / "real")
    async with bench.daemon():
        await bench.commit(created(location=f"{link}/t"))
        assert await rule_of(bench, created("db.t2", location=str(bench.root / "real" / "t"))) == "location-taken"


async def test_a_warehouse_may_be_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    bench = LocalBench(tmp_path / "disk")
    (tmp_path / "mount").symlink_to(bench.root)
    bench.warehouse = str(tmp_path / "mount")
    async with bench.daemon():
        table = await RealRows.create(bench)
        await table.commit(table.append(table.data((1, "eu"))))
        assert table.created.location == str(tmp_path / "mount" / "db" / "events")
        assert await rule_of(bench, created("db.t2", location=f"{bench.warehouse}/db/events/x")) == "location-taken"


@pytest.mark.parametrize(
    "below",
    [
        MARK_NAME,
        f"{MARK_NAME}/t",
        f"db/{MARK_NAME}",
        ".firn-0123/t",
        "/".join(["x" * 199] * 25),
        "/".join(["x" * 199] * 18),
        "y" * 300,
        f"{'y' * 300}/t",
        "é" * 150,
        "file",
        "file/t",
    ],
    ids=lambda below: below[:20],
)
async def test_a_place_where_no_files_can_be_is_refused_at_the_door(bench: LocalBench, below: str) -> None:
    (bench.root / "file").write_text("x")
    async with bench.daemon():
        for intent in doors(f"{bench.root}/{below}"):
            assert await rule_of(bench, intent) in {"location-not-allowed", "invalid-field"}, intent
        left = RegisterTable(intent_id=new_id(), table=TABLE, location=f"{bench.root}/{below}", catalog="file-system")
        assert await rule_of(bench, left) in {"invalid-table", "invalid-field"}
        await bench.commit(created())
        moving = SetLocation(intent_id=new_id(), table=TABLE, location=f"{bench.root}/{below}")
        for intent in (moving, updated(PLACES[0], f"{bench.root}/{below}")):
            assert await rule_of(bench, intent) in {"location-not-allowed", "invalid-field"}, intent


async def test_a_name_too_long_for_a_folder_gets_a_folder_of_its_own(bench: LocalBench) -> None:
    names = (f"db.{'t' * 300}", f"db.{'t' * 301}", f"{'n' * 300}.t", f"db.{'é' * 60}", f"db.{'é' * 250}")
    async with bench.daemon():
        outcomes = [await bench.commit(created(name)) for name in names]
    places = {Path(one.metadata_location or "").parent.parent for one in outcomes}
    assert len(places) == len(names)
    assert max(len(part) for place in places for part in place.parts) <= FOLDER_BYTES_MAX


@pytest.mark.parametrize("name", ["db.%2e%2e", "db.%2E", "%2e%2e.t", "db.%252e%252e"])
async def test_a_name_that_is_no_folder_is_unknown_like_any_other(bench: LocalBench, name: str) -> None:
    async with bench.daemon():
        unknown = ExpireSnapshots(intent_id=new_id(), table=name, older_than_ms=1)
        assert await rule_of(bench, unknown) in {"unknown-table", "invalid-table-name"}


async def test_a_folder_with_a_name_that_is_too_long_is_refused_at_the_door(bench: LocalBench) -> None:
    async with bench.daemon():
        assert await rule_of(bench, created("db.t", location=f"{bench.root}/{'t' * 300}")) == "location-not-allowed"


# ---------------------------------------------------------------------------------------------------------------------
# Places that properties name


def updated(name: str, value: str, *, table: str = TABLE) -> UpdateProperties:
    return UpdateProperties(intent_id=new_id(), table=table, updates={name: value})


@contextmanager
def wrong_places(bench: LocalBench, other: str) -> Iterator[dict[str, str]]:
    """Places that no table may name, with the rule that says so."""
    yield {
        str(bench.outside): "location-not-allowed",
        "/etc": "location-not-allowed",
        bench.link("out", bench.outside): "location-not-allowed",
        f"file:{other}": "location-taken",
        f"{other}/data": "location-taken",
        str(bench.root / "db"): "location-taken",
        bench.link("alias", other): "location-taken",
        f"{bench.root}/{MARK_NAME}": "location-not-allowed",
    }


@pytest.mark.parametrize("name", PLACES)
async def test_a_property_names_a_place_of_the_tables_own(bench: LocalBench, name: str) -> None:
    async with other_table(bench) as other:
        await bench.commit(created())
        metadata = await bench.metadata()
        seen = SeenTable(
            uuid=metadata.table_uuid, schema_id=metadata.current_schema_id,
            last_column_id=metadata.last_column_id, last_partition_id=metadata.last_partition_id,
        )  # fmt: skip
        with wrong_places(bench, other) as places:
            for place, rule in places.items():
                properties = {name: place}
                for intent in (
                    created("db.new", properties=properties),
                    CreateOrReplaceTable(
                        intent_id=new_id(), table="db.new", schema=SCHEMA, properties=properties, seen=None
                    ),
                    CreateOrReplaceTable(
                        intent_id=new_id(), table=TABLE, schema=SCHEMA, properties=properties, seen=seen
                    ),
                    updated(name, place),
                    new_view(table="db.view", properties=properties),
                    transaction(updated(name, place)),
                    await registering(bench, metadata, properties=properties),
                ):
                    assert await rule_of(bench, intent) == rule, (place, intent)


async def registering(
    bench: LocalBench, metadata: TableMetadata, *, location: str | None = None, **changes: Any
) -> RegisterTable:
    """Take over a table that another engine has left, in a folder of its own if nothing else is said."""
    location = location or f"{bench.root}/foreign/{new_id()}"
    changed = msgspec.structs.replace(metadata, location=location, **changes)
    at = f"{location}/metadata/00000-{new_id()}.metadata.json"
    bench.files.create(at, encode_metadata(changed))
    return RegisterTable(intent_id=new_id(), table="db.registered", metadata_location=at)


async def test_a_registered_table_may_have_files_beside_its_location(bench: LocalBench) -> None:
    async with other_table(bench):
        metadata = await bench.metadata(OTHER)
        place = f"{bench.root}/beside"
        await bench.commit(await registering(bench, metadata, properties={PLACES[0]: place}))
        await bench.commit(append_of(f"{place}/a.parquet", table="db.registered"))
        assert await rule_of(bench, updated(PLACES[0], f"{place}/x", table=OTHER)) == "location-taken"


async def test_registered_statistics_are_inside_the_warehouse(bench: LocalBench) -> None:
    async with other_table(bench):
        statistics = {"snapshot-id": 1, "statistics-path": "/etc/passwd", "file-size-in-bytes": 1}
        statistics |= {"file-footer-size-in-bytes": 1, "blob-metadata": []}
        metadata = await bench.metadata(OTHER)
        intent = await registering(bench, metadata, statistics=(statistics,))
        assert await rule_of(bench, intent) == "location-not-allowed"


# ---------------------------------------------------------------------------------------------------------------------
# Places from before they were checked


def append_of(path: str, *, table: str = TABLE) -> Append:
    file = ContentFile(file_path=path, file_format="parquet", spec_id=0, record_count=1, file_size_in_bytes=100)
    return Append(intent_id=new_id(), table=table, data_files=(file,))


async def test_files_in_a_place_from_before_places_were_checked_are_refused(bench: LocalBench) -> None:
    async with other_table(bench) as other:
        metadata = await bench.metadata(OTHER)
        for place in (str(bench.outside), other, bench.link("out", bench.outside), "no/location", "http://x/y"):
            intent = await registering(bench, metadata, properties={})
            await bench.commit(intent)
            # What an older daemon took is put in beside the daemon's back.
            location = intent.metadata_location
            assert location is not None
            bad = msgspec.structs.replace(await bench.metadata("db.registered"), properties={PLACES[0]: place})
            await bench.commit(DropTable(intent_id=new_id(), table="db.registered"))
            bench.files.replace(location, encode_metadata(bad))
            with unchecked():
                await bench.commit(RegisterTable(intent_id=new_id(), table="db.registered", metadata_location=location))
            assert await rule_of(bench, append_of(f"{place}/a.parquet", table="db.registered")) == (
                "location-not-allowed"
            )
            await bench.commit(append_of(f"{bad.location}/data/a.parquet", table="db.registered"))
            await bench.commit(updated(PLACES[0], f"{bad.location}/files", table="db.registered"))
            assert await rule_of(bench, append_of(f"{place}/b.parquet", table="db.registered")) == (
                "location-not-allowed"
            )
            await bench.commit(DropTable(intent_id=new_id(), table="db.registered"))


@contextmanager
def unchecked() -> Iterator[None]:
    """Registration as it was before it looked at properties."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("firn.coordinator.replay.tables.require_own_places", lambda *_, **__: None)
        yield


# ---------------------------------------------------------------------------------------------------------------------
# Files


def fifo(path: Path, _: LocalBench) -> None:
    os.mkfifo(path)


def link_to_a_file(path: Path, bench: LocalBench) -> None:
    (bench.outside / "a.parquet").write_bytes(b"x")
    path.symlink_to(bench.outside / "a.parquet")


def dangling_link(path: Path, bench: LocalBench) -> None:
    path.symlink_to(bench.outside / "nothing")


def folder(path: Path, _: LocalBench) -> None:
    path.mkdir()


def bound_socket(path: Path, _: LocalBench) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        before = Path.cwd()
        os.chdir(path.parent)  # a socket's path may have 108 bytes
        try:
            made.bind(path.name)
        finally:
            os.chdir(before)


def device(path: Path, _: LocalBench) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [fifo, link_to_a_file, dangling_link, folder, bound_socket, device])
async def test_only_regular_files_are_files_of_a_table(
    bench: LocalBench, make: Callable[[Path, LocalBench], None]
) -> None:
    async with bench.daemon():
        table = await RealRows.create(bench)
        good, at = table.data((1, "eu")), Path(table.created.location) / "data" / "odd.parquet"
        base = await table.commit(table.append(good))
        make(at, bench)
        odd = msgspec.structs.replace(good, file_path=str(at))
        puffin = msgspec.structs.replace(table.vector(good, 0), file_path=str(at))
        statistics = {
            "snapshot-id": base, "statistics-path": str(at), "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1,
            "blob-metadata": [],
        }  # fmt: skip
        intents: list[Intent] = [
            table.append(odd),
            table.append(table.data((2, "eu")), odd),
            table.append(manifests=(table.manifest(table.added(odd)),)),
            table.append(msgspec.structs.replace(odd, file_path=f"file:{at}")),
            table.overwrite(base, [odd]),
            table.replace(base, [good], [odd]),
            table.delta(base, added=[odd]),
            table.delta(base, puffin),
            SetStatistics(intent_id=new_id(), table=TABLE, statistics=statistics),
            transaction(table.append(odd)),
        ]
        for intent in intents:
            rejected = await bench.refuse(intent)
            assert rejected.hint == "fix", intent
            assert rejected.rule in {"location-not-allowed", "invalid-field", "not-a-statistics-file"}, rejected
            assert "odd.parquet" in rejected.message
        runs = DryRuns(
            streams=bench.streams, files=bench.files, pointers=Pointers(bench.zookeeper.connect()),
            placement=Placement(warehouse=bench.warehouse, allowed=(bench.warehouse,)),
        )  # fmt: skip
        (told,) = await runs.of([table.append(odd)])
        assert told.status == "would-reject"
        written = msgspec.structs.replace(table.manifest(table.added(good)), manifest_path=str(at))
        assert await rule_of(bench, table.append(manifests=(written,))) == "location-not-allowed"
        assert await table.ids() == [1]


async def test_a_file_behind_a_linked_folder_has_two_names_and_is_refused(bench: LocalBench) -> None:
    async with bench.daemon():
        table = await RealRows.create(bench)
        good, data = table.data((1, "eu")), Path(table.created.location) / "data"
        await table.commit(table.append(good))
        for name, to in (("self", data), ("out", bench.outside)):
            (data / name).symlink_to(to)
            odd = msgspec.structs.replace(good, file_path=f"{data}/{name}/{Path(good.file_path).name}")
            assert await rule_of(bench, table.append(odd)) == "location-not-allowed"


async def test_one_odd_file_refuses_its_intent_only(bench: LocalBench) -> None:
    bench.limits = Limits(swap_attempts_max=1)
    async with bench.daemon():
        table = await RealRows.create(bench)
        at = Path(table.created.location) / "data" / "odd.parquet"
        at.parent.mkdir()
        at.symlink_to("/etc/passwd")
        files = [table.data((id, "eu")) for id in range(4)]
        odd = msgspec.structs.replace(files[0], file_path=str(at))
        intents = [table.append(file) for file in (files[0], odd, *files[1:])]
        outcomes = await bench.settle(*intents)
        assert [outcome.__struct_config__.tag for outcome in outcomes] == [
            "committed", "rejected", "committed", "committed", "committed",
        ]  # fmt: skip
        assert await table.ids() == [0, 1, 2, 3]
        assert await table.unsound() == ()


async def test_metadata_that_is_no_regular_file_is_not_registered(bench: LocalBench) -> None:
    async with other_table(bench):
        location = (await Pointers(bench.zookeeper.connect()).read(OTHER)).pointer.metadata_location
        folder = bench.root / "foreign"
        folder.mkdir()
        os.mkfifo(folder / "v1.metadata.json")
        (folder / "v2.metadata.json").symlink_to(location)
        for name in ("v1", "v2"):
            at = f"{folder}/{name}.metadata.json"
            intent = RegisterTable(intent_id=new_id(), table="db.new", metadata_location=at)
            assert await rule_of(bench, intent) == "invalid-table"

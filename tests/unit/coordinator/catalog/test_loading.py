"""Tables and views are answered as they are stored, once, and not at all to a client that has them."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession

from firn import AsyncClient
from firn.coordinator.catalog.loading import Loading, etag_of, is_known
from firn.coordinator.catalog.server import CatalogServer, accepts_gzip, listen
from firn.coordinator.catalog.statuses import CatalogError
from firn.coordinator.catalog.stored import StoredTables, with_refs_only
from firn.model.limits import Limits
from firn.storage.pointers import Pointers
from tests.unit.coordinator.workbench import SCHEMA, Workbench


class Catalog:
    """A catalog that reads, beside a daemon that commits."""

    def __init__(self, bench: Workbench, client: AsyncClient, loading: Loading, session: ClientSession, url: str):
        self.bench, self.client, self.loading = bench, client, loading
        self._session, self._url = session, url

    async def get(self, path: str, *, method: str = "GET", **headers: str) -> tuple[int, Any, Mapping[str, str]]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.request(method, f"{self._url}/v1/namespaces/db/{path}", headers=named) as answer:
            data = await answer.read()
            return answer.status, msgspec.json.decode(data) if data else None, answer.headers

    async def stored(self, name: str) -> tuple[str, bytes]:
        pointer = (await Pointers(self.bench.zookeeper.connect()).read(name)).pointer
        return pointer.metadata_location, self.bench.files.read(pointer.metadata_location, bytes_max=10**7)


@asynccontextmanager
async def catalog() -> AsyncIterator[Catalog]:
    bench = Workbench()
    loading = Loading(StoredTables(Pointers(bench.zookeeper.connect()), bench.files, limits=Limits()))
    server = CatalogServer([loading])
    url = await server.start(listen("127.0.0.1", 0))
    client = AsyncClient(connect=bench.redis.connect, files=bench.files, resubmit_after_s=0.1)
    try:
        async with bench.daemon(), client, ClientSession() as session:
            yield Catalog(bench, client, loading, session, url)
    finally:
        await server.stop()


async def test_a_table_is_sent_as_it_is_stored_and_once():
    async with catalog() as c:
        await (await c.client.create_table("db.t", SCHEMA, properties={"x": "y" * 5000})).committed()
        location, data = await c.stored("db.t")
        status, body, headers = await c.get("tables/t")
        assert (status, body["metadata-location"]) == (200, location)
        text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        assert body["metadata"] == msgspec.json.decode(text)
        assert headers["Content-Encoding"] == "gzip"
        assert (await c.get("tables/t", Accept_Encoding="identity"))[1] == body
        c.bench.files.delete(location)  # what a client has is not read again
        status, body, _ = await c.get("tables/t", If_None_Match=headers["ETag"])
        assert (status, body) == (304, None)
        status, body, _ = await c.get("tables/t?snapshots=refs", If_None_Match=headers["ETag"])
        assert (status, body["error"]["type"]) == (404, "NotFoundException")
        assert body["error"]["message"] == f"Failed to open input stream for file: {location}"


async def test_tables_and_views_are_not_taken_for_one_another():
    async with catalog() as c:
        await (await c.client.create_table("db.t", SCHEMA)).committed()
        await (await c.client.create_view("db.v", SCHEMA, {"spark": "select 1"})).committed()
        for path, status in (
            ("tables/t", 204), ("views/v", 204), ("tables/v", 404), ("views/t", 404), ("tables/none", 404),
        ):  # fmt: skip
            assert (await c.get(path, method="HEAD"))[0] == status
        assert (await c.get("views/v"))[1]["metadata"]["view-uuid"]
        assert (await c.get("views/t"))[1]["error"] == {
            "message": "View does not exist: db.t", "type": "NoSuchViewException", "code": 404,
        }  # fmt: skip
        assert (await c.get("tables/v"))[1]["error"]["message"] == "Table does not exist: db.v"
        assert (await c.get("tables/t?snapshots=some"))[0] == 400
        await (await c.client.drop_table("db.t")).committed()
        assert (await c.get("tables/t"))[0] == 404
        assert [await c.loading.kind_of(name) for name in ("db.t", "db.v")] == [None, "view"]


async def test_a_commit_whose_table_cannot_be_read_is_not_answered_as_refused():
    async with catalog() as c:
        committed = await (await c.client.create_table("db.t", SCHEMA)).committed()
        assert (await c.loading.table(committed)).status == 200
        c.bench.files.delete((await c.stored("db.t"))[0])
        with pytest.raises(CatalogError) as unknown:
            await c.loading.table(committed)
        assert unknown.value.status.code == 504


@pytest.mark.parametrize(
    ("refs", "current", "left"),
    [({"main": 3}, 3, [3]), ({"main": 3, "old": 1}, 3, [1, 3]), (None, 2, [2]), ({}, None, []), (None, -1, [])],
)
def test_snapshots_without_a_ref_are_left_out(refs, current, left):
    metadata: dict[str, Any] = {"current-snapshot-id": current, "snapshots": [{"snapshot-id": n} for n in (1, 2, 3)]}
    if refs is not None:
        metadata["refs"] = {name: {"snapshot-id": of, "type": "branch"} for name, of in refs.items()}
    found = msgspec.json.decode(with_refs_only(msgspec.json.encode(metadata)))
    assert [one["snapshot-id"] for one in found.pop("snapshots")] == left
    assert found == {name: value for name, value in metadata.items() if name != "snapshots"}


def test_tags_differ_by_file_and_mode_and_are_found_in_a_header():
    tags = {etag_of(location, mode) for location in ("a", "b") for mode in ("all", "refs")}
    assert len(tags) == 4
    tag = etag_of("a", "all")
    assert is_known(f'"x", {tag}', tag)
    assert is_known(tag.removeprefix("W/"), tag)
    assert not is_known(None, tag)
    assert not is_known(etag_of("a", "refs"), tag)


@pytest.mark.parametrize(
    ("header", "takes"),
    [("gzip", True), ("deflate, GZIP;q=0.5", True), ("gzip;q=0", False), ("identity", False), ("", False)],
)
def test_whether_a_client_takes_gzip(header, takes):
    assert accepts_gzip(header) is takes

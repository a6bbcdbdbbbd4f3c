"""Every file store keeps the same promises: one suite on the local disk, an object store and the in-memory twin."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
from obstore.store import MemoryStore

from firn.model.errors import AlreadyExists, CorruptFile, FirnError, InvalidInput, NotFound
from firn.storage.files import FileStore, RoutedFiles
from firn.storage.local_files import LocalFiles
from firn.storage.memory_files import MemoryFiles
from firn.storage.object_files import ObjectFiles
from tests.integration.s3_server import S3Server

ENOUGH = 1 << 20


class Place(NamedTuple):
    files: FileStore
    root: str


@pytest.fixture(params=["memory", "local", "local-uri", "object", "s3", "routed"])
def place(request, tmp_path):
    if request.param == "memory":
        yield Place(MemoryFiles(), "s3://bucket/wh")
        return
    if request.param == "object":
        store = MemoryStore()
        objects = ObjectFiles(open_store=lambda _url, _repeats: store)
        yield Place(objects, "s3a://bucket/wh")
        objects.close()
        return
    if request.param == "s3":
        with S3Server() as server:
            objects = ObjectFiles(server.options)
            yield Place(objects, "s3://bucket/wh")
            objects.close()
        return
    files = LocalFiles()
    root = f"file://{tmp_path}/wh" if request.param == "local-uri" else f"{tmp_path}/wh"
    yield Place(RoutedFiles({"file": files}) if request.param == "routed" else files, root)
    files.close()


def test_what_was_created_is_read_back_whole_and_in_parts(place):
    location = f"{place.root}/metadata/a b ü %41 é.json"
    place.files.create(location, b"0123456789")
    assert place.files.read(location, bytes_max=10) == b"0123456789"
    assert place.files.read_range(location, offset=3, length=4) == b"3456"
    assert place.files.read_range(location, offset=10, length=0) == b""
    assert place.files.size(location) == 10


def test_an_empty_file_is_a_file(place):
    place.files.create(f"{place.root}/empty", b"")
    assert place.files.read(f"{place.root}/empty", bytes_max=0) == b""
    assert place.files.size(f"{place.root}/empty") == 0


def test_creating_under_a_taken_name_fails_and_keeps_the_first(place):
    location = f"{place.root}/v1.metadata.json"
    place.files.create(location, b"first")
    with pytest.raises(AlreadyExists, match=r"v1\.metadata\.json"):
        place.files.create(location, b"second")
    with pytest.raises(AlreadyExists):
        place.files.create_all([(location, b"third")])
    assert place.files.read(location, bytes_max=ENOUGH) == b"first"


@pytest.mark.parametrize("same_bytes", [False, True])
def test_case_10_of_racing_creators_exactly_one_wins(place, same_bytes):
    writers = 8
    for turn in range(10):
        location = f"{place.root}/race/v{turn}.metadata.json"
        start = threading.Barrier(writers)

        def create(writer, location=location, start=start):
            data = b"same" if same_bytes else f"writer {writer}".encode() * 1000
            start.wait()
            try:
                place.files.create(location, data)
            except AlreadyExists:
                return None
            return data

        with ThreadPoolExecutor(writers) as pool:
            won = [data for data in pool.map(create, range(writers)) if data is not None]
        assert len(won) == 1
        assert place.files.read(location, bytes_max=ENOUGH) == won[0]


def test_create_all_writes_every_file_in_every_folder(place):
    files = [(f"{place.root}/folder-{number % 3}/file-{number}", b"%d" % number) for number in range(20)]
    place.files.create_all(files)
    assert {location: place.files.read(location, bytes_max=ENOUGH) for location, _ in files} == dict(files)
    place.files.create_all([])


def test_create_all_names_the_first_file_that_failed(place):
    place.files.create(f"{place.root}/taken-1", b"")
    place.files.create(f"{place.root}/taken-2", b"")
    files = [(f"{place.root}/{name}", b"new") for name in ("free", "taken-1", "taken-2")]
    with pytest.raises(AlreadyExists, match="taken-1"):
        place.files.create_all(files)
    assert place.files.read(f"{place.root}/taken-1", bytes_max=ENOUGH) == b""


def test_replace_overwrites_and_creates(place):
    location = f"{place.root}/metadata/version-hint.text"
    place.files.replace(location, b"1")
    place.files.replace(location, b"22")
    assert place.files.read(location, bytes_max=ENOUGH) == b"22"


def test_a_file_that_is_larger_than_its_reader_allows_is_not_read(place):
    place.files.create(f"{place.root}/large", b"x" * 11)
    with pytest.raises(InvalidInput, match="11 bytes, more than the limit of 10"):
        place.files.read(f"{place.root}/large", bytes_max=10)


def test_a_range_beyond_the_end_is_a_corrupt_file(place):
    location = f"{place.root}/short"
    place.files.create(location, b"0123")
    for offset, length in ((0, 5), (4, 1), (100, 1)):
        with pytest.raises(CorruptFile, match="short"):
            place.files.read_range(location, offset=offset, length=length)
    with pytest.raises(InvalidInput):
        place.files.read_range(location, offset=-1, length=1)


def test_what_is_not_there_is_not_found(place):
    location = f"{place.root}/metadata/none"
    for attempt in (
        lambda: place.files.read(location, bytes_max=1),
        lambda: place.files.read_range(location, offset=0, length=1),
        lambda: place.files.size(location),
    ):
        with pytest.raises(NotFound, match=r"there is no file .*none"):
            attempt()


def test_deleting_removes_and_deleting_nothing_is_no_error(place):
    location = f"{place.root}/gone"
    place.files.create(location, b"1")
    place.files.delete(location)
    place.files.delete(location)
    place.files.delete(f"{place.root}/no/such/folder/file")
    with pytest.raises(NotFound):
        place.files.size(location)
    place.files.create(location, b"2")


def test_listing_gives_every_file_below_a_folder_and_none_beside_it(place):
    inside = {f"{place.root}/t/{name}" for name in ("a", "data/b", "data/deep/er/c", "metadata/ü %41")}
    for location in (*inside, f"{place.root}/t2/data/b", f"{place.root}/table"):
        place.files.create(location, location.encode())
    for prefix in (f"{place.root}/t", f"{place.root}/t/"):
        found = list(place.files.list(prefix))
        assert {info.location for info in found} == inside
        assert {info.size for info in found} == {len(location.encode()) for location in inside}
        assert all(info.modified_ms > 1_700_000_000_000 for info in found)
    assert list(place.files.list(f"{place.root}/none")) == []


def test_a_listing_may_begin_after_a_name(place):
    names = ["0000000001-a", "0000000002-b", "0000000003-c", "0000000010-d"]
    for name in names:
        place.files.create(f"{place.root}/j/{name}", b"1")

    def listed(after):
        found = place.files.list(f"{place.root}/j", after=f"{place.root}/j/{after}")
        return sorted(info.location.rpartition("/")[2] for info in found)

    assert listed("0000000002-") == names[1:]
    assert listed("0000000002-b") == names[2:]
    assert listed("0000000011-") == []


@pytest.mark.parametrize(
    "below", ["../escape", "a/../../escape", "%2e%2e/escape", "a/%252e%252e/b", "nul\0", "line\nbreak", "x" * 5000]
)
def test_hostile_names_reach_no_file(place, below):
    location = f"{place.root}/{below}"
    for attempt in (
        lambda: place.files.read(location, bytes_max=1),
        lambda: place.files.create(location, b""),
        lambda: place.files.create_all([(location, b""), (f"{place.root}/other", b"")]),
        lambda: place.files.replace(location, b""),
        lambda: place.files.delete(location),
        lambda: list(place.files.list(location)),
    ):
        with pytest.raises(InvalidInput):
            attempt()


def test_a_scheme_that_is_not_enabled_is_refused():
    files = RoutedFiles({"file": MemoryFiles()})
    for location, why in (
        ("http://169.254.169.254/latest", r"'http' is not supported \(there are abfs, az, file, gs, s3\)"),
        (
            "s3a://bucket/key",
            r"'s3' is not enabled here, only file \(enable it: \[warehouse\.options\.s3\] in firn\.toml",
        ),
        ("gopher://x/y", "not supported"),
    ):
        with pytest.raises(InvalidInput, match=why):
            files.read(location, bytes_max=1)
        with pytest.raises(FirnError):
            files.create_all([(location, b"")])

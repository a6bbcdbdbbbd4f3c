"""No spelling of a path leads out of its table."""

import re
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidInput
from firn.storage import locations
from firn.storage.locations import LOCATION_BYTES_MAX, canonical, is_within, join, normalize, overlap, scheme_of


@pytest.mark.parametrize(
    ("location", "normal"),
    [
        ("/wh/db/t", "/wh/db/t"),
        ("/wh//db///t/", "/wh/db/t"),
        ("file:/wh/t", "/wh/t"),
        ("file:///wh/t/", "/wh/t"),
        ("file://localhost/wh/t", "/wh/t"),
        ("FILE:///wh/t", "/wh/t"),
        ("/", "/"),
        ("/wh/p=a%2Fb/c%20d", "/wh/p=a%2Fb/c%20d"),
        ("/wh/..hidden/a..b/...", "/wh/..hidden/a..b/..."),
        ("s3://Bucket/Key/x", "s3://bucket/Key/x"),
        ("s3a://bucket/key/", "s3://bucket/key"),
        ("S3N://bucket", "s3://bucket"),
        ("gs://bucket/é", "gs://bucket/é"),
        ("abfss://c@a.dfs.core.windows.net/x", "abfs://c@a.dfs.core.windows.net/x"),
    ],
)
def test_every_location_has_one_spelling(location, normal):
    assert normalize(location) == normal
    assert normalize(normal) == normal


@pytest.mark.parametrize(
    "location",
    [
        "",
        "relative/path",
        "./x",
        "~/x",
        "C:\\x",
        "/wh/../etc",
        "/wh/t/..",
        "/wh/./t",
        "/wh/%2e%2e/etc",
        "/wh/%2E./etc",
        "/wh/.%2e/etc",
        "/wh/%252e%252e/etc",
        "/wh/..%2fetc",
        "/wh/a%2f..%2f..%2fetc",
        "/wh/..\\etc",
        "/wh/..%5cetc",
        "/wh/a%00b",
        "/wh/\x00",
        "/wh/a\nb",
        "/wh/a\x7fb",
        "/wh/a\x85b",
        "/wh/a\u2028b",
        "/wh/\ud800",
        "file://evil/wh",
        "file:relative",
        "file://",
        "s3:/bucket/key",
        "s3://",
        "s3:///key",
        "s3://bucket/a//b",
        "s3://bucket/../other/key",
        "http://169.254.169.254/latest",
        "jar:file:///x",
        "hdfs://nn/x",
        "/" + "x" * LOCATION_BYTES_MAX,
        "/" + "é" * (LOCATION_BYTES_MAX // 2),
    ],
)
def test_every_other_spelling_is_refused_by_name(location):
    with pytest.raises(InvalidInput, match=r"^data-files\[3\]: "):
        normalize(location, where="data-files[3]")


@pytest.mark.parametrize(
    ("path", "root", "inside"),
    [
        ("/wh/db/t/data/x", "/wh/db/t", True),
        ("file:///wh/db/t/x", "/wh/db/t/", True),
        ("/wh/db/t2/x", "/wh/db/t", False),
        ("/wh/db/t", "/wh/db/t", False),
        ("/wh/db", "/wh/db/t", False),
        ("/wh/DB/t/x", "/wh/db/t", False),
        ("/x", "/", True),
        ("s3a://b/t/x", "s3://b/t", True),
        ("s3://b2/t/x", "s3://b/t", False),
        ("s3://b/x", "s3://b", True),
        ("gs://b/t/x", "s3://b/t", False),
        ("/b/t/x", "s3://b/t", False),
        ("/wh/e\u0301/x", "/wh/\u00e9", False),
    ],
)
def test_inside_means_below_the_folder_and_not_beside_it(path, root, inside):
    assert is_within(path, root) is inside


def test_locations_overlap_when_one_is_the_other_or_inside_it():
    assert overlap("/wh/t", "file:///wh/t/")
    assert overlap("/wh/t", "/wh/t/sub")
    assert overlap("/wh/t/sub", "/wh/t")
    assert not overlap("/wh/t", "/wh/t2")
    assert not overlap("s3://b/t", "s3://b2/t")
    assert overlap("s3://b", "s3a://b/t")


def test_joining_keeps_the_form_and_stays_inside():
    assert join("file:///wh/t/", "metadata", "v1.metadata.json") == "file:///wh/t/metadata/v1.metadata.json"
    assert join("s3a://b/t", "data/x") == "s3a://b/t/data/x"
    for segments in (("..", "x"), ("",), (), ("%2e%2e",)):
        with pytest.raises(InvalidInput):
            join("/wh/t", *segments)


def test_schemes_are_told_apart_by_what_they_mean():
    assert [scheme_of(text) for text in ("/x", "file:/x", "s3a://b", "x", "1:2")] == [
        "file",
        "file",
        "s3",
        "file",
        "file",
    ]


@given(st.text(alphabet=st.sampled_from("./%2eEfF5c\\ab:"), max_size=30))
def test_what_is_accepted_as_inside_has_no_step_upwards_however_it_is_decoded(tail):
    try:
        inside = is_within(f"/wh/t/{tail}", "/wh/t")
    except InvalidInput:
        return
    if inside:
        rest = normalize(f"/wh/t/{tail}").removeprefix("/wh/t/")
        decoded = (
            rest.replace("%25", "%").replace("%2e", ".").replace("%2E", ".").replace("%2f", "/").replace("%2F", "/")
        )
        assert ".." not in decoded.replace("%5c", "/").replace("\\", "/").split("/")


@given(
    st.sampled_from(["", "s3://b", "memory://B.x", "abfs://a-b", "http://h"]),
    st.lists(st.text(alphabet=st.sampled_from("abZ09._-=%:@~ \n\\é"), max_size=4), max_size=4),
)
def test_plain_locations_are_as_normal_as_the_long_way_says(start, segments):
    location = "/".join([start, *segments])
    with mock.patch.object(locations, "_PLAIN", re.compile(r"(?!)")):
        slow = _normal_or_refused(location)
    assert _normal_or_refused(location) == slow


def _normal_or_refused(location):
    try:
        return normalize(location)
    except InvalidInput as error:
        return str(error)


# ---------------------------------------------------------------------------------------------------------------------
# One file, one name

_SEGMENTS = st.lists(st.sampled_from(["a", "B", ".", "..", ".hidden", "a..b", "p=a%2Fb", "é", ""]), max_size=5)
_STARTS = st.sampled_from(["/", "//", "file:/", "file:///", "FILE://localhost/", "s3://b/", "s3a://B/", "S3N://b/"])


@given(_STARTS, _SEGMENTS, st.sampled_from(["", "/"]))
def test_the_canonical_name_is_the_normal_form_where_there_is_one(start: str, segments: list[str], end: str) -> None:
    location = start + "/".join(segments) + end
    try:
        normal = normalize(location)
    except InvalidInput:
        normal = None
    name = canonical(location)
    assert normal in {name, None}
    assert canonical(name) == name


@pytest.mark.parametrize(
    ("stored", "name"),
    [
        ("/wh/t/./a.parquet", "/wh/t/a.parquet"),
        ("file:/wh/u/../t/a.parquet", "/wh/t/a.parquet"),
        ("s3a://B//k", "s3://b//k"),
        ("hdfs://host/wh/t", "hdfs://host/wh/t"),
        ("file://other/wh/t", "file://other/wh/t"),
        ("relative/a.parquet", "relative/a.parquet"),
        ("", ""),
        ("/wh/\n", "/wh/\n"),
    ],
)
def test_what_foreign_tables_store_has_a_name_too(stored: str, name: str) -> None:
    assert canonical(stored) == name

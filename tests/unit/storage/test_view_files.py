"""View metadata files: what is written is read back, and what is not what its name says is refused."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import HealthCheck, given, settings

from firn.model.errors import CorruptFile, InvalidInput, InvalidMetadata
from firn.model.view_json import view_metadata_to_json
from firn.storage.metadata_files import Codec, codec_of, version_of
from firn.storage.view_files import decode_view, encode_view, view_codec_for, view_metadata_name
from tests.strategies.views import view, views

PLAIN = "s3://b/v/metadata/00003-ab.metadata.json"
GZIPPED = "s3://b/v/metadata/00003-ab.gz.metadata.json"
CODECS: list[tuple[Codec, str]] = [("none", PLAIN), ("gzip", GZIPPED)]
VIEW = view()


@given(views())
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
def test_any_view_reads_back(metadata):
    for codec, location in CODECS:
        data = encode_view(metadata, codec=codec)
        assert decode_view(data, location=location) == metadata
        assert encode_view(metadata, codec=codec) == data


@pytest.mark.parametrize(
    ("properties", "codec", "name"),
    [
        ({}, "gzip", "00007-ab-cd.gz.metadata.json"),
        ({"write.metadata.compression-codec": "none"}, "none", "00007-ab-cd.metadata.json"),
        ({"write.metadata.compression-codec": "GZIP"}, "gzip", "00007-ab-cd.gz.metadata.json"),
    ],
)
def test_the_view_chooses_the_codec_and_the_name_says_it(properties, codec, name):
    metadata = view(properties=properties)
    assert view_codec_for(metadata) == codec
    assert view_metadata_name(metadata, version=7, unique="ab-cd") == name
    assert codec_of(name) == codec
    assert version_of(name) == 7


def test_a_plain_file_under_a_gzip_name_is_corrupt():
    with pytest.raises(CorruptFile, match="its name says gzip"):
        decode_view(encode_view(VIEW), location=GZIPPED)


@pytest.mark.parametrize("cut", [3, 20, -9, -1])
def test_a_cut_gzip_file_is_corrupt(cut):
    with pytest.raises(CorruptFile, match="gzip stream"):
        decode_view(encode_view(VIEW, codec="gzip")[:cut], location=GZIPPED)


def test_a_bomb_is_stopped_at_the_limit():
    with pytest.raises(InvalidInput, match="more than the limit of 1000000 bytes"):
        decode_view(gzip.compress(b" " * 20_000_000), location=GZIPPED, bytes_max=1_000_000)


def test_errors_name_file_and_member():
    obj = view_metadata_to_json(VIEW)
    obj["versions"][0]["version-id"] = "x"
    with pytest.raises(InvalidMetadata) as caught:
        decode_view(json.dumps(obj).encode(), location=PLAIN)
    assert caught.value.where == f"{PLAIN}.versions[0].version-id"

"""S3's answers can be lost; a file is then neither written twice nor reported as somebody else's."""

import pytest

from firn.model.errors import AlreadyExists, Misconfigured, Unavailable, UnknownOutcome
from firn.storage.file_stores import open_files
from firn.storage.files import RoutedFiles
from firn.storage.object_files import PUT_ATTEMPTS_MAX, ObjectFiles
from tests.integration.s3_server import S3Server

LOCATION = "s3://bucket/wh/v2.metadata.json"


@pytest.fixture
def s3():
    with S3Server() as server:
        yield server


@pytest.fixture
def files(s3):
    files = ObjectFiles(s3.options, sleep=lambda _seconds: None)
    yield files
    files.close()


@pytest.mark.parametrize("fault", ["error after", "drop after"])
def test_a_put_that_landed_and_was_not_answered_is_our_own(files, s3, fault):
    s3.faults = [fault]
    files.create(LOCATION, b"ours")
    assert s3.puts == 2
    assert files.read(LOCATION, bytes_max=9) == b"ours"


def test_a_put_that_did_not_land_is_repeated(files, s3):
    s3.faults = ["error before", "error before"]
    files.create(LOCATION, b"ours")
    assert s3.puts == 3


def test_equal_bytes_of_another_writer_are_not_our_own(files, s3):
    files.create(LOCATION, b"same")
    s3.faults = ["error before"]
    with pytest.raises(AlreadyExists):
        files.create(LOCATION, b"same")


def test_the_client_library_repeats_no_conditional_put(files, s3):
    files.create(LOCATION, b"theirs")
    s3.puts = 0
    with pytest.raises(AlreadyExists):
        files.create(LOCATION, b"ours")
    assert s3.puts == 1


def test_a_store_that_never_answers_leaves_the_outcome_unknown(files, s3):
    s3.faults = ["error before"] * PUT_ATTEMPTS_MAX
    with pytest.raises(UnknownOutcome, match="v2"):
        files.create(LOCATION, b"ours")
    assert s3.puts == PUT_ATTEMPTS_MAX


def test_no_store_is_unavailable(s3):
    options = {**s3.options, "endpoint": "http://127.0.0.1:1", "retry_config": {"max_retries": 0}}
    files = ObjectFiles(options, sleep=lambda _seconds: None)
    with pytest.raises(Unavailable):
        files.read(LOCATION, bytes_max=1)
    files.close()


def test_the_configuration_says_which_stores_there_are(s3, tmp_path):
    files = open_files({"file": {}, "s3": s3.options})
    assert isinstance(files, RoutedFiles)
    files.create(LOCATION, b"1")
    files.create(f"{tmp_path}/a", b"2")
    assert files.read("s3a://bucket/wh/v2.metadata.json", bytes_max=1) == b"1"
    with pytest.raises(Misconfigured, match="hdfs"):
        open_files({"hdfs": {}})
    with pytest.raises(Misconfigured, match="nonsense"):
        open_files({"s3": {"nonsense": "x"}}).read(LOCATION, bytes_max=1)


KEYS = {"access_key_id": "a", "secret_access_key": "b"}


@pytest.mark.parametrize(
    ("options", "kind", "advice"),
    [
        ({"regoin": "nowhere"}, Misconfigured, "'regoin' is not valid for store 'S3': look at"),
        ({**KEYS, "endpoint": "http://127.0.0.1:1"}, Unavailable, 'only with allow-http = "true":'),
        (
            {"endpoint": "https://127.0.0.1:1"},
            Unavailable,
            "no credentials are set, and the machine's own could not be had:",
        ),
    ],
)
def test_a_store_that_is_not_set_up_names_the_setting(monkeypatch, options, kind, advice):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        monkeypatch.delenv(name, raising=False)
    # A cloud's server of credentials, moved to a port where nobody listens; its name stays in the error.
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1/169.254.169.254")
    files = ObjectFiles({"region": "nowhere", "retry_config": {"max_retries": 0}, **options})
    with pytest.raises(kind) as refused:
        files.read("s3://lake/x", bytes_max=1)
    assert advice in str(refused.value)
    assert "[warehouse.options.s3] in firn.toml" in str(refused.value)

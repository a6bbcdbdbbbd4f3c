"""Properties are read as what they are, and a malformed one is named."""

from __future__ import annotations

import pytest

from firn.model import table_properties as properties
from firn.model.errors import InvalidMetadata


def test_what_is_not_set_has_icebergs_default():
    assert properties.MANIFEST_TARGET_SIZE_BYTES.of({}) == 8 * 1024 * 1024
    assert properties.MANIFEST_MIN_MERGE_COUNT.of({}) == 100
    assert properties.EXPIRE_SNAPSHOT_AGE_MS.of({}) == 432_000_000
    assert properties.EXPIRE_REF_AGE_MS.of({}) == 2**63 - 1
    assert properties.METADATA_COMPRESSION.of({}) == "none"
    assert properties.METADATA_PREVIOUS_VERSIONS_MAX.of({}) == 100
    assert properties.GC_ENABLED.of({}) is True
    assert properties.NAME_MAPPING.of({}) is None
    properties.check_properties({})


@pytest.mark.parametrize(("text", "value"), [("5", 5), (" 5 ", 5), ("+5", 5), ("2147483647", 2**31 - 1)])
def test_integers_are_read(text, value):
    assert properties.COMMIT_RETRIES.of({"commit.retry.num-retries": text}) == value


@pytest.mark.parametrize("text", ["", "five", "5.0", "-1", "2147483648", "9" * 5000, "٣", "0x5", "1_0"])
def test_other_text_is_refused_by_name(text):
    with pytest.raises(InvalidMetadata, match=r"^properties\.commit\.retry\.num-retries: ") as caught:
        properties.COMMIT_RETRIES.of({"commit.retry.num-retries": text})
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(("text", "value"), [("true", True), ("TRUE", True), ("yes", False), ("1", False), ("", False)])
def test_switches_are_on_only_for_true(text, value):
    assert properties.GC_ENABLED.of({"gc.enabled": text}) is value


def test_choices_are_read_in_any_case():
    assert properties.METADATA_COMPRESSION.of({"write.metadata.compression-codec": "GZIP"}) == "gzip"
    with pytest.raises(InvalidMetadata, match="must be one of none, gzip"):
        properties.METADATA_COMPRESSION.of({"write.metadata.compression-codec": "zstd"})


def test_reserved_names_are_not_stored():
    assert properties.without_reserved({"format-version": "2", "uuid": "x", "a": "b"}) == {"a": "b"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("write.summary.partition-limit", "-1"),
        ("commit.manifest.min-count-to-merge", "-5"),
        ("commit.manifest.target-size-bytes", "0"),
        ("write.metadata.previous-versions-max", "0"),
        ("write.metadata.previous-versions-max", "-1"),
        ("history.expire.min-snapshots-to-keep", "0"),
        ("history.expire.max-snapshot-age-ms", "-1"),
        ("history.expire.max-ref-age-ms", "-1"),
    ],
)
def test_values_that_the_java_library_works_with_are_accepted(name, text):
    properties.check_properties({name: text})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("firn.history.per-minutes", "did you mean 'firn.history.per-minute'"),
        ("firn.history.per_day", "did you mean 'firn.history.per-day'"),
        ("firn.maintain.enable", "did you mean 'firn.maintain.enabled'"),
        ("firn.history.thin", "firn.history.per-day"),
        ("firn.history." + "x" * 5_000, "there are firn.history.per-day"),
    ],
)
def test_a_misspelt_name_is_refused_with_what_was_meant(name, meant):
    with pytest.raises(InvalidMetadata, match=meant) as caught:
        properties.check_properties({name: "1"})
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("name", ["firn.team", "owner", "firn.compaction.min-input-files", "firn.maintain.enabled"])
def test_other_names_are_the_users(name):
    properties.check_properties({name: "1"})


@pytest.mark.parametrize("step", ["minute", "hour", "day"])
@pytest.mark.parametrize("text", ["-1", "some", "86400001"])
def test_steps_of_a_history_are_counts(step, text):
    with pytest.raises(InvalidMetadata, match=rf"^properties\.firn\.history\.per-{step}: "):
        properties.check_properties({f"firn.history.per-{step}": text})


def test_a_stored_value_that_cannot_be_used_is_listed_and_its_default_taken():
    stored = {
        "commit.manifest.min-count-to-merge": "abc",
        "write.metadata.compression-codec": "zstd",
        "firn.append-mode": "sometimes",
        "firn.rest.append": "never",
        "owner": "me",
    }
    assert properties.MANIFEST_MIN_MERGE_COUNT.sane(stored) == 100
    assert properties.METADATA_COMPRESSION.sane(stored) == "none"
    assert sorted(line.partition(":")[0] for line in properties.unusable_properties(stored)) == sorted(
        stored.keys() - {"owner"}
    )

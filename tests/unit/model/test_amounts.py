"""Amounts are told as people say them."""

from firn.model.amounts import agreeing, plural, size_text


def test_one_is_told_as_one_and_many_as_many():
    assert [plural(n, "file") for n in (0, 1, 2000)] == ["0 files", "1 file", "2,000 files"]
    assert [plural(n, "breach", "breaches") for n in (1, 2)] == ["1 breach", "2 breaches"]
    assert [agreeing(n) for n in (0, 1, 2)] == ["are", "is", "are"]
    assert [agreeing(n, "was", "were") for n in (1, 1000)] == ["was", "were"]


def test_sizes_are_told_in_the_unit_that_fits():
    assert [size_text(n) for n in (0, 1023, 1024, 1536, 200 * 1024, 5 * 2**30, 3 * 2**50)] == [
        "0 B", "1023 B", "1.0 KiB", "1.5 KiB", "200 KiB", "5.0 GiB", "3072.0 TiB",
    ]  # fmt: skip

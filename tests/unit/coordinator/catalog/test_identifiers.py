"""Names in paths and bodies become names of firn, or are refused."""

from __future__ import annotations

import pytest

from firn.coordinator.catalog.identifiers import checked_namespace, identifier_of, name_of, namespace_in
from firn.coordinator.catalog.statuses import CatalogError


@pytest.mark.parametrize(
    ("text", "namespace"),
    [
        ("db", ("db",)),
        ("a\x1fb", ("a", "b")),
        ("a b\x1fc/d", ("a b", "c/d")),
        ("größe", ("größe",)),
        ("a%1Fb", ("a%1Fb",)),
    ],
)
def test_levels_are_separated_by_the_unit_separator(text, namespace):
    assert namespace_in(text) == namespace


@pytest.mark.parametrize(
    "levels",
    [(), ("",), ("a", ""), ("", "a"), ("a.b",), (".",), ("a\x00",), ("a\nb",), ("a\ud800",), ("a" * 513,), ("a",) * 16],
    ids=repr,
)
def test_wrong_levels_are_bad_requests(levels):
    with pytest.raises(CatalogError) as refused:
        checked_namespace(levels)
    assert refused.value.status.code == 400


@pytest.mark.parametrize("name", ["", "a.b", "a\x1f", "a" * 512], ids=repr)
def test_wrong_names_are_bad_requests(name):
    with pytest.raises(CatalogError) as refused:
        name_of(("db",), name)
    assert refused.value.status.code == 400


def test_a_name_goes_there_and_back():
    assert name_of(("a", "b"), "t") == "a.b.t"
    assert identifier_of("a.b.t") == {"namespace": ["a", "b"], "name": "t"}

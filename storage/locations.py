"""Where files are: the rules that keep every path inside its table.

A location is an absolute POSIX path, a ``file:`` URI, or an object-store URI (``s3://bucket/key``). Locations are
compared as text after `normalize`, always with a trailing ``/``, so that ``/wh/t2`` is not inside ``/wh/t``. Nothing
here percent-decodes a name or resolves a symbolic link: what a name says is what is opened, and names that another
reader would decode to a step upwards are refused.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from firn.model.errors import InvalidInput

LOCATION_BYTES_MAX: Final = 4096  # PATH_MAX on Linux, and more than any object store takes

MARK_NAME: Final = "_firn-warehouse"
"""The file in a local folder by which a daemon knows that the right disk is mounted there.

Engines pass over names with an underscore, and a person who copies a folder's files takes it along.
"""

TEMPORARY_PREFIX: Final = ".firn-"
"""Hidden files with this prefix are of writes that were interrupted; an orphan sweep may take them."""

FILE_SCHEME: Final = "file"
OBJECT_SCHEMES: Final = frozenset({"s3", "gs", "az", "abfs", "memory"})

# Names of one store that clients write differently; the text after the scheme means the same.
_SCHEME_ALIASES: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "azure": "az"}

_SEGMENT: Final = r"/[A-Za-z0-9_=,+@-][A-Za-z0-9_=,+@.-]*+"
_PLAIN: Final = re.compile(rf"(?:(?:s3|gs|az|abfs|memory)://[a-z0-9][a-z0-9.-]*+)?(?:{_SEGMENT})++")
"""Locations of nothing but harmless characters in their one spelling: nearly all of them."""

_CANONICAL: Final = re.compile(r"(?:(?:s3|gs|az|abfs|memory)://[a-z0-9][a-z0-9.-]*+)?+(?:/(?!\.{1,2}(?:/|\Z))[^/]++)++")
"""Locations that `canonical` returns as they are: nearly all, whatever their characters."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_DECODE_ROUNDS: Final = 3  # %252e is %2e is a dot to a reader that decodes twice


def scheme_of(location: str) -> str:
    """The canonical scheme of `location`: ``file`` for plain paths, ``s3`` for ``s3a://…``."""
    match = _SCHEME.match(location)
    if match is None:
        return FILE_SCHEME
    scheme = match[1].lower()
    return _SCHEME_ALIASES.get(scheme, scheme)


def normalize(location: str, *, where: str = "location") -> str:
    """The one spelling of `location` that others are compared with.

    A local location becomes its absolute path (``file:///wh//t/`` → ``/wh/t``), an object location
    ``<scheme>://<bucket>/<key>`` without a trailing slash. Raises `InvalidInput`, naming `where`, for anything that is
    not an absolute location of a known scheme, and for every spelling that could mean another place to somebody else:
    ``.`` and ``..`` segments (percent-encoded too), control characters, lone surrogates, more than 4 KiB.
    """
    if is_plain(location):
        return location
    _check_characters(location, where=where)
    scheme = scheme_of(location)
    if scheme == FILE_SCHEME:
        return _normal_path(_path_of_file_uri(location, where=where), where=where)
    if scheme not in OBJECT_SCHEMES:
        raise InvalidInput(f"scheme {scheme!r} is not supported", where=where)
    rest = location.split(":", 1)[1]
    if not rest.startswith("//"):
        raise InvalidInput("an object location is <scheme>://<bucket>/<key>", where=where)
    authority, _, key = rest[2:].partition("/")
    if not authority:
        raise InvalidInput("the bucket is missing", where=where)
    segments = key.removesuffix("/").split("/") if key else []
    if "" in segments:
        raise InvalidInput("an object key with an empty segment (//) cannot be addressed", where=where)
    _check_segments(segments, where=where)
    return "/".join([f"{scheme}://{authority.lower()}", *segments])


def is_plain(location: str) -> bool:
    """Whether a location is its own `normalize`, as nearly all are; False may be said of others that are, too."""
    return len(location) <= LOCATION_BYTES_MAX and _PLAIN.fullmatch(location) is not None


def canonical(location: str) -> str:
    """Return the one spelling by which a file that has a name already is compared with others.

    It is `normalize` for every location that `normalize` accepts. Foreign tables may store others: of these the scheme
    and bucket get their one spelling, ``.`` and ``..`` in a local path are resolved, and nothing is refused. Files are
    stored and read under the spelling that they came with.
    """
    if location[:1] == "/" and location[-1:] != "/" and "//" not in location and "/." not in location:
        return location
    return location if _CANONICAL.fullmatch(location) is not None else _canonical(location)


@lru_cache(maxsize=10_000)
def _canonical(location: str) -> str:
    scheme = scheme_of(location)
    if scheme == FILE_SCHEME:
        try:
            return posixpath.normpath(re.sub("^/+", "/", _path_of_file_uri(location, where="location")))
        except InvalidInput:
            return location
    authority, slash, key = location.split(":", 1)[1].removeprefix("//").partition("/")
    if scheme in OBJECT_SCHEMES and authority:
        return f"{scheme}://{authority.lower()}{slash}{key}".rstrip("/")
    return location


def is_within(path: str, root: str) -> bool:
    """Is `path` strictly below `root`? Both are normalised first; what cannot be normalised raises `InvalidInput`."""
    return normalize(path).startswith(folder_of(root))


@lru_cache(maxsize=10_000)
def folder_of(root: str) -> str:
    """What the normal form of everything strictly below `root` begins with; raises `InvalidInput`."""
    return _with_slash(normalize(root))


def overlap(a: str, b: str) -> bool:
    """Is one of two locations the other, or inside it?"""
    first, second = _with_slash(normalize(a)), _with_slash(normalize(b))
    return first.startswith(second) or second.startswith(first)


def join(root: str, *segments: str) -> str:
    """`root` with `segments` below it, in the form that `root` was given in.

    Raises `InvalidInput` when the result would not be inside `root`.
    """
    location = "/".join([root.rstrip("/"), *segments])
    if not is_within(location, root):
        raise InvalidInput("leaves its folder", where=location)
    return location


def _with_slash(normal: str) -> str:
    return normal if normal.endswith("/") else normal + "/"


def _check_characters(location: str, *, where: str) -> None:
    try:
        size = len(location.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput("holds a lone surrogate, which no file name can", where=where) from error
    if size > LOCATION_BYTES_MAX:
        raise InvalidInput(f"is {size} bytes long, more than {LOCATION_BYTES_MAX}", where=where)
    for character in location:
        # Cc are the controls with NUL and newline; Zl and Zp break lines in logs and lists.
        if unicodedata.category(character) in ("Cc", "Zl", "Zp"):
            raise InvalidInput(f"holds the control character U+{ord(character):04X}", where=where)


def _path_of_file_uri(location: str, *, where: str) -> str:
    if location.startswith("/"):
        return location
    if _SCHEME.match(location) is None:
        raise InvalidInput("is neither an absolute path nor a URI", where=where)
    rest = location.split(":", 1)[1]
    if not rest.startswith("//"):
        path = rest
    else:
        host, slash, below = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise InvalidInput(f"names another host, {host!r}", where=where)
        path = slash + below
    if not path.startswith("/"):
        raise InvalidInput("is not an absolute path", where=where)
    return path


def _normal_path(path: str, *, where: str) -> str:
    segments = [segment for segment in path.split("/") if segment]
    _check_segments(segments, where=where)
    return "/" + "/".join(segments)


def _check_segments(segments: list[str], *, where: str) -> None:
    for segment in segments:
        decoded = segment
        for _ in range(_DECODE_ROUNDS):
            if any(part in (".", "..") for part in decoded.replace("\\", "/").split("/")):
                raise InvalidInput(f"holds the segment {segment!r}, a step to another folder", where=where)
            if "\x00" in decoded:
                raise InvalidInput(f"holds an encoded NUL in {segment!r}", where=where)
            if "%" not in decoded:
                break
            decoded = unquote(decoded, errors="replace")

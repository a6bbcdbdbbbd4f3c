"""Files in an object store: S3, Google Cloud Storage, Azure, and obstore's own in-memory store.

A new object is a conditional put, which the store refuses when the key exists. The client library never repeats such
a put by itself: a repeat after a lost reply would be refused because of the first, and a file that was written would
be reported as taken. Instead each put carries an attempt's id, and a refused repeat is ours if the object carries that
id.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Final, NoReturn

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import ObjectStore, from_url

from firn.model.errors import (
    AlreadyExists,
    CorruptFile,
    InvalidInput,
    Misconfigured,
    NotFound,
    Unavailable,
    UnknownOutcome,
)
from firn.storage.files import FileInfo, check_range, options_place, too_large
from firn.storage.locations import OBJECT_SCHEMES, normalize, scheme_of

PARALLEL_WRITES: Final = 16
PUT_ATTEMPTS_MAX: Final = 4
PUT_BACKOFF_S: Final = 0.2
REQUEST_TIMEOUT_S: Final = 30

ATTEMPT_ATTRIBUTE: Final = "firn-attempt"
"""User metadata on every object that firn creates: which attempt wrote it."""

_CREDENTIAL_SERVERS: Final = ("169.254.169.254", "metadata.google.internal", "169.254.170.2")
"""Where clouds tell a machine its credentials; they are asked when none are set."""

_NO_REPEATS: Final = {"max_retries": 0, "retry_timeout": timedelta(seconds=REQUEST_TIMEOUT_S)}


class ObjectFiles:
    """The `FileStore` of the object-store schemes.

    `options` go to obstore for every bucket (``region``, ``endpoint``, ``access_key_id``, …; what is missing comes from
    the environment). `open_store` makes the store of ``<scheme>://<bucket>``, with or without its own retries; tests
    give their own.
    """

    def __init__(
        self,
        options: Mapping[str, Any] | None = None,
        *,
        open_store: Callable[[str, bool], ObjectStore] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = dict(options or {})
        self._open_store = open_store or self._from_url
        self._sleep = sleep
        self._stores: dict[tuple[str, bool], ObjectStore] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(PARALLEL_WRITES, thread_name_prefix="firn-objects")

    def read(self, location: str, *, bytes_max: int) -> bytes:
        store, key = self._locate(location)
        try:
            result = obstore.get(store, key)
            size = result.meta["size"]
            if size > bytes_max:
                raise too_large(location, size=size, bytes_max=bytes_max)
            data = bytes(result.bytes())
        except (BaseError, OSError, ValueError) as error:
            _raise(location, error)
        if len(data) != size:
            raise CorruptFile(location, f"{len(data)} bytes came of {size}")
        return data

    def read_range(self, location: str, *, offset: int, length: int) -> bytes:
        check_range(location, offset=offset, length=length)
        if length == 0:
            self.size(location)
            return b""
        store, key = self._locate(location)
        try:
            data = bytes(obstore.get_range(store, key, start=offset, length=length))
        except (BaseError, OSError, ValueError) as error:
            if isinstance(error, BaseError) and self.size(location) < offset + length:
                raise CorruptFile(location, f"ends before byte {offset + length}") from error
            _raise(location, error)
        if len(data) != length:
            raise CorruptFile(location, f"ends before byte {offset + length}")
        return data

    def create(self, location: str, data: bytes) -> None:
        store, key = self._locate(location, repeats=False)
        attempt = uuid.uuid4().hex
        unanswered: Exception | None = None
        for number in range(PUT_ATTEMPTS_MAX):
            if number:
                self._sleep(PUT_BACKOFF_S * 2**number)
            try:
                obstore.put(
                    store, key, data, mode="create", attributes={ATTEMPT_ATTRIBUTE: attempt}, use_multipart=False
                )
            except (AlreadyExistsError, PreconditionError) as error:
                if unanswered is not None and self._wrote(location, data, attempt=attempt):
                    return
                raise AlreadyExists(location) from error
            except (PermissionDeniedError, UnauthenticatedError, ValueError) as error:
                _raise(location, error)
            except (BaseError, OSError) as error:
                unanswered = error
            else:
                return
        raise UnknownOutcome(f"{location}: no answer to the put: {_first_line(unanswered)}") from unanswered

    def create_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        errors = [
            wait() for wait in [self._pool.submit(self.create, location, data).exception for location, data in files]
        ]
        for error in errors:
            if error is not None:
                raise error

    def replace(self, location: str, data: bytes) -> None:
        store, key = self._locate(location)
        try:
            obstore.put(store, key, data, use_multipart=False)
        except (BaseError, OSError, ValueError) as error:
            _raise(location, error)

    def size(self, location: str) -> int:
        store, key = self._locate(location)
        try:
            return obstore.head(store, key)["size"]
        except (BaseError, OSError, ValueError) as error:
            _raise(location, error)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[FileInfo]:
        store, key = self._locate(prefix, folder=True)
        given = prefix.rstrip("/") + "/"
        cut = len(key) + 1 if key else 0
        try:
            offset = None if after is None else self._locate(after)[1]
            for page in obstore.list(store, key or None, offset=offset):
                for found in page:
                    if offset is not None and found["path"] <= offset:
                        continue  # a server that knows no beginning
                    modified_ms = int(found["last_modified"].timestamp() * 1000)
                    location = given + found["path"][cut:]
                    yield FileInfo(location=location, size=found["size"], modified_ms=modified_ms)
        except (BaseError, OSError, ValueError) as error:
            _raise(prefix, error)

    def delete(self, location: str) -> None:
        store, key = self._locate(location)
        try:
            obstore.delete(store, key)
        except FileNotFoundError:
            return
        except (BaseError, OSError, ValueError) as error:
            _raise(location, error)

    def close(self) -> None:
        """Stop the writing threads."""
        self._pool.shutdown()

    def _wrote(self, location: str, data: bytes, *, attempt: str) -> bool:
        """Is the object that is there the one that this attempt put, its answer lost?"""
        store, key = self._locate(location)
        try:
            result = obstore.get(store, key)
            stored = result.attributes.get(ATTEMPT_ATTRIBUTE)
            if stored is not None:
                return stored == attempt
            # A store that keeps no attributes: the same bytes under a name that nobody else chooses are ours.
            return result.meta["size"] == len(data) and bytes(result.bytes()) == data
        except FileNotFoundError:
            return False
        except (BaseError, OSError) as error:
            raise UnknownOutcome(f"{location}: could not see who wrote it: {_first_line(error)}") from error

    def _locate(self, location: str, *, repeats: bool = True, folder: bool = False) -> tuple[ObjectStore, str]:
        scheme, separator, rest = normalize(location).partition("://")
        if not separator or scheme not in OBJECT_SCHEMES:
            raise InvalidInput("is not an object location", where=location)
        bucket, _, key = rest.partition("/")
        if not key and not folder:
            raise InvalidInput("names a bucket, not an object", where=location)
        url = f"{scheme}://{bucket}"
        with self._lock:
            store = self._stores.get((url, repeats))
            if store is None:
                store = self._stores[url, repeats] = self._open_store(url, repeats)
        return store, key

    def _from_url(self, url: str, repeats: bool) -> ObjectStore:  # noqa: FBT001 - the shape of open_store
        retries: dict[str, Any] = {} if repeats else {"retry_config": _NO_REPEATS}
        options = {"client_options": {"timeout": f"{REQUEST_TIMEOUT_S}s"}, **self._options, **retries}
        if url.startswith("memory://"):
            raise Misconfigured("the memory scheme needs an open_store: it is for tests")
        try:
            return from_url(url, **options)
        except (BaseError, ValueError, TypeError) as error:
            place = options_place(scheme_of(url))
            raise Misconfigured(f"{url}: {_first_line(error).removesuffix('.')}: look at {place}") from error


def _first_line(error: BaseException | None) -> str:
    """The message alone: obstore's go on with pages of debug output."""
    return str(error).split("\n", 1)[0]


def _raise(location: str, error: Exception) -> NoReturn:
    """The store's error as one of ours."""
    if isinstance(error, FileNotFoundError):
        raise NotFound(f"there is no file {location}") from error
    told = _first_line(error)
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        place = options_place(scheme_of(location))
        raise Misconfigured(
            f"{location}: the credentials do not allow it: {told}: they are those of {place}, or else the environment's"
        ) from error
    if isinstance(error, ValueError):
        raise InvalidInput(told, where=location) from error
    advice = _advice(told, scheme_of(location))
    raise Unavailable(f"{location}: {told}" + (f": {advice}" if advice else "")) from error


def _advice(told: str, scheme: str) -> str:
    """What to do about errors of the store's library that do not name their cause; empty for others."""
    if any(server in told for server in _CREDENTIAL_SERVERS):
        return (
            "no credentials are set, and the machine's own could not be had: set them in "
            f"{options_place(scheme)}, or in the environment"
        )
    if "builder error" in told and "http://" in told:
        return f'an endpoint without TLS is used only with allow-http = "true": {options_place(scheme)}'
    return ""

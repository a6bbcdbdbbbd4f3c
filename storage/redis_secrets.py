"""User and password of Redis from files, read for every connection: a renewed secret needs no restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from redis.credentials import CredentialProvider

from firn.storage.redis_place import RedisPlace, place_of
from firn.storage.secret_files import read_secret
from firn.storage.store_faults import StoreFault

Credentials = tuple[str, ...]
"""User and password, a password alone, or nothing."""

_DO: Final = "restore the file, and let firn's user read it; it is read again for the next connection"


class RenewedCredentials(CredentialProvider):
    """The credentials of a place. A file that cannot be read leaves those that were read last."""

    def __init__(self, place: RedisPlace, *, on_fault: Callable[[StoreFault], None]) -> None:
        self._place = place
        self._on_fault = on_fault
        self._last = _of(place.options)

    def get_credentials(self) -> Any:
        """What a connection that is made now logs in with."""
        self._last = self._read()
        return self._last

    async def get_credentials_async(self) -> Any:
        """As `get_credentials`; the files are small and local."""
        return self.get_credentials()

    @property
    def renewed(self) -> bool:
        """Whether the files have another secret than the last connection was made with."""
        return self._read() != self._last

    def _read(self) -> Credentials:
        place = self._place
        path = place.url_file or place.password_file
        assert path is not None, "without a file the library has the credentials"
        try:
            if place.url_file is not None:
                place = place_of(read_secret(place.url_file))
                if place.password_file is None:
                    return _of(place.options)
                path = place.password_file
            password = read_secret(path)
        except (OSError, ValueError) as error:  # the latter's text may quote a part of the secret
            why = error.strerror if isinstance(error, OSError) else "it is not what it should be"
            fault = StoreFault(
                store="redis", cause="secret-file", found="the secret of Redis cannot be read from its file",
                said=f"{path}: {why}", do=_DO,
            )  # fmt: skip
            self._on_fault(fault)
            return self._last
        user = place.options.get("username")
        return (password,) if user is None else (user, password)


def _of(options: dict[str, Any]) -> Credentials:
    user, password = options.get("username"), options.get("password")
    if password is None:
        return ()
    return (password,) if user is None else (user, password)

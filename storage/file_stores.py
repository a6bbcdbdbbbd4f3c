"""Which file stores there are, by what the configuration names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firn.model.errors import Misconfigured
from firn.model.extras import import_with_extra
from firn.storage.files import STORE_SCHEMES, FileStore, RoutedFiles
from firn.storage.local_files import LocalFiles
from firn.storage.locations import FILE_SCHEME, OBJECT_SCHEMES


def open_files(options: Mapping[str, Mapping[str, Any]]) -> FileStore:
    """The store of every scheme in `options`, and of no other.

    Schemes are ``file`` (no options), ``s3``, ``gs``, ``az``, ``abfs`` (options as obstore names them: ``region``,
    ``endpoint``, …). `Misconfigured` for another scheme, and when obstore (the extra ``s3``) is not installed.
    """
    stores: dict[str, FileStore] = {}
    for scheme, settings in options.items():
        if scheme == FILE_SCHEME:
            stores[scheme] = LocalFiles()
        elif scheme in OBJECT_SCHEMES:
            stores[scheme] = _object_files(scheme, settings)
        else:
            raise Misconfigured(f"there is no file store for the scheme {scheme!r}; there are {STORE_SCHEMES}")
    return RoutedFiles(stores)


def _object_files(scheme: str, settings: Mapping[str, Any]) -> FileStore:
    module = import_with_extra("firn.storage.object_files", what=f"{scheme}://")
    store: FileStore = module.ObjectFiles(settings)
    return store

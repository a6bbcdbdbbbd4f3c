"""Secrets in files, as they are mounted into containers."""

from __future__ import annotations

from pathlib import Path


def read_secret(path: str) -> str:
    """Return the secret in a file, without the end of its line. Raises OSError and UnicodeDecodeError."""
    return Path(path).read_text(encoding="utf-8").rstrip("\r\n")

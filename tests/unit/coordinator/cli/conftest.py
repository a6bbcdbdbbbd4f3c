"""Commands run in an empty folder with no settings of the machine's, and their logging ends with the test."""

import logging
import os

import pytest
import structlog

from firn.coordinator.config import LogSettings
from firn.coordinator.logs import configure_logs


@pytest.fixture(autouse=True)
def _no_settings(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith("FIRN_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _quiet_daemons():
    """Daemons in this process log nothing into what a command prints."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    configure_logs(LogSettings(level="error", format="json"))
    yield
    structlog.reset_defaults()
    root.handlers, root.level = handlers, level

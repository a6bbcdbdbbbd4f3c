"""What every family of operations needs: something that takes an intent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from firn.model.intent import Intent

Submitted_co = TypeVar("Submitted_co", covariant=True)
"""What submitting gives: a ticket, the coroutine of one, or the intent itself."""


class Submitting(ABC, Generic[Submitted_co]):
    """Takes intents."""

    @abstractmethod
    def submit(self, intent: Intent) -> Submitted_co:
        """Submit any intent."""

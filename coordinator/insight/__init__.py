"""Insight: what happened to an intent, what would happen to it, and why. Reads only; nothing is locked or written."""

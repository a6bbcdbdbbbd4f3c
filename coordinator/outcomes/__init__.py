"""Outcomes: what writers, consumers of events and holders of reservations are told of what has been decided."""

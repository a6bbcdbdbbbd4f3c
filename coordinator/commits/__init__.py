"""Commits: one attempt of one batch, from fresh state and intents to bytes, a journal segment and a pointer change.

`commit` is that of one table, `transaction_commit` that of several, `rename_commit` that of a name. Nothing here
performs what it prepares: lanes do.
"""

"""fsck: what must hold of a table whatever crashed, checked from what is stored.

Readers gather evidence (`evidence`, `contents`), and one pure function per invariant judges it.
"""

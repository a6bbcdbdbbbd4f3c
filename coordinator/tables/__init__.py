"""Tables as they are now: where their pointers are, what they name, and as much of it in memory as is allowed.

`table_catalogs` finds and moves pointers, `table_reader` reads what they name, `table_state` is what a lane knows.
`head_basis` says what of a head is known from another one, so that only the rest is read.
`merges_beside` merges manifests meanwhile, large ones through `manifest_merger` in a process of its own.
"""

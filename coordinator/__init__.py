"""What decides: the daemon, its command line and the client.

Follow one intent: `intake` takes it from its stream, `lanes` gathers a batch for its table, `replay` decides it on the
table's state (`tables`, `journal`), `commits` makes files of what was decided, and `outcomes` tells its writer. Beside
the path: `calculating`, `recovery`, `fsck`, `insight`, `operations`, and what people see (`cli`, `pages`, `demo`).
"""

"""Operations: the health of tables, servers and daemons, and what operators do about it."""

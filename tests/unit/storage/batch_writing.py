"""Writing files as a commit does, with something else to do meanwhile."""


async def create_all(writes, files):
    """Write files, with something else to do meanwhile, which is done once."""
    done = []

    def meanwhile():
        done.append(True)
        return "said"

    try:
        assert await writes.create_all(files, meanwhile=meanwhile) == "said"
    finally:
        assert len(done) == 1

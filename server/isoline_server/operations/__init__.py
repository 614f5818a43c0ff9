"""Use cases, one verb a file. They talk to ports only: no SQL, no wire types."""

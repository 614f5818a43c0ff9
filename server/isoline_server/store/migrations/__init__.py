"""The history of the schema: one hand-written revision per file in ``versions``, each with one DDL statement that may run twice.

Laws of a revision: it moves no data; it is written ``IF NOT EXISTS``; its text is the same for both engines but for the placeholders of
``ddl.py``; once released it is never edited. There is no way back down: restore a backup instead.

What else belongs here is what running them needs: ``ddl.py`` (the placeholders), ``lease.py`` (one runner at a time), ``regions.py`` (what a
CockroachDB database must be told first), ``rerun.py``, ``errors.py``. The entrance is ``isoline_server.store.migrate``; ``env.py`` is Alembic's.
"""

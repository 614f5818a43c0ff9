"""The load of a drill: one process a region (``python -m isoline_drill.load``) that appends, reads and forks at a steady rate, whatever happens
to the service, and records all that it asked and was told.

What belongs here: what a client does, and its record. What does not: what must be true of the record (``checker``), and what is done to the
service meanwhile.
"""

"""Executors: processes that run workflows, in the region of their runs.

``serving`` puts one together; ``service`` claims runs and keeps their ``leases``; ``drive`` takes one run from step to step, with what the log
says in ``story`` and ``diary`` and what is written in ``journal``. How nodes are executed is ``living`` (with ``host``, ``effects`` and
``overlay``) in a live run, and ``replaying`` (with ``recorded``) in a replay. ``forecast`` says what a fork would do outside.
"""

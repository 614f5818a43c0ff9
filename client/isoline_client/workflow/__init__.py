"""Workflows: what they are made of, how one is written, and what happens next in a run of it. No network, no clock, no process here.

``definition`` and ``authoring`` make a ``Workflow``; ``progress`` folds a run's log and ``plan`` says what comes next, both pure; ``events`` makes
the payloads; ``context`` is what a node's handler is given; ``execution`` runs one handler. Who claims, appends and sends is ``executor``.
"""

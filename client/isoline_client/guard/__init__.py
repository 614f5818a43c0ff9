"""The guard: nothing leaves a pure node or a replay.

Three layers, each able to hold alone what it can see: wrapped seams (``seams``, ``patching``), an audit hook (``hooks``), and on Linux a
replay worker that is shut in by the kernel (``isolation``, ``worker``). ``docs/guard.md`` says what each sees and what it cannot.
"""

from isoline_client.guard.errors import EffectDenied, FrameTooLarge, IsolationUnavailable, WorkerDied, WorkerFailed
from isoline_client.guard.installing import Active, active, install
from isoline_client.guard.isolation import IsolationReport, probe
from isoline_client.guard.manifest import Build, manifest
from isoline_client.guard.policy import Policy, Scope, ask, current, enter

__all__ = [
    "Active",
    "Build",
    "EffectDenied",
    "FrameTooLarge",
    "IsolationReport",
    "IsolationUnavailable",
    "Policy",
    "Scope",
    "WorkerDied",
    "WorkerFailed",
    "active",
    "ask",
    "current",
    "enter",
    "install",
    "manifest",
    "probe",
]

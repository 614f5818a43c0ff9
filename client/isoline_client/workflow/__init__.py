"""Workflows: how they are written, what a run of one does next, and what a node is given.

Everything that authors and executors need is named here. ``errors`` draws the tree of errors, ``progress`` says how nodes become due.
"""

from isoline_client.workflow.actions import (
    Action,
    Cancel,
    Ended,
    Fail,
    Finish,
    LoopLimit,
    NotStarted,
    Paused,
    ResumeNode,
    RetryNode,
    SkipNode,
    StartNode,
    WaitForInterrupt,
)
from isoline_client.workflow.authoring import load_workflows
from isoline_client.workflow.builder import WorkflowBuilder
from isoline_client.workflow.context import Context, ContextParts
from isoline_client.workflow.core_nodes import CORE
from isoline_client.workflow.definition import (
    Constant,
    Edge,
    NodeOutput,
    NodeSpec,
    NodeType,
    Retry,
    Role,
    RunInput,
    Settings,
    Variable,
    When,
    Workflow,
)
from isoline_client.workflow.documents import load_json
from isoline_client.workflow.errors import (
    DefinitionInvalid,
    Doubt,
    EffectNotSent,
    Interruption,
    NodeError,
    Park,
    Suspend,
)
from isoline_client.workflow.events import TIMED_OUT, action_events, start_events, terminal_events
from isoline_client.workflow.host import (
    DispatchOutcome,
    DispatchRequest,
    EffectOutcome,
    EffectRequest,
    EffectTicket,
    Host,
    InterruptRequest,
    LlmRequest,
    LlmResponse,
)
from isoline_client.workflow.identity import effect_id, interrupt_id, ordinal_number
from isoline_client.workflow.invocation_key import invocation_key
from isoline_client.workflow.node_types import NodeTypes, node_type
from isoline_client.workflow.plan import plan
from isoline_client.workflow.progress import Progress
from isoline_client.workflow.results import (
    Completed,
    Draw,
    Failed,
    Failure,
    InDoubt,
    NodeResult,
    Outcome,
    Parked,
    Suspended,
)
from isoline_client.workflow.running import run_node

__all__ = [
    "CORE",
    "TIMED_OUT",
    "Action",
    "Cancel",
    "Completed",
    "Constant",
    "Context",
    "ContextParts",
    "DefinitionInvalid",
    "DispatchOutcome",
    "DispatchRequest",
    "Doubt",
    "Draw",
    "Edge",
    "EffectNotSent",
    "EffectOutcome",
    "EffectRequest",
    "EffectTicket",
    "Ended",
    "Fail",
    "Failed",
    "Failure",
    "Finish",
    "Host",
    "InDoubt",
    "InterruptRequest",
    "Interruption",
    "LlmRequest",
    "LlmResponse",
    "LoopLimit",
    "NodeError",
    "NodeOutput",
    "NodeResult",
    "NodeSpec",
    "NodeType",
    "NodeTypes",
    "NotStarted",
    "Outcome",
    "Park",
    "Parked",
    "Paused",
    "Progress",
    "ResumeNode",
    "Retry",
    "RetryNode",
    "Role",
    "RunInput",
    "Settings",
    "SkipNode",
    "StartNode",
    "Suspend",
    "Suspended",
    "Variable",
    "WaitForInterrupt",
    "When",
    "Workflow",
    "WorkflowBuilder",
    "action_events",
    "effect_id",
    "interrupt_id",
    "invocation_key",
    "load_json",
    "load_workflows",
    "node_type",
    "ordinal_number",
    "plan",
    "run_node",
    "start_events",
    "terminal_events",
]

"""What a host raises to end an execution, as JSON and back. Of a ``NodeError`` the code crosses the border, not the subclass."""

from isoline_client.guard.codec import from_json, to_json
from isoline_client.guard.frames import Message
from isoline_client.workflow.errors import Doubt, Interruption, NodeError, Park, Suspend
from isoline_client.workflow.host import InterruptRequest


def raised_document(error: NodeError | Interruption) -> Message:
    """For JSON."""
    match error:
        case NodeError():
            said = {"code": error.code, "message": error.message, "retryable": error.retryable}
            return {"is": "failed", **said, "details": dict(error.details)}
        case Suspend():
            return {
                "is": "suspend",
                "interrupt": to_json(InterruptRequest, error.interrupt),
                "requested": error.requested,
            }
        case Park():
            return {"is": "park", "wake_in_ms": error.wake_in_ms}
        case Doubt():
            return {"is": "doubt", "effect_id": error.effect_id}
        case _:
            raise error  # a kind of interruption that this version does not know


def raised_from(document: Message) -> NodeError | Interruption:
    """Back from JSON."""
    match document:
        case {"is": "failed", "code": code, "message": message, "retryable": retryable, "details": details}:
            return NodeError(code, message, retryable=retryable, details=details)
        case {"is": "suspend", "interrupt": interrupt, "requested": requested}:
            return Suspend(interrupt=from_json(InterruptRequest, interrupt), requested=requested)
        case {"is": "park", "wake_in_ms": wake_in_ms}:
            return Park(wake_in_ms)
        case {"is": "doubt", "effect_id": effect_id}:
            return Doubt(effect_id)
        case _:
            raise AssertionError(document)

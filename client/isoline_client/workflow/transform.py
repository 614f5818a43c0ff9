"""``core.transform``: outputs made of picked members, constants and texts. Deliberately no language: what needs one is a Python node.

Each output has one of::

    {"pick": "/order/total"}                 a member of the inputs (JSON pointer, or names with dots), null when there is none
    {"pick": "/order/total", "else": 0}      another value when there is none
    {"constant": 12}                         always this
    {"template": "Order ${/order/id}"}       a text; ``${…}`` picks, ``$$`` is a dollar
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from isoline_client.workflow.errors import NodeError
from isoline_client.workflow.values import Json, pick, spell

_HOLES: Final = re.compile(r"\$\$|\$\{([^}]*)\}")


def transform(outputs: Any, inputs: Mapping[str, Any]) -> dict[str, Json]:
    """The outputs that ``outputs`` describes. Raise ``NodeError`` ``node_config_invalid``."""
    if not isinstance(outputs, Mapping):
        raise _invalid("outputs", "must be an object")
    return {name: _made(f"outputs/{name}", how, inputs) for name, how in outputs.items()}


def _made(field: str, how: Any, inputs: Mapping[str, Any]) -> Any:
    match how:
        case {"pick": str(path)} if not how.keys() - {"pick", "else"}:
            return pick(inputs, path, how.get("else"))
        case {"constant": value, **rest} if not rest:
            return value
        case {"template": str(text), **rest} if not rest:
            return _HOLES.sub(lambda hole: "$" if hole[1] is None else spell(pick(inputs, hole[1])), text)
    raise _invalid(field, "must be one of pick (with else), constant, template")


def _invalid(field: str, why: str) -> NodeError:
    return NodeError("node_config_invalid", f"{field} {why}", retryable=False, details={"field": field})

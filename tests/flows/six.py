"""A workflow of six steps, each a pure node that does one small thing, and the changes that programmers make to such code.

The modules ``six_*`` hold one change each, under the same workflow id.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from isoline_client.workflow.context import Context
from isoline_client.workflow.definition import Constant, Edge, NodeOutput, NodeSpec, NodeType, Workflow


async def step(_ctx: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"sum": inputs["before"] + inputs["add"] if inputs["before"] is not None else inputs["add"]}


BASE = (("s1", 1), ("s2", 2), ("s3", 3), ("s4", 4), ("s5", 5), ("s6", 6))


def six(*steps: tuple[str, int]) -> list[Workflow]:
    """Steps in a row, each with its name and argument."""
    nodes = []
    for place, (name, add) in enumerate(steps):
        before = NodeOutput(steps[place - 1][0], "sum") if place else Constant(None)
        inputs = {"before": before, "add": Constant(add)}
        nodes.append(NodeSpec(id=name, type_id="six.step", inputs=inputs))
    edges = tuple(Edge(id=f"{a.id}-{b.id}", source=a.id, target=b.id) for a, b in pairwise(nodes))
    types = {"six.step": NodeType("six.step", "pure", step)}
    return [Workflow(workflow_id="six", version=1, nodes=tuple(nodes), edges=edges, types=types)]


WORKFLOWS = six(*BASE)

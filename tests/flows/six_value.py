"""The third step returns something else; its type is the same, so only its value tells."""

from flows import six
from isoline_client.workflow.definition import NodeType, Workflow

(BASE,) = six.WORKFLOWS


async def step(ctx, inputs):  # type: ignore[no-untyped-def]
    made = await six.step(ctx, inputs)
    return {"sum": made["sum"] + 100} if ctx.node_id == "s3" else made


WORKFLOWS = [
    Workflow(
        workflow_id="six",
        version=1,
        nodes=BASE.nodes,
        edges=BASE.edges,
        types={"six.step": NodeType("six.step", "pure", step)},
    )
]

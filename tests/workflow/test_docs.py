"""docs/workflows.md says what works."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from isoline_client.workflow import ContextParts, ResumeNode, StartNode, load_json, load_workflows, plan, run_node
from isoline_client.workflow.events import action_events, start_events, terminal_events
from workflow.runs import RUN, AHost, fold, line, line_of, told

PAGE = (Path(__file__).parents[2] / "docs" / "workflows.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


async def run(workflow: Any, inputs: dict[str, Any], host: AHost) -> list[Any]:
    log = [line("run.started", inputs=inputs)]
    while not log[-1][0].startswith("run.") or len(log) == 1:
        progress = fold(workflow, log)
        match plan(workflow, progress):
            case StartNode() as start:
                log += map(line_of, start_events(start))
            case ResumeNode(start=start):
                parts = ContextParts(run_id=RUN, variables=progress.variables)
                log += map(line_of, terminal_events(start, await run_node(workflow, start, parts, host)))
            case action:
                log += map(line_of, action_events(action))
    return log


async def test_the_purchase(monkeypatch):
    (code,) = blocks("python")
    module = ModuleType("page")
    exec(compile(code, "docs/workflows.md", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, "page", module)
    workflow = load_workflows("page")["example.purchase"]

    log = await run(workflow, {"cart": 10}, AHost(answers={"too-much": {"resumeValue": "fine"}}))

    assert told(log)[-1] == "run.completed"
    assert [node for kind, node, _ in log if kind == "node.completed"] == ["quote", "approve", "pay", "rest"]
    assert [payload["next"]["amount"] for kind, _, payload in log if kind == "variable.changed"] == [120]


async def test_the_greeting():
    (document,) = blocks("json")
    host = AHost(answers={"approval": {"resumeValue": "ok"}})

    log = await run(load_json(document), {"name": "Ann"}, host)

    assert host.asked[0].data == "Hello Ann"
    assert log[-1] == line("run.completed", outputs={"ask": {"value": "ok"}})


def test_every_core_type_and_rule_is_on_the_page():
    from isoline_client.workflow import CORE
    from isoline_client.workflow.progress import RULES

    named = [each.type_id for each in CORE if not each.type_id.startswith("core.conformance.")]
    assert [name for name in [*named, *RULES] if f"`{name}`" not in PAGE] == []

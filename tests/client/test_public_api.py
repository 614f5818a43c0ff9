import ast
import inspect
from pathlib import Path

import pytest

import isoline_client
from isoline_client import Client, Run, SyncClient, SyncRun

PUBLIC = """
Appended Busy CHAIN_START Capabilities Comparison MemoryUnavailable ReplayDivergedAtRefusal SummaryUnavailable ChainBroken Claim ClaimedEffect Client ClientClosed Damaged DeadlineExceeded Diff Effect
EffectIdentityReused EffectNotFound EffectState EffectTransitionRefused EngineCounterReused EngineGap Event ExecutionClient Invocation Lease
LeaseLost EventContent EventDiff EventTypeUnmapped ImportReport PayloadUnprojectable UntranslatableEvent ForkMode ForkOrigin ForkPointInvalid Freshness HeadContended InvalidRequest IsolineError LineageRange LineageTooDeep
NewEvent NotWritten OutcomeUnknown Page PermissionDenied Position Prefix PrefixMismatch Raced Refused RegionStatus RequestIdReused Run
RunInfo RunNotFound RunTerminal START ScopeMissing SeqConflict SeqOutOfRange ServerError Source State SyncClient SyncRun TERMINAL_TYPES
TenantMismatch Tls TooLarge TooManyWaiting Unauthenticated Unavailable VerificationFailed Writer
"""
SOURCES = sorted(Path(isoline_client.__file__).parent.glob("*.py"))


def methods(kind):
    return {name: member for name, member in inspect.getmembers(kind) if not name.startswith("_")}


def test_the_public_names_are_these():
    assert set(isoline_client.__all__) == set(PUBLIC.split())
    assert all(hasattr(isoline_client, name) for name in isoline_client.__all__)


def test_the_package_is_typed():
    assert (Path(isoline_client.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize(
    ("ours", "theirs", "left_out"), [(SyncClient, Client, {"execution"}), (SyncRun, Run, {"writer", "tail_pages"})]
)
def test_the_facade_has_the_same_calls_with_the_same_arguments(ours, theirs, left_out):
    assert methods(theirs).keys() - methods(ours).keys() == left_out
    for name, member in methods(ours).items():
        if inspect.isfunction(member):
            expected = inspect.signature(getattr(theirs, name)).parameters.values()
            found = inspect.signature(member).parameters.values()
            assert [(p.name, p.kind, p.default) for p in found] == [(p.name, p.kind, p.default) for p in expected]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_every_module_opens_by_saying_what_it_is_and_has_short_functions(path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno < 50, node.name

"""The floor's messages and stubs, generated at start into a folder of their own: nothing generated is kept in the repository."""

import importlib
import importlib.resources
import sys
from pathlib import Path
from types import ModuleType

from grpc_tools import protoc


def load(folder: Path) -> tuple[ModuleType, ModuleType]:
    """The modules of messages and of stubs, generated into ``folder`` unless they are there."""
    if not (folder / "isoline_floor_pb2_grpc.py").exists():
        _generate(folder)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return importlib.import_module("isoline_floor_pb2"), importlib.import_module("isoline_floor_pb2_grpc")


def _generate(folder: Path) -> None:
    source = Path(__file__).with_name("isoline_floor.proto")
    ours = ["protoc", f"-I{source.parent}", f"--python_out={folder}", f"--grpc_python_out={folder}", source.name]
    if protoc.main(ours) != 0:
        raise RuntimeError(f"protoc cannot compile {source}")

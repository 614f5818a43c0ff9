"""Layer (a): the callables that a seam names are wrapped, so that each call asks first.

A module that is there already is patched at once, any other when it is imported: nothing is imported for the guard's sake, and a library
that is not installed needs no mention.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from isoline_client.guard.policy import ask
from isoline_client.guard.seams import REGISTRY, Seam
from isoline_client.guard.switches import SWITCHES


def install() -> None:
    """Patch what is imported and watch for the rest. Once a process."""
    wanted: dict[str, list[tuple[Seam, str]]] = {}
    for seam in REGISTRY:
        for point in seam.points:
            wanted.setdefault(point.module, []).append((seam, point.path))
    for name in [each for each in wanted if each in sys.modules or each in sys.builtin_module_names]:
        patch(importlib.import_module(name), wanted.pop(name))
    sys.meta_path.insert(0, _Watcher(wanted))


def patch(module: ModuleType, points: Sequence[tuple[Seam, str]]) -> None:
    """Wrap the callables at ``points``. What this version of the library does not have is left out: the hook is there as well."""
    for seam, path in points:
        *owners, name = path.split(".")
        owner: Any = module
        for each in owners:
            owner = getattr(owner, each, None)
        found = None if owner is None else inspect.getattr_static(owner, name, None)
        if found is not None:
            setattr(owner, name, _asking(found, seam.name, path))


def _asking(found: Any, seam: str, path: str) -> Any:
    if isinstance(found, classmethod | staticmethod):
        return type(found)(_asking(found.__func__, seam, path))
    return (
        _asking_coroutine(found, seam, path) if inspect.iscoroutinefunction(found) else _asking_call(found, seam, path)
    )


def _asking_call(call: Callable[..., Any], seam: str, path: str) -> Callable[..., Any]:
    @wraps(call)
    def asked(*args: Any, **kwargs: Any) -> Any:
        if SWITCHES.seams:
            ask(seam, path)
        return call(*args, **kwargs)

    return asked


def _asking_coroutine(call: Callable[..., Any], seam: str, path: str) -> Callable[..., Any]:
    @wraps(call)
    async def asked(*args: Any, **kwargs: Any) -> Any:
        if SWITCHES.seams:
            ask(seam, path)
        return await call(*args, **kwargs)

    return asked


class _Watcher(MetaPathFinder):
    """Patches the wanted modules when they have been imported."""

    def __init__(self, wanted: dict[str, list[tuple[Seam, str]]]) -> None:
        self._wanted = wanted

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in self._wanted:
            return None
        points = self._wanted.pop(fullname)
        found = _find(fullname, path, target, besides=self)
        if found is not None and found.loader is not None:
            found.loader = _Patching(found.loader, points)
        return found


def _find(fullname: str, path: Any, target: ModuleType | None, *, besides: MetaPathFinder) -> ModuleSpec | None:
    finders = [each for each in sys.meta_path if each is not besides]
    return next((spec for each in finders if (spec := each.find_spec(fullname, path, target)) is not None), None)


class _Patching(Loader):
    """Another loader, and the patches behind it."""

    def __init__(self, inner: Loader, points: Sequence[tuple[Seam, str]]) -> None:
        self._inner = inner
        self._points = points

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        self._inner.exec_module(module)
        patch(module, self._points)

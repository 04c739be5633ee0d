"""Keeps what depends on the clock out of a count of instructions: Python imports this module first, in every process.

valgrind makes a process about fifty times slower. Without this module, a cache that expires by time would expire with nearly every
request, and work that repeats every few seconds would take a share of each request that it never has. It works with the code of any
revision, and so only knows the names of constants.
"""

import asyncio
import sys
from collections.abc import Coroutine, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

_DAY_S = 86_400.0
_LONG_S = 0.2  # a longer pause is one between two runs of periodic work
_CONSTANTS: Mapping[str, Mapping[str, float]] = {
    "stoa.access.admission": {"TTL_S": _DAY_S},
    # A number of requests that is a multiple of 64 takes the same number of statements each time.
    "stoa.rest.limits": {"PREFETCH_S": _DAY_S, "MOST_PREFETCHED": 64},
}
_sleep = asyncio.sleep


def _sleep_longer(delay: float, result: Any = None) -> Coroutine[Any, Any, Any]:
    return _sleep(_DAY_S if delay >= _LONG_S else delay, result)


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        for name, value in _CONSTANTS[module.__name__].items():
            if not hasattr(module, name):
                raise AttributeError(f"{module.__name__} has no {name} in this revision")
            setattr(module, name, value)


class _Finder:
    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _CONSTANTS:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin)
        return spec


asyncio.sleep = _sleep_longer
sys.meta_path.insert(0, _Finder)

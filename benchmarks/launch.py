"""``python -m benchmarks.launch PARENT_PID MODULE ARGUMENT…``: run a module as ``python -m`` does, in a process that ends with its parent.

A program of its own, rather than code between fork and exec: the parent has threads of gRPC, and those do not bear a fork.
"""

import ctypes
import os
import runpy
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    _, parent, module, *arguments = sys.argv
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):  # it ended before the kernel knew
            return
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

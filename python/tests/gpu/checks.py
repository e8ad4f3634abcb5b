"""What needs torch and a Hopper GPU: numbers beside double precision and torch's own kernels, bits
under every condition, refusals. Prints a line for each check, and a JSON document last.

    python3 python/tests/gpu/checks.py [NAME]...     exit code 0, 1, or 77 without a GPU
    python3 python/tests/gpu/checks.py --list        names, the most seconds of each, what they are

Every wait of the kernels has a deadline, and every check: a check that is not done by then ends the
process, with where it was. The checks are the functions of check_*.py.
"""

import faulthandler
import importlib
import json
import pathlib
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

try:
    import numpy  # a check saves a file by it
    import torch
except ImportError:
    numpy = torch = None
if None in (numpy, torch) or ("--list" not in sys.argv and (
        not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9)):
    print("SKIPPED: no torch with a GPU of compute capability 9.0")
    sys.exit(77)

import stagger  # noqa: E402

from support import CHECKS, LIMITS, RESULTS, report  # noqa: E402

for found in sorted(HERE.glob("check_*.py")):
    importlib.import_module(found.stem)


def main():
    if "--list" in sys.argv:
        for name, function in CHECKS.items():
            print(f"{name:<20}{LIMITS[name]:>4} s  {function.__doc__.splitlines()[0]}")
        return 0
    names = sys.argv[1:] or list(CHECKS)
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        print(f"no check {unknown[0]}: --list names them", file=sys.stderr)
        return 2
    for name in names:
        begin = time.perf_counter()
        faulthandler.dump_traceback_later(LIMITS[name], exit=True)
        try:
            CHECKS[name]()
        except Exception as error:  # of one check: the others go on
            traceback.print_exc()
            report(name, False, raised=f"{type(error).__name__}: {error}"[:300])
            if isinstance(error, torch.AcceleratorError):
                break  # the context is lost
        faulthandler.cancel_dump_traceback_later()
        print(f"       {name} took {time.perf_counter() - begin:.1f} s", flush=True)
    passed = all(result["passed"] for result in RESULTS)
    print(json.dumps({"schema": "stagger.torch-checks/1", "torch": torch.__version__,
                      "device": torch.cuda.get_device_name(), "library": stagger.info()["commit"],
                      "passed": passed, "results": RESULTS}, default=str))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())

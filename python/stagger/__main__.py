"""python -m stagger: doctor says what is here, and what of it would be refused; demo trains."""

import argparse
import sys

from . import __version__, info


def doctor():
    """Prints what the library, the GPU and torch are, and whether attention would run."""
    try:
        known = info()
    except ImportError as error:
        print(f"stagger {__version__}: {error}")
        return 1
    print(f"stagger {__version__}, commit {known['commit'] or 'unknown'}, interface {known['abi']}, "
          f"numerics {known['numerics']}")
    print(f"library: {'with' if known['has_cuda'] else 'without'} CUDA")
    if known["device"] >= 0:
        print(f"device {known['device']}: {known['sms']} SMs, compute capability "
              f"{known['cc_major']}.{known['cc_minor']}, driver for CUDA "
              f"{known['driver'] // 1000}.{known['driver'] % 1000 // 10}")
    print("backward pass: " + ("runs" if known["usable"] else f"refused: {known['why_not']}"))
    try:
        import torch
    except ImportError:
        print("torch: not installed; stagger.attention needs it")
        return 0
    print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN "
          f"{torch.backends.cudnn.version()}")
    return 0


def main(words=None):
    parser = argparse.ArgumentParser(prog="python -m stagger", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help=doctor.__doc__)
    demo = commands.add_parser("demo", help="train a model of 111 M parameters twice, to the same "
                               "bits; beside it torch's own kernels")
    demo.add_argument("what", choices=["train"])
    demo.add_argument("--steps", type=int, default=200)
    demo.add_argument("--output", help="a JSON file of what the runs showed")
    given = parser.parse_args(words)
    if given.command == "doctor":
        return doctor()
    from .demo import main as train
    return 0 if train(given.steps, given.output) else 1


if __name__ == "__main__":
    sys.exit(main())

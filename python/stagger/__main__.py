"""python -m stagger: doctor says what is here, and what of it would be refused; calibrate measures
this machine for schedule="auto"; bench times backward passes side by side; demo trains; compare-runs
finds where two recorded runs part."""

import argparse
import os
import pathlib
import signal
import sys

from . import __version__, errors, info

#: How a command ends by what stopped it, the first that fits: as commands of `stagger` do.
STATUS = {KeyboardInterrupt: 130, errors.NoDevice: 77, errors.InternalError: 70, errors.Deadlock: 4,
          errors.InputError: 3, errors.FileError: 3, OSError: 3, errors.Timeout: 1,
          errors.DigestMismatch: 1, errors.StaggerError: 2, ImportError: 2}


def doctor(_=None):
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
    print("refused on a GPU: float32, head_dims other than 64 and 128, dropout, bias, softcap, sinks, "
          "lengths on the device; on the CPU: all but float32")
    try:
        import torch
    except ImportError:
        print("torch: not installed; stagger.attention needs it")
        return 0
    print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN "
          f"{torch.backends.cudnn.version()}")
    if torch.cuda.is_available():
        from .machines import ranking_profile
        print(f"profile: {ranking_profile(torch.cuda.get_device_name()) or 'h200'}")
    for name, state in operators():
        print(f"operator {name}: {state}")
    for hook, state in hooks():
        print(f"hook {hook}: {state}")
    return 0


def operators():
    """What attention on a GPU is made of: ours, and torch's forward passes with their schemas."""
    import torch

    from .torch import ops_available
    yield "stagger::forward, stagger::backward", (
        "there" if ops_available() else "refused: they need torch 2.4 or later")
    from .torch import forward, schemas
    for way, (name, *_) in schemas.OPERATORS.items():
        if way in forward.CLOSED:
            yield f"forward {way}", f"refused: {forward.CLOSED[way]}"
        else:
            yield f"forward {way}", str(getattr(torch.ops.aten, name).default._schema)
    yield "forward fa3", schemas.fa3_forward()[1] or "there"


def hooks():
    """Each hook's library, and whether it is here."""
    import importlib.util
    for hook, library in (("transformers", "transformers"), ("torchtitan", "torchtitan"),
                          ("megatron", "megatron"), ("fa3", "flash_attn_interface")):
        here = importlib.util.find_spec(library) is not None
        yield hook, f"{library} is {'here' if here else 'not installed'}"
    from .integrations import sdpa
    from .torch import ops_available
    yield "sdpa", ("refused: it needs torch 2.4 or later" if not ops_available() else
                   "in torch's registry" if sdpa.register() else "by install(): no registry")


def calibrate(given):
    """Measures this GPU's profile, by which schedule="auto" chooses from then on."""
    from . import machines
    path = machines.calibrate(given.output, memory=not given.no_memory)
    print(f"written to {path}")
    if not given.output:
        print("Plans of \"auto\" go by it from now on: it may choose other tables than before, whose "
              "bits are others. A run that is to be resumed bit by bit keeps a lock file.")
    return 0


def bench(given):
    """Times backward passes side by side, or makes a table of what was timed."""
    from .bench import cases, opponents, protocol, run, table
    if given.table:
        print(table.markdown(run.document_of(given.table)), end="")
        return 0
    rules = protocol.Protocol(rounds=given.rounds, steady_ms=given.steady_ms,
                              counted_ms=given.steady_ms / 2, rest_ms=given.rest_ms)
    chosen = cases.chosen(given.sets, given.only)
    run.bench(chosen, opponents.named(given.opponents), rules, output=given.output)
    if given.output:
        print(f"written to {given.output}; as a table: python -m stagger bench --table "
              f"{given.output}")
    return 0


def demo(given):
    """Trains a model of 111 M parameters twice, to the same bits; beside it torch's own kernels."""
    from .demo import main as train
    return 0 if train(given.steps, given.output, given.only, given.compile, given.every) else 1


def compare_runs(given):
    """Says at which step and tensor two runs, recorded by stagger.debug, part."""
    from .debug import compare
    difference = compare(given.first, given.second)
    print(difference)
    return 1 if difference or not difference.steps else 0


def positive(kind):
    """What argparse reads a number of a kind above 0 by, 10^6 at most."""
    def read(text):
        number = kind(text)
        if not 0 < number <= 1e6:
            raise argparse.ArgumentTypeError(f"{text} is not above 0 and at most 1e6")
        return number
    read.__name__ = kind.__name__
    return read


def parser():
    """The commands and their options; each has what runs it as `run`."""
    words = argparse.ArgumentParser(prog="python -m stagger", description=__doc__)
    commands = words.add_subparsers(dest="command", required=True)

    def command(name, run):
        added = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        added.set_defaults(run=run)
        return added

    command("doctor", doctor)
    one = command("calibrate", calibrate)
    one.add_argument("--output", type=pathlib.Path, help="another file than the one that is used")
    one.add_argument("--no-memory", action="store_true", help="leave out L2 and device memory")
    one = command("bench", bench)
    one.add_argument("--sets", nargs="+", default=["grid", "shared-heads", "windows"],
                     choices=["grid", "shared-heads", "windows"], help="which problems")
    one.add_argument("--only", nargs="+", default=[], metavar="WORD",
                     help="problems whose name contains one of these")
    one.add_argument("--opponents", nargs="+", metavar="NAME", help="which backward passes")
    one.add_argument("--rounds", type=positive(int), default=9,
                     help="of all opponents, each in another order (9)")
    one.add_argument("--steady-ms", type=positive(float), default=400.0,
                     help="how long an opponent runs in a row; the second half counts (400)")
    one.add_argument("--rest-ms", type=positive(float), default=1.0,
                     help="rest before a spaced call (1)")
    one.add_argument("--output", type=pathlib.Path, help="a JSON file (stagger.bench/2)")
    one.add_argument("--table", type=pathlib.Path, metavar="FILE",
                     help="print such a file as Markdown instead")
    one = command("demo", demo)
    one.add_argument("what", choices=["train"])
    one.add_argument("--steps", type=positive(int), default=200, help="of training (200)")
    one.add_argument("--only", nargs="+", default=(), metavar="RUN",
                     help="runs whose names begin so: A1, A2, ..., D2")
    one.add_argument("--every", type=positive(int), default=20, metavar="N",
                     help="steps between digests (20)")
    one.add_argument("--compile", action="store_true", help="the model by torch.compile")
    one.add_argument("--output", help="a JSON file of what the runs showed")
    one = command("compare-runs", compare_runs)
    one.add_argument("first", type=pathlib.Path)
    one.add_argument("second", type=pathlib.Path)
    return words


def main(words=None):
    given = parser().parse_args(words)
    try:
        status = given.run(given)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has enough
        _close_output()
        return 128 + signal.SIGPIPE
    except tuple(STATUS) as error:
        print(f"stagger: {_words(error)}", file=sys.stderr)
        if isinstance(error, OSError) and error.filename is None:
            _close_output()
        return next(status for kind, status in STATUS.items() if isinstance(error, kind))
    return status


def _words(error):
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return error


def _close_output():
    """What is left to print goes nowhere: the interpreter's own flush at its end would fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())

"""The workbench on dicts: what the command prints with --json, by the same code."""

import concurrent.futures
import contextlib
import ctypes
import itertools
import json
import os
import pathlib
import tempfile
import threading

from . import _lib, errors, plain
from .tables import Table

#: The class of error that an exit code without a report stands for.
_BY_EXIT = {2: errors.UsageError, 3: errors.InputError, 70: errors.InternalError}

#: Numbers of the requests that an interrupt cancels.
_numbers = itertools.count(1)


def command(name, **options):
    """Runs a command of `stagger`: its long options are keyword arguments, `_` for `-`; a flag is
    True. Returns (exit_code, report): the report is what --json prints. Raises UsageError or
    InputError with the command's words where there is none. An interrupt (Ctrl-C) ends the command,
    and is a KeyboardInterrupt as ever."""
    return call(name, {key.replace("_", "-"): value for key, value in options.items()
                       if value is not None})


def call(name, options, id=None):
    """The same, by options as they are spelled. A call with an `id`, a string, can be ended by
    cancel(id) from another thread: its exit code is 130 then, its report what there was."""
    request = {"command": name, "options": dict(options)}
    response = _response(request if id is None else {**request, "id": id})
    if "error" in response:
        raise _BY_EXIT.get(response["exit_code"], errors.StaggerError)(response["error"])
    return response["exit_code"], response.get("report", response.get("text"))


def cancel(id):
    """Ends the call of that id, in whichever thread it is; returns whether there was one."""
    return _answer({"command": "cancel", "id": id})["report"]["cancelled"]


def _response(request):
    """The answer to a request; an interrupt, which comes to the main thread alone, cancels it."""
    if threading.current_thread() is not threading.main_thread():
        return _answer(request)
    request = {"id": f"stagger.call {next(_numbers)}", **request}
    answered = concurrent.futures.Future()
    try:
        threading.Thread(target=_settle, args=(answered, request), daemon=True).start()
        return answered.result()
    except KeyboardInterrupt:
        while not answered.done():
            cancel(request["id"])
            concurrent.futures.wait([answered], timeout=0.05)
        raise


def _settle(answered, request):
    """Gives a future the answer to a request."""
    try:
        answered.set_result(_answer(request))
    except BaseException as error:
        answered.set_exception(error)


def _answer(request):
    text = ctypes.c_void_p()
    try:
        words = json.dumps(request, default=plain.jsonable).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise errors.UsageError(
            f"an option of {request['command']} is nothing that JSON has: {error}") from error
    _lib.check(_lib.library().stagger_json(words, ctypes.byref(text)))
    return json.loads(_lib.taken(text))


@contextlib.contextmanager
def _file_of(table):
    """A file with the table: its own, if it is one."""
    if isinstance(table, (str, os.PathLike)):
        yield os.fspath(table)
        return
    document = table.to_dict() if isinstance(table, Table) else table
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "mine.table.json"
        path.write_text(json.dumps(document, default=plain.jsonable), encoding="utf-8")
        yield str(path)


def analyze(table=None, **options):
    """The report (`stagger.report/1`) of a table, a dict, a file, or of a mask and a schedule:
    analyze(t), analyze(mask="full", n=8, schedule="shift"). A table that is wrong has a verdict,
    not an exception."""
    if table is None:
        return command("analyze", **options)[1]
    with _file_of(table) as path:
        return command("analyze", table=path, **options)[1]


def verify(table, **options):
    """What `stagger verify` says of a table: verdict and findings, among all else."""
    return analyze(table, **options)


def simulate(table=None, **options):
    """The makespan, the bubbles and the critical path of a table in a timing model."""
    report = analyze(table, **options)
    keys = ("verdict", "findings", "model", "makespan", "lower_bound", "bubble", "critical_path")
    return {key: report[key] for key in keys if key in report}


def compare(mask="causal", **options):
    """Every schedule on one problem (`stagger.compare/1`): compare("causal", n=8, heads=4)."""
    return command("compare", mask=mask, **options)[1]


def optimize(mask="causal", **options):
    """The best table found (`stagger.optimum/1`, with the table as `"table"` where there is one):
    optimize("sliding:left=7,right=0", n=32, sms=8, time_limit=10). Raises UsageError for an `output`:
    Table.save() writes the table."""
    if options.get("output") is not None:
        raise errors.UsageError(f"output is {os.fspath(options['output'])!r}; the table is in the report, by "
                                "\"table\", and its save() writes it")
    options.pop("output", None)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "best.table.json"
        report = command("optimize", mask=mask, output=str(path), **options)[1]
        if path.exists():
            report["table"] = Table.load(path)
        return report


def masks():
    """Every kind of mask, with its keys."""
    return call("list", {"topic": "masks"})[1]["masks"]


def schedules():
    """Every schedule, with its source and preconditions."""
    return call("list", {"topic": "schedules"})[1]["schedules"]

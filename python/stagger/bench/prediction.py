"""What `stagger block` predicts of a `stagger.block-bench/1` document's blocks, beside what was
measured; what the rule of replacement says; and the rates that a machine profile would have.

The rule takes another attention's pieces into the deterministic block of torch: T' = T - T_ab +
T'_ab, of both passes where the forward pass is another one too. It goes by the pieces within the
blocks, again by those with the block at its own clock, and again by attention alone.
"""

import json
import pathlib
import shutil
import subprocess
import tempfile

BASE = "torch-flash-det"
OURS = "stagger"
_TIMEOUT_S = 120  # a schedule that searches takes a while
#: Whose rates a machine profile has, by a row's attention; ours is behind flash's forward pass.
RATES = {"torch-flash-det": "flash-deterministic", "torch-flash": "flash", "cudnn": "cudnn"}


class Unpredicted(Exception):
    """`stagger block` refuses; the text says why."""


def asker(stagger, machine, load=None):
    """A function that asks the command, by the machine's rates under a load: from arguments to what
    its JSON says."""
    under = ["--load", load] if load else []

    def ask(arguments):
        command = [stagger, "block", "--machine", machine, *under, "--json", *map(str, arguments)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise Unpredicted(f"no answer within {_TIMEOUT_S} s") from None
        if done.returncode != 0:
            raise Unpredicted(" ".join(done.stderr.split()) or "no reason")
        return json.loads(done.stdout)
    return ask


def pieces(row):
    """ms by (region, pass) within a block."""
    return {(each["name"], each["pass"]): each["ms"] for each in row.get("regions", ())}


def _is_ours(row):
    return row["attention"].partition(":")[0] == OURS


def _has_flash_forward(row):
    return not (row["attention"] == "cudnn" or row["attention"].endswith("+cudnn"))


def _attention_of(row, case, base):
    """Options that say what attention takes before a replacement: rates by name, and in the place
    of rates that a profile lacks what was measured."""
    named = RATES.get(row["attention"], "flash-deterministic" if _has_flash_forward(row)
                      else "cudnn")
    options = [["--attention", named]]
    inside = pieces(row)
    backward = pieces(base if _is_ours(row) else row)
    if ("attention", "forward") in inside and ("attention", "backward") in backward:
        options.append(["--attn-fwd-ms", f"{inside['attention', 'forward']:.6f}",
                        "--attn-bwd-ms", f"{backward['attention', 'backward']:.6f}"])
    return options


def _plans_of(document):
    """What ours planned, by shape and attention: a compiled block has the plan of the eager one."""
    return {(*_shape(case), row["attention"]): row["plan"]
            for case in document["cases"] for row in case["rows"] if "plan" in row}


def _shape(case):
    return case["model"], case["seq"], case["batch"]


def _replacements_of(row, plan):
    """What ours is replaced by: its plan's prediction, and its schedule's, each head alone."""
    if not _is_ours(row):
        return {"": []}
    found = {}
    if plan.get("predicted_ns", 0) > 0:
        found["plan"] = ["--new-attn-bwd-ms", f"{plan['predicted_ns'] / 1e6:.6f}", "--rested"]
    schedule = plan.get("schedule") or row["attention"].split(":", 1)[1].split("+")[0]
    if schedule != "auto":
        found["schedule"] = ["--schedule", schedule]
    return found


def _asked(ask, problem, attention, replacement):
    """The first answer of several ways to say what attention takes, and which way it was."""
    why = None
    for way, options in enumerate(attention):
        try:
            return ask([*problem, *options, *replacement]), way > 0
        except Unpredicted as error:
            why = why or error
    raise why


def _problem(case):
    """Options of a case's block. Its norms are in fp32, so that where torch runs operations one by
    one they are counted."""
    kind = ["--norms", "fp32"] if case["ops"] == "eager" else ["--ops", case["ops"]]
    return ["--model", case["model"], "--seq", case["seq"], "--batch", case["batch"], *kind]


def predicted(ask, case, row, base, plan):
    """What is predicted of a row, by what; {"absent": why} where nothing is."""
    found = {}
    for by, replacement in _replacements_of(row, plan).items():
        try:
            answer, given = _asked(ask, _problem(case), _attention_of(row, case, base), replacement)
        except Unpredicted as error:
            found.setdefault("absent", str(error))
            continue
        after = answer["replaced"] or answer
        total = after.get("settled", after)["total_ms"]
        found[by or "rates"] = {
            "total_ms": total, "attention_backward_ms": after["attention_backward_ms"],
            "error": total / row["steady"]["ms"] - 1,
            "error_rested": total / row["spaced"]["ms"] - 1,
            "attention_measured": given}
        found.setdefault("kernels", [
            {"name": each["name"], "pass": each["pass"], "ms": after["attention_backward_ms"]
             if (each["name"], each["pass"]) == ("attention", "backward") else each["ms"]}
            for each in answer["kernels"]])
        found.setdefault("answer", answer)
    return found


def _kernels_ms(ask, case, attention):
    """What a block's kernels take with its attention as measured, at the clock that it then has."""
    given = [word for which in ("forward", "backward")
             for word in (f"--attn-{which[0]}wd-ms", f"{attention['attention', which]:.6f}")]
    return ask([*_problem(case), *given])["kernels_ms"]


def replaced(ask, case, row, base):
    """The rule's block by the pieces within blocks, at the clock of the block before and at its
    own, and by attention alone."""
    found = {}
    inside, before = pieces(row), pieces(base)
    passes = ["backward"] if _has_flash_forward(row) else ["forward", "backward"]
    keys = [("attention", each) for each in passes]
    total = base["steady"]["ms"]
    if all(key in inside and key in before for key in keys):
        found["inside_ms"] = total + sum(inside[key] - before[key] for key in keys)
        try:
            after = _kernels_ms(ask, case, {**before, **{key: inside[key] for key in keys}})
            found["settled_ms"] = total + after - _kernels_ms(ask, case, before)
        except Unpredicted:
            pass  # the profile does not know these operations
    if passes == ["backward"] and "alone" in row and "alone" in base:
        found["alone_ms"] = (total - base["alone"]["steady"]["ms"] + row["alone"]["steady"]["ms"])
    for by in ("inside", "settled", "alone"):
        if f"{by}_ms" in found:
            found[f"{by}_error"] = found[f"{by}_ms"] / row["steady"]["ms"] - 1
    return found


def rates(case, answer, row):
    """GEMM rate and kappa of a block as it was measured, and its attention's rates, as a machine
    profile has them; by the kernels' FLOPs and bytes."""
    kernels = {(each["name"], each["pass"]): each for each in answer["kernels"]}
    gemms = [key for key, each in kernels.items()
             if each["flops"] and key[0] != "attention"]
    others = [key for key, each in kernels.items() if not each["flops"]]
    flops = sum(kernels[key]["flops"] for key in gemms)
    least = sum(kernels[key]["ms"] for key in others) / answer["kappa"]
    inside, kinds = pieces(row), row.get("kinds") or {}
    found = {}
    if inside:
        gemm_ms = sum(inside[key] for key in gemms)
        other_ms = sum(ms for key, ms in inside.items() if key not in gemms
                       and key[0] in {name for name, _ in others})
        for which in ("forward", "backward"):
            key = "attention", which
            found[f"attention_{which}_tflops"] = kernels[key]["flops"] / inside[key] / 1e9
    elif kinds:
        gemm_ms, other_ms = kinds["gemm"], kinds["other"]
    else:
        return None
    return {"gemm_tflops": flops / gemm_ms / 1e9, "kappa": other_ms / least, **found}


def fit(document, stagger):
    """Fills rows with what rates say that are fitted to the document (`stagger calibrate --block`),
    and with what they say without the row's model; says how right they are. What was there goes."""
    measured = [row for case in document["cases"] for row in case["rows"] if "steady" in row]
    for row in measured:
        row.pop("fitted", None)
    with tempfile.TemporaryDirectory() as folder:
        blocks = pathlib.Path(folder) / "blocks.json"
        blocks.write_text(json.dumps(document), encoding="utf-8")
        command = shutil.which(stagger) or stagger
        done = subprocess.run([pathlib.Path(command).resolve(), "calibrate", "--block", blocks.name,
                               "-o", "profile.json", "--json"], cwd=folder, capture_output=True,
                              text=True, timeout=_TIMEOUT_S)
    if done.returncode != 0:
        document["fit"] = {"absent": (done.stderr.strip().splitlines() or ["no reason"])[0]}
        return document
    answer = json.loads(done.stdout)
    document["fit"] = {"rates": answer["machine"]["block"], "errors": answer["errors"]}
    for row, said in zip(measured, answer["blocks"], strict=True):
        row["fitted"] = {key: said[key] for key in ("fitted", "held_out", "attention_measured")}
    return document


def predict(document, ask):
    """Fills a document's rows with what is predicted of them; what was there goes."""
    plans = _plans_of(document)
    for case in document["cases"]:
        measured = [row for row in case["rows"] if "steady" in row]
        base = next((row for row in measured if row["attention"] == BASE), None)
        for row in measured:
            plan = plans.get((*_shape(case), row["attention"]), {})
            row["predicted"] = found = predicted(ask, case, row, base or row, plan)
            row.pop("rates", None)
            answer = found.pop("answer", None)
            if answer:
                row["rates"] = rates(case, answer, row)
            row["rule"] = replaced(ask, case, row, base) if base and row is not base else {}
    return document

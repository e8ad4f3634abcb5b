"""A `stagger.bench/2` document as Markdown: what a README shows is made from the data."""

from .opponents import STAGGER

_WORDS = {"steady": "in a row", "spaced": "rested"}


def opponents_of(document):
    """Opponents that ran somewhere, in the order of the document."""
    found = {}
    for entry in document["cases"]:
        for result in entry["results"]:
            found[result["opponent"]] = found.get(result["opponent"], False) or "steady" in result
    return [name for name, ran in found.items() if ran]


def best(results, regime):
    """The fastest deterministic opponent beside Stagger, and how many times as fast Stagger is."""
    others = [result for result in results if result.get("deterministic") and
              result["opponent"] != STAGGER and "stagger" in result[regime]]
    if not others:
        return None
    fastest = min(others, key=lambda result: result[regime]["ms"])
    return fastest["opponent"], fastest[regime]["stagger"]["times"]


def row(entry, names, regime):
    """One line of a table."""
    results = {result["opponent"]: result for result in entry["results"]}
    cells = [entry["case"]["name"]]
    for name in names:
        result = results.get(name, {})
        cells.append(f"{result[regime]['tflops']:.0f}" if regime in result else "")
    found = best(entry["results"], regime)
    cells.append(f"{found[1]:.2f}" if found else "")
    return cells


def table(document, regime):
    """TFLOP/s of every case and opponent in a regime, and the ratio to the fastest deterministic
    one."""
    names = opponents_of(document)
    head = ["batch x heads x tokens x head_dim", *names, "× the fastest deterministic peer"]
    lines = [head, ["---"] + ["--:"] * (len(head) - 1)]
    lines += [row(entry, names, regime) for entry in document["cases"]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def markdown(document):
    """Both regimes, and what they were measured on."""
    rules = document["protocol"]
    about = (f"{document['device']}, torch {document['torch']}, cuDNN {document['cudnn']}, driver "
             f"for CUDA {document['driver'] // 1000}.{document['driver'] % 1000 // 10}, stagger "
             f"{document['stagger']} ({document['commit'] or 'unknown'}), {document['date']}. "
             f"TFLOP/s of the whole backward pass by autograd, bf16, medians of {rules['rounds']} "
             "rounds; ratios are of the same round.")
    notes = {"steady": f"Calls back to back for {rules['steady_ms']:.0f} ms, of which the last "
                       f"{rules['counted_ms']:.0f} count.",
             "spaced": f"Each call after {rules['rest_ms']:g} ms of rest."}
    parts = [about]
    for regime, words in _WORDS.items():
        parts += [f"**{words[0].upper()}{words[1:]}.** {notes[regime]}", table(document, regime)]
    differ = sorted({result["opponent"] for entry in document["cases"]
                     for result in entry["results"] if result.get("same_bits") is False})
    absent = sorted({f"{result['opponent']} ({result['absent']})" for entry in document["cases"]
                     for result in entry["results"] if "absent" in result})
    if differ:
        parts.append(f"Other bits in another run: {', '.join(differ)}.")
    if absent:
        parts.append(f"Left out, where a cell is empty: {'; '.join(absent)}.")
    return "\n\n".join(parts) + "\n"

"""What the schema of SARIF 2.1.0 (OASIS, errata 01, sarif-schema-2.1.0.json) asks of the objects that
`lint --sarif` writes: for each of its definitions that is there the required properties, and of those
written the type, the enumeration, the least number and the format. Each definition there has
"additionalProperties": false; one of its properties that is not written yet has to be added here.
"""

import json
import re

LEVELS = {"none", "note", "warning", "error"}
URI_REFERENCE = re.compile(r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*")
# Section 3.19.12 of the standard's text: Semantic Versioning 2.0.0.
SEMANTIC_VERSION = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")


class Array:
    def __init__(self, of, unique=False):
        self.of, self.unique = of, unique


class AtLeast(int):
    """An integer, from this one on."""


# By definition: any of these properties, all of these, and what each property is: a Python type, a
# set of strings, a pattern of strings, an integer's least, an array, or another definition's name.
DEFINITIONS = {
    "log": ((), ("version", "runs"),
            {"$schema": URI_REFERENCE, "version": {"2.1.0"}, "runs": Array("run")}),
    "run": ((), ("tool",),
            {"tool": "tool", "invocations": Array("invocation"), "results": Array("result"),
             "columnKind": {"utf16CodeUnits", "unicodeCodePoints"}}),
    "tool": ((), ("driver",), {"driver": "toolComponent"}),
    "toolComponent": ((), ("name",),
                      {"name": str, "semanticVersion": SEMANTIC_VERSION,
                       "rules": Array("reportingDescriptor", unique=True)}),
    "reportingDescriptor": ((), ("id",),
                            {"id": str, "shortDescription": "multiformatMessageString",
                             "fullDescription": "multiformatMessageString",
                             "help": "multiformatMessageString",
                             "defaultConfiguration": "reportingConfiguration"}),
    "reportingConfiguration": ((), (), {"level": LEVELS}),
    "multiformatMessageString": ((), ("text",), {"text": str}),
    "message": (("text", "id"), (), {"text": str}),
    "invocation": ((), ("executionSuccessful",),
                   {"executionSuccessful": bool,
                    "toolExecutionNotifications": Array("notification")}),
    "notification": ((), ("message",),
                     {"message": "message", "level": LEVELS,
                      "locations": Array("location", unique=True)}),
    "result": ((), ("message",),
               {"ruleId": str, "ruleIndex": AtLeast(-1), "level": LEVELS, "message": "message",
                "locations": Array("location"), "relatedLocations": Array("location", unique=True),
                "codeFlows": Array("codeFlow"), "partialFingerprints": "strings"}),
    "codeFlow": ((), ("threadFlows",), {"threadFlows": Array("threadFlow")}),
    "threadFlow": ((), ("locations",), {"locations": Array("threadFlowLocation")}),
    "threadFlowLocation": ((), (), {"location": "location"}),
    "location": ((), (), {"physicalLocation": "physicalLocation", "message": "message",
                          "logicalLocations": Array("logicalLocation", unique=True)}),
    "logicalLocation": ((), (), {"fullyQualifiedName": str, "kind": str}),
    "physicalLocation": (("address", "artifactLocation"), (),
                         {"artifactLocation": "artifactLocation", "region": "region"}),
    "artifactLocation": ((), (), {"uri": URI_REFERENCE}),
    "region": (("startLine", "charOffset", "byteOffset"), (),
               {"startLine": AtLeast(1), "startColumn": AtLeast(1), "endLine": AtLeast(1),
                "endColumn": AtLeast(1)}),
}


def is_of(value, wanted):
    """Whether a value that has no parts is what a property asks for."""
    if isinstance(wanted, AtLeast):
        return type(value) is int and value >= wanted
    if isinstance(wanted, set):
        return isinstance(value, str) and value in wanted
    if isinstance(wanted, re.Pattern):
        return isinstance(value, str) and wanted.fullmatch(value) is not None
    return type(value) is wanted


def faults_of_object(value, definition, path):
    if not isinstance(value, dict):
        return [f"{path}: no object"]
    if definition == "strings":
        return [f"{path}/{key}: no string" for key, each in value.items() if type(each) is not str]
    some, needed, properties = DEFINITIONS[definition]
    found = [f"{path}: no {key}" for key in needed if key not in value]
    if some and not set(some) & set(value):
        found.append(f"{path}: none of {', '.join(some)}")
    for key, each in value.items():
        if key in properties:
            found += faults(each, properties[key], f"{path}/{key}")
        else:
            found.append(f"{path}/{key}: not of {definition}")
    return found


def faults(value, wanted="log", path=""):
    """Where a value is not what is wanted of it, each with its path; none of a valid log."""
    if isinstance(wanted, str):
        return faults_of_object(value, wanted, path)
    if not isinstance(wanted, Array):
        return [] if is_of(value, wanted) else [f"{path}: {value!r}"]
    if not isinstance(value, list):
        return [f"{path}: no array"]
    found = [fault for index, each in enumerate(value)
             for fault in faults(each, wanted.of, f"{path}/{index}")]
    texts = [json.dumps(each, sort_keys=True) for each in value]
    if wanted.unique and len(set(texts)) < len(texts):
        found.append(f"{path}: twice the same")
    return found


def broken(value, wanted="log"):
    """Copies of a valid value, each with one fault, at every place and of every kind."""
    if isinstance(wanted, Array):
        yield {}
        if wanted.unique and value:
            yield [*value, value[0]]
        for index, each in enumerate(value):
            for wrong in broken(each, wanted.of):
                yield [*value[:index], wrong, *value[index + 1:]]
        return
    if not isinstance(wanted, str):
        yield None
        yield 1.5
        if isinstance(wanted, AtLeast):
            yield wanted - 1
        elif isinstance(wanted, (set, re.Pattern)):
            yield value + " "
        return
    yield []
    if wanted == "strings":
        yield from ({**value, key: 1} for key in value)
        return
    some, needed, properties = DEFINITIONS[wanted]
    yield {**value, "unknown": 1}
    yield from ({other: each for other, each in value.items() if other != key} for key in needed)
    if some:
        yield {key: each for key, each in value.items() if key not in some}
    for key, each in value.items():
        yield from ({**value, key: wrong} for wrong in broken(each, properties[key]))

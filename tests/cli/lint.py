"""What `lint` wrote about window.json (hangs), spt.csv (wrong), local.json (sound) and missing.json:
as JSON, JUnit and SARIF, held against each other and against what their schemas ask for.

    tests/cli/lint.py lint.json lint.xml lint.sarif cycle.json cycle.sarif

The last two are of a file that hangs in a cycle of waits.
"""

import json
import pathlib
import sys
import xml.etree.ElementTree as xml

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import sarif as sarif_schema

with open(sys.argv[1]) as file:
    lint = json.load(file)
suites = xml.parse(sys.argv[2]).getroot()
with open(sys.argv[3]) as file:
    sarif = json.load(file)

assert lint["schema"] == "stagger.lint/1"
verdicts = {each["file"]: each["verdict"] for each in lint["files"]}
assert verdicts == {"window.json": "deadlock", "spt.csv": "invalid", "local.json": "ok"}, verdicts
assert [each["kind"] for each in lint["files"]] == ["tickets", "lock-values", "tickets"]
(unreadable,) = lint["unreadable"]
assert unreadable["file"] == "missing.json" and "cannot open" in unreadable["why"], unreadable
found = [(each["file"], finding) for each in lint["files"] for finding in each["findings"]]
for _, finding in found:
    assert set(finding) == {"rule", "level", "message", "at"}
    assert set(finding["at"]) == {"pointer", "line", "column"}
first = found[0][1]
assert (first["rule"], first["level"]) == ("STG002", "error")
assert first["at"] == {"pointer": "/programs/1/1", "line": 4, "column": 20}

# JUnit: attributes as Jenkins' schema has them; failures are the errors, by rule.
assert suites.tag == "testsuites" and set(suites.attrib) <= {"name", "time", "tests", "failures", "errors"}
for suite in suites:
    assert suite.tag == "testsuite" and {"name", "tests", "failures", "errors"} <= set(suite.attrib)
    cases = suite.findall("testcase")
    assert len(cases) == int(suite.get("tests")) and all(case.get("name") for case in cases)
    assert len(suite.findall("testcase/failure")) == int(suite.get("failures"))
    assert len(suite.findall("testcase/error")) == int(suite.get("errors"))
    skipped = suite.findall("testcase/skipped")
    assert len(skipped) == int(suite.get("skipped")) and all(each.get("message") for each in skipped)
    rules = [case.get("name")[:6] for case in cases if case.get("name") != "readable"]
    assert rules == [rule["id"] for rule in sarif["runs"][0]["tool"]["driver"]["rules"]]
    unread = suite.get("name") == "missing.json"
    assert {case.get("name")[:6] for case in cases if case.find("skipped") is not None} == (
        set(rules) if unread else {"STG015"}), suite.get("name")
    failed = {case.get("name")[:6] for case in cases if case.find("failure") is not None}
    assert failed == {finding["rule"] for file, finding in found if file == suite.get("name")}
assert sum(int(suite.get("tests")) for suite in suites) == int(suites.get("tests")) == 4 * 17 + 1
assert int(suites.get("failures")) == 2 and int(suites.get("errors")) == 1

VALUES = {("window.json", "/programs/1/1"): "[1,1,1,1,0,1,1]", ("spt.csv", "/programs/1/0"): "1"}


def value_at(file, region):
    """What a region has, on one line."""
    line = pathlib.Path(file).read_text(encoding="utf-8").splitlines()[region["startLine"] - 1]
    return line[region["startColumn"] - 1:region["endColumn"] - 1]


# SARIF: what its schema and GitHub require.
assert not sarif_schema.faults(sarif), sarif_schema.faults(sarif)
wrongs = list(sarif_schema.broken(sarif))
assert len(wrongs) > 300 and all(map(sarif_schema.faults, wrongs))
assert sarif["version"] == "2.1.0" and sarif["$schema"].endswith("sarif-schema-2.1.0.json")
(run,) = sarif["runs"]
driver = run["tool"]["driver"]
assert driver["name"] == "stagger" and len(driver["rules"]) == 17
assert not run["invocations"][0]["executionSuccessful"]
for (file, finding), result in zip(found, run["results"], strict=True):
    assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == finding["rule"]
    assert result["level"] == finding["level"] in ("error", "warning", "note")
    assert result["message"]["text"] == finding["message"]
    (location,) = result["locations"]
    physical = location["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == file
    assert physical["region"]["startLine"] == finding["at"]["line"] >= 1
    assert physical["region"]["startColumn"] == finding["at"]["column"] >= 1
    assert value_at(file, physical["region"]) == VALUES[file, finding["at"]["pointer"]]
    assert location["logicalLocations"][0]["fullyQualifiedName"] == finding["at"]["pointer"]
    assert result["partialFingerprints"]["staggerFinding/v1"]
prints = [each["partialFingerprints"]["staggerFinding/v1"] for each in json.loads(
    pathlib.Path(sys.argv[6]).read_text(encoding="utf-8"))["runs"][0]["results"]]
assert len(prints) == len(set(prints)) == 3, prints

# A cycle is the path of the first error: each wait with its place, in the words of the report.
with open(sys.argv[4]) as file:
    (hung,) = json.load(file)["files"]
with open(sys.argv[5]) as file:
    cycle_sarif = json.load(file)
assert not sarif_schema.faults(cycle_sarif), sarif_schema.faults(cycle_sarif)
flows = [each["codeFlows"] for each in cycle_sarif["runs"][0]["results"] if "codeFlows" in each]
(((flow,),),) = [[each["threadFlows"] for each in flow] for flow in flows]
waits = [each["location"] for each in flow["locations"]]
assert [each["message"]["text"] for each in waits] == hung["hang"]["cycle"] and len(waits) > 1
assert len({each["logicalLocations"][0]["fullyQualifiedName"] for each in waits}) == len(waits)
assert not any("codeFlows" in each for each in sarif["runs"][0]["results"])

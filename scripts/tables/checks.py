"""What scripts/test-gpu ran."""


def is_as_wanted(command):
    wanted = command["wanted"]
    return command["got"] in (wanted if isinstance(wanted, list) else [wanted])


def outcome(step):
    """What a step's commands say; of a run its verdict alone."""
    if "skipped" in step:
        return step["skipped"]
    if not step["complete"]:
        return "broken off"
    says = []
    for command in step["commands"]:
        for line in command.get("says", []):
            if line.startswith("verdict"):
                line = line.split()[1].rstrip(":")
            if line.startswith("ok  "):  # of one of many checks, and what it found
                line = "ok"
            if not line.startswith("findings"):
                says.append(line.replace("|", ","))
    return "; ".join(f"{says.count(line)} × {line}" if says.count(line) > 1 else line
                     for line in dict.fromkeys(says))


def checks_table(data):
    device = data["device"]
    lines = [f"{device['name']}, driver {device['driver']}, CUDA {data['cuda']}, {data['os']}, "
             f"{data['libc']}; {data['date']}.", "",
             "| step | what | date | commands | as wanted | s | outcome |",
             "|---|---|---|--:|--:|--:|---|"]
    for step in data["steps"]:
        right = sum(map(is_as_wanted, step["commands"]))
        lines.append(f"| `{step['name']}` | {step['what']} | {step['date']} | {len(step['commands'])} | {right} | "
                     f"{step['seconds']:.0f} | {outcome(step)} |")
    return "\n".join(lines) + "\n"

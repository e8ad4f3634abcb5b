"""Machine profiles: what a kernel's phases take on a device, by which "auto" chooses.

The library has an H200's and an H100's; other GPUs are ranked by the first, with a warning. `python -m stagger
calibrate` measures this machine's and keeps it in ~/.config/stagger/machines (or XDG_CONFIG_HOME's),
named like the device; from then on plans for that device go by it. Other times may be another choice,
and then other bits: a lock file keeps the old one.
"""

import json
import os
import pathlib
import re
import tempfile

from . import _lib, once
from .analysis import call

#: The devices whose profiles the library has, and their names there.
BUILTIN = {"NVIDIA H200": "h200", "NVIDIA H100 80GB HBM3": "h100"}
#: Tiles of the kernel: (head_dim, tile_q), each with tile_kv 128.
SHAPES = [(dim, tile_q) for dim in (64, 128) for tile_q in (64, 80, 128)]
TILE_KV = 128


def folder():
    base = os.environ.get("XDG_CONFIG_HOME") or pathlib.Path.home() / ".config"
    return pathlib.Path(base) / "stagger" / "machines"


def path_of(device):
    """Where the profile of a device is, by its name as the driver has it."""
    return folder() / (re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") + ".json")


def profile_of(device):
    """A device's own profile, as a plan takes it; None if it was not calibrated."""
    path = path_of(device)
    return f"@{path}" if path.exists() else None


def ranking_profile(device):
    """A device's own profile, or the library's of such a device; None for the first of the
    library's, with a warning."""
    found = profile_of(device) or BUILTIN.get(device)
    if found is None:
        once.warn(f"plans for {device} are ranked by an {next(iter(BUILTIN))}'s times: `python -m "
                  "stagger calibrate` measures its own, by which \"auto\" may choose other tables, "
                  "whose bits are others")
    return found


def calibrate(path=None, dtype="bf16", shapes=None, memory=True, say=print):
    """Measures the phases of every shape of the kernel on the current GPU, and its memory, into a
    profile; into the one that plans go by if no path is given. Returns where it is. Raises NoDevice
    without a GPU."""
    _lib.expect_gpu()
    with tempfile.TemporaryDirectory() as made:
        profile = pathlib.Path(made) / "machine.json"
        kernel = {"device": "cuda", "kernel": "hopper", "dtype": dtype, "output": str(profile)}
        for dim, tile_q in SHAPES if shapes is None else shapes:
            call("calibrate", {**kernel, "head-dim": dim, "tile-q": tile_q, "tile-kv": TILE_KV})
            say(f"head_dim {dim}, tiles {tile_q} x {TILE_KV}")
        if memory:
            call("calibrate", {**kernel, "memory": True})
            say("L2 and device memory")
        text = profile.read_text(encoding="utf-8")
    path = path_of(json.loads(text)["device"]) if path is None else pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path

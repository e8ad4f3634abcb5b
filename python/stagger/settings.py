"""What the environment says, beside STAGGER_LIBRARY (_lib) and STAGGER_LOCK (locks).

STAGGER_TIMEOUT_MS                  the longest wait for a turn of calls that say none, in ms; a minute
                                    if it is not there
STAGGER_MPS_OK=1                    a grid whose CTAs must all be there may start under MPS with a
                                    part of the SMs, if they fit into that part
NCCL_MAX_CTAS, NCCL_MAX_NCHANNELS   how many SMs NCCL's kernels hold at most, which are left to them
                                    where a grid's CTAs must all be there; 16 if neither is there
NVTE_ALLOW_NONDETERMINISTIC_ALGO=0  TransformerEngine's and transformers' words for: nothing but what
FLASH_ATTENTION_DETERMINISTIC=1     is deterministic. Here they forbid fallbacks that are not
"""

import os

from . import errors, plain

MOST_MS = 2**32 - 1
#: SMs that are left to NCCL's kernels, unless it says how many they hold at most.
NCCL_SMS = 16


def expect_wait(timeout_ms):
    """The longest wait of a call, an int; 0 stands for the default. Raises UsageError for what is none."""
    found = plain.index(timeout_ms)
    if found is None or not 0 <= found <= MOST_MS:
        raise errors.UsageError(f"timeout_ms is {timeout_ms!r}; it is milliseconds, 1 to {MOST_MS}, or "
                                "0 for the default: no wait is forever")
    return found


def longest_wait(timeout_ms=0):
    """The longest wait of a call in ms: its own, or STAGGER_TIMEOUT_MS, or 0 for the library's minute.
    Raises UsageError for what is none."""
    timeout_ms = expect_wait(timeout_ms)
    word = "" if timeout_ms else os.environ.get("STAGGER_TIMEOUT_MS", "")
    if not word:
        return timeout_ms
    if not (word.isascii() and word.isdigit() and 0 < int(word) <= MOST_MS):
        raise errors.UsageError(f"STAGGER_TIMEOUT_MS is {word!r}; it is milliseconds, 1 to {MOST_MS}")
    return int(word)


def strictness():
    """Which variable forbids what is not deterministic; "" if none does."""
    for name, value in (("NVTE_ALLOW_NONDETERMINISTIC_ALGO", "0"),
                        ("FLASH_ATTENTION_DETERMINISTIC", "1")):
        if os.environ.get(name) == value:
            return f"{name}={value}"
    return ""


def nccl_sms():
    """SMs that NCCL's kernels hold at most."""
    words = [os.environ.get(name, "") for name in ("NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS")]
    return max((int(word) for word in words if word.isascii() and word.isdigit()), default=NCCL_SMS)


def mps_percentage():
    """The part of the SMs that MPS leaves to this process, in per cent; 100 without MPS."""
    word = os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "")
    try:
        return min(max(float(word), 0.0), 100.0) if word else 100.0
    except ValueError:
        return 100.0


def mps_refusal(ctas, sms):
    """Why a grid of so many CTAs, all of which must be there, is not started on a device of so many
    SMs; "" if it is."""
    part = mps_percentage()
    if part >= 100:
        return ""
    there = int(sms * part / 100)
    if os.environ.get("STAGGER_MPS_OK") != "1":
        return (f"MPS leaves {part:g} % of the SMs to this process, where a grid of {ctas} CTAs that "
                "must all be there may never start: take a schedule that needs one CTA (spt), which "
                "starts as there is room, or say STAGGER_MPS_OK=1 if they fit")
    if ctas > there:
        return (f"{ctas} CTAs must all be there, and MPS leaves {there} of {sms} SMs to this process: "
                f"take sm_margin={sms - there}, or a schedule that needs one CTA (spt)")
    return ""

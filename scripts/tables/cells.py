"""Cells that several tables have."""


def beside(ms, error):
    """Measured ms, and how far what was predicted is off."""
    return f"{ms:.2f} ({100 * error:+.1f} %)"

"""The version, of the library that belongs to this package too."""

__version__ = "0.1.0"

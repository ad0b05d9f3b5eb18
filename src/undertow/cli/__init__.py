"""The command line."""

from undertow.cli.app import app
from undertow.cli.entry import main

__all__ = ["app", "main"]

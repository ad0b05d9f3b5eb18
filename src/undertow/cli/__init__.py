"""The command line."""

from undertow.cli.app import app
from undertow.cli.command import main

__all__ = ["app", "main"]

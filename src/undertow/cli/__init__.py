"""The command line."""

from undertow.cli.app import app, main

__all__ = ["app", "main"]

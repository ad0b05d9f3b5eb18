"""The entry point: a command is called, and what goes wrong becomes one sentence and an exit code."""

from __future__ import annotations

import atexit
import gc
import io
import sys
from collections.abc import Sequence

from cyclopts import CycloptsError
from rich.console import Console

from undertow.cli.app import app
from undertow.core.errors import ConfigError, UndertowError

__all__ = ["call", "main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: run a command and exit with its code."""
    atexit.register(gc.freeze)  # else the interpreter looks through all modules once more, for half a second
    sys.exit(call(sys.argv[1:] if arguments is None else list(arguments)))


def call(arguments: list[str]) -> int:
    """Run a command, and return its exit code; what goes wrong is said in a sentence."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that is no text is still printed
            stream.reconfigure(errors="backslashreplace")
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        code = app(arguments, exit_on_error=False, print_error=True, result_action="return_value")
    except CycloptsError:
        return 2
    except KeyboardInterrupt:
        errors.print("stopped.")
        return 130
    except BrokenPipeError:  # the reader of our output has had enough
        sys.stderr.close()
        return 0
    except (UndertowError, MemoryError, OSError) as error:
        errors.print(_sentence(error), style="red", markup=False)
        return 2 if isinstance(error, ConfigError) else 1
    return code if isinstance(code, int) else 0


def _sentence(error: UndertowError | MemoryError | OSError) -> str:
    if isinstance(error, UndertowError):
        return str(error)
    if isinstance(error, MemoryError):
        about = f" ({error})" if str(error) else ""
        return (
            f"The memory is used up{about}: take less data or smaller networks, close what else is running, or use "
            "a machine with more of it."
        )
    names = ", ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
    return f"The system refuses {names or 'something'}: {error.strerror or error}."

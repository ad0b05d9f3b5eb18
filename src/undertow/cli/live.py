"""``undertow live``: say where the page is, then serve it until Ctrl-C."""

from __future__ import annotations

import importlib
import webbrowser
from pathlib import Path

from rich.console import Console

from undertow.core.errors import ConfigError

__all__ = ["serve_page"]


def serve_page(runs: Path, *, host: str, port: int, token: str | None, open_browser: bool) -> int:
    """Serve the live page of a folder; 0 when it was ended by a signal."""
    try:
        importlib.import_module("uvicorn")
        importlib.import_module("starlette")
    except ImportError:
        raise ConfigError(
            "the live page needs starlette and uvicorn: `pip install starlette uvicorn`."
        ) from None
    from undertow.live.server import Address, serve  # only now it is known that this can be imported

    if token is not None and not token.strip():
        raise ConfigError("--token is empty: give one that is hard to guess, or leave the option out.")
    console = Console(highlight=False, soft_wrap=True)

    def ready(address: Address) -> None:
        # The address alone on its line, unstyled: it is copied, and read by scripts.
        console.print(f"Following {runs} at", markup=False)
        console.print(address.url, markup=False)
        if address.token is not None:
            console.print("Whoever has this address can see the page. Do not pass it on.", style="yellow")
        console.print("Ctrl-C ends it; the runs are not touched.", style="dim")
        if open_browser:
            webbrowser.open(address.url)

    serve(runs, host=host, port=port, token=token, ready=ready)
    return 0

"""How long the server waits: a connection that sends no whole request, or does not take its answer, is given up.

Without that, a few dozen half-sent requests would fill the places that there are, and nobody else would be answered.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["MOST_WAITING", "PatientProtocol"]

MOST_WAITING = 32
_PATIENCE = 5.0  # seconds for the head of a request, however it trickles in
_READER_PATIENCE = 30.0  # seconds in which a reader takes nothing of what was sent


class PatientProtocol(H11Protocol):
    """One connection to the server; those that have not yet sent a whole request wait in a line of their own.

    When the line is full, whoever has waited longest is cut off for the newcomer: so that one who sends a whole request
    always gets in, however many others do not.
    """

    _waiting: ClassVar[dict[PatientProtocol, None]] = {}
    _deadline: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Somebody is there."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """They have gone."""
        self._serve()
        self.resume_writing()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Something has come; once it is a whole request, nothing is waited for."""
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._serve()

    def on_response_complete(self) -> None:
        """Answered: what comes next on this connection must come in time, too."""
        if not self.transport.is_closing():
            self._wait()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The reader does not keep up."""
        super().pause_writing()
        if self._stuck is None:
            self._stuck = self.loop.call_later(_READER_PATIENCE, self.transport.abort)

    def resume_writing(self) -> None:
        """It does again."""
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
        super().resume_writing()

    def _wait(self) -> None:
        self._serve()
        self._waiting[self] = None
        self._deadline = self.loop.call_later(_PATIENCE, self.transport.abort)
        if len(self._waiting) > MOST_WAITING:
            next(iter(self._waiting)).transport.abort()

    def _serve(self) -> None:
        self._waiting.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

"""Ctrl-C and SIGTERM, heard between two steps."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def collected() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM instead of obeying; the second one is obeyed. Main thread only."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before: dict[int, Any] = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    before = {n: handler for n, handler in before.items() if handler is not signal.SIG_IGN}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, frame: object) -> None:
        received.append(number)
        restore()

    for number in before:
        signal.signal(number, note)
    try:
        yield received
    finally:
        restore()

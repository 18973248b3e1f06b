# SPDX-License-Identifier: Apache-2.0
"""A begin_step that lets other tasks of an asyncio event loop run. The thread of the loop makes all calls, so a session
may have several streams in several tasks."""
from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from ..errors import TimedOut
from .stream import StepStatus

if TYPE_CHECKING:
    from .in_stream import InStream

LINK_SECONDS = 0.01  # length of a call that can link: two sides are linked while both are in such a call
QUICK_SECONDS = 0.001  # how long to poll at every turn of the loop before pausing between polls
LONGEST_PAUSE = 0.005


async def begin_step(stream: InStream) -> StepStatus:
    """Like InStream.begin_step, but other tasks run while it waits. Until the stream is linked, the time that they take
    does not count towards the session's timeout."""
    start, waited, pause = time.monotonic(), 0.0, 0.0
    while True:
        status = stream.begin_step(0 if stream._is_linked else LINK_SECONDS)
        if status is not StepStatus.NOT_READY:
            return status
        if stream._is_linked:
            waited, most = time.monotonic() - start, stream._most()
        else:  # the calls are collective: all ranks count the same ones and so stop after the same one
            waited, most = waited + LINK_SECONDS + pause, stream.session._timeout
        if waited >= most:
            if not stream._is_linked:
                raise TimedOut(stream._timeout_text(most))
            raise TimedOut(
                f"stream '{stream.name}': waited {waited:.3g} s for {stream._side}; step_timeout sets the limit"
            )
        if waited > QUICK_SECONDS:
            pause = min(LONGEST_PAUSE, pause + 0.0002)
        await asyncio.sleep(pause)

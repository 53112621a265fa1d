"""Time that passes when somebody sleeps, in the order of the deadlines, without waiting."""

import asyncio
import heapq
import itertools

from brtheory.emulator.driver import WallClock


class VirtualTime:
    """A clock for code that only waits by sleeping on it.

    When nothing else can run, the earliest sleeper wakes up and the clock stands at its deadline.
    ``late_s`` is what every sleep takes longer than asked.
    """

    def __init__(self, now_s=100.0, *, late_s=0.0):
        self.now_s = now_s
        self.late_s = late_s
        self._sleepers = []
        self._number = itertools.count()

    def clock(self):
        return WallClock(lambda: self.now_s, self.sleep, lambda: self.now_s)

    async def sleep(self, seconds):
        wake = asyncio.get_running_loop().create_future()
        deadline = self.now_s + seconds + self.late_s
        heapq.heappush(self._sleepers, (deadline, next(self._number), wake))
        await wake

    async def pass_by(self):
        """Let time pass, for ever."""
        while True:
            await self.settle()
            while self._sleepers and self._sleepers[0][2].done():
                heapq.heappop(self._sleepers)
            if self._sleepers:
                deadline, _, wake = heapq.heappop(self._sleepers)
                self.now_s = max(self.now_s, deadline)
                wake.set_result(None)

    @staticmethod
    async def settle():
        """Let everything that can run now run: a chain of at most 20 callbacks."""
        for _ in range(20):
            await asyncio.sleep(0)

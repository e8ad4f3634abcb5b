"""CUDA's clock for the protocol, and the clock rate of the GPU while it runs."""

import statistics
import subprocess
import threading
import time

#: Cycles of a millisecond of rest at the highest rate of a Hopper GPU (1.98 GHz).
CYCLES_A_MS = 1_980_000


class Rates:
    """Clock rates, power and temperature, by nvidia-smi in a child process, every 50 ms."""

    QUERY = "clocks.sm,power.draw,temperature.gpu"

    def __init__(self, index=0):
        self._samples, self._child = [], None
        try:
            self._child = subprocess.Popen(
                ["nvidia-smi", f"--id={index}", f"--query-gpu={self.QUERY}",
                 "--format=csv,noheader,nounits", "-lms", "50"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            return  # no rates, which is said by None
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._child.stdout:
            self.add(time.perf_counter(), line)

    def add(self, now, line):
        """Takes a line of nvidia-smi's; one that is no numbers is left out."""
        try:
            self._samples.append((now, *(float(word) for word in line.split(","))))
        except ValueError:
            pass

    def mean_mhz(self, begin, end):
        """The mean clock rate between two times; None if there is no sample."""
        found = [sample[1] for sample in list(self._samples) if begin <= sample[0] <= end]
        return statistics.fmean(found) if found else None

    def summary(self):
        """The range of everything that was seen."""
        samples = list(self._samples)
        return {name: [min(column), max(column)] for name, column in
                zip(("clock_mhz", "power_w", "temperature_c"), list(zip(*samples))[1:])}

    def close(self):
        if self._child:
            self._child.terminate()
            self._child.wait()


class CudaClock:
    """Times by events on the current stream; rests by a kernel that counts cycles, behind which
    the next call is enqueued, so that no launch is waited for."""

    def __init__(self, rates):
        import torch
        self._torch, self._rates = torch, rates

    def now(self):
        return time.perf_counter()

    def settle(self):
        self._torch.cuda.synchronize()

    def rest(self, ms):
        self._torch.cuda._sleep(round(CYCLES_A_MS * ms))

    def pause(self, ms):
        self.settle()
        time.sleep(ms / 1e3)

    def stamp(self):
        """A place in the current stream."""
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between_ms(self, begin, end):
        return begin.elapsed_time(end)

    def timed(self, function):
        begin = self.stamp()
        before = time.perf_counter()
        function()
        host = time.perf_counter() - before
        return begin, self.stamp(), host

    def elapsed_ms(self, mark):
        return self.between_ms(mark[0], mark[1])

    def host_us(self, mark):
        return 1e6 * mark[2]

    def mean_mhz(self, begin, end):
        return self._rates.mean_mhz(begin, end)

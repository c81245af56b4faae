"""Where contenders run: how work is queued and timed there."""
import time

import torch


class Cuda:
    """The first GPU, in one stream of its own. Everything of a round is queued before any of it is waited for, behind a
    pause, so that no contender's time has in it what the host takes to submit."""

    kind, kiln = "cuda", "cuda:0"

    def __init__(self):
        self.torch = torch.device("cuda")
        self.stream = torch.cuda.Stream()
        torch.cuda.set_stream(self.stream)
        self.handle = self.stream.cuda_stream
        self.name = torch.cuda.get_device_name()

    def sync(self):
        torch.cuda.synchronize()

    def free(self):
        self.sync()
        torch.cuda.empty_cache()

    def play(self, functions, pause):
        """Milliseconds of each call. The first is preceded by `pause` microseconds of nothing."""
        torch.cuda._sleep(int(pause * 1800))
        marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in functions]
        for (start, end), function in zip(marks, functions):
            start.record()
            function()
            end.record()
        marks[-1][1].synchronize()
        return [start.elapsed_time(end) for start, end in marks]

    def graph(self, function, count):
        """A graph of `count` calls, as a function that replays it."""
        graph = torch.cuda.CUDAGraph()
        self.sync()
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            for _ in range(count):
                function()
        finally:
            graph.capture_end()
        return graph.replay


class Host:
    """The processor, for trying the benchmark where there is no GPU; its figures mean little."""

    kind, kiln = "cpu", "cpu"
    handle, name = 0, "the processor"

    def __init__(self):
        self.torch = torch.device("cpu")

    def sync(self):
        pass

    def free(self):
        pass

    def play(self, functions, pause):
        times = []
        for function in functions:
            start = time.perf_counter()
            function()
            times.append((time.perf_counter() - start) * 1e3)
        return times

    def graph(self, function, count):
        def replay():
            for _ in range(count):
                function()

        return replay


def play_rounds(device, contenders, orders, warmup=3, pause=400):
    """Samples of each contender, in milliseconds, round by round."""
    names = list(contenders)
    samples = {name: [] for name in names}
    for r, order in enumerate([orders[0]] * warmup + orders):
        times = device.play([contenders[names[i]] for i in order], pause)
        for i, ms in zip(order, times):
            if r >= warmup:
                samples[names[i]].append(ms)
    return samples

"""The devices of a stand-in for an array library: which is current, and the stream of each."""

import contextlib
import types


class Devices(types.SimpleNamespace):
    """`bind` is called with the number of a device that becomes current."""

    current, devices, streams, bind = 0, 2, (0, 0), staticmethod(lambda index: None)

    @contextlib.contextmanager
    def device(self, index):
        before, self.current = self.current, index
        self.bind(index)
        yield
        self.current = before
        self.bind(before)

"""Three models with Kiln's kernels: torch.nn.Hardsigmoid, torch.nn.Hardtanh and x + y.

The bits are torch's, except for Hardsigmoid on the cpu: Kiln always multiplies by 1/6, as torch does on a GPU, but
torch divides by 6 on the cpu."""

import torch

from kiln_torch import elementwise


class HardSigmoid(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.compute = elementwise("hardsigmoid")

    def forward(self, x):
        return self.compute(x)


class HardTanh(torch.nn.Module):
    def __init__(self, min_val=-1.0, max_val=1.0):
        super().__init__()
        self.compute = elementwise(f"hardtanh({float(min_val)},{float(max_val)})")

    def forward(self, x):
        return self.compute(x)


class Add(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.compute = elementwise("add(x,y)")

    def forward(self, x, y):
        return self.compute(x, y)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, y = torch.randn(2, 64, 1000, device=device)
    for ours, theirs, inputs in ((HardSigmoid(), torch.nn.Hardsigmoid(), (x,)),
                                 (HardTanh(-0.5, 2), torch.nn.Hardtanh(-0.5, 2), (x,)),
                                 (Add(), torch.add, (x, y))):
        got, want = ours(*inputs), theirs(*inputs)
        same = "equal to" if torch.equal(got, want) else f"within {(got - want).abs().max():.0e} of"
        print(f"{type(ours).__name__} on {device}: {same} torch")

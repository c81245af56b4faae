"""The module with PyTorch itself, on a GPU where there is one: results, gradients, transforms, training, torch.compile and export.

    KILN_LIBRARY=libkiln.so PYTHONPATH=tools/python python3 tests/python/real_torch.py

The command, which lists the ops, is `python3 -m kiln`, or the one that KILN names."""

import copy
import json
import os
import random
import subprocess
import sys

import torch
import torch.nn.functional as F

import kiln

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def must(truth, what):
    if not truth:
        raise SystemExit(f"wrong: {what}")


def refused(error, text, call, *arguments):
    try:
        call(*arguments)
    except error as found:
        must(text in str(found), f"{found} lacks {text}")
    else:
        must(False, f"a call is not refused: {text}")


def results():
    x, y = torch.randn(2, 20, 30, device=DEVICE)
    must(torch.equal(kiln.op("x + y")(x, y), x + y), "x + y")
    must(torch.equal(kiln.elementwise("hardtanh(-1,0.5)")(x), F.hardtanh(x, -1, 0.5)), "hardtanh")
    must(torch.equal(kiln.op("x + y")(x.t(), y.t()), (x + y).t()), "transposed")
    half = x.bfloat16()
    must(torch.allclose(kiln.op("softmax")(half).float(), torch.softmax(half, -1).float(), atol=4e-3), "softmax")
    must(kiln.op("sum(x)")(x.to(torch.int8)).dtype == torch.int64, "the type of a sum")
    must(torch.equal(kiln.op("copy")(torch._neg_view(x)), -x), "a negated view")
    apart = torch.frombuffer(bytearray(x.cpu().numpy().tobytes() + b"    "), dtype=torch.uint8)[:-4]
    for start in 0, 1:  # an aligned one, and one of the same shape between words
        moved = torch.empty(len(apart) + 4, dtype=torch.uint8)[start:start + len(apart)].copy_(apart).numpy().view("f4")
        must(torch.equal(kiln.op("x + 1")(torch.from_numpy(moved)), x.cpu().flatten() + 1), "elements between words")
    version = x._version
    must(kiln.op("relu6")(x, out=x) is x and x._version == version + 1, "in place")


GRADIENTS = [("gelu(x + y) * z", (3, 5), (5,), (3, 1)), ("layer_norm(x, y, z)", (3, 5), (5,), (5,)),
             ("rms_norm(x, y)", (3, 5), (5,)), ("sum(x * y)", (3, 5), (3, 5)), ("x > 0 ? x * x : exp(x)", (3, 5)),
             ("softmax(x) axis=0", (3, 5)), ("mean(x) axis=all", (3, 5)), ("cumsum(x) * x", (3, 5)),
             ("remainder(index, 5) <= quotient(index, 5) ? x * y : 0", (3, 5), (5,)),
             ("logsumexp(x)", (3, 5)), ("std(x)", (3, 5)), ("norm(x)", (3, 5)), ("x / sum(x * x)", (3, 5))]
UNARY = ("sigmoid", "tanh", "silu", "gelu", "softplus", "mish", "exp", "sin", "cos", "atan", "asinh", "erf", "abs", "relu")


def expression(made, depth):
    """An expression and torch's function of x, y, z that calculates it."""
    kind = made.randrange(6 if depth else 1)
    if kind == 0:
        k = made.randrange(3)
        return "xyz"[k], lambda *a: a[k]
    text, f = expression(made, depth - 1)
    if kind < 3:
        name = made.choice(UNARY)
        function = getattr(torch, name, None) or getattr(F, name)
        return f"{name}({text})", lambda *a: function(f(*a))
    other, g = expression(made, depth - 1)
    if kind == 3:
        return f"({text} + {other})", lambda *a: f(*a) + g(*a)
    if kind == 4:
        return f"({text} * {other})", lambda *a: f(*a) * g(*a)
    return f"({text} / (1 + {other} * {other}))", lambda *a: f(*a) / (1 + g(*a) * g(*a))


def gradients():
    for text, *shapes in GRADIENTS:
        given = [torch.randn(shape, dtype=torch.float64, device=DEVICE, requires_grad=True) for shape in shapes]
        must(torch.autograd.gradcheck(kiln.op(text), given), text)
        must(torch.autograd.gradgradcheck(kiln.op(text), given), text)
    made = random.Random(11)
    for _ in range(200):
        text, function = expression(made, 3)
        text, given = f"x + y + z + {text}", [torch.randn(9, dtype=torch.float64, device=DEVICE, requires_grad=True)
                                               for _ in range(3)]
        want, got = sum(given) + function(*given), kiln.op(text)(*given)
        must(torch.allclose(got, want, rtol=1e-9, atol=1e-9), text)
        weights = torch.randn_like(want)
        for a, b in zip(torch.autograd.grad(got, given, weights), torch.autograd.grad(want, given, weights)):
            must(torch.allclose(a, b, rtol=1e-8, atol=1e-8), f"the gradient of {text}")
    most, where = kiln.op("(max(x), argmax(x))")(torch.randn(3, 4, device=DEVICE, requires_grad=True))
    must(most.requires_grad and not where.requires_grad, "an index has no gradient")
    half = torch.randn(3, 4, dtype=torch.float16, device=DEVICE, requires_grad=True)
    kiln.op("x * ?rate + y")(half, torch.randn(4, device=DEVICE), rate=3).sum().backward()
    must(half.grad.dtype == torch.float16 and half.grad.eq(3).all(), "a gradient in the type of its input")
    with torch.no_grad():
        must(not kiln.op("relu6")(torch.nn.Parameter(half)).requires_grad, "no_grad")


def positions():
    """The index counts the elements of the result, however its inputs lie."""
    x = torch.arange(3 * 70 * 66, dtype=torch.float32, device=DEVICE).reshape(3, 70, 66)
    for given in x, x.transpose(1, 2), x[:, ::2], x.permute(2, 0, 1), x[:1, :, :1].expand(3, 70, 66):
        want = given + torch.arange(given.numel(), dtype=torch.float32, device=DEVICE).reshape(given.shape)
        must(torch.equal(kiln.op("x + index")(given), want), f"the index in strides of {given.stride()}")


def totals():
    """The mean of a loss over rows is PyTorch's, with its gradients and in torch.compile."""
    logits = torch.randn(40, 30, dtype=torch.float64, device=DEVICE, requires_grad=True)
    classes = torch.randint(0, 30, (40, 1), device=DEVICE)
    classes[::5] = -100
    for reduce in ("mean", "sum"):
        op = kiln.op(f"cross_entropy(x, t, label_smoothing=0.1) reduce={reduce}")
        want = F.cross_entropy(logits, classes[:, 0], reduction=reduce, label_smoothing=0.1)
        by_torch, = torch.autograd.grad(want, logits)
        for call in (op, torch.compile(op, fullgraph=True, backend="aot_eager")):
            loss = call(logits, classes)
            must(loss.shape == () and torch.allclose(loss, want, rtol=1e-12), f"the {reduce} of cross_entropy")
            must(torch.allclose(torch.autograd.grad(loss, logits)[0], by_torch, atol=1e-14), f"the gradient of {reduce}")
        must(kiln.op(f"cross_entropy(x, t) reduce={reduce} keep=1")(logits, classes).shape == (1, 1), "keep=1")
        must(torch.autograd.gradcheck(op, (logits, classes)), f"gradcheck of {reduce}")
        must(torch.equal(op(logits, classes[:, 0]), op(logits, classes)), "classes without the axis")
    must(torch.autograd.gradgradcheck(lambda x: kiln.op("cross_entropy(x, t)")(x, classes[:4, 0]), (logits[:4],)), "cross_entropy")
    must(torch.autograd.gradgradcheck(kiln.op("mse_loss(x, y) reduce=mean"), (logits[:4], logits[4:8])), "mse_loss")


def every_op():
    """gradcheck of each op that has a gradient, where all of them are defined."""
    command = [os.environ["KILN"]] if "KILN" in os.environ else [sys.executable, "-m", "kiln"]
    told = subprocess.run([*command, "ops", "--json"], stdout=subprocess.PIPE, check=True).stdout
    checked = 0
    for row in json.loads(told)["ops"]:
        name, (low, high) = row["name"], (1.1, 2.0) if row["name"] == "acosh" else (0.1, 0.9)
        if name.startswith("bitwise") or name == "lgamma":  # whole numbers; no derivative
            continue
        op = kiln.op(name)
        given = [torch.empty((3,) if column else (3, 4), dtype=torch.float64, device=DEVICE).uniform_(low, high).requires_grad_()
                 for column in op.columns]
        results = op(*given)
        if any(t.requires_grad for t in (results if isinstance(results, tuple) else (results,))):
            must(torch.autograd.gradcheck(op, given), name)
            checked += 1
    print(f"gradcheck of {checked} ops")
    must(checked > 100, "most ops have gradients")


class Network(torch.nn.Module):
    """Six modules around ops of torch, or of Kiln."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer, self.last = torch.nn.Linear(16, 32), torch.nn.Linear(32, 32), torch.nn.Linear(32, 10)
        self.norm, self.second = torch.nn.LayerNorm(32), torch.nn.RMSNorm(32, eps=1e-5)
        self.gate = torch.nn.Parameter(torch.ones(32))
        self.kiln = False

    def forward(self, x):
        if self.kiln:
            h = NORM(self.inner(x), self.norm.weight, self.norm.bias)
            h = RESIDUAL(h, ACTIVATION(self.outer(h), self.gate), self.second.weight)
            return LOG_SOFTMAX(self.last(h))
        h = self.norm(self.inner(x))
        h = self.second(h + F.gelu(self.outer(h)) * self.gate)
        return F.log_softmax(self.last(h), -1)


NORM, ACTIVATION = kiln.op("layer_norm(x, w, b)"), kiln.op("gelu(x) * gate")
RESIDUAL, LOG_SOFTMAX = kiln.op("rms_norm(x + r, w, eps=1e-5)"), kiln.op("log_softmax")


def train(network, inputs, classes, compiled=False):
    network = copy.deepcopy(network)
    call = torch.compile(network, fullgraph=True) if compiled else network
    optimizer, losses = torch.optim.SGD(network.parameters(), lr=0.1), []
    for _ in range(200):
        optimizer.zero_grad()
        loss = F.nll_loss(call(inputs), classes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def training():
    network = Network().to(DEVICE)
    inputs, classes = torch.randn(64, 16, device=DEVICE), torch.randint(0, 10, (64,), device=DEVICE)
    want = train(network, inputs, classes)
    network.kiln = True
    for compiled in (False, True):
        far = max(abs(a - b) for a, b in zip(want, train(network, inputs, classes, compiled)))
        print(f"200 steps{', compiled' if compiled else ''}: losses within {far:.1e} of torch's, from {want[0]:.3f} to {want[-1]:.3f}")
        must(far < 1e-5, "the losses")
    exported = torch.export.export(network, (inputs,))
    must(torch.allclose(exported.module()(inputs), network(inputs)), "torch.export")
    torch.library.opcheck(torch.ops.kiln.apply, ("x * y", [torch.randn(3, device=DEVICE, requires_grad=True),
                                                           torch.randn(3, device=DEVICE)], []))


def transforms():
    """torch.func: gradients, Jacobians and batches."""
    ours, theirs = kiln.op("gelu(x + y) * y"), lambda x, y: F.gelu(x + y) * y
    x, y = torch.randn(5, 7, device=DEVICE), torch.randn(7, device=DEVICE)
    for name, use in {
            "grad": lambda f: torch.func.grad(lambda t: f(t, y).sum())(x),
            "jacrev": lambda f: torch.func.jacrev(lambda t: f(t, y))(x),
            "vmap": lambda f: torch.vmap(f, in_dims=(0, None))(x, y),
            "vmap of another dimension": lambda f: torch.vmap(f, in_dims=(1, 0))(x, y),
            "gradients of each sample": lambda f: torch.vmap(torch.func.grad(lambda t: f(t, y).sum()))(x),
            "an argument without a gradient": lambda f: torch.func.grad(lambda w, t: (w * f(t, t)).sum())(x, x),
            "numbers": lambda f: torch.vmap(f)(x[0], y)}.items():
        must(torch.allclose(use(ours), use(theirs), atol=1e-5), name)
    softmax, norm = kiln.op("softmax"), kiln.op("layer_norm(x, w, b)")
    must(torch.allclose(torch.func.jacrev(softmax)(x[0]), torch.func.jacrev(lambda t: torch.softmax(t, -1))(x[0]), atol=1e-6),
         "jacrev of softmax")
    by_sample = [torch.vmap(torch.func.grad(lambda t, f=f: f(t).square().sum()))(x)
                 for f in (lambda t: norm(t, y, y), lambda t: F.layer_norm(t, t.shape, y, y))]
    must(torch.allclose(*by_sample, atol=1e-4), "gradients of each sample of layer_norm")
    must(torch.equal(torch.vmap(softmax)(y), torch.ones_like(y)), "softmax of numbers")
    must(torch.allclose(torch.vmap(kiln.op("sum(x) axis=-1 keep=1"))(x), x.sum(-1, keepdim=True), atol=1e-5), "an axis from the end")
    must(torch.allclose(torch.vmap(kiln.op("softmax"))(x), torch.softmax(x, -1), atol=1e-6), "vmap of softmax")
    kiln.define_op("ramp(x) = x * index")
    for text in "softmax axis=0", "softmax axis=-2", "softmax axis=(-2,-1)", "x * index", "ramp(x)":
        refused(RuntimeError, "counts dimensions", torch.vmap(kiln.op(text)), x)
    refused(RuntimeError, "counts dimensions", torch.func.jacrev(kiln.op("x * index")), y)
    square = kiln.op("x * x")
    leaf = torch.ones(3, device=DEVICE, requires_grad=True)
    refused(RuntimeError, "older vmap", lambda: torch.autograd.grad(square(leaf), leaf, torch.eye(3, device=DEVICE), is_grads_batched=True))
    square(y)  # whose later calls are made in C
    with torch.autograd.forward_ad.dual_level():
        refused(NotImplementedError, "jvp", square, torch.autograd.forward_ad.make_dual(y, y))
    refused(NotImplementedError, "jvp", torch.func.linearize, square, y)
    traced = torch.jit.trace(lambda t: square(t), y, check_trace=False)
    must(torch.equal(traced(y + 1), (y + 1) * (y + 1)), "torch.jit.trace")


def compiled():
    """torch.compile: no gradients, scalars, and one code for many lengths."""
    plain = torch.randn(6, 5, device=DEVICE)
    for backend in "eager", "inductor":
        torch._dynamo.reset()
        relu6 = torch.compile(kiln.op("relu6"), fullgraph=True, backend=backend)
        with torch.no_grad():
            for given in plain, torch.nn.Parameter(plain):
                must(torch.equal(relu6(given), F.relu6(plain)), f"relu6 without gradients, by {backend}")
    x = torch.randn(6, 5, device=DEVICE, requires_grad=True)
    scaled = torch.compile(kiln.op("x * ?rate + ?more"), fullgraph=True, backend="aot_eager")
    by_x, = torch.autograd.grad(scaled(x, rate=3.0, more=1.0).sum(), x)
    must(by_x.eq(3).all(), "the gradient of a scaled tensor, compiled")
    for text, function in {"softmax(x + y)": lambda x, y: torch.softmax(x + y, -1), "sum(x * y)": lambda x, y: (x * y).sum(-1),
                           "mean(x + y) axis=0 keep=1": lambda x, y: (x + y).mean(0, keepdim=True)}.items():
        torch._dynamo.reset()
        counter, op = torch._dynamo.testing.CompileCounterWithBackend("aot_eager"), kiln.op(text)
        call = torch.compile(lambda x, y: op(x, y) * 2, fullgraph=True, backend=counter, dynamic=True)
        for rows, columns in (6, 5), (7, 9), (20, 30), (11, 4):
            x, y = torch.randn(rows, columns, device=DEVICE, requires_grad=True), torch.randn(columns, device=DEVICE)
            must(torch.allclose(call(x, y), 2 * function(x, y), atol=1e-5), f"{text}, compiled")
            by_x = [torch.autograd.grad(f(x, y).square().sum(), x)[0] for f in (call, lambda x, y: 2 * function(x, y))]
            must(torch.allclose(*by_x, rtol=1e-4, atol=1e-4), f"the gradient of {text}, compiled")
        must(counter.frame_count == 1, f"{text} is compiled once for all lengths, not {counter.frame_count} times")


if __name__ == "__main__":
    torch.manual_seed(1)
    results()
    gradients()
    every_op()
    positions()
    totals()
    transforms()
    compiled()
    training()
    print("all of it is right")

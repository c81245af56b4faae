"""Tensors of PyTorch: their facts, gradients, and ops that torch.compile takes."""

import functools
import operator
import re

from ._arrays import Arrays
from ._blocks import dense_strides, find_outputs_with_axis, make_block
from ._gradients import gradients
from ._library import DTYPES, add_array_type


# Words that count dimensions, or elements of all, and those that do so from the last dimension on: a batch lies in front.
_COUNTS = re.compile(r"\b(axis|reduce)\b")
_FROM_THE_END = re.compile(r"\baxis\s*=\s*(?:-\d+|\(\s*-\d+(?:\s*,\s*-\d+)*\s*\))")


def _record_function(kind):
    """The function of autograd that calls an op and, backwards, its gradient. The graph of that can be made, too."""
    torch = kind.torch

    class Recorded(torch.autograd.Function):
        @staticmethod
        def forward(op, numbers, *inputs):
            return op.compute(kind, inputs, numbers)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.op, ctx.numbers, *tensors = inputs
            ctx.save_for_backward(*tensors)
            results = output if isinstance(output, tuple) else (output,)
            ctx.mark_non_differentiable(*(t for t in results if not t.is_floating_point()))

        @staticmethod
        def vmap(info, dims, op, numbers, *inputs):
            """The call on all members of a batch, along a dimension in front of those of the op."""
            given = [(t, None if d is None else t.movedim(d, 0)) for t, d in zip(inputs, dims[2:])]
            extents = max(t.dim() if batch is None else t.dim() - 1 for t, batch in given)
            most = max(extents, 1)  # a number is an axis of one element
            axes = [int(axis) for found in _FROM_THE_END.findall(op.text) for axis in re.findall(r"-\d+", found)]
            if op.counts or _COUNTS.search(_FROM_THE_END.sub("", op.text)) or min(axes, default=-1) < -most:
                raise RuntimeError(f"torch.vmap does not take {op}: it counts dimensions from the front, or elements")
            results = Recorded.apply(op, numbers, *(
                t if batch is None else batch.reshape(len(batch), *[1] * (most + 1 - batch.dim()), *batch.shape[1:])
                for t, batch in given))
            if extents == 0:
                results = tuple(t.reshape(-1) for t in results) if isinstance(results, tuple) else results.reshape(-1)
            return results, (0,) * len(results) if isinstance(results, tuple) else 0

        @staticmethod
        def backward(ctx, *grads):
            inputs = ctx.saved_tensors
            if any(t is not None and kind.is_batched(t) for t in grads):
                raise RuntimeError("is_grads_batched and vectorize take PyTorch's older vmap, which has no Kiln ops: use torch.func")
            wanted = [needed and t.is_floating_point() for needed, t in zip(ctx.needs_input_grad[2:], inputs)]
            bits = sum(1 << k for k, one in enumerate(wanted) if one)
            found = iter(gradients(ctx.op, kind, inputs, grads, ctx.numbers, bits))
            return None, None, *(next(found) if one else None for one in wanted)

    return Recorded


def _hint(extent):
    """The extent for which torch.compile compiles code that others may share."""
    hint = extent if isinstance(extent, int) else getattr(extent.node, "hint", None)
    return int(extent if hint is None else hint)


def _symbolic(shape, with_axis, extents):
    """The shape of a result in the extents of its inputs. The axis that is reduced has 1 in `with_axis`, or is left out."""
    found = [extent if _hint(extent) == one else one for extent, one in zip(extents, with_axis)]
    if len(shape) < len(with_axis):
        found = [extent for extent, one in zip(found, with_axis) if one != 1]
    return found if tuple(map(_hint, found)) == tuple(shape) else shape


def _register(kind):
    """Adds kiln::apply and kiln::gradient to torch.library, with the shapes of their results and with gradients."""
    from ._ops import op  # which imports this module
    torch = kind.torch

    def wanted_of(inputs, wanted):
        return [t for k, t in enumerate(inputs) if wanted >> k & 1]

    @torch.library.custom_op("kiln::apply", mutates_args=(),
                             schema="(str text, Tensor[] inputs, float[] scalars) -> Tensor[]")
    def apply(text, inputs, scalars):
        results = op(text).compute(kind, inputs, tuple(scalars))
        return list(results) if isinstance(results, tuple) else [results]

    @apply.register_fake
    def _(text, inputs, scalars):
        shapes = [tuple(map(_hint, t.shape)) for t in inputs]
        words, _keep = make_block([(kind.code_of(t), shape, dense_strides(shape), -1) for t, shape in zip(inputs, shapes)])
        extents = torch.broadcast_shapes(*(t.shape for t in inputs))
        outputs = find_outputs_with_axis(op(text).spec, words, len(inputs), len(extents))
        return [inputs[0].new_empty(_symbolic(shape, with_axis, extents), dtype=kind.dtypes[code])
                for code, shape, with_axis in outputs]

    @torch.library.custom_op("kiln::gradient", mutates_args=(),
                             schema="(str text, Tensor[] grads, Tensor[] inputs, float[] scalars, int wanted) -> Tensor[]")
    def gradient(text, grads, inputs, scalars, wanted):
        found = gradients(op(text), kind, inputs, grads, tuple(scalars), wanted)
        return [t.clone() if any(t is one for one in (*grads, *inputs)) else t.contiguous() for t in found]

    @gradient.register_fake
    def _(text, grads, inputs, scalars, wanted):
        return [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in wanted_of(inputs, wanted)]

    def set_up(ctx, inputs, output):
        ctx.text, tensors, ctx.scalars = inputs
        ctx.results = [(t.shape, t.dtype) for t in output]
        ctx.needed = [t.requires_grad and t.is_floating_point() for t in tensors]
        ctx.save_for_backward(*tensors)

    def backward(ctx, grads):
        inputs, needed = ctx.saved_tensors, ctx.needed
        grads = [inputs[0].new_zeros(shape, dtype=dtype) if g is None else g
                 for g, (shape, dtype) in zip(grads, ctx.results)]
        bits = sum(1 << k for k, one in enumerate(needed) if one)
        found = iter(torch.ops.kiln.gradient(ctx.text, grads, list(inputs), ctx.scalars, bits))
        return None, [next(found) if one else None for one in needed], None if ctx.scalars else []

    apply.register_autograd(backward, setup_context=set_up)


class Torch(Arrays):
    """Tensors of PyTorch, on the cpu and on CUDA, on torch's current stream."""

    def __init__(self):
        import torch
        super().__init__(torch.Tensor, {code: getattr(torch, name) for code, name in enumerate(DTYPES, 1)
                                        if hasattr(torch, name)})
        self.torch, self.pointer, self.forward_ad = torch, torch.Tensor.data_ptr, torch.autograd.forward_ad
        # The function that torch's compiled code calls: cheaper than current_stream(index).cuda_stream.
        self.raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
            lambda index: torch.cuda.current_stream(index).cuda_stream)
        self.several = torch.cuda.device_count() > 1
        # The functions with which torch's compiled code makes tensors, by whether on CUDA: in half the time of empty_like.
        guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
        self.empty = [getattr(guards, name, None) for name in ("_empty_strided_cpu", "_empty_strided_cuda")]
        self.current_device = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)
        self.types = (torch.Tensor, torch.nn.Parameter)
        # Of torch.jit.trace, and of the modes by which make_fx and others see ops.
        following = torch._C._is_tracing, getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
        self.in_c = all([add_array_type(tensor_type, "requires_grad", torch.is_grad_enabled, torch.Tensor.is_neg, following,
                                        self.forward_ad) for tensor_type in self.types])
        self.is_followed = lambda: any(f() for f in following)
        self.recorded = _record_function(self)
        functorch = getattr(torch._C, "_functorch", None)
        self.is_wrapped = getattr(functorch, "is_functorch_wrapped_tensor", lambda tensor: False)
        self.is_batched = getattr(functorch, "is_legacy_batchedtensor", lambda tensor: False)  # by the older vmap
        self.is_compiled = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)
        if hasattr(torch, "library") and hasattr(torch.library, "custom_op"):
            _register(self)

    def key(self, tensors):
        key = []
        for t in tensors:
            if not isinstance(t, self.type) or t.is_neg():
                return None
            key.append((t.dtype, t.shape, t.stride(), t.device))
        return tuple(key)

    def prepare(self, tensor):
        """The tensor, or a copy of a lazily negated view, whose memory holds other values."""
        return tensor.resolve_neg() if tensor.is_neg() else tensor

    def facts(self, tensor):
        code = self.codes.get(tensor.dtype)
        if code is None or tensor.layout != self.torch.strided or tensor.device.type not in ("cpu", "cuda"):
            raise TypeError(f"tensors of {tensor.dtype} ({tensor.layout}) on {tensor.device} are none of dense ones of "
                            f"{', '.join(DTYPES)} on cpu or cuda")
        return code, tuple(tensor.shape), tuple(tensor.stride()), tensor.get_device()

    def maker(self, code, shape, inputs):
        dtype, empty_like = self.dtypes[code], self.torch.empty_like
        empty = self.empty[inputs[0].is_cuda]
        if empty is not None and not (self.several and inputs[0].is_cuda):  # it takes the current device
            return empty, (shape, dense_strides(shape), dtype)
        for i, t in enumerate(inputs):
            if t.shape == shape and t.is_contiguous():  # cheaper than to say what is wanted
                return empty_like if t.dtype == dtype else functools.partial(empty_like, dtype=dtype), i
        return operator.methodcaller("new_empty", shape, dtype=dtype), 0

    def ones_like(self, tensor):
        return self.torch.ones_like(tensor)

    def fit(self, tensor, like):
        """Summed over the dimensions along which `like` was repeated, repeated along others, in its type."""
        shape = like.shape
        if tensor.shape != shape:
            extents = [1] * (tensor.dim() - len(shape)) + list(shape)
            along = [d for d, extent in enumerate(extents) if extent == 1 != tensor.shape[d]]
            tensor = tensor.sum(along, keepdim=True) if along else tensor
            tensor = tensor[(0,) * (tensor.dim() - len(shape))].expand(shape)
        return tensor.to(like.dtype)

    def has_duals(self):
        """Whether tensors may have forward derivatives, which Kiln's ops have not: recording says so."""
        return self.forward_ad._current_level >= 0

    def traces(self):
        """Whether PyTorch follows calls by their ops: torch.compile, torch.jit.trace, make_fx and the like."""
        return self.is_compiled() or (self.is_followed() and not self.has_duals())

    def trace(self, op, tensors, numbers, outs):
        """The call as an op of torch.library, which torch.compile and torch.export take as it is."""
        if outs is not None:
            raise RuntimeError("out= is not for code that torch.compile follows: take the result")
        results = self.torch.ops.kiln.apply(op.text, list(tensors), list(numbers))
        return results[0] if len(results) == 1 else tuple(results)

    def records(self, tensors):
        """Whether a call is recorded for gradients, or made within a transform of torch.func."""
        try:
            return (any([t.requires_grad for t in tensors]) and self.torch.is_grad_enabled() or
                    self.has_duals() or any(map(self.is_wrapped, tensors)))
        except (AttributeError, TypeError):  # an array of another library, which is refused later
            pass
        return False

    def record(self, op, tensors, numbers, outs):
        if outs is not None:
            raise RuntimeError("out= takes no part in gradients: call the op under torch.no_grad(), or without out")
        return self.recorded.apply(op, numbers, *tensors)

    def check_out(self, tensor):
        if tensor.requires_grad and self.torch.is_grad_enabled() or tensor.is_neg():
            raise ValueError("out has a gradient, or is a negated view")

    def written(self, tensor):
        if not tensor.is_inference():
            self.torch.autograd.graph.increment_version(tensor)  # as every in-place operation of torch does

    def is_contiguous(self, tensor):
        return tensor.is_contiguous() and tensor.data_ptr() % tensor.element_size() == 0

    def contiguous(self, tensor):
        return tensor if self.is_contiguous(tensor) else tensor.clone(memory_format=self.torch.contiguous_format)

    def stream(self, device):
        return None if device < 0 else self.raw_stream(device)

    def guard(self, device):
        """The default stream is that of the current device."""
        return functools.partial(self.torch.cuda.device, device) if self.several and device >= 0 else None

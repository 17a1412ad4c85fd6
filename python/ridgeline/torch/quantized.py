"""A matrix as 8-bit codes with scales, as one tensor."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch._utils import _rebuild_parameter
from torch.overrides import handle_torch_function, has_torch_function_unary

from .config import QuantConfig

_PARTS = ("q", "scale", "q_t", "scale_t")
_GROUPINGS = ("tensor", "row", "1x128", "128x128", "mx")
_aten = torch.ops.aten

Parts = tuple["torch.Tensor | None", "torch.Tensor | None", "torch.Tensor | None", "torch.Tensor | None"]


def _scale_of_checkpoint(codes: torch.Tensor, scale: torch.Tensor, grouping: str | None) -> tuple[torch.Tensor, str]:
    """Scales as a checkpoint stores them, in our shape and dtype, and the elements that share one."""
    rows, cols = codes.shape
    tiles, steps, narrow = -(-rows // 128), -(-cols // 128), -(-cols // 32)
    bytes_of_mx = scale.dtype in (torch.uint8, torch.float8_e8m0fnu)
    shapes: dict[str, list[tuple[int, ...]]] = {  # in this order: a scale of one element in two dimensions is that of one tile
        "mx": [(rows, narrow)] if bytes_of_mx else [],
        "128x128": [(tiles, steps)],
        "row": [(rows,), (rows, 1)],
        "tensor": [(), (1,), (1, 1)],
        "1x128": [(rows, steps)],
    }
    if grouping is None and scale.dim() < 2 and scale.numel() == 1:
        grouping = "tensor"
    fits = [name for name, known in shapes.items() if grouping in (None, name) and tuple(scale.shape) in known]
    if not fits:
        known = "; ".join(f"{name}: {' or '.join(map(str, shapes[name]))}" for name in shapes if shapes[name])
        raise ValueError(
            f"from_checkpoint: a scale of shape {tuple(scale.shape)} and dtype {scale.dtype} does not go with codes of shape "
            f"{tuple(codes.shape)}{f' and grouping {grouping!r}' if grouping else ''}; known are {known} (mx: in "
            "torch.float8_e8m0fnu or its bytes). Scales of other blocks have to be expanded to one of these"
        )
    if fits[0] == "mx":
        return (scale if scale.dtype != torch.uint8 else scale.view(torch.float8_e8m0fnu)).t().contiguous(), "mx"
    if scale.dtype == torch.uint8:
        scale = scale.view(torch.float8_e8m0fnu)
    scale = scale.to(torch.float32)
    return {"tensor": lambda: scale.reshape(1), "row": lambda: scale.reshape(rows), "1x128": lambda: scale.t()}.get(
        fits[0], lambda: scale
    )().contiguous(), fits[0]


def _across(codes: torch.Tensor, scale: torch.Tensor, grouping: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of the transpose of a matrix of which there are codes alone."""
    if grouping in ("tensor", "128x128"):
        turned = codes.view(torch.uint8).t().contiguous().view(codes.dtype)
        return turned, scale.clone() if grouping == "tensor" else scale.t().contiguous()
    whole = torch.ops.ridgeline.dequantize(codes.contiguous(), scale, grouping, torch.float32)
    made = torch.ops.ridgeline.quantize(whole, codes.dtype, grouping, "floor" if grouping == "mx" else "exact", False, True)
    return made[2], made[3]


class QuantizedTensor(torch.Tensor):
    """What ``quantize`` makes: ``q * scale`` stands for the matrix.

    ``q``, ``scale``      codes of the matrix, and scales along its columns (None: not made)
    ``q_t``, ``scale_t``  codes and scales of its transpose, rounded from the same high-precision values (None: not made)
    ``grouping``          elements that share a scale: "tensor", "row", "1x128", "128x128", "mx"

    Shape and dtype are the matrix's. It can be cloned, detached, moved, pickled, saved and loaded, and goes into
    ``gemm_fp8``, whose gradient it hands on to what was quantised; other arithmetic on it is refused, because what it would
    lose is for the caller to decide: ``dequantize()``, whose gradient goes the same way.
    """

    q: torch.Tensor | None
    scale: torch.Tensor | None
    q_t: torch.Tensor | None
    scale_t: torch.Tensor | None
    grouping: str

    __torch_function__: ClassVar[Any] = torch._C._disabled_torch_function_impl  # __torch_dispatch__ sees every call

    @staticmethod
    def __new__(
        cls,
        q: torch.Tensor | None,
        scale: torch.Tensor | None,
        q_t: torch.Tensor | None,
        scale_t: torch.Tensor | None,
        grouping: str,
        dtype: torch.dtype,
    ) -> QuantizedTensor:
        codes = q if q is not None else q_t
        if codes is None:
            raise ValueError("QuantizedTensor: give codes and scales of the matrix, of its transpose, or of both")
        if grouping not in _GROUPINGS:
            raise ValueError(f"QuantizedTensor: grouping={grouping!r} is unknown; use one of {', '.join(map(repr, _GROUPINGS))}")
        shape = codes.shape if q is not None else codes.mT.shape
        self = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=codes.device)
        self.q, self.scale, self.q_t, self.scale_t, self.grouping = q, scale, q_t, scale_t, grouping
        return self

    @staticmethod
    def from_checkpoint(
        codes: torch.Tensor,
        scale: torch.Tensor,
        dtype: torch.dtype = torch.bfloat16,
        *,
        grouping: str | None = None,
        transpose: bool = False,
    ) -> QuantizedTensor:
        """A weight [out, in] that a checkpoint stores as 8-bit codes and the scales that multiply them.

        codes      torch.float8_e4m3fn or torch.float8_e5m2
        scale      DeepSeek's ``weight_scale_inv`` [out/128, in/128]; compressed-tensors' ``weight_scale`` of a tensor [1], of
                   channels [out, 1], of groups of 128 [out, in/128], of blocks [out/128, in/128] (each rounded up), or of groups
                   of 32 in E8M0. Its shape says which; ``grouping`` does where two fit
        dtype      of the tensor that they stand for
        transpose  also codes of the transpose, which the gradient of the other factor is made of: with one scale, and with blocks of
                   128 x 128, the same codes; else rounded once from what the codes stand for, because scales run the other way
        """
        if codes.dtype not in (torch.float8_e4m3fn, torch.float8_e5m2) or codes.dim() != 2:
            raise ValueError(
                f"from_checkpoint: codes are {codes.dtype} of shape {tuple(codes.shape)}; give a matrix of torch.float8_e4m3fn or "
                "torch.float8_e5m2"
            )
        if grouping is not None and grouping not in _GROUPINGS:
            raise ValueError(f"from_checkpoint: grouping={grouping!r} is unknown; use one of {', '.join(map(repr, _GROUPINGS))}")
        ours, shared = _scale_of_checkpoint(codes, scale, grouping)
        made = QuantizedTensor(codes.contiguous(), ours, None, None, shared, dtype)
        if transpose:
            made.q_t, made.scale_t = _across(codes, ours, shared)
        return made

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """What the codes stand for, in ``dtype`` (default: this tensor's); a gradient of it is one of this tensor."""
        out = dtype or self.dtype
        if torch.is_grad_enabled() and self.requires_grad:
            made: torch.Tensor = _PassGradientBack.apply(self, out)  # type: ignore[no-untyped-call]
            return made
        return self._stood_for(out)

    def _stood_for(self, out: torch.dtype) -> torch.Tensor:
        q, scale, q_t, scale_t = self._parts()
        codes, scales = (q, scale) if q is not None else (q_t, scale_t)
        assert codes is not None and scales is not None
        of_one = torch.ops.ridgeline.dequantize
        if codes.dim() == 3:
            made: torch.Tensor = torch.stack([of_one(*one, self.grouping, out) for one in zip(codes, scales)])
        else:
            made = of_one(codes, scales, self.grouping, out)
        return made if q is not None else made.mT

    def share_memory_(self) -> QuantizedTensor:
        for part in self._parts():
            if part is not None:
                part.share_memory_()  # type: ignore[no-untyped-call]
        return self

    def is_shared(self) -> bool:
        return all(part is None or part.is_shared() for part in self._parts())  # type: ignore[no-untyped-call]

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        codes = self.q if self.q is not None else self.q_t
        assert codes is not None
        copies = " and its transpose" if self.q is not None and self.q_t is not None else ""
        return (
            f"QuantizedTensor({tuple(self.shape)}, {self.dtype}, codes {codes.dtype}{copies}, "
            f"grouping {self.grouping!r}, device {str(self.device)!r})"
        )

    def _part(self, name: str) -> torch.Tensor | None:
        part: torch.Tensor | None
        try:
            part = getattr(self, name)
        except RuntimeError:  # torch.export, which records how it is reached, knows no tensor that the trace made: its parts are known
            part = vars(self)[name]
        return part

    def _parts(self) -> Parts:
        return self._part("q"), self._part("scale"), self._part("q_t"), self._part("scale_t")

    def _map(self, function: Any, dtype: torch.dtype | None = None) -> QuantizedTensor:
        q, scale, q_t, scale_t = (None if part is None else function(part) for part in self._parts())
        return QuantizedTensor(q, scale, q_t, scale_t, self.grouping, dtype or self.dtype)

    def __tensor_flatten__(self) -> tuple[list[str], tuple[str, torch.dtype]]:
        return [name for name in _PARTS if getattr(self, name) is not None], (self.grouping, self.dtype)

    @staticmethod
    def __tensor_unflatten__(
        inner: dict[str, torch.Tensor], context: tuple[str, torch.dtype], outer_size: Any, outer_stride: Any
    ) -> QuantizedTensor:
        q, scale, q_t, scale_t = (inner.get(name) for name in _PARTS)
        return QuantizedTensor(q, scale, q_t, scale_t, *context)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        if getattr(self, "_is_param", False):
            return _rebuild_parameter, (self.detach(), self.requires_grad, OrderedDict())
        # Codes as bytes: pickle has no storage of 8-bit floats.
        parts = [None if part is None else (part.view(torch.uint8), part.dtype) for part in self._parts()]
        return _from_bytes, (parts, self.grouping, self.dtype, self.requires_grad)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (_aten.clone.default, _aten.detach.default, _aten.alias.default):
            return args[0]._map(lambda part: func(part))
        if func is _aten._to_copy.default:
            moved = {key: kwargs[key] for key in ("device", "non_blocking") if kwargs.get(key) is not None}
            return args[0]._map(lambda part: func(part, **moved), kwargs.get("dtype"))
        if func is _aten.as_strided.default and tuple(args[1]) == tuple(args[0].shape) and not (args[3:] and args[3]):
            if tuple(args[2]) == args[0].stride():  # as FSDP2 asks for
                return args[0]._map(_aten.alias.default)
        if func in (_aten.empty_like.default, _aten._pin_memory.default):
            options = {key: kwargs[key] for key in ("device",) if kwargs.get(key) is not None}
            return args[0]._map(lambda part: func(part, **options), kwargs.get("dtype"))
        if func is _aten.is_pinned.default:
            return all(part is None or part.is_pinned() for part in args[0]._parts())
        if func is _aten.copy_.default and all(isinstance(arg, cls) for arg in args[:2]):
            target, source = args[:2]
            kinds = [(each.grouping, [part if part is None else part.dtype for part in each._parts()]) for each in (target, source)]
            if kinds[0] != kinds[1]:
                raise ValueError(f"cannot copy {source} into {target}: make both with one config, weight and transpose")
            for ours, theirs in zip(target._parts(), source._parts()):
                if ours is not None:
                    ours.copy_(theirs)
            return target
        raise NotImplementedError(
            f"{func} of a QuantizedTensor: 8-bit codes have no arithmetic of their own; call .dequantize() first, or "
            "multiply with ridgeline.torch.gemm_fp8"
        )


def _from_bytes(
    parts: list[tuple[torch.Tensor, torch.dtype] | None], grouping: str, dtype: torch.dtype, requires_grad: bool = False
) -> QuantizedTensor:
    q, scale, q_t, scale_t = (None if part is None else part[0].view(part[1]) for part in parts)
    made = QuantizedTensor(q, scale, q_t, scale_t, grouping, dtype)
    made.requires_grad_(requires_grad)
    return made


class _PassGradient(torch.autograd.Function):
    """x -> a QuantizedTensor; the gradient of the one is that of the other (straight through the rounding)."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, make: Any) -> QuantizedTensor:
        ctx.set_materialize_grads(False)  # there is none where a product added it to main_grad
        made: QuantizedTensor = make(x)
        return made

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor | None) -> tuple[torch.Tensor | None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return grad, None


class _PassGradientBack(torch.autograd.Function):
    """A QuantizedTensor -> what it stands for; the counterpart of ``_PassGradient``."""

    @staticmethod
    def forward(ctx: Any, codes: QuantizedTensor, dtype: torch.dtype) -> torch.Tensor:
        return codes._stood_for(dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return grad, None  # autograd casts it to the codes' dtype


def cast(x: torch.Tensor, scaled: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """``scaled``, which was made of x, in an 8-bit format: clipped to its largest value, but infinities of x stay, or become NaN where
    the format has none. Not left to the cast: PyTorch's clips them in later versions than 2.11.
    """
    most = torch.finfo(dtype).max
    kept = scaled if dtype == torch.float8_e5m2 else torch.nan
    return torch.where(x.isinf(), kept, scaled.clamp(-most, most)).to(dtype)


def stack_parts(x: torch.Tensor, dtype: torch.dtype, grouping: str, rule: str, row: bool, column: bool) -> Parts:
    """As ``quantize`` of each matrix of a stack [groups, rows, cols], in one call where no scale is of two."""
    if grouping not in ("128x128", "row", "tensor"):
        raise ValueError(
            f"quantize: x has shape {tuple(x.shape)}, and scales by {grouping}; a stack of matrices has scales by 128x128 "
            "(granularity='blockwise', weight=True), by row or by tensor"
        )
    groups, rows, cols = x.shape
    call = torch.ops.ridgeline.quantize
    if grouping == "row":
        codes: list[torch.Tensor | None] = []
        for wanted, stack in ((row, x), (column, x.mT)):
            made = call(stack.reshape(-1, stack.shape[2]), dtype, grouping, rule, True, False)[:2] if wanted else None
            codes += (None, None) if made is None else (made[0].view(stack.shape), made[1].view(stack.shape[:2]))
        return codes[0], codes[1], codes[2], codes[3]
    if grouping == "tensor" or rows % 128 != 0 or not x.is_contiguous():
        each = [call(matrix.contiguous(), dtype, grouping, rule, row, column) for matrix in x]
        # As bytes: torch.autocast casts what is stacked, and knows no 8-bit floats.
        q, q_t = (torch.stack([one[place].view(torch.uint8) for one in each]).view(dtype) for place in (0, 2))
        scale, scale_t = (torch.stack([one[place] for one in each]) for place in (1, 3))
    else:
        q, scale, q_t, scale_t = call(x.view(groups * rows, cols), dtype, grouping, rule, row, column)
        if row:
            q, scale = q.view(groups, rows, cols), scale.view(groups, rows // 128, -1)
        if column:  # [cols, groups * rows], of which the matrices are views: products take any distance between rows
            q_t = q_t.view(cols, groups, rows).transpose(0, 1)
            scale_t = scale_t.view(-1, groups, rows // 128).transpose(0, 1).contiguous()
    return q if row else None, scale if row else None, q_t if column else None, scale_t if column else None


def parts_of(x: torch.Tensor, config: QuantConfig, weight: bool, transpose: bool, seed: torch.Tensor | None = None) -> Parts:
    """Codes and scales of x and, with ``transpose``, of its transpose."""
    if x.dim() == 3:
        return stack_parts(x, config.forward_dtype, config.grouping(weight), config.rule, True, transpose)
    random = config.random_words(x.device, seed)
    q, scale, q_t, scale_t = torch.ops.ridgeline.quantize(
        x, config.forward_dtype, config.grouping(weight), config.rule, True, transpose, random
    )
    return q, scale, q_t if transpose else None, scale_t if transpose else None


def quantize(
    x: torch.Tensor,
    config: QuantConfig = QuantConfig(),
    *,
    weight: bool = False,
    transpose: bool = False,
    seed: torch.Tensor | None = None,
) -> QuantizedTensor:
    """x [rows, cols] (float32, bfloat16 or float16) as 8-bit codes with scales along the columns.

    weight     with granularity "blockwise": scales of 128 x 128 instead of 1 x 128. Then, and with "rowwise" and "tensorwise", x may be
               a stack [groups, rows, cols], whose matrices are quantised each for itself, rounded to nearest (``grouped_gemm_fp8``)
    transpose  also of the transpose, which backward products read; one rounding from x, never a copy of the codes
    seed       for rounding="stochastic": two int64 words {seed, offset} on x's device; None draws them from PyTorch's
               generator

    A gradient of the result is one of x, unchanged.
    """
    if has_torch_function_unary(x) and not isinstance(x, torch.Tensor):  # torch.fx
        traced: QuantizedTensor = handle_torch_function(
            quantize, (x,), x, config, weight=weight, transpose=transpose, seed=seed
        )
        return traced

    def make(matrix: torch.Tensor) -> QuantizedTensor:
        return QuantizedTensor(*parts_of(matrix, config, weight, transpose, seed), config.grouping(weight), matrix.dtype)

    if not (torch.is_grad_enabled() and x.requires_grad):
        return make(x)
    made: QuantizedTensor = _PassGradient.apply(x, make)  # type: ignore[no-untyped-call]
    return made


def grouped_quantize(
    x: torch.Tensor,
    offsets: torch.Tensor,
    config: QuantConfig = QuantConfig(),
    *,
    align: int = 128,
    transpose: bool = False,
    seed: torch.Tensor | None = None,
    index: torch.Tensor | None = None,
) -> tuple[QuantizedTensor, torch.Tensor]:
    """Rows of groups (the experts of a mixture) as 8-bit codes with scales, each group at a multiple of ``align`` rows and zeros behind it,
    and where groups then begin. Groups are read on the device: the result has the rows that no offsets exceed.

    x          [rows, cols], float32, bfloat16 or float16
    offsets    [groups + 1], int32 or int64: rows offsets[g] to offsets[g + 1] are those of group g; the others are left out
    align      16, 32, 64 or 128; with transpose 128, but 32 and up with granularity "mx" and any with "tensorwise"
    transpose  also of the transpose, whose scales along the rows are of one group each: with granularity "rowwise" one for a row of it and
               a group, [groups, cols]
    seed       as ``quantize``'s
    index      [rows], int32: row r is x[index[r]], and x has any number of rows (``ExpertOrder.tokens``); -1: a row of zeros

    Returns the codes, of a matrix [(rows + groups * (align - 1)) // align * align, cols], and its offsets, of the kind of ``offsets``.
    There is no gradient.
    """
    random = config.random_words(x.device, seed)
    grouping = config.grouping()
    q, scale, q_t, scale_t, padded = torch.ops.ridgeline.grouped_quantize(
        x, offsets, config.forward_dtype, grouping, config.rule, align, True, transpose, random, index
    )
    parts: Parts = (q, scale, q_t, scale_t) if transpose else (q, scale, None, None)
    return QuantizedTensor(*parts, grouping, x.dtype), padded


def dequantize(x: QuantizedTensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """What the codes stand for, in ``dtype`` (default: that of the tensor that was quantised)."""
    return x.dequantize(dtype)


def to_plain_tensors(state: Mapping[str, Any]) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """A state dict without QuantizedTensors, for formats that know plain tensors only (safetensors), and what is lost by that.

    The parts of ``name`` are ``name.q``, ``name.scale``, ``name.q_t`` and ``name.scale_t``; the second dictionary has texts alone, for
    the metadata of the file. ``from_plain_tensors`` puts them together again.
    """
    tensors, metadata = {}, {}
    for name, value in state.items():
        if not isinstance(value, QuantizedTensor):
            tensors[name] = value
            continue
        names, _ = value.__tensor_flatten__()
        tensors.update({f"{name}.{part}": getattr(value, part).contiguous() for part in names})
        metadata[_KEY + name] = f"{value.grouping} {str(value.dtype).removeprefix('torch.')}"
    return tensors, metadata


def from_plain_tensors(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None) -> dict[str, Any]:
    """The state dict that ``to_plain_tensors`` took apart."""
    state = dict(tensors)
    for key, text in (metadata or {}).items():
        if not key.startswith(_KEY):
            continue
        name = key.removeprefix(_KEY)
        grouping, _, dtype = text.partition(" ")
        q, scale, q_t, scale_t = (state.pop(f"{name}.{part}", None) for part in _PARTS)
        if q is None and q_t is None:
            raise ValueError(f"from_plain_tensors: there are no codes of {name!r} ({name}.q or {name}.q_t), which the metadata name")
        state[name] = QuantizedTensor(q, scale, q_t, scale_t, grouping, getattr(torch, dtype))
    return state


_KEY = "ridgeline.quantized."

torch.serialization.add_safe_globals([QuantizedTensor, _from_bytes])

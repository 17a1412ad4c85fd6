"""What stands in for torch.nn.functional.scaled_dot_product_attention, and says what it leaves with torch."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function_variadic

from .control import explain
from .heads import attention, varlen_attention
from .ops import autocast_dtype
from .sharding import attention_refusal, is_dtensor

_theirs: Callable[..., torch.Tensor] = torch.nn.functional.scaled_dot_product_attention
_TYPES = (torch.bfloat16, torch.float16)
_LARGEST_DIM = 256
_SCALES = (torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max)


# ---- What the operator takes


@functools.lru_cache(maxsize=1024)
def _no_kernel(op: str, dim: int, v_dim: int, dtype: torch.dtype, causal: bool, device: str, sinks: bool, softcap: bool) -> str | None:
    mask = "causal" if causal else "full"
    text = explain(op, device, dim=dim, v_dim=v_dim, dtype=dtype, mask=mask, sinks=int(sinks), softcap=int(softcap))
    rows = re.findall(r"^  (->|  | x) (\S+) +(.*)$", text, re.M)
    if any(mark != " x" and not name.endswith("reference") for mark, name, _ in rows):
        return None
    kind = torch.device(device).type
    reasons = [f"{name}: {reason}" for _, name, reason in rows if not name.endswith("reference") and not reason.startswith("runs on ")]
    values = "" if v_dim == dim else f" and values of {v_dim}"
    return f"no kernel of {op} on {kind} but the reference for heads of {dim}{values} {dtype} ({'; '.join(reasons) or 'there is none'})"


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _no_kernel_of_both(
    dim: int, v_dim: int, dtype: torch.dtype, causal: bool, device: str, backward: bool, sinks: bool, softcap: bool
) -> str | None:
    refusal = _no_kernel("attention", dim, v_dim, dtype, causal, device, sinks, softcap)
    return _no_kernel("attention_backward", dim, v_dim, dtype, causal, device, sinks, softcap) if refusal is None and backward else refusal


def no_kernel(
    dim: int,
    v_dim: int,
    dtype: torch.dtype,
    causal: bool,
    device: str,
    backward: bool,
    sinks: bool = False,
    softcap: bool = False,
) -> str | None:
    """Why no kernel of the device runs such heads; the reference, which computes on the host, does not count."""
    if torch.compiler.is_compiling():  # sizes may be symbols, of which a range makes numbers
        dim, v_dim = len(range(dim)), len(range(v_dim))
    refusal: str | None = _no_kernel_of_both(dim, v_dim, dtype, causal, device, backward, sinks, softcap)
    return refusal


def _dtype_refusal(*tensors: torch.Tensor) -> str | None:
    cast = autocast_dtype(tensors[0].device.type)
    dtypes = [cast if cast is not None and x.is_floating_point() and x.dtype != torch.float64 else x.dtype for x in tensors]
    if any(dtype not in _TYPES for dtype in dtypes) or len(set(dtypes)) > 1:
        return f"{', '.join(str(dtype) for dtype in dict.fromkeys(dtypes))}; the operator takes one of torch.bfloat16 and torch.float16"
    return None


def _shapes(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> str:
    if torch.compiler.is_compiling():  # symbols, which no text is made of
        return "query, key and value"
    return f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"


def _shape_refusal(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, enable_gqa: bool) -> str | None:
    if not query.dim() == key.dim() == value.dim() or query.dim() < 2:
        return f"{_shapes(query, key, value)}: numbers of dimensions differ, or are below 2"
    if key.shape[:-1] != value.shape[:-1] or query.shape[-1] != key.shape[-1]:
        return f"{_shapes(query, key, value)}: the operator takes key and value of one length and as many heads, and key with heads as wide as query's"
    if not all(1 <= x.shape[-1] <= _LARGEST_DIM for x in (query, value)):
        return f"{_shapes(query, key, value)}: the operator takes heads of 1 to {_LARGEST_DIM} elements"
    if query.shape[:-3] != key.shape[:-3]:
        return f"{_shapes(query, key, value)}: the batch is broadcast"
    if query.dim() > 2 and query.shape[-3] != key.shape[-3]:
        if not enable_gqa:
            return f"{_shapes(query, key, value)}: heads are broadcast (enable_gqa=True shares those of key and value)"
        if key.shape[-3] < 1 or query.shape[-3] % key.shape[-3]:
            return f"{_shapes(query, key, value)}: heads of query are no multiple of those of key"
    return None


def _wrapper(x: torch.Tensor) -> bool:
    """Whether x is made of other tensors, and is no DTensor: nested tensors, codes."""
    return x.is_nested or (hasattr(type(x), "__tensor_flatten__") and not is_dtensor(x))


def _refusal(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    dropout_p: float,
    causal: bool,
    scale: float | None,
    enable_gqa: bool,
    window: tuple[int, int] = (-1, -1),
    sinks: torch.Tensor | None = None,
    softcap: float | None = None,
) -> str | None:
    """Why the operator does not take a call; ``causal`` is of whichever alignment."""
    if attn_mask is not None:
        return "attn_mask is given; the operator has no mask but causal"
    if dropout_p > 0:
        return f"dropout_p={dropout_p}; the operator has no dropout"
    if scale is not None and not (isinstance(scale, (int, float)) and _SCALES[0] <= scale <= _SCALES[1]):
        return f"scale={scale}; the operator takes a number above 0 that is finite in float32"
    tensors = (query, key, value)
    wrapped = next((x for x in tensors if _wrapper(x)), None)
    if wrapped is not None:
        return f"{type(wrapped).__name__}; the operator takes plain tensors and DTensors"
    refusal = _dtype_refusal(*tensors) or _shape_refusal(query, key, value, enable_gqa)
    if refusal is None and any(is_dtensor(x) for x in tensors):
        if query.dim() != 4:
            return f"{_shapes(query, key, value)}: DTensors of other than 4 dimensions"
        refusal = attention_refusal(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), causal, window, sinks)
    device = query.device
    if refusal is not None or device.type in ("cpu", "meta"):
        return refusal
    if device.type != "cuda":
        return f"device {device}; the operator runs on the CPU and on CUDA devices"
    backward = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (*tensors, sinks))
    dtype = autocast_dtype(device.type) or query.dtype
    return no_kernel(query.shape[-1], value.shape[-1], dtype, causal, str(device), backward, sinks is not None, bool(softcap))


# ---- The call


def _readable(x: torch.Tensor) -> torch.Tensor:
    """x [batch, heads, length, dim] in a form that the operator reads, which torch's function does not ask for: copied if it is expanded, has gaps
    within heads, or on a GPU has rows that do not start on 16 bytes."""
    apart = x.stride(3) == 1 and all(x.shape[d] <= 1 or x.stride(d) >= x.shape[3] for d in range(3))
    if apart and x.device.type == "cuda" and not is_dtensor(x):
        step = 16 // x.element_size()
        apart = all(x.stride(d) % step == 0 for d in range(3))
        if not torch.compiler.is_compiling():  # a trace does not know it
            apart = apart and x.storage_offset() % step == 0
    return x if apart else x.clone(memory_format=torch.contiguous_format)  # also of what is contiguous, from an odd address on


def _four(x: torch.Tensor) -> torch.Tensor:
    if x.dim() == 4:
        return x
    return x.flatten(0, -4) if x.dim() > 4 else x[(None,) * (4 - x.dim())]


def _ours(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    causal: bool,
    scale: float | None,
    window: tuple[int, int] | None = None,
    sinks: torch.Tensor | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    heads = (_readable(_four(x)) for x in (query, key, value))
    out = attention(*heads, causal=causal, scale=scale, layout="bhsd", window=window, sinks=sinks, softcap=softcap)
    return out if query.dim() == 4 else out.reshape(*query.shape[:-1], value.shape[-1])


def _unequal(query: torch.Tensor, key: torch.Tensor) -> str | None:
    """torch's is_causal lets query i see keys up to i, ours the last query all keys; they are one where no key comes after the last query."""
    if query.shape[-2] > key.shape[-2]:
        return f"{_shapes(query, key, key)}: is_causal of more queries than keys, the last of which see all keys; the operator has no such mask"
    return None


def sdpa_refusal(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> str | None:
    """Why ``sdpa`` leaves this call with torch; None where it runs the operator."""
    refusal = _refusal(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    return _unequal(query, key) if refusal is None and is_causal else refusal


def sdpa(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """torch.nn.functional.scaled_dot_product_attention, by ``attention`` where that has what is asked for, else by torch's own function.

    Left with torch are attn_mask, dropout_p > 0, dtypes but bfloat16 and float16, heads beyond 256 elements, batches and heads that are
    broadcast, is_causal of more queries than keys, and on a GPU heads that no kernel takes. ``sdpa_refusal`` says why
    a call is, ``with use_sdpa(strict=True)`` makes it an error, and ``use_sdpa`` counts both kinds. is_causal means what it means in torch:
    query i sees keys up to i. The result lies in memory as [batch, length, heads, dim]. What the operator cannot read where it lies (expanded
    tensors, gaps within heads) is copied.
    """
    if has_torch_function_variadic(query, key, value):
        traced: torch.Tensor = handle_torch_function(
            sdpa, (query, key, value), query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
        return traced
    return _sdpa(None, query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


def _sdpa(
    block: use_sdpa | None,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    refusal = sdpa_refusal(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if block is not None:
        block.note("sdpa", refusal)
    if refusal is not None:
        return _theirs(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if is_causal and key.shape[-2] > query.shape[-2]:  # no query sees a later key
        key, value = (x.narrow(-2, 0, query.shape[-2]) for x in (key, value))
    return _ours(query, key, value, is_causal, scale)


def _unchanged(func: Any, args: Any, kwargs: Any) -> Any:
    """A call that is none of attention. Tensor.unflatten is written in Python with a super() that TorchDynamo does not trace within a mode."""
    return (torch.unflatten if func is torch.Tensor.unflatten else func)(*args, **kwargs)


class exchange(TorchFunctionMode):
    """Inside, torch's function is ``sdpa``, by whatever name it is called; of the thread."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return sdpa(*args, **(kwargs or {})) if func is _theirs else _unchanged(func, args, kwargs or {})


class use_sdpa(TorchFunctionMode):
    """Inside, torch.nn.functional.scaled_dot_product_attention is ``sdpa``, by whatever name it was imported.

    strict  NotImplementedError, with the reason, for a call that would be left with torch

    >>> with rt.use_sdpa() as seen:
    ...     model(x)
    >>> print(seen)                     # calls of attention: 12 by ridgeline; 2 by torch: attn_mask is given; ...

    ``ours`` counts the calls of the operator and ``left`` those that torch ran, by reason; calls of ``sdpa``, ``hf_attention`` and of modules
    that ``convert`` changed count, too. Calls in compiled code follow the block (one graph with and one without), and strict raises where
    they are traced; they are not counted. Blocks hold for the thread, as torch.autocast, and the innermost decides.

    Cost: a call through Python for every function of torch in the block; ``sdpa`` itself has none.
    """

    def __init__(self, *, strict: bool = False) -> None:
        super().__init__()
        self.strict, self.ours = strict, 0
        self.left: dict[str, int] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _theirs or func is sdpa:
            return _sdpa(self, *args, **(kwargs or {}))
        if func is hf_attention:
            return _hf_attention(self, *args, **(kwargs or {}))
        return _unchanged(func, args, kwargs or {})

    def note(self, name: str, refusal: str | None) -> None:
        if refusal is not None and self.strict:
            raise NotImplementedError(f"{name}: {refusal}; leave strict out, and torch's own function runs it")
        if torch.compiler.is_compiling():
            return
        if refusal is None:
            self.ours += 1
        else:
            self.left[refusal] = self.left.get(refusal, 0) + 1

    def __str__(self) -> str:
        words = [f"{self.ours} by ridgeline", *(f"{count} by torch: {reason}" for reason, count in self.left.items())]
        return f"calls of attention: {'; '.join(words)}"


# ---- As transformers calls it

def hf_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """An attention function of transformers' interface: [batch, heads, length, dim] in, ([batch, length, heads, dim], None) out.

    >>> transformers.AttentionInterface.register("ridgeline", rt.hf_attention)
    >>> transformers.AttentionMaskInterface.register("ridgeline", transformers.masking_utils.sdpa_mask)   # or padding is not masked
    >>> model.set_attn_implementation("ridgeline")

    key and value have their own heads, which query's share. ``is_causal`` None: what the module's attribute ``is_causal`` says (without one
    it is), where there is no attention_mask. It is aligned at the last key, so that queries behind a cache see all of it. ``sliding_window``
    is the number of keys that a query sees, its own among them, to the left, and without causal as many to the right; a mask that is given
    has it already. A mask, dropout and what else ``sdpa`` leaves with torch runs there (``use_sdpa`` counts them, and its ``strict`` refuses).
    ``cu_seq_lens_q`` and ``cu_seq_lens_k`` of a batch of one without a mask are ``varlen_attention`` of its documents. ``s_aux`` is sinks [heads], and
    ``softcap`` that of the scores. NotImplementedError for what would change the result unseen: weights that are asked for, and packed documents,
    sinks and a softcap of calls that the operator does not take (with a mask, for instance): torch's function has none of them.
    """
    if has_torch_function_variadic(query, key, value):
        traced: tuple[torch.Tensor, None] = handle_torch_function(
            hf_attention,
            (query, key, value),
            module,
            query,
            key,
            value,
            attention_mask,
            scaling=scaling,
            dropout=dropout,
            is_causal=is_causal,
            **kwargs,
        )
        return traced
    return _hf_attention(
        None, module, query, key, value, attention_mask, scaling=scaling, dropout=dropout, is_causal=is_causal, **kwargs
    )


def _check_hf(given: dict[str, Any]) -> None:
    if given.get("head_mask") is not None:
        raise NotImplementedError("hf_attention: head_mask is given, and there is no attention with a mask of heads here; use another implementation")
    if given.get("output_attentions"):
        raise NotImplementedError("hf_attention: output_attentions=True, and weights are never stored; use the implementation 'eager'")


def _hf_documents(key: torch.Tensor, attention_mask: torch.Tensor | None, given: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Offsets of packed documents, which torch's function does not have."""
    of_queries, of_keys = given.get("cu_seq_lens_q"), given.get("cu_seq_lens_k")
    if (of_queries is None and of_keys is None) or attention_mask is not None:
        return None
    if of_queries is None or of_keys is None or key.shape[0] != 1:
        raise NotImplementedError(
            f"hf_attention: packed documents of a batch of {key.shape[0]} by "
            f"{'cu_seq_lens_k' if of_queries is None else 'cu_seq_lens_q'}; give cu_seq_lens_q and cu_seq_lens_k of a batch of one, or a mask"
        )
    return of_queries.to(torch.int32), of_keys.to(torch.int32)


def _hf_window(key: torch.Tensor, attention_mask: torch.Tensor | None, sliding_window: int | None, causal: bool) -> tuple[int, int]:
    if sliding_window is None or attention_mask is not None or sliding_window >= key.shape[2]:
        return -1, -1
    if sliding_window < 1:
        raise ValueError(f"hf_attention: sliding_window={sliding_window}; give the number of keys that a query sees, its own among them, or None")
    return sliding_window - 1, 0 if causal else sliding_window - 1


def _hf_mask(query: torch.Tensor, key: torch.Tensor, causal: bool, window: tuple[int, int]) -> torch.Tensor:
    """For torch's function, whose is_causal is aligned at the first key, and which has no window."""
    length, keys = query.shape[2], key.shape[2]
    left, right = window
    seen = torch.ones(length, keys, dtype=torch.bool, device=query.device)
    if causal or right >= 0:
        seen = seen.tril(keys - length + (0 if causal else right))
    return seen.triu(keys - length - left) if left >= 0 else seen


def _hf_attention(
    block: use_sdpa | None,
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    _check_hf(kwargs)
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal) and attention_mask is None
    window = _hf_window(key, attention_mask, kwargs.get("sliding_window"), causal)
    sinks, softcap = kwargs.get("s_aux"), kwargs.get("softcap")
    refusal = _refusal(query, key, value, attention_mask, dropout, causal, scaling, True, window, sinks, softcap)
    documents = _hf_documents(key, attention_mask, kwargs)
    if documents is not None and refusal is not None:
        raise NotImplementedError(f"hf_attention: packed documents, and {refusal}; give a mask, and torch's own function runs it")
    given = " and ".join(name for name, value in (("s_aux", sinks), ("softcap", softcap)) if value is not None)
    if given and refusal is not None:
        raise NotImplementedError(f"hf_attention: {given} is given, and {refusal}; torch's function has none: use the implementation 'eager'")
    if block is not None:
        block.note("hf_attention", refusal)
    if documents is not None:
        q, k, v = (_readable(x)[0].transpose(0, 1) for x in (query, key, value))
        of_queries, of_keys = documents
        return varlen_attention(q, k, v, of_queries, of_keys, causal=causal, scale=scaling, window=window, sinks=sinks, softcap=softcap)[None], None
    if refusal is None:
        return _ours(query, key, value, causal, scaling, window, sinks, softcap).transpose(1, 2), None
    if max(window) >= 0 or (causal and query.shape[2] != key.shape[2]):
        attention_mask, causal = _hf_mask(query, key, causal, window), False
    shared = query.shape[1] != key.shape[1]
    out = _theirs(query, key, value, attention_mask, dropout, causal, scale=scaling, enable_gqa=shared)
    return out.transpose(1, 2).contiguous(), None


# ---- Modules that call torch's function


_calling: dict[type[torch.nn.Module], bool] = {}
_exchanged: dict[type[torch.nn.Module], type[torch.nn.Module]] = {}


def calls_sdpa(kind: type[torch.nn.Module]) -> bool:
    """Whether a method of a class names torch's function."""
    if kind not in _calling:
        own = [one for one in kind.__mro__ if issubclass(one, torch.nn.Module) and not one.__module__.startswith("torch.")]
        methods = (member for one in own for member in vars(one).values())
        _calling[kind] = any("scaled_dot_product_attention" in getattr(getattr(one, "__code__", None), "co_names", ()) for one in methods)
    return _calling[kind]


class Exchanged:
    """The first base of classes whose ``forward`` is that of ``original`` with torch's function exchanged."""

    original: Any

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with exchange():
            return self.original.forward(self, *args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        state = self.__getstate__() if hasattr(self, "__getstate__") else self.__dict__.copy()  # objects have one from Python 3.11 on
        return _empty, (self.original,), state


def exchanged(kind: type[torch.nn.Module]) -> type[torch.nn.Module]:
    """The class that a module of ``kind`` becomes, under the same name."""
    if kind not in _exchanged:
        members = {"original": kind, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
        _exchanged[kind] = type(kind.__name__, (Exchanged, kind), members)
    return _exchanged[kind]


def _empty(kind: type[torch.nn.Module]) -> torch.nn.Module:
    made = exchanged(kind)
    return made.__new__(made)

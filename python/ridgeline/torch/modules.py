"""Linear layers, norms and gated activations."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, Union

import torch
from torch.nn.utils import parametrize
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.overrides import handle_torch_function, has_torch_function_variadic

from . import delayed, observe, products, sharding
from ._recipe import Config, RecipeLike, as_config, as_recipe, delayed_of, describe
from .coded import activation_quantize, rms_norm_quantize
from .config import QuantConfig
from .kept import KeptWeights, factor
from .ops import ActivationFunction, _gemm, _gemm_fp8, autocast_dtype, embedding, gated, gemm, gemm_fp8, layer_norm, rms_norm, transformed
from .precision import in_force
from .quantized import QuantizedTensor

Layer = TypeVar("Layer", bound=torch.nn.Module)


def become(layer: torch.nn.Module, kind: type[Layer]) -> Layer:
    """Makes ``layer`` one of ``kind`` by changing its class: parameters, buffers, hooks and attributes are what they were."""
    old = type(layer)
    if parametrize.is_parametrized(layer):  # its class is one that PyTorch made for it, with a property for each tensor
        members = {name: value for name, value in vars(old).items() if name not in ("__dict__", "__weakref__")}
        kind = type(f"Parametrized{kind.__name__}", (kind,), members)  # pyright: ignore[reportAssignmentType]
    if issubclass(old, Fp8Linear) and not issubclass(kind, Fp8Linear):
        delayed.take_history(layer)
        del layer.config
    layer.__class__ = kind
    return layer  # type: ignore[return-value]


def configure(layer: Fp8Linear, config: Config) -> None:
    """Gives a layer its recipe, and a history if that wants one; a history of the right length goes on."""
    layer.config = config
    settings = delayed_of(config)
    if settings is None:
        delayed.take_history(layer)
    else:
        delayed.give_history(layer, settings)


def twin(layer: Layer) -> Layer:
    """Another module with the same parameters, buffers, hooks and attributes."""
    other = type(layer).__new__(type(layer))
    # Dictionaries and sets are copied, so that what one of the two gets later is not the other's.
    vars(other).update({name: copy.copy(value) if isinstance(value, (dict, set)) else value for name, value in vars(layer).items()})
    if parametrize.is_parametrized(layer):  # the lists are shared, and what holds them is not
        lists: Any = layer.parametrizations
        other._modules["parametrizations"] = torch.nn.ModuleDict(dict(lists.items()))
    return other


def _main_grad(weight: torch.Tensor) -> torch.Tensor | None:
    """Where a trainer keeps the gradient over micro-batches (Megatron's convention); it is told that we add there."""
    target: torch.Tensor | None = getattr(weight, "main_grad", None)
    if target is not None and weight.requires_grad and torch.is_grad_enabled():
        weight.grad_added_to_main_grad = True  # type: ignore[attr-defined]
        return target
    return None


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _parameters_of(layer: torch.nn.Linear) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Weight and bias. Found where a module keeps its parameters: torch looks there last, after half a microsecond for each. A parametrisation computes
    the weight, and is asked once.
    """
    own = layer._parameters
    weight = own.get("weight")
    return layer.weight if weight is None else weight, own["bias"] if "bias" in own else layer.bias


def _readable(input: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The input of a layer as the operators read it: at least a matrix, copied if it is expanded or has gaps."""
    dims, width = input.dim(), weight.size(-1)  # a shape costs 100 ns
    if dims == 0 or input.size(-1) != width:
        raise ValueError(
            f"linear: the last dimension of the input, of shape {tuple(input.shape)}, is not in_features={width} of the weight, of "
            f"shape {tuple(weight.shape)}; reshape or transpose the input, or make the layer with in_features="
            f"{input.shape[-1] if dims else 1}"
        )
    if dims == 1:
        input = input.unsqueeze(0)
    elif dims > 2 and sharding.is_sharded(input):
        input = sharding.with_rows(input)
    if input.is_contiguous():
        return input
    rows = input.flatten(0, -2)
    (row, col), count = rows.stride(), rows.shape[0]
    if not ((col == 1 and row >= width) or (row == 1 and col >= count)):
        rows = rows.contiguous()
    return rows.view(input.shape)


def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """torch.nn.functional.linear with Ridgeline's product."""
    if has_torch_function_variadic(input, weight):
        traced: torch.Tensor = handle_torch_function(linear, (input, weight), input, weight, bias)
        return traced
    rows, main_grad = _readable(input, weight), _main_grad(weight)
    if main_grad is not None:
        out = gemm(rows, weight, trans_b=True, bias=bias, main_grad=main_grad)
    elif bias is not None:  # the operator itself, with no more arguments than it needs: a tenth of a small call
        out = _gemm(rows, weight, False, True, None, bias)
    else:
        out = _gemm(rows, weight, False, True)
    return out if input.dim() > 1 else out.squeeze(0)


def linear_fp8(
    input: torch.Tensor,
    weight: torch.Tensor,
    factor: torch.Tensor,
    bias: torch.Tensor | None,
    config: Config,
    history: torch.Tensor | None = None,
    now: torch.Tensor | None = None,
    observer: products.Observer | None = None,
) -> torch.Tensor:
    """``linear`` of 8-bit floats; ``factor`` is the weight, or its codes.

    With delayed scaling ``history`` is the layer's, and ``now`` collects the step that runs.
    """
    if has_torch_function_variadic(input, weight):
        traced: torch.Tensor = handle_torch_function(
            linear_fp8, (input, weight), input, weight, factor, bias, config, history, now
        )
        return traced
    x, main_grad = _readable(input, weight), _main_grad(weight)
    plain = type(x) is torch.Tensor and type(factor) in _PLAIN
    # Of shards put together, because codes may be made where they lie.
    in_parts = not plain and (sharding.is_sharded(x) or sharding.is_sharded(factor))
    if type(config) is QuantConfig and config.sums is None and observer is None and not in_parts:
        if bias is not None and bias.dtype != input.dtype:
            bias = bias.to(input.dtype)
        multiple = products.rows_multiple(x, config.granularity, torch.is_grad_enabled() and weight.requires_grad)
        if type(x) is QuantizedTensor:  # codes stay as they are
            multiple = 1
        if multiple == 1 and plain:  # the operator itself, as in linear
            out = _gemm_fp8(x, factor, False, True, None, *config.words, main_grad, bias)
        elif multiple == 1:
            out = gemm_fp8(x, factor, trans_b=True, config=config, bias=bias, main_grad=main_grad)
        else:
            rows = x.flatten(0, -2)
            out = gemm_fp8(products.padded(rows, multiple), factor, trans_b=True, config=config, bias=bias, main_grad=main_grad)
            out = out[: rows.shape[0]].view(*x.shape[:-1], out.shape[-1])
    else:
        out = products.layer(
            x, factor, as_recipe(config), bias, main_grad=main_grad, history=history, now=now, observer=observer
        )
    return out if input.dim() > 1 else out.squeeze(0)


class _NoWayBack(torch.autograd.Function):
    """y, whose gradient cannot reach x."""

    @staticmethod
    def forward(ctx: Any, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return y.view_as(y)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise ValueError(
            "linear: the weight is kept as codes without those of its transpose, which the gradient of the input is made of; call "
            "quantize_(model, ..., transpose=True) or QuantizedTensor.from_checkpoint(..., transpose=True), or run it under torch.no_grad()"
        )


class Linear(torch.nn.Linear):
    """torch.nn.Linear with Ridgeline's product, or by the recipe of an ``autocast_fp8`` block.

    A weight with ``main_grad`` gets its gradient added there.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        config = in_force(None)
        weight, bias = _parameters_of(self)
        if config is None:
            return linear(input, weight, bias)
        return linear_fp8(input, weight, weight, bias, config, observer=observe.observer_of(self, input))

    @classmethod
    def from_float(cls, module: torch.nn.Linear) -> Linear:
        """Another layer with the parameters, buffers, hooks and attributes of ``module``."""
        return become(twin(module), cls)


class Fp8Linear(torch.nn.Linear):
    """torch.nn.Linear whose products are made of 8-bit floats, as its recipe ``config`` says; parameters keep their dtype.

    The input may be codes, a QuantizedTensor [rows, in_features] that was made by the layer's QuantConfig, with those of the transpose
    for the weight's gradient. ``SwiGLU`` and ``RMSNorm`` make them (``into``).

    config  a QuantConfig (all three products alike), a Recipe (each apart), or the name of one; ValueError for high precision in all
            three, which is ``Linear``. ``convert`` and ``swap_linears`` change it later

    With delayed scaling the layer has a buffer ``amax_history``, which a state dict may lack: then it is left as it is.
    Cost: a QuantConfig's products are one operator of C++, a Recipe's are put together in Python (docs/pytorch.md has figures).
    """

    config: Config
    _codes_can_be_kept = True  # it asks ``factor`` for its weight

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        config: RecipeLike = QuantConfig(),
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        configure(self, _of_8_bits(config))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        weight, bias = _parameters_of(self)
        config = in_force(self.config)
        codes = weight if type(weight) is QuantizedTensor else None
        if codes is not None and config is not self.config:
            if config is None:
                weight = codes.dequantize(input.dtype if input.is_floating_point() else None)
            else:
                config = self.config  # what the codes were made for
        if config is None:
            return linear(input, weight, bias)
        if codes is not None and codes.q_t is None and input.requires_grad and torch.is_grad_enabled():
            with torch.no_grad():
                out = self.forward(input)
            no_way: torch.Tensor = _NoWayBack.apply(out, input)  # type: ignore[no-untyped-call]
            return no_way
        history = now = None
        if delayed_of(config) is not None:
            history, now = self._buffers[delayed.BUFFER], delayed.step_of(self) if self.training else None
        observer = observe.observer_of(self, input)
        return linear_fp8(input, weight, factor(self, weight, config), bias, config, history, now, observer)

    @classmethod
    def from_float(cls, module: torch.nn.Linear, config: RecipeLike = QuantConfig()) -> Fp8Linear:
        """Another layer with the parameters, buffers, hooks and attributes of ``module``."""
        chosen = _of_8_bits(config)
        layer = become(twin(module), cls)
        configure(layer, chosen)
        return layer

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        if delayed_of(self.config) is not None:
            delayed.track(self)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: Any,
        unexpected_keys: Any,
        error_msgs: list[str],
    ) -> None:
        refused = self._refuses(state_dict.get(prefix + "weight"))
        if refused is not None:
            error_msgs.append(f"{prefix}weight: {refused}")
            return
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        if prefix + delayed.BUFFER in missing_keys:  # of a model that had no delayed scaling yet
            missing_keys.remove(prefix + delayed.BUFFER)
        history = self._buffers.get(delayed.BUFFER)
        if history is not None and local_metadata.get("assign_to_params_buffers", False):  # the history goes where the file's tensors are
            given = next((each for name, each in state_dict.items() if name.startswith(prefix)), history)
            self._buffers[delayed.BUFFER] = delayed.kept(history, given if history.is_meta else history).float()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        delayed.clear_history(self)

    def _apply(self, fn: Any, recurse: bool = True) -> Fp8Linear:
        history = self._buffers.get(delayed.BUFFER)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        moved = self._buffers.get(delayed.BUFFER)
        if history is not None and moved is not None:
            self._buffers[delayed.BUFFER] = delayed.kept(history, moved)
        return self

    def _refuses(self, given: object) -> str | None:
        """Why a weight of a state dict, which takes the place of ours whatever it is, does not go with the layer."""
        own = self._parameters.get("weight")
        if not isinstance(given, torch.Tensor) or not (isinstance(own, QuantizedTensor) or isinstance(given, QuantizedTensor)):
            return None
        if not isinstance(own, QuantizedTensor):
            return "the file has codes, and the layer's weight is none; call quantize_ with the file's recipe first"
        if not isinstance(given, QuantizedTensor):
            return f"the file has no codes but {given.dtype}, and the layer keeps codes; load it before quantize_"
        kinds = [(each.grouping, *(part if part is None else part.dtype for part in each._parts())) for each in (own, given)]
        return None if kinds[0] == kinds[1] else f"the file's codes are {given}, the layer's {own}; call quantize_ with the file's recipe"

    def extra_repr(self) -> str:
        words = describe(self.config).removeprefix("gemm_fp8: ")
        codes = ", weight in codes" if isinstance(self._parameters.get("weight"), QuantizedTensor) else ""
        return f"{super().extra_repr()}, {words}{codes}"


def _of_8_bits(given: RecipeLike) -> Config:
    config = as_config(given)
    if config is None:
        raise ValueError(f"Fp8Linear: {given!r} makes no product of 8-bit floats; use Linear, or another recipe")
    return config


Layers = Union[torch.nn.Module, Sequence[torch.nn.Module]]


class _Codes(NamedTuple):
    """How layers read the rows that are made for them: by which config, and whether gradients of their weights need the transpose."""

    config: QuantConfig
    transpose: bool


def _codes_for(layer: torch.nn.Module, x: torch.Tensor) -> _Codes | None:
    """How ``layer`` reads rows that are made of x, where codes that come with them serve it; None: it wants the rows themselves, to
    multiply in high precision, by a Recipe, padded, in parts, or to be looked at."""
    if not isinstance(layer, (Linear, Fp8Linear)):
        return None
    weight: object = layer._parameters.get("weight")
    own = layer.config if isinstance(layer, Fp8Linear) else None
    config = in_force(own)
    if isinstance(weight, QuantizedTensor):
        config = own if config is not None else None  # what the codes were made for
    elif not isinstance(weight, torch.Tensor) or type(weight) not in _PLAIN or (weight.dtype != x.dtype and autocast_dtype(x.device.type) is None):
        return None
    if type(config) is not QuantConfig or config.sums is not None:
        return None
    if observe.looks_at(layer) or (not torch.compiler.is_compiling() and transformed()):
        return None
    gradient = torch.is_grad_enabled() and weight.requires_grad
    multiple = products.rows_multiple(x, config.granularity, gradient)
    if multiple != 1 and x.shape[:-1].numel() % multiple != 0:
        return None
    return _Codes(replace(config, rounding="nearest"), gradient)  # gradients alone are rounded at random


def _into(
    layers: Layers, x: torch.Tensor, plain: Callable[[], torch.Tensor], coded: Callable[[_Codes], torch.Tensor] | None
) -> Any:
    """What ``layers`` make of rows that are made of x: from codes of ``coded`` where all read the same, else of ``plain``."""
    several = tuple(layers) if isinstance(layers, Sequence) else (layers,)
    readable = coded is not None and type(x) in _PLAIN and x.dim() > 1 and x.dtype in (torch.bfloat16, torch.float16, torch.float32)
    # By torch.autocast a layer casts what it reads.
    readable = readable and autocast_dtype(x.device.type) in (None, x.dtype)
    found = [_codes_for(layer, x) for layer in several] if readable else [None]
    first = found[0]
    if first is None or coded is None or any(each is None or each.config != first.config for each in found):
        rows = plain()
        made = [layer(rows) for layer in several]
    else:
        codes = coded(first._replace(transpose=any(each is not None and each.transpose for each in found)))
        made = [layer(codes) for layer in several]
        made = [out.view(*x.shape[:-1], out.shape[-1]) for out in made]
    return made if isinstance(layers, Sequence) else made[0]


def _rows(x: Any) -> Any:
    return x if x is None or x.dim() == 2 else x.flatten(0, -2)


def _normalised_into(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    shape: tuple[int, ...],
    eps: float | None,
    zero_centred: bool,
    into: Layers | None,
) -> Any:
    """``rms_norm``, and what layers make of it; one step of a graph of torch.fx where these are known when that runs."""
    if not isinstance(into, (torch.nn.Module, Sequence, type(None))):
        return handle_torch_function(_normalised_into, (x, into), x, residual, weight, shape, eps, zero_centred, into)
    if into is None:
        return rms_norm(x, shape, weight, eps, residual=residual, zero_centred=zero_centred)
    totals: list[torch.Tensor] = []

    def alone(made: Any) -> torch.Tensor:
        norm: torch.Tensor = made if residual is None else made[0]
        if residual is not None:
            totals.append(made[1])
        return norm

    def plain() -> torch.Tensor:
        return alone(rms_norm(x, shape, weight, eps, residual=residual, zero_centred=zero_centred))

    def coded(how: _Codes) -> torch.Tensor:
        of_rows = {"residual": _rows(residual), "zero_centred": zero_centred, "transpose": how.transpose}
        return alone(rms_norm_quantize(_rows(x), shape, weight, eps, how.config, **of_rows))

    made = _into(into, x, plain, coded if len(shape) == 1 else None)
    return made if residual is None else (made, totals[0].view(x.shape))


def _activated_into(
    x: torch.Tensor,
    up: torch.Tensor | None,
    function: ActivationFunction,
    probs: torch.Tensor | None,
    mask: torch.Tensor | None,
    alpha: float,
    limit: float,
    into: Layers | None,
) -> Any:
    """``gated``, and what layers make of it; one step of a graph of torch.fx where these are known when that runs."""
    if not isinstance(into, (torch.nn.Module, Sequence, type(None))):
        return handle_torch_function(_activated_into, (x, into), x, up, function, probs, mask, alpha, limit, into)

    def plain() -> torch.Tensor:
        return gated(x, up, function, probs=probs, mask=mask, alpha=alpha, limit=limit)

    def coded(how: _Codes) -> torch.Tensor:
        of_rows = {"probs": None if probs is None else probs.flatten(), "mask": None if mask is None else mask.flatten(), "up": _rows(up)}
        return activation_quantize(
            _rows(x), function, how.config, **of_rows, packed=up is None, alpha=alpha, limit=limit, transpose=how.transpose
        )

    return plain() if into is None else _into(into, x, plain, coded)


class RMSNorm(torch.nn.RMSNorm):
    """torch.nn.RMSNorm with Ridgeline's norm; ``zero_centred`` keeps the weight less 1, which weight decay draws to 1.

    Called with a residual it is of input + residual and gives (norm, sum): the next layer's residual comes along. With ``into``, a layer
    or a list of them, it gives what they make of the norm, which layers that multiply by one QuantConfig read as 8-bit codes that come
    with it, rounded once from float32: ``rms_norm_quantize``.
    """

    zero_centred: bool = False

    def __init__(
        self,
        normalized_shape: int | list[int] | torch.Size,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        zero_centred: bool = False,
    ) -> None:
        if zero_centred and not elementwise_affine:
            raise ValueError("RMSNorm: zero_centred is about the weight, and elementwise_affine=False leaves it out")
        self.zero_centred = zero_centred
        super().__init__(normalized_shape, eps, elementwise_affine, device, dtype)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.zero_centred:
            torch.nn.init.zeros_(self.weight)

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None = None, *, into: Layers | None = None) -> Any:
        if into is None:
            return rms_norm(x, self.normalized_shape, self.weight, self.eps, residual=residual, zero_centred=self.zero_centred)
        return _normalised_into(x, residual, self.weight, tuple(self.normalized_shape), self.eps, self.zero_centred, into)

    @classmethod
    def from_float(cls, module: torch.nn.RMSNorm) -> RMSNorm:
        """Another layer with the parameters, buffers, hooks and attributes of ``module``."""
        return become(twin(module), cls)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, zero_centred=True" if self.zero_centred else super().extra_repr()


class LayerNorm(torch.nn.LayerNorm):
    """torch.nn.LayerNorm with Ridgeline's norm; ``zero_centred`` and a residual are as RMSNorm's."""

    zero_centred: bool = False

    def __init__(
        self,
        normalized_shape: int | list[int] | torch.Size,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        zero_centred: bool = False,
    ) -> None:
        if zero_centred and not elementwise_affine:
            raise ValueError("LayerNorm: zero_centred is about the weight, and elementwise_affine=False leaves it out")
        self.zero_centred = zero_centred
        super().__init__(normalized_shape, eps, elementwise_affine, bias, device, dtype)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.zero_centred:
            torch.nn.init.zeros_(self.weight)

    def forward(  # type: ignore[override]
        self, x: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        return layer_norm(
            x, self.normalized_shape, self.weight, self.bias, self.eps, residual=residual, zero_centred=self.zero_centred
        )

    @classmethod
    def from_float(cls, module: torch.nn.LayerNorm) -> LayerNorm:
        """Another layer with the parameters, buffers, hooks and attributes of ``module``."""
        return become(twin(module), cls)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, zero_centred=True" if self.zero_centred else super().extra_repr()


class Embedding(torch.nn.Embedding):
    """torch.nn.Embedding by ``embedding``: its gradient has the same bits in every call, and goes to ``weight.main_grad`` where there is one.

    ``max_norm``, ``scale_grad_by_freq`` and ``sparse`` are not supported: NotImplementedError.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: torch.Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        for name, given in (("max_norm", max_norm is not None), ("scale_grad_by_freq", scale_grad_by_freq), ("sparse", sparse)):
            if given:
                raise NotImplementedError(f"Embedding: {name} is not supported; use torch.nn.Embedding")
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, None, norm_type, False, False, _weight, _freeze, device=device, dtype=dtype
        )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return embedding(input, self.weight, self.padding_idx, main_grad=_main_grad(self.weight))


class SwiGLU(torch.nn.Module):
    """silu(gate) up in one pass, forward and backward; ``function`` and its constants are those of ``activation``.

    Called with two tensors of one shape, or with one [..., 2 columns] that has the gate's half first. With ``into``, a layer or a list of
    them, it gives what they make of the result, which layers that multiply by one QuantConfig read as 8-bit codes that come with it,
    rounded once from float32: ``activation_quantize``.
    """

    def __init__(self, function: ActivationFunction = "silu", *, alpha: float = 1.702, limit: float = 7.0) -> None:
        super().__init__()
        self.function: ActivationFunction = function
        self.alpha, self.limit = alpha, limit

    def forward(
        self,
        x: torch.Tensor,
        up: torch.Tensor | None = None,
        *,
        probs: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
        into: Layers | None = None,
    ) -> Any:
        return _activated_into(x, up, self.function, probs, mask, self.alpha, self.limit, into)

    def extra_repr(self) -> str:
        constants = f", alpha={self.alpha}, limit={self.limit}" if self.function == "clamped_silu" else ""
        return f"{self.function!r}{constants}"


@contextlib.contextmanager
def quantized_weights(module: torch.nn.Module, *, check: bool = False) -> Iterator[KeptWeights]:
    """Inside, the Fp8Linear and GroupedLinear layers of ``module`` quantise their weights once a step instead of in every call.

    For the micro-batches of a step: the same results and gradients, less work. A weight is quantised again after a step of any
    torch.optim.Optimizer, after an in-place change that PyTorch counts, and when its memory, recipe or autocast is another.
    After a change that moves none of these (through ``.data``, an optimiser that is compiled or not a torch.optim.Optimizer)
    call ``new_step()`` of what the block gives. ``check`` compares a sum of each weight's bits in every call, which waits for
    the device: RuntimeError with the layer's name for such a change.
    """
    kept = KeptWeights(((name, layer) for name, layer in module.named_modules() if getattr(type(layer), "_codes_can_be_kept", False)), check)
    hook = register_optimizer_step_post_hook(lambda *_: kept.new_step())
    try:
        yield kept
    finally:
        hook.remove()
        kept._end()

"""FSDP2 that gathers weights as 8-bit codes: half of the bytes of bfloat16, and a quantisation of each shard instead of the whole."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any, ClassVar

import torch
from torch._utils import _rebuild_parameter
from torch.autograd.grad_mode import _unsafe_preserve_version_counter
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._pytree import tree_map_only

from .config import QuantConfig
from .modules import Fp8Linear
from .quantized import QuantizedTensor, cast

_aten = torch.ops.aten
# What fully_shard, to() and copies do to a parameter: the result is a weight again, as a view is, which it may be changed through.
_KEPT = {
    _aten.clone.default,
    _aten.copy_.default,
    _aten.empty_like.default,
    _aten.new_zeros.default,
    _aten._pin_memory.default,
    _aten._to_copy.default,
}


def _group(mesh: Any) -> Any:
    """The ranks that have the other shards: those of the last dimension of what FSDP2 was given."""
    return (mesh if mesh.ndim == 1 else mesh[mesh.mesh_dim_names[-1]]).get_group()


def _memory(weight: GatheredWeight) -> int:
    return weight.whole.untyped_storage().data_ptr()


class _Scales:
    """The scales of all weights of one model: one reduction for each process group, when one is needed and a weight of the group has changed.

    All ranks of a group have to find a change together. The local tensor of a DTensor is therefore no sign of one: FSDP2 pads it, in
    another tensor, where a shard has fewer rows than others.
    """

    def __init__(self, layers: list[Fp8Linear]) -> None:
        self._layers = [weakref.ref(layer) for layer in layers]
        self._weights: dict[int, Any] = {}  # DTensors, by layer
        self._kinds: dict[int, tuple[str, torch.dtype, torch.device]] = {}  # the name of the group first
        self._scales: dict[str, dict[int, torch.Tensor]] = {}  # of each group, by layer

    def forget(self) -> None:
        self._scales.clear()

    def _forget_group_of(self, index: int) -> None:
        if index in self._kinds:
            self._scales.pop(self._kinds[index][0], None)

    def written(self, weight: GatheredWeight) -> None:
        """Forgets what was made of the memory of ``weight``; a copy that is being made is no change."""
        known = self._weights.get(weight.index)
        if known is not None and _memory(known._local_tensor) == _memory(weight):
            self._forget_group_of(weight.index)

    def _know(self, index: int, weight: Any) -> None:
        kind = _group(weight.device_mesh).group_name, weight.dtype, weight.device
        if self._weights.get(index) is not weight or self._kinds[index] != kind:
            self._forget_group_of(index)
            self._weights[index], self._kinds[index] = weight, kind
            self._forget_group_of(index)

    def _collect(self) -> None:
        for index, ref in enumerate(self._layers):
            layer = ref()
            local = getattr(layer.weight, "_local_tensor", None) if layer is not None else None
            if layer is not None and isinstance(local, GatheredWeight):  # else gathered just now: the weight is known
                self._know(index, layer.weight)

    def of(self, layer: Any, weight: GatheredWeight, mesh: Any) -> torch.Tensor:
        """The scale of the weight of ``layer``; ``weight`` is its shard, or a copy of that on the device of the product."""
        group = _group(mesh)
        self._layers[weight.index] = weakref.ref(layer)  # another one in a copy of the model
        self._know(weight.index, layer.weight)
        if group.group_name not in self._scales:
            self._collect()
            self._make(group, weight.device)
        return self._scales[group.group_name][weight.index]

    def _make(self, group: Any, device: torch.device) -> None:
        shards = {at: self._weights[at]._local_tensor for at in sorted(self._weights) if self._kinds[at][0] == group.group_name}
        largest = torch.zeros(len(shards), 1, device=device)
        for row, shard in enumerate(shards.values()):
            x = shard.whole.detach().abs()
            if x.numel():
                largest[row] = torch.where(x.isfinite(), x, 0).amax()
        torch.distributed.all_reduce(largest, torch.distributed.ReduceOp.MAX, group)
        # By the operator's own rule: each a matrix of one element.
        configs = {shard.config for shard in shards.values()}
        made = {each: torch.ops.ridgeline.quantize(largest, each.forward_dtype, "row", each.rule)[1] for each in configs}
        self._scales[group.group_name] = {at: made[shard.config][row].view(1) for row, (at, shard) in enumerate(shards.items())}


_models: weakref.WeakSet[_Scales] = weakref.WeakSet()


def _after_step(*_: Any) -> None:
    for scales in _models:
        scales.forget()


class GatheredWeight(torch.Tensor):
    """The weight of an Fp8Linear, in its own dtype, which FSDP2 gathers as 8-bit codes. Everything else it does as a plain tensor."""

    whole: torch.Tensor
    config: QuantConfig
    scales: _Scales
    index: int  # type: ignore[assignment]

    __torch_function__: ClassVar[Any] = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, whole: torch.Tensor, config: QuantConfig, scales: _Scales, index: int) -> GatheredWeight:
        self = torch.Tensor._make_wrapper_subclass(
            cls, whole.shape, whole.stride(), whole.storage_offset(), dtype=whole.dtype, device=whole.device
        )
        self.whole, self.config, self.scales, self.index = whole, config, scales, index
        return self

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"GatheredWeight({self.whole!r})"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # In files a plain tensor or parameter.
        if getattr(self, "_is_param", False):
            return _rebuild_parameter, (self.whole, self.requires_grad, OrderedDict())
        plain: tuple[Any, ...] = self.whole.detach().requires_grad_(self.requires_grad).__reduce_ex__(protocol)  # type: ignore[no-untyped-call]
        return plain

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func._schema.is_mutable:  # no version tells: what is made here is below the count of versions
            given = dict(zip((argument.name for argument in func._schema.arguments), args)) | (kwargs or {})
            written = [given.get(argument.name) for argument in func._schema.arguments if argument.is_write]
            tree_map_only(GatheredWeight, lambda t: t.scales.written(t), written)
        first = args[0] if args and isinstance(args[0], GatheredWeight) else None
        plain_args, plain_kwargs = tree_map_only(GatheredWeight, lambda t: t.whole, (args, kwargs or {}))
        out = func(*plain_args, **plain_kwargs)
        if first is None or not (func.is_view or func in _KEPT):
            return out
        if func is _aten.copy_.default:
            return first
        return tree_map_only(torch.Tensor, lambda t: GatheredWeight(t, first.config, first.scales, first.index), out)

    def fsdp_pre_all_gather(
        self, mesh: Any, outer_size: torch.Size, outer_stride: tuple[int, ...], module: Any, mp_policy: Any
    ) -> tuple[tuple[torch.Tensor, ...], Any]:
        scale = self.scales.of(module, self, mesh)
        whole = self.whole.detach().float()
        codes = cast(whole, whole * scale.reciprocal(), self.config.forward_dtype).view(torch.uint8)
        missing = -(-outer_size[0] // mesh.size()) - codes.shape[0]  # of an uneven split
        if missing:
            codes = torch.nn.functional.pad(codes, (0, 0, 0, missing))
        return (codes,), (scale, outer_size[0])

    def fsdp_post_all_gather(
        self, outputs: tuple[torch.Tensor, ...], metadata: Any, param_dtype: torch.dtype, *, out: torch.Tensor | None = None
    ) -> Any:
        scale, rows = metadata
        codes = outputs[0][:rows].view(self.config.forward_dtype)
        if out is not None:
            # Into what the parameter is made of: the codes are there, gathered in place. Backward keeps these tensors.
            made = [out.q_t.view(torch.uint8), out.scale, out.scale_t]  # type: ignore[attr-defined]
            with torch.no_grad(), _unsafe_preserve_version_counter(tuple(made)):
                for target, new in zip(made, (codes.view(torch.uint8).t(), scale, scale)):
                    target.copy_(new)
            return None
        across = codes.view(torch.uint8).t().contiguous().view(codes.dtype)  # one scale for all: the codes of the transpose
        whole = QuantizedTensor(codes, scale.clone(), across, scale.clone(), "tensor", param_dtype)
        return whole, (across,)


def gather_in_fp8(module: torch.nn.Module) -> list[str]:
    """Before ``fully_shard``: weights of the Fp8Linear layers of ``module`` are gathered as 8-bit codes. Their names.

    Each shard is quantised where it lies, with the scale of the whole weight: one reduction for all layers of a process group,
    after each step of a torch.optim.Optimizer and each in-place change, which has to be made on every rank. Outputs and gradients
    are those of layers whose weights are gathered in high precision and quantised then, but for the rounding of the weight to the
    policy's ``param_dtype`` before.
    Optimisers, state dicts and checkpoints see the parameters as before. Layers of ``module`` that share a weight go on sharing it (and have to be in one
    call of ``fully_shard``, as FSDP2 asks). Granularity "tensorwise" only, and no weight that another kind of module has, too, as a tied embedding
    (ValueError with the name).
    """
    layers = {name: layer for name, layer in module.named_modules() if isinstance(layer, Fp8Linear)}
    if not layers:
        raise ValueError("gather_in_fp8: there is no Fp8Linear in the model; call swap_linears(model, QuantConfig()) first")
    for name, layer in layers.items():
        _check(name, layer)
    shared: dict[int, list[str]] = {}  # by weight, the layers that have it
    for name, layer in layers.items():
        shared.setdefault(id(layer.weight), []).append(name)
    _check_owners(module, layers, shared)
    scales = _Scales([layers[names[0]] for names in shared.values()])
    if not _models:
        register_optimizer_step_post_hook(_after_step)
    _models.add(scales)
    for index, names in enumerate(shared.values()):
        first = layers[names[0]]
        assert isinstance(first.config, QuantConfig)
        whole = GatheredWeight(first.weight.detach(), first.config, scales, index)
        weight = torch.nn.Parameter(whole, requires_grad=first.weight.requires_grad)
        for name in names:
            layers[name].weight = weight
    return list(layers)


def _check(name: str, layer: Fp8Linear) -> None:
    name, config = name or "the layer", layer.config
    if not isinstance(config, QuantConfig):
        raise ValueError(
            f"gather_in_fp8: {name} has a recipe of its own for each product, or delayed scaling ({config}), and "
            "gathered codes serve all products with the weight's own scale; use QuantConfig(granularity='tensorwise')"
        )
    if config.granularity != "tensorwise":
        raise ValueError(
            f"gather_in_fp8: {name} has granularity={config.granularity!r}, whose scales are not one for all "
            "shards; use QuantConfig(granularity='tensorwise'), or call this for submodules without the layer, which is then gathered in high precision"
        )
    local = getattr(layer.weight, "_local_tensor", None)
    if local is not None and not isinstance(local, GatheredWeight):
        raise ValueError(
            f"gather_in_fp8: the weight of {name} is a DTensor, and tensor-parallel weights are not supported; "
            "call this for submodules without such layers, and before fully_shard, which makes DTensors, too"
        )
    if type(layer.weight) is not torch.nn.Parameter:
        raise ValueError(
            f"gather_in_fp8: the weight of {name} is a {type(layer.weight).__name__}; call this once, before fully_shard"
        )


def _check_owners(module: torch.nn.Module, layers: dict[str, Fp8Linear], shared: dict[int, list[str]]) -> None:
    """Refuses a weight that something reads which takes no codes, or takes other ones."""
    for name, owner in module.named_modules():
        for key, parameter in owner._parameters.items():
            names = shared.get(id(parameter), [])
            if names and not (isinstance(owner, Fp8Linear) and key == "weight"):
                raise ValueError(
                    f"gather_in_fp8: the weight of {names[0]} is {f'{name}.{key}'.lstrip('.')}, too ({type(owner).__name__}), which takes no codes; "
                    "call this for submodules without the layer, which is then gathered in high precision"
                )
    for names in shared.values():
        others = [name for name in names if layers[name].config != layers[names[0]].config]
        if others:
            raise ValueError(
                f"gather_in_fp8: {names[0]} and {others[0]} share a weight and have different configs, {layers[names[0]].config} and "
                f"{layers[others[0]].config}; give them one"
            )


torch.serialization.add_safe_globals([GatheredWeight])

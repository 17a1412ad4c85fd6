"""``AdamW``: torch.optim.AdamW in one pass over memory, with masters in float32 and clipping by the global norm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from .config import QuantConfig
from .quantized import QuantizedTensor

Function = TypeVar("Function", bound=Callable[..., Any])

_adamw: Callable[..., None] = torch.ops.ridgeline.adamw_.default
_adamw_quantize: Callable[..., None] = torch.ops.ridgeline.adamw_quantize_.default
_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_STATES = (torch.float32, torch.bfloat16)
_STATE = ("exp_avg", "exp_avg_sq", "master")
_FALLS = 1 - 2**-8  # the largest beta whose step takes at least a bfloat16 step off every average of it


def _untraced(function: Function) -> Function:
    """Compiled code calls it as it is: a trace gains nothing from few calls of an operator, and cannot set attributes of an optimizer."""
    made: Function = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
    return made


_plain_kinds: dict[type, bool] = {}


def _plain(kind: type) -> bool:
    """Whether tensors of this class lie on one device in whole, and are there."""
    if kind not in _plain_kinds:
        _plain_kinds[kind] = not any(hasattr(kind, name) for name in ("to_local", "placements", "wait"))
    return _plain_kinds[kind]


def _local(tensor: Any) -> torch.Tensor:
    """This rank's part of a sharded parameter, gradient or state."""
    if _plain(type(tensor)):
        return tensor  # type: ignore[no-any-return]
    part: Any = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    local: torch.Tensor = part.wait() if hasattr(part, "wait") else part
    return local


def _of_parameter(param: Any) -> Any:
    """The gradient of a parameter, where that lies: shards and partial sums of another placement are reduced or moved."""
    grad = param.grad
    if _plain(type(param)) and _plain(type(grad)):
        return grad
    if not hasattr(param, "placements") and not hasattr(grad, "placements"):
        return grad
    if not (hasattr(param, "placements") and hasattr(grad, "placements")) or grad.device_mesh != param.device_mesh:
        raise RuntimeError(
            f"AdamW: a parameter of shape {tuple(param.shape)} and its gradient are not DTensors of one mesh; give the gradient by "
            "DTensor.from_local(gradient, parameter.device_mesh, placements)"
        )
    return grad if grad.placements == param.placements else grad.redistribute(param.device_mesh, param.placements)


def _squares(gradients: list[torch.Tensor]) -> torch.Tensor:
    """The sum of the squares of tensors on one device, float64. On a CPU from sums over 32768 elements in float64: one float32 sum of 10^8 would be off
    by percents. A GPU adds up in a tree, and in float32."""
    if gradients[0].is_cuda:
        norms = torch._foreach_norm(gradients, 2, torch.float32)  # pyright: ignore[reportPrivateImportUsage]
        return torch.stack(norms).double().square().sum()
    parts = [each.double() for gradient in gradients for each in torch.split(gradient.reshape(-1), 1 << 15)]
    return torch.stack([torch.dot(part, part) for part in parts]).sum()


def _total_norm(gradients: list[Any]) -> torch.Tensor:
    """The 2-norm of all of them, float32 [1], whatever dtype they have. Of shards that of all ranks, from one reduction for each way in which they lie."""
    alike: dict[Any, list[Any]] = {}
    for gradient in gradients:
        where = (gradient.device_mesh, gradient.placements) if hasattr(gradient, "placements") else None
        alike.setdefault((gradient.device, where), []).append(gradient)
    total: Any = None
    for (_, where), group in alike.items():
        squares: Any = _squares([_local(each) for each in group])
        if where is not None:
            from torch.distributed.tensor import DTensor, Partial, Replicate

            places = [Replicate() if place.is_replicate() else Partial() for place in where[1]]
            squares = DTensor.from_local(squares, where[0], places, run_check=False).full_tensor()
        total = squares if total is None else total + squares.to(total.device)
    norm: torch.Tensor = total.sqrt().float().reshape(1)
    return norm


@dataclass
class _Codes:
    """Where a weight's codes go, and how they are made."""

    codes: QuantizedTensor
    config: QuantConfig
    version: int = -1  # of the weight that they are of; -1: they were not written here

    def words(self) -> tuple[Any, ...]:
        """As the operator takes them behind the numbers of a step."""
        return self.codes.grouping, self.config.rule, self.config.random_words(self.codes.device, None)


class AdamW(torch.optim.Optimizer):
    """torch.optim.AdamW for parameters in float32, bfloat16 and float16, on a CPU or on a GPU (Ampere and later).

    params, lr, betas, eps, weight_decay, maximize
                    as torch.optim.AdamW; lr may be a tensor
    master_weights  keeps a copy in float32 of every parameter of 16 bits in the state, which the steps change: steps that 16 bits
                    cannot show are not lost
    state_dtype     of both averages: torch.float32 (default) or torch.bfloat16, which needs betas up to 1 - 2^-8: of a larger one a step takes
                    less off an average than bfloat16 shows, so that it would never fall again
    max_norm        the gradients of a step are scaled down to this global norm, in the same pass; ``last_norm`` is the norm before.
                    The gradients themselves stay as they are
    amsgrad, foreach, fused, capturable, differentiable
                    there for calls that are written for torch's: amsgrad, capturable and differentiable are refused, foreach and fused
                    mean nothing here

    A torch.amp.GradScaler leaves unscaling to the step, and steps that it finds infinite change nothing. Sharded parameters (FSDP2) are stepped
    where they lie; gradients that lie otherwise are reduced or moved first. On a GPU a launch steps dozens of parameters, and the host waits for
    what a GradScaler found. Parameters that are stepped together share the tensor of their ``state["step"]``. ``attach_codes`` has the
    codes of a weight made in the pass that steps it.
    """

    _step_supports_amp_scaling = True  # GradScaler then hands grad_scale and found_inf to step()

    def __init__(
        self,
        params: Iterable[torch.Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, torch.Tensor]],
        lr: float | torch.Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        master_weights: bool = False,
        state_dtype: torch.dtype = torch.float32,
        max_norm: float | None = None,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        for name, value in {"amsgrad": amsgrad, "capturable": capturable, "differentiable": differentiable}.items():
            if value:
                raise NotImplementedError(f"AdamW: {name}=True is not there; use torch.optim.AdamW")
        if max_norm is not None and not max_norm > 0:
            raise ValueError(f"AdamW: max_norm is {max_norm}; give a number above 0, or None")
        self.max_norm = max_norm
        self.last_norm: torch.Tensor | None = None
        self._codes: dict[torch.Tensor, _Codes] = {}
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "master_weights": master_weights,
            "state_dtype": state_dtype,
        }
        super().__init__(params, defaults)

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles, of which torch keeps groups and state alone."""
        return {**super().__getstate__(), "max_norm": self.max_norm, "last_norm": self.last_norm}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._codes = {}  # codes lie in a model, which a copy of the optimizer alone does not have

    def attach_codes(self, param: torch.Tensor, codes: QuantizedTensor, config: QuantConfig) -> None:
        """From the next step on ``codes`` are those of the weight ``param`` [n, k]: written by the launch that steps it, and bit for bit what
        ``quantize(weight, config, weight=True)`` would give of its master, or of ``param`` where there is none.

        codes   what ``quantize`` made with this config: of the matrix, of its transpose, or of both
        config  of the recipe of the layer that reads them

        A step that leaves ``param`` out, or that a GradScaler finds infinite, leaves its codes as they are. State dicts and copies of the
        optimizer hold no codes: attach them again. ``MasterWeights`` attaches those of its layers. ValueError for a parameter that is not one of
        this optimizer's, is sharded, no matrix or not contiguous, and for codes of another shape, place, format or grouping.
        """
        if not any(param is one for group in self.param_groups for one in group["params"]):
            raise ValueError(f"AdamW: codes for a parameter of shape {tuple(param.shape)} that this optimizer does not step")
        if not _plain(type(param)) or param.dim() != 2 or not param.is_contiguous():
            raise ValueError(
                f"AdamW: codes for a {type(param).__name__} of shape {tuple(param.shape)} and strides {tuple(param.stride())}; a contiguous matrix that "
                "lies on one device in whole has codes"
            )
        if codes.shape != param.shape or codes.device != param.device:
            raise ValueError(
                f"AdamW: codes of shape {tuple(codes.shape)} on {codes.device} for a parameter of shape {tuple(param.shape)} on {param.device}; "
                "quantize the parameter"
            )
        made = codes.q if codes.q is not None else codes.q_t
        if made is None or made.dtype != config.forward_dtype or codes.grouping != config.grouping(weight=True):
            raise ValueError(
                f"AdamW: {codes} is not what the config {config} makes of a weight; quantize(param, config, weight=True, transpose=True) is"
            )
        self._codes[param] = _Codes(codes, config)

    def codes_are_new(self, param: torch.Tensor) -> bool:
        """Whether the codes that are attached to ``param`` are of the weight as it is now."""
        attached = self._codes.get(param)
        return attached is not None and attached.version == param._version

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            self._check(group)
        except Exception:
            self.param_groups.pop()
            raise

    @staticmethod
    def _check_numbers(group: dict[str, Any]) -> None:
        lr, (beta1, beta2) = float(group["lr"]), group["betas"]
        for name, value, limit in (("lr", lr, None), ("betas[0]", beta1, 1), ("betas[1]", beta2, 1), ("eps", group["eps"], None), ("weight_decay", group["weight_decay"], None)):
            if not 0 <= value < (limit or float("inf")):
                raise ValueError(f"AdamW: {name} is {value}; give a number from 0" + (f" to below {limit}" if limit else ""))
        if group["state_dtype"] not in _STATES:
            raise TypeError(f"AdamW: state_dtype is {group['state_dtype']}; give torch.float32 or torch.bfloat16")
        if group["state_dtype"] == torch.bfloat16 and max(beta1, beta2) > _FALLS:
            raise ValueError(
                f"AdamW: state_dtype is torch.bfloat16 and betas are {(beta1, beta2)}: a step that takes less than 1/256 off an average is lost in "
                f"bfloat16; give betas up to {_FALLS}, or state_dtype=torch.float32"
            )

    def _check(self, group: dict[str, Any]) -> None:
        self._check_numbers(group)
        for param in group["params"]:
            if param.dtype not in _TYPES:
                raise TypeError(f"AdamW: a parameter of shape {tuple(param.shape)} is {param.dtype}; float32, bfloat16 and float16 are stepped")

    def _state_of(self, param: torch.Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = self.state[param]
        if not state:
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = torch.zeros_like(param, dtype=group["state_dtype"], memory_format=torch.preserve_format)
        if group["master_weights"] and param.dtype != torch.float32 and "master" not in state:
            state["master"] = param.detach().to(torch.float32, memory_format=torch.preserve_format)
        return state

    def _count(self, states: list[dict[str, Any]]) -> list[float]:
        """Counts a step of each state, and says the counts. States at one count share its tensor, so that a thousand cost one addition; what takes no part
        in this step keeps its own."""
        sharers = Counter(id(state["step"]) for state in self.state.values() if "step" in state)
        together: dict[int | None, list[dict[str, Any]]] = {}
        for state in states:
            together.setdefault(id(state["step"]) if "step" in state else None, []).append(state)
        counted: dict[float, torch.Tensor] = {}
        for which, some in together.items():
            if which is None:
                count = torch.tensor(1.0)
            elif len(some) == sharers[which]:
                count = some[0]["step"].add_(1.0)
            else:
                count = some[0]["step"] + 1.0
            count = counted.setdefault(float(count), count)
            for state in some:
                state["step"] = count
        counts = {id(tensor): value for value, tensor in counted.items()}
        return [counts[id(state["step"])] for state in states]

    def _factor(self, gradients: list[torch.Tensor]) -> torch.Tensor | None:
        """What the gradients are multiplied with: out of a loss scale, and down to max_norm."""
        scale = getattr(self, "grad_scale", None)
        if not gradients:
            return None
        factor = None if scale is None else scale.double().reciprocal().float().reshape(1).to(gradients[0].device)
        if self.max_norm is None:
            return factor
        found = _total_norm(gradients)
        norm = found if factor is None else found * factor.to(found.device)
        self.last_norm = norm[0]
        cut: torch.Tensor = (self.max_norm / (norm + 1e-6)).clamp(max=1.0)
        return cut if factor is None else factor.to(cut.device) * cut

    @_untraced
    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step for every parameter that has a gradient; what ``closure`` gives, called with gradients on."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        # By the parameter: one that a group has twice, of which torch warns, is stepped once.
        found = list({id(param): (group, param) for group in self.param_groups for param in group["params"] if param.grad is not None}.values())
        for _, param in found:
            if param.grad.is_sparse:
                raise RuntimeError("AdamW: a gradient is sparse; use torch.optim.SparseAdam, or an embedding with sparse=False")
        infinite = getattr(self, "found_inf", None)
        if infinite is not None and bool(infinite):
            return loss
        gradients = [_of_parameter(param) for _, param in found]
        factor = self._factor(gradients)
        states = [self._state_of(param, group) for group, param in found]
        counts = self._count(states)
        # Of a group, at one count of steps, with masters or without, on one device.
        runs: dict[tuple[int, float, bool, torch.device], list[tuple[torch.Tensor, Any, dict[str, Any]]]] = {}
        for (group, param), gradient, state, count in zip(found, gradients, states, counts, strict=True):
            runs.setdefault((id(group), count, "master" in state, param.device), []).append((param, gradient, state))
        groups = {id(group): group for group in self.param_groups}
        for (which, count, has_master, device), some in runs.items():
            there = None if factor is None else factor.to(device)
            self._run(groups[which], count, has_master, some, there)
        return loss

    def _run(
        self, group: dict[str, Any], count: float, has_master: bool, some: list[tuple[torch.Tensor, Any, dict[str, Any]]], factor: torch.Tensor | None
    ) -> None:
        parts, gradients, states = [], [], {name: [] for name in _STATE}  # type: ignore[var-annotated]
        names = _STATE if has_master else _STATE[:2]
        beta1, beta2 = group["betas"]
        numbers = float(group["lr"]), beta1, beta2, group["eps"], group["weight_decay"], count, group["maximize"]
        for param, given, state in some:
            part, gradient = _local(param), _local(given)
            if gradient.stride() != part.stride():
                gradient = torch.empty_like(part, dtype=gradient.dtype).copy_(gradient)
            locals_ = {name: _local(state[name]) for name in names}
            attached = self._codes.get(param)
            if attached is not None:
                _adamw_quantize(
                    part, gradient, *(locals_.get(name) for name in _STATE), *attached.codes._parts(), factor, None, *numbers, *attached.words()
                )
                torch.autograd.graph.increment_version(attached.codes)
                attached.version = param._version
                continue
            parts.append(part)
            gradients.append(gradient)
            for name in names:
                states[name].append(locals_[name])
        if parts:
            _adamw(parts, gradients, *(states[name] for name in _STATE), factor, None, *numbers)

    def state_dict(self) -> dict[str, Any]:
        """As torch's. Every parameter has a count of steps of its own in it, and shares one again at the next step: torch's optimizers would count a shared
        one once for each parameter, and a checkpoint that is read into it in place may hold several counts."""
        seen: set[int] = set()
        for state in self.state.values():
            if "step" not in state:
                continue
            if id(state["step"]) in seen:
                state["step"] = state["step"].clone()
            seen.add(id(state["step"]))
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Also what torch.optim.AdamW saved. As torch's, which would round averages and masters to the dtype of their parameters."""
        for group in state_dict["param_groups"]:
            self._check_numbers({**self.defaults, **group})
        super().load_state_dict(state_dict)
        names = (name for group in state_dict["param_groups"] for name in group["params"])
        for group in self.param_groups:
            for key, value in self.defaults.items():
                group.setdefault(key, value)
            for param in group["params"]:
                given = state_dict["state"].get(next(names), {})
                if "step" in given:  # torch's fused steps are counted on the device, and those of old versions are no tensors
                    self.state[param]["step"] = torch.as_tensor(given["step"]).detach().to("cpu", torch.float32, copy=True)
                for key in _STATE:
                    if isinstance(given.get(key), torch.Tensor):
                        dtype = torch.float32 if key == "master" else group["state_dtype"]
                        held = given[key].detach().to(param.device, dtype, copy=True)
                        if held.stride() != param.stride():  # saved of a parameter in another order of memory
                            held = torch.empty_like(param, dtype=dtype).copy_(held)
                        self.state[param][key] = held

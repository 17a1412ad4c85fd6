"""Weights that are trained as codes alone: ``MasterWeights`` keeps the numbers that an optimiser changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils import parametrize

from ._recipe import as_recipe
from .adamw import AdamW
from .config import QuantConfig
from .modules import Fp8Linear
from .products import weight_config
from .quantized import QuantizedTensor, quantize

Named = list[tuple[str, torch.nn.Parameter]]


@dataclass
class _Pair:
    """A parameter of the model and its master in float32, which is itself for one that has 32 bits or more."""

    name: str
    weight: torch.nn.Parameter
    master: torch.nn.Parameter
    config: QuantConfig | None  # how its codes are made; None: it has none
    holder: tuple[torch.nn.Module, str]  # a module that has the weight, and its name there
    version: int = 0  # of the weight, when it was last written here

    @property
    def own(self) -> bool:
        return self.master is self.weight

    def check(self) -> None:
        layer, name = self.holder
        if layer._parameters.get(name) is not self.weight:
            raise RuntimeError(
                f"MasterWeights: {self.name} of the model is another parameter now (load_state_dict(assign=True), a new recipe); make "
                "MasterWeights after that"
            )
        if not self.own and self.weight._version != self.version:
            raise RuntimeError(
                f"MasterWeights: {self.name} was changed by something else since the last step, and its master was not; call "
                "read_masters() to take the model's weights, or load_state_dict() after the model's"
            )

    def write(self, coded: bool = False) -> None:
        """The weight becomes what the master is; ``coded``: its codes were written already."""
        if self.config is None:
            self.weight.copy_(self.master)
        elif not coded:
            self.weight.copy_(quantize(self.master.detach(), self.config, weight=True, transpose=True))
        self.version = self.weight._version

    def read(self) -> None:
        weight = self.weight
        self.master.copy_(weight.dequantize(torch.float32) if isinstance(weight, QuantizedTensor) else weight)
        self.version = weight._version

    def kept(self) -> torch.Tensor | None:
        """Where a trainer adds up gradients."""
        found: torch.Tensor | None = getattr(self.weight, "main_grad", None)
        return found

    def gradient(self) -> torch.Tensor | None:
        """All that has arrived for the master: what a trainer keeps has all of it; else what was taken before, and since."""
        kept, arrived, taken = self.kept(), self.weight.grad, self.master.grad
        if kept is not None:
            return kept.to(self.master.dtype)
        if self.own or arrived is None:
            return taken
        wide = arrived.to(self.master.dtype)
        return wide if taken is None else taken + wide


def _users(module: torch.nn.Module) -> dict[int, list[tuple[torch.nn.Module, str]]]:
    """The modules that hold each parameter, and what they call it."""
    users: dict[int, list[tuple[torch.nn.Module, str]]] = {}
    for layer in module.modules():
        for name, parameter in layer._parameters.items():
            if parameter is not None:
                users.setdefault(id(parameter), []).append((layer, name))
    return users


def _config_of(weight: torch.nn.Parameter, users: list[tuple[torch.nn.Module, str]]) -> QuantConfig | str:
    """How the codes of a weight are made, or why it has to stay a matrix."""
    if isinstance(weight, QuantizedTensor):
        return "it has codes already, which quantize_ made for inference"
    if type(weight) is not torch.nn.Parameter:
        return f"it is a {type(weight).__name__}; gather_in_fp8 serves weights that are sharded"
    if weight._backward_hooks or getattr(weight, "_post_accumulate_grad_hooks", None):
        return "it has hooks, which would not run for codes"
    configs = set()
    for layer, name in users:
        if not isinstance(layer, Fp8Linear):
            kind = type(layer).__name__
            return f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind} reads it, too"
        if name != "weight" or parametrize.is_parametrized(layer, "weight"):
            return "it is computed in each call (a parametrisation)"
        configs.add(weight_config(as_recipe(layer.config)))
    config = configs.pop()
    if config is None:
        return "its recipe reads it in more than one format, or by delayed scaling"
    return "layers that share it have different recipes" if configs else config


class MasterWeights(torch.optim.Optimizer):
    """An optimiser whose Fp8Linear layers keep their weights as codes alone; float32 masters are what it changes.

    module  whose layers ``convert`` or ``swap_linears`` gave their recipes. Weights of Fp8Linear layers become codes of the matrix and of
            its transpose (QuantizedTensor parameters that ask for gradients); parameters of 16 bits get a master, too; those of float32
            are their own
    make    gets [(name, master), ...] of all parameters that ask for gradients, and gives a torch.optim.Optimizer for them:
            ``lambda named: torch.optim.AdamW(named, lr=1e-4)``

    Make it before DistributedDataParallel, which then takes ``init_sync=False`` and starts every rank from the weights that it has. ``step()`` reads ``grad`` of the model's parameters (or
    ``main_grad``, where a trainer keeps that), steps the masters, and makes the codes anew, by one rounding from float32; results are those of
    layers with float32 weights. ``rt.AdamW`` writes the codes in the pass that steps, other optimisers are followed by one that quantises. A weight [n, k] takes 2 n k bytes in the model instead of 2 n k and codes in each call. The state dict is
    the optimiser's, with ``masters``; load the model's, then this. ``coded`` lists the weights that are codes, ``left`` says why others
    of these layers are not. ValueError for what ``make`` gives wrong; RuntimeError in ``step`` for a weight that something else changed.
    """

    def __init__(self, module: torch.nn.Module, make: Callable[[Named], torch.optim.Optimizer]) -> None:
        if isinstance(module, torch.nn.parallel.DistributedDataParallel):
            raise ValueError(
                "MasterWeights: DistributedDataParallel holds on to the parameters that it was made with; give its module, and wrap "
                "that afterwards: DistributedDataParallel(module, init_sync=False)"
            )
        users, self.left, pairs = _users(module), {}, []
        for name, weight in module.named_parameters():
            if not weight.requires_grad:
                continue
            of_layer = any(isinstance(layer, Fp8Linear) and one == "weight" for layer, one in users[id(weight)])
            config = _config_of(weight, users[id(weight)]) if of_layer else None
            if isinstance(config, str):
                self.left[name], config = config, None
            own = config is None and weight.dtype not in (torch.bfloat16, torch.float16)
            master = weight if own else torch.nn.Parameter(weight.detach().to(torch.float32))
            pairs.append(_Pair(name, weight, master, config, users[id(weight)][0]))
        named = [(pair.name, pair.master) for pair in pairs]
        self._inner = _checked(make(list(named)), named)
        super().__init__(self._inner.param_groups, self._inner.defaults)
        self._share()
        for pair in pairs:
            if pair.config is not None:
                _exchange(pair, users)
            pair.version = pair.weight._version
        self._pairs = pairs
        self._attach()

    @property
    def coded(self) -> list[str]:
        return [pair.name for pair in self._pairs if pair.config is not None]

    def _attach(self) -> None:
        """An AdamW of ours writes the codes of a weight where it steps its master."""
        if not isinstance(self._inner, AdamW):
            return
        for pair in self._pairs:
            if pair.config is not None and pair.master.is_contiguous():
                assert isinstance(pair.weight, QuantizedTensor)
                self._inner.attach_codes(pair.master, pair.weight, pair.config)

    def _share(self) -> None:
        """Groups and state are the inner optimiser's, so that schedulers work on them."""
        self.param_groups, self.state = self._inner.param_groups, self._inner.state

    def take_gradients(self) -> None:
        """Moves gradients to the masters now and not in ``step``: for what works on those, ``GradScaler`` and clipping of ``param_groups``."""
        with torch.no_grad():
            for pair in self._pairs:
                found, kept = pair.gradient(), pair.kept()
                if kept is not None:
                    pair.master.grad = None if found is None else found.clone()  # the trainer's stays as it is
                elif not pair.own:
                    pair.master.grad, pair.weight.grad = found, None

    def step(self, closure: Any = None) -> Any:
        for pair in self._pairs:
            pair.check()
        if not self._unscaled():
            return None
        before = {id(pair): pair.master.grad for pair in self._pairs}
        moved = False

        def lend() -> None:
            for pair in self._pairs:
                pair.master.grad = pair.gradient()

        def evaluate() -> Any:
            nonlocal moved
            if moved:  # an optimiser that searches along a line has moved the masters
                self._write()
                self._give_back(before)
            moved = True
            loss = closure()
            lend()
            return loss

        try:
            with torch.no_grad():
                if closure is None and not self._scaled:
                    lend()
                result = self._inner.step(None if closure is None else evaluate)
                self._write()
        except BaseException:
            self._give_back(before)
            raise
        for pair in self._pairs:
            if not pair.own:
                pair.master.grad = None
            elif pair.kept() is not None:
                pair.master.grad = before[id(pair)]
        return result

    def _give_back(self, before: dict[int, torch.Tensor | None]) -> None:
        for pair in self._pairs:
            if not pair.own or pair.kept() is not None:
                pair.master.grad = before[id(pair)]

    # GradScaler then leaves it to step() what becomes of infinities and of the scale.
    _step_supports_amp_scaling = True
    found_inf: Any
    grad_scale: Any

    @property
    def _scaled(self) -> bool:
        return hasattr(self, "found_inf")

    def _unscaled(self) -> bool:
        """Whether there is a step to take; under a GradScaler, which sets ``found_inf`` and ``grad_scale``, of gradients without its scale."""
        if not self._scaled:
            return True
        for pair in self._pairs:
            late = pair.kept() is not None and pair.master.grad is None
            if late or (not pair.own and pair.kept() is None and pair.weight.grad is not None):
                del self.found_inf, self.grad_scale  # what the scaler left for this step alone
                raise RuntimeError(
                    f"MasterWeights: a GradScaler has not seen the gradient of {pair.name}, which its master had not got yet; call "
                    "take_gradients() after backward, before scaler.unscale_() and scaler.step()"
                )
        if float(self.found_inf):
            for pair in self._pairs:
                if not pair.own:
                    pair.master.grad = None
            return False
        scale = self.grad_scale
        if scale is not None:
            for pair in self._pairs:
                if pair.master.grad is not None:
                    pair.master.grad = pair.master.grad / scale.to(pair.master.grad.device)
        return True

    @torch.no_grad()
    def _write(self) -> None:
        for pair in self._pairs:
            if not pair.own and pair.master.grad is not None:
                pair.write(coded=isinstance(self._inner, AdamW) and self._inner.codes_are_new(pair.master))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Of the model's parameters; a ``main_grad`` is the trainer's to clear."""
        self._inner.zero_grad(set_to_none)
        for pair in self._pairs:
            if pair.own:
                continue
            pair.master.grad = None
            if set_to_none:
                pair.weight.grad = None
            elif pair.weight.grad is not None:
                pair.weight.grad.zero_()

    @property
    def _mastered(self) -> list[_Pair]:
        return [pair for pair in self._pairs if not pair.own]

    def read_masters(self) -> None:
        """Masters become what the model's weights stand for: after weights alone were loaded."""
        with torch.no_grad():
            for pair in self._mastered:
                pair.read()

    def state_dict(self) -> dict[str, Any]:
        for before in self._optimizer_state_dict_pre_hooks.values():
            before(self)
        state = {**self._inner.state_dict(), "masters": {pair.name: pair.master.detach() for pair in self._mastered}}
        for after in self._optimizer_state_dict_post_hooks.values():
            state = after(self, state) or state
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state_dict = dict(state_dict)
        for before in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = before(self, state_dict) or state_dict
        given = state_dict.get("masters")
        if given is None:
            raise ValueError("MasterWeights: the state has no masters: it is of another optimiser; load the model's weights and call read_masters()")
        own = {pair.name: tuple(pair.master.shape) for pair in self._mastered}
        theirs = {name: tuple(master.shape) for name, master in given.items()}
        if own != theirs:
            differ = sorted(name for name in own.keys() | theirs.keys() if own.get(name) != theirs.get(name))
            raise ValueError(
                f"MasterWeights: the state is of another model: {', '.join(f'{n} is {theirs.get(n)} there and {own.get(n)} here' for n in differ[:5])}"
            )
        self._inner.load_state_dict({name: value for name, value in state_dict.items() if name != "masters"})
        self._share()
        with torch.no_grad():
            for pair in self._mastered:
                pair.master.copy_(given[pair.name])
                pair.write()
        for after in self._optimizer_load_state_dict_post_hooks.values():
            after(self)

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles, together with the model: its parameters stay the ones that are stepped."""
        return {**super().__getstate__(), "_inner": self._inner, "_pairs": self._pairs, "left": self.left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._share()
        self._attach()
        for pair in self._pairs:
            pair.version = pair.weight._version

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if hasattr(self, "_pairs"):
            raise NotImplementedError("MasterWeights: parameters are those of its module; make it again for a model with more")
        super().add_param_group(param_group)

    def __repr__(self) -> str:
        lines = [f"MasterWeights({type(self._inner).__name__}, {len(self.coded)} weights as codes, {len(self._mastered)} masters)"]
        return "\n".join(lines + [f"  left: {name}: {reason}" for name, reason in self.left.items()])


def _checked(inner: Any, named: Named) -> torch.optim.Optimizer:
    if not isinstance(inner, torch.optim.Optimizer):
        raise ValueError(f"MasterWeights: make gave {type(inner).__name__}; it must give a torch.optim.Optimizer")
    known = {id(master) for _, master in named}
    for group in inner.param_groups:
        for each in group["params"]:
            if id(each) not in known:
                raise ValueError(
                    f"MasterWeights: make gave an optimiser of a parameter of shape {tuple(each.shape)} that it was not given; make it of "
                    "the masters that it gets, not of model.parameters()"
                )
    return inner


def _exchange(pair: _Pair, users: dict[int, list[tuple[torch.nn.Module, str]]]) -> None:
    """Puts codes in the place of a weight, with its attributes (main_grad and a trainer's marks)."""
    assert pair.config is not None
    old = pair.weight
    codes = quantize(pair.master.detach(), pair.config, weight=True, transpose=True)
    pair.weight = torch.nn.Parameter(codes._map(lambda part: part, old.dtype))
    vars(pair.weight).update({name: value for name, value in vars(old).items() if name not in vars(pair.weight)})
    for layer, name in users[id(old)]:
        layer._parameters[name] = pair.weight

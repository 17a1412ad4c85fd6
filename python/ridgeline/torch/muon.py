"""``Muon``: torch.optim.Muon by symmetric products, for many matrices at a time; and the step of Newton and Schulz that it is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from .adamw import _plain, _untraced
from .ops import gemm, symmetric_product

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ADJUSTMENTS = (None, "original", "match_rms_adamw")
_TOGETHER = 1 << 26  # elements of the matrices that are orthogonalised in one batch: what is beside them in memory is a few times as much


def _check_iteration(what: str, steps: int, coefficients: Any, eps: float) -> None:
    if not (isinstance(steps, int) and 0 <= steps < 100):
        raise ValueError(f"{what}: {steps} steps; give a whole number from 0 to below 100")
    if len(coefficients) != 3 or not all(math.isfinite(each) for each in coefficients):
        raise ValueError(f"{what}: the coefficients are {tuple(coefficients)}; give three finite numbers")
    if not eps > 0:
        raise ValueError(f"{what}: eps is {eps}; give a number above 0")


def newton_schulz(
    x: torch.Tensor,
    steps: int = 5,
    coefficients: tuple[float, float, float] = _COEFFICIENTS,
    *,
    eps: float = 1e-7,
    dtype: torch.dtype = torch.bfloat16,
) -> torch.Tensor:
    """Matrices [..., m, n] with singular values near 1 and the singular vectors of x, in ``dtype``: ``steps`` times X = aX + b(XX')X + c(XX')^2 X.

    X begins as x over its Frobenius norm, which is taken in float32 and not below ``eps``. A step is two symmetric products, which compute half of
    their tiles, and one product: (aI + bA + cA^2) X of A = XX', or from the other side where the matrix is taller than wide. aI is part of the
    matrix that is rounded to ``dtype``, so each step may scale a row of X by 1 +- 2^-9 in bfloat16, beside polynomials that leave singular
    values between 0.7 and 1.2.
    """
    _check_iteration("newton_schulz", steps, coefficients, eps)
    if x.dim() < 2:
        raise ValueError(f"newton_schulz: x has shape {tuple(x.shape)}; give matrices")
    norm: torch.Tensor = torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True, dtype=torch.float64 if x.dtype == torch.float64 else torch.float32)
    matrix: torch.Tensor = (x / norm.clamp(min=eps)).to(dtype).contiguous()
    if x.numel() == 0:
        return matrix
    tall = x.shape[-2] > x.shape[-1]
    a, b, c = (float(each) for each in coefficients)
    whole = matrix.shape
    if x.dim() != 2:
        matrix = matrix.reshape(-1, *whole[-2:])
    for _ in range(steps):
        gram = symmetric_product(matrix, tall)
        factor = symmetric_product(gram, alpha=c, residual=gram, beta=b, shift=a)
        matrix = gemm(matrix, factor) if tall else gemm(factor, matrix)
    made: torch.Tensor = matrix.reshape(whole)
    return made


def _adjusted(lr: float, adjust_lr_fn: str | None, shape: torch.Size) -> float:
    rows, columns = shape
    if adjust_lr_fn == "match_rms_adamw":
        return lr * 0.2 * math.sqrt(max(rows, columns))
    return lr * math.sqrt(max(1.0, rows / columns))


class Muon(torch.optim.Optimizer):
    """torch.optim.Muon for matrices in float32, bfloat16 and float16, on a CPU or on a GPU.

    params, lr, weight_decay, momentum, nesterov, ns_coefficients, eps, ns_steps, adjust_lr_fn
                    as torch.optim.Muon; lr may be a tensor

    Parameters of one shape and dtype are orthogonalised together, in batches. ``state_dict`` is torch.optim.Muon's, and each reads the other's.
    Parameters that are no matrices belong to another optimizer (``AdamW``), and sharded ones are refused: a step needs whole matrices.
    """

    def __init__(
        self,
        params: Iterable[torch.Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, torch.Tensor]],
        lr: float | torch.Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = _COEFFICIENTS,
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        try:
            self._check(self.param_groups[-1])
        except Exception:
            self.param_groups.pop()
            raise

    @staticmethod
    def _check_numbers(group: dict[str, Any]) -> None:
        if isinstance(group["lr"], torch.Tensor) and group["lr"].numel() != 1:
            raise ValueError(f"Muon: lr is a tensor of shape {tuple(group['lr'].shape)}; give one number")
        for name, limit in (("lr", None), ("momentum", 1), ("weight_decay", None)):
            value = float(group[name])
            if not 0 <= value < (limit or math.inf):
                raise ValueError(f"Muon: {name} is {value}; give a number from 0" + (f" to below {limit}" if limit else ""))
        if group["adjust_lr_fn"] not in _ADJUSTMENTS:
            raise ValueError(f"Muon: adjust_lr_fn is {group['adjust_lr_fn']!r}; give 'original', 'match_rms_adamw' or None")
        _check_iteration("Muon", group["ns_steps"], group["ns_coefficients"], group["eps"])

    def _check(self, group: dict[str, Any]) -> None:
        self._check_numbers(group)
        for param in group["params"]:
            if param.dim() != 2:
                raise ValueError(f"Muon: a parameter has shape {tuple(param.shape)}; give matrices, and the others to AdamW")
            if not param.is_floating_point():
                raise TypeError(f"Muon: a parameter of shape {tuple(param.shape)} is {param.dtype}; real matrices are stepped")
            if not _plain(type(param)):
                raise NotImplementedError(
                    f"Muon: a parameter of shape {tuple(param.shape)} is sharded ({type(param).__name__}), and a step needs whole matrices; use it "
                    "without FSDP2 and tensor parallelism, or another optimizer for this parameter"
                )

    @_untraced
    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step for every parameter that has a gradient; what ``closure`` gives, called with gradients on."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            alike: dict[Any, list[torch.Tensor]] = {}
            for param in {id(param): param for param in group["params"] if param.grad is not None}.values():
                if param.grad.is_sparse:
                    raise RuntimeError("Muon: a gradient is sparse; use torch.optim.SparseAdam, or an embedding with sparse=False")
                state = self.state[param]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(param.grad, memory_format=torch.preserve_format)
                alike.setdefault((param.shape, param.dtype, param.grad.dtype, param.device), []).append(param)
            for some in alike.values():
                many = max(1, _TOGETHER // max(1, some[0].numel()))
                for first in range(0, len(some), many):
                    self._run(group, some[first : first + many])
        return loss

    def _run(self, group: dict[str, Any], params: list[torch.Tensor]) -> None:
        gradients: list[Any] = [param.grad for param in params]
        averages = [self.state[param]["momentum_buffer"] for param in params]
        momentum, lr = group["momentum"], float(group["lr"])
        torch._foreach_lerp_(averages, gradients, 1 - momentum)  # pyright: ignore[reportPrivateImportUsage]
        updates = torch._foreach_lerp(gradients, averages, momentum) if group["nesterov"] else averages  # pyright: ignore[reportPrivateImportUsage]
        together = updates[0] if len(updates) == 1 else torch.stack(list(updates))
        made = newton_schulz(together, group["ns_steps"], group["ns_coefficients"], eps=group["eps"])
        adjusted = _adjusted(lr, group["adjust_lr_fn"], params[0].shape)
        for param, update in zip(params, [made] if len(params) == 1 else made.unbind(), strict=True):
            param.mul_(1 - lr * group["weight_decay"])  # not by _foreach_mul_, which rounds the factor to bfloat16 on a CPU
            param.add_(update, alpha=-adjusted)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Also what torch.optim.Muon saved."""
        for group in state_dict["param_groups"]:
            self._check_numbers({**self.defaults, **group})
        super().load_state_dict(state_dict)

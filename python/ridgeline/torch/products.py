"""The three products of a layer, each made as a Recipe says: y = x w^T + bias, dx = dy w, dw = dy^T x."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import torch

from . import delayed, sharding
from ._recipe import Recipe
from .config import QuantConfig, random_words
from .ops import autocast, scaling_of, transformed
from .quantized import Parts, QuantizedTensor

_gemm = torch.ops.ridgeline.gemm.default
_gemm_add = torch.ops.ridgeline.gemm_add_.default
_scaled = torch.ops.ridgeline.gemm_fp8_scaled.default
_scaled_add = torch.ops.ridgeline.gemm_fp8_scaled_add_.default
_quantize = torch.ops.ridgeline.quantize.default


class Spec(NamedTuple):
    """To what an operand is quantised for one product."""

    dtype: torch.dtype
    grouping: str
    rule: str
    stochastic: bool = False


class Codes(NamedTuple):
    """8-bit codes of a matrix, or of its transpose, with scales along the columns."""

    q: torch.Tensor
    scale: torch.Tensor


class Observer(Protocol):
    """Who is shown the operands and results of a layer (``statistics``)."""

    def operand(self, name: str, matrix: torch.Tensor, codes: Codes | None, transposed: bool, grouping: str) -> None: ...

    def product(self, name: str, left: torch.Tensor, right: torch.Tensor, result: torch.Tensor, quantised: bool) -> None: ...

    def finished(self, phase: str) -> None: ...


def specs_of(config: QuantConfig | None, product: str) -> tuple[Spec | None, Spec | None]:
    """Of the left and the right operand of a product: x and w, dy and w, dy and x."""
    if config is None:
        return None, None
    left = config.forward_dtype if product == "y" else config.grad_dtype
    random = config.rounding == "stochastic" and product != "y"
    return (
        Spec(left, config.grouping(), config.rule, random),
        Spec(config.forward_dtype, config.grouping(weight=product != "dw"), config.rule),
    )


def _specs(recipe: Recipe, product: str) -> tuple[Spec | None, Spec | None]:
    return specs_of(getattr(recipe, product), product)


def _one(x: torch.Tensor, along: Spec | None, across: Spec | None) -> tuple[Codes | None, Codes | None]:
    """By one call of ``quantize``: codes of x, of its transpose, or of both if their specs are equal."""
    spec = along or across
    if spec is None:
        return None, None
    if spec.grouping in ("tensor", "row") and not spec.stochastic and sharding.is_sharded(x):
        q, scale, q_t, scale_t = sharding.quantised(x, spec.dtype, spec.grouping, spec.rule, along is not None, across is not None)
        return Codes(q, scale) if along else None, Codes(q_t, scale_t) if across else None
    random = random_words(x.device) if spec.stochastic else None
    q, scale, q_t, scale_t = _quantize(x, spec.dtype, spec.grouping, spec.rule, along is not None, across is not None, random)
    return Codes(q, scale) if along else None, Codes(q_t, scale_t) if across else None


def weight_config(recipe: Recipe) -> QuantConfig | None:
    """By which ``quantize`` makes both copies of a weight that the recipe reads; None: there is no such one."""
    along, across = _specs(recipe, "y")[1], _specs(recipe, "dx")[1]
    if recipe.delayed is not None or recipe.y is None or along != across:
        return None
    return replace(recipe.y, rounding="nearest")


class Late(NamedTuple):
    """Of an operand with delayed scaling: the largest magnitude that its scale is made of, 0 if there is none, and where its own goes."""

    amax: torch.Tensor
    now: torch.Tensor | None


def _one_late(x: torch.Tensor, along: Spec | None, across: Spec | None, late: Late) -> tuple[Codes | None, Codes | None]:
    """As ``_one``."""
    spec = along or across
    if spec is None:
        return None, None
    row, column = along is not None, across is not None
    if sharding.is_placed(x):
        delayed.record(x, late.now)
        q, scale, q_t, scale_t = sharding.quantised(x, spec.dtype, "tensor", spec.rule, row, column, late.amax)
    else:
        q, scale, q_t, scale_t = delayed.codes(x, *late, spec.dtype, spec.rule, row, column)
    return Codes(q, scale) if along else None, Codes(q_t, scale_t) if across else None


def copies(
    x: torch.Tensor, along: Spec | None, across: Spec | None, late: Late | None = None
) -> tuple[Codes | None, Codes | None]:
    """Codes of x as the left factor of a product, and of its transpose; with a delayed scale, or those of x itself."""
    if x.stride(1) != 1 and x.stride(0) == 1 and not x.is_contiguous():  # column-major: quantised as its transpose, without a copy
        of_transpose = copies(x.t(), across, along, late)
        return of_transpose[1], of_transpose[0]
    if late is not None:
        if along is None and across is None:
            delayed.record(x, late.now)
        if along is None or across is None or along == across:
            return _one_late(x, along, across, late)
        return _one_late(x, along, None, late)[0], _one_late(x, None, across, late)[1]
    if along is None or across is None or along == across:
        return _one(x, along, across)
    return _one(x, along, None)[0], _one(x, None, across)[1]


def _sums(config: QuantConfig, product: str, scaling: str) -> str:
    return config.sums or ("fast" if product == "y" and scaling in ("tensor", "row") else "promoted")


def _multiply(
    config: QuantConfig, product: str, left: Codes | None, right: Codes | None, out: torch.dtype, bias: torch.Tensor | None = None,
    add_to: torch.Tensor | None = None,
) -> torch.Tensor | None:
    assert left is not None and right is not None
    scaling = scaling_of(config.grouping(), config.grouping(weight=product != "dw"))
    sums = _sums(config, product, scaling)
    if sharding.is_sharded(left.q) or sharding.is_sharded(right.q):
        of_left, of_right = sharding.aligned(left.q, right.q)
        left, right = Codes(of_left, left.scale), Codes(of_right, right.scale)
    if add_to is not None:
        _scaled_add(add_to, left.q, right.q, left.scale, right.scale, False, True, scaling, sums)
        return None
    made: torch.Tensor = _scaled(left.q, right.q, left.scale, right.scale, False, True, out, scaling, sums, bias)
    return made


def _codes_of_weight(parts: Parts, weight: torch.Tensor, along: Spec | None, across: Spec | None) -> Any:
    """Codes of the weight and of its transpose: those that were made before, or new ones."""
    if all(part is None for part in parts):
        return copies(weight, along, across)
    q, scale, q_t, scale_t = parts
    if along is not None and (q is None or scale is None):
        raise ValueError("linear: the weight has no codes along the sum; make it with its untransposed copy")
    if across is not None and (q_t is None or scale_t is None):
        raise ValueError("linear: the weight has no codes of its transpose, which the input's gradient needs; make it with transpose=True")
    return (
        Codes(q, scale) if along is not None and q is not None and scale is not None else None,
        Codes(q_t, scale_t) if across is not None and q_t is not None and scale_t is not None else None,
    )


def _pair(codes: torch.Tensor | None, scale: torch.Tensor | None) -> Codes | None:
    return None if codes is None or scale is None else Codes(codes, scale)


class _Operand(NamedTuple):
    """What an observer wants of a forward call in backward, beside what autograd saves, which would mind a change in place."""

    matrix: torch.Tensor
    version: int

    @staticmethod
    def of(matrix: torch.Tensor) -> _Operand:
        return _Operand(matrix, 0 if matrix.is_inference() else matrix._version)

    def as_it_was(self) -> bool:
        return self.matrix.is_inference() or self.matrix._version == self.version


Sizes = tuple[int, int, int]  # m, n, k


def differentiated_again() -> bool:
    """Whether a backward that runs is asked for gradients that may be (create_graph=True)."""
    return torch.is_grad_enabled() and not torch.compiler.is_compiling()


def refused(gradient: torch.Tensor, message: str) -> torch.Tensor:
    """A gradient that cannot be differentiated again: NotImplementedError where it is."""
    made: torch.Tensor = _NoSecondDerivative.apply(torch.empty(0, requires_grad=True), gradient, message)  # type: ignore[no-untyped-call]
    return made


def _refused(gradient: torch.Tensor, product: str, recipe: Recipe) -> torch.Tensor:
    return refused(
        gradient,
        f"gemm_fp8: no second derivative: {product} of a layer is made of 8-bit floats by its recipe ({recipe}); where it is "
        f"differentiated again (gradient penalties, Hessians) give a recipe with {product}=None, or make the forward call in "
        "'with autocast_fp8(enabled=False)'",
    )


class _Seen(NamedTuple):
    """A call that is looked at: by whom, the operands of its gradients, and which sizes are the caller's."""

    observer: Observer
    x: _Operand | None
    w: _Operand | None
    sizes: Sizes


class _NoSecondDerivative(torch.autograd.Function):
    """A gradient as it is, behind a tensor that asks for derivatives: it depends on more than autograd knows of."""

    @staticmethod
    def forward(ctx: Any, marker: torch.Tensor, gradient: torch.Tensor, message: str) -> torch.Tensor:
        ctx.message = message
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise NotImplementedError(ctx.message)


class _Layer(torch.autograd.Function):
    """Saved are what the gradients read: codes where their products are of 8 bits, else the operand."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        w: torch.Tensor,
        bias: torch.Tensor | None,
        recipe: Recipe,
        main_grad: torch.Tensor | None,
        now: torch.Tensor | None,
        past_dy: torch.Tensor | None,
        observer: Observer | None,
        sizes: Sizes,
        recording: bool,
        *parts: torch.Tensor | None,
    ) -> torch.Tensor:
        """x [m, k], w [n, k] or the matrix of its codes, bias [n], of which ``sizes`` are the caller's and the rest padded; ``parts`` are
        codes of w and then of x that were made before; ``past_dy`` is what dy's delayed scale is made of."""
        # A Function is told what its inputs ask for, and not whether there will be a gradient.
        need_x, need_w = (recording and asked for asked in ctx.needs_input_grad[:2])
        x_for_y, w_for_y = _specs(recipe, "y")
        _, w_for_dx = _specs(recipe, "dx")
        _, x_for_dw = _specs(recipe, "dw")
        of_w: Parts = (parts[0], parts[1], parts[2], parts[3])
        if past_dy is None:
            x_codes, x_across = copies(x, x_for_y, x_for_dw if need_w else None)
        else:
            x_codes, x_across = _pair(parts[4], parts[5]), _pair(parts[6], parts[7])
        w_codes, w_across = _codes_of_weight(of_w, w, w_for_y, w_for_dx if need_x else None)
        if recipe.y is None:
            y: torch.Tensor | None = _gemm(x, w, False, True, None, bias)
        else:
            y = _multiply(recipe.y, "y", x_codes, w_codes, x.dtype, bias)
        assert y is not None
        saved_x = (x_across or (x, None)) if need_w else (None, None)
        saved_w = (w_across or (w, None)) if need_x else (None, None)
        seen = None
        if observer is not None:
            m, n, k = sizes
            whole = w.dequantize(x.dtype) if isinstance(w, QuantizedTensor) else w.detach()
            rows, weight = x.detach()[:m, :k], whole[:n, :k]
            _show_operand(observer, "x", rows, (x_codes, x_across), (x_for_y, x_for_dw))
            _show_operand(observer, "w", weight, (w_codes, w_across), (w_for_y, w_for_dx))
            made = y if bias is None else y - bias
            observer.product("y", rows, weight.t(), made[:m, :n], recipe.y is not None)
            observer.finished("forward")
            seen = _Seen(observer, _Operand.of(rows) if need_w else None, _Operand.of(weight) if need_x else None, sizes)
        ctx.call = recipe, x.dtype, None if bias is None else bias.dtype, main_grad, now, seen
        ctx.save_for_backward(*saved_x, *saved_w, past_dy)  # the same with an observer: what a checkpoint makes again has none
        return y

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        main_grad = ctx.call[3]
        if torch.is_grad_enabled() and main_grad is not None and ctx.needs_input_grad[1]:
            raise NotImplementedError(
                "linear: main_grad takes no gradient that is to be differentiated again (create_graph=True); leave main_grad out"
            )
        with torch.no_grad():
            found = _Layer._gradients(ctx, grad)
        if torch.is_grad_enabled():  # create_graph=True
            found = _Layer._with_derivatives(ctx, grad, found)
        return *found, *[None] * (len(ctx.needs_input_grad) - 3)

    @staticmethod
    def _with_derivatives(ctx: Any, grad: torch.Tensor, found: tuple[torch.Tensor | None, ...]) -> tuple[torch.Tensor | None, ...]:
        """The gradients: those of high precision made again by operators that have derivatives, the others refused where they are
        differentiated."""
        recipe, dtype, bias, *_ = ctx.call
        x, _, w, *_ = ctx.saved_tensors
        dx, dw, grad_bias = found
        dy = grad.to(dtype).contiguous()
        if dx is not None:
            dx = _gemm(dy, w) if recipe.dx is None else _refused(dx, "dx", recipe)
        if dw is not None:
            dw = _gemm(dy, x, True) if recipe.dw is None else _refused(dw, "dw", recipe)
        return dx, dw, None if grad_bias is None else grad.sum(0, dtype=bias)

    @staticmethod
    def _gradients(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Of x, w and bias."""
        recipe, dtype, bias, main_grad, now, seen = ctx.call
        x, x_scale, w, w_scale, past_dy = ctx.saved_tensors
        need_x, need_w, need_bias = ctx.needs_input_grad[:3]
        grad_bias = grad.sum(0, dtype=bias) if need_bias else None
        dy = grad.to(dtype).contiguous()
        for_dx, for_dw = (_specs(recipe, product)[0] if need else None for product, need in (("dx", need_x), ("dw", need_w)))
        late = None if past_dy is None else Late(past_dy, None if now is None else now[delayed.DY])
        along, across = copies(dy, for_dx, for_dw, late)
        m = n = k = 0
        of_dy = dy
        if seen is not None:
            m, n, k = seen.sizes
            of_dy = dy[:m, :n]
            _show_operand(seen.observer, "dy", of_dy, (along, across), (for_dx, for_dw))
        dx = _input_gradient(recipe.dx, dy, along, Codes(w, w_scale)) if need_x else None
        if seen is not None and dx is not None and seen.w is not None and seen.w.as_it_was():
            seen.observer.product("dx", of_dy, seen.w.matrix, dx[:m, :k], recipe.dx is not None)  # before another product runs
        dw = _weight_gradient(recipe.dw, dy, across, Codes(x, x_scale), main_grad) if need_w else None
        if seen is not None and dw is not None and seen.x is not None and seen.x.as_it_was():
            seen.observer.product("dw", of_dy.t(), seen.x.matrix, dw[:n, :k], recipe.dw is not None)
        if seen is not None:
            seen.observer.finished("backward")
        return dx, dw, grad_bias


def _input_gradient(config: QuantConfig | None, dy: torch.Tensor, codes: Codes | None, w: Codes) -> torch.Tensor | None:
    """dy [m, n] w [n, k]; of high precision ``w`` is the weight, without a scale."""
    return _gemm(dy, w.q) if config is None else _multiply(config, "dx", codes, w, dy.dtype)


def _weight_gradient(
    config: QuantConfig | None,
    dy: torch.Tensor,
    codes: Codes | None,
    x: Codes,
    main_grad: torch.Tensor | None,
    out: torch.dtype | None = None,
) -> torch.Tensor | None:
    """dy^T [n, m] x [m, k], or nothing where it was added to ``main_grad``; of high precision ``x`` is the input, without a scale."""
    width = x.q.shape[0] if config is not None else x.q.shape[1]
    if main_grad is not None and main_grad.shape != (dy.shape[1], width):  # features were padded
        made = _weight_gradient(config, dy, codes, x, None, main_grad.dtype)
        assert made is not None
        main_grad.add_(made[: main_grad.shape[0], : main_grad.shape[1]])
        return None
    if config is not None:
        return _multiply(config, "dw", codes, x, out or dy.dtype, add_to=main_grad)
    if main_grad is None:
        product: torch.Tensor = _gemm(dy, x.q, True, False, out)
        return product
    _gemm_add(main_grad, dy, x.q, True)
    return None


def _show_operand(
    observer: Observer,
    name: str,
    matrix: torch.Tensor,
    codes: tuple[Codes | None, Codes | None],
    specs: tuple[Spec | None, Spec | None],
) -> None:
    """One of the two copies that were made, if one was."""
    spec = specs[0] or specs[1]
    observer.operand(name, matrix, codes[0] or codes[1], codes[0] is None, spec.grouping if spec else "")


def rows_multiple(x: torch.Tensor, granularity: str, weight_gradient: bool) -> int:
    """What the matrix units' kernels of x's device want the rows to be a multiple of.

    On a GPU the product of the weight gradient reads codes along the rows, 16 bytes at a time, and block scales go by 4 rows.
    """
    if not x.is_cuda or granularity == "mx":
        return 1
    return 16 if weight_gradient else 4 if granularity == "blockwise" else 1


def padded(matrix: torch.Tensor, rows: int, columns: int = 1) -> torch.Tensor:
    """A matrix with rows and columns of 0 up to multiples: neither the sums of a product nor scales change."""
    below, behind = -matrix.shape[0] % rows, -matrix.shape[1] % columns
    # A number of rows that an export leaves open is padded without a look at it, which would fix what the program takes.
    if torch.compiler.is_exporting() and rows > 1 or below or behind:
        return torch.nn.functional.pad(matrix, (0, behind, 0, below))
    return matrix


def _multiple(x: torch.Tensor, weight: torch.Tensor, recipe: Recipe) -> int:
    if recipe.pad_rows is not None:
        return recipe.pad_rows
    multiple = 1
    gradient = recipe.dw is not None and torch.is_grad_enabled() and weight.requires_grad
    for config in (recipe.y, recipe.dx, recipe.dw):
        if config is not None:
            multiple = max(multiple, rows_multiple(x, config.granularity, gradient))
    return multiple


def _parts(along: Codes | None, across: Codes | None) -> Parts:
    q, scale = along or (None, None)
    q_t, scale_t = across or (None, None)
    return q, scale, q_t, scale_t


def _late_codes(
    x: torch.Tensor, weight: torch.Tensor, recipe: Recipe, history: torch.Tensor, now: torch.Tensor | None
) -> tuple[torch.Tensor, Parts, Parts]:
    """What dy's delayed scale is made of, and codes of w and x. Not made where the products are, because what a function of autograd
    changes in place is not to be traced."""
    assert recipe.delayed is not None
    past = delayed.past(history, recipe.delayed)
    need_x, need_w = (torch.is_grad_enabled() and each.requires_grad for each in (x, weight))
    x_for_y, w_for_y = _specs(recipe, "y")
    _, w_for_dx = _specs(recipe, "dx")
    _, x_for_dw = _specs(recipe, "dw")
    of = [Late(past[row], None if now is None else now[row]) for row in (delayed.X, delayed.W)]
    with torch.no_grad():
        of_x = copies(x, x_for_y, x_for_dw if need_w else None, of[0])
        of_w = copies(weight, w_for_y, w_for_dx if need_x else None, of[1])
    return past[delayed.DY], _parts(*of_w), _parts(*of_x)


def layer(
    x: torch.Tensor,
    weight: torch.Tensor,
    recipe: Recipe,
    bias: torch.Tensor | None = None,
    *,
    main_grad: torch.Tensor | None = None,
    history: torch.Tensor | None = None,
    now: torch.Tensor | None = None,
    observer: Observer | None = None,
) -> torch.Tensor:
    """x [..., k] weight [n, k]^T + bias [n] by ``recipe``; with delayed scaling by ``history``, and ``now`` collects the step."""
    if not torch.compiler.is_compiling() and transformed():
        raise NotImplementedError(
            "a layer with a Recipe has no forward mode and no transforms of torch.func; use a QuantConfig, which serves all three "
            "products, or high precision there"
        )
    x, weight = autocast(x), autocast(weight)
    if x.dtype != weight.dtype and not isinstance(weight, QuantizedTensor):  # codes stand for numbers of any dtype
        raise TypeError(
            f"linear: the input is {x.dtype} and the weight is {weight.dtype}; cast one of them: x.to({weight.dtype}) or weight.to({x.dtype}), "
            "or call it under torch.autocast"
        )
    if bias is not None and bias.dtype != x.dtype:
        bias = bias.to(x.dtype)
    rows = x if x.dim() == 2 else x.flatten(0, -2)
    parts: Parts = (None, None, None, None)
    if isinstance(weight, QuantizedTensor):
        if recipe.y is None or recipe.dx is None:
            weight = weight.dequantize(x.dtype)
        elif weight.grouping != recipe.y.grouping(weight=True):
            raise ValueError(
                f"linear: the weight's codes have scales by {weight.grouping!r}, and the recipe wants them by "
                f"{recipe.y.grouping(weight=True)!r}; quantize it with the recipe's config for y"
            )
        else:
            parts = weight._parts()
    sizes = (rows.shape[0], *weight.shape)
    features = recipe.pad_features or 1
    if isinstance(weight, QuantizedTensor):
        features = 1  # codes stay as they are
    whole = padded(rows, _multiple(x, weight, recipe), features)
    weight = padded(weight, features, features)
    if bias is not None and bias.shape[0] != weight.shape[0]:
        bias = torch.nn.functional.pad(bias, (0, weight.shape[0] - bias.shape[0]))
    of_x: Parts = (None, None, None, None)
    past_dy = None
    if recipe.delayed is not None and history is not None:
        past_dy, parts, of_x = _late_codes(whole, weight, recipe, history, now)
    y: torch.Tensor = _Layer.apply(whole, weight, bias, recipe, main_grad, now, past_dy, observer, sizes, torch.is_grad_enabled(), *parts, *of_x)  # type: ignore[no-untyped-call]
    if y.shape[1] != sizes[1]:
        y = y[: sizes[0], : sizes[1]].contiguous()
    elif whole is not rows:  # a slice's gradient is a copy
        y = y[: sizes[0]]
    return y if x.dim() == 2 else y.view(*x.shape[:-1], y.shape[-1])

"""Losses of logits against targets, with the product that makes the logits fused in front where wanted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import torch
from torch.overrides import handle_torch_function, has_torch_function_variadic

from .ops import autocast, gemm, has_rows, rows_of, transformed
from .sharding import beside, is_dtensor

Reduction = Literal["none", "mean", "sum"]
Settings = tuple[int, float, float, float]  # ignore_index, label_smoothing, z_loss, soft_cap

_loss = torch.ops.ridgeline.cross_entropy.default
_gradient = torch.ops.ridgeline.cross_entropy_backward.default
_with_gradient = torch.ops.ridgeline.cross_entropy_with_gradient.default
_with_gradient_in_place = torch.ops.ridgeline.cross_entropy_with_gradient_.default
_shard = torch.ops.ridgeline.cross_entropy_shard.default
_gemm_add = torch.ops.ridgeline.gemm_add_.default
_rescale = torch.ops.ridgeline.rescale_.default

CHUNK_BYTES = 512 << 20  # of the logits that linear_cross_entropy has at a time, unless it is told otherwise


def _check(op: str, target: torch.Tensor, weight: torch.Tensor | None, reduction: str) -> None:
    if weight is not None:
        raise NotImplementedError(
            f"{op}: class weights are not supported; take reduction='none', multiply the losses by weight[target], and divide their sum by "
            "that of the weights"
        )
    if target.is_floating_point():
        raise NotImplementedError(
            f"{op}: the target is {target.dtype}, so class probabilities, which are not supported; give class indices (label_smoothing "
            "spreads them), or use torch.nn.functional.cross_entropy; keep= of convert leaves a model's torch.nn.CrossEntropyLoss"
        )
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{op}: reduction={reduction!r} is unknown; use 'none', 'mean' or 'sum'")


def _reduced(loss: torch.Tensor, target: torch.Tensor, ignore_index: int, reduction: str) -> torch.Tensor:
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else loss.sum() / (target != ignore_index).sum()


def _refuse_second(op: str, way_out: str) -> None:
    if torch.is_grad_enabled():
        raise NotImplementedError(f"{op}: no second derivative of gradients that were made with the loss; {way_out}, or create_graph")


def _use_up(ctx: Any, op: str, way_out: str) -> None:
    """Gradients that were made with the loss are scaled where they lie, so that they serve once."""
    if getattr(ctx, "used", False):
        raise RuntimeError(f"{op}: the gradients that were made with the loss were used up by the first backward call; {way_out}")


def _scaled(ctx: Any, gradient: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """A gradient times a factor, or a factor of each row; where it lies, but in traces, of DTensors, under vmap (is_grads_batched of torch.autograd.grad),
    and in float64, which torch.autograd.gradcheck takes and calls twice. Nothing is read under a factor of 1."""
    apart = torch.compiler.is_compiling() or is_dtensor(gradient) or gradient.dtype == torch.float64
    if apart or transformed() or torch._C._functorch.is_legacy_batchedtensor(factor):
        return (gradient * (factor if factor.dim() == 0 else factor.unsqueeze(-1))).to(gradient.dtype)
    ctx.used = True
    _rescale(gradient, factor)
    return gradient


class _OnePass(torch.autograd.Function):
    """The gradient is made with the loss, for an upstream gradient of 1, and scaled in backward by what that is."""

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, target: torch.Tensor, settings: Settings, reduction: str, in_place: bool
    ) -> torch.Tensor:
        grad, count = _factor_of(target, settings[0], reduction, logits.dtype)
        if in_place:
            loss, dlogits = _with_gradient_in_place(logits, target, grad, *settings), logits.detach()
        else:
            loss, dlogits = _with_gradient(logits, target, grad, *settings)
        ignored = target == settings[0] if reduction == "none" else None
        ctx.save_for_backward(dlogits, count, ignored)
        return _reduced(loss, target, settings[0], reduction)

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        _refuse_second("cross_entropy", "leave one_pass and in_place out")
        _use_up(ctx, "cross_entropy", "leave one_pass and in_place out")
        dlogits, count, ignored = ctx.saved_tensors
        factor = upstream if count is None else upstream / count
        if ignored is not None:  # their gradient is 0 whatever comes from above, also infinity
            factor = factor.masked_fill(ignored, 1.0)
        return _scaled(ctx, dlogits, factor), None, None, None, None


def cross_entropy(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    soft_cap: float | None = None,
    one_pass: bool = False,
    in_place: bool = False,
) -> torch.Tensor:
    """torch.nn.functional.cross_entropy of class indices, in float32 and not rounded: the loss of 16-bit logits is float32.

    input            [C], [N, C] or [N, C, d1, ...] as torch's; float32, bfloat16 or float16 (float64: on the CPU, by torch)
    target           class indices, int64 or int32; what is neither ``ignore_index`` nor a class is an error on a CPU, and on a GPU
                     makes loss and gradient of its token NaN
    weight           class weights are not supported, and neither are class probabilities as the target: NotImplementedError says the way out
    z_loss           times the square of the log-sum-exp, added to the loss of each token
    soft_cap         logits count as soft_cap * tanh(logits / soft_cap)
    one_pass         the gradient is made with the loss, from one read of the logits, and kept in their place; backward reads and writes it
                     again only where the upstream gradient is not 1. For training steps whose backward is called, once: a second call is an error
    in_place         one_pass, and the gradient overwrites the logits, which must not be used again

    DTensors may be sharded along tokens and, of two dimensions, along the vocabulary: then maxima and sums of each token are all that moves, and
    backward reads the logits again. A target that is no DTensor is the same on every rank.
    """
    if has_torch_function_variadic(input, target) and not isinstance(input, torch.Tensor):
        traced: torch.Tensor = handle_torch_function(
            cross_entropy,
            (input, target),
            input,
            target,
            weight,
            ignore_index=ignore_index,
            reduction=reduction,
            label_smoothing=label_smoothing,
            z_loss=z_loss,
            soft_cap=soft_cap,
            one_pass=one_pass,
            in_place=in_place,
        )
        return traced
    _check("cross_entropy", target, weight, reduction)
    placed = is_dtensor(input)
    if placed and in_place:
        raise NotImplementedError("cross_entropy: in_place=True does not take DTensors; take one_pass=True")
    if placed:
        target = beside(input, target)
    classes = input.dim() - 1 if input.dim() < 3 else 1
    if input.dim() == 0 or tuple(target.shape) != (*input.shape[:classes], *input.shape[classes + 1 :]):
        raise ValueError(
            f"cross_entropy: input has shape {tuple(input.shape)} and target {tuple(target.shape)}; give input [C], [N, C] or [N, C, d1, "
            "...] and target the same without C"
        )
    settings = (ignore_index, label_smoothing, z_loss, _cap(soft_cap))
    logits = input.movedim(classes, -1) if classes != input.dim() - 1 else input
    if in_place and (not has_rows(logits) or _is_leaf(logits)):
        raise ValueError(
            "cross_entropy: in_place=True is for logits that something computed, whose classes are the last dimension and adjacent; "
            "leave it out"
        )
    rows = rows_of(logits if logits.dim() == 2 else logits.reshape(-1, logits.shape[-1]))
    places = target.reshape(-1).contiguous()
    if placed and _has_shards_of_classes(rows):
        from .vocabulary import loss_over_shards

        loss: torch.Tensor = _reduced(loss_over_shards(rows, places, settings), places, ignore_index, reduction)
    elif (one_pass or in_place) and torch.is_grad_enabled() and rows.requires_grad:
        loss = _OnePass.apply(rows, places, settings, reduction, in_place)  # type: ignore[no-untyped-call]
    else:
        loss = _reduced(_loss(rows, places, *settings)[0], places, ignore_index, reduction)
    return loss.view(target.shape) if reduction == "none" else loss


def _cap(soft_cap: float | None) -> float:
    if soft_cap is not None and not soft_cap > 0:
        raise ValueError(f"cross_entropy: soft_cap is {soft_cap}; give a number above 0, or None")
    return soft_cap or 0.0


def _has_shards_of_classes(rows: Any) -> bool:
    return any(place.is_shard(1) for place in rows.placements)


def _is_leaf(x: torch.Tensor) -> bool:
    """Whether x is a parameter, or another tensor whose gradient is asked for, or a view of one."""
    base = x if x._base is None else x._base  # pyright: ignore[reportPrivateUsage]
    return base.is_leaf and base.requires_grad


class ShardStatistics(NamedTuple):
    """What the columns of one shard know of each row, float32: ``merge`` of all shards gives loss and log-sum-exp."""

    most: torch.Tensor  # the largest logit
    sum: torch.Tensor  # of exp(logit - most)
    picked: torch.Tensor  # the target's logit, 0 where it is in another shard
    total: torch.Tensor  # the sum of the logits

    @staticmethod
    def of(
        logits: torch.Tensor, target: torch.Tensor, first: int, whole: int, *, ignore_index: int = -100, soft_cap: float | None = None
    ) -> ShardStatistics:
        """Of columns ``first`` and up of ``whole``: logits [tokens, columns], target [tokens] counted over all columns."""
        return ShardStatistics(*_shard(logits, target, first, whole, ignore_index, _cap(soft_cap)))

    @staticmethod
    def merge(shards: list[ShardStatistics]) -> ShardStatistics:
        """Those of the shards' columns together, in their order: equal calls give equal bits."""
        most = torch.stack([one.most for one in shards]).amax(0)
        base = torch.where(most.isinf(), torch.zeros_like(most), most)
        scaled = [one.sum * torch.exp(one.most - base) for one in shards]
        merged = [sum(parts[1:], parts[0]) for parts in (scaled, [one.picked for one in shards], [one.total for one in shards])]
        return ShardStatistics(most, *merged)

    def loss(
        self, target: torch.Tensor, whole: int, *, ignore_index: int = -100, label_smoothing: float = 0.0, z_loss: float = 0.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(loss, lse) of each token, of the merged statistics; the gradient of a shard's logits is ``shard_gradient``."""
        rest = torch.log(self.sum)
        lse = self.most + rest
        loss = rest + (1 - label_smoothing) * (self.most - self.picked)  # beside the largest logit: large ones have no digits for their lse
        if label_smoothing > 0:
            loss = loss + label_smoothing * (self.most - self.total / whole)
        loss = loss + z_loss * lse * lse
        counts, none = target != ignore_index, torch.zeros_like(lse)
        return torch.where(counts, loss, none), torch.where(counts, lse, none)


def shard_gradient(
    grad: torch.Tensor,
    logits: torch.Tensor,
    target: torch.Tensor,
    lse: torch.Tensor,
    first: int,
    whole: int,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    soft_cap: float | None = None,
) -> torch.Tensor:
    """The gradient of a shard's logits from that of each token's loss and the log-sum-exp of all shards."""
    out: torch.Tensor = _gradient(grad, logits, target, lse, ignore_index, label_smoothing, z_loss, _cap(soft_cap), first, whole)
    return out


class _Linear(torch.autograd.Function):
    """Loss of x weight^T in chunks of tokens. The sum's gradients are made in forward; backward scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        target: torch.Tensor,
        settings: Settings,
        reduction: str,
        chunk: int,
        main_grad: torch.Tensor | None,
        wide_sums: bool,
    ) -> torch.Tensor:
        need_x, need_weight = ctx.needs_input_grad[:2]
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        # A single product is rounded once, so that it needs no sums in float32; of float16 it could overflow before it is scaled.
        narrow = weight.dtype == torch.bfloat16 and main_grad is None and (chunk >= x.shape[0] or not wide_sums)
        factor, count = _factor_of(target, settings[0], reduction, x.dtype)
        dx = torch.empty_like(x) if need_x else None
        dweight: torch.Tensor | None = None
        losses = []
        for rows in _chunks(x.shape[0], chunk):
            logits = gemm(x[rows], weight, trans_b=True)
            losses.append(_with_gradient_in_place(logits, target[rows], None if factor is None else factor[rows], *settings))
            if dx is not None:
                dx[rows] = gemm(logits, weight)
            if need_weight:
                dweight = _gradient_of_weight(logits, x[rows], dweight, weight.dtype if narrow else wide)
            del logits  # before the next chunk's: two of them would be the peak
        if need_weight and dweight is None:
            dweight = torch.zeros(weight.shape, dtype=weight.dtype if narrow else wide, device=weight.device)
        loss = torch.cat(losses) if losses else x.new_empty(0, dtype=wide)
        ctx.save_for_backward(dx, dweight, count)
        ctx.main_grad = main_grad
        ctx.dtype = weight.dtype
        return _reduced(loss, target, settings[0], reduction)

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        _refuse_second("linear_cross_entropy", "take cross_entropy of a product")
        _use_up(ctx, "linear_cross_entropy", "take cross_entropy of a product")
        dx, dweight, count = ctx.saved_tensors
        factor = upstream if count is None else upstream / count
        dx, dweight = (None if grad is None else _scaled(ctx, grad, factor) for grad in (dx, dweight))
        if dweight is None:
            return dx, *[None] * 7
        if ctx.main_grad is None:
            return dx, dweight.to(ctx.dtype), *[None] * 6
        ctx.main_grad.add_(dweight)
        return dx, *[None] * 7


class _LinearOfTokens(torch.autograd.Function):
    """The same without a reduction: tokens' upstream gradients are known in backward, which makes the logits once more."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        target: torch.Tensor,
        settings: Settings,
        chunk: int,
        main_grad: torch.Tensor | None,
    ) -> torch.Tensor:
        made = [_loss(gemm(x[rows], weight, trans_b=True), target[rows], *settings) for rows in _chunks(x.shape[0], chunk)]
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        loss, lse = (torch.cat(parts) for parts in zip(*made)) if made else (x.new_empty(0, dtype=wide) for _ in range(2))
        ctx.save_for_backward(x, weight, target, lse)
        ctx.call = settings, chunk, main_grad
        return loss

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        _refuse_second("linear_cross_entropy", "take cross_entropy of a product")
        x, weight, target, lse = ctx.saved_tensors
        settings, chunk, main_grad = ctx.call
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        dx = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        dweight = torch.zeros(weight.shape, dtype=wide, device=weight.device) if ctx.needs_input_grad[1] and not len(x) else None
        upstream = upstream.contiguous()
        for rows in _chunks(x.shape[0], chunk):
            logits = gemm(x[rows], weight, trans_b=True)
            dlogits = _gradient(upstream[rows], logits, target[rows], lse[rows], *settings)
            del logits
            if dx is not None:
                dx[rows] = gemm(dlogits, weight)
            if ctx.needs_input_grad[1]:
                dweight = _gradient_of_weight(dlogits, x[rows], dweight, wide)
            del dlogits
        if main_grad is not None and dweight is not None:
            main_grad.add_(dweight)
            dweight = None
        return dx, None if dweight is None else dweight.to(weight.dtype), *[None] * 4


def _chunks(tokens: int, chunk: int) -> Iterator[slice]:
    for first in range(0, tokens, chunk):
        yield slice(first, min(first + chunk, tokens))


def _gradient_of_weight(dlogits: torch.Tensor, x: torch.Tensor, sums: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
    """sums + dlogits^T x, in ``dtype``; where there are sums they change."""
    if sums is None:
        return gemm(dlogits, x, trans_a=True, out_dtype=dtype)
    if dtype == torch.float64:
        return sums.add_(dlogits.t() @ x)
    _gemm_add(sums, dlogits, x, True, False)
    return sums


def _factor_of(target: torch.Tensor, ignore_index: int, reduction: str, dtype: torch.dtype) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Of a mean the factor of every token's gradient, 1 / count; or the count, for backward: of float16 small numbers would vanish before the scale
    of the loss comes."""
    if reduction != "mean":
        return None, None
    counts = target != ignore_index
    count = counts.sum().clamp(min=1)  # where none counts every gradient is 0, as torch's is
    if dtype == torch.float16:
        return None, count
    return counts.to(torch.float64 if dtype == torch.float64 else torch.float32) / count, None


def _tokens_at_once(tokens: int, weight: torch.Tensor, sums_in_float32: bool) -> int:
    """All of them, where their logits take no more memory than the sums in float32 that chunks need beside the gradient itself."""
    bytes_of_token = max(1, weight.shape[0] * weight.element_size())
    if sums_in_float32 and tokens * bytes_of_token <= 4 * weight.numel():
        return max(1, tokens)
    return max(64, CHUNK_BYTES // bytes_of_token // 64 * 64)


def linear_cross_entropy(
    x: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    *,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    soft_cap: float | None = None,
    chunk: int | None = None,
    main_grad: torch.Tensor | None = None,
    wide_sums: bool = True,
) -> torch.Tensor:
    """cross_entropy(x @ weight.T, target) that has the logits of ``chunk`` tokens at a time.

    x          [..., hidden], float32, bfloat16 or float16 (float64: on the CPU, by torch)
    weight     [vocabulary, hidden], of x's dtype; its gradient is added up in float32
    target     [...], class indices as for ``cross_entropy``
    chunk      tokens; None: all, where their logits take no more memory than those sums (up to 2 hidden tokens in 16 bits), else as many as have 512 MiB
               of logits (CHUNK_BYTES), at least 64
    main_grad  [vocabulary, hidden], float32: backward adds the weight's gradient here and returns none for it
    wide_sums  False, for bfloat16: the chunks' parts of the weight's gradient are added up in bfloat16, which takes the memory of one gradient and rounds
               once for each chunk

    A DTensor x may be sharded along tokens, with a weight that every rank has whole: its gradient is then partial. With "mean" and "sum" the gradients are
    made in the forward call, beside the logits, and backward may be called once; with "none" backward makes the logits again.
    """
    _check("linear_cross_entropy", target, None, reduction)
    if x.dim() < 1 or weight.dim() != 2 or x.shape[-1] != weight.shape[1] or target.shape != x.shape[:-1]:
        raise ValueError(
            f"linear_cross_entropy: x has shape {tuple(x.shape)}, weight {tuple(weight.shape)} and target {tuple(target.shape)}; give "
            "[..., hidden], [vocabulary, hidden] and [...]"
        )
    if main_grad is not None and (main_grad.shape != weight.shape or main_grad.dtype != torch.float32):
        raise ValueError(
            f"linear_cross_entropy: main_grad is {main_grad.dtype} of shape {tuple(main_grad.shape)}; give torch.float32 of shape "
            f"{tuple(weight.shape)}"
        )
    if is_dtensor(x) or is_dtensor(weight):
        from .vocabulary import linear_over_tokens

        settings = (ignore_index, label_smoothing, z_loss, _cap(soft_cap))
        return linear_over_tokens(x, weight, target, settings, reduction, chunk, main_grad, wide_sums)
    x, weight = autocast(x), autocast(weight)
    if not wide_sums and (weight.dtype != torch.bfloat16 or main_grad is not None or reduction == "none"):
        raise ValueError(
            f"linear_cross_entropy: wide_sums=False with a weight of {weight.dtype}, main_grad={'None' if main_grad is None else 'a tensor'} and "
            f"reduction={reduction!r}; it is for torch.bfloat16 without main_grad, with 'mean' or 'sum'"
        )
    rows, places = x.reshape(-1, x.shape[-1]).contiguous(), target.reshape(-1).contiguous()
    if chunk is None:
        sums = wide_sums and main_grad is None and reduction != "none" and weight.dtype == torch.bfloat16 and weight.requires_grad
        chunk = _tokens_at_once(len(places), weight, sums)
    if chunk < 1:
        raise ValueError(f"linear_cross_entropy: chunk={chunk}; give a number of tokens from 1")
    settings = (ignore_index, label_smoothing, z_loss, _cap(soft_cap))
    if not (torch.is_grad_enabled() and (rows.requires_grad or weight.requires_grad)):
        made = [_loss(gemm(rows[at], weight, trans_b=True), places[at], *settings)[0] for at in _chunks(len(places), chunk)]
        loss = torch.cat(made) if made else rows.new_empty(0, dtype=torch.float32)
        loss = _reduced(loss, places, ignore_index, reduction)
    elif reduction == "none":
        loss = _LinearOfTokens.apply(rows, weight, places, settings, chunk, main_grad)  # type: ignore[no-untyped-call]
    else:
        loss = _Linear.apply(rows, weight, places, settings, reduction, chunk, main_grad, wide_sums)  # type: ignore[no-untyped-call]
    return loss.view(target.shape) if reduction == "none" else loss


class CrossEntropyLoss(torch.nn.CrossEntropyLoss):
    """torch.nn.CrossEntropyLoss of class indices, by ``cross_entropy``, with its further arguments."""

    reduction: Reduction  # pyright: ignore[reportIncompatibleVariableOverride]
    z_loss: float = 0.0
    soft_cap: float | None = None
    one_pass: bool = False
    in_place: bool = False

    def __init__(
        self,
        weight: torch.Tensor | None = None,
        *,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
        soft_cap: float | None = None,
        one_pass: bool = False,
        in_place: bool = False,
    ) -> None:
        _check("CrossEntropyLoss", torch.empty(0, dtype=torch.int64), weight, reduction)
        super().__init__(ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing)
        self.z_loss, self.soft_cap, self.one_pass, self.in_place = z_loss, soft_cap, one_pass, in_place

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
            z_loss=self.z_loss,
            soft_cap=self.soft_cap,
            one_pass=self.one_pass,
            in_place=self.in_place,
        )

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}, ignore_index={self.ignore_index}"


class LinearCrossEntropy(torch.nn.Module):
    """The last layer of a language model and its loss: a weight [vocabulary, hidden], and ``linear_cross_entropy`` of it.

    To share the weight of an embedding set ``layer.weight = embedding.weight``.
    """

    def __init__(
        self,
        hidden: int,
        vocabulary: int,
        *,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
        soft_cap: float | None = None,
        chunk: int | None = None,
        wide_sums: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(vocabulary, hidden, device=device, dtype=dtype))
        torch.nn.init.normal_(self.weight, std=hidden**-0.5)
        self.reduction: Reduction = reduction
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        self.z_loss, self.soft_cap, self.chunk, self.wide_sums = z_loss, soft_cap, chunk, wide_sums

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return linear_cross_entropy(
            x,
            self.weight,
            target,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
            z_loss=self.z_loss,
            soft_cap=self.soft_cap,
            chunk=self.chunk,
            wide_sums=self.wide_sums,
        )

    def extra_repr(self) -> str:
        vocabulary, hidden = self.weight.shape
        return f"hidden={hidden}, vocabulary={vocabulary}, reduction={self.reduction!r}"

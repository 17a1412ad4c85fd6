"""How our operators run on DTensors: which operands may be sharded along which dimension, and what comes out.

Dimensions have letters. A capital is that dimension in blocks that share a scale: it may be sharded where every shard is whole blocks.
A dot is a dimension that is never sharded.
Sharding along a letter shards each operand that has it and replicates the others; along the sum (k) the product is partial.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .delayed import codes
from .quantized import cast

# Letters of the scales of a matrix [r, c] that run along its columns.
_SCALES = {"tensor": "", "row": "r", "1x128": "Cr", "128x128": "RC", "mx": "Cr"}
_BLOCK = {"1x128": 128, "128x128": 128, "mx": 32}
_OF_PRODUCT = {  # scaling of gemm_fp8_scaled: groupings of a and b
    "tensor": ("tensor", "tensor"),
    "row": ("row", "row"),
    "block": ("1x128", "128x128"),
    "vector": ("1x128", "1x128"),
    "mx": ("mx", "mx"),
}
_LEADING = "abcdefghijlopqrstuvwxyz"  # of leading dimensions: all but those of the matrices
_OF_CONFIG = {"tensorwise": "tensor", "rowwise": "row", "blockwise": "block", "mx": "mx"}


def _scales(grouping: str, rows: str, cols: str) -> str:
    named = {"r": rows, "c": cols, "R": rows.upper(), "C": cols.upper()}
    return "".join(named[letter] for letter in _SCALES[grouping])


def _placement(letters: str | None, along: str) -> Any:
    from torch.distributed.tensor import Replicate, Shard

    if letters is None:
        return None  # no tensor there
    at = letters.lower().find(along)
    return Shard(at) if at >= 0 else Replicate()


class _Rule:
    """The ways to shard one call: letters of its tensors, by position; None for what is no tensor."""

    def __init__(self, count: int, results: list[str]) -> None:
        self.letters: list[str | None] = [None] * count
        self.results = results
        self.added: set[int] = set()  # operands that are added to the product: partial where it is
        self.sizes: dict[str, int] = {}
        self.block = 1
        self.ranks = 1

    def _whole_blocks(self, along: str, letters: list[str]) -> bool:
        blocked = any(along.upper() in each for each in letters)
        return not blocked or self.sizes[along] % (self.block * self.ranks) == 0

    def replicate(self, args: tuple[Any, ...], positions: range) -> None:
        """Tensors that may be given there are whole on every rank."""
        for at in positions:
            if _get(args, at) is not None:
                self.letters[at] = "." * len(args[at].shape)

    def ways(self, along: str, sum_over: str = "") -> list[tuple[list[Any], list[Any]]]:
        from torch.distributed.tensor import Partial, Replicate

        letters = [each for each in (*self.letters, *self.results) if each is not None]
        ways: list[tuple[list[Any], list[Any]]] = [([Replicate() for _ in self.results], [_placement(each, " ") for each in self.letters])]
        for letter in along:
            if letter == "." or not self._whole_blocks(letter, letters):
                continue
            if letter == sum_over:
                given = [Partial() if i in self.added else _placement(each, letter) for i, each in enumerate(self.letters)]
                ways.append(([Partial() for _ in self.results], given))
            else:
                ways.append(([_placement(each, letter) for each in self.results], [_placement(each, letter) for each in self.letters]))
        return ways


def _get(args: tuple[Any, ...], at: int, default: Any = None) -> Any:
    return args[at] if len(args) > at else default


def _leading(own: torch.Size, sizes: torch.Size) -> str:
    """Letters of an operand's leading dimensions, which are broadcast to ``sizes`` as in torch.matmul."""
    missing = len(sizes) - len(own)
    letters = _LEADING.ljust(len(sizes), ".")[missing:]
    return "".join(letter if size == most else "." for letter, size, most in zip(letters, own, sizes[missing:]))


def _factors(args: tuple[Any, ...], first: int, flags: int) -> tuple[str, str, str]:
    """Letters of a and b, which are at ``first``, with trans_a and trans_b at ``flags``, and of their product."""
    of_a, of_b = (each.shape[:-2] for each in args[first : first + 2])
    sizes: torch.Size = torch.broadcast_shapes(of_a, of_b)  # type: ignore[no-untyped-call]
    a = _leading(of_a, sizes) + ("km" if _get(args, flags, False) else "mk")
    b = _leading(of_b, sizes) + ("nk" if _get(args, flags + 1, False) else "kn")
    return a, b, _leading(sizes, sizes) + "mn"


def _gemm(*args: Any) -> Any:
    a, b, out = _factors(args, 0, 2)
    rule = _Rule(len(args), [out])
    rule.letters[:2] = [a, b]
    for at, letters in ((5, "n"), (7, b), (8, out)):  # bias, main_grad, residual
        if _get(args, at) is not None:
            rule.letters[at] = letters
            rule.added |= {at} if at != 7 else set()
    return rule.ways(out if _get(args, 6) is not None else out + "k", "k")  # an activation is of the whole sum


def _gemm_add(*args: Any) -> Any:
    a, b, out = _factors(args, 1, 3)
    rule = _Rule(len(args), [])
    rule.letters[:3] = [out, a, b]
    rule.added = {0}
    return rule.ways(out + "k", "k")


def _grouped(*args: Any) -> Any:
    """Rows stay together: offsets count them all."""
    trans_a, trans_b = _get(args, 3, False), _get(args, 4, False)
    rule = _Rule(len(args), ["gmn" if trans_a else "rn"])
    rule.letters[:3] = ["rm", "rn", "o"] if trans_a else ["rk", "gnk" if trans_b else "gkn", "o"]
    if _get(args, 6) is not None:
        rule.letters[6] = rule.letters[1]
    rule.replicate(args, range(7, 10))  # index_a, index_b, places
    return rule.ways("mn", "") if trans_a else rule.ways("nk", "k")


def _grouped_add(*args: Any) -> Any:
    rule = _Rule(len(args), [])
    rule.letters[:4] = ["gmn", "rm", "rn", "o"]
    rule.replicate(args, range(4, 6))  # index_a, index_b
    return rule.ways("mn", "")


def _codes_rule(args: tuple[Any, ...], first: int, scaling: str, results: list[str]) -> _Rule:
    """Factors and scales from ``first`` on, then trans_a and trans_b."""
    rule = _Rule(len(args), results)
    a, b, _ = _factors(args, first, first + 4)
    of_a, of_b = _OF_PRODUCT[scaling]
    rule.letters[first : first + 4] = [a, b, _scales(of_a, "m", "k"), _scales(of_b, "n", "k")]
    rule.block = _BLOCK.get(of_a, 1)
    rule.ranks = args[first].mesh.size()
    rule.sizes = dict(zip(a, args[first].shape)) | dict(zip(b, args[first + 1].shape))
    return rule


def _scaled(*args: Any) -> Any:
    rule = _codes_rule(args, 0, args[7], ["mn"])
    if _get(args, 9) is not None:
        rule.letters[9] = "n"
        rule.added = {9}
    return rule.ways("mnk", "k")


def _scaled_add(*args: Any) -> Any:
    rule = _codes_rule(args, 1, args[7], [])
    rule.letters[0] = "mn"
    rule.added = {0}
    return rule.ways("mnk", "k")


def _independent(rule: _Rule, scales: list[str], letters: str) -> str:
    """Of ``letters`` those along which a shard has scales of its own."""
    return "".join(letter for letter in letters if all(letter in each.lower() for each in scales))


def is_dtensor(x: Any) -> bool:
    if type(x) in (torch.Tensor, torch.nn.Parameter) or "torch.distributed.tensor" not in sys.modules:
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(x, DTensor)


def beside(x: Any, other: torch.Tensor) -> Any:
    """``other`` as a DTensor of x's mesh: what is none is the same on every rank."""
    if is_dtensor(other):
        return other
    from torch.distributed.tensor import DTensor, Replicate

    return DTensor.from_local(other, x.device_mesh, [Replicate()] * x.device_mesh.ndim, run_check=False)


def is_placed(x: torch.Tensor) -> bool:
    """Whether x is a DTensor of which a rank has all, or whole rows or columns."""
    if not is_dtensor(x):
        return False
    from torch.distributed.tensor import Replicate, Shard

    placed: Any = x
    return {type(place) for place in placed.placements} <= {Shard, Replicate}


def is_sharded(x: Any) -> bool:
    return is_placed(x) and any(place.is_shard() for place in x.placements)


def with_rows(x: Any) -> Any:
    """x [..., c] gathered along the dimensions between the first and the last, by which no rank would have rows that follow each other."""
    from torch.distributed.tensor import Replicate

    places = [Replicate() if place.is_shard() and 0 < place.dim < x.dim() - 1 else place for place in x.placements]
    return x.redistribute(x.device_mesh, places) if places != list(x.placements) else x


def _everywhere(local: torch.Tensor, x: Any, reduced: tuple[int, ...]) -> torch.Tensor:
    """The largest of ``local`` over the ranks that share dimensions ``reduced`` of x [r, c]."""
    from torch.distributed.tensor import DTensor, Partial, Replicate

    partial = [Partial("max") if place.is_shard() and place.dim in reduced else Replicate() for place in x.placements]
    if not any(place.is_partial() for place in partial):
        return local
    placed = DTensor.from_local(local, x.device_mesh, partial, run_check=False)
    return placed.redistribute(x.device_mesh, [Replicate()] * x.device_mesh.ndim).to_local()


def _rows_by(x: torch.Tensor, amax: torch.Tensor, dtype: torch.dtype, rule: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes of x [r, c] and a scale for each row, of ``amax`` [r], as the operator makes them."""
    scale = torch.ops.ridgeline.quantize(amax.unsqueeze(1), dtype, "row", rule)[1]
    return cast(x, x.float() * scale.reciprocal().unsqueeze(1), dtype), scale


def quantised(
    x: Any, dtype: torch.dtype, grouping: str, rule: str, row: bool, column: bool, given: torch.Tensor | None = None
) -> tuple[Any, Any, Any, Any]:
    """The operator ``quantize`` of a matrix that ``is_placed``, with scales of "tensor" or "row": each shard is quantised where it lies, with
    scales of the whole. What moves between ranks is the largest magnitude of the matrix, or those of its rows or columns. ``given`` is what the
    scale of "tensor" is made of where it is not 0.
    """
    from torch.distributed.tensor import DTensor, Replicate, Shard

    mesh, local = x.device_mesh, x.to_local()
    finite = torch.where(local.isfinite(), local, 0).abs().float()
    turned = [Shard(1 - place.dim) if place.is_shard() else place for place in x.placements]

    def placed(part: torch.Tensor, shape: tuple[int, ...], places: Any) -> Any:
        return DTensor.from_local(part, mesh, places, run_check=False, shape=torch.Size(shape), stride=(shape[-1], 1)[-len(shape) :])

    r, c = x.shape
    if grouping == "tensor":
        amax = _everywhere(finite.amax() if finite.numel() else finite.new_zeros(()), x, (0, 1))
        if given is not None:
            amax = torch.where(given > 0, given, amax)
        q, scale, q_t, scale_t = codes(local, amax, None, dtype, rule, row, column)
        everywhere = [Replicate()] * mesh.ndim
        scales = [placed(each, (1,), everywhere) if wanted else each for each, wanted in ((scale, row), (scale_t, column))]
        return placed(q, (r, c), x.placements) if row else q, scales[0], placed(q_t, (c, r), turned) if column else q_t, scales[1]
    made: list[Any] = []
    for wanted, matrix, size, shape, places, at in ((row, local, finite, (r, c), x.placements, 1), (column, local.t(), finite.t(), (c, r), turned, 0)):
        if not wanted:
            made += [local.new_empty(0, dtype=dtype), local.new_empty(0, dtype=torch.float32)]
            continue
        amax = _everywhere(size.amax(1) if size.shape[1] else size.new_zeros(size.shape[0]), x, (at,))
        q, scale = _rows_by(matrix, amax, dtype, rule)
        of_rows = [Shard(0) if place.is_shard() and place.dim == 0 else Replicate() for place in places]
        made += [placed(q.contiguous(), shape, places), placed(scale, shape[:1], of_rows)]
    return made[0], made[1], made[2], made[3]


def _moved(q: Any, places: list[Any]) -> Any:
    """Codes at other places; as bytes, because gloo has no 8-bit floats."""
    from torch.distributed.tensor import DTensor

    if tuple(places) == tuple(q.placements):
        return q
    whole: dict[str, Any] = {"run_check": False, "shape": q.shape, "stride": q.stride()}
    there = DTensor.from_local(q.to_local().view(torch.uint8), q.device_mesh, q.placements, **whole).redistribute(q.device_mesh, places)
    return DTensor.from_local(there.to_local().view(q.dtype), q.device_mesh, places, **whole)


def aligned(left: Any, right: Any) -> tuple[Any, Any]:
    """Codes of left [m, k] and right [n, k] where their product can be made: rows of one of them sharded, or both along k. Of these ways the one
    that moves the fewest bytes, on each dimension of the mesh."""
    from torch.distributed.tensor import Replicate, Shard

    whole = Replicate()
    ways = ((Shard(0), whole), (whole, Shard(0)), (Shard(1), Shard(1)), (whole, whole))
    places: list[tuple[Any, Any]] = []
    for own in zip(left.placements, right.placements):
        moved = [sum(each.numel() for each, have, want in zip((left, right), own, way) if have.is_shard() and have != want) for way in ways]
        places.append(ways[moved.index(min(moved))])
    return _moved(left, [each for each, _ in places]), _moved(right, [each for _, each in places])


def _coding_rule(
    args: tuple[Any, ...], at: int, sizes: tuple[int, int], along: str, more: Sequence[str] = ()
) -> tuple[_Rule, Callable[[], Any]]:
    """Of an operator whose first results are the codes of a matrix [r, c] of these ``sizes``: grouping, rule, row, column and random
    words are at ``at``, ``along`` says where shards are made by themselves, and ``more`` are letters of its other results."""
    grouping, row, column, random = args[at], _get(args, at + 2, True), _get(args, at + 3, False), _get(args, at + 4)
    scales, scales_t = _scales(grouping, "r", "c"), _scales(grouping, "c", "r")
    rule = _Rule(len(args), ["rc" if row else "", scales if row else "", "cr" if column else "", scales_t if column else "", *more])
    if random is not None:
        rule.letters[at + 4] = ""
    rule.block, rule.ranks = _BLOCK.get(grouping, 1), args[0].mesh.size()
    rule.sizes = dict(zip("rc", sizes))
    made = [scales] * bool(row) + [scales_t] * bool(column)
    # Random words are drawn by the place in the matrix, which a shard does not know.
    return rule, lambda: rule.ways(_independent(rule, made, along) if random is None else "")


def _quantize(*args: Any) -> Any:
    rule, ways = _coding_rule(args, 2, args[0].shape, "rc")
    rule.letters[0] = "rc"
    return ways()


def _activation_quantize(*args: Any) -> Any:
    """As ``_activation``, then alpha, limit, format and how the result is coded."""
    rows, cols = args[0].shape
    packed = args[5]
    row = "r" if packed else "rc"
    rule, ways = _coding_rule(args, 9, (rows, cols // 2 if packed else cols), row)
    _activation_letters(rule, 0, args, row, "r")
    return ways()


def _activation_quantize_backward(*args: Any) -> Any:
    """dy, then as ``_activation_quantize``. Both gradients lie side by side, which columns of one are no columns of."""
    rows, cols = args[1].shape
    gated, packed = _get(args, 2) is not None, args[6]
    row = "r" if gated or packed else "rc"
    rule, ways = _coding_rule(args, 10, (rows, 2 * cols if gated else cols), row)
    rule.letters[0] = row
    _activation_letters(rule, 1, args, row, "r")
    return ways()


def _rmsnorm_quantize(*args: Any) -> Any:
    """x, residual, weight, eps, zero_centred, format and how the result is coded; the sum and the factors of rows are results more."""
    residual = _get(args, 1) is not None
    rule, ways = _coding_rule(args, 6, args[0].shape, "r", ["rc" if residual else "", "r"])
    for at, letters in enumerate(("rc", "rc", "c")):
        if _get(args, at) is not None:
            rule.letters[at] = letters
    return ways()


def _dequantize(*args: Any) -> Any:
    q, grouping = args[0], args[2]
    rule = _Rule(len(args), ["rc"])
    rule.letters[:2] = ["rc", _scales(grouping, "r", "c")]
    rule.block, rule.ranks = _BLOCK.get(grouping, 1), q.mesh.size()
    rule.sizes = dict(zip("rc", q.shape))
    return rule.ways("rc")


def _gemm_fp8(*args: Any) -> Any:
    """Where it is not taken apart into quantize and gemm_fp8_scaled: without a gradient."""
    a, b, out = _factors(args, 0, 2)
    of_a, of_b = _OF_PRODUCT[_OF_CONFIG[_get(args, 6, "tensorwise")]]
    rule = _Rule(len(args), [out])
    rule.letters[:2] = [a, b]
    for at, letters in ((9, b), (10, "n")):  # main_grad, bias
        if _get(args, at) is not None:
            rule.letters[at] = letters
    rule.added = {10}
    rule.block, rule.ranks = _BLOCK.get(of_a, 1), args[0].mesh.size()
    rule.sizes = dict(zip(a, args[0].shape)) | dict(zip(b, args[1].shape))
    scale_a, scale_b = _scales(of_a, "m", "k"), _scales(of_b, "n", "k")
    rows = _independent(rule, [scale_a], "m")
    along = (out[:-1] if rows else "") + _independent(rule, [scale_b], "n") + _independent(rule, [scale_a, scale_b], "k")
    # Scales are no operands here, but shards must be whole blocks all the same.
    along = "".join(one for one in along if rule._whole_blocks(one, [scale_a, scale_b]))
    return rule.ways(along, "k")


def _norm(operands: int, results: int, vectors: int, statistics: int) -> Any:
    """Norms of x, or of x and a residual; then weight and bias. Leading dimensions may be sharded; statistics [...] are results more."""

    def rule(*args: Any) -> Any:
        leading = _leading(args[0].shape[:-1], args[0].shape[:-1])
        made = _Rule(len(args), [leading + "n"] * results + [leading] * statistics)
        made.letters[:operands] = [leading + "n"] * operands
        for at in range(operands, operands + vectors):
            if _get(args, at) is not None:
                made.letters[at] = "n"
        return made.ways(leading)

    return rule


def _symmetric(*args: Any) -> Any:
    """a, and at 4 the residual: matrices of a batch may be on several ranks, the rows of one not."""
    batch = "b" if len(args[0].shape) == 3 else ""
    rule = _Rule(len(args), [batch + "nm"])
    rule.letters[0] = batch + "nm"
    if _get(args, 4) is not None:
        rule.letters[4] = batch + "nm"
    return rule.ways(batch)


def _norm_backward(statistics: int, gradients: int) -> Any:
    """dy, x, statistics, weight, zero_centred, dsum, then which gradients are wanted: of x, and of vectors, which are sums over the leading
    dimensions."""

    def rule(*args: Any) -> Any:
        from torch.distributed.tensor import Partial, Replicate

        weight = 2 + statistics
        leading = _leading(args[1].shape[:-1], args[1].shape[:-1])
        of_x, *of_vectors = (_get(args, weight + 3 + i, True) for i in range(gradients))
        made = _Rule(len(args), [leading + "n" if of_x else "", *("n" if wanted else "" for wanted in of_vectors)])
        made.letters[:weight] = [leading + "n"] * 2 + [leading] * statistics
        for at, letters in ((weight, "n"), (weight + 2, leading + "n")):
            if _get(args, at) is not None:
                made.letters[at] = letters
        whole, *sharded = made.ways(leading)
        sums = [Partial() if wanted else Replicate() for wanted in of_vectors]  # what is not wanted is empty
        return [whole, *(([results[0], *sums], given) for results, given in sharded)]

    return rule


def _activation_letters(rule: _Rule, first: int, args: tuple[Any, ...], row: str, leading: str) -> None:
    """Of x, up, probs and mask, from position ``first``."""
    for at, letters in enumerate((row, row, leading, leading), first):
        if _get(args, at) is not None:
            rule.letters[at] = letters


def _activation(*args: Any) -> Any:
    """x, up, probs, mask, function, packed: halves of a packed row stay together."""
    leading, packed = _leading(args[0].shape[:-1], args[0].shape[:-1]), args[5]
    row = leading + ("" if packed else "n")
    rule = _Rule(len(args), [row])
    _activation_letters(rule, 0, args, row, leading)
    return rule.ways(row)


def _activation_backward(*args: Any) -> Any:
    """dy, then as ``_activation``, then alpha, limit, need_x, need_up, need_probs; the gradient of probs is a sum over columns."""
    from torch.distributed.tensor import Partial, Replicate

    leading, packed = _leading(args[1].shape[:-1], args[1].shape[:-1]), args[6]
    row = leading + ("" if packed else "n")
    wanted = [_get(args, at, True) for at in (9, 10, 11)]
    rule = _Rule(len(args), [letters if want else "" for letters, want in zip((row, row, leading), wanted)])
    rule.letters[0] = row
    _activation_letters(rule, 1, args, row, leading)
    ways = rule.ways(leading)
    if not packed:
        _, (results, given) = rule.ways("n")
        ways.append(([*results[:2], Partial() if wanted[2] else Replicate()], given))
    return ways


def _rope(*args: Any) -> Any:
    """q, k, cos, sin, positions: heads of q and k may be sharded each by themselves, the length where the positions say which it is."""
    keyed, placed = _get(args, 1) is not None, _get(args, 4) is not None
    rule = _Rule(len(args), ["blh.", "blg." if keyed else ""])
    rule.letters[:4] = ["blh.", "blg." if keyed else None, "", ""]
    if placed:
        rule.letters[4] = "bl"
    ways = rule.ways("bl" if placed else "b")
    _, *heads = rule.ways("hg" if keyed else "h")
    if keyed:  # both, where each has enough
        of_q, of_k = heads
        heads.append(([of_q[0][0], of_k[0][1]], [of_q[1][0], *of_k[1][1:]]))
    return [*ways, *heads]


def _rope_norm(*args: Any) -> Any:
    """q, k, q_weight, k_weight, cos, sin, positions: sharded as in rope, with whole weights."""
    keyed, weighted, placed = (_get(args, at) is not None for at in (1, 2, 6))
    rule = _Rule(len(args), ["blh.", "blg." if keyed else ""])
    rule.letters[:6] = ["blh.", "blg." if keyed else None, "" if weighted else None, "" if keyed and weighted else None, "", ""]
    if placed:
        rule.letters[6] = "bl"
    ways = rule.ways("bl" if placed else "b")
    _, *heads = rule.ways("hg" if keyed else "h")
    if keyed:  # both, where each has enough
        of_q, of_k = heads
        heads.append(([of_q[0][0], of_k[0][1]], [of_q[1][0], of_k[1][1], *of_q[1][2:]]))
    return [*ways, *heads]


def _rope_norm_backward(*args: Any) -> Any:
    """dq_out, dk_out, q, k, q_weight, k_weight, cos, sin, positions; the gradients of the weights are partial where tokens or heads are sharded."""
    from torch.distributed.tensor import Partial

    keyed, weighted, placed = (_get(args, at) is not None for at in (3, 4, 8))
    of_q, of_k = "blh.", "blg." if keyed else ""
    rule = _Rule(len(args), [of_q, of_k, "", ""])
    whole = "" if weighted else None
    rule.letters[:8] = [of_q, of_k if keyed else None, of_q, of_k if keyed else None, whole, whole if keyed else None, "", ""]
    if placed:
        rule.letters[8] = "bl"
    first, *tokens = rule.ways("bl" if placed else "b")
    _, *heads = rule.ways("hg" if keyed else "h")
    if keyed:
        q_way, k_way = heads
        both = [q_way[1][0], k_way[1][1], q_way[1][2], k_way[1][3], *q_way[1][4:]]
        heads.append(([q_way[0][0], k_way[0][1], *q_way[0][2:]], both))
    sharded_q, sharded_k = [*tokens, heads[0], *heads[2:]], [*tokens, *heads[1:]]
    for ways, at in ((sharded_q, 2), (sharded_k, 3)):
        for results, _ in ways:
            if weighted and (at == 2 or keyed):
                results[at] = Partial()
    return [first, *tokens, *heads]


def _shared_out(heads: int, kv_heads: int, ranks: int) -> bool:
    """Whether every shard of the heads of q has the heads of k and v that it reads, and the same number of each."""
    return heads % ranks == 0 and (kv_heads % ranks == 0 or kv_heads == 1)


def _attention(letters: str, results: str) -> Any:
    """q rows of q, o and their gradients, k of k and v and theirs, l the log-sum-exp, s a number of each head of q, by position; then whether it
    is causal, scale, deterministic, the ends of a window, sinks, and a softcap.

    Batch and heads may be sharded, and without a mask the queries: where k and v are whole their gradients are partial.
    """

    def rule(*args: Any) -> Any:
        from torch.distributed.tensor import Partial, Replicate, Shard

        q, k = args[letters.index("q")], args[letters.index("k")]  # or what has the same shape
        masked = _get(args, len(letters), False) or any(_get(args, len(letters) + at, -1) >= 0 for at in (3, 4))
        whole = Replicate()
        ways: list[dict[str, tuple[Any, Any]]] = [  # as an operand, and as a result
            dict.fromkeys("qkls", (whole, whole)),
            dict.fromkeys("qkl", (Shard(0), Shard(0))),
        ]
        sinks = _get(args, len(letters) + 5) is not None
        one_for_all = whole, Partial()
        ways[1]["s"] = one_for_all
        if _shared_out(q.shape[2], k.shape[2], q.mesh.size()):
            of_keys = one_for_all if k.shape[2] == 1 else (Shard(2), Shard(2))
            ways.append({"q": (Shard(2), Shard(2)), "k": of_keys, "l": (Shard(1), Shard(1)), "s": (Shard(0), Shard(0))})
        if not masked:
            ways.append({"q": (Shard(1), Shard(1)), "k": one_for_all, "l": (Shard(2), Shard(2)), "s": one_for_all})
        return _placed(ways, letters, results, len(args), len(letters) + 5 if sinks else None)

    return rule


def _attention_fp8(*args: Any) -> Any:
    """q, k, v and the scales of their heads, [batch, heads]; then the dtype of o, whether it is causal, scale and the ends of a window."""
    from torch.distributed.tensor import Replicate, Shard

    q, k = args[0], args[1]
    masked = _get(args, 7, False) or any(_get(args, at, -1) >= 0 for at in (9, 10))
    letters = "qkkaccl"  # a the scales of q, c those of k and v, l the log-sum-exp

    def way(**places: Any) -> dict[str, tuple[Any, Any]]:
        return {each: (places.get(each, Replicate()),) * 2 for each in letters}

    ways = [way(), dict.fromkeys(letters, (Shard(0), Shard(0)))]
    if _shared_out(q.shape[2], k.shape[2], q.mesh.size()):
        of_keys = {} if k.shape[2] == 1 else {"k": Shard(2), "c": Shard(1)}
        ways.append(way(q=Shard(2), a=Shard(1), l=Shard(1), **of_keys))
    if not masked:
        ways.append(way(q=Shard(1), l=Shard(2)))
    return _placed(ways, letters[:6], "ql", len(args), None)


def _varlen_attention(letters: str, results: str) -> Any:
    """q rows of q, o and their gradients, k of k and v and theirs, l the log-sum-exp, s a number of each head of q, d offsets of documents, by
    position; sinks are among the rest as above. Heads may be sharded."""

    def rule(*args: Any) -> Any:
        from torch.distributed.tensor import Partial, Replicate, Shard

        q, k = args[letters.index("q")], args[letters.index("k")]
        whole = Replicate()
        ways: list[dict[str, tuple[Any, Any]]] = [dict.fromkeys("qklsd", (whole, whole))]  # as an operand, and as a result
        if _shared_out(q.shape[1], k.shape[1], q.mesh.size()):
            of_keys = (whole, Partial()) if k.shape[1] == 1 else (Shard(1), Shard(1))
            of_heads = Shard(0), Shard(0)
            ways.append({"q": (Shard(1), Shard(1)), "k": of_keys, "l": of_heads, "s": of_heads, "d": (whole, whole)})
        sinks = _get(args, len(letters) + 5) is not None
        return _placed(ways, letters, results, len(args), len(letters) + 5 if sinks else None)

    return rule


def _placed(ways: list[dict[str, tuple[Any, Any]]], letters: str, results: str, count: int, sinks: int | None) -> Any:
    """Ways as DTensor wants them: of results, and of ``count`` arguments, of which that at ``sinks`` is one of each head."""
    from torch.distributed.tensor import Replicate

    made = []
    for way in ways:
        given: list[Any] = [way[each][0] for each in letters] + [None] * (count - len(letters))
        if sinks is not None:
            given[sinks] = way["s"][0]
        none = sinks is None  # an empty gradient is whole
        made.append(([Replicate() if each == "s" and none else way[each][1] for each in results], given))
    return made


def attention_refusal(q: Any, k: Any, v: Any, causal: bool, window: tuple[int, int] = (-1, -1), sinks: Any = None) -> str | None:
    """Why attention of these [batch, length, heads, dim], of which one is a DTensor, is not made of what each rank has."""
    if not (is_dtensor(q) and is_dtensor(k) and is_dtensor(v)):
        return "q, k and v are not all DTensors"
    if sinks is not None and not is_dtensor(sinks):
        return "q is a DTensor and sinks is none"
    for at, places in enumerate(zip(q.placements, k.placements, v.placements)):
        sharded = {place.dim for place in places if place.is_shard()}
        fits = not any(place.is_partial() for place in places)
        if sharded == {2}:
            of_keys = any(place.is_shard() for place in places[1:])
            heads, kv_heads, ranks = q.shape[2], k.shape[2], q.device_mesh.size()
            fits = fits and _shared_out(heads, kv_heads, ranks) and not (of_keys and kv_heads == 1 and ranks > 1)
        elif sharded == {1}:
            fits = fits and not causal and max(window) < 0 and places[0].is_shard() and not any(place.is_shard() for place in places[1:])
        else:
            fits = fits and sharded <= {0}
        if not fits:
            mask = "a window" if max(window) >= 0 else "a causal mask" if causal else "no mask"
            return (
                f"q, k and v, of {q.shape[2]} and {k.shape[2]} heads, lie as {', '.join(map(str, places))} along dimension {at} of the mesh, "
                f"and there is {mask}; batch and heads may be sharded, and without a mask the length of q"
            )
    return None


def _loss(letters: str, results: str) -> Any:
    """A loss of ``letters`` of tensors, by position: r rows of logits, whose columns stay together, t numbers of each token."""

    def rule(*args: Any) -> Any:
        dims = {"r": "t.", "t": "t"}
        made = _Rule(len(args), [dims[each] for each in results])
        for at, each in enumerate(letters):
            if _get(args, at) is not None:
                made.letters[at] = dims[each]
        return made.ways("t")

    return rule


def _softmax(*args: Any) -> Any:
    """x, form: a number of each row alone with logsumexp. Leading dimensions may be sharded."""
    leading = _leading(args[0].shape[:-1], args[0].shape[:-1])
    rule = _Rule(len(args), [leading + ("" if _get(args, 1, "softmax") == "logsumexp" else "n")])
    rule.letters[0] = leading + "n"
    return rule.ways(leading)


def _softmax_backward(*args: Any) -> Any:
    """dy, y; or dy of each row, x and lse."""
    leading = _leading(args[1].shape[:-1], args[1].shape[:-1])
    rule = _Rule(len(args), [leading + "n"])
    rule.letters[:3] = [leading + "n", leading + "n", None] if args[2] is None else [leading, leading + "n", leading]
    return rule.ways(leading)


def _embedding(*args: Any) -> Any:
    """ids, weight, padding_idx, main_grad: tokens may be sharded beside a whole table, and columns."""
    tokens = _leading(args[0].shape, args[0].shape)
    rule = _Rule(len(args), [tokens + "n"])
    rule.letters[:2] = [tokens, "mn"]
    if _get(args, 3) is not None:
        rule.letters[3] = "mn"
        return rule.ways("n")
    return rule.ways(tokens + "n")


def _embedding_backward(*args: Any) -> Any:
    """dy, ids: a sum over tokens."""
    tokens = _leading(args[1].shape, args[1].shape)
    rule = _Rule(len(args), ["mn"])
    rule.letters[:2] = [tokens + "n", tokens]
    ways = rule.ways("n")
    for one in tokens:
        ways += rule.ways(one, one)[1:]
    return ways


def _combine_rows(*args: Any) -> Any:
    """x, sources, weights, places: along columns."""
    rule = _Rule(len(args), ["tn"])
    rule.letters[:2] = ["xn", "tk"]
    if _get(args, 2) is not None:
        rule.letters[2] = "tk"
    if _get(args, 3) is not None:
        rule.letters[3] = "xm"
    return rule.ways("n")


def _combine_rows_backward(*args: Any) -> Any:
    """dy, x, sources: a sum over columns."""
    rule = _Rule(len(args), ["tk"])
    rule.letters[:3] = ["tn", "xn", "tk"]
    return rule.ways("n", "n")


def _expert_order(*args: Any) -> Any:
    """experts, whose order is of all tokens."""
    rule = _Rule(len(args), ["e", "s.", "tk", "s."])
    rule.letters[0] = "tk"
    return rule.ways("")


def _route(*args: Any) -> Any:
    """logits, top, score, order, bias: tokens may be sharded, each with the logits of all experts."""
    rule = _Rule(len(args), ["tk", "tk"])
    rule.letters[0] = "te"
    if _get(args, 4) is not None:
        rule.letters[4] = "e"
    return rule.ways("t")


def _route_backward(*args: Any) -> Any:
    """dweights, logits, experts: along tokens."""
    rule = _Rule(len(args), ["te"])
    rule.letters[:3] = ["tk", "te", "tk"]
    return rule.ways("t")


def register() -> None:
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
    from torch.distributed.tensor.experimental import register_sharding

    ops = torch.ops.ridgeline
    for op, rule, tensors in (
        (ops.gemm, _gemm, 2),
        (ops.gemm_add_, _gemm_add, 3),
        (ops.grouped_gemm, _grouped, 3),
        (ops.grouped_gemm_add_, _grouped_add, 4),
        (ops.symmetric_product, _symmetric, 1),
        (ops.gemm_fp8, _gemm_fp8, 2),
        (ops.gemm_fp8_scaled, _scaled, 4),
        (ops.gemm_fp8_scaled_add_, _scaled_add, 5),
        (ops.quantize, _quantize, 1),
        (ops.activation_quantize, _activation_quantize, 4),
        (ops.activation_quantize_backward, _activation_quantize_backward, 5),
        (ops.rmsnorm_quantize, _rmsnorm_quantize, 3),
        (ops.dequantize, _dequantize, 2),
        (ops.rmsnorm, _norm(1, 1, 1, 1), 2),
        (ops.rmsnorm_add, _norm(2, 2, 1, 1), 3),
        (ops.rmsnorm_backward, _norm_backward(1, 2), 4),
        (ops.layernorm, _norm(1, 1, 2, 2), 3),
        (ops.layernorm_add, _norm(2, 2, 2, 2), 4),
        (ops.layernorm_backward, _norm_backward(2, 3), 5),
        (ops.activation, _activation, 4),
        (ops.activation_backward, _activation_backward, 5),
        (ops.rope, _rope, 5),
        (ops.rope_norm, _rope_norm, 7),
        (ops.rope_norm_backward, _rope_norm_backward, 9),
        (ops.attention, _attention("qkk", "ql"), 3),
        (ops.attention_backward, _attention("qqkkql", "qkks"), 6),
        (ops.attention_fp8, _attention_fp8, 6),
        (ops.varlen_attention, _varlen_attention("qkkdd", "ql"), 5),
        (ops.varlen_attention_backward, _varlen_attention("qqkkqldd", "qkks"), 8),
        (ops.embedding, _embedding, 2),
        (ops.embedding_backward, _embedding_backward, 2),
        (ops.combine_rows, _combine_rows, 4),
        (ops.combine_rows_backward, _combine_rows_backward, 3),
        (ops.expert_order, _expert_order, 1),
        (ops.route, _route, 1),
        (ops.route_backward, _route_backward, 3),
        (ops.softmax, _softmax, 1),
        (ops.softmax_backward, _softmax_backward, 3),
        (ops.cross_entropy, _loss("rt", "tt"), 2),
        (ops.cross_entropy_backward, _loss("trtt", "r"), 4),
        (ops.cross_entropy_with_gradient, _loss("rtt", "tr"), 3),
        (ops.cross_entropy_shard, _loss("rt", "tttt"), 2),
    ):
        register_sharding(op.default)(rule)
        # Flags and words are part of what a choice is kept by, which register_sharding takes whole numbers alone for.
        DTensor._op_dispatcher.sharding_propagator.op_to_schema_info[op.default] = RuntimeSchemaInfo(tensors, needs_pytree=True)

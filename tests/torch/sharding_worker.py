"""One rank of test_sharding.py: sharding_worker.py RANK RANKS STORE_FILE PART..."""

import contextlib
import copy
import itertools
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

import ranks as processes
import ridgeline.testing as testing
import ridgeline.torch as rt
from ridgeline.torch import QuantConfig, sharding

ops = torch.ops.ridgeline


def bits(x):
    return x.contiguous().view(torch.uint8) if x.dtype.itemsize == 1 else x


def whole(x, like):
    """A DTensor as one tensor; of codes, which gloo does not gather, the rank's own part and that of what it should be."""
    if not isinstance(x, DTensor):
        return x, like
    if x.dtype.itemsize > 1:
        return x.full_tensor(), like
    return x.to_local(), DTensor.from_local(like, x.device_mesh, [Replicate()]).redistribute(x.device_mesh, x.placements).to_local()


def every_placement(mesh, *tensors):
    """The call's tensors sharded in every way, as long as there is one that is."""
    choices = [[Replicate(), *(Shard(i) for i in range(t.dim()))] for t in tensors]
    for places in itertools.product(*choices):
        yield places, [distribute_tensor(t, mesh, [place]) for t, place in zip(tensors, places)]


def same(found, expected, floor, where):
    found, expected = (x if isinstance(x, (tuple, list)) else [x] for x in (found, expected))
    for have, want in zip(found, expected, strict=True):
        have, want = map(bits, whole(have, want))
        if have.dtype == torch.uint8:
            assert torch.equal(have, want), where
        elif want.numel():
            assert have.shape == want.shape, where
            testing.assert_snr(want.double(), have, floor)


def check_ops(mesh):
    a, b, bias, residual = torch.randn(6, 8), torch.randn(4, 8), torch.randn(4), torch.randn(6, 4)
    square = torch.randn(8, 8)
    for places, (x, w) in every_placement(mesh, a, b):
        same(ops.gemm(x, w, False, True), ops.gemm(a, b, False, True), 100, places)
        same(ops.gemm(x, w, False, True, torch.float32, distribute_tensor(bias, mesh, [Replicate()]), "silu"),
             ops.gemm(a, b, False, True, torch.float32, bias, "silu"), 100, places)
        out = torch.ones(6, 4)
        target = distribute_tensor(out, mesh, [Replicate()])
        ops.gemm_add_(target, x, w, False, True)
        ops.gemm_add_(out, a, b, False, True)
        same(target, out, 100, places)
    for places, (x, w) in every_placement(mesh, square, torch.randn(8, 8)):
        for flags in itertools.product((False, True), repeat=2):  # equal shapes: a choice must not be kept across layouts
            plain = [t.full_tensor() for t in (x, w)]
            same(ops.gemm(x, w, *flags), ops.gemm(*plain, *flags), 100, (places, flags))
    grams = torch.randn(2, 6, 6)
    for many in (torch.randn(2, 6, 8), torch.randn(6, 8)):
        of_gram = grams if many.dim() == 3 else grams[0]
        for places, (x, r) in every_placement(mesh, many, of_gram):
            same(ops.symmetric_product(x, False, None, 0.5, r, 2.0, 1.0), ops.symmetric_product(many, False, None, 0.5, of_gram, 2.0, 1.0), 100, places)
            same(ops.symmetric_product(x, True), ops.symmetric_product(many, True), 100, places)
    for places, (x, w, c, r) in every_placement(mesh, a, b, bias, residual):
        same(ops.gemm(x, w, False, True, None, c, None, None, r), ops.gemm(a, b, False, True, None, bias, None, None, residual), 100, places)
    out = torch.randn(2, 6, 4)
    batch = torch.randn(2, 6, 8), torch.randn(2, 8, 4)
    for places, (x, w) in every_placement(mesh, *batch):
        same(ops.gemm(x, w), ops.gemm(*batch), 100, places)
        target = distribute_tensor(out.clone(), mesh, [Replicate()])
        ops.gemm_add_(target, x, w)
        same(target, out + ops.gemm(*batch), 100, places)


def check_leading(mesh):
    """Leading dimensions in inference mode, where the rules see them; elsewhere PyTorch makes rows of them first, and refuses some shardings."""
    for first, second in (((2, 6, 8), (4, 8)), ((2, 3, 6, 8), (4, 8)), ((6, 8), (2, 4, 8)), ((2, 3, 6, 8), (3, 4, 8)), ((2, 1, 6, 8), (1, 3, 4, 8)), ((1, 6, 8), (4, 8))):
        a, b, bias = torch.randn(first), torch.randn(second), torch.randn(4)
        expected = a @ b.mT
        residual = torch.randn(expected.shape)
        c, r = (distribute_tensor(t, mesh, [Shard(0)]) for t in (bias, residual))
        for places, (x, w) in every_placement(mesh, a, b):
            same(rt.gemm(x, w, trans_b=True), expected, 100, places)
            same(rt.gemm(x, w, trans_b=True, bias=c, residual=r), expected + bias + residual, 100, places)
        for places, (x, w) in every_placement(mesh, a.mT.contiguous(), b.mT.contiguous()):
            same(rt.gemm(x, w, trans_a=True), expected, 100, places)


def check_codes_of_operators(mesh, x, coding):
    residual, weight, probs = torch.randn_like(x), torch.randn(x.shape[1]), torch.rand(x.shape[0])
    gated = ops.activation_quantize(x, residual, probs, None, "silu", False, 1.0, 1.0, *coding)
    packed = ops.activation_quantize(x, None, None, None, "gelu", True, 1.0, 1.0, *coding)
    norm, plain = ops.rmsnorm_quantize(x, residual, weight, 1e-5, False, *coding), ops.rmsnorm_quantize(x, None, None, 1e-5, False, *coding)
    of_gate = ops.activation_quantize_backward(x, x, residual, probs, None, "silu", False, 1.0, 1.0, *coding)
    of_packed = ops.activation_quantize_backward(x[:, ::2].contiguous(), x, None, None, None, "gelu", True, 1.0, 1.0, *coding)
    alone = ops.activation_quantize_backward(residual, x, None, None, None, "silu", False, 1.0, 1.0, *coding)
    w = distribute_tensor(weight, mesh, [Replicate()])
    for places, (shard, other) in every_placement(mesh, x, residual):
        p = distribute_tensor(probs, mesh, [Shard(0) if places[0] == Shard(0) else Replicate()])
        same(ops.activation_quantize(shard, other, p, None, "silu", False, 1.0, 1.0, *coding), gated, 200, ("gated", coding, places))
        same(ops.activation_quantize(shard, None, None, None, "gelu", True, 1.0, 1.0, *coding), packed, 200, ("packed", coding, places))
        dy = distribute_tensor(x[:, ::2].contiguous(), mesh, [places[0]])
        same(ops.activation_quantize_backward(shard, shard, other, p, None, "silu", False, 1.0, 1.0, *coding), of_gate, 200, ("gradients", coding, places))
        same(ops.activation_quantize_backward(dy, shard, None, None, None, "gelu", True, 1.0, 1.0, *coding), of_packed, 200, ("packed gradients", coding, places))
        same(ops.activation_quantize_backward(other, shard, None, None, None, "silu", False, 1.0, 1.0, *coding), alone, 200, ("a gradient", coding, places))
        same(ops.rmsnorm_quantize(shard, other, w, 1e-5, False, *coding), norm, 200, ("norm", coding, places))
        same(ops.rmsnorm_quantize(shard, None, None, 1e-5, False, *coding), plain, 200, ("norm alone", coding, places))


def check_codes(mesh):
    e4m3 = torch.float8_e4m3fn
    for rows, cols in ((256, 512), (192, 320)):
        x = torch.randn(rows, cols)
        for grouping, copies in itertools.product(("tensor", "row", "1x128", "128x128", "mx"), ((True, False), (False, True), (True, True))):
            rule = "floor" if grouping == "mx" else "exact"
            expected = ops.quantize(x, e4m3, grouping, rule, *copies)
            for places, (shard,) in every_placement(mesh, x):
                same(ops.quantize(shard, e4m3, grouping, rule, *copies), expected, 200, (grouping, copies, places))
            check_codes_of_operators(mesh, x, (e4m3, grouping, rule, *copies))
    a, b = torch.randn(256, 512), torch.randn(768, 512)
    for scaling, (of_a, of_b) in {"tensor": ("tensor",) * 2, "row": ("row",) * 2, "block": ("1x128", "128x128"), "vector": ("1x128",) * 2, "mx": ("mx",) * 2}.items():
        rule = "floor" if scaling == "mx" else "exact"
        q, scale, _, _ = ops.quantize(a, e4m3, of_a, rule)
        w, scale_w, _, _ = ops.quantize(b, e4m3, of_b, rule)
        bias = torch.randn(768)
        expected = ops.gemm_fp8_scaled(q, w, scale, scale_w, False, True, torch.float32, scaling, "promoted", bias)
        rest = [DTensor.from_local(t, mesh, [Replicate()]) for t in (scale, scale_w, bias)]
        for *places, of_sum in (
            (Replicate(), Replicate(), Replicate()), (Shard(0), Replicate(), Shard(0)), (Replicate(), Shard(0), Shard(1)), (Shard(1), Shard(1), Partial()),
        ):
            # Without a collective: gloo has none of 8-bit floats.
            x, y = (DTensor.from_local(t, mesh, [Replicate()]).redistribute(mesh, [place]) for t, place in zip((q, w), places))
            found = ops.gemm_fp8_scaled(x, y, *rest[:2], False, True, torch.float32, scaling, "promoted", rest[2])
            same(found, expected, processes.SAME_CODES, (scaling, places))
            ones = torch.ones(256, 768)
            if of_sum.is_partial():
                target = DTensor.from_local(ones / mesh.size(), mesh, [of_sum])
            else:
                target = distribute_tensor(ones, mesh, [of_sum])
            ops.gemm_fp8_scaled_add_(target, x, y, *rest[:2], False, True, scaling)
            same(target, expected - bias + 1, processes.SAME_CODES, (scaling, places))
            same(ops.dequantize(x, rest[0], of_a, torch.float32), ops.dequantize(q, scale, of_a, torch.float32), 200, (scaling, places))
    for granularity in ("tensorwise", "rowwise", "blockwise", "mx"):
        config = QuantConfig(granularity=granularity)
        with torch.no_grad():
            for places, (x, y) in every_placement(mesh, a, b):
                same(rt.gemm_fp8(x, y, trans_b=True, config=config), rt.gemm_fp8(a, b, trans_b=True, config=config), processes.SAME_CODES, (granularity, places))
        with torch.inference_mode():
            for leading in ((2,), (2, 3), (1, 2)):
                x, bias = torch.randn(*leading, 256, 512), torch.randn(768)
                want = rt.gemm_fp8(x, b, trans_b=True, config=config, bias=bias)
                c = distribute_tensor(bias, mesh, [Shard(0)])
                for places, (shard, y) in every_placement(mesh, x, b):
                    same(rt.gemm_fp8(shard, y, trans_b=True, config=config, bias=c), want, processes.SAME_CODES, (granularity, places))


def check_quantised_where_it_lies(mesh):
    """Codes and scales of shards are bit for bit those of the whole, also of shards of different sizes, and products are its products."""
    for rows, cols, bad in ((6, 10, None), (5, 7, torch.inf), (5, 7, torch.nan), (1, 3, None), (4, 0, None)):
        x = torch.randn(rows, cols) if bad else torch.randn(rows, cols).bfloat16()
        if bad is not None:
            x[rows // 2, cols - 1] = bad
        for grouping, rule, copies in itertools.product(("tensor", "row"), ("exact", "even"), ((True, False), (False, True), (True, True))):
            expected = ops.quantize(x, torch.float8_e5m2, grouping, rule, *copies)
            for place in (Shard(0), Shard(1)):
                shard = distribute_tensor(x, mesh, [place])
                with CommDebugMode() as comm:
                    found = sharding.quantised(shard, torch.float8_e5m2, grouping, rule, *copies)
                for have, want in zip(found, expected, strict=True):
                    have, want = (each.float() for each in whole(have, want))
                    torch.testing.assert_close(have, want, rtol=0, atol=0, equal_nan=True, msg=f"{grouping} {rule} {copies} {place} {bad}")
                assert comm.get_total_counts() <= 1, comm.get_comm_counts()
    # On a GPU layers pad rows to a multiple of 16, for which a shard of a few rows has to move.
    rows = 32 if torch.get_default_device().type == "cuda" else 6
    x, w, bias, upstream = torch.randn(rows, 40), torch.randn(10, 40), torch.randn(10), torch.randn(rows, 10)
    for granularity in ("tensorwise", "rowwise"):
        config = QuantConfig("hybrid", granularity)
        plain = rt.Fp8Linear(40, 10, config=config)
        plain.weight, plain.bias = torch.nn.Parameter(w.clone()), torch.nn.Parameter(bias.clone())
        leaf = x.clone().requires_grad_()
        y = plain(leaf)
        y.backward(upstream)
        for places, (a, b, dy) in every_placement(mesh, x, w, upstream):
            layer = rt.Fp8Linear(40, 10, config=config)
            layer.weight, layer.bias = torch.nn.Parameter(b), torch.nn.Parameter(distribute_tensor(bias, mesh, [Replicate()]))
            a.requires_grad_()
            with CommDebugMode() as comm:
                out = layer(a)
            # Operands that meet along the sum, or of which one is whole, stay where they are: maxima of both are all that moves.
            if places[:2] in ((Shard(0), Replicate()), (Replicate(), Shard(0)), (Shard(1), Shard(1))):
                assert not any("gather" in str(op) for op in comm.get_comm_counts()), (granularity, places, comm.get_comm_counts())
            same(out, y.detach(), processes.SAME_CODES, (granularity, places))
            without = a.detach()
            with torch.inference_mode():
                same(layer(without), y.detach(), processes.SAME_CODES, (granularity, places))
            out.backward(dy)
            for have, want in ((a.grad, leaf.grad), (layer.weight.grad, plain.weight.grad), (layer.bias.grad, plain.bias.grad)):
                same(have, want, processes.SAME_CODES, (granularity, places))


def check_middle(mesh):
    """Layers gather an input along a dimension in the middle; gradients come back where it was."""
    x, upstream = torch.randn(2, 6, 40), torch.randn(2, 6, 10)
    for recipe in (None, QuantConfig("hybrid"), QuantConfig(granularity="mx"), rt.recipe("rowwise_with_gw_hp")):
        floor = 100 if recipe is None else processes.SAME_CODES
        plain = torch.nn.Linear(40, 10)
        rt.convert(plain, recipe)
        parallel = copy.deepcopy(plain)
        for name, each in list(parallel.named_parameters()):
            setattr(parallel, name, torch.nn.Parameter(distribute_tensor(each.detach(), mesh, [Replicate()])))
        leaf = x.clone().requires_grad_()
        y = plain(leaf)
        y.backward(upstream)
        for place in (Shard(0), Shard(1), Shard(2)):
            shard = distribute_tensor(x, mesh, [place]).requires_grad_()
            out = parallel(shard)
            same(out, y.detach(), floor, (recipe, place))
            out.backward(distribute_tensor(upstream, mesh, [Replicate()]))
            same(shard.grad, leaf.grad, floor, (recipe, place))
            same(parallel.weight.grad, plain.weight.grad, floor, (recipe, place))
            parallel.zero_grad()


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(256)
        self.up, self.down = torch.nn.Linear(256, 512), torch.nn.Linear(512, 256)

    def forward(self, x):
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))


PLANS = {
    "column and row": {"up": ColwiseParallel(), "down": RowwiseParallel()},
    "sequence": {
        "norm": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1)),
        "": PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(1), use_local_output=True),
    },
}


def check_plans(mesh, rank):
    configs = [None, *(QuantConfig("hybrid", g) for g in ("tensorwise", "rowwise", "blockwise", "mx")), rt.recipe("rowwise_with_gw_hp"), rt.recipe("delayed")]
    for config, (name, plan) in itertools.product(configs, PLANS.items()):
        torch.manual_seed(3)
        one = Block()
        rt.swap_linears(one, config)
        parallel = copy.deepcopy(one)
        prepare = plan.get("")
        parallelize_module(parallel, mesh, {key: style for key, style in plan.items() if key})
        if prepare is not None:
            parallelize_module(parallel, mesh, prepare)
        x = torch.randn(2, 128, 256)
        upstream = torch.randn_like(x)
        one(x).backward(upstream)
        with CommDebugMode() as comm:
            out = parallel(x)
        if prepare is not None:
            out = DTensor.from_local(out, mesh, [Shard(1)]).full_tensor()
        testing.assert_snr(one(x).double(), out, 100 if config is None else 30)
        with torch.inference_mode():
            inferred = parallel(x)
            if prepare is not None:
                inferred = DTensor.from_local(inferred, mesh, [Shard(1)]).full_tensor()
            testing.assert_snr(one(x).double(), inferred, 100 if config is None else 30)
        out.backward(upstream)
        if isinstance(config, rt.Recipe) and config.delayed:
            for model in (one, parallel):
                assert rt.update_scales(model) == 2
            for want, have in ((each.up.amax_history, other.up.amax_history) for each, other in ((one, parallel),)):
                assert torch.allclose(have.full_tensor(), want, rtol=1e-5) and bool((want[:, 0] > 0).all())
        for (key, want), have in zip(one.named_parameters(), parallel.parameters(), strict=True):
            grad = have.grad.full_tensor() if isinstance(have.grad, DTensor) else have.grad
            testing.assert_snr(want.grad.double(), grad, 100 if config is None else 30)
        if name == "column and row" and not isinstance(config, rt.Recipe):
            calls = {str(op): count for op, count in comm.get_comm_counts().items()}
            # A reduction of the row-parallel product, and one for each operand whose shards share scales (two weights, an activation): no
            # weight and no activation is gathered.
            reductions = 4 if config is not None and config.granularity in ("tensorwise", "rowwise") else 1
            assert sum(calls.values()) == reductions and all("reduce" in op for op in calls), (config, calls)


class NormedBlock(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.second = torch.nn.RMSNorm(64), torch.nn.RMSNorm(64, elementwise_affine=False)
        self.up = torch.nn.Linear(64, 32)

    def forward(self, x):
        return self.up(self.second(self.norm(x)))


def check_centred_norms(mesh):
    x, residual, w, b, dy = torch.randn(2, 6, 16), torch.randn(2, 6, 16), torch.randn(16), torch.randn(16), torch.randn(2, 6, 16)
    for places, (a, r, c, e, d) in every_placement(mesh, x, residual, w, b, dy):
        for of_x, of_shards in (((None, None), (None, None)), ((w, b), (c, e)), ((w, None), (c, None))):
            expected, *plain = ops.layernorm(x, *of_x, 1e-5)
            same(ops.layernorm(a, *of_shards, 1e-5), (expected, *plain), 100, places)
            same(ops.layernorm_add(a, r, *of_shards, 1e-5), ops.layernorm_add(x, residual, *of_x, 1e-5), 100, places)
            statistics = [distribute_tensor(one, mesh, [places[0] if places[0] in (Shard(0), Shard(1)) else Replicate()]) for one in plain]
            wanted = ((True, True, True), (True, False, True), (False, True, False))
            for flags in wanted if of_x[0] is not None else wanted[1:2]:
                same(ops.layernorm_backward(d, a, *statistics, of_shards[0], False, r if flags[0] else None, *flags),
                     ops.layernorm_backward(dy, x, *plain, of_x[0], False, residual if flags[0] else None, *flags), 100, (places, flags))


def check_norms(mesh):
    x, residual, w, dy = torch.randn(2, 6, 16), torch.randn(2, 6, 16), torch.randn(16), torch.randn(2, 6, 16)
    for places, (a, r, c, d) in every_placement(mesh, x, residual, w, dy):
        for weight in (None, c):
            plain = None if weight is None else w
            expected, rstd = ops.rmsnorm(x, plain, 1e-5)
            same(ops.rmsnorm(a, weight, 1e-5), (expected, rstd), 100, places)
            same(ops.rmsnorm_add(a, r, weight, 1e-5), ops.rmsnorm_add(x, residual, plain, 1e-5), 100, places)
            stat = distribute_tensor(rstd, mesh, [places[0] if places[0] in (Shard(0), Shard(1)) else Replicate()])
            for flags in ((True, weight is not None), (True, False), (False, True))[: 3 if weight is not None else 1]:
                for dsum, plain_dsum in ((None, None), (r, residual)):
                    same(ops.rmsnorm_backward(d, a, stat, weight, False, dsum, *flags),
                         ops.rmsnorm_backward(dy, x, rstd, plain, False, plain_dsum, *flags), 100, (places, flags))
    check_centred_norms(mesh)
    # Where the rows lie nothing moves.
    shards = [distribute_tensor(t, mesh, [Shard(1)]) for t in (x, residual)]
    weight = distribute_tensor(w, mesh, [Replicate()])
    with CommDebugMode() as comm:
        y, total = rt.rms_norm(shards[0], 16, weight, residual=shards[1])
    assert y.placements == total.placements == (Shard(1),) and not comm.get_total_counts()
    torch.manual_seed(3)
    one = NormedBlock()
    torch.nn.init.normal_(one.norm.weight)
    rt.convert(one, None)
    parallel = copy.deepcopy(one)
    parallelize_module(parallel, mesh, {"norm": SequenceParallel(), "second": SequenceParallel(), "up": ColwiseParallel(input_layouts=Shard(1))})
    parallelize_module(parallel, mesh, PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(1)))
    x = torch.randn(2, 8, 64)
    upstream = torch.randn(2, 8, 32)
    one(x).backward(upstream)
    out = parallel(x)
    out.backward(upstream.chunk(mesh.size(), -1)[mesh.get_local_rank()].contiguous())
    testing.assert_snr(one(x).detach().chunk(mesh.size(), -1)[mesh.get_local_rank()].double(), out.detach(), 100)
    for want, have in zip(one.parameters(), parallel.parameters(), strict=True):
        testing.assert_snr(want.grad.double(), have.grad.full_tensor(), 100)


def check_activations(mesh):
    x, up, dy = torch.randn(4, 16), torch.randn(4, 16), torch.randn(4, 16)
    probs, mask = torch.rand(4), torch.tensor([1, 0, 1, 1], dtype=torch.uint8)
    for places, (a, u, d) in every_placement(mesh, x, up, dy):
        rows = [Shard(0) if places[0] == Shard(0) else Replicate()]
        p, m = (distribute_tensor(t, mesh, rows) for t in (probs, mask))
        same(ops.activation(a, u, p, m, "silu", False, 1.0, 1.0), ops.activation(x, up, probs, mask, "silu", False, 1.0, 1.0), 100, places)
        same(ops.activation(a, None, None, None, "gelu", True, 1.0, 1.0), ops.activation(x, None, None, None, "gelu", True, 1.0, 1.0), 100, places)
        for flags in itertools.product((True, False), repeat=3):
            if any(flags):
                same(ops.activation_backward(d, a, u, p, m, "silu", False, 1.0, 1.0, *flags),
                     ops.activation_backward(dy, x, up, probs, mask, "silu", False, 1.0, 1.0, *flags), 100, (places, flags))
    # Where rows or columns lie nothing moves.
    for place in (Shard(0), Shard(1)):
        shards = [distribute_tensor(t, mesh, [place]).requires_grad_() for t in (x, up)]
        with CommDebugMode() as comm:
            y = rt.swiglu(*shards)
            y.sum().backward()
        assert y.placements == shards[1].grad.placements == (place,) and not comm.get_total_counts()


def check_shares(mesh):
    x, dy, slopes = torch.randn(4, 16), torch.randn(4, 16), torch.randn(4)
    lse = ops.softmax(x, "logsumexp")
    for places, (a, d) in every_placement(mesh, x, dy):
        for form in ("softmax", "log_softmax"):
            y = ops.softmax(x, form)
            same(ops.softmax(a, form, 0.5), ops.softmax(x, form, 0.5), 100, places)
            of_y = distribute_tensor(y, mesh, [places[0]])
            same(ops.softmax_backward(d, of_y, None, form, 0.5, x.dtype), ops.softmax_backward(dy, y, None, form, 0.5, x.dtype), 100, places)
        s, log = (distribute_tensor(t, mesh, [Shard(0) if place == Shard(0) else Replicate()]) for t, place in zip((slopes, lse), places))
        same(ops.softmax(a, "logsumexp"), lse, 100, places)
        same(ops.softmax_backward(s, a, log, "logsumexp", 1.0, x.dtype), ops.softmax_backward(slopes, x, lse, "logsumexp", 1.0, x.dtype), 100, places)
    rows = distribute_tensor(x, mesh, [Shard(0)]).requires_grad_()
    with CommDebugMode() as comm:
        y = rt.softmax(rows)
        y.square().sum().backward()
    assert y.placements == rows.grad.placements == (Shard(0),) and not comm.get_total_counts()


def check_embedding(mesh):
    ids, weight, dy = torch.randint(8, (4, 6)), torch.randn(8, 16), torch.randn(4, 6, 16)
    for places, (i, w) in every_placement(mesh, ids, weight):
        same(ops.embedding(i, w, 3), ops.embedding(ids, weight, 3), 100, places)
    for places, (d, i) in every_placement(mesh, dy, ids):
        same(ops.embedding_backward(d, i, 8, 3), ops.embedding_backward(dy, ids, 8, 3), 100, places)
    # Where tokens lie nothing moves, and the gradient of the table is partial; so it is with columns, whole.
    for place, of_table, of_gradient in ((Shard(0), Replicate(), Partial()), (Replicate(), Shard(1), Shard(1))):
        i, w = distribute_tensor(ids, mesh, [place]), distribute_tensor(weight, mesh, [of_table]).requires_grad_()
        with CommDebugMode() as comm:
            out = rt.embedding(i, w)
            gradient = torch.autograd.grad(out, w, out.detach())[0]
        assert gradient.placements == (of_gradient,) and not comm.get_total_counts()


def check_experts(mesh):
    """Products of groups, rows that are moved, and routes."""
    offsets = torch.tensor([0, 3, 3, 8, 10], dtype=torch.int32)  # a group without rows, rows of none
    experts = torch.tensor([[0, 2], [3, -1], [2, 0], [1, 3], [-1, -1]])
    order = rt.expert_order(experts, 4)
    everywhere = [Replicate()]
    o, tokens, rows, choices = (distribute_tensor(each, mesh, everywhere) for each in (offsets, order.tokens, order.rows, order.choices))
    a, b, dy = torch.randn(12, 8), torch.randn(4, 6, 8), torch.randn(12, 6)
    for places, (x, w) in every_placement(mesh, a, b):
        same(ops.grouped_gemm(x, w, o, False, True), ops.grouped_gemm(a, b, offsets, False, True), 100, places)
    for places, (x, w) in every_placement(mesh, dy, b):
        same(ops.grouped_gemm(x, w, o), ops.grouped_gemm(dy, b, offsets), 100, places)
    for places, (x, y) in every_placement(mesh, a, dy):
        same(ops.grouped_gemm(y, x, o, True), ops.grouped_gemm(dy, a, offsets, True), 100, places)
        sums, target = torch.ones(4, 6, 8), distribute_tensor(torch.ones(4, 6, 8), mesh, everywhere)
        ops.grouped_gemm_add_(target, y, x, o)
        ops.grouped_gemm_add_(sums, dy, a, offsets)
        same(target, sums, 100, places)
    of_tokens = torch.randn(5, 8)
    index = {"index_a": order.tokens, "places": order.rows}
    everywhere_index = {name: distribute_tensor(each, mesh, everywhere) for name, each in index.items()}
    found_offsets = distribute_tensor(order.offsets, mesh, everywhere)
    for places, (x, w) in every_placement(mesh, of_tokens, b):
        found = ops.grouped_gemm(x, w, found_offsets, False, True, **everywhere_index)
        same(found, ops.grouped_gemm(of_tokens, b, order.offsets, False, True, **index), 100, places)
    of_sums = torch.randn(10, 6)
    for places, (x, y) in every_placement(mesh, of_tokens, of_sums):
        found = ops.grouped_gemm(y, x, found_offsets, True, index_b=everywhere_index["index_a"])
        same(found, ops.grouped_gemm(of_sums, of_tokens, order.offsets, True, index_b=order.tokens), 100, places)
        sums, target = torch.ones(4, 6, 8), distribute_tensor(torch.ones(4, 6, 8), mesh, everywhere)
        ops.grouped_gemm_add_(target, y, x, found_offsets, None, everywhere_index["index_a"])
        ops.grouped_gemm_add_(sums, of_sums, of_tokens, order.offsets, None, order.tokens)
        same(target, sums, 100, places)
    for places, (chosen,) in every_placement(mesh, experts):
        for found, want in zip(rt.expert_order(chosen, 4), order):
            assert torch.equal(found.full_tensor(), want), places
    of_tokens, of_rows, weights = torch.randn(5, 8), torch.randn(10, 8), torch.rand(5, 2)
    for places, (x, y, w) in every_placement(mesh, of_tokens, of_rows, weights):
        same(ops.combine_rows(x, tokens, None, rows), ops.combine_rows(of_tokens, order.tokens, None, order.rows), 200, places)
        same(ops.combine_rows(y, rows, w, choices), ops.combine_rows(of_rows, order.rows, weights, order.choices), 120, places)
        same(ops.combine_rows_backward(x, y, rows), ops.combine_rows_backward(of_tokens, of_rows, order.rows), 100, places)
    logits, bias, dweights = torch.randn(10, 8), torch.randn(8), torch.randn(10, 3)
    form = ("sigmoid", "score_first", bias, 4, 2, True, 2.5)
    right = ops.route(logits, 3, *form)
    for places, (x, c, d) in every_placement(mesh, logits, bias, dweights):
        found = ops.route(x, 3, form[0], form[1], c, *form[3:])
        same(found[0], right[0], 120, places)
        assert torch.equal(found[1].full_tensor(), right[1])
        same(ops.route(x, 3)[0], ops.route(logits, 3)[0], 120, places)
        chosen = distribute_tensor(right[1], mesh, [places[2]])
        same(ops.route_backward(d, x, chosen, "sigmoid", "score_first", True, 2.5), ops.route_backward(dweights, logits, right[1], "sigmoid", "score_first", True, 2.5), 100, places)
    if torch.is_inference_mode_enabled():
        return
    layer = rt.GroupedLinear(4, 8, 6)
    plain, upstream = a.clone().requires_grad_(), torch.randn(12, 6)
    layer(plain, offsets).backward(upstream)
    for place, of_x in itertools.product((Replicate(), Shard(1), Shard(2)), (Replicate(), Shard(1))):
        own = rt.GroupedLinear(4, 8, 6, device="meta")
        own.weight = torch.nn.Parameter(distribute_tensor(layer.weight.detach(), mesh, [place]))
        x = distribute_tensor(a, mesh, [of_x]).requires_grad_()
        own(x, o).backward(distribute_tensor(upstream, mesh, everywhere))
        same((x.grad, own.weight.grad), (plain.grad, layer.weight.grad), 100, (place, of_x))


def check_attention_of_codes(mesh):
    """As of numbers, with scales beside their heads."""
    whole = Replicate()
    for kv_heads, causal in itertools.product((2, 1), (False, True)):
        made = [rt.quantize_heads(torch.randn(2, length, heads, 16)) for length, heads in ((6, 4), (8, kv_heads), (8, kv_heads))]
        tensors = [*(codes for codes, _ in made), *(scale for _, scale in made)]
        want = rt.attention_fp8(*tensors, causal=causal, return_lse=True)
        of_keys = (Shard(2), Shard(1)) if kv_heads == 2 else (whole, whole)
        ways = [[whole] * 6, [Shard(0)] * 6, [Shard(2), of_keys[0], of_keys[0], Shard(1), of_keys[1], of_keys[1]]]
        for places in ways if causal else [*ways, [Shard(1), *[whole] * 5]]:
            shards = [distribute_tensor(t.view(torch.uint8) if t.dtype == torch.float8_e4m3fn else t, mesh, [place]) for t, place in zip(tensors, places)]
            shards = [t.view(torch.float8_e4m3fn) if t.dtype == torch.uint8 else t for t in shards]
            with CommDebugMode() as comm:
                found = rt.attention_fp8(*shards, causal=causal, return_lse=True)
            assert not comm.get_total_counts(), places
            same(found, want, 45, places)
        try:
            rt.attention_fp8(*shards[:3], *tensors[3:], causal=causal)
        except NotImplementedError as error:
            assert "the scales are not all" in str(error), error
        else:
            raise AssertionError("scales that are no DTensors")


def check_attention(mesh):
    """Batch and heads, and queries without a mask, in every placement: what lies alike moves nothing, and other placements are refused by name."""
    refused = 0
    for kv_heads, (causal, window) in itertools.product((2, 1), ((False, None), (True, None), (False, (2, 1)))):
        masked = causal or window is not None
        leaves = [torch.randn(2, length, heads, 16).bfloat16().requires_grad_() for length, heads in ((6, 4), (8, kv_heads), (8, kv_heads))]
        want, lse = rt.attention(*leaves, causal=causal, window=window, return_lse=True)
        upstream = torch.randn_like(want)
        gradients = torch.autograd.grad(want, leaves, upstream)
        q, k, v = (t.detach() for t in leaves)
        for (of_q, of_keys), (a, b) in every_placement(mesh, q, k):
            places = of_q, of_keys, of_keys
            shards = [t.requires_grad_() for t in (a, b, distribute_tensor(v, mesh, [of_keys]))]
            if sharding.attention_refusal(*shards, causal, window or (-1, -1)) is not None:
                refused += 1
                try:
                    rt.attention(*shards, causal=causal, window=window)
                except NotImplementedError as error:
                    assert f"{places[0]}, {places[1]}, {places[2]} along dimension 0 of the mesh" in str(error), error
                else:
                    raise AssertionError(places)
                continue
            along = {place.dim for place in places if place.is_shard()}
            assert along <= {0} or along == {2} or (along == {1} and not masked), places
            with CommDebugMode() as comm:
                found, sums = rt.attention(*shards, causal=causal, window=window, return_lse=True)
            assert not comm.get_total_counts(), places
            same((found, sums.detach()), (want.detach(), lse.detach()), 45, places)
            whole = distribute_tensor(upstream, mesh, [Replicate()])
            same(torch.autograd.grad(found, shards, whole), gradients, 35, places)
        # The operator itself gathers what it has no way for.
        shards = [distribute_tensor(t.detach(), mesh, [Shard(1)]) for t in leaves]
        same(ops.attention(*shards, causal, None, False, *(window or ())), (want.detach(), lse.detach()), 45, "length")
    assert refused > 50
    # Sinks: whole, but where heads are in shards.
    leaves = [torch.randn(2, length, heads, 16).bfloat16().requires_grad_() for length, heads in ((6, 4), (8, 2), (8, 2))]
    leaves.append(torch.randn(4).requires_grad_())
    want = rt.attention(*leaves[:3], sinks=leaves[3])
    upstream = torch.randn_like(want)
    gradients = torch.autograd.grad(want, leaves, upstream)
    whole = distribute_tensor(upstream, mesh, [Replicate()])
    for of_q, of_keys, of_sinks in ((Shard(0), Shard(0), Replicate()), (Shard(2), Shard(2), Shard(0)), (Shard(1), Replicate(), Replicate())):
        places = of_q, of_keys, of_keys, of_sinks
        shards = [distribute_tensor(t.detach(), mesh, [place]).requires_grad_() for t, place in zip(leaves, places)]
        with CommDebugMode() as comm:
            found = rt.attention(*shards[:3], sinks=shards[3])
        assert not comm.get_total_counts(), places
        same((found,), (want.detach(),), 45, places)
        same(torch.autograd.grad(found, shards, whole), gradients, 35, places)
    # Documents: heads in shards.
    of = torch.tensor([0, 3, 3, 8], dtype=torch.int32)
    leaves = [torch.randn(8, heads, 16).bfloat16().requires_grad_() for heads in (4, 2, 2)]
    want = rt.varlen_attention(*leaves, of, of, causal=True)
    upstream = torch.randn_like(want)
    shards = [distribute_tensor(t.detach(), mesh, [Shard(1)]).requires_grad_() for t in leaves]
    places = [distribute_tensor(of, mesh, [Replicate()])] * 2
    with CommDebugMode() as comm:
        found = rt.varlen_attention(*shards, *places, causal=True)
    assert not comm.get_total_counts() and found.placements == (Shard(1),)
    same((found,), (want.detach(),), 45, "documents")
    whole = distribute_tensor(upstream, mesh, [Replicate()])
    same(torch.autograd.grad(found, shards, whole), torch.autograd.grad(want, leaves, upstream), 35, "documents")
    check_attention_of_codes(mesh)
    q, k, v = (distribute_tensor(torch.randn(2, heads, 6, 64).bfloat16(), mesh, [Shard(1)]) for heads in (4, 2, 2))  # GPUs have kernels for heads of 64
    assert rt.sdpa_refusal(q, k, v, is_causal=True, enable_gqa=True) is None
    same(rt.sdpa(q, k, v, is_causal=True, enable_gqa=True), rt.sdpa(*(t.full_tensor() for t in (q, k, v)), is_causal=True, enable_gqa=True), 60, "sdpa")


def check_adamw(mesh):
    """Gradients that are partial sums, or lie otherwise than their parameters, give the step and the norm of the whole."""
    whole = [torch.randn(8, 6), torch.randn(5), torch.randn(7, 3)]
    gradients = [torch.randn_like(each) for each in whole]
    plain = [torch.nn.Parameter(each.clone()) for each in whole]
    optimizer = rt.AdamW(plain, lr=0.1, max_norm=0.5)
    for param, grad in zip(plain, gradients, strict=True):
        param.grad = grad
    optimizer.step()
    every = [Replicate(), Shard(0), Partial()]
    for places in itertools.product([Replicate(), Shard(0)], every, every):
        # The first two parameters are replicated or in shards, the third is in shards.
        params = [torch.nn.Parameter(distribute_tensor(each.clone(), mesh, [place])) for each, place in zip(whole, (places[0], places[0], Shard(0)), strict=True)]
        for param, grad, place in zip(params, gradients, (places[1], places[2], places[2]), strict=True):
            share = grad * (mesh.get_local_rank() + 1) / sum(range(1, mesh.size() + 1))
            param.grad = DTensor.from_local(share, mesh, [place]) if place.is_partial() else distribute_tensor(grad, mesh, [place])
        other = rt.AdamW(params, lr=0.1, max_norm=0.5)
        other.step()
        torch.testing.assert_close(other.last_norm, optimizer.last_norm)
        for have, want in zip(params, plain, strict=True):
            torch.testing.assert_close(have.full_tensor(), want, msg=str(places))


def check_rope(mesh):
    """Batch, length and heads of q and k in every placement, also more ranks than heads; what is sharded alike moves nothing."""
    cos, sin = rt.rope_table(32, 8)
    for heads in (4, 1):
        q, k, dq, dk = torch.randn(2, 6, 4, 10), torch.randn(2, 6, heads, 10), torch.randn(2, 6, 4, 10), torch.randn(2, 6, heads, 10)
        for given in ({"offset": 3}, {"positions": torch.randint(32, (2, 6))}, {"positions": torch.randint(32, (6,), dtype=torch.int32), "interleaved": True}):
            leaves = [t.clone().requires_grad_() for t in (q, k)]
            want = rt.rope(*leaves, cos, sin, **given)
            gradients = torch.autograd.grad(want, leaves, [dq, dk])
            for places, shards in every_placement(mesh, q, k):
                shards = [t.requires_grad_() for t in shards]
                with CommDebugMode() as comm:
                    found = rt.rope(*shards, cos, sin, **given)
                same(found, [t.detach() for t in want], 200, (places, given))
                along = [place.dim if place.is_shard() else None for place in places]
                if set(along) <= {0} or set(along) <= {1} or (set(along) <= {2, None} and (heads > 1 or along[1] is None)):
                    assert not comm.get_total_counts() and [x.placements for x in found] == [(place,) for place in places], (places, given)
                whole = [distribute_tensor(t, mesh, [Replicate()]) for t in (dq, dk)]
                same(torch.autograd.grad(found, shards, whole), gradients, 200, (places, given))
                same(rt.rope(shards[0], None, cos, sin, **given), want[0].detach(), 200, (places, given))
            weights = [torch.randn(10).requires_grad_() for _ in range(2)]
            want = rt.rope_norm(*leaves, *weights, cos, sin, **given)
            gradients = torch.autograd.grad(want, [*leaves, *weights], [dq, dk])
            for places, shards in every_placement(mesh, q, k):
                shards = [t.requires_grad_() for t in shards]
                spread = [distribute_tensor(w.detach(), mesh, [Replicate()]).requires_grad_() for w in weights]
                found = rt.rope_norm(*shards, *spread, cos, sin, **given)
                same(found, [t.detach() for t in want], 120, (places, given))
                whole = [distribute_tensor(t, mesh, [Replicate()]) for t in (dq, dk)]
                same(torch.autograd.grad(found, [*shards, *spread], whole), gradients, 110, (places, given))
                same(rt.rope_norm(shards[0], None, spread[0], None, cos, sin, **given), want[0].detach(), 120, (places, given))
    try:
        rt.rope(distribute_tensor(q, mesh, [Shard(0)]), None, cos, sin, in_place=True)
    except NotImplementedError as error:
        assert "leave it out, or give q.to_local()" in str(error)
    else:
        raise AssertionError("in place")


def check_losses(mesh):
    """Tokens and the vocabulary in every placement; shards of either move numbers of each token alone."""
    tokens, columns = 6, 9
    target = torch.randint(columns, (tokens,))
    target[1] = target[4] = -100
    for dtype, floor in ((torch.float32, 100), (torch.float64, 200))[: 2 if processes.DEVICE == "cpu" else 1]:  # float64 is for the CPU
        logits = 3 * torch.randn(tokens, columns, dtype=dtype)
        for settings in ({}, {"label_smoothing": 0.1, "z_loss": 1e-2, "soft_cap": 5.0}, {"ignore_index": int(target[0])}):
            here = torch.where(target == -100, int(target[0]), target) if settings.get("ignore_index") is not None else target
            for reduction, how in itertools.product(("none", "mean", "sum"), ({}, {"one_pass": True})):
                call = {"reduction": reduction, **settings, **how}
                leaf = logits.clone().requires_grad_()
                want = rt.cross_entropy(leaf, here, **call)
                upstream = torch.rand_like(want) + 0.5
                (gradient,) = torch.autograd.grad(want, leaf, upstream)
                for places, (shard, placed) in every_placement(mesh, logits, here):
                    shard.requires_grad_()
                    for of_target in (placed, here):
                        with CommDebugMode() as comm:
                            found = rt.cross_entropy(shard, of_target, **call)
                        same(found, want.detach(), floor, (places, call))
                        assert not any("gather" in str(op) or "all_to_all" in str(op) for op in comm.get_comm_counts()) or places[1] == Shard(0), (places, call)
                        (have,) = torch.autograd.grad(found, shard, distribute_tensor(upstream, mesh, [Replicate()]))
                        same(have, gradient, floor, (places, call))
    few = torch.randn(4, 1)  # a rank without a column
    same(rt.cross_entropy(distribute_tensor(few, mesh, [Shard(1)]), torch.zeros(4, dtype=torch.int64)), torch.zeros(()), 0, "a rank without columns")
    nothing = distribute_tensor(logits, mesh, [Shard(0)]).requires_grad_()
    for how in ({}, {"one_pass": True}):
        loss = rt.cross_entropy(nothing, torch.full((tokens,), -100), **how)
        (have,) = torch.autograd.grad(loss, nothing)
        assert loss.full_tensor().isnan() and not have.full_tensor().any()
    masked = torch.randn(5, columns)
    masked[0, 2:], masked[1, 3], masked[2, 3], masked[3, :] = -torch.inf, torch.nan, torch.inf, -torch.inf
    for place in (Shard(0), Shard(1)):
        found = rt.cross_entropy(distribute_tensor(masked, mesh, [place]), torch.zeros(5, dtype=torch.int64), reduction="none").full_tensor()
        torch.testing.assert_close(found, torch.nn.functional.cross_entropy(masked, torch.zeros(5, dtype=torch.int64), reduction="none"), equal_nan=True)
    large = torch.randn(tokens, columns) + 20000  # whose log-sum-exp has few digits
    torch.testing.assert_close(
        rt.cross_entropy(distribute_tensor(large, mesh, [Shard(1)]), target).full_tensor(), rt.cross_entropy(large, target), rtol=1e-6, atol=1e-6
    )
    check_fused_loss(mesh)


def check_fused_loss(mesh):
    x, w, target = torch.randn(2, 5, 8), torch.randn(7, 8), torch.randint(7, (2, 5))
    target[1, 2] = -100
    for reduction in ("none", "mean", "sum"):
        leaves = [t.clone().requires_grad_() for t in (x, w)]
        want = rt.linear_cross_entropy(*leaves, target, reduction=reduction, chunk=3)
        upstream = torch.rand_like(want)
        gradients = torch.autograd.grad(want, leaves, upstream)
        for place, plain in itertools.product((Replicate(), Shard(0), Shard(2)), (True, False)):
            shard = distribute_tensor(x, mesh, [place]).requires_grad_()
            weight = (w.clone() if plain else distribute_tensor(w, mesh, [Replicate()])).requires_grad_()
            found = rt.linear_cross_entropy(shard, weight, target, reduction=reduction, chunk=3)
            same(found, want.detach(), 100, (place, reduction))
            have = torch.autograd.grad(found, [shard, weight], distribute_tensor(upstream, mesh, [Replicate()]))
            same(have, gradients, 100, (place, reduction, plain))
    try:
        rt.linear_cross_entropy(x, distribute_tensor(w, mesh, [Shard(0)]), target)
    except NotImplementedError as error:
        assert "whose vocabulary may be in shards" in str(error)
    else:
        raise AssertionError("a weight in shards")


def check_objects(rank, ranks):
    torch.manual_seed(rank)
    q = rt.quantize(torch.randn(32, 64), QuantConfig(granularity="rowwise"), transpose=True)
    found = [None] * ranks
    dist.all_gather_object(found, q)
    for other, have in enumerate(found):
        torch.manual_seed(other)
        want = rt.quantize(torch.randn(32, 64), QuantConfig(granularity="rowwise"), transpose=True)
        assert torch.equal(bits(have.q).cpu(), bits(want.q).cpu()) and torch.equal(have.scale_t.cpu(), want.scale_t.cpu())  # on the sender's GPU


@contextlib.contextmanager
def reductions():
    """The sizes of what is reduced inside."""
    sizes, original = [], dist.all_reduce

    def all_reduce(tensor, *args, **kwargs):
        sizes.append(tensor.numel())
        return original(tensor, *args, **kwargs)

    dist.all_reduce = all_reduce
    try:
        yield sizes
    finally:
        dist.all_reduce = original


def gathered(mesh, policy, in_fp8, config, steps):
    """Losses and the last gradients of a model under FSDP2, the sizes of what it reduces to a maximum, and the bytes that it gathers."""
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(64, 97), torch.nn.SiLU(), torch.nn.Linear(97, 128), torch.nn.SiLU(), torch.nn.Linear(128, 16))
    rt.swap_linears(model, config)
    if in_fp8:
        assert rt.gather_in_fp8(model) == ["0", "2", "4"]  # of 97 rows: shards differ in size
    for layer in (model[0], model[2], model[4]):
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    x, y, losses, reduced, moved = torch.randn(48, 64), torch.randn(48, 16), [], [], [0]
    original = dist.all_gather_into_tensor

    def all_gather(output, *args, **kwargs):
        moved[0] += kwargs.get("output_tensor", output).nbytes
        return original(output, *args, **kwargs)

    for _ in range(steps):
        dist.all_gather_into_tensor = all_gather
        with reductions() as sizes:
            for _ in range(2):
                loss = torch.nn.functional.mse_loss(model(x).float(), y)
                loss.backward()
        dist.all_gather_into_tensor = original
        reduced += sizes
        optimizer.step()
        grads = [p.grad.full_tensor() for p in model.parameters()]
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, grads, model, reduced, moved[0]


def two_layers(in_fp8, meshes, configs=(QuantConfig(), QuantConfig()), **options):
    """A model whose layers are sharded on these meshes."""
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.Linear(48, 17))
    for layer, config in zip(model, configs):
        rt.swap_linears(layer, config)
    if in_fp8:
        rt.gather_in_fp8(model)
    for layer, mesh in zip(model, meshes):
        fully_shard(layer, mesh=mesh, reshard_after_forward=True, **options)
    return model


CHANGES = {
    "mul_": lambda w: w.mul_(100),
    "data": lambda w: w.data.mul_(100),
    "out=": lambda w: torch.mul(w, 100, out=w),
    "foreach": lambda w: torch._foreach_mul_([w], 100),
    "a row of the shard": lambda w: w.to_local()[0].fill_(50),
    "a matrix": lambda w: torch.nn.init.normal_(w.to_local()),
    "copy_": lambda w: w.copy_(w * 100),
}


def check_changes(mesh):
    """Scales follow every change of a weight, on the ranks that share it, and nothing else makes them anew."""
    x = torch.randn(8, 32)
    for change in CHANGES.values():
        found = []
        for in_fp8 in (False, True):
            model = two_layers(in_fp8, (mesh, mesh))
            model(x)
            torch.manual_seed(1)
            with torch.no_grad(), reductions() as sizes:
                change(model[1].weight)
                if dist.get_rank() == 0:
                    torch.empty(model[0].weight.to_local().shape).copy_(model[0].weight.to_local())  # a look, on one rank
                found.append(model(x))
                model(x)
                assert sizes == [2] * in_fp8, sizes
        assert torch.equal(*found), found
    alone = [dist.new_group([rank]) for rank in range(dist.get_world_size())][dist.get_rank()]
    single = DeviceMesh.from_group(alone, processes.DEVICE)
    mixed = QuantConfig(), QuantConfig("e5m2")
    replicated = init_device_mesh(processes.DEVICE, (1, dist.get_world_size()), mesh_dim_names=("replicate", "shard"))
    for meshes, sizes_of_first in (((mesh, single), [1, 1]), ((single, mesh), [1, 1]), ((mesh, mesh), [2]), ((replicated, replicated), [2])):
        outputs = []
        for in_fp8 in (False, True):
            model = two_layers(in_fp8, meshes, mixed)
            with torch.no_grad(), reductions() as sizes:
                first = model(x)
                assert sizes == sizes_of_first * in_fp8, sizes
                model[1].weight.mul_(100)
                outputs.append((first, model(x)))
                assert sizes == (sizes_of_first + sizes_of_first[:1]) * in_fp8, sizes
        for want, have in zip(*outputs, strict=True):
            assert torch.equal(want, have), meshes
    model = two_layers(True, (mesh, mesh))
    with torch.no_grad(), reductions() as sizes:
        model(x)
        model.to(processes.DEVICE)  # pads the shorter shard anew
        model(x)
    assert sizes == [2], sizes
    model = two_layers(True, (mesh, mesh), offload_policy=CPUOffloadPolicy(pin_memory=False))
    with torch.no_grad(), reductions() as sizes:
        for _ in range(3):
            model(x)
        model[0].weight.mul_(2)
        model(x)
    assert sizes == [2, 2], sizes


def check_gather_in_high_precision(mesh):
    """Weights that were gathered as codes, in a block without 8-bit floats: the gradients of what the codes stand for."""
    for policy in (MixedPrecisionPolicy(), MixedPrecisionPolicy(param_dtype=torch.bfloat16)):
        model, x = two_layers(True, (mesh, mesh), mp_policy=policy), torch.randn(8, 32)
        weights = [rt.quantize(layer.weight.full_tensor().detach(), QuantConfig()).dequantize().requires_grad_() for layer in model]
        biases = [layer.bias.full_tensor().detach() for layer in model]
        out = torch.nn.functional.linear(torch.nn.functional.linear(x, weights[0], biases[0]), weights[1], biases[1])
        out.square().sum().backward()
        with rt.autocast_fp8(enabled=False):
            found = model(x)
            found.float().square().sum().backward()
        floor = 100 if policy.param_dtype is None else 30
        testing.assert_snr(out.detach().double(), found.detach(), floor)
        for weight, layer in zip(weights, model, strict=True):
            testing.assert_snr(weight.grad.double(), layer.weight.grad.full_tensor(), floor)


class Tied(torch.nn.Module):
    """Two layers with one weight, or a layer with that of an embedding."""

    def __init__(self, embedding=False):
        super().__init__()
        self.first = torch.nn.Embedding(32, 32) if embedding else torch.nn.Linear(32, 32)
        self.second = torch.nn.Linear(32, 32)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.nn.functional.silu(self.first(x)))


def check_gather_of_shared_weights(mesh):
    """Layers that share a weight do so after it, too, and train as without it."""
    x, y = torch.randn(16, 32), torch.randn(16, 32)
    losses = []
    for in_fp8 in (False, True):
        torch.manual_seed(9)
        model = Tied()
        rt.swap_linears(model, QuantConfig())
        if in_fp8:
            assert rt.gather_in_fp8(model) == ["first", "second"]
        assert model.first.weight is model.second.weight
        fully_shard(model, mesh=mesh)
        assert model.first.weight is model.second.weight and len(list(model.parameters())) == 3
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        with reductions() as sizes:
            losses.append([])
            for _ in range(4):
                loss = torch.nn.functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses[-1].append(loss.item())
        assert sizes == [1] * 4 * in_fp8, sizes  # one weight, one scale
    assert losses[0][-1] < 0.98 * losses[0][0], losses
    for want, have in zip(*losses, strict=True):
        assert abs(want - have) < 1e-5 * want, losses


def check_gather(mesh, tmp):
    check_gather_of_shared_weights(mesh)
    for policy in (MixedPrecisionPolicy(), MixedPrecisionPolicy(param_dtype=torch.bfloat16)):
        for config in (QuantConfig("hybrid"), QuantConfig(scale_dtype=torch.float8_e8m0fnu)):
            expected, grads, plain, none, bytes_before = gathered(mesh, policy, False, config, 6)
            found, ours, model, reduced, bytes_after = gathered(mesh, policy, True, config, 6)
            assert not none and reduced == [3] * 6, reduced  # one reduction for each step, of all three layers
            assert bytes_after < bytes_before * (0.28 if policy.param_dtype is None else 0.54), (bytes_before, bytes_after)
            assert expected[-1] < 0.8 * expected[0], expected
            for want, have in zip(expected, found, strict=True):
                assert abs(want - have) < 0.02 * want, (expected, found)
            for want, have in zip(plain.state_dict().items(), model.state_dict().items(), strict=True):
                assert want[0] == have[0] and type(have[1].full_tensor()) is torch.Tensor
            # The same weights, once: equal codes but for quotients next to a middle, or errors of one size where they are rounded to bfloat16 first.
            _, exact, *_ = gathered(mesh, policy, False, None, 1)
            _, grads, *_ = gathered(mesh, policy, False, config, 1)
            _, ours, *_ = gathered(mesh, policy, True, config, 1)
            truth, want, have = (torch.cat([g.double().flatten() for g in each]) for each in (exact, grads, ours))
            testing.assert_snr(truth, have, testing.snr_db(truth, want) - 0.5)
            if policy.param_dtype is None:
                testing.assert_snr(want, have, 60)
    check_gather_in_high_precision(mesh)
    *_, trained, _, _ = gathered(mesh, MixedPrecisionPolicy(), True, QuantConfig(), 2)
    *_, other, _, _ = gathered(mesh, MixedPrecisionPolicy(), True, QuantConfig(), 1)
    checkpoint.save(trained.state_dict(), checkpoint_id=tmp + "-checkpoint")
    state = other.state_dict()
    checkpoint.load(state, checkpoint_id=tmp + "-checkpoint")
    other.load_state_dict(state)
    x = torch.randn(4, 64)
    assert torch.equal(trained(x), other(x))
    model = torch.nn.Sequential(torch.nn.Linear(8, 8))
    parallel = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    rt.swap_linears(parallel, QuantConfig())
    parallelize_module(parallel, mesh, {"1": ColwiseParallel()})
    tied, differ = Tied(embedding=True), Tied()
    rt.swap_linears(tied, QuantConfig())
    rt.swap_linears(differ, QuantConfig())
    rt.swap_linears(differ.second, QuantConfig("hybrid"))
    for call, message in ((lambda: rt.gather_in_fp8(tied), "the weight of second is first.weight, too (Embedding), which takes no codes; call this for submodules"),
                          (lambda: rt.gather_in_fp8(differ), "first and second share a weight and have different configs"),
                          (lambda: rt.gather_in_fp8(model), "no Fp8Linear"),
                          (lambda: (rt.swap_linears(model, QuantConfig(granularity="rowwise")), rt.gather_in_fp8(model)), "0 has granularity='rowwise'"),
                          (lambda: (rt.swap_linears(model, QuantConfig()), rt.gather_in_fp8(model), rt.gather_in_fp8(model)), "call this once"),
                          (lambda: rt.gather_in_fp8(parallel), "1 is a DTensor, and tensor-parallel weights are not supported; call this for submodules")):
        try:
            call()
        except ValueError as error:
            assert message in str(error), error
        else:
            raise AssertionError(message)


def in_modes(check, mesh):
    for mode in (contextlib.nullcontext, torch.inference_mode):
        with mode():
            check(mesh)


def main():
    rank, ranks, store = processes.begin()
    mesh = init_device_mesh(processes.DEVICE, (ranks,))
    checks = {
        "ops": lambda: in_modes(check_ops, mesh),
        "leading": lambda: torch.inference_mode()(check_leading)(mesh),
        "codes": lambda: check_codes(mesh),
        "middle": lambda: check_middle(mesh),
        "quantised": lambda: check_quantised_where_it_lies(mesh),
        "plans": lambda: check_plans(mesh, rank),
        "norms": lambda: check_norms(mesh),
        "activations": lambda: (check_activations(mesh), check_shares(mesh), check_embedding(mesh)),
        "experts": lambda: in_modes(check_experts, mesh),
        "changes": lambda: check_changes(mesh),
        "gather": lambda: check_gather(mesh, store),
        "rope": lambda: check_rope(mesh),
        "attention": lambda: check_attention(mesh),
        "losses": lambda: check_losses(mesh),
        "adamw": lambda: check_adamw(mesh),
        "objects": lambda: check_objects(rank, ranks),
    }
    for part in sys.argv[4:]:
        torch.manual_seed(1)
        checks[part]()
        dist.barrier()
        print(f"{part}: all agree", flush=True)
    os._exit(0)  # as in distributed_worker.py


main()

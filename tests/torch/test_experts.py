"""Layers of experts: GroupedLinear and MoE against plain torch in float64, and what they may not do: wait, save more, mix rows."""

import copy
import json
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import ridgeline.testing as testing
import ridgeline.torch as rt

F = torch.nn.functional
ops = torch.ops.ridgeline
FLOOR = {torch.float32: 100, torch.bfloat16: 38, torch.float16: 56}
FORMS = [
    {"renormalize": True},
    {"order": "top_first"},
    {"score": "sigmoid", "bias": True, "groups": 4, "group_top": 2, "renormalize": True, "scale": 2.5, "shared": 24},
    {"capacity_factor": 0.8},
    {"capacity_factor": 0.5, "renormalize": True, "recompute": True, "shared": 8},
]


def floor(device, dtype):
    return min(FLOOR[dtype], 50) if device.type == "cuda" else FLOOR[dtype]  # float32 of a GPU may be TF32


def made(device, dtype=torch.float32, hidden=32, inner=40, experts=8, top=3, **form):
    layer = rt.MoE(hidden, inner, experts, top, device=device, dtype=dtype, **form)
    if form.get("bias"):
        layer.router.bias.copy_(0.1 * torch.randn(experts))
    return layer


def wide(layer):
    """Its parameters in float64 on the CPU, for gradients of their own."""
    return {name: p.detach().double().cpu().requires_grad_() for name, p in layer.named_parameters()}


def plain(layer, own, x, experts):
    """The layer in float64, expert by expert, with a choice that is given."""
    router, experts = layer.router, experts.cpu().long()
    logits = x @ own["router.weight"].t()
    score = (lambda each: torch.softmax(each, -1)) if router.score == "softmax" else torch.sigmoid
    weights = score(logits.gather(1, experts)) if router.order == "top_first" else score(logits).gather(1, experts)
    weights = router.scale * (weights / weights.sum(-1, keepdim=True) if router.renormalize else weights)
    y = torch.zeros_like(x)
    room = x.shape[0] * experts.shape[1]
    if layer.capacity_factor is not None:
        room = -int(-layer.capacity_factor * experts.numel() // layer.num_experts)
    for e in range(layer.num_experts):
        tokens, k = torch.where(experts == e)
        tokens, k = tokens[:room], k[:room]
        gate, up = (x[tokens] @ own["gate_up.weight"][e].t()).chunk(2, -1)
        y = y.index_add(0, tokens, weights[tokens, k][:, None] * ((F.silu(gate) * up) @ own["down.weight"][e].t()))
    if layer.shared:
        gate, up = (x @ own["shared_gate_up.weight"].t()).chunk(2, -1)
        y = y + (F.silu(gate) * up) @ own["shared_down.weight"].t()
    return y


# ---- GroupedLinear


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_grouped_linear_is_a_linear_of_each_expert(device, dtype):
    layer = rt.GroupedLinear(4, 48, 56, device=device, dtype=dtype)
    ends = [0, 20, 20, 33, 60]
    offsets = torch.tensor(ends, device=device, dtype=torch.int32)
    x = torch.randn(64, 48, device=device).to(dtype).requires_grad_()
    y = layer(x, offsets)
    dy = torch.randn(64, 56, device=device).to(dtype)
    y.backward(dy)
    rows, matrices = x.detach().double().cpu().requires_grad_(), layer.weight.detach().double().cpu().requires_grad_()
    want = torch.cat([F.linear(rows[begin:end], matrices[e]) for e, (begin, end) in enumerate(zip(ends, ends[1:]))])
    want.backward(dy.double().cpu()[:60])
    assert y.dtype == dtype and not y[60:].any()
    for found, right in ((y[:60], want), (x.grad, rows.grad), (layer.weight.grad, matrices.grad)):
        assert testing.snr_db(found, right) > min(floor(device, dtype) + 8, 100)
    assert not layer.weight.grad[1].any()


def test_the_state_and_the_start_of_a_grouped_linear_are_torchs(device):
    layer = rt.GroupedLinear(3, 100, 20, device=device)
    assert repr(layer) == "GroupedLinear(num_experts=3, in_features=100, out_features=20)"
    assert {name: tuple(each.shape) for name, each in layer.state_dict().items()} == {"weight": (3, 20, 100)}
    assert 0.095 < layer.weight.abs().max() < 0.1 and abs(layer.weight.std() / (0.1 / 3**0.5) - 1) < 0.05
    other = rt.GroupedLinear(3, 100, 20, device=device)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.weight, layer.weight) and copy.deepcopy(layer).weight is not layer.weight
    on_meta = rt.GroupedLinear(3, 100, 20, device="meta").to_empty(device=device)
    on_meta.reset_parameters()
    assert on_meta.weight.isfinite().all() and on_meta.double().weight.dtype == torch.float64


def test_main_grad_takes_gradients_of_every_layer(device):
    layer = made(device, torch.bfloat16, shared=16)
    plain_one = copy.deepcopy(layer)
    ours = [layer.gate_up.weight, layer.down.weight, layer.shared_gate_up.weight, layer.shared_down.weight]
    for weight in ours:
        weight.main_grad = torch.ones(weight.shape, device=device)
    x = torch.randn(40, 32, device=device).bfloat16()
    for each in (layer, layer, plain_one):
        each(x).y.square().sum().backward()
    for weight, other in zip(ours, (plain_one.gate_up, plain_one.down, plain_one.shared_gate_up, plain_one.shared_down)):
        assert weight.grad is None and weight.grad_added_to_main_grad
        assert testing.snr_db((weight.main_grad - 1) / 2, other.weight.grad.double().cpu()) > 40


def test_says_what_is_wrong_with_a_layer_or_a_call(device):
    for call, text in (
        (lambda: rt.GroupedLinear(0, 8, 8), "GroupedLinear: num_experts is 0; give at least 1"),
        (lambda: rt.GroupedLinear(2, 8, 0), "out_features is 0"),
        (lambda: rt.GroupedLinear(2, 8, 8, device=device)(torch.zeros(3, 9, device=device), torch.zeros(3, device=device).int()), r"x has shape \(3, 9\); .*\[rows, 8\]"),
        (lambda: rt.GroupedLinear(2, 8, 8, device=device)(torch.zeros(2, 3, 8, device=device), torch.zeros(3, device=device).int()), r"x has shape \(2, 3, 8\)"),
        (lambda: rt.GroupedLinear(2, 8, 8, device=device)(torch.zeros(3, 8, device=device), torch.zeros(4, device=device).int()), "offsets"),
        (lambda: rt.MoE(8, 0, 2, 1), "MoE: inner is 0; give at least 1"),
        (lambda: rt.MoE(8, 8, 2, 1, shared=-1), "shared is -1"),
        (lambda: rt.MoE(8, 8, 2, 1, capacity_factor=0), "capacity_factor is 0; give a finite number above 0"),
        (lambda: rt.MoE(8, 8, 2, 3, device=device)(torch.zeros(4, 8, device=device)), "top is 3, of 2 experts"),
        (lambda: rt.MoE(8, 8, 2, 1, device=device)(torch.zeros(4, 9, device=device)), r"MoE: x has shape \(4, 9\); give \[\.\.\., 8\]"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(TypeError, match="torch.bfloat16"):
        rt.MoE(8, 8, 2, 1, device=device, dtype=torch.bfloat16)(torch.zeros(4, 8, device=device))


# ---- MoE


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_values_and_gradients_of_a_mixture(device, dtype, form):
    layer = made(device, dtype, **form)
    x = torch.randn(5, 30, 32, device=device).to(dtype).requires_grad_()
    found = layer(x)
    own, rows = wide(layer), x.detach().double().cpu().view(-1, 32).requires_grad_()
    want = plain(layer, own, rows, found.experts)
    dy = torch.randn(x.shape, device=device).to(dtype)
    found.y.backward(dy)
    want.backward(dy.double().cpu().view(-1, 32))
    assert found.y.dtype == dtype and found.y.shape == x.shape and found.experts.shape == (150, 3)
    least = floor(device, dtype)
    assert testing.snr_db(found.y.view(-1, 32), want) > least
    assert testing.snr_db(x.grad.view(-1, 32), rows.grad) > least
    for name, p in layer.named_parameters():
        assert p.grad.dtype == p.dtype and testing.snr_db(p.grad, own[name].grad) > least - 6, name


def test_losses_are_those_of_the_router(device):
    layer = made(device)
    x = torch.randn(40, 32, device=device)
    found, routing = layer(x), layer.router(x)
    assert torch.equal(found.experts, routing.experts) and torch.equal(found.z_loss, routing.z_loss) and torch.equal(found.balance_loss, routing.balance_loss)
    assert layer(x[0]).y.shape == (32,) and layer(x[0]).experts.shape == (1, 3)
    (found.z_loss + found.balance_loss).backward()
    assert layer.router.weight.grad.any() and layer.gate_up.weight.grad is None


def test_gradients_match_differences(on_cpu):
    layer = rt.MoE(4, 3, 4, 2, shared=2, capacity_factor=1.0, renormalize=True).double()
    names = [name for name, _ in layer.named_parameters()]
    x = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)

    def call(x, *own):
        found = torch.func.functional_call(layer, dict(zip(names, own)), (x,))
        return found.y, found.z_loss, found.balance_loss

    inputs = (x, *(p.detach().clone().requires_grad_() for p in layer.parameters()))
    assert torch.autograd.gradcheck(call, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, inputs)
    layer.recompute = True
    assert torch.autograd.gradcheck(call, inputs)


def test_experts_without_tokens_and_one_with_all(device):
    layer = made(device, experts=6, top=1, score="sigmoid")
    x = torch.randn(50, 32, device=device)
    with torch.no_grad():
        layer.router.weight.zero_()
        layer.router.weight[4] = 100 * x.sum(0)
        x += x.sum(0) / 10  # all on one side
    found = layer(x)
    assert (found.experts == 4).all()
    found.y.sum().backward()
    for weight in (layer.gate_up.weight, layer.down.weight):
        assert weight.grad[4].any() and not weight.grad[:4].any() and not weight.grad[5].any()
    want = plain(layer, wide(layer), x.double().cpu(), found.experts)
    assert testing.snr_db(found.y, want) > floor(device, torch.float32)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_no_token(device, form):
    layer = made(device, **form)
    x = torch.zeros(2, 0, 32, device=device, requires_grad=True)
    found = layer(x)
    assert found.y.shape == (2, 0, 32) and found.z_loss == 0 and found.balance_loss == 0
    (found.y.sum() + found.z_loss).backward()
    assert x.grad.shape == x.shape and not layer.gate_up.weight.grad.any()


@pytest.mark.parametrize("shared", [0, 16])
def test_a_nan_stays_with_its_token(device, shared):
    layer = made(device, shared=shared, capacity_factor=4.0)
    x = torch.randn(40, 32, device=device)
    clean = layer(x).y
    x[7] = float("nan")
    dirty = layer(x).y
    assert dirty[7].isnan().all()
    others = torch.arange(40, device=device) != 7
    # It goes to other experts than the number did, whose groups have other sizes then, and their sums another order.
    assert testing.snr_db(dirty[others], clean[others]) > floor(device, torch.float32)


def test_tokens_beyond_the_capacity_get_the_shared_part_alone(device):
    layer = made(device, top=1, experts=2, capacity_factor=0.2, shared=16, score="sigmoid")
    with torch.no_grad():
        layer.router.weight.zero_()  # ties: all go to expert 0, which takes ceil(0.2 * 30 / 2)
    x = torch.randn(30, 32, device=device)
    found = layer(x)
    assert not found.experts.any()
    common = layer.shared_down(rt.swiglu(layer.shared_gate_up(x)))
    assert torch.equal(found.y[3:], common[3:]) and (found.y[:3] != common[:3]).any(1).all()


def test_equal_bits_in_every_call(device):
    layer = made(device, torch.bfloat16, renormalize=True)
    x = torch.randn(300, 32, device=device).bfloat16().requires_grad_()
    found = [torch.autograd.grad(layer(x).y.square().sum(), (x, *layer.parameters())) for _ in range(3)]
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other))


class Calls(TorchDispatchMode):
    """Which operators run, by name, and the dtypes of what they read first."""

    def __init__(self):
        super().__init__()
        self.names, self.dtypes = [], []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        self.dtypes.append(getattr(args[0], "dtype", None) if args else None)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_the_host_reads_no_number(device, form):
    layer = made(device, torch.bfloat16, **form)
    x = torch.randn(64, 32, device=device).bfloat16().requires_grad_()
    layer(x).y.sum().backward()  # compiles
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
    try:
        with Calls() as seen:
            found = layer(x)
            (found.y.sum() + found.z_loss + found.balance_loss).backward()
    finally:
        if device.type == "cuda":
            torch.cuda.set_sync_debug_mode("default")
    reads = ("_local_scalar_dense", "item", "nonzero", "is_nonzero", "equal", "unique", "masked_select")
    assert not [name for name in seen.names if name.split(".")[1] in reads]
    assert "ridgeline.grouped_gemm.default" in seen.names


def test_what_is_saved(device):
    """Bytes that backward keeps beside parameters and x, in rows of 16 bits: gate and up; where a layer is called by itself the activation, too, unless recomputed."""
    tokens, hidden, inner, top = 256, 64, 96, 3
    rows = tokens * top
    for hooked, recompute, columns in ((False, False, 2 * inner), (True, False, 3 * inner), (True, True, 2 * inner)):
        layer = made(device, torch.bfloat16, hidden=hidden, inner=inner, top=top, recompute=recompute)
        if hooked:
            layer.down.register_forward_hook(lambda *_: None)
        x = torch.randn(tokens, hidden, device=device).bfloat16().requires_grad_()
        known = {p.untyped_storage().data_ptr() for p in (x, *layer.parameters())}
        kept = {}

        def keep(each, kept=kept, known=known):
            if each.dtype == torch.bfloat16 and each.untyped_storage().data_ptr() not in known:
                kept[each.untyped_storage().data_ptr()] = each
            return each

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda each: each):
            y = layer(x).y
        wide_ones = sum(each.numel() for each in kept.values() if each.shape[0] == rows)
        if not recompute:
            assert wide_ones == rows * columns
        else:  # a checkpoint holds its inputs beside autograd's hooks
            assert wide_ones <= rows * columns
        y.sum().backward()


def test_a_step_of_both_layers_is_six_products(device):
    layer = made(device, torch.bfloat16)
    x = torch.randn(60, 32, device=device).bfloat16().requires_grad_()
    with Calls() as seen:
        torch.autograd.grad(layer(x).y.square().sum(), (x, *layer.parameters()))
    counts = {name: seen.names.count(f"ridgeline.{name}.default") for name in ("grouped_gemm", "grouped_swiglu", "grouped_swiglu_backward", "activation")}
    assert counts == {"grouped_gemm": 4, "grouped_swiglu": 1, "grouped_swiglu_backward": 1, "activation": 0}


class Wrapper(torch.nn.Module):
    """Hands what it does not have on to what it wraps, as wrappers for sharding and checkpoints do."""

    def __init__(self, layer):
        super().__init__()
        self.inside, self.calls = layer, 0

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inside"), name)

    def forward(self, *given):
        self.calls += 1
        return self.inside(*given)


@pytest.mark.parametrize("recipe", [None, "blockwise"])
def test_layers_that_are_wrapped_or_replaced_are_called(device, recipe):
    layer = made(device, torch.bfloat16, recipe=recipe)
    x = torch.randn(40, 32, device=device).bfloat16().requires_grad_()
    y = layer(x).y
    layer.gate_up, layer.down = Wrapper(layer.gate_up), Wrapper(layer.down)
    wrapped = layer(x).y
    assert layer.gate_up.calls == layer.down.calls == 1 and testing.snr_db(wrapped, y.double().cpu()) > 38
    layer.gate_up, layer.down = layer.gate_up.inside, layer.down.inside
    seen, plain_forward = [], layer.down.forward
    layer.down.forward = lambda *given: seen.append(1) or plain_forward(*given)
    layer(x).y.sum().backward()
    assert seen == [1]


def test_recompute_multiplies_no_more_and_gives_equal_bits(device):
    layer = made(device, torch.bfloat16, shared=8)
    layer.down.register_forward_hook(lambda *_: None)  # so that it is called by itself
    x = torch.randn(60, 32, device=device).bfloat16().requires_grad_()
    found = []
    for layer.recompute in (False, True):
        with Calls() as seen:
            made_now = [y := layer(x).y, *torch.autograd.grad(y.square().sum(), (x, *layer.parameters()))]
        found.append((made_now, seen.names.count("ridgeline.grouped_gemm.default"), seen.names.count("ridgeline.activation.default")))
    assert all(torch.equal(a, b) for a, b in zip(found[0][0], found[1][0]))
    assert found[0][1:] == (6, 2) and found[1][1:] == (6, 3)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("recompute", [False, True])
def test_checkpointing_changes_nothing(device, reentrant, recompute):
    layer = made(device, recompute=recompute, capacity_factor=1.1)
    x = torch.randn(60, 32, device=device, requires_grad=True)
    results = []
    for call in (layer, lambda x: checkpoint(layer, x, use_reentrant=reentrant)):
        layer.zero_grad()
        x.grad = None
        y, _, _, balance_loss = call(x)  # of a reentrant checkpoint a plain tuple
        (y.square().sum() + balance_loss).backward()
        results.append([y, x.grad, *(p.grad for p in layer.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*results))


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_compiles_without_a_break(device, form):
    layer = made(device, **form)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
    for tokens in (40, 57):
        x = torch.randn(tokens, 32, device=device, requires_grad=True)
        results = []
        for call in (layer, compiled):
            layer.zero_grad()
            x.grad = None
            found = call(x)
            (found.y.square().sum() + found.z_loss + found.balance_loss).backward()
            results.append([*found, x.grad, *(p.grad.clone() for p in layer.parameters())])
        for one, other in zip(*results):
            torch.testing.assert_close(one, other)


def test_an_exported_layer_takes_any_number_of_tokens(device):
    layer = made(device, capacity_factor=1.0, shared=16, recompute=True).requires_grad_(False)
    tokens = torch.export.Dim("tokens", min=2, max=1000)
    program = torch.export.export(layer, (torch.randn(40, 32, device=device),), dynamic_shapes=({0: tokens},)).module()
    x = torch.randn(77, 32, device=device)
    assert all(torch.equal(one, other) for one, other in zip(program(x), layer(x)))


def test_the_operators_of_a_layer_pass_pytorchs_own_checks(device):
    layer = made(device, experts=5, top=2)
    x = torch.randn(20, 32, device=device, requires_grad=True)
    order = rt.expert_order(torch.tensor([[0, 3]] * 20, device=device), 5)  # experts without tokens
    rows = rt.permute(x.detach(), order).requires_grad_()
    torch.library.opcheck(ops.grouped_gemm.default, (rows, layer.gate_up.weight, order.offsets, False, True))
    torch.library.opcheck(ops.combine_rows.default, (rows, order.rows, None, order.choices))
    by_index = {"index_a": order.tokens, "places": order.rows}
    torch.library.opcheck(ops.grouped_gemm.default, (x, layer.gate_up.weight, order.offsets, False, True), by_index)


@pytest.mark.parametrize("shared", [0, 16])
def test_autocast_says_the_dtype(device, shared):
    layer = made(device, shared=shared, renormalize=True)
    x = torch.randn(80, 32, device=device, requires_grad=True)
    with torch.autocast(device.type, torch.bfloat16), Calls() as seen:
        found = layer(x)
    assert found.y.dtype == torch.bfloat16 and found.z_loss.dtype == torch.float32
    own, rows = wide(layer), x.detach().double().cpu().requires_grad_()
    want = plain(layer, own, rows, found.experts)
    found.y.float().square().sum().backward()
    want.square().sum().backward()
    assert testing.snr_db(found.y, want) > 38 and x.grad.dtype == layer.gate_up.weight.grad.dtype == torch.float32
    for name, p in layer.named_parameters():
        assert testing.snr_db(p.grad, own[name].grad) > 30, name
    assert torch.equal(layer.router(x).experts, found.experts)  # logits are not cast
    for name, calls in (("combine_rows", 1), ("grouped_swiglu", 1), ("grouped_gemm", 1)):  # tokens are cast before products find their rows
        assert [dtype for each, dtype in zip(seen.names, seen.dtypes) if each == f"ridgeline.{name}.default"] == [torch.bfloat16] * calls


def test_products_are_counted(device):
    layer = made(device, torch.bfloat16, shared=16)
    x = torch.randn(40, 32, device=device).bfloat16().requires_grad_()
    with FlopCounterMode(display=False) as counter:
        layer(x).y.sum().backward()
    experts, shared, router = 2 * 120 * 32 * 40 * 3, 2 * 40 * 32 * 16 * 3, 2 * 40 * 32 * 8
    assert counter.get_total_flops() == 3 * (experts + shared + router)


def test_a_step_in_a_graph_replays_with_other_routing(on_gpu, device):
    layer = made(device, torch.bfloat16, hidden=64, inner=64, renormalize=True, capacity_factor=1.5)
    for p in layer.parameters():
        p.grad = torch.zeros_like(p)
    x = torch.randn(128, 64, device=device).bfloat16()

    def step(x):
        for p in layer.parameters():
            p.grad.zero_()
        found = layer(x)
        (found.y.float().square().sum() + found.z_loss + found.balance_loss).backward()
        return found.y, found.experts

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step(x)
    torch.cuda.synchronize()
    graph, given = torch.cuda.CUDAGraph(), x.clone()
    with torch.cuda.graph(graph):
        y, experts = step(given)
    for turn in range(3):
        given.copy_(torch.randn_like(x) * (turn + 1))
        graph.replay()
        replayed = [y.clone(), experts.clone(), *(p.grad.clone() for p in layer.parameters())]
        eager = [*step(given.clone()), *(p.grad for p in layer.parameters())]
        assert all(torch.equal(a, b) for a, b in zip(replayed, eager))


def test_convert_gives_the_shared_expert_its_recipe(on_cpu):
    layer = made("cpu", torch.bfloat16, hidden=64, shared=64)
    report = rt.convert(layer, "rowwise")
    assert list(report.swapped) == ["shared_gate_up", "shared_down"]
    assert layer(torch.randn(32, 64).bfloat16()).y.isfinite().all()
    assert "shared=64" in repr(layer) and "hidden=64, inner=40, num_experts=8" in repr(layer)


@pytest.mark.parametrize("recipe", ["blockwise", "rowwise"])
@pytest.mark.parametrize("form", [{}, {"shared": 128, "recompute": True}, {"capacity_factor": 0.5}], ids=str)
def test_experts_of_8_bit_floats(device, form, recipe):
    layer = made(device, torch.bfloat16, hidden=128, inner=192, recipe=recipe, **form)
    x = torch.randn(150, 128, device=device).bfloat16().requires_grad_()
    with Calls() as seen:
        found = layer(x)
    own, rows = wide(layer), x.detach().double().cpu().requires_grad_()
    want = plain(layer, own, rows, found.experts)
    dy = torch.randn(x.shape, device=device).bfloat16()
    found.y.backward(dy)
    want.backward(dy.double().cpu())
    assert seen.names.count("ridgeline.grouped_gemm_fp8.default") == 2
    less = 1 if recipe == "rowwise" else 0  # scales that are powers of two cost each operand 0.3 dB of 31.8
    assert testing.snr_db(found.y, want) > 24 - less and testing.snr_db(x.grad, rows.grad) > 22 - less
    for name in ("gate_up.weight", "down.weight"):
        assert testing.snr_db(layer.get_parameter(name).grad, own[name].grad) > 22 - less, name
    plain_one = made(device, torch.bfloat16, hidden=128, inner=192, **form)
    plain_one.load_state_dict(layer.state_dict())
    with rt.autocast_fp8(enabled=False):
        assert torch.equal(layer(x).y, plain_one(x).y)
    assert "in_features=128, out_features=384, gemm_fp8: " in repr(layer.gate_up)
    nothing = layer(x[:0])
    nothing.y.sum().backward()
    assert nothing.y.shape == (0, 128)


@pytest.mark.parametrize("recipe", ["blockwise", rt.QuantConfig("hybrid", "blockwise")], ids=str)
@pytest.mark.parametrize("form", [{}, {"capacity_factor": 0.5}, {"main_grad": True}, {"recompute": True}], ids=str)
def test_activations_that_are_coded_where_they_are_made_change_no_bit(device, form, recipe):
    form = dict(form)
    adding = form.pop("main_grad", False)
    coded = made(device, torch.bfloat16, hidden=128, inner=192, recipe=recipe, **form)
    apart = copy.deepcopy(coded)
    apart.down.register_forward_hook(lambda *_: None)  # its call is then one of its own
    x, dy = (torch.randn(150, 128, device=device).bfloat16() for _ in range(2))
    found = []
    for layer in (coded, apart):
        for weight in (layer.gate_up.weight, layer.down.weight):
            if adding:
                weight.main_grad = torch.ones(weight.shape, device=device)
        rows = x.clone().requires_grad_()
        with Calls() as seen:
            y = layer(rows).y
        y.backward(dy)
        assert seen.names.count("ridgeline.activation.default") == (0 if layer is coded else 1)
        by_index = layer is coded and not form.get("recompute")  # tokens are then coded once
        assert seen.names.count("ridgeline.grouped_codes.default") == (1 if by_index else 2)
        grads = [p.main_grad if adding and name != "router.weight" else p.grad for name, p in layer.named_parameters()]
        found.append([y, rows.grad, *grads])
    for (name, mine), right in zip(zip(("y", "x", *dict(coded.named_parameters())), found[0]), found[1]):
        if device.type == "cuda" and name in ("x", "router.weight"):  # gradients of factors are added up in another order
            torch.testing.assert_close(mine, right, rtol=2e-2, atol=2e-2)
        else:
            assert torch.equal(mine, right), name


def test_recipes_of_experts_are_those_with_scales_of_their_own(device):
    with pytest.raises(ValueError, match="y has granularity='tensorwise'; give 'blockwise' or 'rowwise'"):
        rt.MoE(128, 128, 4, 2, recipe="tensorwise", device=device)
    torch.manual_seed(3)
    rows = made(device, torch.bfloat16, hidden=128, inner=128, recipe="rowwise_with_gw_hp")
    torch.manual_seed(3)
    plain_one = made(device, torch.bfloat16, hidden=128, inner=128)
    x = torch.randn(64, 128, device=device).bfloat16()
    found, right = rows(x).y, plain_one(x).y
    assert not torch.equal(found, right) and (found - right).norm() / right.norm() < 0.1
    layer = made(device, torch.bfloat16, hidden=128, inner=128, recipe=rt.recipe("blockwise", dw=None))
    x = torch.randn(64, 128, device=device).bfloat16()
    with rt.autocast_fp8(recipe="tensorwise"):  # which is for Linear
        y = layer(x).y
    assert torch.equal(y, layer(x).y)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x).y, y)
    slopes = [torch.autograd.grad(call(x).y.float().square().sum(), layer.down.weight)[0] for call in (layer, compiled)]
    torch.testing.assert_close(*slopes)
    layer.gate_up.weight.main_grad = torch.zeros(layer.gate_up.weight.shape, device=device)
    y.float().square().sum().backward()
    layer(x).y.float().square().sum().backward()
    assert layer.gate_up.weight.main_grad.any()


# ---- Blocks of transformers, by structure


class Mlp(torch.nn.Module):
    def __init__(self, hidden, inner, names, act_fn):
        super().__init__()
        for name, (columns, rows) in zip(names, ((hidden, inner), (hidden, inner), (inner, hidden))):
            setattr(self, name, torch.nn.Linear(columns, rows, bias=False))
        self.names, self.act_fn = names, act_fn

    def forward(self, x):
        gate, up, down = (getattr(self, name) for name in self.names)
        return down(self.act_fn(gate(x)) * up(x))


class Stacked(torch.nn.Module):
    """The experts of newer versions: all in two parameters."""

    def __init__(self, hidden, inner, experts, act_fn):
        super().__init__()
        self.gate_up_proj = torch.nn.Parameter(torch.randn(experts, 2 * inner, hidden) / hidden**0.5)
        self.down_proj = torch.nn.Parameter(torch.randn(experts, hidden, inner) / inner**0.5)
        self.act_fn = act_fn

    def __getitem__(self, e):
        def call(x):
            gate, up = F.linear(x, self.gate_up_proj[e]).chunk(2, -1)
            return F.linear(self.act_fn(gate) * up, self.down_proj[e])

        return call


class Block(torch.nn.Module):
    """What the blocks of Mixtral and Qwen3-MoE do."""

    def __init__(self, kind, act_fn=F.silu, hidden=24, inner=20, experts=5, top=2):
        super().__init__()
        self.top_k, self.count = top, experts
        self.gate = torch.nn.Linear(hidden, experts, bias=False)
        if kind == "qwen":
            self.norm_topk_prob = False
        if kind == "stacked":
            self.experts = Stacked(hidden, inner, experts, act_fn)
        else:
            names = ("w1", "w3", "w2") if kind == "mixtral" else ("gate_proj", "up_proj", "down_proj")
            self.experts = torch.nn.ModuleList(Mlp(hidden, inner, names, act_fn) for _ in range(experts))

    def forward(self, x):
        weights, experts = torch.softmax(self.gate(x), -1).topk(self.top_k, -1)
        if getattr(self, "norm_topk_prob", True):
            weights = weights / weights.sum(-1, keepdim=True)
        return sum((weights * (experts == e)).sum(-1, keepdim=True) * self.experts[e](x) for e in range(self.count))


@pytest.mark.parametrize("kind", ["mixtral", "qwen", "stacked"])
def test_blocks_of_transformers_give_their_weights(device, kind):
    block = Block(kind).to(device)
    layer = rt.MoE.from_block(block)
    x = torch.randn(60, 24, device=device)
    assert testing.snr_db(layer(x).y, block(x).double()) > floor(device, torch.float32) and layer.router.top == 2
    assert layer.gate_up.weight.shape == (5, 40, 24) and layer.gate_up.weight.device.type == device.type
    before = block(x)
    with torch.no_grad():
        layer.down.weight.zero_()
    assert torch.equal(block(x), before)  # a copy
    assert rt.MoE.from_block(block.bfloat16(), top=1, capacity_factor=2.0).down.weight.dtype == torch.bfloat16


def test_blocks_that_are_something_else_are_refused(on_cpu):
    class Other(Block):
        def __init__(self, kind):
            super().__init__(kind)
            self.shared_expert_gate = torch.nn.Linear(24, 1, bias=False)

    turned = Block("stacked")
    turned.experts.gate_up_proj = torch.nn.Parameter(turned.experts.gate_up_proj.detach().mT)
    for block, text in (
        (Other("qwen"), "Other is no block .*: it has shared_expert_gate.weight besides"),
        (torch.nn.Linear(3, 3), "Linear is no block .*: it has no such weights"),
        (Block("qwen", act_fn=F.gelu), "the activation of Mlp is .*; MoE has silu"),
        (turned, r"\(5, 24\), \(5, 24, 40\) and \(5, 24, 20\); give \[experts, hidden\]"),
    ):
        with pytest.raises(ValueError, match=text):
            rt.MoE.from_block(block)


# ---- Experts on several ranks


def test_ranks_that_share_experts_are_one_layer(two_ranks):
    two_ranks("experts_worker.py", "experts agree")


# ---- The example


def test_the_training_example_has_the_losses_of_plain_torch(on_cpu, tmp_path):
    example = pathlib.Path(__file__).parents[2] / "examples" / "train_moe.py"
    small = "--steps 30 --hidden 32 --inner 24 --experts 4 --layers 1 --batch 2 --sequence 32"
    out = subprocess.run(
        [sys.executable, example, *small.split(), "--json", tmp_path / "run.json"], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True
    ).stdout
    runs = json.loads((tmp_path / "run.json").read_text())["runs"]
    losses = runs["torch"]["losses"]
    assert len(losses) == 30 and losses[-1] < 0.9 * losses[0]  # far more than batches of texts that change differ by
    assert runs["ridgeline"]["losses"] == pytest.approx(runs["torch"]["losses"], rel=1e-4)
    assert sum(runs["ridgeline"]["loads"]) == 2 * 32 * 2 and "losses of all steps differ by at most" in out


@pytest.mark.parametrize("recipe", [None, "blockwise"])
def test_a_linear_layer_finds_the_rows_of_tokens(device, recipe):
    layer = rt.GroupedLinear(5, 128, 64, device, torch.bfloat16, recipe=recipe)
    x = torch.randn(60, 128, device=device).bfloat16()
    order = rt.expert_order(torch.randint(-1, 6, (60, 3), device=device), 5)
    results = []
    for by_index in (False, True):
        own = x.clone().requires_grad_()
        y = layer(own, order) if by_index else layer(rt.permute(own, order), order.offsets)
        results.append((y.detach(), *torch.autograd.grad(y.float().square().sum(), (own, layer.weight))))
    assert all(torch.equal(one, other) for one, other in zip(*results))
    with pytest.raises(ValueError, match=r"give tokens, \[tokens, 128\]"):
        layer(x[:, :64], order)


def test_tokens_may_lie_in_any_order(device):
    layer = made(device, torch.bfloat16, hidden=32, inner=16)
    base = torch.randn(32, 40, device=device).bfloat16()
    for x in (base.t(), torch.randn(1, 32, device=device).bfloat16().expand(10, 32), torch.randn(20, 64, device=device).bfloat16()[:, ::2]):
        assert torch.equal(layer(x).y, layer(x.contiguous()).y)

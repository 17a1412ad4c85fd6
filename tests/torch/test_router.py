"""route, its gradients, the losses of routers and the module, against plain torch in float64."""

import itertools

import pytest
import torch

import ridgeline.testing as testing
import ridgeline.torch as rt

ops = torch.ops.ridgeline
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
FORMS = [
    {},
    {"renormalize": True},
    {"score": "sigmoid", "scale": 2.5},
    {"score": "sigmoid", "renormalize": True, "scale": 2.5},
    {"order": "top_first"},
    {"order": "top_first", "score": "sigmoid", "renormalize": True},
]


def keys(logits, score="softmax", order="score_first", bias=None, groups=1, **_):
    """What experts are compared by, as the contract says: numbers of float32."""
    x = logits.detach().double().cpu()
    if order == "top_first" or (bias is None and groups == 1):
        found = x.float()
    else:
        found = (torch.softmax(x, -1) if score == "softmax" else torch.sigmoid(x)).float()
    return found if bias is None else found + bias.cpu()


def chosen(logits, top, *, groups=1, group_top=1, **form):
    """Row by row, in Python: by falling key, the lower expert first."""
    rows = []
    for row in keys(logits, groups=groups, **form):
        size = len(row) // groups
        parts = row.view(groups, size)
        best = parts.sort(-1, descending=True).values
        marks = best[:, 0] if size == 1 else best[:, 0] + best[:, 1]
        allowed = sorted(range(groups), key=lambda g: (-marks[g].item(), g))[:group_top]
        row = row.tolist()
        rows.append(sorted((e for e in range(len(row)) if e // size in allowed), key=lambda e: (-row[e], e))[:top])
    return torch.tensor(rows, dtype=torch.int64).view(len(logits), top)


def weighed(logits, experts, *, score="softmax", order="score_first", renormalize=False, scale=1.0, **_):
    """Weights of these experts, differentiable, in the logits' dtype."""
    if order == "top_first":
        picked = logits.gather(1, experts)
        scores = torch.softmax(picked, -1) if score == "softmax" else torch.sigmoid(picked)
    else:
        scores = (torch.softmax(logits, -1) if score == "softmax" else torch.sigmoid(logits)).gather(1, experts)
    return scale * (scores / (scores.sum(-1, keepdim=True) + 1e-20) if renormalize else scores)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("experts,top,groups,group_top", [(8, 2, 1, 1), (67, 5, 1, 1), (64, 6, 8, 3), (12, 3, 12, 4), (1, 1, 1, 1), (7, 7, 1, 1)])
def test_values_and_gradients(device, dtype, form, biased, experts, top, groups, group_top):
    logits = torch.randn(50, experts, device=device).to(dtype).requires_grad_()
    bias = 0.1 * torch.randn(experts, device=device) if biased else None
    found = rt.route(logits, top, bias=bias, groups=groups, group_top=group_top, **form)
    assert found.weights.dtype == torch.float32 and found.experts.dtype == torch.int32 and not found.experts.requires_grad
    want = chosen(logits, top, bias=bias, groups=groups, group_top=group_top, **form)
    assert torch.equal(found.experts.cpu().long(), want)
    wide = logits.detach().double().cpu().requires_grad_()
    right = weighed(wide, want, **form)
    assert testing.snr_db(found.weights, right) > 110
    slope = torch.randn(50, top, device=device)
    found.weights.backward(slope)
    right.backward(slope.double().cpu())
    assert logits.grad.dtype == dtype
    if wide.grad.abs().max() < 1e-12:  # weights that add up to 1, of one expert
        assert logits.grad.abs().max() < 1e-5
    else:
        assert testing.snr_db(logits.grad, wide.grad) > {torch.float32: 100, torch.bfloat16: 46, torch.float16: 60}[dtype]


def test_ties_go_to_the_lower_expert(device):
    logits = torch.tensor([[1.0, 3, 3, -0.0, 0.0, 3, -0.0, 1], [2, 2, 2, 2, 2, 2, 2, 2]], device=device)
    for bias in (None, torch.zeros(8, device=device)):
        assert rt.route(logits, 7, bias=bias).experts.tolist() == [[1, 2, 5, 0, 7, 3, 4], [0, 1, 2, 3, 4, 5, 6]]
    found = rt.route(logits, 3, groups=4, group_top=2, order="top_first").experts.tolist()
    assert found == [[1, 2, 0], [0, 1, 2]]


@pytest.mark.parametrize("score", ["softmax", "sigmoid"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("biased", [False, True])
def test_nan_is_chosen_last_and_no_expert_twice(device, score, dtype, biased):
    nan, inf = float("nan"), float("inf")
    logits = torch.tensor([[nan, -inf, 2, nan, inf, -1], [nan] * 6, [-inf] * 6], device=device, dtype=dtype)
    bias = torch.tensor([9.0, 0, 0, 9, 0, 0], device=device) if biased else None
    weights, experts = rt.route(logits, 6, score=score, bias=bias)
    assert experts[0, 0] == 4 and experts[0, 4:].tolist() == [0, 3] and experts[1].tolist() == [0, 1, 2, 3, 4, 5]
    assert all(sorted(row) == [0, 1, 2, 3, 4, 5] for row in experts.tolist())
    assert weights[0, 4:].isnan().all() and weights[1].isnan().all()
    assert weights[0, 0].isnan() == (score == "softmax")
    assert rt.route(logits, 2, score=score, groups=3, group_top=2, bias=bias).experts.max() < 6


def test_no_token_and_widest(device):
    empty = rt.route(torch.zeros(0, 8, device=device, requires_grad=True), 2)
    assert empty.weights.shape == empty.experts.shape == (0, 2)
    logits = torch.randn(3, 512, device=device)
    assert torch.equal(rt.route(logits, 64).experts.cpu().long(), chosen(logits, 64))


def test_float64_is_what_float32_is(device):
    logits = torch.randn(40, 16, device=device)
    bias = torch.rand(16, device=device)
    for form in FORMS:
        narrow, wide = (rt.route(logits.to(dtype), 4, bias=bias, groups=4, group_top=2, **form) for dtype in (torch.float32, torch.float64))
        assert wide.weights.dtype == torch.float64 and torch.equal(narrow.experts, wide.experts)
        assert testing.snr_db(narrow.weights, wide.weights) > 110


def test_equal_bits_in_every_call(device):
    logits = torch.randn(300, 64, device=device, requires_grad=True)
    found = []
    for _ in range(3):
        weights, experts = rt.route(logits, 6, renormalize=True)
        found.append([weights, experts, *torch.autograd.grad(weights.square().sum(), logits)])
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other))


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_gradients_match_differences(on_cpu, form):
    logits = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    call = lambda logits: rt.route(logits, 3, **form).weights  # noqa: E731
    assert torch.autograd.gradcheck(call, logits, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, logits)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_gradients_are_differentiated_again(device, form):
    logits = torch.randn(6, 8, device=device, requires_grad=True)
    experts = rt.route(logits, 3, **form).experts.long()
    results = []
    for call in (lambda: rt.route(logits, 3, **form).weights, lambda: weighed(logits, experts, **form)):
        (first,) = torch.autograd.grad(call().square().sum(), logits, create_graph=True)
        results.append(torch.autograd.grad(first.square().sum(), logits))
    torch.testing.assert_close(*results)


def test_the_operators_pass_pytorchs_own_checks(device):
    logits = torch.randn(20, 8, device=device, requires_grad=True)
    bias = torch.rand(8, device=device)
    torch.library.opcheck(ops.route.default, (logits, 3))
    torch.library.opcheck(ops.route.default, (logits, 2, "sigmoid", "score_first", bias, 4, 2, True, 2.5))
    experts = rt.route(logits, 3).experts
    torch.library.opcheck(
        ops.route_backward.default, (torch.randn(20, 3, device=device), logits.detach(), experts, "softmax", "score_first", True, 1.5)
    )


def test_calls_compile_without_a_break(device):
    router = rt.Router(16, 8, 2, score="sigmoid", bias=True, groups=4, group_top=2, renormalize=True, scale=2.5).to(device)
    x = torch.randn(20, 16, device=device)

    def call(x):
        found = router(x)
        kept = rt.drop_over_capacity(found.experts, 8, 5)
        return found, kept, rt.expert_order(kept, 8).offsets

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    for made, want in zip(itertools.chain(*map(torch.utils._pytree.tree_leaves, compiled(x))), itertools.chain(*map(torch.utils._pytree.tree_leaves, call(x)))):
        torch.testing.assert_close(made, want)


def test_losses_are_their_formulas(device):
    logits = torch.randn(40, 6, device=device, requires_grad=True)
    experts = rt.route(logits, 2).experts
    wide = logits.detach().double().requires_grad_()
    counts = torch.bincount(experts.flatten().long().cpu(), minlength=6).to(device)
    assert torch.equal(rt.expert_counts(experts, 6), counts)
    share = counts.double() / experts.numel()
    sigmoids = torch.sigmoid(wide)
    pairs = [
        (rt.router_z_loss(logits), torch.logsumexp(wide, -1).square().mean()),
        (rt.load_balance_loss(logits, experts), 6 * (share * torch.softmax(wide, -1).mean(0)).sum()),
        (rt.load_balance_loss(logits, experts, score="sigmoid"), 6 * (share * (sigmoids / sigmoids.sum(-1, keepdim=True)).mean(0)).sum()),
    ]
    for found, right in pairs:
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), right)
        torch.testing.assert_close(torch.autograd.grad(found, logits)[0].double(), torch.autograd.grad(right, wide, retain_graph=True)[0], rtol=1e-5, atol=1e-7)
    even = torch.arange(12, device=device).view(6, 2) % 6
    assert rt.load_balance_loss(torch.zeros(6, 6, device=device), even).item() == pytest.approx(1)
    assert rt.load_balance_loss(torch.eye(6, device=device)[:1].repeat(6, 1) * 100, torch.zeros_like(even)).item() == pytest.approx(6)
    none = torch.zeros(0, 6, device=device)
    assert rt.router_z_loss(none).item() == 0 and rt.load_balance_loss(none, torch.zeros(0, 2, device=device, dtype=torch.int32)).item() == 0
    with pytest.raises(ValueError, match='score="relu" is unknown'):
        rt.load_balance_loss(logits, experts, score="relu")


def test_choices_beyond_the_capacity_are_dropped_in_the_order_of_tokens(device):
    experts = torch.randint(-1, 6, (50, 3), device=device, dtype=torch.int32)  # 5 is none of five
    for capacity in (0, 1, 7, 1000):
        found = rt.drop_over_capacity(experts, 5, capacity)
        used, want = [0] * 5, []
        for expert in experts.flatten().tolist():
            kept = 0 <= expert < 5 and used[expert] < capacity
            used[expert if 0 <= expert < 5 else 0] += 1 if kept else 0
            want.append(expert if kept else -1)
        assert found.dtype == torch.int32 and found.flatten().tolist() == want
    assert rt.drop_over_capacity(experts[:0], 5, 2).shape == (0, 3)
    for wrong, text in (((experts[0], 5, 2), "shape"), ((experts, 0, 2), "num_experts is 0"), ((experts, 5, -1), "capacity is -1")):
        with pytest.raises(ValueError, match=text):
            rt.drop_over_capacity(*wrong)


def plain_layer(x, weight, matrices, top):
    """A mixture of experts by torch alone."""
    logits = x @ weight.t()
    scores, experts = torch.softmax(logits, -1).topk(top, -1)
    scores = scores / scores.sum(-1, keepdim=True)
    y = torch.einsum("tkij,tj->tki", matrices[experts], x)
    counts = torch.bincount(experts.flatten(), minlength=len(matrices)) / experts.numel()
    balance = len(matrices) * (counts * torch.softmax(logits, -1).mean(0)).sum()
    return (y * scores[..., None]).sum(1), torch.logsumexp(logits, -1).square().mean(), balance


def test_a_small_mixture_learns_as_the_plain_one(device):
    tokens, width, experts, top = 96, 32, 6, 2
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(tokens, width, generator=generator).to(device)
    target = torch.randn(tokens, width, generator=generator).to(device)
    start = (torch.randn(experts, width, width, generator=generator) / width**0.5).to(device)
    router = rt.Router(width, experts, top, renormalize=True).to(device)
    matrices, plain_matrices = (torch.nn.Parameter(start.clone()) for _ in range(2))
    weight = torch.nn.Parameter(router.weight.detach().clone())

    def ours():
        found = router(x)
        order = rt.expert_order(found.experts, experts)
        y = rt.unpermute(rt.grouped_gemm(rt.permute(x, order), matrices, order.offsets, True), order, found.weights)
        return y, found.z_loss, found.balance_loss

    losses = []
    for call, parameters in ((ours, [router.weight, matrices]), (lambda: plain_layer(x, weight, plain_matrices, top), [weight, plain_matrices])):
        optimizer = torch.optim.SGD(parameters, lr=0.5)
        seen = []
        for _ in range(12):
            optimizer.zero_grad()
            y, z, balance = call()
            loss = (y - target).square().mean() + 0.001 * z + 0.01 * balance
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
        losses.append(seen)
    assert losses[1][-1] < 0.95 * losses[1][0]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3 if device.type == "cpu" else 1e-2)


def test_a_router_takes_any_leading_dimensions_and_keeps_its_bias(device):
    router = rt.Router(16, 8, 2, score="sigmoid", bias=True, renormalize=True).to(device)
    x = torch.randn(3, 5, 16, device=device)
    found = router(x.bfloat16())
    assert found.weights.shape == (15, 2) and found.z_loss.shape == found.balance_loss.shape == ()
    assert [name for name, _ in router.named_buffers()] == ["bias"] and [name for name, _ in router.named_parameters()] == ["weight"]
    router.bias[3] = 10
    assert (router(x).experts[:, 0] == 3).all()
    with pytest.raises(ValueError, match=r"give \[\.\.\., 16\]"):
        router(x[..., :8])


def test_says_what_is_wrong_with_a_call(on_cpu):
    logits = torch.randn(4, 8)
    for arguments, text in (
        ({"top": 9}, "top is 9, of 8 experts; give 1 to 8"),
        ({"top": 2, "score": "relu"}, 'score="relu" is unknown'),
        ({"top": 2, "order": "last"}, 'order="last" is unknown'),
        ({"top": 2, "groups": 3}, "groups is 3, of 8 experts"),
        ({"top": 2, "groups": 4, "group_top": 5}, "group_top is 5, of 4 groups"),
        ({"top": 3, "groups": 4, "group_top": 1}, "give a larger group_top or a smaller top"),
        ({"top": 2, "scale": float("inf")}, "give a finite number"),
        ({"top": 2, "bias": torch.zeros(7)}, "bias"),
    ):
        with pytest.raises(ValueError, match=text):
            rt.route(logits, **arguments)
    with pytest.raises(TypeError, match="logits is torch.int32"):
        rt.route(logits.int(), 2)
    with pytest.raises(ValueError, match="logits has shape"):
        rt.route(logits[0], 2)
    with pytest.raises(ValueError, match=r"experts\[1, 0\] is 8; there are 8"):
        ops.route_backward(torch.zeros(4, 2), logits, torch.tensor([[0, 1], [8, 1], [0, 1], [0, 1]], dtype=torch.int32), "softmax", "score_first", False, 1.0)

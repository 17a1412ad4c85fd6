"""cross_entropy, linear_cross_entropy and their modules against float64 and torch's own."""

import re

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import ridgeline.testing as testing
import ridgeline.torch as rt

F = torch.nn.functional
ops = torch.ops.ridgeline
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
FLOOR = {torch.float32: 105, torch.bfloat16: 44, torch.float16: 60}
SETTINGS = [{}, {"label_smoothing": 0.1, "z_loss": 1e-2}, {"soft_cap": 5.0, "z_loss": 1e-3}]


def theirs(logits, target, z_loss=0.0, soft_cap=None, reduction="mean", **rest):
    """By torch's functions; in float64 the definition."""
    x = logits if soft_cap is None else soft_cap * torch.tanh(logits / soft_cap)
    loss = F.cross_entropy(x, target.long(), reduction="none", **rest)
    counts = target != rest.get("ignore_index", -100)
    rows = x.movedim(1, -1) if x.dim() > 1 else x
    loss = loss + torch.where(counts, z_loss * torch.logsumexp(rows, -1) ** 2, 0.0)
    return {"none": loss, "sum": loss.sum(), "mean": loss.sum() / counts.sum()}[reduction]


def batch(tokens, columns, dtype=torch.float32, device="cpu", ignored=True, index=torch.int64):
    logits = (3 * torch.randn(tokens, columns, device=device)).to(dtype).requires_grad_()
    target = torch.randint(columns, (tokens,), device=device, dtype=index)
    if ignored:
        target[tokens // 2] = -100
    return logits, target


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("how", [{}, {"one_pass": True}, {"in_place": True}])
def test_values_and_gradients(device, dtype, settings, reduction, how):
    leaf, target = batch(9, 2100, dtype, device, index=torch.int32)
    wide = leaf.detach().double().requires_grad_()
    expected = theirs(wide, target, reduction=reduction, **settings)
    logits = leaf * 1  # something computed
    found = rt.cross_entropy(logits, target, reduction=reduction, **settings, **how)
    assert found.dtype == torch.float32 and found.shape == expected.shape
    testing.assert_snr(expected.detach(), found.detach(), 105)
    upstream = torch.rand_like(found) + 0.5
    (want,) = torch.autograd.grad(expected, wide, upstream.double())
    (have,) = torch.autograd.grad(found, leaf, upstream)
    # A gradient that is scaled in backward is rounded twice.
    testing.assert_snr(want, have, FLOOR[dtype] - (4 if how else 0))
    assert not have[4].any()


def test_shapes_are_torchs(device):
    for shape in [(7,), (5, 7), (2, 7, 3), (2, 7, 3, 4), (0, 7)]:
        x = torch.randn(shape, device=device)
        target = torch.randint(7, shape[:1][: len(shape) - 1] + shape[2:], device=device)
        for reduction in ("none", "sum"):
            have, want = (f(x, target, reduction=reduction) for f in (rt.cross_entropy, F.cross_entropy))
            assert have.shape == want.shape
            torch.testing.assert_close(have, want)
    assert rt.cross_entropy(torch.zeros(0, 7, device=device), torch.zeros(0, dtype=torch.int64, device=device)).isnan()
    rows = torch.randn(6, 20, device=device)[:, :11]
    torch.testing.assert_close(rt.cross_entropy(rows, torch.arange(6, device=device)), F.cross_entropy(rows, torch.arange(6, device=device)))


def test_an_upstream_gradient_of_one_takes_the_gradient_as_it_was_made(on_cpu):
    leaf, target = batch(6, 50)
    logits = leaf * 1
    rt.cross_entropy(logits, target, in_place=True).backward()
    torch.testing.assert_close(leaf.grad, torch.autograd.grad(F.cross_entropy(leaf, target), leaf)[0])
    torch.testing.assert_close(logits.detach(), leaf.grad)  # where the logits were


def test_float16_losses_that_are_scaled_keep_small_gradients(on_cpu):
    leaf, target = batch(4096, 64, torch.float16, ignored=False)
    for how in ({}, {"one_pass": True}):
        (have,) = torch.autograd.grad(rt.cross_entropy(leaf, target, **how) * 65536, leaf)
        wide = leaf.detach().double().requires_grad_()
        (want,) = torch.autograd.grad(F.cross_entropy(wide, target) * 65536, wide)
        testing.assert_snr(want, have, 55)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_where_no_target_counts_gradients_are_torchs_zeros(device, dtype, reduction):
    target = torch.full((6,), -100, device=device)
    for label_smoothing in (0.0, 0.1):
        want, *ours = (torch.ones(6, 5, device=device, dtype=dtype, requires_grad=True) for _ in range(4))
        right = F.cross_entropy(want, target, reduction=reduction, label_smoothing=label_smoothing)
        right.sum().backward()
        for leaf, how in zip(ours, ({}, {"one_pass": True}, {"in_place": True}), strict=True):
            found = rt.cross_entropy(leaf * 1, target, reduction=reduction, label_smoothing=label_smoothing, **how)
            found.sum().backward()
            torch.testing.assert_close(found, right.float(), equal_nan=True)
            assert torch.equal(leaf.grad, want.grad) and not want.grad.any()
    x, w = (torch.randn(shape, device=device).to(dtype).requires_grad_() for shape in ((6, 4), (5, 4)))
    main_grad = torch.ones(5, 4, device=device)
    for how in ({}, {"main_grad": main_grad}):
        loss = rt.linear_cross_entropy(x, w, target, reduction=reduction, chunk=4, **how)
        assert reduction != "mean" or loss.isnan()
        loss.sum().backward()
    assert not x.grad.any() and not w.grad.any() and torch.equal(main_grad, torch.ones_like(main_grad))


@pytest.mark.parametrize("soft_cap", [0.5, 30.0, 1e3, 1e6, 1e38])
def test_soft_caps_keep_the_digits_of_logits_far_below_them(on_cpu, soft_cap):
    leaf, target = batch(16, 500)
    wide = leaf.detach().double().requires_grad_()
    found, expected = rt.cross_entropy(leaf, target, soft_cap=soft_cap), theirs(wide, target, soft_cap=soft_cap)
    testing.assert_snr(expected.detach(), found.detach(), 120)
    testing.assert_snr(torch.autograd.grad(expected, wide)[0], torch.autograd.grad(found, leaf)[0], 120)
    shard = rt.ShardStatistics.of(leaf.detach(), target, 0, 500, soft_cap=soft_cap)
    most = (soft_cap * torch.tanh(wide.detach() / soft_cap)).amax(1)
    counts = target != -100
    testing.assert_snr(most[counts], shard.most[counts], 130)


def test_masked_vocabulary_nan_and_infinity(on_cpu):
    x = torch.randn(5, 40)
    x[0, 5:] = -torch.inf
    x[1, 3], x[2, 3] = torch.nan, torch.inf
    x[3, :] = -torch.inf
    loss = rt.cross_entropy(x, torch.tensor([2, 2, 2, 2, 2]), reduction="none")
    want = F.cross_entropy(x, torch.tensor([2, 2, 2, 2, 2]), reduction="none")
    torch.testing.assert_close(loss, want, equal_nan=True)
    assert loss[1:4].isnan().all() and loss[[0, 4]].isfinite().all()


def test_on_a_gpu_a_target_that_is_no_class_makes_its_token_nan(on_gpu, device):
    leaf, target = batch(6, 700, torch.bfloat16, device, ignored=False)
    target[1], target[4] = 700, -1
    for how in ({}, {"one_pass": True}, {"in_place": True}):
        loss = rt.cross_entropy(leaf * 1, target, reduction="none", **how)
        (gradient,) = torch.autograd.grad(loss, leaf, torch.ones_like(loss))
        for found in (loss, gradient.float().sum(1)):
            assert found.isnan().tolist() == [False, True, False, False, True, False]


def test_on_a_gpu_masked_columns_and_rows_that_are_no_distribution(on_gpu, device):
    x = torch.randn(5, 40000, device=device)
    x[0, 5:] = -torch.inf
    x[1, 39999], x[2, 3] = torch.nan, torch.inf
    x[3, :] = -torch.inf
    target = torch.full((5,), 2, device=device)
    loss = rt.cross_entropy(x, target, reduction="none")
    torch.testing.assert_close(loss, F.cross_entropy(x, target, reduction="none"), equal_nan=True)
    assert loss[1:4].isnan().all() and loss[[0, 4]].isfinite().all()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_on_a_gpu_linear_cross_entropy_and_shards_wait_for_nothing(on_gpu, device, reduction):
    x = (torch.randn(200, 64, device=device) * 0.5).bfloat16().requires_grad_()
    w = (torch.randn(4096, 64, device=device) * 0.3).bfloat16().requires_grad_()
    target = torch.randint(4096, (200,), device=device)
    wide = [t.detach().double().requires_grad_() for t in (x, w)]
    expected = theirs(wide[0] @ wide[1].t(), target, reduction=reduction)
    upstream = torch.rand_like(expected)
    rt.linear_cross_entropy(x, w, target, chunk=64, reduction=reduction)  # kernels are compiled by the first call
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = rt.linear_cross_entropy(x, w, target, chunk=64, reduction=reduction)
        have = torch.autograd.grad(found, [x, w], upstream.float())
        logits = (x @ w.t()).detach()
        parts = [rt.ShardStatistics.of(logits[:, a:b], target, a, 4096) for a, b in ((0, 1000), (1000, 4096))]
        loss, lse = rt.ShardStatistics.merge(parts).loss(target, 4096)
        gradient = rt.shard_gradient(torch.ones_like(loss), logits[:, :1000], target, lse, 0, 4096)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    testing.assert_snr(expected.detach(), found.detach(), 44)
    for want, one in zip(torch.autograd.grad(expected, wide, upstream), have, strict=True):
        testing.assert_snr(want, one, 38)
    right = logits.double().requires_grad_()
    losses = F.cross_entropy(right, target, reduction="none")
    testing.assert_snr(losses.detach(), loss, 100)
    testing.assert_snr(torch.autograd.grad(losses.sum(), right)[0][:, :1000], gradient, 44)


def test_what_is_not_supported_says_the_way_out(on_cpu):
    x, target = torch.randn(3, 5), torch.tensor([0, 1, 2])
    with pytest.raises(NotImplementedError, match="multiply the losses by weight"):
        rt.cross_entropy(x, target, torch.ones(5))
    with pytest.raises(NotImplementedError, match="torch.nn.functional.cross_entropy"):
        rt.cross_entropy(x, torch.rand(3, 5))
    with pytest.raises(NotImplementedError, match="multiply the losses"):
        rt.CrossEntropyLoss(torch.ones(5))
    for wrong, message in (
        ({"reduction": "avg"}, "'avg' is unknown"),
        ({"label_smoothing": 1.5}, "label_smoothing is 1.5"),
        ({"z_loss": -1.0}, "z_loss is -1"),
        ({"soft_cap": 0.0}, "soft_cap is 0"),
    ):
        with pytest.raises(ValueError, match=message):
            rt.cross_entropy(x, target, **wrong)
    for dtype in (torch.float32, torch.float64):
        with pytest.raises(ValueError, match=r"targets\[1\] is 5; the vocabulary has 5 columns"):
            rt.cross_entropy(x.to(dtype), torch.tensor([0, 5, 2]))
    with pytest.raises(ValueError, match="target"):
        rt.cross_entropy(x, torch.tensor([0, 1]))
    leaf = torch.nn.Parameter(torch.randn(6, 5))
    kept = leaf.detach().clone()
    for view in (leaf, leaf[:3], leaf.view(6, 5), leaf.view(2, 3, 5)[1], leaf.view(30)[:15].view(3, 5)):
        with pytest.raises(ValueError, match="leave it out"):
            rt.cross_entropy(view, torch.arange(len(view)) % 5, in_place=True)
    assert torch.equal(leaf.detach(), kept)
    rt.cross_entropy((leaf * 1)[:3], target, in_place=True).backward()  # a view of what something computed
    assert leaf.grad is not None and leaf.grad[:3].any()


def test_gradients_match_differences(on_cpu):
    logits, target = batch(4, 7, torch.float64)
    for settings in SETTINGS:
        for reduction in ("none", "mean"):
            def call(x, settings=settings, reduction=reduction, **how):
                return rt.cross_entropy(x, target, reduction=reduction, **settings, **how)

            assert torch.autograd.gradcheck(call, logits, check_forward_ad=True)
            assert torch.autograd.gradgradcheck(call, logits)
            assert torch.autograd.gradcheck(lambda x, call=call: call(x, one_pass=True), logits)
    x, w = torch.randn(6, 5, dtype=torch.float64, requires_grad=True), torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([0, 3, -100, 6, 1, 1])
    for reduction in ("none", "mean", "sum"):
        assert torch.autograd.gradcheck(lambda x, w, r=reduction: rt.linear_cross_entropy(x, w, targets, chunk=4, reduction=r, z_loss=0.1), (x, w))


def test_gradients_of_float32_are_differentiated_again(on_cpu):
    logits, target = batch(4, 30)
    wide = logits.detach().double().requires_grad_()
    (first,) = torch.autograd.grad(rt.cross_entropy(logits, target), logits, create_graph=True)
    (exact,) = torch.autograd.grad(F.cross_entropy(wide, target), wide, create_graph=True)
    testing.assert_snr(torch.autograd.grad(exact.square().sum(), wide)[0], torch.autograd.grad(first.square().sum(), logits)[0], 90)
    x, w = torch.randn(4, 8, requires_grad=True), torch.randn(30, 8)
    for loss, leaf in ((rt.cross_entropy(logits, target, one_pass=True), logits), (rt.linear_cross_entropy(x, w, target), x), (rt.linear_cross_entropy(x, w, target, reduction="none").sum(), x)):
        with pytest.raises(NotImplementedError, match="no second derivative"):
            torch.autograd.grad(loss, leaf, create_graph=True)


def test_the_modules_compile_and_the_operators_pass_pytorchs_own_checks(on_cpu):
    logits, target = batch(6, 40)
    for module in (rt.CrossEntropyLoss(label_smoothing=0.1), rt.CrossEntropyLoss(one_pass=True)):
        compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(logits, target), module(logits, target))
        assert torch.equal(*(torch.autograd.grad(call(logits, target), logits)[0] for call in (compiled, module)))
    head, x = rt.LinearCrossEntropy(16, 40, chunk=4), torch.randn(6, 16, requires_grad=True)
    compiled = torch.compile(head, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, target), head(x, target))
    for have, want in zip(*(torch.autograd.grad(call(x, target), [x, head.weight]) for call in (compiled, head)), strict=True):
        torch.testing.assert_close(have, want)
    plain = logits.detach()
    loss, lse = ops.cross_entropy(plain, target)
    torch.library.opcheck(ops.cross_entropy.default, (logits, target, -100, 0.1, 0.01, 5.0))
    torch.library.opcheck(ops.cross_entropy_backward.default, (torch.ones(6), logits, target, lse))
    torch.library.opcheck(ops.cross_entropy_with_gradient.default, (plain, target, torch.ones(6)))
    torch.library.opcheck(ops.cross_entropy_with_gradient_.default, (plain.clone(), target))
    torch.library.opcheck(ops.cross_entropy_shard.default, (plain, target, 10, 60))
    assert rt.last_used("cross_entropy")
    assert repr(rt.CrossEntropyLoss()) == "CrossEntropyLoss(reduction='mean', ignore_index=-100)"


def test_autocast(device):
    logits, target = batch(6, 40, torch.bfloat16, device)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        assert rt.cross_entropy(logits, target).dtype == torch.float32
        head, x = rt.LinearCrossEntropy(16, 40, device=device), torch.randn(6, 16, device=device, requires_grad=True)
        loss = head(x, target)
    loss.backward()
    assert x.grad.dtype == head.weight.grad.dtype == torch.float32
    want = F.cross_entropy((x.detach().bfloat16() @ head.weight.detach().bfloat16().t()).float(), target)
    torch.testing.assert_close(loss.detach(), want, rtol=1e-2, atol=1e-2)


def test_shards_merge_to_the_whole(on_cpu):
    logits, target = batch(8, 900)
    settings = {"label_smoothing": 0.1, "z_loss": 1e-3}
    cuts = [(0, 200), (200, 700), (700, 900)]
    parts = [rt.ShardStatistics.of(logits.detach()[:, a:b], target, a, 900) for a, b in cuts]
    loss, lse = rt.ShardStatistics.merge(parts).loss(target, 900, **settings)
    whole = rt.cross_entropy(logits, target, reduction="none", **settings)
    torch.testing.assert_close(loss, whole.detach())
    (want,) = torch.autograd.grad(whole.sum(), logits)
    have = [rt.shard_gradient(torch.ones(8), logits.detach()[:, a:b], target, lse, a, 900, **settings) for a, b in cuts]
    torch.testing.assert_close(torch.cat(have, 1), want)


class Largest(TorchDispatchMode):
    """The most elements of any tensor that an operator makes."""

    most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self.most = max(self.most, tensor.numel())
        return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_linear_cross_entropy_equals_the_unfused_one_and_never_has_all_logits(on_cpu, dtype, reduction):
    tokens, hidden, columns, chunk = 600, 24, 512, 64
    x = torch.randn(2, tokens // 2, hidden).to(dtype).requires_grad_()
    w = (torch.randn(columns, hidden) * 0.3).to(dtype).requires_grad_()
    target = torch.randint(columns, (2, tokens // 2))
    target[1, 7] = -100
    with Largest() as seen:
        found = rt.linear_cross_entropy(x, w, target, chunk=chunk, reduction=reduction, z_loss=1e-4)
        upstream = torch.rand_like(found)
        have = torch.autograd.grad(found, [x, w], upstream)
    assert seen.most <= chunk * columns < tokens * columns // 8
    wide = [t.detach().double().requires_grad_() for t in (x, w)]
    logits = wide[0] @ wide[1].t()
    expected = theirs(logits.flatten(0, 1), target.flatten(), reduction=reduction, z_loss=1e-4)
    testing.assert_snr(expected.detach().flatten(), found.detach().flatten(), 90 if dtype == torch.float32 else 44)
    for want, gradient, given in zip(torch.autograd.grad(expected, wide, upstream.double().view_as(expected)), have, (x, w), strict=True):
        assert gradient.dtype == given.dtype and gradient.shape == given.shape
        testing.assert_snr(want, gradient, {torch.float32: 90, torch.bfloat16: 38, torch.float16: 55}[dtype])
    with torch.no_grad(), Largest() as seen:
        again = rt.linear_cross_entropy(x, w, target, chunk=chunk, reduction=reduction, z_loss=1e-4)
    assert torch.equal(again, found) and seen.most <= chunk * columns


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_weights_gradient_in_one_chunk_or_added_up_in_its_own_dtype(on_cpu, reduction):
    tokens, hidden, columns = 192, 96, 300
    x = torch.randn(tokens, hidden).bfloat16().requires_grad_()
    w = (torch.randn(columns, hidden) * 0.3).bfloat16().requires_grad_()
    target = torch.randint(columns, (tokens,))
    wide = [t.detach().double().requires_grad_() for t in (x, w)]
    expected = F.cross_entropy(wide[0] @ wide[1].t(), target, reduction=reduction)
    want = torch.autograd.grad(expected, wide, torch.tensor(2.5, dtype=torch.float64))
    for how, widest, decibels in (({}, torch.bfloat16, 44), ({"chunk": 64}, torch.float32, 44), ({"chunk": 64, "wide_sums": False}, torch.bfloat16, 40)):
        seen = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t.dtype) or t, lambda t: t):
            found = rt.linear_cross_entropy(x, w, target, reduction=reduction, **how)
        assert widest in seen and (widest == torch.float32 or torch.float32 not in seen)
        have = torch.autograd.grad(found, [x, w], torch.tensor(2.5))
        testing.assert_snr(want[0], have[0], 40)
        testing.assert_snr(want[1], have[1], decibels)
    for wrong in ({"main_grad": torch.zeros(columns, hidden)}, {"reduction": "none"}):
        with pytest.raises(ValueError, match="wide_sums=False with a weight of torch.bfloat16"):
            rt.linear_cross_entropy(x, w, target, wide_sums=False, **{"reduction": reduction, **wrong})
    with pytest.raises(ValueError, match="wide_sums=False with a weight of torch.float32"):
        rt.linear_cross_entropy(x.float(), w.float(), target, wide_sums=False)


def test_linear_cross_entropy_adds_to_main_grad_and_says_what_is_wrong(on_cpu):
    x, w, target = torch.randn(9, 6, requires_grad=True), torch.randn(11, 6, requires_grad=True), torch.randint(11, (9,))
    main_grad = torch.ones(11, 6)
    rt.linear_cross_entropy(x, w, target, main_grad=main_grad).backward()
    assert w.grad is None
    (want,) = torch.autograd.grad(F.cross_entropy(x.detach() @ w.t(), target), w)
    torch.testing.assert_close(main_grad, 1 + want)
    for wrong, message in (({"chunk": 0}, "chunk=0"), ({"main_grad": torch.ones(3)}, "main_grad is")):
        with pytest.raises(ValueError, match=message):
            rt.linear_cross_entropy(x, w, target, **wrong)
    with pytest.raises(ValueError, match=r"\[vocabulary, hidden\]"):
        rt.linear_cross_entropy(x, w.t(), target)
    head = rt.LinearCrossEntropy(6, 11, reduction="sum")
    torch.testing.assert_close(head(x, target), F.cross_entropy(x @ head.weight.t(), target, reduction="sum"))


@pytest.mark.parametrize("settings", [{}, {"ignore_index": 3, "label_smoothing": 0.1}, {"reduction": "sum"}, {"reduction": "none", "label_smoothing": 0.2}])
def test_convert_exchanges_the_loss_of_a_model_and_gives_it_back(device, settings):
    theirs = torch.nn.CrossEntropyLoss(**settings)
    model = torch.nn.ModuleDict({"head": torch.nn.Linear(16, 40), "loss": torch.nn.CrossEntropyLoss(**settings)}).to(device)
    called = []
    model["loss"].register_forward_hook(lambda module, inputs, out: called.append(type(module)))
    logits, target = batch(6, 40, device=device)
    target[target == -100] = theirs.ignore_index
    report = rt.convert(model, None, keep=lambda name, module: name == "head")
    assert report.swapped == {"loss": "cross_entropy of class indices"} and type(model["loss"]) is rt.CrossEntropyLoss
    for call, of in ((logits, target), (logits[0], target[0]), (logits.detach().view(2, 3, 40).movedim(-1, 1).requires_grad_(), target.view(2, 3))):
        found, expected = model["loss"](call, of), theirs(call, of)
        torch.testing.assert_close(found, expected)
        upstream = torch.rand_like(expected)
        torch.testing.assert_close(*(torch.autograd.grad(one, call, upstream)[0] for one in (found, expected)))
    assert called == [rt.CrossEntropyLoss] * 3 and rt.last_used("cross_entropy")
    assert rt.unswap(model, keep=lambda name, module: name == "head").swapped == {"loss": "torch"}
    assert type(model["loss"]) is torch.nn.CrossEntropyLoss and vars(model["loss"]).keys() == vars(theirs).keys()


def test_convert_leaves_a_loss_that_ours_is_not_and_says_why(on_cpu):
    class Own(torch.nn.CrossEntropyLoss):
        pass

    weighted = torch.nn.CrossEntropyLoss(torch.ones(5))
    model = torch.nn.ModuleDict({"weighted": weighted, "own": Own(), "kept": torch.nn.CrossEntropyLoss(), "plain": torch.nn.CrossEntropyLoss()})
    report = rt.convert(model, {"kept": "leave", "*": "tensorwise"})
    assert list(report.swapped) == ["plain"] and type(weighted) is torch.nn.CrossEntropyLoss
    assert "class weights" in report.left["weighted"] and "code of its own" in report.left["own"] and "'kept'" in report.left["kept"]
    with pytest.raises(NotImplementedError, match="class probabilities.*keep= of convert"):  # the call alone shows what targets are
        model["plain"](torch.randn(3, 5), torch.rand(3, 5))
    model["plain"].weight = torch.ones(5)
    with pytest.raises(NotImplementedError, match="class weights"):
        model["plain"](torch.randn(3, 5), torch.tensor([0, 1, 2]))
    capped = torch.nn.Sequential(rt.CrossEntropyLoss(z_loss=1e-4, soft_cap=30.0), rt.CrossEntropyLoss(one_pass=True))
    assert rt.unswap(capped).left == {"0": "has z_loss and soft_cap, which torch.nn.CrossEntropyLoss has not"}
    assert type(capped[1]) is torch.nn.CrossEntropyLoss


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_rescale_multiplies_where_the_factor_is_not_one(device, dtype):
    if dtype == torch.float64 and str(device) != "cpu":
        pytest.skip("float64 is for a CPU")
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    x = torch.randn(6, 40).to(device, dtype)
    x[2, 3] = torch.nan
    for factor in (torch.tensor(1.0), torch.tensor(-0.375), torch.tensor([1.0, 2.0, 1.0, 0.3, 0.0, -1.0])):
        factor = factor.to(device, wide)
        found = x.clone()
        version = found._version
        torch.ops.ridgeline.rescale_(found, factor)
        assert found._version > version
        expected = (x.to(wide) * (factor if factor.dim() == 0 else factor[:, None])).to(dtype)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    torch.library.opcheck(torch.ops.ridgeline.rescale_, (x.nan_to_num(), torch.tensor(2.0, device=device, dtype=wide)))


def test_rescale_says_what_is_wrong(device):
    x = torch.randn(6, 40, device=device)
    for words, args in {
        "factor has shape [5] for x of shape [6, 40]": (x, torch.ones(5, device=device)),
        "factor is torch.float64; give": (x, torch.ones((), device=device, dtype=torch.float64)),
        "x has shape [240]; give a matrix": (x.view(-1), torch.ones((), device=device)),
        "x is torch.int32": (x.int(), torch.ones((), device=device)),
    }.items():
        with pytest.raises((ValueError, TypeError), match=re.escape(words)):
            torch.ops.ridgeline.rescale_(*args)


def test_shapes_are_known_on_the_meta_device(on_cpu):
    x, w, target = torch.empty(6, 8, device="meta", requires_grad=True), torch.empty(30, 8, device="meta"), torch.empty(6, dtype=torch.int64, device="meta")
    for loss in (rt.linear_cross_entropy(x, w, target), rt.cross_entropy(x, target, one_pass=True)):
        loss.backward()
        assert loss.shape == () and x.grad.shape == x.shape


@pytest.mark.parametrize("how", [{}, {"one_pass": True}, {"in_place": True}])
def test_an_ignored_token_has_no_gradient_of_infinity(device, how):
    leaf = torch.randn(3, 50, device=device, requires_grad=True)
    loss = rt.cross_entropy(leaf * 1, torch.tensor([4, -100, 2], device=device), reduction="none", **how)
    loss.backward(torch.tensor([1.0, torch.inf, 2.0], device=device))
    assert leaf.grad.isfinite().all() and not leaf.grad[1].any() and leaf.grad[0].any()


def test_gradients_of_several_upstream_gradients_at_once(device):
    x, target = torch.randn(4, 50, device=device, requires_grad=True), torch.randint(50, (4,), device=device)
    w, upstream = torch.randn(50, 50, device=device), torch.randn(3, device=device)
    for make in (rt.cross_entropy, lambda *given, **_: rt.linear_cross_entropy(given[0], w, given[1])):
        found = torch.autograd.grad(make(x, target, one_pass=True), x, upstream, is_grads_batched=True)[0]
        for have, scale in zip(found, upstream, strict=True):
            torch.testing.assert_close(have, torch.autograd.grad(make(x, target, one_pass=True), x, scale)[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_linear_cross_entropy_of_no_token(device, reduction, dtype):
    x, w = torch.randn(0, 8, device=device, dtype=dtype, requires_grad=True), torch.randn(30, 8, device=device, dtype=dtype, requires_grad=True)
    target = torch.empty(0, dtype=torch.int64, device=device)
    loss = rt.linear_cross_entropy(x, w, target, reduction=reduction)
    want = F.cross_entropy(x.float() @ w.float().t(), target, reduction=reduction)
    torch.testing.assert_close(loss, want, equal_nan=True)
    loss.sum().backward()
    assert x.grad.shape == (0, 8) and w.grad.dtype == dtype and not w.grad.any()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_gradients_that_were_made_with_the_loss_serve_once(device, reduction):
    x, target = torch.randn(6, 50, device=device, requires_grad=True), torch.randint(50, (6,), device=device)
    upstream = torch.randn(6, device=device) if reduction == "none" else torch.tensor(3.0, device=device)
    expected = torch.autograd.grad(torch.nn.functional.cross_entropy(x, target, reduction=reduction), x, upstream)[0]
    loss = rt.cross_entropy(x, target, one_pass=True, reduction=reduction)
    torch.testing.assert_close(torch.autograd.grad(loss, x, upstream, retain_graph=True)[0], expected, rtol=2e-5, atol=2e-6)
    with pytest.raises(RuntimeError, match="were used up by the first backward call; leave one_pass and in_place out"):
        torch.autograd.grad(loss, x, upstream)

"""fp8_gated_experts: both layers of experts in 8-bit floats against fp8_grouped_linear of each, bit for bit, and what it stores."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import ridgeline.torch as rt

BLOCKS = rt.QuantConfig(granularity="blockwise")
OFFSETS = [4, 40, 40, 41, 200, 304]  # rows before and behind, a group without rows, one of a single row
ROWS, GROUPS, IN, INNER, OUT = 320, 5, 144, 128, 160


class Inputs:
    def __init__(self, device, dtype=torch.bfloat16, rows=ROWS, factors=True):
        def leaf(*shape):
            return torch.randn(*shape, device=device).to(dtype).requires_grad_()

        self.x, self.gate_up, self.down = leaf(rows, IN), leaf(GROUPS, 2 * INNER, IN), leaf(GROUPS, OUT, INNER)
        self.factors = torch.rand(rows, device=device, requires_grad=True) if factors else None
        self.offsets = torch.tensor([min(at, rows) for at in OFFSETS], dtype=torch.int32, device=device)
        self.dy = torch.randn(rows, OUT, device=device).to(dtype)

    def leaves(self):
        return [each for each in (self.x, self.gate_up, self.down, self.factors) if each is not None]

    def together(self, recipe="blockwise", **more):
        return rt.fp8_gated_experts(self.x, self.gate_up, self.down, self.offsets, recipe, factors=self.factors, **more)

    def apart(self, recipe="blockwise", **more):
        grads = more.get("main_grads", (None, None))
        both = rt.fp8_grouped_linear(self.x, self.gate_up, self.offsets, recipe, main_grad=grads[0])
        return rt.fp8_grouped_linear(rt.swiglu(both, probs=self.factors), self.down, self.offsets, recipe, main_grad=grads[1])


class Shapes(TorchDispatchMode):
    """The shapes of 16-bit tensors that operators make."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        self.seen += [tuple(t.shape) for t in (made if isinstance(made, tuple) else (made,)) if isinstance(t, torch.Tensor) and t.dtype == torch.bfloat16]
        return made


class Calls(TorchDispatchMode):
    """The names of operators that are called."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))

    def count(self, name):
        return self.seen.count(name)


def expect_same(found, right, device):
    for at, (mine, other) in enumerate(zip(found, right)):
        if mine.dim() == 1 and device.type == "cuda":  # the gradient of factors is added up in another order
            torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-2)
        else:
            assert torch.equal(mine, other), at


def routed(device, dtype=torch.bfloat16, tokens=101, top=3):
    """Inputs of tokens that go to several experts, some to fewer, and their order."""
    inputs = Inputs(device, dtype, rows=tokens)
    experts = torch.randint(-1, GROUPS, (tokens, top), device=device)
    experts[experts == 1] = 2  # one has no rows
    inputs.offsets = rt.expert_order(experts, GROUPS)
    inputs.factors = torch.rand(tokens * top, device=device, requires_grad=True)
    return inputs


def of_copies(inputs, recipe="blockwise"):
    order = inputs.offsets
    both = rt.fp8_grouped_linear(rt.permute(inputs.x, order), inputs.gate_up, order.offsets, recipe)
    return rt.unpermute(rt.fp8_grouped_linear(rt.swiglu(both, probs=inputs.factors), inputs.down, order.offsets, recipe), order)


@pytest.mark.parametrize("recipe", ["blockwise", rt.QuantConfig("hybrid", "blockwise"), rt.QuantConfig("e5m2", "blockwise", torch.float8_e8m0fnu)], ids=str)
@pytest.mark.parametrize("factors", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_it_is_both_layers_bit_for_bit(device, dtype, factors, recipe):
    inputs = Inputs(device, dtype, factors=factors)
    found, right = inputs.together(recipe), inputs.apart(recipe)
    expect_same((found, *torch.autograd.grad(found, inputs.leaves(), inputs.dy)), (right, *torch.autograd.grad(right, inputs.leaves(), inputs.dy)), device)
    with torch.no_grad():
        assert torch.equal(inputs.together(recipe), found)


@pytest.mark.parametrize("recipe", ["blockwise", rt.QuantConfig("hybrid", "blockwise")], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_rows_of_tokens_are_found_by_their_order(device, dtype, recipe):
    inputs = routed(device, dtype)
    found, right = inputs.together(recipe), of_copies(inputs, recipe)
    expect_same((found, *torch.autograd.grad(found, inputs.leaves(), inputs.dy)), (right, *torch.autograd.grad(right, inputs.leaves(), inputs.dy)), device)
    with torch.no_grad():
        assert torch.equal(inputs.together(recipe), found)


@pytest.mark.parametrize("most", [0, 4096])
@pytest.mark.parametrize("top", [1, 2])
def test_rows_are_found_in_the_load_or_before_it_with_equal_bits(device, monkeypatch, top, most):
    from ridgeline.torch import grouped

    monkeypatch.setattr(grouped, "_MOST_COLUMNS_BY_INDEX", most)
    inputs = routed(device, tokens=104, top=top)
    with Calls() as seen:
        found = inputs.together()
    assert seen.count("ridgeline.grouped_codes.default") == (1 if most and top == 2 else 2)
    right = of_copies(inputs)
    expect_same((found, *torch.autograd.grad(found, inputs.leaves(), inputs.dy)), (right, *torch.autograd.grad(right, inputs.leaves(), inputs.dy)), device)


def test_no_copies_of_tokens_are_stored(device):
    inputs = routed(device)
    with Shapes() as seen:
        torch.autograd.grad(inputs.together(), inputs.leaves(), inputs.dy)
    rows = {-(-101 * 3 // 4) * 4, 303}
    assert sum(shape[0] in rows and shape[1] in (IN, OUT) for shape in seen.seen) == 2  # what the second product makes, and the gradient of the first's operand


@pytest.mark.parametrize("rows", [0, 3, 303])
def test_rows_of_any_number(device, rows):
    inputs = Inputs(device, rows=rows)
    found, right = inputs.together(), inputs.apart()
    expect_same((found, *torch.autograd.grad(found, inputs.leaves(), inputs.dy)), (right, *torch.autograd.grad(right, inputs.leaves(), inputs.dy)), device)


@pytest.mark.parametrize("make", [Inputs, routed])
@pytest.mark.parametrize("asked", [(0,), (1,), (2,), (3,), (1, 2)], ids=str)
def test_gradients_that_are_asked_for_alone(device, asked, make):
    inputs = make(device)
    for at, leaf in enumerate(inputs.leaves()):
        leaf.requires_grad_(at in asked)
    wanted = [leaf for leaf in inputs.leaves() if leaf.requires_grad]
    found, right = inputs.together(), inputs.apart() if make is Inputs else of_copies(inputs)
    expect_same(torch.autograd.grad(found, wanted, inputs.dy), torch.autograd.grad(right, wanted, inputs.dy), device)


def test_gradients_are_added_and_codes_may_be_made_before(device):
    inputs = Inputs(device)
    grads = [(torch.ones(inputs.gate_up.shape, device=device), torch.ones(inputs.down.shape, device=device)) for _ in range(2)]
    inputs.together(main_grads=grads[0]).backward(inputs.dy)
    assert inputs.gate_up.grad is None and inputs.down.grad is None
    mine, inputs.x.grad = inputs.x.grad, None
    inputs.apart(main_grads=grads[1]).backward(inputs.dy)
    expect_same((mine, *grads[0]), (inputs.x.grad, *grads[1]), device)
    made = inputs.together()
    coded = (rt.quantize(weight, BLOCKS, weight=True, transpose=True) for weight in (inputs.gate_up, inputs.down))
    again = rt.fp8_gated_experts(inputs.x, *coded, inputs.offsets, factors=inputs.factors)
    leaves = inputs.leaves()
    assert torch.equal(made, again)
    for mine, right in zip(torch.autograd.grad(again, leaves, inputs.dy), torch.autograd.grad(made, leaves, inputs.dy)):
        assert torch.equal(mine, right)


def test_what_rows_of_no_group_hold_changes_nothing(device):
    inputs = Inputs(device)
    clean = inputs.together()
    right = torch.autograd.grad(clean, inputs.leaves(), inputs.dy)
    with torch.no_grad():
        for rows in (inputs.x, inputs.dy, inputs.factors):
            rows[0], rows[-1] = torch.nan, torch.inf
    dirty = inputs.together()
    assert torch.equal(dirty, clean)
    for mine, other in zip(torch.autograd.grad(dirty, inputs.leaves(), inputs.dy), right):
        assert torch.equal(mine, other)


def test_neither_swiglu_nor_its_gradients_are_stored(device):
    inputs = Inputs(device)
    with Shapes() as forward:
        made = inputs.together()
    with Shapes() as backward:
        torch.autograd.grad(made, inputs.leaves(), inputs.dy)
    assert forward.seen.count((ROWS, 2 * INNER)) == 1 and (ROWS, INNER) not in forward.seen
    assert (ROWS, 2 * INNER) not in backward.seen and backward.seen.count((ROWS, INNER)) == 1


@pytest.mark.parametrize("make", [Inputs, routed])
def test_compile(device, make):
    inputs = make(device)
    eager = inputs.together()
    wanted = torch.autograd.grad(eager, inputs.leaves(), inputs.dy)

    def step(x, gate_up, down, factors):
        return rt.fp8_gated_experts(x, gate_up, down, inputs.offsets, factors=factors)

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")(*inputs.leaves())
    assert torch.equal(compiled, eager)
    for mine, right in zip(torch.autograd.grad(compiled, inputs.leaves(), inputs.dy), wanted):
        assert torch.equal(mine, right)


@pytest.mark.parametrize("make", [Inputs, routed])
def test_second_derivatives_are_refused(device, make):
    inputs = make(device)
    for loss in (lambda y: y.square().sum(), lambda y: y.sum()):
        for leaf in inputs.leaves():
            (gradient,) = torch.autograd.grad(loss(inputs.together()), leaf, create_graph=True)
            with pytest.raises(NotImplementedError, match="fp8_gated_experts: no second derivative"):
                gradient.sum().backward()
    main_grads = (torch.zeros(inputs.gate_up.shape, device=device), None)
    with pytest.raises(NotImplementedError, match="main_grad takes no gradient that is to be differentiated again"):
        torch.autograd.grad(inputs.together(main_grads=main_grads).sum(), inputs.gate_up, create_graph=True)
    assert not main_grads[0].any()


def test_autocast(device):
    inputs = Inputs(device, torch.float32)
    with torch.autocast(device.type, torch.bfloat16):
        made = inputs.together()
    assert made.dtype == torch.bfloat16
    grads = torch.autograd.grad(made, inputs.leaves(), inputs.dy.bfloat16())
    assert all(grad.dtype == leaf.dtype for grad, leaf in zip(grads, inputs.leaves()))


@pytest.mark.parametrize("recipe", ["rowwise", "rowwise_with_gw_hp", rt.Recipe(BLOCKS, BLOCKS, None), rt.QuantConfig(granularity="blockwise", rounding="stochastic")], ids=str)
def test_recipes_with_several_codes_of_an_operand_are_refused(device, recipe):
    with pytest.raises(ValueError, match="an operand has not the same codes in both of its products; use 'blockwise'"):
        Inputs(device).together(recipe)


def test_codes_of_another_recipe_are_named(device):
    inputs = Inputs(device)
    rows = rt.quantize(inputs.down, rt.QuantConfig(granularity="rowwise"), weight=True, transpose=True)
    with pytest.raises(ValueError, match="weight has scales by row; here they are by 128x128"):
        rt.fp8_gated_experts(inputs.x, inputs.gate_up, rows, inputs.offsets)


@pytest.mark.parametrize(
    "change,says",
    [
        (lambda i: {"x": i.x[0]}, r"give \[rows, in\], \[experts, 2 inner, in\] and \[experts, out, inner\]"),
        (lambda i: {"down": i.down[1:]}, r"give \[rows, in\]"),
        (lambda i: {"down": i.down[..., 1:]}, r"give \[rows, in\]"),
        (lambda i: {"gate_up": i.gate_up[..., 1:]}, r"give \[rows, in\]"),
        (lambda i: {"factors": i.factors[1:]}, r"give one for each row, \(320,\), in torch.float32"),
        (lambda i: {"factors": i.factors.double()}, r"give one for each row, \(320,\), in torch.float32"),
        (lambda i: {"offsets": rt.expert_order(torch.zeros(7, 1, dtype=torch.int32, device=i.x.device), GROUPS)}, "x has 320 rows, and the order is of 7 tokens"),
        (lambda i: {"main_grads": (i.down, None)}, "the main_grad of gate_up is .* give the shape of gate_up"),
        (lambda i: {"main_grads": (None, i.down.double())}, "the main_grad of down is .* in torch.float64; give the shape of down"),
    ],
)
def test_what_does_not_go_together_is_named(device, change, says):
    inputs = Inputs(device)
    given = {"x": inputs.x, "gate_up": inputs.gate_up, "down": inputs.down, "offsets": inputs.offsets, "factors": inputs.factors, **change(inputs)}
    with pytest.raises(ValueError, match=says):
        rt.fp8_gated_experts(**given)


def test_weights_without_codes_of_their_transposes_will_do_where_no_gradient_reads_them(device):
    inputs = Inputs(device)
    weights = [rt.quantize(weight.detach(), BLOCKS, weight=True) for weight in (inputs.gate_up, inputs.down)]
    made = rt.fp8_gated_experts(inputs.x.detach(), *weights, inputs.offsets, factors=inputs.factors.detach())
    assert torch.equal(made, inputs.together())


def test_a_graph_replays_with_other_tokens(on_gpu, device):
    inputs = routed(device)
    experts = torch.randint(0, GROUPS, (101, 3), device=device)

    def step():
        inputs.offsets = rt.expert_order(experts, GROUPS)
        made = inputs.together()
        return made, *torch.autograd.grad(made, inputs.leaves(), inputs.dy)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    experts.copy_(torch.randint(-1, 2, (101, 3), device=device))
    graph.replay()
    for mine, eager in zip(captured, step()):
        assert torch.equal(mine, eager)

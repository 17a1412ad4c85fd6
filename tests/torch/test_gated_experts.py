"""gated_experts: both layers of gated experts against the operators they stand for and float64, what is saved, and what may lie beside the rows of groups."""

import pytest
import torch

from torch.utils.flop_counter import FlopCounterMode

import ridgeline.testing as testing
import ridgeline.torch as rt

ops = torch.ops.ridgeline
FLOOR = {torch.float32: 100, torch.bfloat16: 38, torch.float16: 56}
ENDS = [2, 40, 40, 41, 90]
EXPERTS, HIDDEN, INNER, ROWS = len(ENDS) - 1, 48, 72, 96


def floor(device, dtype):
    return min(FLOOR[dtype], 50) if device.type == "cuda" else FLOOR[dtype]  # float32 of a GPU may be TF32


class Inputs:
    def __init__(self, device, dtype, tokens=0):
        def draw(*sizes, scale=1.0):
            return (scale * torch.randn(*sizes, device=device)).to(dtype).requires_grad_()

        self.x = draw(tokens or ROWS, HIDDEN)
        self.gate_up, self.down = draw(EXPERTS, 2 * INNER, HIDDEN, scale=HIDDEN**-0.5), draw(EXPERTS, HIDDEN, INNER, scale=INNER**-0.5)
        self.factors = torch.rand(ROWS, device=device).requires_grad_()
        self.offsets = torch.tensor(ENDS, device=device, dtype=torch.int32)
        self.index = self.places = None
        if tokens:
            self.index = torch.arange(ROWS, device=device, dtype=torch.int32) % tokens
            named = [[row for row in range(ROWS) if row % tokens == token and ENDS[0] <= row < ENDS[-1]] for token in range(tokens)]
            most = max(map(len, named))
            self.places = torch.tensor([each + [-1] * (most - len(each)) for each in named], device=device, dtype=torch.int32)
        self.dy = torch.randn(ROWS, HIDDEN, device=device).to(dtype)

    @property
    def leaves(self):
        return self.x, self.gate_up, self.down, self.factors

    def call(self, **more):
        return rt.gated_experts(self.x, self.gate_up, self.down, self.offsets, factors=self.factors, index=self.index, places=self.places, **more)

    def right(self):
        """y and the gradients in float64, expert by expert."""
        x, gate_up, down, factors = (each.detach().double().cpu().requires_grad_() for each in self.leaves)
        rows = x if self.index is None else x[self.index.cpu().long()]
        y = torch.zeros(ROWS, HIDDEN, dtype=torch.float64)
        for g, (begin, end) in enumerate(zip(ENDS, ENDS[1:])):
            gate, up = (rows[begin:end] @ gate_up[g].t()).chunk(2, -1)
            h = factors[begin:end, None] * torch.nn.functional.silu(gate) * up
            y = torch.cat((y[:begin], h @ down[g].t(), y[end:]))
        return y, torch.autograd.grad(y, (x, gate_up, down, factors), self.dy.double().cpu())


@pytest.mark.parametrize("tokens", [0, 37])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_result_and_gradients(device, dtype, tokens):
    inputs = Inputs(device, dtype, tokens)
    y = inputs.call()
    found = torch.autograd.grad(y, inputs.leaves, inputs.dy)
    right, gradients = inputs.right()
    assert y.dtype == dtype and testing.snr_db(y, right) > floor(device, dtype)
    for name, one, wanted in zip(("x", "gate_up", "down", "factors"), found, gradients):
        assert testing.snr_db(one, wanted) > floor(device, dtype) - 1, name
    assert not y[: ENDS[0]].any() and not y[ENDS[-1] :].any() and not found[3][ENDS[-1] :].any() and not found[2][1].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_swiglu_has_the_bits_of_the_operators(device, dtype):
    inputs = Inputs(device, dtype)
    with torch.no_grad():
        h, both = ops.grouped_swiglu(inputs.x, inputs.gate_up, inputs.offsets, True, inputs.factors)
        one_by_one = rt.grouped_gemm(inputs.x, inputs.gate_up, inputs.offsets, True)
        assert torch.equal(both, one_by_one) and torch.equal(h, rt.swiglu(both, probs=inputs.factors))
        again = ops.grouped_swiglu_backward(inputs.dy, inputs.down, inputs.offsets, both, False, inputs.factors)
        assert torch.equal(again[1], h)
        plain = ops.grouped_swiglu(inputs.x, inputs.gate_up, inputs.offsets, True)[0]
        assert torch.equal(plain, rt.swiglu(both)) and ops.grouped_swiglu_backward(inputs.dy, inputs.down, inputs.offsets, both)[2].numel() == 0


def test_rows_of_no_expert_may_hold_anything(device):
    inputs = Inputs(device, torch.bfloat16)
    with torch.no_grad():
        both = torch.randn(ROWS, 2 * INNER, device=device).bfloat16()
        clean = ops.grouped_swiglu_backward(inputs.dy, inputs.down, inputs.offsets, both, False, inputs.factors)
        for tensor in (both, inputs.dy, inputs.factors):
            tensor[: ENDS[0]] = tensor[ENDS[-1] :] = float("nan")
        dirty = ops.grouped_swiglu_backward(inputs.dy, inputs.down, inputs.offsets, both, False, inputs.factors)
    for one, other in zip(clean, dirty):
        assert torch.equal(one, other) and not one[: ENDS[0]].any() and not one[ENDS[-1] :].any()


def test_only_what_is_asked_for(device):
    inputs = Inputs(device, torch.bfloat16)
    whole = torch.autograd.grad(inputs.call(), inputs.leaves, inputs.dy)
    for i, leaf in enumerate(inputs.leaves):
        for other in inputs.leaves:
            other.requires_grad_(other is leaf)
        (one,) = torch.autograd.grad(inputs.call(), (leaf,), inputs.dy)
        assert torch.equal(one, whole[i]) or testing.snr_db(one, whole[i].double().cpu()) > 60, i


def test_main_grads_are_added_to(device):
    inputs = Inputs(device, torch.bfloat16)
    whole = torch.autograd.grad(inputs.call(), inputs.leaves, inputs.dy)
    sums = [torch.ones(each.shape, device=device) for each in (inputs.gate_up, inputs.down)]
    inputs.call(main_grads=(sums[0], sums[1])).backward(inputs.dy)
    assert inputs.gate_up.grad is None and inputs.down.grad is None and torch.equal(inputs.x.grad, whole[0])
    for one, wanted in zip(sums, whole[1:3]):
        assert testing.snr_db(one - 1, wanted.double().cpu()) > 40


def test_what_is_added_is_not_differentiated_again(device):
    inputs = Inputs(device, torch.bfloat16)
    for of_down in (False, True):
        sums = torch.zeros((inputs.down if of_down else inputs.gate_up).shape, device=device)
        y = inputs.call(main_grads=(None, sums) if of_down else (sums, None))
        with pytest.raises(NotImplementedError, match="main_grad"):
            y.backward(inputs.dy, create_graph=True)
        assert not sums.any()


def test_products_are_counted(device):
    inputs = Inputs(device, torch.bfloat16, tokens=37)
    with FlopCounterMode(display=False) as counter:
        inputs.call().backward(inputs.dy)
    assert counter.get_total_flops() == 3 * 2 * ROWS * INNER * HIDDEN * 3


def test_second_derivatives_are_those_of_the_operators(device):
    inputs = Inputs(device, torch.float32, tokens=37)

    def second(call):
        first = torch.autograd.grad(call(), inputs.leaves, inputs.dy, create_graph=True)
        return torch.autograd.grad(sum(each.square().sum() for each in first), inputs.leaves)

    def one_by_one():
        both = rt.grouped_gemm(inputs.x, inputs.gate_up, inputs.offsets, True, index_a=inputs.index, places=inputs.places)
        return rt.grouped_gemm(rt.swiglu(both, probs=inputs.factors), inputs.down, inputs.offsets, True)

    for found, wanted in zip(second(inputs.call), second(one_by_one)):
        assert testing.snr_db(found, wanted.double().cpu()) > min(floor(device, torch.float32), 90)


@pytest.mark.parametrize("tokens", [0, 37])
def test_what_torch_asks_of_operators(device, tokens):
    inputs = Inputs(device, torch.bfloat16, tokens)
    x, gate_up, down, factors = (each.detach() for each in inputs.leaves)
    both = torch.randn(ROWS, 2 * INNER, device=device).bfloat16()
    torch.library.opcheck(ops.grouped_swiglu.default, (x, gate_up, inputs.offsets, True, factors, None, inputs.index, inputs.places))
    torch.library.opcheck(ops.grouped_swiglu_backward.default, (inputs.dy, down, inputs.offsets, both, False, factors))
    torch.library.opcheck(ops.grouped_swiglu_backward.default, (inputs.dy, down, inputs.offsets, both))


def test_compiled_it_is_the_same(device):
    inputs = Inputs(device, torch.bfloat16, tokens=37)
    compiled = torch.compile(lambda *leaves: rt.gated_experts(*leaves[:3], inputs.offsets, factors=leaves[3], index=inputs.index, places=inputs.places), fullgraph=True)
    for one, other in zip(
        torch.autograd.grad(compiled(*inputs.leaves), inputs.leaves, inputs.dy), torch.autograd.grad(inputs.call(), inputs.leaves, inputs.dy)
    ):
        assert torch.equal(one, other)


def test_float64_is_taken_apart(on_cpu):
    inputs = Inputs(torch.device("cpu"), torch.float64)
    inputs.factors = inputs.factors.detach().double().requires_grad_()
    y = inputs.call()
    right, _ = inputs.right()
    assert y.dtype == torch.float64 and testing.snr_db(y, right) > 250


def test_says_what_is_wrong(device):
    inputs = Inputs(device, torch.bfloat16, tokens=37)
    x, both = inputs.x.detach(), torch.zeros(ROWS, 2 * INNER, device=device).bfloat16()
    weights = inputs.gate_up.detach(), inputs.down.detach()
    for call, kind, text in (
        (lambda: rt.gated_experts(inputs.x, *weights, inputs.offsets, index=inputs.index), ValueError, "give places"),
        (lambda: rt.gated_experts(x, *weights, inputs.offsets, index=inputs.index, main_grads=(None, inputs.dy)), ValueError, "give the shape of down"),
        (lambda: ops.grouped_swiglu(x, weights[0][:, 1:], inputs.offsets, True, None, None, inputs.index), ValueError, "143 columns; give those of gate and as many of up"),
        (lambda: ops.grouped_swiglu(x, weights[0], inputs.offsets, True, inputs.factors.detach()), ValueError, "probs has shape [96] and there are 37 rows"),
        (lambda: ops.grouped_swiglu(x, weights[0], inputs.offsets, True, inputs.factors.detach().half(), None, inputs.index), TypeError, "give torch.float32"),
        (lambda: ops.grouped_swiglu_backward(inputs.dy, weights[1], inputs.offsets, both[:, 1:]), ValueError, "gate_up"),
    ):
        with pytest.raises(kind) as refused:
            call()
        assert text in str(refused.value)
    y, _ = ops.grouped_swiglu(inputs.x, inputs.gate_up, inputs.offsets, True, None, None, inputs.index, inputs.places)
    with pytest.raises(NotImplementedError, match="ridgeline.torch.gated_experts has gradients"):
        y.sum().backward()

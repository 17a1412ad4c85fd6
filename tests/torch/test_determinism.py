"""Equal inputs give equal bits: forward and backward, whatever ran before, and with PyTorch's deterministic algorithms asked for."""

import pytest
import torch

import ridgeline.torch as rt

pytestmark = pytest.mark.deterministic

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def bits(*tensors):
    return [t.detach().contiguous().view(torch.uint8).clone() for t in tensors]


def product(call):
    def run(device, dtype):
        a, b = (torch.randn(*shape, device=device).to(dtype).requires_grad_() for shape in ((129, 200), (136, 200)))
        out = call(a, b)
        return bits(out, *torch.autograd.grad(out, (a, b), torch.randn_like(out)))

    return run


def norm(device, dtype):
    x, weight = torch.randn(130, 300, device=device).to(dtype).requires_grad_(), torch.randn(300, device=device).to(dtype).requires_grad_()
    out = rt.rms_norm(x, 300, weight)
    return bits(out, *torch.autograd.grad(out, (x, weight), torch.randn_like(out)))


def centred_norm(device, dtype):
    x, *vectors = (torch.randn(*shape, device=device).to(dtype).requires_grad_() for shape in ((130, 300), (300,), (300,)))
    out = rt.layer_norm(x, 300, *vectors)
    return bits(out, *torch.autograd.grad(out, (x, *vectors), torch.randn_like(out)))


def gated(device, dtype):
    x, probs = torch.randn(130, 600, device=device).to(dtype).requires_grad_(), torch.rand(130, device=device).requires_grad_()
    out = rt.swiglu(x, probs=probs, mask=torch.arange(130, device=device) % 3 != 0)
    return bits(out, *torch.autograd.grad(out, (x, probs), torch.randn_like(out)))


def codes(granularity):
    def run(device, dtype):
        made = rt.quantize(torch.randn(130, 300, device=device).to(dtype), rt.QuantConfig(granularity=granularity), transpose=True)
        return bits(made.q, made.scale, made.q_t, made.scale_t, made.dequantize())

    return run


def coded(device, dtype):
    x, weight = (torch.randn(*shape, device=device).to(dtype) for shape in ((130, 300), (300,)))
    made = rt.activation_quantize(x, config=rt.QuantConfig(granularity="mx"), packed=True, transpose=True)
    norm, total = rt.rms_norm_quantize(x, 300, weight, residual=x, transpose=True)
    return bits(made.q, made.scale, made.q_t, made.scale_t, norm.q, norm.scale, norm.q_t, norm.scale_t, total)


CASES = {
    "gemm": product(lambda a, b: rt.gemm(a, b, trans_b=True)),
    "gemm with an epilogue": product(lambda a, b: rt.gemm(a, b, trans_b=True, activation="gelu")),
    "gemm_fp8": product(lambda a, b: rt.gemm_fp8(a, b, trans_b=True, config=rt.QuantConfig("hybrid"))),
    "gemm_fp8, blocks": product(lambda a, b: rt.gemm_fp8(a, b, trans_b=True, config=rt.QuantConfig(granularity="blockwise"))),
    "rms_norm": norm,
    "layer_norm": centred_norm,
    "activation": gated,
    "quantize": codes("tensorwise"),
    "quantize, mx": codes("mx"),
    "activation_quantize, rms_norm_quantize": coded,
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_equal_inputs_give_equal_bits(device, name, dtype):
    found = []
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        for attempt in range(4):
            torch.manual_seed(7)
            found.append(CASES[name](device, dtype))
            torch.manual_seed(attempt)
            CASES[name](device, dtype)  # other numbers through the same memory
    finally:
        torch.use_deterministic_algorithms(before)
    assert all(torch.equal(one, first) for run in found[1:] for one, first in zip(run, found[0], strict=True))

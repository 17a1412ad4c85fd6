"""Every mistake is a Python exception that says what to do."""

import re

import pytest
import torch
from test_shape_functions import FOREIGN

import ridgeline.torch as rt


def matrix(*shape, dtype=torch.float32, **options):
    return torch.ones(*shape, dtype=dtype, **options)


@pytest.mark.parametrize(
    "call,exception,message",
    [
        (lambda a: rt.gemm(a, a[:3]), ValueError, "check trans_a and trans_b"),
        (lambda a: rt.gemm(a, a.bfloat16()), TypeError, r"a is torch\.float32 and b is torch\.bfloat16; cast .*a\.to\(torch\.bfloat16\) or b\.to\(torch\.float32\)"),
        (lambda a: rt.gemm(a.half(), a.int()), TypeError, "b is torch.int32; give both the same one of"),
        (lambda a: rt.gemm(a.double(), a), TypeError, r"the same one of torch\.float32|b\.to\(torch\.float64\)"),
        (lambda a: rt.gemm(a.double(), a.double(), out_dtype=torch.float32), TypeError, "leave out_dtype out|on the CPU only"),
        (lambda a: rt.gemm(a, a, residual=a[:3]), ValueError, "residual"),
        (lambda a: rt.gemm(a, a, residual=a.bfloat16()), ValueError, "residual"),
        (lambda a: rt.gemm(a, a, residual=a[0].expand(4, 4)), ValueError, r"call \.contiguous\(\)"),
        (lambda a: rt.gemm(a.int(), a.int()), TypeError, "the same one of torch.float32"),
        (lambda a: rt.gemm(a.to(torch.float8_e4m3fn), a.to(torch.float8_e4m3fn)), TypeError, "gemm_fp8"),
        (lambda a: rt.gemm(a[0], a), ValueError, "give two matrices"),
        (lambda a: rt.gemm(a[0, 0].expand(4, 4), a), ValueError, r"call \.contiguous\(\)"),
        (lambda a: rt.gemm(a[:, ::2], a[:2]), ValueError, r"call \.contiguous\(\)"),
        (lambda a: rt.gemm(a, a, activation="relu"), ValueError, "use None, gelu"),
        (lambda a: rt.gemm(a, a, bias=a[0, :3]), ValueError, "bias"),
        (lambda a: rt.gemm(a, a, out_dtype=torch.float16), ValueError, r"give torch\.float32, or cast it: \.to\(torch\.float16\)$"),
        (lambda a: rt.gemm(a, a, out_dtype=torch.int32), TypeError, "cannot be torch.int32; give torch.float32$"),
        (lambda a: rt.gemm(a, a, bias=a[0].int()), ValueError, r"bias is torch\.int32 .*give torch\.float32"),
        (lambda a: rt.gemm(a, a, residual=a.long()), ValueError, r"residual is torch\.int64 .*give torch\.float32"),
        (lambda a: rt.gemm(a.long(), a.long()), TypeError, "the same one of torch.float32"),
        (lambda a: rt.gemm(a.byte(), a.byte()), TypeError, "the same one of torch.float32"),
        (lambda a: rt.gemm_fp8(a.int(), a.int()), TypeError, "torch.bfloat16"),
        (lambda a: rt.rms_norm(a.int(), 4), TypeError, "give torch.float32"),
        (lambda a: rt.rms_norm(a, 4, a[0].int()), ValueError, "weight is torch.int32"),
        (lambda a: rt.rms_norm(a, 4, residual=a.bfloat16()), ValueError, "residual is torch.bfloat16"),
        (lambda a: rt.gemm_fp8(a, a.bfloat16()), TypeError, r"b is torch\.bfloat16; cast one of them"),
        (lambda a: torch.ops.ridgeline.quantize(a, torch.float8_e5m2, "row", random=a[0, :2].int()), TypeError, "two 64-bit words"),
        (lambda a: torch.ops.ridgeline.quantize(a, torch.float8_e5m2, "row", random=a[0, :2].byte()), TypeError, "two 64-bit words"),
        (lambda a: torch.ops.ridgeline.quantize(a, torch.float8_e5m2, "row", random=a[0, :4].long()[::2]), ValueError, r"random has words that are not adjacent; call .contiguous\(\)"),
        (lambda a: rt.gemm_fp8(a.double(), a.double()), TypeError, "torch.bfloat16"),
        (lambda a: rt.gemm_fp8(a[None], a[None]), ValueError, "give a matrix b"),
        (lambda a: rt.gemm_fp8(a, a, out_dtype=torch.int8), TypeError, "cannot be torch.int8"),
        (lambda a: rt.quantize(a[0]), ValueError, "give a matrix"),
        (lambda a: rt.quantize(a.long()), TypeError, "give torch.float32"),
        (lambda a: rt.quantize(a.expand(4, 4)[:, :1].expand(4, 4)), ValueError, r"call \.contiguous\(\)"),
        (lambda a: torch.ops.ridgeline.quantize(a, torch.float16, "tensor"), TypeError, "float8_e4m3fn"),
        (lambda a: torch.ops.ridgeline.quantize(a, torch.float8_e5m2, "blob"), ValueError, "use one of tensor"),
        (lambda a: torch.ops.ridgeline.quantize(a, torch.float8_e5m2, "mx", "exact"), ValueError, "use rule floor"),
        (lambda a: torch.ops.ridgeline.dequantize(a.to(torch.float8_e5m2), a[:1], "tensor", torch.float32), ValueError, "scale"),
        (lambda a: a.int().requires_grad_(), RuntimeError, "floating point"),
    ],
)
def test_a_mistake_names_the_values_and_the_way_out(device, call, exception, message):
    with pytest.raises(exception, match=message) as info:
        call(matrix(4, 4, device=device))
    assert not re.search(FOREIGN, str(info.value).replace("torch.float8_e4m3fn", "")), info.value


def test_devices_must_not_be_mixed():
    a = torch.ones(4, 4, device="meta")
    with pytest.raises((RuntimeError, NotImplementedError)):
        rt.gemm(torch.ones(4, 4), a).item()


def test_cpu_and_cuda_tensors_must_not_be_mixed(on_gpu):
    with pytest.raises(RuntimeError, match=r"move them to one device"):
        rt.gemm(torch.ones(4, 4), torch.ones(4, 4, device="cuda"))


def test_float64_is_for_the_cpu(on_gpu, device):
    with pytest.raises(TypeError, match="on the CPU only"):
        rt.gemm(matrix(4, 4, dtype=torch.float64, device=device), matrix(4, 4, dtype=torch.float64, device=device))


def test_a_backend_of_another_device_is_refused_not_replaced(on_cpu):
    try:
        with pytest.raises(NotImplementedError, match="is forced by code but cannot run|this build has no CUDA backend"):
            rt.set_backend("gemm", "cuda_wgmma")
            rt.gemm(matrix(4, 4), matrix(4, 4))
    finally:
        rt.set_backend("gemm", None)


def test_unknown_operators_and_implementations_are_listed():
    with pytest.raises(ValueError, match="cpu_simd"):
        rt.set_backend("gemm", "fastest")
    with pytest.raises(ValueError, match="gemm_fp8"):
        rt.backends("matmul")
    with pytest.raises(ValueError, match="m"):
        rt.explain("gemm", rows=3)

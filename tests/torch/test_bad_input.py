"""Every mistake is a Python exception that says what to do."""

import re

import pytest
import torch
from test_shape_functions import FOREIGN

import ridgeline.torch as rt
from ridgeline.torch import _library


def matrix(*shape, dtype=torch.float32, **options):
    return torch.ones(*shape, dtype=dtype, **options)


@pytest.mark.parametrize(
    "call,exception,message",
    [
        (lambda a: rt.gemm(a, a[:3]), ValueError, "check trans_a and trans_b"),
        (lambda a: rt.gemm(a, a.bfloat16()), TypeError, "the same one of torch.float32"),
        (lambda a: rt.gemm(a.double(), a), TypeError, "the same one of torch.float32"),
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
        (lambda a: rt.gemm(a, a, out_dtype=torch.float16), ValueError, "give torch.float32$"),
        (lambda a: rt.gemm(a, a, out_dtype=torch.int32), TypeError, "which no operator takes"),
        (lambda a: rt.gemm_fp8(a, a.bfloat16()), TypeError, "the same dtype"),
        (lambda a: rt.gemm_fp8(a.double(), a.double()), TypeError, "torch.bfloat16"),
        (lambda a: rt.gemm_fp8(a[None], a[None]), ValueError, "give a matrix b"),
        (lambda a: rt.gemm_fp8(a, a, out_dtype=torch.int8), TypeError, "which no operator takes"),
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


def test_another_version_of_pytorch_is_said_before_anything_is_loaded(tmp_path, monkeypatch):
    (tmp_path / "libridgeline_torch-1.13.so").touch()
    monkeypatch.setenv("RIDGELINE_LIBRARY_DIR", str(tmp_path))
    with pytest.raises(ImportError, match=r"was built for torch 1\.13, and this is torch .*install it again"):
        _library.load()
    monkeypatch.setenv("RIDGELINE_LIBRARY_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(ImportError, match="no ridgeline library in"):
        _library.load()

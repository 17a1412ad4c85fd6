"""A QuantizedTensor goes where tensors go: other processes, checkpoints, exports, files of others."""

import copy
import io
import json
import pickle
import struct

import pytest
import torch
import torch.distributed.checkpoint as checkpoint

import ridgeline.testing as testing
import ridgeline.torch as rt
from ridgeline.torch import QuantConfig, QuantizedTensor

GRANULARITIES = ["tensorwise", "rowwise", "blockwise", "mx"]


def codes(device, granularity="blockwise", transpose=True, format="e4m3", zero=False):
    x = torch.randn(64, 160, device=device, dtype=torch.bfloat16)
    return rt.quantize(0 * x if zero else x, QuantConfig(format, granularity), weight=True, transpose=transpose)


def same(x, y):
    assert type(y) is QuantizedTensor and (x.grouping, x.dtype, x.shape) == (y.grouping, y.dtype, y.shape)
    for part in ("q", "scale", "q_t", "scale_t"):
        p, q = getattr(x, part), getattr(y, part)
        assert (p is None and q is None) or (p.dtype == q.dtype and torch.equal(p.cpu().view(torch.uint8), q.cpu().view(torch.uint8)))
    return True


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_pickle(device, granularity, transpose):
    q = codes(device, granularity, transpose, "e5m2")
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        assert same(q, pickle.loads(pickle.dumps(q, protocol)))
    shared = copy.copy(q)
    assert shared.q.data_ptr() == q.q.data_ptr()


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("as_parameter", [True, False])
def test_pickle_keeps_what_is_a_parameter(device, as_parameter, requires_grad, tmp_path):
    q = codes(device)
    if as_parameter:
        q = torch.nn.Parameter(q, requires_grad=requires_grad)
    else:
        q.requires_grad_(requires_grad)
    torch.save(q, tmp_path / "q.pt")
    for loaded in (pickle.loads(pickle.dumps(q)), torch.load(tmp_path / "q.pt", weights_only=True)):
        assert isinstance(loaded, torch.nn.Parameter) == as_parameter and loaded.requires_grad == requires_grad and same(q, loaded)


def test_a_pickled_model_keeps_its_parameters(device):
    model = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.Linear(48, 16)).to(device)
    rt.swap_linears(model, QuantConfig())
    model[0].weight.requires_grad_(False)
    rt.gather_in_fp8(model)
    loaded = pickle.loads(pickle.dumps(model))
    for (name, want), (found, have) in zip(model.named_parameters(), loaded.named_parameters(), strict=True):
        assert name == found and want.requires_grad == have.requires_grad
    x = torch.randn(4, 32, device=device)
    assert torch.equal(model(x), loaded(x)) and type(loaded[0].weight) is torch.nn.Parameter


def test_codes_of_another_format_are_not_copied(device):
    with pytest.raises(ValueError, match="cannot copy .*float8_e5m2.* into .*float8_e4m3fn"):
        codes(device, format="e4m3").copy_(codes(device, format="e5m2"))


def test_a_file_of_an_earlier_version_is_read(device):
    q = codes(device)

    class Old:
        def __reduce__(self):
            return QuantizedTensor, (q.q, q.scale, q.q_t, q.scale_t, q.grouping, q.dtype)

    file = io.BytesIO()
    torch.save(Old(), file)
    file.seek(0)
    assert same(q, torch.load(file, weights_only=True))


def send(pipe):
    tensor = pipe.recv()
    tensor.q.view(torch.uint8).fill_(7)
    pipe.send(True)


def test_memory_is_shared_with_other_processes(on_cpu):
    q = codes("cpu")
    assert not q.is_shared()
    assert q.share_memory_() is q and q.is_shared()
    module = torch.nn.Module()
    module.register_buffer("weight", codes("cpu"))
    assert module.share_memory().weight.is_shared()
    context = torch.multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=send, args=(theirs,))
    process.start()
    ours.send(q)
    assert ours.recv()
    process.join()
    assert (q.q.view(torch.uint8) == 7).all()


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_distributed_checkpoints(device, granularity, tmp_path):
    saved = {"weight": codes(device, granularity), "bias": torch.randn(4, device=device)}
    checkpoint.save(saved, checkpoint_id=tmp_path)
    loaded = {"weight": codes(device, granularity, zero=True), "bias": torch.zeros(4, device=device)}
    target = loaded["weight"].q.data_ptr()
    checkpoint.load(loaded, checkpoint_id=tmp_path)
    assert same(saved["weight"], loaded["weight"]) and torch.equal(saved["bias"], loaded["bias"])
    assert loaded["weight"].q.data_ptr() == target
    made = torch.empty_like(saved["weight"])
    assert type(made) is QuantizedTensor and made.q.shape == (64, 160)


class Frozen(torch.nn.Module):
    def __init__(self, device, config):
        super().__init__()
        self.config = config
        self.register_buffer("weight", rt.quantize(torch.randn(64, 160, device=device), config, weight=True, transpose=True))
        self.bias = torch.nn.Parameter(torch.randn(64, device=device))

    def forward(self, x):
        plain = rt.gemm_fp8(x, self.weight, trans_b=True, config=self.config, bias=self.bias)
        both = rt.gemm_fp8(rt.quantize(x.flatten(0, -2), self.config), self.weight, trans_b=True, config=self.config)
        return plain + both.view(plain.shape)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_export(device, granularity, strict):
    model, x = Frozen(device, QuantConfig(granularity=granularity)), torch.randn(2, 8, 160, device=device)
    with torch.no_grad():
        program = torch.export.export(model, (x,), strict=strict)
        again = torch.randn(2, 8, 160, device=device)
        assert torch.equal(program.module()(again), model(again))


def test_unknown_words_are_refused(device):
    q = codes(device)
    with pytest.raises(ValueError, match=r"grouping='blob' is unknown; use one of 'tensor', 'row', '1x128', '128x128', 'mx'"):
        QuantizedTensor(q.q, q.scale, None, None, "blob", torch.bfloat16)
    with pytest.raises(ValueError, match="grouping='blob' is unknown"):
        QuantizedTensor.from_checkpoint(q.q, q.scale, grouping="blob")


def stored(x, rows, cols):
    """Codes and multipliers of x [n, k], one for each rows x cols, as checkpoints have them: not made by us."""
    n, k = x.shape
    padded = torch.zeros(-(-n // rows) * rows, -(-k // cols) * cols)
    padded[:n, :k] = x.float().cpu()
    blocks = padded.view(-1, rows, padded.shape[1] // cols, cols)
    scale = blocks.abs().amax((1, 3)) / 448
    quantised = (blocks / scale[:, None, :, None]).reshape(padded.shape)[:n, :k].to(torch.float8_e4m3fn)
    return quantised.to(x.device), scale.to(x.device)


CHECKPOINTS = {  # elements that share a scale, what is done to its tensor, grouping, configuration of a product
    "DeepSeek": ((128, 128), lambda s: s, "128x128", QuantConfig(granularity="blockwise")),
    "compressed-tensors, blocks, bfloat16": ((128, 128), lambda s: s, "128x128", QuantConfig(granularity="blockwise")),
    "compressed-tensors, tensor": ((300, 400), lambda s: s.reshape(1), "tensor", QuantConfig()),
    "compressed-tensors, scalar": ((300, 400), lambda s: s.reshape(()), "tensor", QuantConfig()),
    "compressed-tensors, channels": ((1, 400), lambda s: s, "row", QuantConfig(granularity="rowwise")),
    "rows": ((1, 400), lambda s: s[:, 0], "row", QuantConfig(granularity="rowwise")),
    "compressed-tensors, groups": ((1, 128), lambda s: s, "1x128", QuantConfig(granularity="blockwise")),
}


@pytest.mark.parametrize("name", list(CHECKPOINTS))
def test_checkpoints_of_others(device, name):
    block, change, grouping, config = CHECKPOINTS[name]
    weight = torch.randn(300, 400, device=device)
    quantised, scale = stored(weight, *block)
    if name.endswith("bfloat16"):
        scale = scale.bfloat16()
    q = QuantizedTensor.from_checkpoint(quantised, change(scale))
    assert q.grouping == grouping and q.dtype == torch.bfloat16 and q.shape == weight.shape
    by_hand = quantised.float() * scale.float().repeat_interleave(block[0], 0)[:300].repeat_interleave(block[1], 1)[:, :400]
    torch.testing.assert_close(q.dequantize(torch.float32), by_hand)
    testing.assert_snr(weight, q.dequantize(torch.float32), 28)
    x = torch.randn(32, 400, device=device, dtype=torch.bfloat16)
    testing.assert_snr(x.double() @ by_hand.double().t(), rt.gemm_fp8(x, q, trans_b=True, config=config), 25)


def test_checkpoints_with_mx_scales(device):
    weight = torch.randn(64, 160, device=device)
    ours = rt.quantize(weight, QuantConfig(granularity="mx"))
    theirs = ours.scale.t().contiguous()
    for scale in (theirs, theirs.view(torch.uint8)):
        assert torch.equal(QuantizedTensor.from_checkpoint(ours.q, scale, torch.float32).dequantize(), ours.dequantize())


@pytest.mark.parametrize("name", [*CHECKPOINTS, "mx"])
def test_gradients_pass_weights_of_checkpoints(device, name):
    """dx = dy w, by function and by layer; codes are turned where their scales allow it, and rounded once more where they do not."""
    torch.manual_seed(2)
    weight = torch.randn(300, 400, device=device)
    if name == "mx":
        config = QuantConfig(granularity="mx")
        ours = rt.quantize(weight, config)
        given = ours.q, ours.scale.t().contiguous()
    else:
        block, change, _, config = CHECKPOINTS[name]
        quantised, scale = stored(weight, *block)
        given = quantised, change(scale)
    q = QuantizedTensor.from_checkpoint(*given, transpose=True)
    if q.grouping in ("tensor", "128x128"):
        across = QuantizedTensor(None, None, q.q_t, q.scale_t, q.grouping, q.dtype)
        assert torch.equal(across.dequantize(torch.float32), q.dequantize(torch.float32))
    x = torch.randn(32, 400, device=device, dtype=torch.bfloat16, requires_grad=True)
    dy = torch.randn(32, 300, device=device, dtype=torch.bfloat16)
    expected = dy.double() @ q.dequantize(torch.float32).double()
    rt.gemm_fp8(x, q, trans_b=True, config=config).backward(dy)
    testing.assert_snr(expected, x.grad, 25)
    layer = rt.Fp8Linear(400, 300, bias=False, device=device, dtype=torch.bfloat16, config=config)
    layer.weight = torch.nn.Parameter(q, requires_grad=False)
    y = x.detach().clone().requires_grad_()
    layer(y).backward(dy)
    assert torch.equal(y.grad, x.grad)
    alone = QuantizedTensor.from_checkpoint(*given)
    with pytest.raises(ValueError, match=r"make it with transpose=True \(quantize, quantize_, QuantizedTensor.from_checkpoint\)"):
        rt.gemm_fp8(x, alone, trans_b=True, config=config)
    layer.weight = torch.nn.Parameter(alone, requires_grad=False)
    with pytest.raises(ValueError, match=r"from_checkpoint\(..., transpose=True\)"):
        layer(y).sum().backward()


def test_a_small_matrix_and_a_stated_grouping(device):
    quantised, scale = stored(torch.randn(64, 100, device=device), 128, 128)
    assert QuantizedTensor.from_checkpoint(quantised, scale).grouping == "128x128"
    assert QuantizedTensor.from_checkpoint(quantised, scale.reshape(1)).grouping == "tensor"
    assert QuantizedTensor.from_checkpoint(quantised, scale, grouping="tensor").grouping == "tensor"
    rows = stored(torch.randn(64, 100, device=device), 1, 128)
    assert QuantizedTensor.from_checkpoint(*rows).grouping == "row"
    assert QuantizedTensor.from_checkpoint(*rows, grouping="1x128").grouping == "1x128"


def test_what_no_checkpoint_holds_is_refused_with_the_shapes(device):
    quantised, _ = stored(torch.randn(300, 400, device=device), 128, 128)
    with pytest.raises(ValueError, match=r"scale of shape \(5, 7\).*128x128: \(3, 4\); row: \(300,\) or \(300, 1\)"):
        QuantizedTensor.from_checkpoint(quantised, torch.ones(5, 7, device=device))
    with pytest.raises(ValueError, match="and grouping 'row'"):
        QuantizedTensor.from_checkpoint(quantised, torch.ones(3, 4, device=device), grouping="row")
    with pytest.raises(ValueError, match="give a matrix of torch.float8_e4m3fn"):
        QuantizedTensor.from_checkpoint(quantised.float(), torch.ones(3, 4, device=device))


def write_safetensors(path, tensors, metadata):
    """The format itself: length, JSON header, bytes."""
    names = {torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2", torch.float8_e8m0fnu: "F8_E8M0", torch.float32: "F32"}
    header, data = {"__metadata__": metadata}, b""
    for name, tensor in tensors.items():
        assert type(tensor) is torch.Tensor and tensor.is_contiguous()
        raw = tensor.cpu().view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path, device):
    dtypes = {"F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "F8_E8M0": torch.float8_e8m0fnu, "F32": torch.float32}
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        raw = torch.tensor(list(data[start:end]), dtype=torch.uint8)
        tensors[name] = raw.view(dtypes[entry["dtype"]]).view(entry["shape"]).to(device)
    return tensors, metadata


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_safetensors(device, granularity, tmp_path):
    state = {"layer.weight": codes(device, granularity), "other": codes(device, granularity, False, "e5m2"), "bias": torch.randn(4, device=device)}
    try:
        import safetensors.torch as files
    except ImportError:
        files = None
    path = tmp_path / "model.safetensors"
    tensors, metadata = rt.to_plain_tensors(state)
    assert list(tensors)[:2] == ["layer.weight.q", "layer.weight.scale"] and all(type(text) is str for text in metadata.values())
    write_safetensors(path, tensors, metadata)
    found, told = read_safetensors(path, device)
    loaded = rt.from_plain_tensors(found, told)
    if files is not None:
        files.save_file(tensors, path, metadata)
        with files.safe_open(path, "pt") as file:
            loaded = rt.from_plain_tensors({name: file.get_tensor(name) for name in file.keys()}, file.metadata())
    assert loaded.keys() == state.keys() and torch.equal(loaded["bias"].cpu(), state["bias"].cpu())
    assert same(state["layer.weight"], loaded["layer.weight"]) and same(state["other"], loaded["other"])
    with pytest.raises(ValueError, match="no codes of 'other'"):
        rt.from_plain_tensors({}, {"ridgeline.quantized.other": "row float32"})


def test_a_weight_that_will_be_gathered_in_8_bits_is_a_plain_one_elsewhere(device, tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.Linear(48, 16)).to(device)
    rt.swap_linears(model, QuantConfig())
    plain, x = copy.deepcopy(model), torch.randn(8, 32, device=device)
    assert rt.gather_in_fp8(model) == ["0", "1"]
    torch.save(model.state_dict(), tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt", weights_only=True)
    assert all(type(value) is torch.Tensor and torch.equal(value, plain.state_dict()[name]) for name, value in loaded.items())
    for one in (plain, model):
        optimizer = torch.optim.AdamW(one.parameters(), lr=1e-2, foreach=False)  # it rounds otherwise, for plain tensors alone
        one(x).square().sum().backward()
        optimizer.step()
    assert torch.equal(plain(x), model(x))
    model.load_state_dict(loaded)
    plain.load_state_dict(loaded)
    assert torch.equal(plain(x), model(x)) and torch.equal(copy.deepcopy(model)(x), model(x))

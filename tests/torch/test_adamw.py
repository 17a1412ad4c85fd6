"""AdamW against torch.optim.AdamW, in float64 and as it is."""

import copy
import io
import os
import pickle

import pytest
import torch

import ridgeline.testing as testing
import ridgeline.torch as rt

DEVICE = torch.device(os.environ.get("RIDGE_TORCH_DEVICE", "cpu"))
SETTINGS = {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}


def parameters(dtype=torch.float32):
    torch.manual_seed(7)
    shapes = [(300, 70), (1,), (1029,), (0, 4), (5, 3, 2)]
    return [torch.nn.Parameter(torch.randn(shape).to(DEVICE, dtype)) for shape in shapes]


def train(optimizer, params, steps=20, scale=1.0, seed=3):
    random = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        for param in params:
            param.grad = (scale * torch.randn(param.shape, generator=random)).to(DEVICE, param.dtype)
        optimizer.step()
    return params


def exact(params, steps=20, **settings):
    """The same in float64, from the gradients as they are stored."""
    dtype = params[0].dtype
    wide = [torch.nn.Parameter(param.detach().double()) for param in params]
    optimizer = torch.optim.AdamW(wide, **{**SETTINGS, **settings})
    random = torch.Generator().manual_seed(3)
    for _ in range(steps):
        for param in wide:
            param.grad = torch.randn(param.shape, generator=random).to(DEVICE, dtype).double()
        optimizer.step()
    return wide


@pytest.mark.parametrize("settings", [{}, {"maximize": True}, {"weight_decay": 0.0}, {"lr": torch.tensor(0.01)}], ids=str)
def test_follows_float64(settings):
    wide = exact(parameters(), **settings)
    for found, expected in zip(train(rt.AdamW((p := parameters()), **{**SETTINGS, **settings}), p), wide, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_master_follows_float64_where_sixteen_bits_do_not(dtype):
    small = {"lr": 1e-5, "weight_decay": 0.0}
    begun = parameters(dtype)
    kept = rt.AdamW((with_master := parameters(dtype)), **{**SETTINGS, **small}, master_weights=True)
    train(kept, with_master, 40)
    train(rt.AdamW((without := parameters(dtype)), **{**SETTINGS, **small}), without, 40)
    moved = exact(parameters(dtype), steps=40, **small)[0] - begun[0].double()
    master = kept.state[with_master[0]]["master"]
    assert master.dtype == torch.float32
    testing.assert_snr(moved.detach(), (master.double() - begun[0].double()).detach(), 45)
    assert torch.equal(master.to(dtype), with_master[0])
    assert torch.equal(without[0], begun[0]) or testing.snr_db(moved.detach(), (without[0] - begun[0]).double().detach()) < 20


def test_averages_in_bfloat16_train_as_well():
    wide = exact(parameters())
    optimizer = rt.AdamW((found := parameters()), **SETTINGS, state_dtype=torch.bfloat16)
    train(optimizer, found)
    assert optimizer.state[found[0]]["exp_avg"].dtype == torch.bfloat16
    start = parameters()[0].double()
    testing.assert_snr((wide[0] - start).detach(), (found[0].double() - start).detach(), 30)


def test_averages_in_bfloat16_fall_again_or_are_refused():
    random = torch.Generator().manual_seed(2)
    param = torch.nn.Parameter(torch.zeros(4096, device=DEVICE))
    optimizer = rt.AdamW([param], betas=(0.9, 1 - 2**-8), state_dtype=torch.bfloat16)
    param.grad = (torch.rand(param.shape, generator=random) + 0.5).to(DEVICE)
    optimizer.step()
    first = optimizer.state[param]["exp_avg_sq"].clone()
    param.grad = torch.zeros_like(param)
    optimizer.step()
    assert (optimizer.state[param]["exp_avg_sq"] < first).all()
    for betas in ((0.9, 0.999), (0.997, 0.95)):
        with pytest.raises(ValueError, match="less than 1/256 off an average is lost in bfloat16; give betas up to 0.99609375, or state_dtype=torch.float32"):
            rt.AdamW([param], betas=betas, state_dtype=torch.bfloat16)
    theirs = torch.optim.AdamW([torch.nn.Parameter(param.detach().clone())])
    with pytest.raises(ValueError, match="betas up to"):  # theirs are 0.999
        optimizer.load_state_dict(theirs.state_dict())


def test_groups_have_numbers_of_their_own_and_parameters_join_later():
    ours, theirs = parameters(), parameters()

    def begin(kind, params):
        return kind([{"params": params[:2], "lr": 0.1}, {"params": params[2:3], "weight_decay": 0.5}], **SETTINGS)

    def run(kind, params):
        optimizer = begin(kind, params)
        train(optimizer, params[:3], 3)
        optimizer.add_param_group({"params": params[3:], "betas": (0.5, 0.5)})
        train(optimizer, params, 3)
        params[0].grad = None
        optimizer.step()

    run(rt.AdamW, ours)
    run(torch.optim.AdamW, theirs)
    for found, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_counts_are_shared_and_part_where_a_parameter_is_left_out():
    ours, theirs = parameters(), parameters()
    optimizer, reference = rt.AdamW(ours, **SETTINGS), torch.optim.AdamW(theirs, **SETTINGS)
    left_out = [(), (1, 2), (0,), (), (0, 1, 2, 3, 4), (4,)]
    random = torch.Generator().manual_seed(3)
    for step, without in enumerate(left_out):
        for i, (own, other) in enumerate(zip(ours, theirs, strict=True)):
            gradient = torch.randn(own.shape, generator=random).to(DEVICE)
            own.grad, other.grad = (None, None) if i in without else (gradient, gradient)
        optimizer.step()
        reference.step()
        if step == 0:
            assert len({id(optimizer.state[param]["step"]) for param in ours}) == 1
        if step == 3:  # as after a checkpoint: a tensor for each
            optimizer.load_state_dict(optimizer.state_dict())
            assert len({id(optimizer.state[param]["step"]) for param in ours}) == len(ours)
    assert [float(optimizer.state[param]["step"]) for param in ours] == [4, 4, 4, 5, 4]
    for own, other in zip(ours, theirs, strict=True):
        assert float(optimizer.state[own]["step"]) == float(reference.state[other]["step"])
        torch.testing.assert_close(own, other, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("start", [torch.randn(40, 30).t(), torch.randn(6, 4, 5, 7).contiguous(memory_format=torch.channels_last)], ids=["transposed", "channels_last"])
def test_a_parameter_of_another_layout_and_a_gradient_of_yet_another(start):
    param = torch.nn.Parameter(start.to(DEVICE, copy=True, memory_format=torch.preserve_format))
    twin = torch.nn.Parameter(param.detach().contiguous())
    gradient = torch.randn(param.shape, device=DEVICE)
    for kind, one in ((rt.AdamW, param), (torch.optim.AdamW, twin)):
        one.grad = gradient.clone()
        kind([one], **SETTINGS).step()
    assert not param.is_contiguous()
    torch.testing.assert_close(param, twin, rtol=1e-6, atol=1e-6)


def test_clips_to_the_global_norm_in_the_same_pass():
    ours, theirs = parameters(), parameters()
    optimizer, other = rt.AdamW(ours, **SETTINGS, max_norm=0.5), torch.optim.AdamW(theirs, **SETTINGS)
    for step in range(5):
        random = torch.Generator().manual_seed(step)
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn(a.shape, generator=random).to(DEVICE)
            b.grad = a.grad.clone()
        norm = torch.nn.utils.clip_grad_norm_(theirs, 0.5)
        before = ours[0].grad.clone()
        optimizer.step()
        other.step()
        torch.testing.assert_close(optimizer.last_norm, norm)
        assert torch.equal(ours[0].grad, before)
    for found, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_the_norm_is_added_up_in_float64_whatever_the_gradients_are():
    for dtype, value in ((torch.float16, 6e4), (torch.bfloat16, 3.0)):
        param = torch.nn.Parameter(torch.ones(300, 1000, dtype=dtype, device=DEVICE))
        param.grad = torch.full_like(param, value)
        optimizer = rt.AdamW([param], lr=0.5, weight_decay=0.0, max_norm=1.0)
        optimizer.step()
        exact = param.grad.double().norm().float()  # of float16 above its largest number
        assert optimizer.last_norm.dtype == torch.float32 and abs(optimizer.last_norm / exact - 1) < 1e-6
        assert torch.equal(param, torch.full_like(param, 0.5))
    param = torch.nn.Parameter(torch.zeros(1 << 25, device=DEVICE))
    param.grad = torch.full_like(param, 1.0 + 2**-11)  # a float32 sum of as many squares has no room for their digits
    optimizer = rt.AdamW([param], max_norm=1.0)
    optimizer.step()
    assert abs(optimizer.last_norm.item() / (2**12.5 * (1 + 2**-11)) - 1) < 1e-6


def test_a_grad_scaler_leaves_unscaling_to_the_step_and_skips_infinite_ones():
    ours, theirs = parameters(), parameters()
    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=1024.0)
    optimizer, other = rt.AdamW(ours, **SETTINGS, max_norm=2.0), torch.optim.AdamW(theirs, **SETTINGS)
    for step in range(4):
        random = torch.Generator().manual_seed(step)
        for a, b in zip(ours, theirs, strict=True):
            b.grad = torch.randn(a.shape, generator=random).to(DEVICE)
            a.grad = b.grad * scaler.get_scale()
        scaler.scale(torch.zeros((), device=DEVICE))  # as a loss would be, which makes the scale
        if step == 2:
            ours[0].grad[3, 3] = float("inf")
            before = [p.detach().clone() for p in ours]
        scaler.step(optimizer)
        scaler.update()
        if step == 2:
            assert all(torch.equal(a, b) for a, b in zip(ours, before, strict=True)) and scaler.get_scale() == 512
            continue
        torch.nn.utils.clip_grad_norm_(theirs, 2.0)
        other.step()
    for found, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_the_state_comes_back_as_it_was():
    optimizer = rt.AdamW((whole := parameters(torch.bfloat16)), **SETTINGS, master_weights=True)
    train(optimizer, whole, 3)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    again = [torch.nn.Parameter(p.detach().clone()) for p in whole]
    resumed = rt.AdamW(again, **SETTINGS, master_weights=True)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    assert resumed.state[again[0]]["master"].dtype == torch.float32 and resumed.state[again[0]]["exp_avg"].dtype == torch.float32
    train(optimizer, whole, 3, seed=9)
    train(resumed, again, 3, seed=9)
    for found, expected in zip(again, whole, strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("fused", [False, True])  # fused, it counts steps on the device
def test_takes_over_from_torchs_optimizer(fused):
    theirs = parameters()
    train((other := torch.optim.AdamW(theirs, **SETTINGS, fused=fused)), theirs, 3)
    ours = [torch.nn.Parameter(p.detach().clone()) for p in theirs]
    optimizer = rt.AdamW(ours, lr=1.0)
    optimizer.load_state_dict(copy.deepcopy(other.state_dict()))
    train(optimizer, ours, 3, seed=9)
    train(other, theirs, 3, seed=9)
    for found, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_counts_in_a_state_dict_are_of_one_parameter_each():
    """So that torch's optimizers, which count every tensor of it, and checkpoints that are read into it in place keep them apart."""
    first = rt.AdamW((ours := parameters()), **SETTINGS)
    train(first, ours, 3)
    assert len({id(first.state[param]["step"]) for param in ours}) == 1
    other = torch.optim.AdamW((theirs := [torch.nn.Parameter(p.detach().clone()) for p in ours]), **SETTINGS)
    other.load_state_dict(copy.deepcopy(first.state_dict()))
    train(first, ours, 3, seed=9)
    train(other, theirs, 3, seed=9)
    for found, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert len({id(first.state[param]["step"]) for param in ours}) == 1
    held = first.state_dict()
    for at, state in held["state"].items():
        state["step"].copy_(torch.tensor(10.0 + at))
    first.load_state_dict(held)
    assert [float(first.state[param]["step"]) for param in ours] == [10.0, 11.0, 12.0, 13.0, 14.0]


def test_takes_over_counts_that_are_no_tensors_and_another_order_of_memory():
    """The first are those of old versions of torch."""
    weight = torch.randn(6, 4, 3, 3, device=DEVICE)
    train((other := torch.optim.AdamW((theirs := [torch.nn.Parameter(weight)]), **SETTINGS)), theirs, 3)
    held = copy.deepcopy(other.state_dict())
    held["state"][0]["step"] = int(held["state"][0]["step"])
    ours = [torch.nn.Parameter(weight.detach().clone(memory_format=torch.channels_last))]
    optimizer = rt.AdamW(ours, **SETTINGS)
    optimizer.load_state_dict(held)
    train(optimizer, ours, 3, seed=9)
    train(other, theirs, 3, seed=9)
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))], ids=["deepcopy", "pickle"])
def test_a_copy_steps_as_the_original(copied):
    params = parameters(torch.bfloat16)
    optimizer = rt.AdamW(params, **SETTINGS, master_weights=True, max_norm=0.5)
    train(optimizer, params, 3)
    others, other = copied((params, optimizer))
    assert torch.equal(other.last_norm, optimizer.last_norm) and other._step_supports_amp_scaling
    train(optimizer, params, 3, seed=9)
    train(other, others, 3, seed=9)
    for found, expected in zip(others, params, strict=True):
        assert torch.equal(found, expected)


def test_compiled_code_calls_the_step_as_it_is():
    ours, theirs = parameters(), parameters()
    optimizer, other = rt.AdamW(ours, **SETTINGS, max_norm=1.0), rt.AdamW(theirs, **SETTINGS, max_norm=1.0)

    @torch.compile(backend="eager")
    def scaled_step():
        for param in ours:
            param.grad = param.grad * 2
        optimizer.step()

    for step in range(3):
        for a, b in zip(ours, theirs, strict=True):
            a.grad, b.grad = torch.full_like(a, step + 1), torch.full_like(b, 2 * step + 2)
        scaled_step()
        other.step()
    assert float(optimizer.state[ours[0]]["step"]) == 3 and torch.equal(optimizer.last_norm, other.last_norm)
    for found, expected in zip(ours, theirs, strict=True):
        assert torch.equal(found, expected)


@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate parameters")
def test_a_parameter_that_a_group_has_twice_is_stepped_once():
    once, twice = parameters(), parameters()
    train(rt.AdamW(once, **SETTINGS, max_norm=1.0), once, 3)
    train(rt.AdamW([*twice, twice[0]], **SETTINGS, max_norm=1.0), twice, 3)
    for found, expected in zip(twice, once, strict=True):
        assert torch.equal(found, expected)


CODED = [rt.QuantConfig("e4m3", granularity) for granularity in ("tensorwise", "rowwise", "blockwise", "mx")] + [rt.QuantConfig("e5m2", "rowwise", torch.float8_e8m0fnu)]


def weights(dtype):
    torch.manual_seed(2)
    shapes = [(150, 264), (3,), (33, 70), (8, 8)]
    return [torch.nn.Parameter(torch.randn(shape).to(DEVICE, dtype)) for shape in shapes]


@pytest.mark.parametrize("config", CODED, ids=str)
@pytest.mark.parametrize(("dtype", "more"), [(torch.float32, {"max_norm": 0.5}), (torch.float32, {"state_dtype": torch.bfloat16}), (torch.bfloat16, {"master_weights": True}), (torch.float16, {"maximize": True})], ids=str)
def test_attached_codes_are_those_of_the_stored_weight(dtype, more, config):
    ours, theirs = weights(dtype), weights(dtype)
    optimizer, plain = rt.AdamW(ours, **SETTINGS, **more), rt.AdamW(theirs, **SETTINGS, **more)
    coded = {0: True, 2: False}
    codes = {i: rt.quantize(ours[i].detach(), config, weight=True, transpose=transpose) for i, transpose in coded.items()}
    parts = {i: each._parts() for i, each in codes.items()}
    for i, each in codes.items():
        optimizer.attach_codes(ours[i], each, config)
        assert not optimizer.codes_are_new(ours[i])
    versions = [codes[0]._version, codes[0].q._version]
    train(optimizer, ours, 3)
    train(plain, theirs, 3)
    assert all(new > old for new, old in zip([codes[0]._version, codes[0].q._version], versions))
    for found, expected in zip(ours, theirs, strict=True):
        if DEVICE.type == "cpu":
            assert torch.equal(found, expected)
        torch.testing.assert_close(found, expected, rtol=1e-2 if dtype != torch.float32 else 1e-5, atol=1e-5)
    for i, transpose in coded.items():
        stored = optimizer.state[ours[i]].get("master", ours[i].detach())
        expected = rt.quantize(stored, config, weight=True, transpose=transpose)
        assert optimizer.codes_are_new(ours[i])
        for found, right, kept in zip(codes[i]._parts(), expected._parts(), parts[i], strict=True):
            assert found is kept and (right is None) == (found is None)
            assert found is None or torch.equal(found.view(torch.uint8), right.view(torch.uint8))
    with torch.no_grad():
        ours[0].mul_(2)
    assert not optimizer.codes_are_new(ours[0])


def test_codes_stay_where_a_step_leaves_their_weight_out():
    config = CODED[2]
    params = weights(torch.float32)
    optimizer = rt.AdamW(params, **SETTINGS)
    codes = rt.quantize(params[0].detach(), config, weight=True)
    optimizer.attach_codes(params[0], codes, config)
    train(optimizer, params, 1)
    before = codes.q.clone()
    params[0].grad = None
    params[2].grad = torch.ones_like(params[2])
    optimizer.step()
    assert torch.equal(codes.q.view(torch.uint8), before.view(torch.uint8)) and optimizer.codes_are_new(params[0])
    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=2.0)
    scaler.scale(params[0].square().sum() * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(codes.q.view(torch.uint8), before.view(torch.uint8)) and optimizer.codes_are_new(params[0])
    other = copy.deepcopy(optimizer)
    assert not other.codes_are_new(other.param_groups[0]["params"][0])  # its codes are not copied, and stay the model's
    train(other, other.param_groups[0]["params"], 1)
    assert torch.equal(codes.q.view(torch.uint8), before.view(torch.uint8))


def test_says_which_codes_cannot_be_attached():
    config = CODED[2]
    params = weights(torch.float32)
    optimizer = rt.AdamW(params[:3])
    codes = rt.quantize(params[0].detach(), config, weight=True)
    for words, param, given, how in [
        ("that this optimizer does not step", params[3], codes, config),
        (r"of shape \(3,\) and strides", params[1], codes, config),
        (r"codes of shape \(150, 264\) on .* for a parameter of shape \(33, 70\)", params[2], codes, config),
        ("is not what the config .* makes of a weight", params[0], codes, CODED[0]),
        ("is not what the config .* makes of a weight", params[0], rt.quantize(params[0].detach(), config), config),
    ]:
        with pytest.raises(ValueError, match=words):
            optimizer.attach_codes(param, given, how)


def test_moves_the_version_so_that_kept_codes_are_made_anew():
    param = torch.nn.Parameter(torch.randn(8, device=DEVICE))
    param.grad = torch.randn(8, device=DEVICE)
    version = param._version
    rt.AdamW([param]).step()
    assert param._version > version


@pytest.mark.usefixtures("on_cpu")
def test_sharded_parameters_are_stepped_where_they_lie(tmp_path):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
        whole, gradient = torch.randn(8, 6), torch.randn(8, 6)
        one = torch.nn.Parameter(whole.clone())
        one.grad = gradient.clone()
        sharded = torch.nn.Parameter(distribute_tensor(whole, mesh, [Shard(0)]))
        sharded.grad = distribute_tensor(gradient, mesh, [Shard(0)])
        for param in (one, sharded):
            rt.AdamW([param], **SETTINGS, max_norm=0.1).step()
        assert torch.equal(sharded.redistribute(placements=[Replicate()]).to_local(), one)
        sharded.grad = None
        sharded.grad = gradient
        with pytest.raises(RuntimeError, match=r"shape \(8, 6\) and its gradient are not DTensors of one mesh"):
            rt.AdamW([sharded]).step()
    finally:
        torch.distributed.destroy_process_group()


def test_the_operator_passes_torchs_own_checks():
    def lists(dtype):
        return [torch.randn(9, 5).to(DEVICE, dtype), torch.randn(3).to(DEVICE, dtype)]

    arguments = (lists(torch.bfloat16), lists(torch.float32), lists(torch.float32), [t.abs() for t in lists(torch.float32)], lists(torch.float32))
    torch.library.opcheck(torch.ops.ridgeline.adamw_.default, (*arguments, torch.tensor([0.5], device=DEVICE), None, 0.1, 0.9, 0.99, 1e-8, 0.01, 3.0))

    @torch.compile(fullgraph=True, backend="aot_eager")
    def step(p, g, m, v):
        torch.ops.ridgeline.adamw_([p], [g], [m], [v], [], None, None, 0.1, 0.9, 0.99, 1e-8, 0.01, 3.0)
        return p * 2

    tensors = [make(9, 5, device=DEVICE) for make in (torch.randn, torch.randn, torch.randn, torch.rand)]
    same = [t.clone() for t in tensors]
    doubled = step(*tensors)
    torch.ops.ridgeline.adamw_([same[0]], [same[1]], [same[2]], [same[3]], [], None, None, 0.1, 0.9, 0.99, 1e-8, 0.01, 3.0)
    assert torch.equal(doubled, same[0] * 2) and torch.equal(tensors[3], same[3])


def coded_call(**changed):
    """Arguments of adamw_quantize_ for a weight [9, 5]."""
    given = {name: torch.rand(9, 5, device=DEVICE) for name in ("param", "grad", "exp_avg", "exp_avg_sq")}
    q, scale, q_t, scale_t = rt.quantize(given["param"], CODED[2], weight=True, transpose=True)._parts()
    given |= {"master": None, "q": q, "scale": scale, "q_t": q_t, "scale_t": scale_t, "factor": torch.tensor([0.5], device=DEVICE), "skip": None}
    numbers = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.01, "step": 3.0, "maximize": False}
    return {**given, **numbers, "granularity": "128x128", **changed}


def test_the_operator_that_codes_passes_torchs_own_checks():
    call = torch.ops.ridgeline.adamw_quantize_
    # torch's test of schemas multiplies 8-bit floats, which it cannot.
    torch.library.opcheck(call.default, (), coded_call(), test_utils=("test_autograd_registration", "test_faketensor"))
    traced, eager = coded_call(), coded_call()
    for name, tensor in eager.items():
        if isinstance(tensor, torch.Tensor):
            tensor.view(-1).view(torch.uint8).copy_(traced[name].view(-1).view(torch.uint8))

    @torch.compile(fullgraph=True, backend="aot_eager")
    def step(**given):
        call(**given)
        return given["param"] * 2

    doubled = step(**traced)
    call(**eager)
    assert torch.equal(doubled, eager["param"] * 2)
    for name in ("exp_avg_sq", "q", "scale_t"):
        assert torch.equal(traced[name].view(torch.uint8), eager[name].view(torch.uint8)), name
    given = coded_call(skip=torch.ones(1, device=DEVICE))
    before = given["param"].clone()
    given["q"].view(torch.uint8).zero_()
    call(**given)
    assert torch.equal(given["param"], before)  # and the codes are right all the same
    right = rt.quantize(before, CODED[2], weight=True)
    assert torch.equal(given["q"].view(torch.uint8), right.q.view(torch.uint8))


def test_says_what_is_wrong_with_a_weight_and_its_codes():
    call = torch.ops.ridgeline.adamw_quantize_
    short = torch.rand(9, 4, device=DEVICE)
    for error, words, changed in [
        (ValueError, "the parameter has 1 dimensions", {"param": torch.rand(9, device=DEVICE)}),
        (ValueError, "the gradient", {"grad": short}),
        (TypeError, "exp_avg is torch.float16", {"exp_avg": torch.rand(9, 5, device=DEVICE).half()}),
        (ValueError, "q has no scales", {"scale": None}),
        (ValueError, "the scales of q_t", {"scale_t": torch.ones(2, 2, device=DEVICE)}),
        (ValueError, "neither row nor column", {"q": None, "scale": None, "q_t": None, "scale_t": None}),
        (ValueError, 'granularity "block" is unknown', {"granularity": "block"}),
        (ValueError, "factor is torch.float32 of shape", {"factor": short}),
        (ValueError, "lr is -1", {"lr": -1.0}),
    ]:
        with pytest.raises(error, match=words):
            call(**coded_call(**changed))


@pytest.mark.parametrize(
    ("error", "words", "make"),
    [
        (NotImplementedError, "amsgrad=True is not there", lambda: rt.AdamW(parameters(), amsgrad=True)),
        (ValueError, r"betas\[1\] is 1.0; give a number from 0 to below 1", lambda: rt.AdamW(parameters(), betas=(0.9, 1.0))),
        (ValueError, "lr is -1", lambda: rt.AdamW(parameters(), lr=-1)),
        (ValueError, "max_norm is 0", lambda: rt.AdamW(parameters(), max_norm=0)),
        (TypeError, "state_dtype is torch.float16", lambda: rt.AdamW(parameters(), state_dtype=torch.float16)),
        (TypeError, r"a parameter of shape \(2,\) is torch.float64", lambda: rt.AdamW([torch.nn.Parameter(torch.ones(2).double())])),
    ],
)
def test_says_what_is_wrong(error, words, make):
    with pytest.raises(error, match=words):
        make()


def test_says_what_is_wrong_with_the_lists():
    call = torch.ops.ridgeline.adamw_
    p, numbers = torch.ones(4), (0.1, 0.9, 0.99, 1e-8, 0.01, 1.0)
    for words, lists in {
        "grads holds 0 tensors for 1 parameters": ([p], [], [p], [p], []),
        "gradient 0": ([p], [torch.ones(5)], [p], [p], []),
        "has strides": ([torch.ones(2, 3)], [torch.ones(3, 2).t()], [torch.ones(2, 3)], [torch.ones(2, 3)], []),
        "exp_avg overlaps exp_avg_sq": ([torch.ones(4)], [torch.ones(4)], [p], [p], []),
    }.items():
        with pytest.raises(ValueError, match=words):
            call(*lists, None, None, *numbers)
    with pytest.raises(RuntimeError, match="sparse"):
        param = torch.nn.Parameter(torch.ones(4, 2))
        param.grad = torch.sparse_coo_tensor([[1]], [[1.0, 1.0]], (4, 2))
        rt.AdamW([param]).step()

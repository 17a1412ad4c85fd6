"""Makes a package by AOTInductor, loads it, runs it and compares: package_worker.py DEVICE CASE FOLDER [import].

    torch     layers of PyTorch alone; with `import` ridgeline.torch is imported and no operator of it is used
    gemm      the same with our Linear: one operator of ours, whose operands are tensors and settings
    fp8       the same with Fp8Linear

Each step is printed when it is done, so that what a process says before it dies is the step that it died behind. The first case needs
nothing of this project: as `python package_worker.py cuda torch FOLDER` it is a reproduction by itself.
"""

import faulthandler
import pathlib
import sys

import torch


def layer_of(case):
    if case == "torch":
        return torch.nn.Linear
    import ridgeline.torch as rt

    return rt.Linear if case == "gemm" else rt.Fp8Linear


def main():
    faulthandler.enable()
    device, case, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    if "import" in sys.argv[4:]:
        import ridgeline.torch  # noqa: F401
    torch.manual_seed(1)
    layer = layer_of(case)
    model = torch.nn.Sequential(layer(64, 96), torch.nn.SiLU(), layer(96, 64)).to(device).eval()
    x = torch.randn(32, 64, device=device)
    with torch.no_grad():
        expected = model(x)
        program = torch.export.export(model, (x,))
        print("exported", flush=True)
        package = torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "model.pt2"))
        print("packaged", flush=True)
        loaded = torch._inductor.aoti_load_package(package)
        print("loaded", flush=True)
        found = loaded(x)
    if device == "cuda":
        torch.cuda.synchronize()
    print("ran", flush=True)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    print("equal", flush=True)


main()

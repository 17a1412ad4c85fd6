#!/usr/bin/env python3
"""Lets the torch of PyPI run on a machine without NVIDIA's libraries.

PyPI's torch for Linux is a CUDA build. It will not even be imported without a dozen NVIDIA libraries, large downloads that
no CPU program ever calls. This writes libraries of those names into torch's own folder: every function that torch refers to
is there and stops the program when it is called, which nothing does while no GPU is present. (The CUDA runtime and CUPTI
are called and must be the real ones: nvidia-cuda-runtime and nvidia-cuda-cupti, 13 MB.)

  tools/torch_without_cuda.py TORCH_FOLDER     exit 0: written; 1: a tool is missing or torch's libraries are not there
"""
import pathlib
import re
import subprocess
import sys
import tempfile

# The functions of each library, by how their names begin.
FAMILIES = {
    "libcublas.so": r"cublas(?!Lt)",
    "libcublasLt.so": r"cublasLt",
    "libcudnn.so": r"cudnn",
    "libcufft.so": r"cufft",
    "libcufile.so": r"cuFile",
    "libcurand.so": r"curand",
    "libcusolver.so": r"cusolver",
    "libcusparse.so": r"cusparse(?!Lt)",
    "libcusparseLt.so": r"cusparseLt",
    "libnccl.so": r"p?nccl",
    "libnvshmem_host.so": r"nvshmem",
}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed(libraries):
    """File names such as libcublas.so.13 that torch's libraries ask the loader for."""
    found = set()
    for library in libraries:
        found |= set(re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", str(library))))
    return sorted(name for name in found if re.sub(r"(\.so)\..*", r"\1", name) in FAMILIES)


def write(folder, name, functions):
    version = "NVSHMEM" if name.startswith("libnvshmem") else name
    with tempfile.TemporaryDirectory() as work:
        source, versions = pathlib.Path(work, "stub.c"), pathlib.Path(work, "versions")
        source.write_text("".join(f"void {function}(void) {{ __builtin_trap(); }}\n" for function in functions))
        versions.write_text(f"{version} {{ global: *; }};\n")
        subprocess.run(["gcc", "-w", "-shared", "-fPIC", "-nostdlib", str(source), f"-Wl,-soname,{name}",
                        f"-Wl,--version-script,{versions}", "-o", str(folder / name)], check=True)


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 0 if len(sys.argv) == 2 else 1
    folder = pathlib.Path(sys.argv[1], "lib")
    libraries = sorted(folder.glob("libtorch*.so"))
    if not libraries:
        print(f"torch_without_cuda: no libtorch*.so in {folder}; install torch first", file=sys.stderr)
        return 1
    undefined = {line.split()[-1].split("@")[0] for library in libraries
                 for line in output("nm", "-D", "--undefined-only", str(library)).splitlines()}
    for name in needed(libraries):
        family = re.compile(FAMILIES[re.sub(r"(\.so)\..*", r"\1", name)])
        write(folder, name, sorted(symbol for symbol in undefined if family.match(symbol)))
    return 0


sys.exit(main())

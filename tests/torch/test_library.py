"""The shared library of ridgeline.torch in a process with others, and what an import says where there is none that fits."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import torch

import ridgeline
import ridgeline.torch  # noqa: F401

MINOR = ".".join(torch.__version__.split(".")[:2])
PACKAGE = pathlib.Path(ridgeline.__file__).parent
FOLDER = pathlib.Path(os.environ.get("RIDGELINE_LIBRARY_DIR") or PACKAGE / "torch")
LIBRARY = FOLDER / f"libridgeline_torch-{MINOR}.so"
# Beside PyTorch what every Linux has; muparser, which is no archive in Debian, travels in the wheel under a name of its own.
NEEDED = r"libtorch_cpu\.so|libc10\.so|libmuparser.*|libstdc\+\+\.so\.6|libm\.so\.6|libgcc_s\.so\.1|libc\.so\.6|ld-linux-x86-64\.so\.2"


def output(tool: str, *arguments: str) -> str:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed (binutils)")
    return subprocess.run([tool, *arguments], check=True, capture_output=True, text=True).stdout


def test_the_library_exports_nothing() -> None:
    assert output("nm", "-D", "--defined-only", str(LIBRARY)) == ""


def test_the_library_needs_pytorch_and_the_system_alone() -> None:
    needed = re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", str(LIBRARY)))
    assert "libtorch_cpu.so" in needed
    assert [name for name in needed if not re.fullmatch(NEEDED, name)] == []


def asked_for(pattern: str) -> list[str]:
    """Symbols that the library asks the process for."""
    asked = [line.split()[-1] for line in output("nm", "-D", "--undefined-only", str(LIBRARY)).splitlines()]
    assert any(name.startswith("_ZN3c10") for name in asked)
    return [name for name in asked if re.match(pattern, name)]


def test_the_library_asks_the_process_for_no_fmt_toml_or_libcrypto() -> None:
    assert asked_for(r"_ZNK?3fmt|_ZNK?4toml|EVP_|SHA|OPENSSL_|CRYPTO_|HMAC|PEM_|BIO_") == []


def test_the_library_has_files_and_paths_of_the_standard_library() -> None:
    """And not of the copy within PyTorch's libraries, whose symbols have no version."""
    assert asked_for(r"_ZNK?St10filesystem\S*@GLIBCXX_") != []
    assert asked_for(r"_ZNK?St10filesystem[^@]*$") == []


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment})


REFUSED = "import torch, ridgeline.torch as rt\ntry:\n  rt.gemm(torch.ones(2, 3), torch.ones(4, 5))\nexcept ValueError as error:\n  print(error)"


def test_another_fmt_in_the_process_is_not_called(tmp_path: pathlib.Path) -> None:
    """One of the version that ours is compiled from, whose functions all stop the program."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    found = [path for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib") for path in pathlib.Path(folder).glob("libfmt.so")]
    if not found:
        pytest.skip("there is no libfmt.so whose functions could be shadowed")
    names = [line.split()[-1] for line in output("nm", "-D", "--defined-only", str(found[0])).splitlines() if " T " in line]
    assert any("vformat" in name for name in names)
    source = tmp_path / "fmt.c"
    source.write_text("".join(f"void {name}(void) {{ __builtin_trap(); }}\n" for name in names if name.startswith("_ZN3fmt")))
    subprocess.run(["gcc", "-w", "-shared", "-fPIC", "-nostdlib", str(source), "-o", str(tmp_path / "libother.so")], check=True)
    done = run(REFUSED, LD_PRELOAD=str(tmp_path / "libother.so"))
    assert done.returncode == 0, done
    assert "op(a) has 3 columns but op(b) has 4 rows" in done.stdout  # formatted by ours


# --- imports that cannot work


def refusal(code: str, **environment: str) -> str:
    done = run(code, **environment)
    assert done.returncode == 1, done
    return done.stderr.splitlines()[-1]


def with_libraries(folder: pathlib.Path, *versions: str) -> str:
    for version in versions:
        (folder / f"libridgeline_torch-{version}.so").write_text("not a library")
    return str(folder)


def with_torch(folder: pathlib.Path, text: str) -> str:
    """PYTHONPATH with a package torch of this text before everything else."""
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(text)
    return os.pathsep.join([str(folder), str(PACKAGE.parent)])


WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; import ridgeline.torch"


def test_without_torch_the_import_says_which_one_to_install(tmp_path: pathlib.Path) -> None:
    said = refusal(WITHOUT_TORCH, RIDGELINE_LIBRARY_DIR=with_libraries(tmp_path, "2.9", "2.11"))
    assert said == (
        "ImportError: ridgeline.torch needs PyTorch, which is not installed here; this ridgeline is for torch 2.9, 2.11: "
        "pip install 'torch==2.11.*'"
    )


def test_without_torch_and_without_a_library_it_says_both(tmp_path: pathlib.Path) -> None:
    said = refusal(WITHOUT_TORCH, RIDGELINE_LIBRARY_DIR=str(tmp_path / "missing"))
    assert "needs PyTorch, which is not installed here, and there is no library for it" in said
    assert f"ridgeline-{ridgeline.__version__}+torchX.Y" in said and "pip install --force-reinstall --no-deps ." in said


def test_with_another_torch_it_says_which_there_are(tmp_path: pathlib.Path) -> None:
    path = with_torch(tmp_path, "__version__ = '2.99.1+cpu'")
    said = refusal("import ridgeline.torch", PYTHONPATH=path, RIDGELINE_LIBRARY_DIR=with_libraries(tmp_path, "2.11"))
    assert f"ridgeline in {tmp_path} is for torch 2.11, and this is torch 2.99.1+cpu: pip install 'torch==2.11.*'; or keep" in said
    assert f"ridgeline-{ridgeline.__version__}+torch2.99-" in said and "pip install --force-reinstall --no-deps ." in said


def test_with_torch_and_no_library_it_says_how_to_get_one(tmp_path: pathlib.Path) -> None:
    path = with_torch(tmp_path, "__version__ = '2.99.1'")
    said = refusal("import ridgeline.torch", PYTHONPATH=path, RIDGELINE_LIBRARY_DIR=str(tmp_path))
    assert f"no ridgeline library in {tmp_path}: this package was built without torch, and this is torch 2.99.1" in said
    assert "RIDGELINE_LIBRARY_DIR" in said and f"+torch2.99-" in said


def test_a_torch_that_fails_by_itself_is_not_called_missing(tmp_path: pathlib.Path) -> None:
    path = with_torch(tmp_path, "import a_module_that_torch_needs")
    assert refusal("import ridgeline.torch", PYTHONPATH=path) == "ModuleNotFoundError: No module named 'a_module_that_torch_needs'"


def test_a_library_that_cannot_be_loaded_is_refused_with_the_cause(tmp_path: pathlib.Path) -> None:
    said = refusal("import ridgeline.torch", RIDGELINE_LIBRARY_DIR=with_libraries(tmp_path, MINOR))
    assert f"libridgeline_torch-{MINOR}.so cannot be loaded: " in said
    assert "file too short" in said or "invalid ELF header" in said  # what the loader said
    assert f"It is for releases of torch {MINOR}, and this is torch {torch.__version__}" in said


def test_a_library_without_one_that_it_needs_is_refused_with_its_name(tmp_path: pathlib.Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    (tmp_path / "empty.c").write_text("")
    missing, library = tmp_path / "libmissing.so", tmp_path / f"libridgeline_torch-{MINOR}.so"
    compile_it = ["gcc", "-shared", "-fPIC", str(tmp_path / "empty.c")]
    subprocess.run([*compile_it, "-Wl,-soname,libmissing.so.7", "-o", str(missing)], check=True)
    subprocess.run([*compile_it, "-Wl,--no-as-needed", str(missing), "-o", str(library)], check=True)
    missing.unlink()
    assert "libmissing.so.7: cannot open shared object file" in refusal("import ridgeline.torch", RIDGELINE_LIBRARY_DIR=str(tmp_path))


def test_an_editable_installation_finds_what_was_built(tmp_path: pathlib.Path) -> None:
    """Its Python files lie in the clone, library and programs in another folder of the same packages."""
    if (PACKAGE / "bin").exists():
        pytest.skip("the package is installed with its programs")
    library, program = tmp_path / f"libridgeline_torch-{MINOR}.so", tmp_path / "bin" / "ridge"
    library.symlink_to(LIBRARY.resolve())
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho $1 $RIDGE_PYTHON\n")
    program.chmod(0o755)
    both = f"import ridgeline\nridgeline.__path__.append({str(tmp_path)!r})\n"
    started = run(both + "import sys, ridgeline.programs as programs\nsys.argv = ['ridge', 'doctor']\nprograms.main()")
    assert started.stdout.split() == ["doctor", sys.executable], started
    found = run(
        both + "import os, ridgeline.torch as rt\nfrom ridgeline.torch import _library\ndel os.environ['RIDGELINE_LIBRARY_DIR']\n"
        f"rt.__path__.append({str(tmp_path)!r})\nprint(_library._folder())",
        RIDGELINE_LIBRARY_DIR=str(FOLDER),
    )
    assert found.stdout.strip() == str(tmp_path), found

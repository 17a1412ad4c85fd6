"""``python -m ridgeline.bench``: what it prints and writes, that its check can fail, and that ``ridge handoff`` takes its table."""

import csv
import dataclasses
import io
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import torch

import ridgeline.torch as rt
from ridgeline.bench import reference, suite, table
from ridgeline.bench.__main__ import main, parser
from ridgeline.bench.measure import Found, Protocol, _last_level_caches, measure
from ridgeline.bench.operators import BENCHES, Case

SMALL = {"gemm": "8x16x24", "gemm_fp8": "16x32x48", "quantize": "16x160", "dequantize": "16x160", "rms_norm": "8x24", "layer_norm": "8x24", "softmax": "8x24", "activation": "8x24", "attention": "2x40x4x2x16", "attention_fp8": "2x40x4x2x16"}
FROZEN = (
    "label,B,M,N,K,Check,Forward TFLOPS,Forward TFLOPS_stddev,Backward TFLOPS,Backward TFLOPS_stddev,Forward Time (ms),Backward Time (ms),"
    "out_snr,da_snr,db_snr"
)
MEMORY = "label,Check,Forward GB/s,Forward GB/s_stddev,Forward Time (ms),out_snr"
ROWS_OF = (
    "label,Check,Forward GB/s,Forward GB/s_stddev,Backward GB/s,Backward GB/s_stddev,Forward Time (ms),Backward Time (ms),out_snr,dx_snr,{}_snr"
)
HEADERS = {
    "gemm": FROZEN,
    "gemm_fp8": FROZEN,
    "quantize": MEMORY,
    "dequantize": MEMORY,
    "rms_norm": ROWS_OF.format("dweight"),
    "layer_norm": ROWS_OF.format("dweight_snr,dbias"),
    "softmax": ROWS_OF.removesuffix(",{}_snr"),
    "activation": ROWS_OF.format("dup"),
    "attention": ROWS_OF.format("dk_snr,dv").replace("GB/s", "TFLOPS").replace("dx_snr", "dq_snr"),
    "attention_fp8": MEMORY.replace("GB/s", "TFLOPS"),
}


@pytest.fixture(autouse=True)
def as_it_began():
    yield
    rt.reset()


def run(capsys, *words, code=0):
    assert main(words) == code, capsys.readouterr()
    return capsys.readouterr()


def case_of(name, **changes):
    shape = tuple(map(int, SMALL[name].split("x")))
    quantises = BENCHES[name].quantises
    return Case(shape, **{"dtype_name": "bf16", "granularity": "tensorwise" if quantises else "", "format": "e4m3" if quantises else "", **changes})


@pytest.mark.parametrize("name", BENCHES)
def test_every_operator_is_timed_and_right(capsys, device, name):
    said = json.loads(run(capsys, name, "--device", str(device), "--shapes", SMALL[name], "--repeats", "2", "--json").out)
    (row,) = said["rows"]
    assert row["check"] == "PASS" and row["problem"] == ""
    for side in ("ours", "peer"):
        assert len(row[side]["forward_s"]) == 2 and min(row[side]["forward_s"]) > 0
        assert len(row[side]["backward_s"]) == (2 if BENCHES[name].leaves else 0)
    assert row["implementation"] in rt.backends(BENCHES[name].kernel)
    assert row["forward_ratio"] > 0 and said["environment"]["inputs"] == "fresh"
    assert all(one["share_of_allowed"] <= 1 for one in row["ours"]["outputs"].values())


@pytest.mark.parametrize("name,header", HEADERS.items())
def test_the_table_has_the_frozen_header(capsys, name, header):
    out = run(capsys, name, "--shapes", f"small={SMALL[name]}", "--repeats", "1", "--no-peer", "--csv", "-").out
    lines = out.split("\r\n")
    assert lines[0] == header and len(lines) == 3 and lines[2] == ""
    (row,) = csv.DictReader(io.StringIO(out))
    assert row["label"] == "small" and row["Check"] == "PASS" and float(row["out_snr"]) > 20
    if header == FROZEN:
        m, n, k = map(int, (row["M"], row["N"], row["K"]))
        assert float(row["Forward TFLOPS"]) * float(row["Forward Time (ms)"]) == pytest.approx(2e-9 * m * n * k)
        assert float(row["Backward TFLOPS"]) * float(row["Backward Time (ms)"]) == pytest.approx(4e-9 * m * n * k)
    if name == "activation":  # bf16: two matrices are read and one is written; three and two
        assert float(row["Forward GB/s"]) * float(row["Forward Time (ms)"]) == pytest.approx(1e-6 * 3 * 2 * 8 * 24)
        assert float(row["Backward GB/s"]) * float(row["Backward Time (ms)"]) == pytest.approx(1e-6 * 5 * 2 * 8 * 24)
    if name == "attention":  # 2 x 4 heads of 40 queries, which see 40 x 41 / 2 keys
        assert float(row["Forward TFLOPS"]) * float(row["Forward Time (ms)"]) == pytest.approx(1e-9 * 4 * 8 * 820 * 16)
        assert float(row["Backward TFLOPS"]) * float(row["Backward Time (ms)"]) == pytest.approx(1e-9 * 10 * 8 * 820 * 16)


def test_lists_give_a_row_each_and_labels_that_differ(capsys, tmp_path):
    run(capsys, "gemm_fp8", "--shapes", "8x16x24,t=4x4x4", "--dtype", "bf16,fp32", "--granularity", "rowwise,mx", "--format", "e5m2", "--repeats", "1",
        "--no-peer", "--full-csv", str(tmp_path / "full.csv"))  # fmt: skip
    rows = list(csv.DictReader(open(tmp_path / "full.csv")))
    assert len({row["Case"] for row in rows}) == 8 and rows[0]["Case"] == "8x16x24-bf16-rowwise"
    assert {row["Dtype"] for row in rows} == {"bf16", "f32"} and {row["Granularity"] for row in rows} == {"rowwise", "mx"}
    assert all(row["Check"] == "PASS" and row["Peer Forward Time (ms)"] == "nan" for row in rows)


@pytest.mark.parametrize("granularity", ["tensorwise", "rowwise", "blockwise", "mx"])
@pytest.mark.parametrize("format", ["e4m3", "e5m2", "hybrid"])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_products_of_codes_stay_within_what_rounding_explains(device, granularity, format, dtype):
    case = Case((40, 136, 160), dtype, granularity, format)
    result = measure(BENCHES["gemm_fp8"], case, Protocol(str(device), repeats=1, warmups=1, peer=False), "case")
    assert result.check == "PASS", result.wrong or result.ours.problem


WRONG = {
    "gemm": lambda case, a, b: torch.matmul(a, b.t()) * (1 + 2.0**-5),
    "gemm_fp8": lambda case, a, b: rt.gemm_fp8(a, b, trans_b=True, config=rt.QuantConfig("e5m2")),  # coarser than was asked
    "quantize": lambda case, x: rt.quantize(x * 1.5, case.config),
    "dequantize": lambda case, q, scale: BENCHES["dequantize"].ours(case, q, scale * 1.02),
    "rms_norm": lambda case, x, w: torch.nn.functional.rms_norm(x, (case.shape[1],), w, 1e-1),
    "layer_norm": lambda case, x, w, b: torch.nn.functional.layer_norm(x, (case.shape[1],), w, b, 1e-1),
    "softmax": lambda case, x: rt.softmax(x, scale=1.02),
    "activation": lambda case, x, up: torch.nn.functional.gelu(x) * up,
    "attention": lambda case, q, k, v: rt.attention(q, k, v, causal=False),
    "attention_fp8": lambda case, *given: BENCHES["attention_fp8"].ours(case, *given[:5], 1.2 * given[5], *given[6:]),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_operator_fails_its_check(name):
    wrong = dataclasses.replace(BENCHES[name], ours=WRONG[name])
    result = measure(wrong, case_of(name), Protocol(repeats=1, warmups=1, peer=False), "case")
    assert result.check == "FAIL" and result.wrong


def _remembering(case, a, b):
    if not hasattr(_remembering, "kept"):
        _remembering.kept = torch.matmul(a.detach(), b.detach().t())
    return _remembering.kept + 0 * torch.matmul(a, b.t())


def _overwriting(case, a, b):
    out = rt.gemm(a, b, trans_b=True)
    a.data.zero_()  # past the version that autograd looks at
    return out


@pytest.mark.parametrize("cheat,why", [(_remembering, "elements are off"), (_overwriting, "changes what it is given|elements are off")])
def test_numbers_are_new_in_every_call_and_come_back_as_they_were(cheat, why):
    result = measure(dataclasses.replace(BENCHES["gemm"], ours=cheat), case_of("gemm"), Protocol(repeats=2, warmups=1, peer=False), "case")
    assert result.check == "FAIL" and re.search(why, result.wrong)


def test_a_wrong_gradient_fails_where_the_result_is_right():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    bad = dataclasses.replace(BENCHES["gemm"], ours=lambda case, a, b: rt.gemm(Doubled.apply(a), b, trans_b=True))
    result = measure(bad, case_of("gemm"), Protocol(repeats=1, warmups=1, peer=False), "case")
    assert result.check == "FAIL" and result.wrong.startswith("da")
    assert result.found["out"].share <= 1


@pytest.mark.parametrize("shape", ["4x1", "1x1", "3x5", "8x24"])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_few_elements_are_held_to_the_error_of_each(capsys, on_cpu, shape, dtype):
    for seed in range(4):
        run(capsys, "rms_norm", "--shapes", shape, "--dtype", dtype, "--repeats", "1", "--warmups", "1", "--no-peer", "--seed", str(seed))


def test_the_flush_is_as_large_as_the_last_level_caches(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    for cpu, caches in {0: [(1, "48K", "0"), (3, "1024K", "0-1")], 1: [(1, "48K", "1"), (3, "1024K", "0-1")], 2: [(3, "512K", "2")], 3: [(3, "256K", "3")]}.items():
        for i, (level, size, shared) in enumerate(caches):
            folder = tmp_path / f"cpu{cpu}" / "cache" / f"index{i}"
            folder.mkdir(parents=True)
            for name, text in {"level": str(level), "type": "Unified", "size": size, "shared_cpu_list": shared}.items():
                (folder / name).write_text(text + "\n")
    assert _last_level_caches(tmp_path) == 1536 << 10  # one of two processors, one of the third; the fourth is not ours
    assert _last_level_caches(tmp_path / "none") == 0


def test_the_first_wrong_element_is_named_and_nan_is_wrong():
    expected = reference.product("out", torch.ones(2, 3, dtype=torch.float64), torch.ones(3, 2, dtype=torch.float64), torch.float32)
    assert expected.exact.tolist() == [[3, 3], [3, 3]]
    found = Found()
    found.meet(torch.tensor([[3.0, math.nan], [3.0, 3.0]]), expected)
    assert found.share == math.inf and found.error == math.inf and found.snr_db == -math.inf


def test_a_backend_that_cannot_is_an_error_row_and_unknown_ones_are_listed(capsys, on_cpu):
    said = run(capsys, "gemm", "--shapes", "8x8x8", "--dtype", "f16", "--backend", "cpu_openblas", "--csv", "-", "--no-peer", code=1)
    (row,) = csv.DictReader(io.StringIO(said.out))
    assert row["Check"] == "ERROR" and row["Forward Time (ms)"] == "nan" and "cpu_openblas" in said.err
    said = run(capsys, "gemm", "--shapes", "8x8x8", "--backend", "bf16:fastest", code=2)
    assert "fastest" in said.err and "cpu_simd" in said.err
    run(capsys, "gemm", "--shapes", "8x8x8", "--backend", "bf16:cpu_simd,other:reference", "--repeats", "1", "--no-peer")
    assert rt.last_used("gemm") == "cpu_simd"


@pytest.mark.parametrize(
    "words,message",
    [
        (("gemm", "--shapes", "8x8"), "is not MxNxK"),
        (("gemm", "--shapes", "8x8x0"), "from 1 up"),
        (("gemm", "--shapes", "8x8x8,8x8x8"), "there twice"),
        (("gemm", "--shapes", "a b=8x8x8"), "use letters"),
        (("gemm", "--dtype", "f8"), "use one of f32, bf16, f16"),
        (("gemm", "--dtype", "f32,fp32"), "there twice"),
        (("attention", "--dtype", "bf16,f32"), "dtype 'f32': attention has bf16, f16"),
        (("gemm_fp8", "--granularity", "rows"), "tensorwise, rowwise"),
        (("gemm", "--repeats", "0"), "from 1 up"),
        (("gemm", "--device", "npu"), "use cpu"),
        (("suite", "--devices", "cpu,0"), "not both"),
        (("suite", "--operators", "conv"), "use one of gemm"),
        (("conv",), "invalid choice"),
    ],
)
def test_a_wrong_command_line_says_what_there_is(capsys, words, message):
    with pytest.raises(SystemExit) as info:
        main(words)
    assert info.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("words", [("gemm", "--device", "cuda"), ("suite", "--devices", "0,1")])
def test_a_device_that_is_not_there_is_exit_status_2(capsys, words):
    with pytest.raises(SystemExit) as info:
        main(words)
    assert info.value.code == 2 and "sees 0 CUDA devices here" in capsys.readouterr().err


@pytest.mark.parametrize("words", [(), ("gemm",), ("suite",), ("accuracy",)])
def test_help_has_examples(capsys, words):
    with pytest.raises(SystemExit) as info:
        main([*words, "--help"])
    out = capsys.readouterr().out
    assert info.value.code == 0 and "example" in out and "python -m ridgeline.bench" in out


def test_reused_inputs_are_right_too(capsys):
    run(capsys, "gemm", "--shapes", "8x8x8", "--repeats", "3", "--inputs", "reused", "--no-peer")


def test_a_suite_runs_a_process_for_each_device_and_merges(capsys, monkeypatch, tmp_path, on_cpu):
    shapes = {"gemm": "8x16x24,t=40x136x160,3x5x7", "rms_norm": "8x24,tall=65x32,1x7"}
    for name, cpu in shapes.items():
        monkeypatch.setitem(BENCHES, name, dataclasses.replace(BENCHES[name], shapes={"cpu": cpu, "cuda": cpu}))
    words = ("--devices", "cpu,cpu", "--operators", "gemm,rms_norm", "--repeats", "1", "--warmups", "1", "--no-peer", "--json")
    monkeypatch.setenv("PYTHONPATH", str(pathlib.Path(rt.__file__).parents[2]))
    rows = json.loads(run(capsys, "suite", *words, "--csv-dir", str(tmp_path), "--threads", "1").out)["rows"]
    assert {row["device"] for row in rows} <= {"cpu:0", "cpu:1"} and all(row["check"] == "PASS" for row in rows)
    assert [row["label"] for row in rows] == ["8x16x24", "t", "3x5x7", "8x24", "tall", "1x7"]
    assert (tmp_path / "gemm.csv").read_text().startswith(FROZEN)
    assert len(list(csv.DictReader(open(tmp_path / "rms_norm-full.csv")))) == 3


def test_a_process_that_dies_is_an_error_of_its_case_and_the_suite_goes_on(monkeypatch, on_cpu):
    started = []

    def start(self):
        started.append(self.name)
        dies = "import sys; sys.stdin.readline(); sys.exit(3)"
        return subprocess.Popen([sys.executable, "-c", dies], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    monkeypatch.setattr(suite._Device, "_start", start)
    options = parser().parse_args(["suite", "--operators", "gemm", "--json"])
    assert options.run(options) == 1
    assert len(started) == 3  # one for each case


def test_accuracy_is_a_table_of_every_output(capsys, tmp_path):
    out = run(capsys, "accuracy", "--operators", "gemm,quantize", "--dtype", "bf16", "--granularity", "rowwise", "--calls", "1").out
    lines = out.splitlines()
    assert lines[0].startswith("| operator | dtype | recipe |") and [line.split(" | ")[4] for line in lines[2:]] == ["out", "da", "db", "out", "scale", "out", "scale"]
    run(capsys, "accuracy", "--operators", "rms_norm", "--dtype", "f32", "--calls", "1", "--table", "csv", "--out", str(tmp_path / "a.csv"))
    rows = list(csv.DictReader(open(tmp_path / "a.csv")))
    assert [row["output"] for row in rows] == ["out", "dx", "dweight"] and all(float(row["snr_db"]) > 120 for row in rows)
    rows = json.loads(run(capsys, "accuracy", "--operators", "dequantize", "--dtype", "f32", "--granularity", "mx", "--calls", "1", "--table", "json").out)
    assert [row["snr_db"] for row in rows] == [None, None]  # no noise at all


PROJECT = """
[project]
op = "{op}"
language = "python"
kernel = ["backend.txt"]

[commands]
test = {test}
test_summary = 'passed=(\\d+) failed=(\\d+)'
benchmark = ["python3", "-B", "-m", "ridgeline.bench", "{op}", "--csv", "{{csv}}", "--shapes", "{{shapes}}", "--seed", "{{seed}}", "--no-peer",
             "--repeats", "3", "--inputs", "reused"]
fresh = ["--inputs", "fresh"]
timeout = 300

[benchmark]
{schema}
peak = 1000000
min_snr_db = 25
launches = 5
shapes = [{shapes}]
"""
ROWS = f'schema = "custom"\nheader = "{table.header(BENCHES["rms_norm"])}"\nmetric_unit = 1e9\n' + "".join(
    f'{key} = "{value}"\n'
    for key, value in (
        ("metric_column", "Forward GB/s"),
        ("time_column", "Forward Time (ms)"),
        ("backward_metric_column", "Backward GB/s"),
        ("backward_time_column", "Backward Time (ms)"),
    )
)
# One of the projects has tests of ours, too: starting PyTorch is what takes time.
OURS = json.dumps(["python3", "-B", "-m", "ridgeline.bench", "gemm", "--shapes", "8x16x24", "--repeats", "1", "--no-peer"])
NONE = '["echo", "passed=1 failed=0"]'
RIDGE = pathlib.Path(os.environ.get("RIDGELINE_LIBRARY_DIR", "")).parent / "bin/ridge"


@pytest.mark.skipif(not RIDGE.exists(), reason="no ridge beside the library")
@pytest.mark.parametrize(
    "op,schema,shapes,metrics,test",
    [
        ("gemm", 'schema = "gemm"', ["8x16x24", "32x24x48", "64x64x64"], "combined_step_tflops", OURS),
        ("quantize", 'schema = "memory"', ["16x32", "32x64", "64x128"], "forward_gbps", NONE),
        ("rms_norm", ROWS, ["16x32", "32x64", "64x128"], "combined_step_gbps", NONE),
    ],
)
def test_ridge_handoff_takes_the_table(tmp_path, op, schema, shapes, metrics, test):
    project = tmp_path / "project"
    project.mkdir()
    (project / "backend.txt").write_text("cpu_simd\n")
    listed = ", ".join(f'"{one}"' for one in shapes)
    (project / "ridge-project.toml").write_text(PROJECT.format(op=op, schema=schema, shapes=listed, test=test))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "bin/python3").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(pathlib.Path(rt.__file__).parents[2]),
        "RIDGELINE_LIBRARY_DIR": str(pathlib.Path(os.environ["RIDGELINE_LIBRARY_DIR"]).absolute()),
        "RIDGE_CACHE_DIR": str(tmp_path / "cache"),
    }
    said = subprocess.run([RIDGE, "handoff", op, "--project", project], capture_output=True, text=True, timeout=500, env=environment)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "ok    the benchmark writes the frozen table" in said.stdout and metrics in said.stdout
    shutil.rmtree(project)

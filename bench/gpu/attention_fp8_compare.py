#!/usr/bin/env python3
"""Times attention of 8-bit codes beside attention in bf16, ours and cuDNN's, contenders taking turns, and says how near to float64 each is.

    attention_fp8_compare.py OUT [--repeats 20] [--quick] [--only TEXT ...] [--commit ID]

Calls are those of PyTorch, forward: `rt.attention_fp8` of codes that `rt.quantize_heads` made before, `rt.attention` and
`scaled_dot_product_attention` by cuDNN of the bf16 numbers that the codes were made of. Every timed call is one pass on random normal data, with
the L2 displaced before it, between two events; contenders change places from round to round, the median counts. FLOP: 4 x pairs of a query and a
key that it sees x dim x heads. Signal to noise is that of 64 rows of four heads against float64: `snr_db` of the codes for the kernel's own errors,
of the bf16 numbers for the other contenders, and `snr_of_numbers_db` of the bf16 numbers for all, which has the rounding to codes in it. --quick: two
cases, five repeats; --only: cases whose name has one of the texts. Writes OUT/attention-fp8.json (with every sample) and .csv. Exit status 1 where
the codes' kernel has less than 25 dB, 77 without PyTorch or a GPU. Needs PYTHONPATH=python and RIDGELINE_LIBRARY_DIR.
"""
import argparse
import csv
import json
import math
import pathlib
import statistics
import sys

from attention_masks_compare import rt, seen_pairs, timed, torch, versions

CASES = [  # batch, heads, kv_heads, length, dim, causal
    (1, 32, 8, 8192, 128, True), (2, 16, 16, 8192, 128, False), (1, 16, 16, 16384, 64, True), (1, 32, 8, 2048, 128, True)]
QUICK = [CASES[0], CASES[3]]
LEAST_SNR_DB = 25.0  # of codes: as ridgeline.bench holds results of 8-bit floats
ROWS, HEADS = 64, 4


def exact_rows(q, k, v, causal, rows, heads):
    """Rows of heads of the first sequence in float64, [rows, heads, dim]."""
    group, made = q.shape[2] // k.shape[2], []
    for head in heads:
        keys, values = k[0, :, head // group].double(), v[0, :, head // group].double()
        scores = q[0, rows, head].double() @ keys.t() * q.shape[-1] ** -0.5
        if causal:
            scores = scores.masked_fill(torch.arange(keys.shape[0], device=q.device) > rows[:, None], -torch.inf)
        made.append(scores.softmax(-1) @ values)
    return torch.stack(made, 1)


def snr(found, exact):
    noise = (found.double() - exact).square().sum().item()
    return math.inf if noise == 0 else 10 * math.log10(exact.square().sum().item() / noise)


def work(case):
    batch, heads, kv_heads, length, dim, causal = case
    q, k, v = (torch.randn(batch, length, count, dim, device="cuda", dtype=torch.bfloat16) for count in (heads, kv_heads, kv_heads))
    (q8, q_scale), (k8, k_scale), (v8, v_scale) = (rt.quantize_heads(x) for x in (q, k, v))
    turned = [x.transpose(1, 2) for x in (q, k, v)]

    def by_cudnn():
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(*turned, is_causal=causal, enable_gqa=kv_heads != heads).transpose(1, 2)

    calls = {
        "ridgeline_e4m3": lambda: rt.attention_fp8(q8, k8, v8, q_scale, k_scale, v_scale, causal=causal),
        "ridgeline_bf16": lambda: rt.attention(q, k, v, causal=causal),
        "cudnn_bf16": by_cudnn,
    }
    decoded = [codes.double() * scale[:, None, :, None] for codes, scale in ((q8, q_scale), (k8, k_scale), (v8, v_scale))]
    name = f"{batch},{heads}/{kv_heads},{length},{dim} {'causal' if causal else 'full'}"
    pairs = seen_pairs(length, length, 0 if causal else length)
    return name, 4e-9 * batch * heads * dim * pairs, (q, k, v), decoded, calls


def usable(calls):
    """Contenders that run, with their results."""
    results = {}
    for name, call in calls.items():
        try:
            results[name] = call()
        except RuntimeError as reason:
            print(f"no {name}: {str(reason)[:200]}", flush=True)
    return results


def ratios(case, numbers, decoded, results):
    rows = torch.randint(0, case[3], (ROWS,), device="cuda", generator=torch.Generator("cuda").manual_seed(1))
    heads = [at * case[1] // HEADS for at in range(HEADS)]
    of_numbers, of_codes = (exact_rows(*tensors, case[5], rows, heads) for tensors in (numbers, decoded))
    picked = {name: out[0, rows][:, heads] for name, out in results.items()}
    return {name: (snr(out, of_codes if name == "ridgeline_e4m3" else of_numbers), snr(out, of_numbers)) for name, out in picked.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    repeats = 5 if options.quick else options.repeats
    rows, wrong, sweep = [], 0, torch.zeros(128 << 20, dtype=torch.int32, device="cuda")
    for case in QUICK if options.quick else CASES:
        name, flop, numbers, decoded, calls = work(case)
        if not any(text in name for text in options.only):
            continue
        results = usable(calls)
        near = ratios(case, numbers, decoded, results)
        wrong += not near["ridgeline_e4m3"][0] >= LEAST_SNR_DB
        samples = timed({contender: calls[contender] for contender in results}, repeats, sweep)
        del results, decoded
        for contender, times in samples.items():
            median, (own, of_numbers) = statistics.median(times), near[contender]
            print(f"{name}: {contender} {flop / median:.0f} TFLOP/s ({median * 1e3:.0f} us), {own:.1f} dB, of the numbers {of_numbers:.1f} dB", flush=True)
            rows.append({"case": name, "contender": contender, "median_ms": median, "tflops": flop / median, "snr_db": own,
                         "snr_of_numbers_db": of_numbers, "samples_ms": times})
        torch.cuda.empty_cache()
    environment = {"commit": options.commit, "device": torch.cuda.get_device_name(0), "versions": versions()}
    with open(options.out / "attention-fp8.json", "w") as file:
        json.dump({"environment": environment, "protocol": "one pass per sample, L2 displaced, contenders in turns", "repeats": repeats, "rows": rows}, file)
    with open(options.out / "attention-fp8.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["case", "contender", "median_ms", "tflops", "snr_db", "snr_of_numbers_db"])
        writer.writerows([row["case"], row["contender"], f"{row['median_ms']:.5f}", f"{row['tflops']:.1f}", f"{row['snr_db']:.2f}", f"{row['snr_of_numbers_db']:.2f}"]
                         for row in rows)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Times attention in windows, of packed documents, with sinks, with a softcap and with ALiBi's slopes, forward and backward, beside FlashAttention, contenders taking turns.

    attention_masks_compare.py OUT [--repeats 20] [--checks-only] [--only TEXT ...] [--commit ID]

Calls are those of PyTorch: `rt.attention(window=, sinks=, softcap=, alibi_slopes=)`, `rt.varlen_attention`, FlashAttention-4 where `flash_attn.cute` can be imported, and the
FlashAttention that torch has. FlashAttention-4 takes no slopes: beside them stand FlashAttention-2, where `flash_attn` can be imported, and torch's compiled flex_attention. Every timed call is one pass on random normal data, with the L2 displaced before it, between two events;
contenders change places from round to round, the median counts. A backward pass is that of a graph which is kept. FLOP: 4 x pairs of a query
and a key that it sees x dim x heads, backward 10 x. Results of all contenders are held against ours first, ours against torch's math in
float32 on a case that fits. --only: cases whose name has one of the texts, for instance "documents of". Writes OUT/attention-masks.json (with every sample) and .csv. Exit status 1 on a wrong result, 77 without
PyTorch or a GPU. Needs PYTHONPATH=python and RIDGELINE_LIBRARY_DIR.
"""
import argparse
import csv
import json
import pathlib
import statistics
import sys

try:
    import torch
except ImportError:
    sys.exit(77)
if not torch.cuda.is_available():
    sys.exit(77)
import ridgeline.torch as rt  # noqa: E402
from turns import in_turn  # noqa: E402
from versions import versions  # noqa: E402

try:
    from flash_attn.cute import flash_attn_func, flash_attn_varlen_func
except ImportError:
    flash_attn_func = flash_attn_varlen_func = None
try:
    from flash_attn import flash_attn_func as flash_attn_2_func
except ImportError:
    flash_attn_2_func = None
try:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
except ImportError:
    flex_attention = None

WINDOWS = [  # batch, heads, kv_heads, length, dim, left, right
    (1, 32, 8, 8192, 128, 1023, 0), (1, 32, 8, 8192, 128, 4095, 0), (1, 32, 8, 32768, 128, 4095, 0), (1, 32, 8, 32768, 128, 1023, 0), (1, 32, 8, 8192, 128, 512, 512), (4, 32, 32, 4096, 64, 511, 0),
    (1, 32, 8, 8192, 96, 1023, 0), (1, 16, 16, 16384, 256, 4095, 0)]
DOCUMENTS = [  # heads, kv_heads, dim, causal, lengths
    (32, 8, 128, True, [2048] * 8), (32, 8, 128, True, [8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 32]), (32, 8, 128, True, [512] * 32),
    (32, 8, 128, True, [2176, 704, 1536, 1920, 1088, 2048, 832, 1472, 1248, 976]), (32, 8, 128, False, [1000] * 16), (32, 32, 64, True, [777] * 21), (32, 8, 96, True, [2048] * 8), (16, 16, 256, True, [2048] * 8)]
BESIDE = [  # batch, heads, kv_heads, length, dim, left, right, sinks, softcap: GPT-OSS, Gemma 2, and each beside the call without
    (1, 64, 8, 8192, 64, 127, 0, True, 0.0), (1, 64, 8, 8192, 64, -1, 0, True, 0.0), (1, 64, 8, 8192, 64, -1, 0, False, 0.0),
    (1, 16, 8, 8192, 256, 4095, 0, False, 50.0), (1, 16, 8, 8192, 256, -1, 0, False, 50.0), (1, 16, 8, 8192, 256, -1, 0, False, 0.0),
    (1, 32, 8, 8192, 128, -1, 0, False, 30.0), (1, 32, 8, 8192, 128, -1, 0, True, 0.0), (1, 32, 8, 8192, 128, -1, 0, False, 0.0),
    (4, 32, 32, 2048, 64, -1, 0, False, 30.0)]
SLOPES = [  # batch, heads, kv_heads, length, dim, left, right, with slopes: MPT, BLOOM's heads, MosaicBERT, and each beside the call without
    (1, 32, 32, 8192, 128, -1, 0, True), (1, 32, 32, 8192, 128, -1, 0, False), (4, 32, 32, 2048, 64, -1, 0, True), (4, 32, 32, 2048, 64, -1, 0, False),
    (16, 12, 12, 1024, 64, -1, -1, True), (16, 12, 12, 1024, 64, -1, -1, False), (1, 32, 8, 8192, 128, -1, -1, True), (1, 32, 8, 8192, 128, -1, -1, False),
    (1, 32, 8, 8192, 128, 1023, 0, True), (1, 16, 16, 8192, 256, -1, 0, True), (1, 16, 16, 8192, 256, -1, 0, False)]
CHECKED_SLOPES = [(1, 8, 2, 900, 64, -1, 0, True), (2, 8, 2, 700, 128, -1, -1, True), (1, 8, 2, 700, 128, 200, 150, True), (1, 4, 2, 500, 256, 90, 0, True)]
CHECKED_BESIDE = [(1, 8, 2, 900, 64, 100, 0, True, 0.0), (1, 8, 2, 700, 128, -1, 0, True, 5.0), (1, 4, 2, 500, 256, 90, 0, False, 5.0), (1, 4, 2, 300, 40, -1, 0, False, 5.0)]
CHECKED = (1, 8, 2, 900, 128, 100, 30), (8, 2, 128, True, [300, 1, 129, 0, 400, 70])
MOST_DIFFERENCE = 0.012  # of the RMS, in bf16


def tokens(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16).requires_grad_()


def seen_pairs(length, left, right):
    return sum(min(i + right + 1, length) - max(i - left, 0) for i in range(length))


def window_work(case):
    batch, heads, kv_heads, length, dim, left, right = case
    q, k, v = tokens(batch, length, heads, dim), tokens(batch, length, kv_heads, dim), tokens(batch, length, kv_heads, dim)
    calls = {"ridgeline": lambda: rt.attention(q, k, v, window=(left, right)),
             "ridgeline_ordered": lambda: rt.attention(q, k, v, window=(left, right), deterministic=True),
             "torch_flash": lambda: torch_flash(q, k, v, None, length, right == 0, left, right)}
    if flash_attn_func is not None:
        calls["fa4"] = lambda: first(flash_attn_func(q, k, v, causal=right == 0, window_size=(left, right)))
    return f"{batch},{heads}/{kv_heads},{length},{dim} window {left},{right}", 4e-9 * batch * heads * dim * seen_pairs(length, left, right), (q, k, v), calls


def beside_work(case):
    batch, heads, kv_heads, length, dim, left, right, with_sinks, softcap = case
    q, k, v = tokens(batch, length, heads, dim), tokens(batch, length, kv_heads, dim), tokens(batch, length, kv_heads, dim)
    sinks = torch.randn(heads, device="cuda").requires_grad_() if with_sinks else None
    given = {"window": (left, right), "sinks": sinks, "softcap": softcap or None}
    calls = {"ridgeline": lambda: rt.attention(q, k, v, **given), "ridgeline_ordered": lambda: rt.attention(q, k, v, **given, deterministic=True)}
    if flash_attn_func is not None:
        of_peer = {"window_size": (None if left < 0 else left, right), "softcap": softcap, "learnable_sink": None if sinks is None else sinks.detach().bfloat16()}
        calls["fa4"] = lambda: first(flash_attn_func(q, k, v, causal=right == 0, **of_peer))
    beside = f"{' sinks' if with_sinks else ''}{f' softcap {softcap:g}' if softcap else ''}" or " neither"
    pairs = seen_pairs(length, length if left < 0 else left, right)
    calls_of = {"sinks": sinks, "softcap": softcap}
    return f"{batch},{heads}/{kv_heads},{length},{dim} window {left},{right} with{beside}", 4e-9 * batch * heads * dim * pairs, (q, k, v), calls, calls_of


def slopes_work(case):
    batch, heads, kv_heads, length, dim, left, right, with_slopes = case
    q, k, v = tokens(batch, length, heads, dim), tokens(batch, length, kv_heads, dim), tokens(batch, length, kv_heads, dim)
    slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1, device="cuda") / heads) if with_slopes else None
    given = {"window": (left, right), "alibi_slopes": slopes}
    calls = {"ridgeline": lambda: rt.attention(q, k, v, **given), "ridgeline_ordered": lambda: rt.attention(q, k, v, **given, deterministic=True)}
    if flash_attn_2_func is not None:
        calls["fa2"] = lambda: flash_attn_2_func(q, k, v, causal=right == 0, window_size=(left, right), alibi_slopes=slopes)
    if flash_attn_func is not None and not with_slopes:
        calls["fa4"] = lambda: first(flash_attn_func(q, k, v, causal=right == 0, window_size=(None if left < 0 else left, None if right < 0 else right)))
    if flex_attention is not None and with_slopes:
        calls["torch_flex"] = flex_call(q, k, v, slopes, length, left, right)
    ends = (length if left < 0 else left, length if right < 0 else right)
    name = f"{batch},{heads}/{kv_heads},{length},{dim} window {left},{right} with{' slopes' if with_slopes else 'out slopes'}"
    return name, 4e-9 * batch * heads * dim * seen_pairs(length, *ends), (q, k, v), calls, {"slopes": slopes}


def flex_call(q, k, v, slopes, length, left, right):
    def seen(batch, head, query, key):
        return (key >= query - (length if left < 0 else left)) & (key <= query + (length if right < 0 else right))

    def minus_slopes(score, batch, head, query, key):
        return score - slopes[head] * (query - key).abs()

    torch._dynamo.reset()  # a case is a compilation of its own, and there is a limit to those of one function
    torch._functorch.config.donated_buffer = False  # graphs are kept
    mask = None if left < 0 and right < 0 else create_block_mask(seen, None, None, length, length, device="cuda")
    compiled = torch.compile(flex_attention)
    return lambda: compiled(*(x.transpose(1, 2) for x in (q, k, v)), score_mod=minus_slopes, block_mask=mask, enable_gqa=True).transpose(1, 2)


def documents_work(case):
    heads, kv_heads, dim, causal, lengths = case
    of = torch.tensor([0, *lengths], device="cuda").cumsum(0).to(torch.int32)
    total, longest = sum(lengths), max(lengths)
    q, k, v = tokens(total, heads, dim), tokens(total, kv_heads, dim), tokens(total, kv_heads, dim)
    calls = {"ridgeline": lambda: rt.varlen_attention(q, k, v, of, of, causal=causal),
             "ridgeline_ordered": lambda: rt.varlen_attention(q, k, v, of, of, causal=causal, deterministic=True),
             "torch_flash": lambda: torch_flash(q, k, v, of, longest, causal, None, None)}
    if flash_attn_varlen_func is not None:
        calls["fa4"] = lambda: first(flash_attn_varlen_func(q, k, v, cu_seqlens_q=of, cu_seqlens_k=of, max_seqlen_q=longest, max_seqlen_k=longest, causal=causal))
    pairs = sum(n * (n + 1) // 2 if causal else n * n for n in lengths)
    name = f"{heads}/{kv_heads},{dim} {'causal' if causal else 'full'} documents of {lengths[0]} x {len(lengths)}" if len(set(lengths)) == 1 else (
        f"{heads}/{kv_heads},{dim} {'causal' if causal else 'full'} documents of {','.join(map(str, lengths))}")
    return name, 4e-9 * heads * dim * pairs, (q, k, v), calls


def first(result):
    return result[0] if isinstance(result, tuple) else result


def torch_flash(q, k, v, of, longest, causal, left, right):
    return torch.ops.aten._flash_attention_forward(q, k, v, of, of, longest, longest, 0.0, causal, False, window_size_left=left, window_size_right=right)[0]


def by_math(q, k, v, seen, sinks=None, softcap=0.0, slopes=None):
    group = q.shape[-2] // k.shape[-2]
    q, k, v = q.float(), k.float().repeat_interleave(group, -2), v.float().repeat_interleave(group, -2)
    scores = torch.einsum("...ihd,...jhd->...hij", q, k) * q.shape[-1] ** -0.5
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    if slopes is not None:
        places = torch.arange(q.shape[1], device=q.device)
        scores = scores - slopes[:, None, None] * (places[:, None] - places).abs()
    scores = scores.masked_fill(~seen, -torch.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks[:, None, None].expand(*scores.shape[:-1], 1)], -1)
    weights = scores.softmax(-1).nan_to_num(0.0)[..., : k.shape[-3]]
    return torch.einsum("...hij,...jhd->...ihd", weights, v)


def difference(found, want):
    return ((found.float() - want.float()).norm() / want.float().norm().clamp(min=1e-20)).item()


def passes(leaves, calls, grad):
    """Forward calls, and backward calls of graphs that are kept, by name; those that a contender does not have are left out."""
    forward, backward, results = {}, {}, {}
    for name, call in calls.items():
        try:
            out = call()
            results[name] = (out.detach(),)
            if name != "ridgeline_ordered":
                forward[name] = call
            results[name] += torch.autograd.grad(out, leaves, grad, retain_graph=True)
            backward[name] = lambda out=out: torch.autograd.grad(out, leaves, grad, retain_graph=True)
        except Exception as reason:
            print(f"no {name}: {type(reason).__name__}: {str(reason)[:200]}", flush=True)
    return forward, backward, results


def check(work, seen):
    name, _, leaves, calls, *beside = work
    beside = beside[0] if beside else {}
    grad = torch.randn_like(leaves[0])
    want = by_math(*leaves, seen, **beside)
    sinks = beside.get("sinks")
    if sinks is not None:
        of_sinks = [torch.autograd.grad(out, sinks, g)[0] for out, g in ((calls["ridgeline"](), grad), (by_math(*leaves, seen, **beside), grad.float()))]
        print(f"{name}: gradients of sinks off by {difference(*of_sinks):.4f}", flush=True)
        if difference(*of_sinks) > MOST_DIFFERENCE:
            return False
    want = (want.detach(), *torch.autograd.grad(want, leaves, grad.float()))
    wrong = 0
    for contender, results in passes(leaves, calls, grad)[2].items():
        off = [difference(have, right) for have, right in zip(results, want)]
        print(f"{name}: {contender} off by {', '.join(f'{one:.4f}' for one in off)}", flush=True)
        wrong += contender.startswith("ridgeline") and (len(off) < len(want) or max(off) > MOST_DIFFERENCE)
    return wrong == 0


def right():
    window, documents = CHECKED
    length, left, reach = window[3], window[5], window[6]
    away = torch.arange(length, device="cuda") - torch.arange(length, device="cuda")[:, None]
    of = torch.repeat_interleave(torch.arange(len(documents[4]), device="cuda"), torch.tensor(documents[4], device="cuda"))
    place = torch.arange(len(of), device="cuda")
    ok = check(window_work(window), (away >= -left) & (away <= reach))
    for make, cases in ((beside_work, CHECKED_BESIDE), (slopes_work, CHECKED_SLOPES)):
        for one in cases:
            away = torch.arange(one[3], device="cuda") - torch.arange(one[3], device="cuda")[:, None]
            left, right = (one[3] if end < 0 else end for end in one[5:7])
            ok = check(make(one), (away >= -left) & (away <= right)) and ok
    return check(documents_work(documents), (of[:, None] == of) & (place <= place[:, None])) and ok


def timed(calls, repeats, sweep):
    names, samples = list(calls), {name: [] for name in calls}
    for turn in range(repeats + 1):
        for name in in_turn(names, turn):
            sweep.add_(1)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            calls[name]()
            end.record()
            end.synchronize()
            if turn:
                samples[name].append(begin.elapsed_time(end))
    return samples


def write(rows, options):
    """What there is so far, so that a run that is cut off leaves it."""
    environment = {"commit": options.commit, "device": torch.cuda.get_device_name(0), "versions": versions()}
    with open(options.out / "attention-masks.json", "w") as file:
        json.dump({"environment": environment, "protocol": "one pass per sample, L2 displaced, contenders in turns", "repeats": options.repeats, "rows": rows}, file)
    with open(options.out / "attention-masks.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["case", "pass", "contender", "median_ms", "tflops"])
        writer.writerows([row["case"], row["pass"], row["contender"], f"{row['median_ms']:.5f}", f"{row['tflops']:.1f}"] for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--checks-only", action="store_true")
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if not right():
        return 1
    if options.checks_only:
        return 0
    rows, sweep = [], torch.zeros(128 << 20, dtype=torch.int32, device="cuda")
    for make, cases in ((window_work, WINDOWS), (documents_work, DOCUMENTS), (beside_work, BESIDE), (slopes_work, SLOPES)):
        for case in cases:
            name, flop, leaves, calls = make(case)[:4]
            if not any(text in name for text in options.only):
                continue
            grad = torch.randn_like(leaves[0])
            forward, backward, results = passes(leaves, calls, grad)
            for peer, found in results.items():
                off = max(difference(have, ours) for have, ours in zip(found, results["ridgeline"]))
                if off > 2 * MOST_DIFFERENCE:
                    print(f"{name}: {peer} differs from ridgeline by {off:.4f}", flush=True)
            for way, of_pass, factor in (("forward", forward, 1.0), ("backward", backward, 2.5)):
                samples = timed(of_pass, options.repeats, sweep)
                medians = {peer: statistics.median(times) for peer, times in samples.items()}
                print(f"{name} {way}: " + "  ".join(f"{peer} {factor * flop / ms:.0f} ({ms * 1e3:.0f} us)" for peer, ms in medians.items()), flush=True)
                rows += [{"case": name, "pass": way, "contender": peer, "median_ms": medians[peer], "tflops": factor * flop / medians[peer], "samples_ms": times}
                         for peer, times in samples.items()]
            write(rows, options)
            del forward, backward, results, leaves, calls
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())

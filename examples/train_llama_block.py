#!/usr/bin/env python3
"""Trains a small Llama-style model on this project's own texts: by torch, with Ridgeline's operators in bf16, and in FP8.

  python examples/train_llama_block.py                      about a minute on two CPU cores: loss curves and step times
  python examples/train_llama_block.py --device cuda        real sizes; also times one block of hidden size 4096, 8192 tokens
  python examples/train_llama_block.py --modes torch,fp8-blockwise --steps 200 --svg losses.svg --json run.json
  python examples/train_llama_block.py --steps 0            the last table alone: what each operator contributes to a step

Every mode starts from the same weights and sees the same batches, so curves differ by arithmetic alone. "torch-nudged" starts
from weights off by a relative 1e-4, less than bf16 resolves: how far it drifts from "torch" is what noise means here. One run says
little, because training amplifies any difference: --seeds 3 trains each mode from three starts and gives the mean difference.
Weights are float32 and products bf16 (autocast). "ridgeline" has our products alone, "ridgeline-all" also normalisation, rotary positions,
attention, the activation, the loss and the optimizer. The last table times a training step with one of these at a time.
"""

import argparse
import copy
import json
import math
import pathlib
import statistics
import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional as F

import ridgeline.torch as rt

ROOT = pathlib.Path(__file__).resolve().parent.parent
FP8 = {
    "fp8-tensorwise": rt.QuantConfig("hybrid", "tensorwise"),
    "fp8-rowwise": rt.QuantConfig("hybrid", "rowwise"),
    "fp8-blockwise": rt.QuantConfig("e4m3", "blockwise"),
}
PARTS = ("products", "norm", "rope", "attention", "activation", "loss", "optimizer")  # what can be Ridgeline's
MODES = ("torch", "torch-nudged", "ridgeline", "ridgeline-all", *FP8)


def parts_of(mode: str) -> tuple[str, ...]:
    return PARTS if mode == "ridgeline-all" else () if mode.startswith("torch") else ("products",)


def rotate(x: torch.Tensor) -> torch.Tensor:
    """Rotary positions: each pair of channels turned by an angle that grows with the position."""
    half = x.shape[-1] // 2
    frequency = 10000 ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angle = torch.arange(x.shape[1], device=x.device, dtype=torch.float32)[:, None, None] * frequency
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


class Block(nn.Module):
    """Attention and SwiGLU, each behind RMSNorm and beside a residual path."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        inner = -(-hidden * 8 // 3 // 256) * 256 if hidden >= 256 else 3 * hidden
        self.heads = heads
        self.norm_attention, self.norm_mlp = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.gate_up, self.down = nn.Linear(hidden, 2 * inner, bias=False), nn.Linear(inner, hidden, bias=False)
        self.parts: tuple[str, ...] = ()
        self.table: tuple[torch.Tensor, torch.Tensor] | None = None  # of rope, for the longest sequence so far

    def turn(self, q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """q and k of [batch, sequence, heads, channels] by their positions."""
        if "rope" not in self.parts:
            return rotate(q), rotate(k)
        if self.table is None or len(self.table[0]) < q.shape[1]:
            self.table = rt.rope_table(q.shape[1], q.shape[3], device=q.device)
        return rt.rope(q, k, *self.table)

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        if "attention" in self.parts:
            return rt.attention(q, k, v, causal=True)
        return F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, sequence, hidden = x.shape
        qkv = self.qkv(self.norm_attention(x)).view(batch, sequence, 3, self.heads, -1)
        q, k, v = qkv.unbind(2)
        q, k = self.turn(q, k)
        x = x + self.out(self.attend(q, k, v).reshape(batch, sequence, hidden))
        both = self.gate_up(self.norm_mlp(x))
        if "activation" in self.parts:
            return x + self.down(rt.swiglu(both))
        gate, up = both.chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, hidden: int, heads: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(256, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(hidden), nn.Linear(hidden, 256, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def convert(model: nn.Module, mode: str, parts: tuple[str, ...] | None = None) -> nn.Module:
    """The same model with the operators of a mode, or with some parts; the output head stays in bf16 in every FP8 mode."""
    parts = parts_of(mode) if parts is None else parts
    if mode == "torch-nudged":
        generator = torch.Generator().manual_seed(11)
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1 + 1e-4 * torch.randn(p.shape, generator=generator).to(p.device))
    if mode in FP8:
        rt.swap_linears(model, FP8[mode], keep=lambda name, layer: name == "head")
    if "products" in parts:
        rt.swap_linears(model, keep=lambda name, layer: isinstance(layer, rt.Fp8Linear))
    for module in list(model.modules()):
        if isinstance(module, Block):
            module.parts = parts
        for name, child in list(module.named_children()):
            if "norm" in parts and type(child) is nn.RMSNorm:
                norm = rt.RMSNorm(child.weight.shape[0], eps=torch.finfo(torch.float32).eps, device="meta")
                norm.weight = child.weight
                setattr(module, name, norm)
    return model


def corpus() -> torch.Tensor:
    files = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return torch.frombuffer(bytearray(b"\n".join(file.read_bytes() for file in files)), dtype=torch.uint8)


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


class Trainer:
    """A model with its optimizer and the loss of its parts."""

    def __init__(self, model: nn.Module, parts: tuple[str, ...], options: argparse.Namespace) -> None:
        self.model, self.parts, self.device = model, parts, torch.device(options.device)
        numbers = {"lr": options.lr, "betas": (0.9, 0.95), "weight_decay": 0.1}
        self.clips = "optimizer" in parts
        self.optimizer = rt.AdamW(model.parameters(), **numbers, max_norm=1.0) if self.clips else torch.optim.AdamW(model.parameters(), **numbers)

    def step(self, window: torch.Tensor) -> tuple[float, float]:
        """The loss of a batch of texts, and the seconds of the step."""
        synchronize(self.device)
        start = time.perf_counter()
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            logits = self.model(window[:, :-1]).flatten(0, 1)
        target = window[:, 1:].flatten()
        loss = rt.cross_entropy(logits, target, one_pass=True) if "loss" in self.parts else F.cross_entropy(logits.float(), target)
        self.optimizer.zero_grad()
        loss.backward()
        if not self.clips:
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item(), time.perf_counter() - start


def batches(text: torch.Tensor, options: argparse.Namespace, seed: int, count: int) -> Iterator[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        starts = torch.randint(len(text) - options.sequence - 1, (options.batch,), generator=generator)
        yield torch.stack([text[s : s + options.sequence + 1] for s in starts.tolist()]).long().to(options.device)


def train(model: nn.Module, mode: str, text: torch.Tensor, options: argparse.Namespace, seed: int) -> tuple[list[float], list[float]]:
    """Losses and seconds of each step."""
    trainer = Trainer(model, parts_of(mode), options)
    losses, seconds = [], []
    for step, window in enumerate(batches(text, options, seed, options.steps)):
        for group in trainer.optimizer.param_groups:
            warm = min(1.0, (step + 1) / (0.1 * options.steps))
            group["lr"] = options.lr * warm * (0.55 + 0.45 * math.cos(math.pi * step / options.steps))
        loss, took = trainer.step(window)
        losses.append(loss)
        seconds.append(took)
    return losses, seconds


def contributions(text: torch.Tensor, options: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of training steps with torch's operators, with one part of ours at a time, and with all; they take turns."""
    torch.manual_seed(options.seed)
    start = Llama(options.hidden, max(1, options.hidden // 64), options.layers).to(options.device)
    trainers: dict[str, Trainer] = {}
    seconds: dict[str, list[float]] = {}
    for name, parts in {"torch": (), **{part: (part,) for part in PARTS}, "all": PARTS}.items():
        try:
            trainer = Trainer(convert(copy.deepcopy(start), "ridgeline", parts), parts, options)
            for window in batches(text, options, options.seed, 3):  # first calls compile
                trainer.step(window)
        except NotImplementedError as error:  # no kernel for this part on this device
            print(f"{name:15s} left out: {error}", flush=True)
            continue
        trainers[name], seconds[name] = trainer, []
    for turn, window in enumerate(batches(text, options, options.seed, options.part_rounds)):
        for name in trainers if turn % 2 == 0 else reversed(trainers):
            seconds[name].append(trainers[name].step(window)[1])
    return seconds


def time_blocks(modes: list[str], options: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of forward and backward of one block in bf16, the modes taking turns; order reversed every other round."""
    device = torch.device(options.device)
    torch.manual_seed(options.seed)
    block = Block(options.block_hidden, options.block_hidden // 128 or 1).to(device, torch.bfloat16)
    blocks = {mode: convert(copy.deepcopy(block), mode) for mode in modes}
    sequence = min(options.block_tokens, 4096)
    x = torch.randn(options.block_tokens // sequence, sequence, options.block_hidden, device=device, dtype=torch.bfloat16)
    upstream = torch.randn_like(x)

    def step(mode: str) -> float:
        blocks[mode].zero_grad(set_to_none=True)
        synchronize(device)
        start = time.perf_counter()
        blocks[mode](x.detach().requires_grad_()).backward(upstream)
        synchronize(device)
        return time.perf_counter() - start

    for mode in modes:  # first calls compile
        for _ in range(3):
            step(mode)
    seconds: dict[str, list[float]] = {mode: [] for mode in modes}
    for round_number in range(options.block_rounds):
        for mode in modes if round_number % 2 == 0 else reversed(modes):
            seconds[mode].append(step(mode))
    return seconds


def smooth(losses: list[float], width: int) -> list[float]:
    return [statistics.fmean(losses[max(0, i - width + 1) : i + 1]) for i in range(len(losses))]


def draw(curves: dict[str, list[float]], path: pathlib.Path) -> None:
    """Loss against step as an SVG file."""
    width, height, left, bottom = 720, 400, 50, 30
    low = min(min(c) for c in curves.values())
    high = max(max(c) for c in curves.values())
    colours = ["#333", "#aaa", "#06c", "#c60", "#393", "#a3a"]
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">']
    lines.append(f'<rect width="{width}" height="{height}" fill="#fff"/>')
    for i in range(5):
        value = low + (high - low) * i / 4
        y = height - bottom - (height - bottom - 10) * i / 4
        lines.append(f'<path d="M{left} {y:.1f}H{width - 10}" stroke="#ddd"/><text x="8" y="{y + 4:.1f}">{value:.2f}</text>')
    for index, (mode, losses) in enumerate(curves.items()):
        points = " ".join(
            f"{left + (width - 10 - left) * i / max(1, len(losses) - 1):.1f},"
            f"{height - bottom - (height - bottom - 10) * (loss - low) / max(high - low, 1e-9):.1f}"
            for i, loss in enumerate(losses)
        )
        colour = colours[index % len(colours)]
        lines.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>')
        lines.append(f'<text x="{width - 150}" y="{24 + 16 * index}" fill="{colour}">{mode}</text>')
    lines.append(f'<text x="{width // 2}" y="{height - 8}">step</text></svg>')
    path.write_text("\n".join(lines) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument("--modes", default=",".join(m for m in MODES if m != "fp8-rowwise"), help="of " + ", ".join(MODES))
    parser.add_argument("--steps", type=int, help="default 60 on the CPU, 200 on a GPU")
    parser.add_argument("--hidden", type=int, help="default 128, on a GPU 1024")
    parser.add_argument("--layers", type=int, help="default 2, on a GPU 8")
    parser.add_argument("--batch", type=int, help="default 4, on a GPU 16")
    parser.add_argument("--sequence", type=int, help="default 128, on a GPU 1024")
    parser.add_argument("--lr", type=float, help="default 3e-3, on a GPU 6e-4")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="so many starts, from --seed on")
    parser.add_argument("--block-hidden", type=int, help="of the block that is timed; default 256, on a GPU 4096")
    parser.add_argument("--block-tokens", type=int, help="default 256, on a GPU 8192")
    parser.add_argument("--block-rounds", type=int, help="default 6, on a GPU 20; 0: time no block")
    parser.add_argument("--part-rounds", type=int, help="steps with each operator alone; default 12, on a GPU 40; 0: none")
    parser.add_argument("--svg", type=pathlib.Path, default=pathlib.Path("losses.svg"))
    parser.add_argument("--json", type=pathlib.Path, help="every loss and every time")
    options = parser.parse_args()
    gpu = options.device.startswith("cuda")
    defaults = {"steps": (60, 200), "hidden": (128, 1024), "layers": (2, 8), "batch": (4, 16), "sequence": (128, 1024),
                "lr": (3e-3, 6e-4), "block_hidden": (256, 4096), "block_tokens": (256, 8192), "block_rounds": (6, 20), "part_rounds": (12, 40)}
    for name, (small, large) in defaults.items():
        if getattr(options, name) is None:
            setattr(options, name, large if gpu else small)
    options.modes = options.modes.split(",")
    if unknown := set(options.modes) - set(MODES):
        parser.error(f"unknown modes: {', '.join(sorted(unknown))}; use {', '.join(MODES)}")
    return options


def train_modes(text: torch.Tensor, options: argparse.Namespace) -> dict[str, dict]:
    """Losses of every mode from every seed, the modes of a seed one after the other; a mode that has no kernel here is left out."""
    runs: dict[str, dict] = {}
    width = max(1, options.steps // 10)
    for seed in range(options.seed, options.seed + options.seeds):
        torch.manual_seed(seed)
        start = Llama(options.hidden, max(1, options.hidden // 64), options.layers).to(options.device)
        if not runs:
            count = sum(p.numel() for p in start.parameters())
            print(f"{count / 1e6:.2f} M parameters, {len(text)} bytes of text, {options.steps} steps of "
                  f"{options.batch * options.sequence} tokens on {options.device}, torch {torch.__version__}")
        for mode in options.modes:
            if seed > options.seed and mode not in runs:
                continue
            try:
                losses, seconds = train(convert(copy.deepcopy(start), mode), mode, text, options, seed)
            except NotImplementedError as error:  # no kernel for this mode on this device
                print(f"{mode:15s} left out: {error}", flush=True)
                continue
            run = runs.setdefault(mode, {"losses": losses, "step_seconds": seconds, "final": [], "parameters": count})
            run["final"].append(statistics.fmean(losses[-width:]))
            first_mode = next(iter(runs))
            off = 100 * (run["final"][-1] / runs[first_mode]["final"][len(run["final"]) - 1] - 1)
            median = statistics.median(seconds[len(seconds) // 4 :])
            print(f"{mode:15s} loss {losses[0]:.4f} -> {run['final'][-1]:.4f} (mean of the last {width}; {off:+.2f} % of {first_mode})   "
                  f"step {1e3 * median:.1f} ms", flush=True)
    return runs


def compare_finals(runs: dict[str, dict]) -> None:
    """Mean difference of the final losses from the first mode's over the seeds, and its standard error."""
    first = next(iter(runs.values()))["final"]
    for mode, run in runs.items():
        off = [100 * (loss / base - 1) for loss, base in zip(run["final"], first)]
        error = statistics.stdev(off) / math.sqrt(len(off))
        print(f"{mode:15s} final loss {statistics.fmean(off):+.2f} % of {next(iter(runs))}, standard error {error:.2f} %, {len(off)} seeds")


def train_and_compare(text: torch.Tensor, options: argparse.Namespace) -> dict[str, dict]:
    """Loss curves of every mode, and the time of one block."""
    runs = train_modes(text, options)
    if not runs:
        raise SystemExit("no mode runs here")
    if options.seeds > 1:
        compare_finals(runs)
    draw({mode: smooth(run["losses"], max(1, options.steps // 30)) for mode, run in runs.items()}, options.svg)
    print(f"curves: {options.svg}")
    timed = [mode for mode in runs if mode != "torch-nudged"] if options.block_rounds > 0 else []
    if timed:
        print(f"one block, hidden {options.block_hidden}, {options.block_tokens} tokens, bf16 weights, forward and backward:")
    for mode, seconds in (time_blocks(timed, options) if timed else {}).items():
        runs[mode]["block_seconds"] = seconds
        ratios = [a / b for a, b in zip(runs[timed[0]]["block_seconds"], seconds)]
        print(f"{mode:15s} {1e3 * statistics.median(seconds):8.2f} ms   {statistics.median(ratios):.3f}x of {timed[0]}", flush=True)
    return runs


def time_parts(text: torch.Tensor, options: argparse.Namespace) -> dict[str, list[float]]:
    print(f"a training step, hidden {options.hidden}, {options.batch * options.sequence} tokens, with one of Ridgeline's operators at a time:")
    times = contributions(text, options)
    for name, seconds in times.items():
        ratios = [a / b for a, b in zip(times["torch"], seconds)]
        print(f"{name:15s} {1e3 * statistics.median(seconds):8.2f} ms   {statistics.median(ratios):.3f}x of torch", flush=True)
    return times


def main() -> None:
    options = arguments()
    text = corpus()
    runs = train_and_compare(text, options) if options.steps > 0 else {}
    parts = time_parts(text, options) if options.part_rounds > 0 else {}
    if options.json:
        settings = {k: str(v) if isinstance(v, pathlib.Path) else v for k, v in vars(options).items()}
        device = torch.cuda.get_device_name() if options.device.startswith("cuda") else "cpu"
        options.json.write_text(json.dumps({"options": settings, "torch": torch.__version__, "device": device, "runs": runs, "parts": parts}))


if __name__ == "__main__":
    main()

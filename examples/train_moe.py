#!/usr/bin/env python3
"""Trains a small mixture-of-experts language model on this project's own texts: with rt.MoE, and with the same layer in plain torch.

  python examples/train_moe.py                      half a minute on two CPU cores: losses, how far they differ, step times, loads of experts
  python examples/train_moe.py --device cuda        larger, in bf16 by autocast
  python examples/train_moe.py --steps 200 --experts 32 --top 4 --json run.json

Both start from the same weights and see the same batches, so that losses differ by arithmetic alone: in float32 on the CPU by some 1e-6, until a
token whose two scores are nearly equal goes to the other expert. The rest of the model is torch's in both. The loss has the router's two terms
with the factors of their papers, 0.001 and 0.01.
"""

import argparse
import copy
import json
import pathlib
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F
from train_llama_block import corpus, synchronize

import ridgeline.torch as rt


class PlainMoE(nn.Module):
    """What rt.MoE computes, expert by expert, with the parameters of one."""

    def __init__(self, layer: rt.MoE) -> None:
        super().__init__()
        self.router, self.gate_up, self.down = (nn.ParameterDict({"weight": part.weight}) for part in (layer.router, layer.gate_up, layer.down))
        self.top = layer.router.top

    def forward(self, x: torch.Tensor) -> rt.Mixture:
        tokens = x.flatten(0, -2)
        with torch.autocast(x.device.type, enabled=False):
            logits = F.linear(tokens.float(), self.router["weight"])
        scores = torch.softmax(logits, -1)
        weights, experts = scores.topk(self.top, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        y = torch.zeros_like(tokens)
        for expert, (gate_up, down) in enumerate(zip(self.gate_up["weight"], self.down["weight"])):
            rows, k = torch.where(experts == expert)
            gate, up = F.linear(tokens[rows], gate_up).chunk(2, -1)
            y = y.index_add(0, rows, (F.linear(F.silu(gate) * up, down) * weights[rows, k, None]).to(y.dtype))
        shares = F.one_hot(experts, logits.shape[1]).float().mean((0, 1))
        balance = logits.shape[1] * (shares * scores.mean(0)).sum()
        return rt.Mixture(y.view(x.shape), experts, torch.logsumexp(logits, -1).square().mean(), balance)


class Block(nn.Module):
    """Attention and a mixture of experts, each behind RMSNorm and beside a residual path."""

    def __init__(self, hidden: int, moe: nn.Module) -> None:
        super().__init__()
        self.heads = max(1, hidden // 64)
        self.norm_attention, self.norm_moe = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.moe = moe

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, rt.Mixture]:
        q, k, v = self.qkv(self.norm_attention(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        found = self.moe(self.norm_moe(x))
        return x + found.y, found


class Model(nn.Module):
    """Of bytes, with learned positions."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        hidden = options.hidden
        self.embed, self.place = nn.Embedding(256, hidden), nn.Embedding(options.sequence, hidden)
        layers = [rt.MoE(hidden, options.inner, options.experts, options.top, renormalize=True) for _ in range(options.layers)]
        self.blocks = nn.ModuleList(Block(hidden, layer) for layer in layers)
        self.norm, self.head = nn.RMSNorm(hidden), nn.Linear(hidden, 256, bias=False)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, list[rt.Mixture]]:
        x, mixtures = self.embed(tokens) + self.place.weight[: tokens.shape[1]], []
        for block in self.blocks:
            x, found = block(x)
            mixtures.append(found)
        return self.head(self.norm(x)), mixtures


def plain(model: Model) -> Model:
    """The same model with PlainMoE."""
    model = copy.deepcopy(model)
    for block in model.blocks:
        block.moe = PlainMoE(block.moe)
    return model


def train(model: Model, text: torch.Tensor, options: argparse.Namespace) -> dict:
    """Losses and seconds of every step, and how many tokens the experts of the last block had in the last one."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, betas=(0.9, 0.95))
    generator = torch.Generator().manual_seed(options.seed)
    losses, seconds, loads = [], [], []
    for _ in range(options.steps):
        starts = torch.randint(len(text) - options.sequence - 1, (options.batch,), generator=generator).tolist()
        window = torch.stack([text[s : s + options.sequence + 1] for s in starts]).long().to(options.device)
        synchronize(torch.device(options.device))
        start = time.perf_counter()
        with torch.autocast(options.device, torch.bfloat16, enabled=options.device == "cuda"):
            logits, mixtures = model(window[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), window[:, 1:].flatten())
        total = loss + sum(0.001 * found.z_loss + 0.01 * found.balance_loss for found in mixtures)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
        loads = rt.expert_counts(mixtures[-1].experts, options.experts).tolist()
    return {"losses": losses, "step_seconds": seconds, "loads": loads}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    defaults = {"steps": (40, 100), "hidden": (64, 1024), "inner": (96, 768), "experts": (8, 32), "top": (2, 4), "layers": (2, 4),
                "batch": (4, 16), "sequence": (64, 1024), "lr": (3e-3, 6e-4)}
    for name, (small, large) in defaults.items():
        parser.add_argument(f"--{name}", type=type(small), help=f"default {small}, on a GPU {large}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path, help="every loss and every time")
    options = parser.parse_args()
    for name, sizes in defaults.items():
        if getattr(options, name) is None:
            setattr(options, name, sizes[options.device == "cuda"])
    return options


def main() -> None:
    options, text = arguments(), corpus()
    torch.manual_seed(options.seed)
    start = Model(options).to(options.device)
    count = sum(p.numel() for p in start.parameters())
    print(f"{count / 1e6:.2f} M parameters, {len(text)} bytes of text, {options.steps} steps of {options.batch * options.sequence} tokens on {options.device}")
    runs = {}
    for name, model in (("torch", plain(start)), ("ridgeline", start)):
        runs[name] = train(model, text, options)
        losses, seconds = runs[name]["losses"], runs[name]["step_seconds"]
        print(f"{name:10s} loss {losses[0]:.4f} -> {losses[-1]:.4f}   step {1e3 * statistics.median(seconds[len(seconds) // 4 :]):.1f} ms   tokens of experts {runs[name]['loads']}", flush=True)
    off = max(abs(a / b - 1) for a, b in zip(runs["ridgeline"]["losses"], runs["torch"]["losses"]))
    print(f"losses of all steps differ by at most {off:.1e} of themselves")
    if options.json:
        settings = {name: str(value) if isinstance(value, pathlib.Path) else value for name, value in vars(options).items()}
        options.json.write_text(json.dumps({"options": settings, "torch": torch.__version__, "runs": runs}))


if __name__ == "__main__":
    main()

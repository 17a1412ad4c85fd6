"""Read, write, copy and triad in Triton, for ceilings_independent.py."""
import triton
import triton.language as tl

ARRAYS = {"read": 1, "write": 1, "copy": 2, "triad": 3}


@triton.jit
def stream(x, z, y, sums, count, passes, KIND: tl.constexpr, BLOCK: tl.constexpr, CACHE: tl.constexpr):
    total = tl.zeros([BLOCK], dtype=tl.float32)
    step = tl.num_programs(0).to(tl.int64) * BLOCK
    for _ in range(passes):
        at = tl.program_id(0).to(tl.int64) * BLOCK
        while at < count:
            offsets = at + tl.arange(0, BLOCK)
            if KIND == "read":
                total += tl.load(x + offsets, cache_modifier=CACHE)
            elif KIND == "write":
                tl.store(y + offsets, total + 1.5)
            elif KIND == "copy":
                tl.store(y + offsets, tl.load(x + offsets, cache_modifier=CACHE))
            else:
                tl.store(y + offsets, tl.load(x + offsets, cache_modifier=CACHE) + 0.75 * tl.load(z + offsets, cache_modifier=CACHE))
            at += step
    if KIND == "read":
        tl.store(sums + tl.program_id(0), tl.sum(total))


def measure_all(bench, torch, x, z, y, passes, suffix, cache):
    units = torch.cuda.get_device_properties(0).multi_processor_count
    count = x.numel()
    sums = torch.empty(1 << 22, device="cuda")
    for kind, arrays in ARRAYS.items():
        for block in (1024, 4096):
            tiles = count // block
            for programs in sorted({min(tiles, 8 * units), min(tiles, 1 << 22)}):
                def run(kind=kind, block=block, programs=programs):
                    stream[(programs,)](x, z, y, sums, count, passes, KIND=kind, BLOCK=block, CACHE=cache, num_warps=8)
                bench.measure(f"{kind}_bandwidth{suffix}", f"Triton, {programs} x {block}", "B/s", arrays * 4 * count * passes, run)


def cold(bench, torch, x, z, y):
    measure_all(bench, torch, x, z, y, 1, "", "")


def warm(bench, torch, array_bytes, passes):
    x, z, y = (torch.randn(array_bytes // 4, device="cuda") for _ in range(3))
    measure_all(bench, torch, x, z, y, passes, "_warm", ".cg")

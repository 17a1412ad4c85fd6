"""Compares convert_dump with ml_dtypes and numpy, which share no code with it.

Every code of every format up to 16 bits is decoded; 2^24 stratified f32 bit patterns, every representable value, every
midpoint between neighbours and the f32 numbers next to each are encoded; f64 midpoints check against double rounding.
Usage: oracle.py path/to/convert_dump
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np

FORMATS = {
    "f16": (np.float16, 16),
    "bf16": (ml_dtypes.bfloat16, 16),
    "e4m3fn": (ml_dtypes.float8_e4m3fn, 8),
    "e5m2": (ml_dtypes.float8_e5m2, 8),
    "e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 8),
    "e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, 8),
    "e2m1": (ml_dtypes.float4_e2m1fn, 4),
    "e8m0": (ml_dtypes.float8_e8m0fnu, 8),
}
MAX_EXPECTED = {"f16": 65504, "bf16": 3.3895313892515355e38, "e4m3fn": 448, "e5m2": 57344,
                "e4m3fnuz": 240, "e5m2fnuz": 57344, "e2m1": 6, "e8m0": 2.0**127}

program = sys.argv[1]
folder = Path(tempfile.mkdtemp(prefix="ridge-oracle-"))
failures = 0


def call(*arguments, data, result_type):
    source, target = folder / "in", folder / "out"
    data.tofile(source)
    subprocess.run([program, *arguments, source, target], check=True)
    return np.fromfile(target, dtype=result_type)


def unpack(name, codes, count):
    if FORMATS[name][1] != 4:
        return codes
    return np.stack([codes & 15, codes >> 4], axis=1).reshape(-1)[:count]


def code_type(name):
    return np.uint16 if FORMATS[name][1] == 16 else np.uint8


def all_codes(name):
    return np.arange(1 << FORMATS[name][1], dtype=code_type(name))


def values_of(name, codes):
    return codes.view(FORMATS[name][0]).astype(np.float64)


def same(got, want):
    """Equal values including the sign of zero; any NaN equals any NaN."""
    both_nan = np.isnan(got) & np.isnan(want)
    return both_nan | ((got == want) & (np.signbit(got) == np.signbit(want)))


def report(what, inputs, got, want, good):
    global failures
    bad = np.flatnonzero(~good)
    if bad.size:
        failures += 1
        first = bad[0]
        print(f"{what}: {bad.size} of {good.size} differ; first: {float(inputs[first]).hex()} gave {got[first]!r}, "
              f"oracle {want[first]!r}")


def check_decode(name):
    codes = all_codes(name)
    packed = (codes[0::2] | (codes[1::2] << 4)) if FORMATS[name][1] == 4 else codes
    got = call("decode", name, data=packed, result_type=np.float64)
    want = values_of(name, codes)
    report(f"{name} decode", codes, got, want, same(got, want))


def encode(name, inputs, mode="plain"):
    source = "f64" if inputs.dtype == np.float64 else "f32"
    codes = call(source, name, mode, data=inputs, result_type=code_type(name))
    return values_of(name, unpack(name, codes, inputs.size))


def neighbours(name):
    finite = np.unique(values_of(name, all_codes(name)))
    return finite[np.isfinite(finite)]


def interesting(name):
    """Representable values, midpoints (where f32 can hold them) and the f32 numbers on both sides of each."""
    finite = neighbours(name)
    gap = finite[-1] - finite[-2]
    middle = np.concatenate([(finite[:-1] + finite[1:]) / 2, [finite[-1] + gap / 2, -finite[-1] - gap / 2]])
    with np.errstate(over="ignore", under="ignore"):
        points = np.concatenate([finite, middle]).astype(np.float32)
    points = points[np.isfinite(points)]
    specials = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45, 3.4028235e38], np.float32)
    up, down = np.float32(np.inf), np.float32(-np.inf)
    with np.errstate(over="ignore", under="ignore"):
        return np.concatenate([points, np.nextafter(points, up), np.nextafter(points, down), specials])


def oracle(name, inputs):
    with np.errstate(all="ignore"):
        want = inputs.astype(FORMATS[name][0]).astype(np.float64)
    if name == "e2m1":  # our NaN becomes +6, as PTX converts it; the oracle's becomes -0
        want[np.isnan(inputs)] = 6.0
    if name == "e8m0":  # our zero becomes the smallest scale; the oracle's becomes NaN
        want[inputs == 0] = 2.0**-127
        # ml_dtypes 0.6.0 rounds every f32 subnormal above 2^-127 up, also where 2^-127 is the nearer neighbour.
        want[(inputs > 2.0**-127) & (inputs < 1.5 * 2.0**-127)] = 2.0**-127
    return want


def check_encode(name, inputs, what):
    want = oracle(name, inputs)
    got = encode(name, inputs)
    report(f"{name} {what}", inputs, got, want, same(got, want))
    lost = ~np.isnan(inputs) & ~np.isfinite(want)
    if name == "e8m0":
        lost &= inputs > 0
    want = np.where(lost, np.copysign(MAX_EXPECTED[name], inputs), want)
    got = encode(name, inputs, "saturate")
    report(f"{name} {what} saturating", inputs, got, want, same(got, want))


def check_double_rounding(name):
    """f64 inputs just off a midpoint must go to the near side; going through f32 would call them ties."""
    finite = neighbours(name)
    low, high = finite[:-1], finite[1:]
    middle = (low + high) / 2
    middle_ok = np.abs(middle) > 1e-300
    low, high, middle = low[middle_ok], high[middle_ok], middle[middle_ok]
    for target, toward in ((high, np.inf), (low, -np.inf)):
        inputs = np.nextafter(middle, toward)
        got = encode(name, inputs)
        report(f"{name} f64 beside midpoints", inputs, got, target, got == target)


def check_scale_modes(inputs):
    positive = inputs[(inputs > 0) & np.isfinite(inputs)]
    _, exponent = np.frexp(positive.astype(np.float64))
    floor = np.ldexp(1.0, exponent - 1)
    ceil = np.where(positive == floor, floor, 2 * floor)
    for mode, want in (("floor", floor), ("ceil", ceil)):
        want = np.where(want > 2.0**127, np.nan, np.maximum(want, 2.0**-127))
        got = encode("e8m0", positive, mode)
        report(f"e8m0 {mode}", positive, got, want, same(got, want))


def main():
    rng = np.random.default_rng(20260101)
    strata = np.arange(1 << 24, dtype=np.uint32) << 8
    stratified = (strata | rng.integers(0, 256, 1 << 24, dtype=np.uint32)).view(np.float32)
    for name in FORMATS:
        assert np.nanmax(np.where(np.isfinite(values_of(name, all_codes(name))),
                                  values_of(name, all_codes(name)), 0)) == MAX_EXPECTED[name]
        check_decode(name)
        check_encode(name, interesting(name), "ties and neighbours")
        check_encode(name, stratified, "2^24 stratified")
        check_double_rounding(name)
    check_scale_modes(stratified[:: 16])
    check_scale_modes(interesting("e8m0"))
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    print(f"conversion oracle: {len(FORMATS)} formats, {failures} disagreements")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

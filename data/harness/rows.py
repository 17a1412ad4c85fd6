# out = @REFERENCE@(x), for every row of x [R, C] by itself; what it is in float64 says the reference, whose gradient is
# taken by PyTorch. A shape is (R, C).
UNIT, SCALE = "GB/s", 1e9
COLUMNS = ["label", "Check", "Forward GB/s", "Forward GB/s_stddev", "Backward GB/s", "Backward GB/s_stddev",
           "Forward Time (ms)", "Backward Time (ms)", "out_snr", "dx_snr"]
if not BACKWARD:
    COLUMNS = ["label", "Check", "Forward GB/s", "Forward GB/s_stddev", "Forward Time (ms)", "out_snr"]
EDGE_SHAPES = [(1, 1), (1, 7), (5, 1), (3, 1000), (33, 17)]
CLOSE_LOOKS = 16  # at roundings of the operands and of the reference in DTYPE, before an element is called wrong


def reference(x):
    return getattr(importlib.import_module(@REFERENCE_MODULE@), @REFERENCE_FUNCTION@)(x)


def inputs_of(shape, stream):
    return [uniform(stream, *shape)]


def outputs_of(shape):
    return [(reference(torch.zeros(shape, dtype=torch.float64)).shape, DTYPE)]


def row_by_row(reduced, like):
    return reduced.reshape(-1, *[1] * (like.dim() - 1))


def largest_of_row(values, like):
    return row_by_row(values.abs().reshape(values.shape[0], -1).amax(dim=1), like)


def allowed_error(exact, columns, operand):
    """Rounding of the result and of what is kept of it, of sums over a row beside the largest number of that row, and
    of the operand's row where its terms cancel: that counts in rows of few columns only."""
    of_sums = (2 * OUTPUT_ROUNDING + 4 * ROUNDING * (columns + 2)) * largest_of_row(exact, exact)
    cancelling = 4 * max(ROUNDING, OUTPUT_ROUNDING) / columns * largest_of_row(operand, exact)
    return 4 * OUTPUT_ROUNDING * exact.abs() + of_sums + cancelling


def evaluated(x, *gradient):
    """The output, and the gradient of x where that of the output is given."""
    leaf = x.clone().requires_grad_(bool(gradient))
    out = reference(leaf)
    return [out.detach(), *(torch.autograd.grad(out, (leaf,), one)[0] for one in gradient)]


def forward_reference(shape, x):
    exact = reference(x)
    return exact, allowed_error(exact, shape[1], x)


def gradients_reference(shape, gradient, x):
    _, exact = evaluated(x, gradient)
    return [("dx", exact, allowed_error(exact, shape[1], gradient))]


def closer_results_of(case):
    """The results with 16 times what roundings do to their row allowed as well, which counts where its terms cancel: those of the operands
    in float64, and those of the reference in DTYPE, at operands that are off by one of its own."""
    stream = generator("close", *case.key)
    wide = [one.double() for one in [*case.own_inputs, *case.own_gradients][:2 if BACKWARD else 1]]

    def near(rounding):
        return [one * (1 + rounding * (2 * torch.rand(one.shape, generator=stream, dtype=torch.float64) - 1).to(one.device)) for one in wide]

    rows, squares = case.exact(), [0] * len(wide)
    for _ in range(CLOSE_LOOKS):
        narrow = [one.to(DTYPE) for one in near(OUTPUT_ROUNDING)]
        own = zip(evaluated(*narrow), evaluated(*[one.double() for one in narrow]))
        for at, (moved, (rounded, right)) in enumerate(zip(evaluated(*near(ROUNDING)), own)):
            squares[at] = squares[at] + (moved - rows[at][1]).square() + (rounded.double() - right).square()
    noise = [row_by_row((one / CLOSE_LOOKS).reshape(one.shape[0], -1).mean(dim=1).sqrt(), one) for one in squares]
    return [(name, right, allowed + 16 * of_row) for (name, right, allowed), of_row in zip(rows, noise)]


def work_of(shape):
    """Bytes: x is read and out is written; backward d_out and x are read and d_x is written."""
    item, x, out = torch.finfo(DTYPE).bits // 8, shape[0] * shape[1], math.prod(outputs_of(shape)[0][0])
    return item * (x + out), item * (2 * x + out)


def shape_columns(shape):
    return {}

# Grouped product: the rows of a [T, K] belong to groups, counts[g] rows to group g in turn; out = rows of a times b[g],
# with b of [G, K, N]. The kernel is called with (a, b, counts). A shape is (N, K, counts): even, skewed, empty groups.
UNIT, SCALE = "TFLOPS", 1e12
COLUMNS = ["label", "B", "M", "N", "K", "Check", "Forward TFLOPS", "Forward TFLOPS_stddev", "Backward TFLOPS",
           "Backward TFLOPS_stddev", "Forward Time (ms)", "Backward Time (ms)", "out_snr", "da_snr", "db_snr"]
EDGE_SHAPES = [(1, 1, (1,)), (5, 3, (0, 7)), (16, 8, (0, 0, 9, 0)), (17, 33, (1, 30, 0, 2))]


def inputs_of(shape, stream):
    n, k, counts = shape
    return [uniform(stream, sum(counts), k), uniform(stream, len(counts), k, n),
            torch.tensor(counts, dtype=torch.int64, device=DEVICE)]


def outputs_of(shape):
    return [((sum(shape[2]), shape[0]), DTYPE)]


def product(a, b):
    """A product in float64, and how far a right kernel may be off: rounding of its sums and of its result."""
    exact = a @ b
    return exact, (1.01 * ROUNDING * (a.shape[-1] + 2)) * (a.abs() @ b.abs()) + 2 * OUTPUT_ROUNDING * exact.abs()


def by_group(shape, left, right, join):
    pairs, row = [], 0
    for group, count in enumerate(shape[2]):
        pairs.append(product(left(slice(row, row + count), group), right(slice(row, row + count), group)))
        row += count
    return join([exact for exact, _ in pairs]), join([allowed for _, allowed in pairs])


def forward_reference(shape, a, b, counts):
    return by_group(shape, lambda rows, g: a[rows], lambda rows, g: b[g], torch.cat)


def gradients_reference(shape, gradient, a, b, counts):
    return [("da", *by_group(shape, lambda rows, g: gradient[rows], lambda rows, g: b[g].T, torch.cat)),
            ("db", *by_group(shape, lambda rows, g: a[rows].T, lambda rows, g: gradient[rows], torch.stack))]


def work_of(shape):
    n, k, counts = shape
    return 2 * sum(counts) * n * k, 4 * sum(counts) * n * k


def shape_columns(shape):
    return {"B": 1, "M": sum(shape[2]), "N": shape[0], "K": shape[1]}

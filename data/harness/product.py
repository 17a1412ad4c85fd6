# out = a b, with a of [M, K] and b of [K, N]; d_a = d_out b^T, d_b = a^T d_out. A shape is (M, N, K).
UNIT, SCALE = "TFLOPS", 1e12
COLUMNS = ["label", "B", "M", "N", "K", "Check", "Forward TFLOPS", "Forward TFLOPS_stddev", "Backward TFLOPS",
           "Backward TFLOPS_stddev", "Forward Time (ms)", "Backward Time (ms)", "out_snr", "da_snr", "db_snr"]
EDGE_SHAPES = [(1, 1, 1), (1, 7, 3), (5, 1, 9), (17, 33, 65), (33, 17, 1)]


def inputs_of(shape, stream):
    m, n, k = shape
    return [uniform(stream, m, k), uniform(stream, k, n)]


def outputs_of(shape):
    return [(shape[:2], DTYPE)]


def product(a, b):
    """A product in float64, and how far a right kernel may be off: rounding of its sums and of its result."""
    exact = a @ b
    return exact, (1.01 * ROUNDING * (a.shape[-1] + 2)) * (a.abs() @ b.abs()) + 2 * OUTPUT_ROUNDING * exact.abs()


def forward_reference(shape, a, b):
    return product(a, b)


def gradients_reference(shape, gradient, a, b):
    return [("da", *product(gradient, b.T)), ("db", *product(a.T, gradient))]


def work_of(shape):
    m, n, k = shape
    return 2 * m * n * k, 4 * m * n * k


def shape_columns(shape):
    return {"B": 1, "M": shape[0], "N": shape[1], "K": shape[2]}

"""matmul(a, b) with a gradient, in Triton: the only file that a campaign may change."""
import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def product(a, b, out, m, n, k, a_row, a_column, b_row, b_column, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, k, BLOCK):
        depth = start + tl.arange(0, BLOCK)
        left = tl.load(a + rows[:, None] * a_row + depth[None, :] * a_column,
                       mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0)
        right = tl.load(b + depth[:, None] * b_row + columns[None, :] * b_column,
                        mask=(depth[:, None] < k) & (columns[None, :] < n), other=0.0)
        total += tl.dot(left, right, input_precision="ieee")
    tl.store(out + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))


def launch(a, b):
    m, k = a.shape
    n = b.shape[1]
    out = torch.empty((m, n), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(m, BLOCK), triton.cdiv(n, BLOCK))
    product[grid](a, b, out, m, n, k, a.stride(0), a.stride(1), b.stride(0), b.stride(1), BLOCK=BLOCK)
    return out


class Matmul(torch.autograd.Function):
    @staticmethod
    def forward(context, a, b):
        context.save_for_backward(a, b)
        return launch(a, b)

    @staticmethod
    def backward(context, d_out):
        a, b = context.saved_tensors
        return launch(d_out, b.T), launch(a.T, d_out)


def matmul(a, b):
    return Matmul.apply(a, b)

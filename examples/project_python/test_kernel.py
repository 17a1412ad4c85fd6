#!/usr/bin/env python3
"""The project's focused test: every shape against sums that lose nothing."""
import math
import random
import sys

from kernel import matmul

passed = failed = 0
for rows, depth, columns in [(1, 1, 1), (2, 3, 4), (7, 5, 3), (16, 16, 16), (1, 40, 1), (40, 1, 40)]:
    a = [[random.uniform(-1, 1) for _ in range(depth)] for _ in range(rows)]
    b = [[random.uniform(-1, 1) for _ in range(columns)] for _ in range(depth)]
    c = matmul(a, b)
    good = len(c) == rows and all(len(row) == columns for row in c) and all(
        abs(c[i][j] - math.fsum(a[i][k] * b[k][j] for k in range(depth))) <= 1e-12 * depth
        for i in range(rows) for j in range(columns))
    passed, failed = passed + good, failed + (not good)
print(f"passed={passed} failed={failed}")
sys.exit(failed > 0)

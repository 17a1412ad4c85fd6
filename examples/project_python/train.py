#!/usr/bin/env python3
"""Eight steps of training around matmul, as the engine wants them traced:  train.py TRACE

Every step brings a new activation and a new gradient, and ends with an optimizer that changes the weight in place and
bumps its version. Afterwards the step's activation is changed in place and used once more: an answer that does not
change with it was remembered. A kernel with a cache of its own counts its hits in kernel.hits["weight" or "tensor"].
"""
import csv
import random
import sys
import time

import kernel

STEPS, ROWS, DEPTH, COLUMNS = 8, 24, 16, 32


class Weight(list):
    version = 0


def tensor(rows, columns):
    return [[random.uniform(-1, 1) for _ in range(columns)] for _ in range(rows)]


def right(a, b, c):
    return all(abs(sum(x * b[k][j] for k, x in enumerate(row)) - c[i][j]) < 1e-9
               for i, row in enumerate(a) for j in range(len(b[0])))


def hits(kind):
    return getattr(kernel, "hits", {}).get(kind, 0)


def step_row(number, weight, weight_hits, tensor_hits):
    began = time.perf_counter()
    activation, gradient = tensor(ROWS, DEPTH), tensor(ROWS, COLUMNS)
    before = time.perf_counter()
    forward = kernel.matmul(activation, weight)
    again = kernel.matmul(activation[: ROWS // 2], weight)  # the backward call of the same step uses the same weight
    in_kernel = time.perf_counter() - before
    before = time.perf_counter()
    columns = list(zip(*weight))  # what of the kernel's work depends on the weight alone
    of_weight = min(2 * (time.perf_counter() - before), in_kernel)
    good = right(activation, weight, forward) and right(activation[: ROWS // 2], weight, again)
    for i, row in enumerate(weight):
        weight[i] = [x - 0.01 * columns[j][i] - 0.01 * gradient[0][j] for j, x in enumerate(row)]
    weight.version += 1
    whole = time.perf_counter() - began
    counted_weight, counted_tensor = hits("weight") - weight_hits, hits("tensor") - tensor_hits
    kernel.matmul(activation, weight)
    activation[0] = [x + 1 for x in activation[0]]
    remembered = not right(activation, weight, kernel.matmul(activation, weight))
    return [number, whole * 1e3, in_kernel * 1e3, of_weight * 1e3, counted_weight, counted_tensor + int(remembered),
            "PASS" if good else "FAIL"]


def main():
    weight = Weight(tensor(DEPTH, COLUMNS))
    with open(sys.argv[1], "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["step", "step_ms", "kernel_ms", "weight_ms", "weight_hits", "tensor_hits", "Check"])
        for number in range(1, STEPS + 1):
            table.writerow(step_row(number, weight, hits("weight"), hits("tensor")))


main()

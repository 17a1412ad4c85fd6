"""C = A B for lists of rows."""


def matmul(a, b):
    rows, depth, columns = len(a), len(b), len(b[0])
    c = [[0.0] * columns for _ in range(rows)]
    for i in range(rows):
        for j in range(columns):
            for k in range(depth):
                c[i][j] = c[i][j] + a[i][k] * b[k][j]
    return c

"""What rows_compare.py times: operators at a shape, with inputs, what is right in fp64, and every way to compute it."""
import importlib
import math
import types

import ridgeline.torch as rt
import torch

F = torch.nn.functional
EPS = 1e-6
# How far a right result may be off: a part of itself, and a part of what its tensor holds on average. Two roundings each in 16 bits.
ALLOWED = {torch.bfloat16: (2**-7, 2**-8), torch.float16: (2**-10, 2**-11), torch.float32: (2**-16, 2**-16)}


# ---- Peers


def load_peers(options):
    """Functions of other libraries by name; None where there is none here."""
    peers = types.SimpleNamespace(compile=None, quack_rmsnorm=None, quack_norm=None, quack_loss=None, quack_softmax=None, liger_rmsnorm=None, liger_layernorm=None,
                                  liger_swiglu=None, liger_rope=None, torch=not options.no_peers)

    def found(name, load):
        try:
            setattr(peers, name, load())
        except Exception as reason:  # noqa: BLE001
            print(f"no {name}: {type(reason).__name__}: {str(reason)[:200]}", flush=True)

    def compiler():
        import torch._dynamo.config
        import torch._functorch.config

        torch._dynamo.config.cache_size_limit = 256
        torch._functorch.config.donated_buffer = False  # backward is called again and again
        return lambda function: torch.compile(function, dynamic=False)

    def of(module, name):
        return lambda: getattr(importlib.import_module(module), name)

    if options.no_peers:
        return peers
    if not options.no_compile:
        found("compile", compiler)
    if options.device == "cuda":
        found("quack_rmsnorm", of("quack.rmsnorm", "rmsnorm"))
        found("quack_norm", lambda: importlib.import_module("quack.rmsnorm"))
        found("quack_loss", of("quack.cross_entropy", "cross_entropy"))
        found("quack_softmax", of("quack.softmax", "softmax"))
        found("liger_rmsnorm", of("liger_kernel.ops.rms_norm", "LigerRMSNormFunction"))
        found("liger_layernorm", of("liger_kernel.ops.layer_norm", "LigerLayerNormFunction"))
        found("liger_swiglu", of("liger_kernel.ops.swiglu", "LigerSiLUMulFunction"))
        found("liger_rope", of("liger_kernel.ops.rope", "LigerRopeFunction"))
    return peers


# ---- Calls


def as_tuple(results):
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


class Call:
    """What is timed; `prepare` restores what the call before changed, `ops` names ours where they are not the work's."""

    def __init__(self, run, prepare=None, ops=None):
        self.run, self.prepare, self.ops = run, prepare or (lambda: None), ops


def forward(function, *inputs, prepare=None):
    def run():
        with torch.no_grad():
            return as_tuple(function(*inputs))

    return Call(run, prepare)


def backward(function, inputs, upstream, prepare=None):
    leaves = [x.detach().requires_grad_() for x in inputs]
    out = as_tuple(function(*leaves))
    return Call(lambda: torch.autograd.grad(out, leaves, upstream, retain_graph=True), prepare)


def restoring(*tensors):
    """Puts back what the tensors hold now, unseen by autograd."""
    kept = [x.detach().clone() for x in tensors]

    def prepare():
        for x, right in zip(tensors, kept):
            x.data.copy_(right)

    return prepare


def rows_of(shape, elements=1 << 25):
    """Slices of the first dimension with about so many elements each."""
    step = max(1, elements // max(1, math.prod(shape[1:])))
    return [slice(begin, begin + step) for begin in range(0, shape[0], step)]


def off_by(found, right, steps=0):
    """The largest error in units of what is allowed; `steps` more of the result's type, each a part 2^-7 in bfloat16."""
    if found.shape != right.shape:
        return math.inf
    relative, of_size = ALLOWED[found.dtype]
    relative *= 1 + steps
    size = (torch.linalg.vector_norm(right, 1, dtype=torch.float32) / max(1, right.numel())).item()
    worst = 0.0
    for rows in rows_of(right.shape, 1 << 26) if right.dim() else [...]:
        wanted = right[rows].double()
        ratio = ((found[rows].double() - wanted).abs() / (wanted.abs() * relative + size * of_size)).max().item()
        worst = max(worst, math.inf if math.isnan(ratio) else ratio)
    return worst


# ---- Works: inputs of an operator at a shape, what is right, and every way to compute it


class Work:
    name, directions, shapes, tiny = "", ("forward", "backward"), (), ()
    ops = {}  # by direction
    # By direction: steps that a result may be off beyond its own roundings, where a pass is given what another one rounded: near the middle of two numbers that may be either.
    steps = {}
    rows_of_host = None  # its shape with 512 rows

    def __init__(self, shape, device):
        self.shape, self.device = shape, device
        self.sizes = tuple(map(int, shape.split("x")))

    def normal(self, *sizes, dtype=torch.bfloat16):
        return torch.randn(*sizes, device=self.device).to(dtype)

    def ours(self, direction):
        """Calls by the rest of their name."""
        return {"": self.call(direction, self.function())}

    def peers(self, direction, peers):
        found = {}
        if peers.torch:
            found["torch"] = lambda: self.call(direction, self.plain)
        if peers.compile is not None:
            found["compile"] = lambda: self.call(direction, peers.compile(self.plain))
        return found

    def call(self, direction, function, prepare=None):
        if direction == "forward":
            return forward(function, *self.inputs, prepare=prepare)
        return backward(function, self.inputs, self.upstream, prepare)

    def worst(self, direction, results):
        expected = self.expected(direction)
        if len(results) != len(expected):
            return math.inf
        return max(off_by(found.reshape(right.shape), right, self.steps.get(direction, 0)) for found, right in zip(results, expected))


class Norm(Work):
    """Of rows of a matrix; sub-classes say with which statistics."""

    def __init__(self, shape, device):
        super().__init__(shape, device)
        rows, cols = self.sizes
        x, weight = self.normal(rows, cols), (1 + 0.2 * torch.randn(cols, device=device)).bfloat16()
        bias = (self.normal(cols),) if self.has_bias else ()
        self.inputs, self.upstream = (x, weight, *bias), (self.normal(rows, cols),)
        self._right = self._reference()

    def _reference(self):
        (x, weight, *bias), (dy,) = self.inputs, self.upstream
        y, dx = torch.empty_like(x, dtype=torch.float32), torch.empty_like(x, dtype=torch.float32)
        sums = torch.zeros(2, x.shape[1], dtype=torch.float64, device=x.device)
        factor = weight.double()
        for rows in rows_of(x.shape):
            h, g = x[rows].double(), dy[rows].double()
            if self.has_bias:
                h = h - h.mean(1, keepdim=True)
            rstd = torch.rsqrt(h.square().mean(1, keepdim=True) + EPS)
            normal, scaled = h * rstd, g * factor
            y[rows] = normal * factor + (bias[0].double() if bias else 0)
            centre = scaled.mean(1, keepdim=True) if self.has_bias else 0
            dx[rows] = (scaled - centre - normal * (scaled * normal).mean(1, keepdim=True)) * rstd
            sums += torch.stack([(g * normal).sum(0), g.sum(0)])
        return {"forward": [y], "backward": [dx, *sums.float()[: 1 + len(bias)]]}

    def expected(self, direction):
        return self._right[direction]

    def bytes(self, direction):
        rows, cols = self.sizes
        vectors = len(self.inputs) - 1
        if direction == "forward":
            return 2 * (2 * rows * cols + vectors * cols)
        return 2 * (3 * rows * cols + cols + vectors * cols)


class RmsNorm(Norm):
    name, has_bias = "rmsnorm", False
    shapes = ("8192x4096", "8192x8192", "16384x7168", "4096x16384", "131072x128", "32768x1024", "1024x65536")
    tiny, rows_of_host = ("24x96",), "512x4096"
    ops = {"forward": ("rmsnorm",), "backward": ("rmsnorm_backward",)}

    def function(self):
        return lambda x, w: rt.rms_norm(x, (x.shape[-1],), w, EPS)

    @staticmethod
    def plain(x, w):
        return F.rms_norm(x, (x.shape[-1],), w, EPS)

    def peers(self, direction, peers):
        found = super().peers(direction, peers)
        if (quack := peers.quack_rmsnorm) is not None:
            found["quack"] = lambda: self.call(direction, lambda x, w: quack(x, w, eps=EPS))
        if (liger := peers.liger_rmsnorm) is not None:
            found["liger"] = lambda: self.call(direction, lambda x, w: liger.apply(x, w, EPS, 0.0, "llama", False))
        return found


class LayerNorm(Norm):
    name, has_bias = "layernorm", True
    shapes = ("8192x4096", "16384x8192", "4096x16384")
    tiny, rows_of_host = ("24x96",), "512x4096"
    ops = {"forward": ("layernorm",), "backward": ("layernorm_backward",)}

    def function(self):
        return lambda x, w, b: rt.layer_norm(x, (x.shape[-1],), w, b, EPS)

    @staticmethod
    def plain(x, w, b):
        return F.layer_norm(x, (x.shape[-1],), w, b, EPS)

    def peers(self, direction, peers):
        found = super().peers(direction, peers)
        if peers.quack_norm is not None:
            found["quack"] = lambda: self.quack(direction, peers.quack_norm)
        if (liger := peers.liger_layernorm) is not None:
            found["liger"] = lambda: self.call(direction, lambda x, w, b: liger.apply(x, w, b, EPS))
        return found

    def quack(self, direction, norm):
        """Without autograd, which it has none for; its weight and bias are float32."""
        x, (weight, bias) = self.inputs[0], (one.float() for one in self.inputs[1:])
        if direction == "forward":
            return forward(lambda: norm.layernorm_fwd(x, weight, bias, EPS))
        _, rstd, mean = norm.layernorm_fwd(x, weight, bias, EPS, return_rstd=True, return_mean=True)
        return forward(lambda: norm.layernorm_bwd(x, weight, self.upstream[0], rstd, mean))


class Softmax(Work):
    name, form = "softmax", "softmax"
    shapes, tiny, rows_of_host = ("8192x8192", "4096x32768", "16384x4096", "131072x512", "1024x131072"), ("24x96",), "512x4096"
    ops = {"forward": ("softmax",), "backward": ("softmax_backward",)}
    steps = {"backward": 1}

    def __init__(self, shape, device):
        super().__init__(shape, device)
        self.inputs, self.upstream = (self.normal(*self.sizes),), (self.normal(*self._result()),)
        (x,), (dy,) = self.inputs, self.upstream
        self._right = {"forward": [torch.empty(*self._result(), device=device)], "backward": [torch.empty_like(x, dtype=torch.float32)]}
        for rows in rows_of(self.sizes):
            z, slope = x[rows].double(), dy[rows].double()
            self._right["forward"][0][rows], self._right["backward"][0][rows] = self._rows(z, slope)

    def _result(self):
        return self.sizes

    @staticmethod
    def _rows(z, slope):
        """The result, and the gradient from what is left of it in 16 bits, which is what a backward pass is given."""
        y = torch.softmax(z, 1)
        kept = y.bfloat16().double()
        return y, kept * (slope - (slope * kept).sum(1, keepdim=True))

    def expected(self, direction):
        return self._right[direction]

    def bytes(self, direction):
        return 2 * (2 if direction == "forward" else 3) * math.prod(self.sizes)

    def function(self):
        return lambda x: getattr(rt, self.form)(x, 1)

    @property
    def plain(self):
        name = self.form
        return lambda x: getattr(torch, name)(x, 1)

    def peers(self, direction, peers):
        found = super().peers(direction, peers)
        if self.form == "softmax" and (quack := peers.quack_softmax) is not None:
            found["quack"] = lambda: self.call(direction, quack)
        return found


class LogSoftmax(Softmax):
    name = form = "log_softmax"
    shapes = ("8192x8192", "4096x32768")
    steps = {"backward": 8}  # a step of y is 2^-4 between 8 and 16, which is 8 of its power

    @staticmethod
    def _rows(z, slope):
        y = torch.log_softmax(z, 1)
        return y, slope - y.bfloat16().double().exp() * slope.sum(1, keepdim=True)


class LogSumExp(Softmax):
    name = form = "logsumexp"
    shapes = ("8192x8192", "4096x32768")

    def _result(self):
        return self.sizes[:1]

    @staticmethod
    def _rows(z, slope):
        lse = torch.logsumexp(z, 1)
        return lse, torch.exp(z - lse[:, None]) * slope[:, None]

    def bytes(self, direction):
        rows, cols = self.sizes
        return 2 * (rows * cols + rows) if direction == "forward" else 2 * 2 * rows * cols + 6 * rows


class Embedding(Work):
    """The gradient of a table: tokens x rows x columns, ids as words of a text are, a few of them in most places."""

    name, directions = "embedding", ("backward",)
    shapes, tiny = ("8192x128256x4096", "8192x32000x4096"), ("40x24x96",)
    ops = {"backward": ("embedding_backward",)}

    def __init__(self, shape, device):
        super().__init__(shape, device)
        tokens, rows, cols = self.sizes
        self.ids = self._ids(tokens, rows)
        self.inputs, self.upstream = (self.normal(rows, cols),), (self.normal(tokens, cols),)
        named, place = self.ids.unique(return_inverse=True)
        sums = torch.zeros(len(named), cols, dtype=torch.float64, device=device)
        for some in rows_of((tokens, cols)):
            sums.index_add_(0, place[some], self.upstream[0][some].double())
        right = torch.zeros(rows, cols, device=device)
        right[named] = sums.float()
        self._right = [right]

    def _ids(self, tokens, rows):
        """By Zipf's law: the k-th word in a share of 1 / k, at places of the table that have no order."""
        rank = torch.exp(torch.rand(tokens, device=self.device) * math.log(rows)).long().clamp(max=rows) - 1
        return torch.randperm(rows, device=self.device)[rank]

    def expected(self, direction):
        return self._right

    def bytes(self, direction):
        tokens, rows, cols = self.sizes
        return 2 * (tokens + rows) * cols + 8 * tokens

    def function(self):
        return lambda weight: rt.embedding(self.ids, weight)

    def plain(self, weight):
        return F.embedding(self.ids, weight)


class EmbeddingUniform(Embedding):
    name = "embedding_uniform"

    def _ids(self, tokens, rows):
        return torch.randint(rows, (tokens,), device=self.device)


class Permute(Work):
    """Rows of tokens to their experts: tokens x experts of each x columns, of 256 experts; torch's own gather, and for its gradient index_add_."""

    name, shapes, tiny = "permute", ("16384x8x7168", "16384x2x4096"), ("40x3x96",)
    ops = {"forward": ("combine_rows",), "backward": ("combine_rows",)}
    experts = 256

    def __init__(self, shape, device):
        super().__init__(shape, device)
        tokens, top, cols = self.sizes
        experts = torch.rand(tokens, self.experts, device=device).topk(top).indices
        self.order = rt.expert_order(experts, self.experts)
        self.tokens, self.rows = self.order.tokens.flatten().long(), self.order.rows.flatten().long()
        self.inputs, self.upstream = (self.normal(tokens, cols),), (self.normal(tokens * top, cols),)

    def expected(self, direction):
        if direction == "forward":
            return [self.inputs[0].index_select(0, self.tokens)]
        return [self._sum_of(self.upstream[0], None)]

    # For each token, of its rows.
    def _sum_of(self, rows, weights):
        tokens, top, cols = self.sizes
        sums = torch.empty(tokens, cols, device=self.device)
        for some in rows_of((tokens, top * cols)):
            terms = rows[self.rows.view(tokens, top)[some]].double()
            sums[some] = (terms if weights is None else terms * weights[some].double()[..., None]).sum(1).float()
        return sums

    def bytes(self, direction):
        tokens, top, cols = self.sizes
        return 2 * tokens * (1 + top) * cols + 4 * tokens * top

    def function(self):
        return lambda x: rt.permute(x, self.order)

    def plain(self, x):
        return x.index_select(0, self.tokens)


class Unpermute(Permute):
    """Rows of experts back to their tokens, with weights; backward the gradients of both."""

    name = "unpermute"
    ops = {"forward": ("combine_rows",), "backward": ("combine_rows", "combine_rows_backward")}

    def __init__(self, shape, device):
        super().__init__(shape, device)
        tokens, top, _ = self.sizes
        self.weights = torch.rand(tokens, top, device=device)
        self.inputs, self.upstream = (self.upstream[0], self.weights), self.inputs

    def expected(self, direction):
        (y, weights), (dy,) = self.inputs, self.upstream
        if direction == "forward":
            return [self._sum_of(y, weights)]
        tokens, top, cols = self.sizes
        products, gradient = torch.empty(tokens, top, device=self.device), torch.empty_like(y, dtype=torch.float32)
        for some in rows_of((tokens, top * cols)):
            rows = self.rows.view(tokens, top)[some]
            products[some] = (y[rows].double() * dy[some].double()[:, None]).sum(-1).float()
            gradient[rows.flatten()] = (weights[some].double()[..., None] * dy[some].double()[:, None]).flatten(0, 1).float()
        return [gradient, products]

    def bytes(self, direction):
        tokens, top, cols = self.sizes
        forward = 2 * tokens * (1 + top) * cols + 8 * tokens * top
        return forward if direction == "forward" else forward + 2 * tokens * top * cols + 4 * tokens * top

    def function(self):
        return lambda y, weights: rt.unpermute(y, self.order, weights)

    def plain(self, y, weights):
        tokens, top, cols = self.sizes
        return (y.index_select(0, self.rows).view(tokens, top, cols) * weights[..., None]).sum(1).to(y.dtype)


class SwiGlu(Work):
    name = "swiglu"
    shapes, tiny, rows_of_host = ("8192x14336", "16384x4096"), ("24x96",), "512x14336"
    ops = {"forward": ("activation",), "backward": ("activation_backward",)}

    def __init__(self, shape, device):
        super().__init__(shape, device)
        self.inputs, self.upstream = (self.normal(*self.sizes), self.normal(*self.sizes)), (self.normal(*self.sizes),)
        (gate, up), (dy,) = self.inputs, self.upstream
        y, dgate, dup = (torch.empty_like(gate, dtype=torch.float32) for _ in range(3))
        for rows in rows_of(self.sizes):
            h, u, g = (one[rows].double() for one in (gate, up, dy))
            part = torch.sigmoid(h)
            y[rows] = h * part * u
            dgate[rows] = g * u * part * (1 + h * (1 - part))
            dup[rows] = g * h * part
        self._right = {"forward": [y], "backward": [dgate, dup]}

    def expected(self, direction):
        return self._right[direction]

    def bytes(self, direction):
        return (3 if direction == "forward" else 5) * 2 * math.prod(self.sizes)

    def function(self):
        return rt.swiglu

    @staticmethod
    def plain(gate, up):
        return F.silu(gate) * up

    def peers(self, direction, peers):
        found = super().peers(direction, peers)
        if (liger := peers.liger_swiglu) is not None:  # its backward puts the gradients where gate and up were

            def call():
                gate, up = (one.clone() for one in self.inputs)
                if direction == "forward":
                    return forward(liger.apply, gate, up)
                return backward(liger.apply, (gate, up), self.upstream, restoring(gate, up))

            found["liger"] = call
        return found


def rotated(x, cos, sin):
    """Halves of heads turned in float32, as models write it."""
    wide = x.float()
    one, two = wide.chunk(2, -1)
    return (wide * cos + torch.cat((-two, one), -1) * sin).to(x.dtype)


class Rope(Work):
    name = "rope"  # batch x length x heads of q x heads of k x dim
    shapes, tiny = ("2x4096x32x8x128", "1x8192x64x8x128"), ("2x6x4x2x32",)
    ops = {"forward": ("rope",), "backward": ("rope",)}

    def __init__(self, shape, device):
        super().__init__(shape, device)
        batch, length, heads, kv_heads, dim = self.sizes
        both = [(batch, length, heads, dim), (batch, length, kv_heads, dim)]
        self.inputs, self.upstream = (tuple(self.normal(*one) for one in both) for _ in range(2))
        self.cos, self.sin = rt.rope_table(length, dim, device=device)
        self._right = {"forward": [self._turned(x, self.sin) for x in self.inputs], "backward": [self._turned(x, -self.sin) for x in self.upstream]}

    def _turned(self, x, sin):
        out = torch.empty_like(x, dtype=torch.float32)
        for b in range(x.shape[0]):
            for rows in rows_of(x.shape[1:]):
                one, two = x[b, rows].double().chunk(2, -1)
                c, s = (table[rows, None].double() for table in (self.cos, sin))
                out[b, rows] = torch.cat((one * c - two * s, two * c + one * s), -1)
        return out

    def expected(self, direction):
        return self._right[direction]

    def bytes(self, direction):
        return 2 * 2 * sum(x.numel() for x in self.inputs) + 2 * 4 * self.cos.numel()

    def function(self):
        return lambda q, k: rt.rope(q, k, self.cos, self.sin)

    def ours(self, direction):
        calls = super().ours(direction)
        if direction == "forward":
            q, k = (x.clone() for x in self.inputs)
            calls[" in place"] = forward(lambda: rt.rope(q, k, self.cos, self.sin, in_place=True), prepare=restoring(q, k))
        return calls

    def peers(self, direction, peers):
        found = {}
        wide = [torch.cat((table, table), -1)[:, None] for table in (self.cos, self.sin)]

        def plain(q, k):
            return rotated(q, *wide), rotated(k, *wide)

        if peers.torch:
            found["torch"] = lambda: self.call(direction, plain)
        if peers.compile is not None:
            found["compile"] = lambda: self.call(direction, peers.compile(plain))
        if (liger := peers.liger_rope) is not None:  # turns its arguments where they lie, [batch, heads, length, dim]
            tables = [torch.cat((table, table), -1)[None] for table in (self.cos, self.sin)]

            def turn(q, k):
                return tuple(x.transpose(1, 2) for x in liger.apply(q.transpose(1, 2), k.transpose(1, 2), *tables))

            def call():
                changed = [x.clone() for x in (self.inputs if direction == "forward" else self.upstream)]
                if direction == "forward":
                    return forward(turn, *changed, prepare=restoring(*changed))
                return backward(turn, [x.clone() for x in self.inputs], changed, restoring(*changed))

            found["liger"] = call
        return found


class RopeNorm(Rope):
    """Heads of q and k normalised, each with a weight, and turned."""

    name = "rope_norm"
    shapes = ("2x4096x32x8x128", "1x8192x64x8x128", "1x16384x32x4x128")
    ops = {"forward": ("rope_norm",), "backward": ("rope_norm_backward",)}

    def __init__(self, shape, device):
        super().__init__(shape, device)
        dim = self.sizes[4]
        weights = tuple((1 + 0.2 * torch.randn(dim, device=device)).bfloat16() for _ in range(2))
        results, gradients, sums = [], [], []
        for x, weight, dy in zip(self.inputs, weights, self.upstream):
            y, dx, factor = torch.empty_like(x, dtype=torch.float32), torch.empty_like(x, dtype=torch.float32), weight.double()
            sum_of_rows = torch.zeros(dim, dtype=torch.float64, device=device)
            for b in range(x.shape[0]):
                for rows in rows_of(x.shape[1:]):
                    h, c, s = x[b, rows].double(), self.cos[rows, None].double(), self.sin[rows, None].double()
                    rstd = torch.rsqrt(h.square().mean(-1, keepdim=True) + EPS)
                    normal = h * rstd
                    one, two = (normal * factor).chunk(2, -1)
                    y[b, rows] = torch.cat((one * c - two * s, two * c + one * s), -1)
                    one, two = dy[b, rows].double().chunk(2, -1)
                    g = torch.cat((one * c + two * s, two * c - one * s), -1)
                    scaled = g * factor
                    dx[b, rows] = (scaled - normal * (scaled * normal).mean(-1, keepdim=True)) * rstd
                    sum_of_rows += (g * normal).flatten(0, 1).sum(0)
            results.append(y), gradients.append(dx), sums.append(sum_of_rows.float())
        self.inputs = (*self.inputs, *weights)
        self._right = {"forward": results, "backward": [*gradients, *sums]}

    def bytes(self, direction):
        heads = sum(x.numel() for x in self.inputs[:2])
        return 2 * (2 if direction == "forward" else 3) * heads + 2 * 4 * self.cos.numel() + (1 if direction == "forward" else 2) * 4 * self.sizes[4]

    def function(self):
        return lambda q, k, a, b: rt.rope_norm(q, k, a, b, self.cos, self.sin, eps=EPS)

    def ours(self, direction):
        return Work.ours(self, direction)

    def peers(self, direction, peers):
        found = {}
        wide = [torch.cat((table, table), -1)[:, None] for table in (self.cos, self.sin)]

        def plain(q, k, a, b):
            dim = (q.shape[-1],)
            return rotated(F.rms_norm(q, dim, a, EPS), *wide), rotated(F.rms_norm(k, dim, b, EPS), *wide)

        if peers.torch:
            found["torch"] = lambda: self.call(direction, plain)
        if peers.compile is not None:
            found["compile"] = lambda: self.call(direction, peers.compile(plain))
        if (turn := peers.liger_rope) is not None and (norm := peers.liger_rmsnorm) is not None:
            tables = [torch.cat((table, table), -1)[None] for table in (self.cos, self.sin)]

            def in_two(q, k, a, b):
                q, k = norm.apply(q, a, EPS, 0.0, "llama", False), norm.apply(k, b, EPS, 0.0, "llama", False)
                return tuple(x.transpose(1, 2) for x in turn.apply(q.transpose(1, 2), k.transpose(1, 2), *tables))

            def call():  # its backward puts gradients where those of the results were
                if direction == "forward":
                    return self.call(direction, in_two)
                changed = tuple(x.clone() for x in self.upstream)
                return backward(in_two, self.inputs, changed, restoring(*changed))

            found["liger"] = call
        return found


class CrossEntropy(Work):
    name, directions = "cross_entropy", ("forward", "both")
    shapes, tiny = ("8192x128256", "8192x152064", "16384x32000"), ("24x96",)
    ops = {"forward": ("cross_entropy",), "both": ("cross_entropy", "cross_entropy_backward")}

    def __init__(self, shape, device):
        super().__init__(shape, device)
        rows, cols = self.sizes
        logits, target = self.normal(rows, cols), torch.randint(cols, (rows,), device=device)
        self.inputs, gradient, loss = (logits, target), torch.empty_like(logits, dtype=torch.float32), 0.0
        for some in rows_of(self.sizes):
            logs = torch.log_softmax(logits[some].double(), 1)
            at = target[some, None]
            loss -= logs.gather(1, at).sum()
            gradient[some] = (logs.exp_().scatter_add_(1, at, torch.full_like(at, -1, dtype=torch.float64)) / rows).float()
        self._right = {"forward": [(loss / rows).float()], "both": [(loss / rows).float(), gradient]}

    def expected(self, direction):
        return self._right[direction]

    def bytes(self, direction):
        return (1 if direction == "forward" else 2) * 2 * math.prod(self.sizes)

    def call(self, direction, function, prepare=None):
        logits, target = self.inputs
        if direction == "forward":
            return forward(function, logits, target, prepare=prepare)
        leaf = logits.detach().requires_grad_()

        def run():
            loss = function(leaf, target)
            return loss.detach(), *torch.autograd.grad(loss, leaf)

        return Call(run, prepare)

    def function(self):
        return rt.cross_entropy

    def ours(self, direction):
        calls = super().ours(direction)
        if direction == "both":
            one_pass = self.call(direction, lambda x, t: rt.cross_entropy(x, t, one_pass=True))
            calls[" one pass"] = Call(one_pass.run, ops=self.ops["forward"])
        return calls

    def peers(self, direction, peers):
        found = {}
        if peers.torch:
            found["torch"] = lambda: self.call(direction, F.cross_entropy)
        if peers.compile is not None:
            found["compile"] = lambda: self.call(direction, peers.compile(lambda x, t: F.cross_entropy(x.float(), t)))
        if (quack := peers.quack_loss) is not None:
            found["quack"] = lambda: self.call(direction, lambda x, t: quack(x, t, reduction="mean"))
        return found


class AdamW(Work):
    name, directions = "adamw", ("step",)  # tensors x elements of one
    shapes, tiny = ("4x67108864", "1000x262144"), ("5x96",)
    ops = {"step": ("adamw",)}
    settings = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}

    def __init__(self, shape, device):
        super().__init__(shape, device)
        count, each = self.sizes
        param, grad, average = (self.normal(count, each, dtype=torch.float32) for _ in range(3))
        self.flat = (param, 0.1 * average, self.normal(count, each, dtype=torch.float32).square())
        self.grad, self.kept = grad, [one.clone() for one in self.flat]
        self.params = [torch.nn.Parameter(one) for one in param]
        for one, gradient in zip(self.params, grad):
            one.grad = gradient
        self._right = [torch.empty_like(param) for _ in range(3)]
        beta1, beta2 = self.settings["betas"]
        for some in (slice(i, i + 1) for i in range(count)) if each > 1 << 22 else rows_of(self.sizes, 1 << 24):
            p, m, v, g = (one[some].double() for one in (*self.kept, grad))
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g.square()
            root = (v / (1 - beta2**2)).sqrt_() + self.settings["eps"]
            right = p * (1 - self.settings["lr"] * self.settings["weight_decay"]) - self.settings["lr"] / (1 - beta1**2) * m / root
            for out, one in zip(self._right, (right, m, v)):
                out[some] = one

    def expected(self, direction):
        return self._right

    def bytes(self, direction):
        return 7 * 4 * math.prod(self.sizes)

    def stepping(self, optimizer):
        """Always the second step, from the same averages: those of all optimizers are the same memory."""
        optimizer.step()
        for at, one in enumerate(self.params):
            state = optimizer.state[one]
            state["exp_avg"], state["exp_avg_sq"] = (flat[at] for flat in self.flat[1:])
        counts = list({id(count): count for count in (optimizer.state[one]["step"] for one in self.params)}.values())  # ours are shared

        def prepare():
            for x, right in zip(self.flat, self.kept):
                x.data.copy_(right)
            torch._foreach_zero_(counts)
            torch._foreach_add_(counts, 1.0)

        def run():
            optimizer.step()
            return tuple(one.data for one in self.flat)

        return Call(run, prepare)

    def ours(self, direction):
        return {"": self.stepping(rt.AdamW(self.params, **self.settings))}

    def peers(self, direction, peers):
        if not peers.torch:
            return {}
        made = torch.optim.AdamW
        return {"torch fused": lambda: self.stepping(made(self.params, fused=True, **self.settings)),
                "torch foreach": lambda: self.stepping(made(self.params, foreach=True, **self.settings))}


def quantised(x):
    """Codes of 8 bits with a scale for 128 columns of a row, as models write it."""
    groups = x.float().unflatten(1, (-1, 128))
    scale = groups.abs().amax(-1) / 448
    return (groups / scale[..., None]).flatten(1).to(torch.float8_e4m3fn), scale


class Quantise(Work):
    name, directions = "quantise", ("one", "both")  # orientations, 1 x 128
    shapes, tiny = ("16384x7168",), ("256x384",)
    ops = {"one": ("quantize",), "both": ("quantize",)}

    def __init__(self, shape, device):
        super().__init__(shape, device)
        self.inputs = (self.normal(*self.sizes),)

    def bytes(self, direction):
        times = 1 if direction == "one" else 2
        return math.prod(self.sizes) * (2 + times * (1 + 4 / 128))

    def ours(self, direction):
        config = rt.QuantConfig(granularity="blockwise")

        def run(x):
            found = rt.quantize(x, config, transpose=direction == "both")
            return (found.q, found.scale) if direction == "one" else (found.q, found.scale, found.q_t, found.scale_t)

        return {"": forward(run, *self.inputs)}

    def peers(self, direction, peers):
        if peers.compile is None:
            return {}

        def both(x):
            q, scale = quantised(x.t())
            return *quantised(x), q.contiguous(), scale.contiguous()

        return {"compile": lambda: forward(peers.compile(quantised if direction == "one" else both), *self.inputs)}

    def worst(self, direction, results):
        """Scales to float32, and codes to the half of a step at which they stand for x."""
        worst = 0.0
        for at, x in enumerate([self.inputs[0], self.inputs[0].t()][: 1 if direction == "one" else 2]):
            codes, scale = results[2 * at], results[2 * at + 1]
            scale = scale if scale.shape[0] == x.shape[0] else scale.t()  # ours are a row for each group of columns
            for rows in rows_of(x.shape):
                groups = x[rows].double().unflatten(1, (-1, 128))
                right = groups.abs().amax(-1) / 448
                factor = scale[rows].double()
                step = groups.abs() * 2**-4 + factor[..., None] * 2**-10
                back = codes[rows].double().unflatten(1, (-1, 128)) * factor[..., None]
                errors = ((factor - right).abs() / (right * 2**-22), (back - groups).abs() / (step * (1 + 2**-20)))
                for one in errors:
                    ratio = one.max().item()
                    worst = max(worst, math.inf if math.isnan(ratio) else ratio)
        return worst


WORKS = (RmsNorm, LayerNorm, Softmax, LogSoftmax, LogSumExp, Embedding, EmbeddingUniform, Permute, Unpermute, SwiGlu, Rope, RopeNorm, CrossEntropy, AdamW, Quantise)

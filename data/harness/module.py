# What is right is @REFERENCE_FILE_NAME@:@REFERENCE_NAME@ in float64, from copies of the operands that the kernel never sees. A shape is what
# get_inputs takes, or the sizes of a reference in C++. An element may be off by what one rounding of every operand does to
# the reference, times the root of how many numbers are added up, and by what the reference itself is off in the working type.
import ctypes
import functools
import importlib.util
import inspect
import json
import pathlib
import random
import subprocess
import tempfile

REFERENCE = @REFERENCE_FILE@, @REFERENCE@  # file; class or function
CAST = @CAST@  # whether floating-point operands and parameters are made DTYPE; otherwise they are as the reference has them
LIBRARY = @LIBRARY@  # what the build makes of a kernel in C++, CUDA or HIP; "" for one of Python
SIZES, INPUTS, OUTPUTS, SUMS, FLOP = @SIGNATURE@  # of a reference in C++
# Looks at what rounding of the operands does: usually, and before an element is called wrong. Two are next to nothing by chance for one
# row in a few hundred.
SHAKES, CLOSE_SHAKES = 2, 16
UNIT, SCALE = "GB/s", 1e9
COLUMNS = ["label", "Check", "Forward GB/s", "Forward GB/s_stddev", "Backward GB/s", "Backward GB/s_stddev",
           "Forward Time (ms)", "Backward Time (ms)", "out_snr", "dx_snr"]
if not BACKWARD:
    COLUMNS = ["label", "Check", "Forward GB/s", "Forward GB/s_stddev", "Forward Time (ms)", "out_snr"]
EDGE_SHAPES = []
torch.backends.cudnn.allow_tf32 = False  # the yardstick; a kernel may set it


class Refused(Exception):
    """Why the reference cannot judge."""


def seeded(*key):
    """Every generator that a reference may draw from."""
    number = int.from_bytes(hashlib.sha256("/".join(map(str, key)).encode()).digest()[:4], "big")
    torch.manual_seed(number)
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number)


def ready(one):
    """A tensor as a kernel gets it; what is no tensor (a scalar) stays as it is."""
    if not torch.is_tensor(one):
        return one
    one = one.detach().to(DEVICE)
    return (one.to(DTYPE) if CAST and one.is_floating_point() else one).contiguous().clone()


def wide(one):
    return one.double() if torch.is_tensor(one) and one.is_floating_point() else one


def with_sizes(function, shape):
    """Calls get_inputs or get_init_inputs, which may take the sizes of the shape or none."""
    return list(function(*shape) if inspect.signature(function).parameters else function())


def shaken(one, stream):
    """One rounding of the sums in every element, in double."""
    if not one.is_floating_point():
        return one
    noise = 2 * torch.rand(one.shape, generator=stream, dtype=torch.float64) - 1
    return one.double() * (1 + ROUNDING * noise.to(one.device))


@functools.cache
def reference_module():
    """The reference's file, under its own name; it is frozen with the campaign, unlike the kernel's."""
    spec = importlib.util.spec_from_file_location(pathlib.Path(REFERENCE[0]).stem, REFERENCE[0])
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(spec.name, module)
    spec.loader.exec_module(module)
    return module


class TorchReference:
    """A class with get_inputs and get_init_inputs beside it, or a function of tensors with get_inputs."""

    def __init__(self, shape, seed, label):
        module = reference_module()
        self.shape, self.key = shape, (seed, label)
        self.model = self.made(getattr(module, REFERENCE[1]))
        drawn = self.draw("scalars")
        self.scalars = [None if torch.is_tensor(one) else one for one in drawn]
        is_module = isinstance(self.model, torch.nn.Module)
        self.names = list(self.model.state_dict()) if is_module else []
        self.parameters = [one.detach().clone() for one in self.model.state_dict().values()] if is_module else []
        self.trained = [name for name, one in self.model.named_parameters() if one.requires_grad] if is_module else []

    def made(self, entry):
        """An instance of a class, with the parameters that the seed gives; a function as it is."""
        if not isinstance(entry, type):
            return entry
        make = getattr(reference_module(), "get_init_inputs", lambda: [])
        seeded("init", *self.key)
        arguments = with_sizes(make, self.shape)
        seeded("parameters", *self.key)
        model = entry(*arguments)
        if not isinstance(model, torch.nn.Module):
            raise Refused(f"{entry.__name__} is no torch.nn.Module")
        model = model.to(DEVICE)
        return model.to(DTYPE) if CAST else model

    def draw(self, *key):
        seeded("inputs", *key)
        return [ready(one) for one in with_sizes(reference_module().get_inputs, self.shape)]

    def inputs(self, *key):
        drawn = self.draw(*key)
        return [one for one in drawn if torch.is_tensor(one)]

    def merged(self, tensors):
        """The arguments of a call: tensors, with the scalars at their places."""
        rest = iter(tensors)
        return [next(rest) if one is None else one for one in self.scalars]

    def run(self, inputs, parameters):
        arguments = self.merged(inputs)
        if not isinstance(self.model, torch.nn.Module):
            return sequence(self.model(*arguments))
        return sequence(torch.func.functional_call(self.model, dict(zip(self.names, parameters)), tuple(arguments)))

    def plain(self, inputs, parameters):
        return self.run(inputs, parameters)

    def sums(self):
        """How many elements of one operand an element of an output depends on, at most, of some that are looked at."""
        inputs = [wide(one) for one in self.inputs("sums")]
        owned = {name: wide(one).clone() for name, one in zip(self.names, self.parameters)}
        leaves = [one for one in inputs if one.is_floating_point()] + [owned[name] for name in self.trained]
        for one in leaves:
            one.requires_grad_(True)
        most = 1
        for out in self.run(inputs, list(owned.values())):
            if not out.requires_grad:
                most = max([most, *(one.numel() for one in leaves)])  # an index, or a function without a gradient
                continue
            flat = out.flatten()
            for at in {0, flat.numel() // 2, flat.numel() - 1}:
                found = torch.autograd.grad(flat[at], leaves, retain_graph=True, allow_unused=True)
                most = max([most, *(int(one.count_nonzero()) for one in found if one is not None)])
        return most

    def input_names(self):
        return [f"in{number}" for number in range(len(self.scalars))]

    def output_names(self, count):
        return ["out"] if count == 1 else [f"out{number}" for number in range(count)]

    def size_names(self):
        drawn = self.merged(self.inputs("sizes"))
        return [f"{name}_{at}" for name, one in zip(self.input_names(), drawn) if torch.is_tensor(one) for at in range(one.dim())]

    def flop(self, inputs):
        from torch.utils.flop_counter import FlopCounterMode
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            self.run(inputs, [wide(one) for one in self.parameters])
        return counter.get_total_flops()


class CReference:
    """A function of C++ in double, compiled for this process alone."""
    names, parameters, trained = [], [], []

    def __init__(self, shape, seed, label):
        if len(shape) != len(SIZES):
            raise Refused(f"the shape {shape} has {len(shape)} sizes; {REFERENCE[1]} takes {' '.join(SIZES)}")
        self.sizes = dict(zip(SIZES, shape))
        self.scalars = [None] * len(INPUTS)
        self.function = reference_function()

    def size(self, dims):
        return [self.sizes[name] for name in dims]

    def inputs(self, *key):
        stream = generator(*key)
        drawn = [(torch.rand(self.size(dims), generator=stream, dtype=torch.float64), low, high) for _, dims, low, high in INPUTS]
        return [(low + (high - low) * one).to(DTYPE).to(DEVICE) for one, low, high in drawn]

    def merged(self, tensors):
        return list(tensors)

    def run(self, inputs, parameters):
        outputs = [torch.full(self.size(dims), math.nan, dtype=torch.float64) for _, dims in OUTPUTS]
        operands = [one.detach().to("cpu", torch.float64).contiguous() for one in inputs]
        pointers = [ctypes.c_void_p(one.data_ptr()) for one in [*operands, *outputs]]
        self.function(*pointers, *[ctypes.c_int64(self.sizes[name]) for name in SIZES])
        for one, given in zip(operands, inputs):
            if given.dtype == torch.float64:
                given.copy_(one)  # what it changes must show
        return [one.to(DEVICE) for one in outputs]

    def plain(self, inputs, parameters):
        return [one.to(DTYPE) for one in self.run([one.double() for one in inputs], parameters)]

    def sums(self):
        return math.prod(self.size(SUMS)) if SUMS else max(math.prod(self.size(dims)) for _, dims, _, _ in INPUTS)

    def input_names(self):
        return [name for name, *_ in INPUTS]

    def output_names(self, count):
        return [name for name, _ in OUTPUTS]

    def size_names(self):
        return SIZES

    def flop(self, inputs):
        return math.prod(self.sizes[word] if word in self.sizes else float(word) for word in FLOP) if FLOP else 0


@functools.cache
def reference_function():
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/reference.so"
        command = [os.environ.get("CXX", "c++"), "-std=c++17", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-include",
                   "reference_signature.h", "-I.", "-o", library, REFERENCE[0]]
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode:
            raise Refused(f"{REFERENCE[0]} does not compile: {made.stderr.strip()[:2000]}")
        function = getattr(ctypes.CDLL(library), REFERENCE[1])
    function.restype = None
    return function


@functools.cache
def reference_of(shape, seed, label):
    return (CReference if REFERENCE[0].endswith(".cpp") else TorchReference)(shape, seed, label)


def evaluated(reference, run, inputs, parameters, gradients):
    """Outputs, then the gradients of the inputs and of the trained parameters, where they are asked for."""
    floats = [one.detach().clone() for one in inputs]
    owned = {name: one.detach().clone() for name, one in zip(reference.names, parameters)}
    if not BACKWARD:
        with torch.no_grad():
            return list(run(floats, list(owned.values())))
    leaves = [one.requires_grad_(True) for one in floats if one.is_floating_point()]
    leaves += [owned[name].requires_grad_(True) for name in reference.trained]
    outputs = run([one.clone() for one in floats], list(owned.values()))
    ends = [one for one in outputs if one.is_floating_point()]
    return [one.detach() for one in outputs] + list(torch.autograd.grad(ends, leaves, gradients))


def of_rows(error):
    """The root of the mean square of each row, for each of its elements."""
    return error.square().mean(-1, keepdim=True).sqrt().expand_as(error) if error.dim() else error.abs()


def allowed_error(exact, looks, plain, dtype, sums):
    moved = torch.stack([(one.double() - exact.double()).abs() for one in looks])
    if not dtype.is_floating_point:
        return moved.amax(0)  # an index or a count: what rounding of the operands leaves undecided may be either
    noise = moved.square().mean(0).sqrt()
    noise = torch.maximum(noise, of_rows(noise))
    rounding = 4 * torch.finfo(dtype).eps / 2 * exact.abs() + torch.finfo(dtype).tiny
    return rounding + 4 * math.sqrt(sums) * noise + 8 * of_rows(plain.double() - exact)


@functools.cache
def sums_of(shape):
    """How many numbers an element of an output adds up."""
    return reference_of(shape, "shape", "of").sums()


def results_of(case, inputs, gradients, shakes=SHAKES):
    seed, label = case.key[0], case.key[1]
    reference = reference_of(case.shape, seed, label)
    stream = generator("shaken", *case.key)
    parameters = [wide(one) for one in reference.parameters]
    exact = evaluated(reference, reference.run, inputs, parameters, gradients)
    looks = [evaluated(reference, reference.run, [shaken(one, stream) for one in inputs],
                       [shaken(one, stream) for one in parameters], gradients) for _ in range(shakes)]
    plain = evaluated(reference, reference.plain, case.own_inputs, reference.parameters, case.own_gradients)
    sums = sums_of(case.shape)
    widest = max([1, *(math.prod(size) for size, _ in case.outputs)])
    rows = []
    for number, (one, dtype) in enumerate(zip(exact, case.dtypes())):
        is_output = number < len(case.outputs)
        name = f"out {number}" if is_output and len(case.outputs) > 1 else "out" if is_output else f"dx {number - len(case.outputs)}"
        several = [look[number] for look in looks]
        rows.append((name, one.double(), allowed_error(one.double(), several, plain[number], dtype, sums if is_output else max(sums, widest))))
    return rows


def closer_results_of(case):
    return results_of(case, [wide(one) for one in case.own_inputs], [one.double() for one in case.own_gradients], CLOSE_SHAKES)


def gradient_tensors(case):
    reference = reference_of(case.shape, case.key[0], case.key[1])
    owned = dict(zip(reference.names, reference.parameters))
    return [one for one in case.own_inputs if one.is_floating_point()] + [owned[name] for name in reference.trained]


def inputs_of(shape, stream):
    number = int(torch.randint(1 << 40, (1,), generator=stream))
    return reference_of(shape, "shape", "of").inputs(number)


@functools.cache
def outputs_of(shape):
    reference = reference_of(shape, "shape", "of")
    with torch.no_grad():
        outputs = reference.plain(reference.inputs("sizes"), reference.parameters)
    return [(tuple(one.shape), one.dtype) for one in outputs]


class Kernel:
    """What is called with the tensors of a case: a function or module of Python, or a function of a library."""

    def __init__(self, reference, call, parameters, behind=()):
        self.reference, self.call, self.parameters, self.behind = reference, call, parameters, behind

    def __call__(self, *tensors):
        return self.call(*self.reference.merged(tensors), *self.behind)


class Library:
    """extern "C" NAME(inputs, parameters, outputs, sizes[, stream]), as signature.h declares it."""

    def __init__(self, reference, shape):
        library = ctypes.CDLL(os.path.abspath(LIBRARY))
        if not hasattr(library, KERNEL[1]):
            raise RuntimeError(f"{LIBRARY} has no function {KERNEL[1]} with the parameters that signature.h declares")
        self.function = getattr(library, KERNEL[1])
        self.function.restype = None
        self.outputs = outputs_of(shape)
        self.sizes = [ctypes.c_int64(one) for one in sizes_of(reference, shape)]

    def __call__(self, *operands):
        outputs = [torch.empty(size, dtype=dtype, device=DEVICE) for size, dtype in self.outputs]
        words = [argument(one) for one in [*operands, *outputs]] + self.sizes
        if DEVICE == "cuda":
            words.append(ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        self.function(*words)
        return outputs


def argument(one):
    if torch.is_tensor(one):
        return ctypes.c_void_p(one.data_ptr())
    return ctypes.c_double(one) if isinstance(one, float) else ctypes.c_int64(int(one))


def sizes_of(reference, shape):
    """The whole numbers at the end of the signature: a C++ reference's own, or every dimension of every input in turn."""
    if isinstance(reference, CReference):
        return list(shape)
    return [size for one in reference.inputs("sizes") for size in one.shape]


def kernel_of(shape, label, seed):
    reference = reference_of(shape, seed, label)
    if LIBRARY:
        return Kernel(reference, Library(reference, shape), [], [one.clone() for one in reference.parameters])
    entry = getattr(importlib.import_module(KERNEL[0]), KERNEL[1])
    own = [one.clone() for one in reference.parameters]
    if not isinstance(entry, type):
        trained = [one.requires_grad_(BACKWARD) for name, one in zip(reference.names, own) if name in reference.trained]
        return Kernel(reference, entry, trained, own)
    model = reference.made(entry)
    model.load_state_dict(dict(zip(reference.names, own)))  # the names must be the reference's
    named = dict(model.named_parameters())
    return Kernel(reference, model, [named[name].requires_grad_(BACKWARD) for name in reference.trained])


def parameters_of(kernel):
    return kernel.parameters if BACKWARD else []


def work_of(shape):
    """Bytes: inputs and parameters are read and outputs written; backward these and the outputs' gradients are read and
    the gradients written."""
    reference = reference_of(shape, "shape", "of")
    read = sum(one.numel() * one.element_size() for one in [*reference.inputs("sizes"), *reference.parameters])
    written = sum(math.prod(size) * torch.empty((), dtype=dtype).element_size() for size, dtype in outputs_of(shape))
    return read + written, 2 * read + written


def shape_columns(shape):
    return {}


# --- whether the reference can judge ---------------------------------------------------------------------------------


def same(left, right):
    return left.shape == right.shape and left.dtype == right.dtype and torch.equal(left, right)


def check_inputs(reference, label):
    if isinstance(reference, CReference):
        return
    first, again, other = reference.draw("a"), reference.draw("a"), reference.draw("b")
    kinds = [[(type(one), *([one.shape, one.dtype] if torch.is_tensor(one) else [one])) for one in drawn] for drawn in (first, again, other)]
    if kinds[0] != kinds[2]:
        raise Refused(f"{label}: get_inputs gives other shapes, dtypes or scalars each time: {kinds[0]}, then {kinds[2]}")
    pairs = [(one, two, three) for one, two, three in zip(first, again, other) if torch.is_tensor(one)]
    if not pairs:
        raise Refused(f"{label}: get_inputs gives no tensor")
    if kinds[0] != kinds[1] or not all(same(one, two) for one, two, _ in pairs):
        raise Refused(f"{label}: get_inputs is random without a seed: under one seed of torch, random and numpy it gave other "
                      "numbers the second time. Draw with torch.rand, or with generators that these seeds govern")
    if all(same(one, three) for one, _, three in pairs):
        raise Refused(f"{label}: get_inputs gives the same numbers under every seed, so a kernel could keep its answers. Draw "
                      "with torch.rand, and set no seed in the file")
    for number, one in enumerate(first):
        if torch.is_tensor(one) and one.is_floating_point() and not bool(one.isfinite().all()):
            raise Refused(f"{label}: input {number} holds NaN or infinity")


def check_output(label, number, one):
    if type(one) is not torch.Tensor:
        raise Refused(f"{label}: output {number} is a {type(one).__name__}, and must be a torch.Tensor")
    if one.is_complex() or one.is_floating_point() and one.dtype != torch.float64:
        raise Refused(f"{label}: it does not run in float64: output {number} is {one.dtype} although all that it got is "
                      "float64; it makes or casts numbers inside. Take their type from the inputs")
    if one.is_floating_point() and not bool(one.isfinite().all()):
        kind = "NaN" if bool(one.isnan().any()) else "infinity"
        raise Refused(f"{label}: output {number} holds {kind} in float64; give inputs from its domain")


def in_float64(reference, label, inputs, parameters, seed):
    seeded(seed)
    kept = [one.clone() for one in [*inputs, *parameters]]
    try:
        with torch.no_grad():
            outputs = sequence(reference.run(inputs, parameters))
    except Refused:
        raise
    except Exception as error:  # whatever a module raises
        raise Refused(f"{label}: it does not run in float64: {type(error).__name__}: {error}") from error
    for number, (now, then) in enumerate(zip([*inputs, *parameters], kept)):
        if number < len(inputs) and not same(now, then):
            raise Refused(f"{label}: it changes input {number} in place, and there would be nothing to compare with")
        name = reference.names[number - len(inputs)] if number >= len(inputs) else ""
        if name in reference.trained and not same(now, then):
            raise Refused(f"{label}: it changes its parameter {name} in place")
    for number, one in enumerate(outputs):
        check_output(label, number, one)
    return outputs


def facts_of(label, shape):
    """What the reference gives for a shape, once nothing speaks against it as a judge."""
    reference = reference_of(shape, "shape", "of")
    check_inputs(reference, label)
    drawn = reference.inputs("facts")
    inputs, parameters = [wide(one) for one in drawn], [wide(one) for one in reference.parameters]
    first = in_float64(reference, label, [one.clone() for one in inputs], [one.clone() for one in parameters], 1)
    second = in_float64(reference, label, [one.clone() for one in inputs], [one.clone() for one in parameters], 2)
    if len(first) != len(second) or not all(same(one, two) for one, two in zip(first, second)):
        raise Refused(f"{label}: the reference is not deterministic: two runs on the same numbers differ. Dropout and other "
                      "draws inside it must be off: self.eval() at the end of __init__")
    case = Case(shape, ("shape", "of", 0))
    try:
        rows = case.exact()
    except RuntimeError as error:
        raise Refused(f"{label}: it has no gradient, or does not run in {DTYPE}: {error}; see --backward") from error
    for number, ((size, dtype), one) in enumerate(zip(case.outputs, first)):
        if not dtype.is_floating_point and dtype != one.dtype or tuple(one.shape) != size:
            raise Refused(f"{label}: output {number} is {dtype} {size}, and {one.dtype} {tuple(one.shape)} in float64")
    if any(not math.isfinite(float(allowed.sum())) for _, _, allowed in rows):
        raise Refused(f"{label}: in its working type it overflows where float64 does not")
    words = [one if torch.is_tensor(one) else None for one in reference.merged(drawn)]
    names = reference.input_names()
    return {"inputs": [described(name, one) if one is not None else described_scalar(name, reference.scalars[at])
                       for at, (name, one) in enumerate(zip(names, words))],
            "parameters": [described(name, one) for name, one in zip(reference.names, reference.parameters)],
            "outputs": [{"name": name, "dtype": str(dtype).split(".")[-1], "shape": list(size)}
                        for name, (size, dtype) in zip(reference.output_names(len(case.outputs)), case.outputs)],
            "bytes": work_of(shape)[0], "flop": float(reference.flop(inputs)), "sums": sums_of(shape),
            "least_snr_db": least_snr_db(rows),
            "largest_error": max(float(allowed.max()) for _, _, allowed in rows if allowed.numel())}


def least_snr_db(rows):
    """Of a kernel that is off by all that is allowed, everywhere; 0 where nothing may be off."""
    columns = {}
    for name, exact, allowed in rows:
        columns.setdefault(name.split()[0], []).append((float(allowed.square().sum()), float(exact.square().sum())))
    totals = [tuple(map(sum, zip(*squares))) for squares in columns.values()]
    return min([snr_db(*one) for one in totals if all(part > 0 for part in one)], default=0.0)


def described(name, one):
    return {"name": name, "dtype": str(one.dtype).split(".")[-1], "shape": list(one.shape)}


def described_scalar(name, one):
    if type(one) not in (int, float, bool):
        raise Refused(f"get_inputs gives a {type(one).__name__}: tensors and numbers are possible")
    return {"name": name, "dtype": "float" if isinstance(one, float) else "int", "shape": [], "scalar": float(one)}


def describe():
    """The operands, the work and the error bounds of every shape, as JSON, or why the reference cannot judge."""
    try:
        if not REFERENCE[0].endswith(".cpp"):
            for name in (REFERENCE[1], "get_inputs"):
                if not callable(getattr(reference_module(), name, None)):
                    raise Refused(f"{REFERENCE[0]} has no {name}")
        shapes = {label: facts_of(label, shape) for label, shape in SHAPES.items()}
        first = next(iter(SHAPES.values()))
        print(json.dumps({"sizes": reference_of(first, "shape", "of").size_names(), "shapes": shapes}))
    except Refused as refused:
        print(json.dumps({"problem": str(refused)}))
        return 1
    except Exception as error:  # of the reference's own code: its import, its constructor, its get_inputs
        print(json.dumps({"problem": f"{REFERENCE[0]}: {type(error).__name__}: {error}"}))
        return 1
    return 0


ACTIONS["describe"] = describe

"""Recipes: how each of the three products of a layer is made, under a name or as an object."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, Union

import torch

from .config import QuantConfig

PRODUCTS = ("y", "dx", "dw")


def _known(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    """ValueError for a name that is not in ``known``, with the nearest one and all there are."""
    there = list(known)
    for name in names:
        if name not in there:
            near = difflib.get_close_matches(name, there, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ValueError(f"{what} {name!r} is unknown{hint}; use one of {', '.join(map(repr, there))}")


@dataclass(frozen=True)
class DelayedScaling:
    """Scales from the largest elements of earlier steps, instead of from the tensor that is quantised ("current" scaling).

        scale = 2^margin max(a_1, ..., a_history) / largest value of the format        ("latest": of a_1 alone)

    with a_i the largest magnitude of the i-th last step, over its micro-batches and the ranks. x, w and dy of each layer have a history
    each, in the layer's buffer ``amax_history`` float32 [3, history], newest first, 0 before there are so many. As long as a history
    is all 0 the scale is the current one.

    history    steps that are remembered, 1 and up
    algorithm  "max" or "latest"
    margin     binary orders of magnitude that are kept free above the largest element, 0 and up
    reduce     whether histories are maxima over the ranks of torch.distributed's default group, where it is initialised

    A step ends with that of a torch.optim.Optimizer that has a parameter of the layer, or with ``update_scales``. A tensor with
    an infinity or NaN does not count, and a step in which none counts leaves the history as it is. Values beyond the largest that a
    scale lets the format hold are clipped to it; infinities and NaN stay.
    """

    history: int = 16
    algorithm: Literal["max", "latest"] = "max"
    margin: int = 0
    reduce: bool = True

    def __new__(cls, *args: Any, **given: Any) -> DelayedScaling:
        _known("DelayedScaling: field", given, cls.__dataclass_fields__)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        _known("DelayedScaling: algorithm", [self.algorithm], ("max", "latest"))
        if self.history < 1 or self.margin < 0:
            raise ValueError(f"DelayedScaling: history={self.history}, margin={self.margin}; give history >= 1 and margin >= 0")


@dataclass(frozen=True)
class Recipe:
    """How the three products of a layer are made, each apart; None is the product of high precision (``gemm``).

    y        y [m, n] = x [m, k] w^T [k, n]: formats and scales of x and w, both of the config's forward format
    dx       dx [m, k] = dy [m, n] w [n, k]: dy of the config's gradient format, w of its forward format
    dw       dw [n, k] = dy^T [n, m] x [m, k]: dy and x alike
    delayed  scales from earlier steps (granularity "tensorwise" only); None: from the tensor itself
    pad_rows m is filled up to a multiple of this with rows of 0, whose results are dropped: equal results, at the price of a copy of
             x and of dy. None: 16 on a GPU, whose matrix units want it, and 1 on a CPU
    pad_features
             n and k are filled up to a multiple of this with features of 0, whose results are dropped: equal results, at the price of
             copies of w, x and y. None: as they are. Weights that are codes are not padded
    name     for reports

    An operand that two products take with equal format, granularity and scales is read once for both. Without ``delayed`` and
    padding, and with one config for all products, a recipe is that QuantConfig. ValueError for unknown fields.
    """

    y: QuantConfig | None = QuantConfig()
    dx: QuantConfig | None = QuantConfig()
    dw: QuantConfig | None = QuantConfig()
    delayed: DelayedScaling | None = None
    pad_rows: int | None = None
    pad_features: int | None = None
    name: str = ""

    def __new__(cls, *args: Any, **given: Any) -> Recipe:
        _known("Recipe: field", given, cls.__dataclass_fields__)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for product in PRODUCTS:
            config = getattr(self, product)
            if config is not None and not isinstance(config, QuantConfig):
                raise ValueError(f"Recipe: {product}={config!r}; give a QuantConfig, or None for a product of high precision")
            if self.delayed is not None and config is not None and config.granularity != "tensorwise":
                raise ValueError(
                    f"Recipe: {product} has granularity={config.granularity!r}, and delayed scaling has one scale for a tensor; use "
                    "QuantConfig(granularity='tensorwise'), or leave delayed out"
                )
            if self.delayed is not None and config is not None and config.rounding != "nearest":
                raise ValueError(f"Recipe: {product} has rounding={config.rounding!r}; delayed scaling rounds to nearest alone")
        if self.delayed is not None and not isinstance(self.delayed, DelayedScaling):
            raise ValueError(f"Recipe: delayed={self.delayed!r}; give a DelayedScaling(), or None for scales of the tensor itself")
        for field in ("pad_rows", "pad_features"):
            multiple = getattr(self, field)
            if multiple is not None and multiple < 1:
                raise ValueError(f"Recipe: {field}={multiple}; give a whole number from 1 up, or None")

    def __str__(self) -> str:
        words = {product: _words(getattr(self, product)) for product in PRODUCTS}
        alike = self.y == self.dx == self.dw
        made = words["y"] if alike else "; ".join(f"{product} {its_words}" for product, its_words in words.items())
        late = f"; delayed, {self.delayed.algorithm} of {self.delayed.history}" if self.delayed else ""
        padded = f"; rows padded to {self.pad_rows}" if self.pad_rows else ""
        padded += f"; features padded to {self.pad_features}" if self.pad_features else ""
        return f"{self.name + ': ' if self.name else ''}{made}{late}{padded}"


Config = Union[QuantConfig, Recipe]  # what an Fp8Linear has
RecipeLike = Union[str, QuantConfig, Recipe, None]


def _words(config: QuantConfig | None) -> str:
    if config is None:
        return "in high precision"
    scales = f", scales {config.scale_dtype}" if config.scale_dtype is not None else ""
    rounding = ", stochastic" if config.rounding == "stochastic" else ""
    sums = f", sums {config.sums}" if config.sums is not None else ""
    return f"{config.format}, {config.granularity}{scales}{rounding}{sums}"


def describe(config: Config | None) -> str:
    """A recipe in a few words, for reports."""
    if config is None:
        return "gemm"
    return f"gemm_fp8: {_words(config) if isinstance(config, QuantConfig) else config}"


_ROWS = QuantConfig("e4m3", "rowwise", torch.float8_e8m0fnu)
_HYBRID = QuantConfig("hybrid", "tensorwise")
_BLOCKS, _MX = QuantConfig("e4m3", "blockwise"), QuantConfig("e4m3", "mx")

_NAMED: dict[str, Recipe] = {
    "high_precision": Recipe(None, None, None),
    "tensorwise": Recipe(_HYBRID, _HYBRID, _HYBRID),
    "delayed": Recipe(_HYBRID, _HYBRID, _HYBRID, DelayedScaling()),
    "rowwise": Recipe(_ROWS, _ROWS, _ROWS),
    "rowwise_with_gw_hp": Recipe(_ROWS, _ROWS, None),
    "blockwise": Recipe(_BLOCKS, _BLOCKS, _BLOCKS),
    "mx": Recipe(_MX, _MX, _MX),
}


def recipes() -> dict[str, Recipe]:
    """The named recipes.

    "high_precision"      gemm in all three products
    "tensorwise"          one scale for a tensor; e4m3 forward, e5m2 for dy
    "delayed"             the same, with scales from the 16 last steps (``DelayedScaling``)
    "rowwise"             one scale for a row of each operand along the sum, powers of two; e4m3
    "rowwise_with_gw_hp"  the same, and the weight gradient in high precision
    "blockwise"           1 x 128 of x and dy, 128 x 128 of w; e4m3
    "mx"                  1 x 32 with E8M0 scales; e4m3
    """
    return {name: replace(made, name=name) for name, made in _NAMED.items()}


def recipe(name: str, **changes: Any) -> Recipe:
    """A named recipe, with fields of it changed: ``recipe("tensorwise", dw=None)``, ``recipe("rowwise", sums="promoted")``.

    ``changes`` are fields of ``Recipe``, and ``sums`` for those of all its 8-bit products. ValueError with the list there is, for a
    name or a field that is unknown.
    """
    _known("recipe:", [name], _NAMED)
    _known("recipe: field", changes, [*(field for field in Recipe.__dataclass_fields__ if field != "name"), "sums"])
    made = replace(_NAMED[name], **{key: value for key, value in changes.items() if key != "sums"})
    if "sums" in changes:
        configs = {product: getattr(made, product) for product in PRODUCTS}
        made = replace(made, **{key: replace(each, sums=changes["sums"]) for key, each in configs.items() if each is not None})
    return replace(made, name=name if not changes else f"{name} with {', '.join(changes)} changed")


def as_config(given: RecipeLike) -> Config | None:
    """What a layer keeps: a QuantConfig where one says all, None for three products of high precision, else the Recipe."""
    if isinstance(given, str):
        if given not in _CONFIGS:
            _known("recipe:", [given], _CONFIGS)
        return _CONFIGS[given]
    if given is None or isinstance(given, QuantConfig):
        return given
    if not isinstance(given, Recipe):
        raise ValueError(
            f"{given!r} is no recipe; give a Recipe, a QuantConfig, None for products of high precision, or one of the names "
            f"{', '.join(map(repr, _NAMED))}"
        )
    if given.delayed is None and given.pad_rows is None and given.pad_features is None and given.y == given.dx == given.dw:
        return given.y
    return given


_CONFIGS = {name: as_config(replace(made, name=name)) for name, made in _NAMED.items()}


def as_recipe(config: Config) -> Recipe:
    return config if isinstance(config, Recipe) else Recipe(config, config, config)


def delayed_of(config: object) -> DelayedScaling | None:
    return config.delayed if isinstance(config, Recipe) else None

#include "evaluate/arena.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "numerics/convert.h"

namespace ridge::evaluate {
namespace {

using record::Defence;
using record::Outcome;

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kJitterLines = 64;  // a random offset of up to this many cache lines before every operand
constexpr std::int64_t kPadBytes = 64;
constexpr std::size_t kGlances = 64;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kJitterPages = 4;  // where an operand has to lie at the edge of a page
static_assert(kJitterPages * kPage >= kAlignment * kJitterLines);

std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

TensorView shape_view(const ops::OperandSpec& spec, RowPadding padding) {
  TensorView view;
  view.dtype = spec.dtype;
  view.rank = static_cast<int>(spec.shape.size());
  std::int64_t stride = 1;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    const auto at = static_cast<std::size_t>(axis);
    view.shape[at] = spec.shape[at];
    view.stride[at] = stride;
    stride *= std::max<std::int64_t>(spec.shape[at], 1);
    if (axis == view.rank - 1 && view.rank > 1 && padding == RowPadding::kPadded) {
      stride += kPadBytes * 8 / size_bits(spec.dtype);
    }
  }
  return view;
}

std::size_t extent_bytes(const TensorView& view) {
  std::int64_t last = 0;
  for (int axis = 0; axis < view.rank; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    if (view.shape[at] == 0) return 0;
    last += (view.shape[at] - 1) * view.stride[at];
  }
  return size_bytes(view.dtype, last + 1);
}

// Calls take(first byte, bytes) for every contiguous run of elements of a view, relative to its start.
template <class Take>
void each_run(const TensorView& view, Take take) {
  if (view.element_count() == 0) return;
  if (view.rank == 0) return take(std::size_t{0}, size_bytes(view.dtype, 1));
  const std::int64_t columns = view.shape[static_cast<std::size_t>(view.rank - 1)];
  const std::int64_t rows = view.element_count() / columns;
  for (std::int64_t row = 0; row < rows; ++row) {
    take(size_bytes(view.dtype, numerics::element_offset(view, row * columns)), size_bytes(view.dtype, columns));
  }
}

}  // namespace

std::string index_text(const TensorView& view, std::int64_t element) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(view.rank));
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    const auto at = static_cast<std::size_t>(axis);
    index[at] = element % view.shape[at];
    element /= view.shape[at];
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

Layout make_layout(const ops::Problem& problem, RowPadding padding, measure::Coin& coin, const Defences& defences,
                   Edge edge) {
  const bool jitter = defences.on(Defence::kNewAddress);
  Layout layout;
  std::size_t at = 0, fenced = 0;  // behind the last operand; behind the pages it touches
  for (const ops::OperandSpec& spec : problem.operands) {
    Layout::Slot slot;
    slot.view = shape_view(spec, padding);
    slot.bytes = extent_bytes(slot.view);
    if (edge == Edge::kAnywhere) {
      slot.offset = round_up(at + kRedZone, kAlignment) + (jitter ? kAlignment * coin.below(kJitterLines) : 0);
    } else {
      const std::size_t first = round_up(at, kPage) + kPage + (jitter ? kPage * coin.below(kJitterPages) : 0);
      const std::size_t room = round_up(slot.bytes, kPage) - round_up(slot.bytes, kAlignment);
      slot.offset = first + (edge == Edge::kLast ? room : 0);
      layout.between.emplace_back(fenced, first - fenced);
      fenced = first + round_up(slot.bytes, kPage);
    }
    at = slot.offset + slot.bytes;
    layout.slots.push_back(slot);
  }
  layout.bytes = round_up(at + kRedZone, kPage);
  if (edge != Edge::kAnywhere) layout.between.emplace_back(fenced, layout.bytes - fenced);
  return layout;
}

std::size_t layout_bytes(const ops::Problem& problem) {
  std::size_t bytes = kRedZone;
  for (const ops::OperandSpec& spec : problem.operands) {
    bytes += (kJitterPages + 3) * kPage + extent_bytes(shape_view(spec, RowPadding::kPadded));
  }
  return round_up(bytes, kPage);
}

Operands::Operands(const ops::Problem& problem, Layout layout, measure::Coin& coin, const Defences& defences)
    : problem_(problem), defences_(defences), coin_(coin.next()) {
  poison_code_.resize(problem_.operands.size());
  move(std::move(layout));
}

void Operands::move(Layout layout) {
  layout_ = std::move(layout);
  shadow_.resize(layout_.bytes);
  for (std::size_t i = 0; i + 8 <= shadow_.size(); i += 8) {
    const std::uint64_t canary = coin_.next();
    std::memcpy(&shadow_[i], &canary, sizeof canary);
  }
  result_ = shadow_;
  output_ranges_.clear();
  for (std::size_t i = 0; i < problem_.operands.size(); ++i) {
    if (!problem_.operands[i].output) continue;
    const Layout::Slot& slot = layout_.slots[i];
    each_run(slot.view, [&](std::size_t first, std::size_t bytes) {
      if (!output_ranges_.empty() && output_ranges_.back().second == slot.offset + first) {
        output_ranges_.back().second += bytes;
      } else {
        output_ranges_.emplace_back(slot.offset + first, slot.offset + first + bytes);
      }
    });
  }
}

std::vector<TensorView> Operands::views(unsigned char* base) const {
  std::vector<TensorView> all;
  for (const Layout::Slot& slot : layout_.slots) {
    all.push_back(slot.view);
    all.back().data = base + slot.offset;
  }
  return all;
}

std::vector<TensorView> Operands::arena_views(unsigned char* arena) const { return views(arena); }

// Views are read-only by convention here; TensorView has no const form.
std::vector<TensorView> Operands::before() const { return views(const_cast<unsigned char*>(shadow_.data())); }

std::vector<TensorView> Operands::after() const {
  std::vector<TensorView> all = before();
  const std::vector<TensorView> results = views(const_cast<unsigned char*>(result_.data()));
  std::vector<TensorView> old;
  for (std::size_t i = 0; i < problem_.operands.size(); ++i) {
    if (!problem_.operands[i].output) continue;
    if (problem_.operands[i].read_write) old.push_back(all[i]);
    all[i] = results[i];
  }
  all.insert(all.end(), old.begin(), old.end());
  return all;
}

void Operands::poison(std::size_t index) {
  const Layout::Slot& slot = layout_.slots[index];
  const bool nan = calls_ % 2 == 1;
  const double value = (coin_.flip() ? 1.0 : -1.0) * (1.0 + static_cast<double>(coin_.below(1u << 20)) * 0x1p-20) *
                       std::ldexp(1.0, static_cast<int>(coin_.below(12)));
  const bool poisoned = defences_.on(Defence::kPoison);  // else zeros, as a fresh allocation has
  std::uint64_t code = 0;
  if (poisoned && is_integer(slot.view.dtype)) {
    code = coin_.next();
  } else if (poisoned) {
    code = numerics::encode(slot.view.dtype, nan ? std::numeric_limits<double>::quiet_NaN() : value);
  }
  poison_code_[index] = code;
  const int bits = size_bits(slot.view.dtype);
  const std::uint64_t byte_code = bits == 4 ? code | (code << 4) : code;
  const std::size_t width = bits == 4 ? 1 : static_cast<std::size_t>(bits) / 8;
  each_run(slot.view, [&](std::size_t first, std::size_t bytes) {
    for (std::size_t at = 0; at + width <= bytes; at += width) {
      std::memcpy(&shadow_[slot.offset + first + at], &byte_code, width);
    }
  });
}

void Operands::refresh(std::uint64_t seed, numerics::Family family) {
  measure::Coin seeds(seed);
  scalars_ = ops::draw_scalars(problem_, seed);
  std::vector<TensorView> all = views(shadow_.data());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (problem_.operands[i].output && !problem_.operands[i].read_write) {
      poison(i);
    } else {
      ops::fill_input(problem_.operands[i].fill, all[i], family, seeds.next());
    }
  }
  ++calls_;
  draw_glances();
}

void Operands::refresh_untimed(std::uint64_t seed) {
  refresh(seed);
  --calls_;
}

void Operands::alter(std::uint64_t seed) {
  measure::Coin coin(seed);
  const std::vector<TensorView> all = views(shadow_.data());
  std::vector<std::size_t> inputs;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ops::OperandSpec& spec = problem_.operands[i];
    const bool any = spec.fill.rule == ops::Fill::Rule::kNumbers;  // others would leave their rule
    if ((!spec.output || spec.read_write) && any && all[i].element_count() > 0) inputs.push_back(i);
  }
  if (inputs.empty()) return;
  const std::size_t chosen = inputs[coin.below(inputs.size())];
  const TensorView& view = all[chosen];
  const std::vector<double> values = numerics::to_doubles(view);
  const auto element = static_cast<std::int64_t>(coin.below(values.size()));
  const double old = values[static_cast<std::size_t>(element)];
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  // Its sign stays: a scale is never negative.
  const double size = largest == 0 ? 1 : std::abs(old) < largest / 2 ? 2 * largest : largest / 8;
  numerics::Rounding saturating;
  saturating.saturate = true;
  const std::uint64_t code = numerics::encode(view.dtype, std::copysign(size, old), saturating);
  const std::int64_t place = numerics::element_offset(view, element);
  const int bits = size_bits(view.dtype);
  unsigned char* const at = shadow_.data() + layout_.slots[chosen].offset + place * bits / 8;
  if (bits < 8) {
    const unsigned shift = place % 2 == 0 ? 0 : 4;
    *at = static_cast<unsigned char>((*at & ~(0xfu << shift)) | (code << shift));
  } else {
    std::memcpy(at, &code, static_cast<std::size_t>(bits) / 8);
  }
}

void Operands::draw_glances() {
  std::size_t bytes = 0;
  for (const auto& [first, end] : output_ranges_) bytes += end - first;
  glanced_at_.clear();
  for (std::size_t i = 0; bytes > 0 && i < kGlances; ++i) {
    std::size_t at = glances_.below(bytes);
    auto range = output_ranges_.begin();
    for (; at >= range->second - range->first; ++range) at -= range->second - range->first;
    glanced_at_.push_back(range->first + at);
  }
}

void Operands::publish(unsigned char* arena) const { std::memcpy(arena, shadow_.data(), shadow_.size()); }

void Operands::collect(const unsigned char* arena) {
  std::array<unsigned char, kGlances> seen{};
  for (std::size_t i = 0; i < glanced_at_.size(); ++i) seen[i] = arena[glanced_at_[i]];
  same_as_last_ = calls_ > 1 && !output_ranges_.empty();
  for (const auto& [first, end] : output_ranges_) {
    same_as_last_ = same_as_last_ && std::memcmp(&result_[first], arena + first, end - first) == 0;
  }
  std::memcpy(result_.data(), arena, result_.size());
  written_late_ = false;
  for (std::size_t i = 0; i < glanced_at_.size(); ++i) {
    written_late_ = written_late_ || seen[i] != result_[glanced_at_[i]];
  }
}

bool Operands::changed_since(const unsigned char* arena) const {
  return std::any_of(output_ranges_.begin(), output_ranges_.end(), [&](const auto& range) {
    return std::memcmp(&result_[range.first], arena + range.first, range.second - range.first) != 0;
  });
}

std::vector<unsigned char> Operands::output_bytes() const {
  std::vector<unsigned char> bytes;
  for (const auto& [first, end] : output_ranges_)
    bytes.insert(bytes.end(), &result_[first], &result_[first] + (end - first));
  return bytes;
}

// What lies at a byte that changed although no output element is there.
Failure Operands::locate(std::size_t at) const {
  const auto wrong = [&](Defence gate, std::string where) {
    return Failure{Outcome::kWrong, fmt::format("{} (byte 0x{:02x} became 0x{:02x})", where, shadow_[at], result_[at]),
                   gate};
  };
  for (std::size_t i = 0; i < layout_.slots.size(); ++i) {
    const Layout::Slot& slot = layout_.slots[i];
    const ops::OperandSpec& spec = problem_.operands[i];
    if (at < slot.offset || at >= slot.offset + slot.bytes) continue;
    const TensorView view = before()[i];
    for (std::int64_t element = 0; !spec.output && element < view.element_count(); ++element) {
      const std::size_t byte = slot.offset + size_bytes(view.dtype, numerics::element_offset(view, element));
      if (at < byte || at >= byte + static_cast<std::size_t>(std::max(1, size_bits(view.dtype) / 8))) continue;
      return wrong(Defence::kInputIntact, fmt::format("changed its input {}{}", spec.name, index_text(view, element)));
    }
    return wrong(Defence::kRowPadding,
                 fmt::format("wrote into the row padding of {}, {} bytes from its start", spec.name, at - slot.offset));
  }
  return wrong(Defence::kRedZone, "wrote " + nearest(at));
}

std::string Operands::nearest(std::size_t at) const {
  std::string text;
  std::size_t distance = std::numeric_limits<std::size_t>::max();
  for (std::size_t i = 0; i < layout_.slots.size(); ++i) {
    const Layout::Slot& slot = layout_.slots[i];
    const std::size_t end = slot.offset + slot.bytes;
    const std::size_t away = at >= end ? at - end : slot.offset - at;
    if (away >= distance) continue;
    distance = away;
    text = at >= end ? fmt::format("{} bytes past the end of {}", away + 1, problem_.operands[i].name)
                     : fmt::format("{} bytes before the start of {}", away, problem_.operands[i].name);
  }
  return text;
}

Verdict Operands::damage() const {
  std::size_t at = 0;
  const auto differs = [&](std::size_t end) -> Verdict {
    while (at < end && std::memcmp(&shadow_[at], &result_[at], end - at) != 0) {
      while (shadow_[at] == result_[at]) ++at;
      Failure found = locate(at);
      if (defences_.on(found.gate)) return found;
      ++at;
    }
    return passed();
  };
  for (const auto& [first, end] : output_ranges_) {
    RIDGE_CHECK_OK(differs(first));
    at = end;
  }
  return differs(shadow_.size());
}

bool Operands::is_poison(std::size_t index, std::int64_t element) const {
  const Layout::Slot& slot = layout_.slots[index];
  if (problem_.operands[index].read_write || size_bits(slot.view.dtype) < 8 || !defences_.on(Defence::kPoison)) {
    return false;
  }
  const std::size_t width = static_cast<std::size_t>(size_bits(slot.view.dtype)) / 8;
  const std::size_t at = slot.offset + size_bytes(slot.view.dtype, numerics::element_offset(slot.view, element));
  return std::memcmp(&result_[at], &poison_code_[index], width) == 0;
}

bool Operands::untouched(std::size_t index) const {
  const Layout::Slot& slot = layout_.slots[index];
  bool same = slot.bytes > 0 && defences_.on(Defence::kPoison);
  each_run(slot.view, [&](std::size_t first, std::size_t bytes) {
    same = same && std::memcmp(&shadow_[slot.offset + first], &result_[slot.offset + first], bytes) == 0;
  });
  return same;
}

}  // namespace ridge::evaluate

#include "ops/coding/panels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "base/error.h"
#include "device/cpu/thread_pool.h"
#include "numerics/convert.h"

namespace ridge::ops::coding {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000;
constexpr std::int64_t kPanelRows = 32;
constexpr std::int64_t kTile = 128;  // rows and columns that hold whole groups of both copies
constexpr std::int64_t kLine = 16;   // floats of a cache line
constexpr std::int64_t kRun = 2048;  // elements that are scaled before they are encoded: they stay in the first cache
constexpr std::int64_t kTilePitch = kTile + kLine;  // so that a column is in every set of a cache

std::uint32_t magnitude_bits(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu; }

// Bits of a magnitude order as integers, and NaN and Inf are the largest: a comparison leaves them out.
std::uint32_t largest(const float* x, std::int64_t count, std::uint32_t found) {
  auto most = static_cast<std::int32_t>(found);  // signed: SSE2 compares no others
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = static_cast<std::int32_t>(magnitude_bits(x[i]));
    const std::int32_t finite = bits >= static_cast<std::int32_t>(kInfinity) ? 0 : bits;
    most = finite > most ? finite : most;
  }
  return static_cast<std::uint32_t>(most);
}

// Of a tensor: bits of the largest magnitude of its finite elements, and of all.
struct Magnitudes {
  std::uint32_t finite = 0, any = 0;
};
void take_largest(Magnitudes& most, const Magnitudes& other) {
  most = {std::max(most.finite, other.finite), std::max(most.any, other.any)};
}
void take_largest(Magnitudes& most, const float* x, std::int64_t count) {
  auto any = static_cast<std::int32_t>(most.any);
  for (std::int64_t i = 0; i < count; ++i) any = std::max(any, static_cast<std::int32_t>(magnitude_bits(x[i])));
  most.any = static_cast<std::uint32_t>(any);
  most.finite = most.any < kInfinity ? most.any : largest(x, count, most.finite);
}

struct Format {
  float most = 448.0f;
  int most_exponent = 8, mantissa = 3;
};
Format format_of(DType format) { return format == DType::kE4m3fn ? Format{448.0f, 8, 3} : Format{57344.0f, 15, 2}; }

struct Scale {
  float value = 1, reciprocal = 1;
};

// By the rule, from the bits of the largest magnitude.
Scale choose_scale(std::uint32_t amax, const Coding& s) {
  if (amax == 0) return {};
  const Format format = format_of(s.format);
  if (s.rule == ScaleRule::kExact) {
    const float value = std::max(std::bit_cast<float>(amax) / format.most, 0x1p-126f);
    return {value, 1.0f / value};
  }
  // Subnormals have field 0 and end at the least exponent whatever their value.
  std::uint32_t rounded = amax;
  if (s.rule == ScaleRule::kEven) rounded += 1u << (23 - format.mantissa - 1);
  int exponent = static_cast<int>(rounded >> 23) - 127 - format.most_exponent;
  // 448 and 57344 are both 1.75 times a power of two.
  if (s.rule == ScaleRule::kCeil && (amax & 0x7fffffu) > 0x600000u) ++exponent;
  exponent = std::clamp(exponent, s.granularity == Granularity::kMx ? -127 : -126, 127);
  return {std::ldexp(1.0f, exponent), std::ldexp(1.0f, -exponent)};
}

// Finite elements within fmax, also where their product is not finite; NaN and Inf stay what they are.
void scaled(const float* x, std::int64_t count, const Scale& scale, float most, float* out) {
  const auto limit = std::bit_cast<std::int32_t>(most);
  for (std::int64_t i = 0; i < count; ++i) {
    const float product = x[i] * scale.reciprocal;
    const auto bits = std::bit_cast<std::int32_t>(product), size = bits & 0x7fffffff;
    const bool beyond =
        size > limit && static_cast<std::int32_t>(magnitude_bits(x[i])) < static_cast<std::int32_t>(kInfinity);
    out[i] = std::bit_cast<float>(beyond ? (bits - size) | limit : bits);
  }
}

// Rows of fp32 numbers.
struct Panel {
  const float* data = nullptr;
  std::int64_t stride = 0, count = 0;
  [[nodiscard]] const float* at(std::int64_t row) const { return data + row * stride; }
};

// One copy of y, row-major in its own orientation.
class Writer {
 public:
  Writer(const Problem& problem, const Coding& s, const PanelSource& source, std::span<const TensorView> operands,
         const Copy& copy)
      : s_(s),
        source_(source),
        q_(operands[copy.q]),
        scale_(operands[copy.q + 1]),
        transposed_(copy.transposed),
        rows_(copy.transposed ? s.cols : s.rows),
        cols_(copy.transposed ? s.rows : s.cols) {
    rounding_.saturate = false;  // clamped before; what is left beyond is Inf
    if (!s.stochastic) return;
    std::uint64_t words[2];
    std::memcpy(words, operand(problem, operands, "random").data, sizeof words);
    rounding_ = {numerics::RoundMode::kStochastic, false, numerics::ScaleRounding::kEven, words[0],
                 words[1] + (transposed_ ? static_cast<std::uint64_t>(rows_ * cols_) : 0)};
  }

  [[nodiscard]] bool transposed() const { return transposed_; }
  [[nodiscard]] std::int64_t panels() const { return (rows_ + kPanelRows - 1) / kPanelRows; }
  // Floats that a thread needs for panels: one, a row or run of codes to be, parts of rows of y.
  [[nodiscard]] std::int64_t scratch() const { return kPanelRows * cols_ + code_room() + kLine * kPanelRows; }

  void look(std::int64_t panel, float* scratch, Magnitudes& most) const { look(load(panel, scratch), most); }

  // A panel with scales of rows or of the tensor. `seen`: where the largest magnitudes of the panel go; null: they are
  // known.
  void write(std::int64_t panel, std::uint32_t amax_of_tensor, float* scratch, Magnitudes* seen) const {
    const Panel rows = load(panel, scratch);
    if (seen != nullptr) look(rows, *seen);
    const std::int64_t first = panel * kPanelRows;
    float* const codes = scratch + kPanelRows * cols_;
    if (s_.granularity == Granularity::kTensor) {
      return write_alike(rows, first, choose_scale(amax_of_tensor, s_), codes);
    }
    const std::int64_t whole[] = {cols_};
    const std::span<const std::int64_t> ends =
        transposed_ && s_.segments != 0 ? source_.segment_ends() : std::span<const std::int64_t>(whole);
    for (std::int64_t row = 0; row < rows.count; ++row) {
      std::int64_t begin = 0, segment = 0;
      for (const std::int64_t end : ends) {
        write_group({rows.at(row) + begin, 0, 1}, first + row, begin, end - begin, codes, segment++);
        begin = end;
      }
    }
  }

  // Rows first_row ... of columns first_col ..., whose groups lie within. `codes`: memory for kTile floats.
  void write_tile(const Panel& rows, std::int64_t first_row, std::int64_t first_col, std::int64_t cols,
                  float* codes) const {
    const std::int64_t tall = s_.granularity == Granularity::kBlock ? rows.count : 1;  // rows that share a scale
    const std::int64_t wide = s_.granularity == Granularity::kMx ? kMxBlock : kScaleBlock;
    for (std::int64_t row = 0; row < rows.count; row += tall) {
      for (std::int64_t col = 0; col < cols; col += wide) {
        write_group({rows.at(row) + col, rows.stride, tall}, first_row + row, first_col + col,
                    std::min(wide, cols - col), codes);
      }
    }
  }

  void write_tensor_scale(std::uint32_t amax) const {
    numerics::store(scale_.dtype, scale_.data, 0, choose_scale(amax, s_).value);
  }

 private:
  // `cols` elements of some rows that share a scale: the largest magnitude, then the codes. `segment`: of whole rows.
  void write_group(const Panel& rows, std::int64_t row, std::int64_t col, std::int64_t cols, float* codes,
                   std::int64_t segment = 0) const {
    std::uint32_t amax = 0;
    for (std::int64_t r = 0; r < rows.count; ++r) amax = largest(rows.at(r), cols, amax);
    const Scale scale = choose_scale(amax, s_);
    store_scale(row, col, segment, scale.value);
    for (std::int64_t r = 0; r < rows.count; ++r) {
      scaled(rows.at(r), cols, scale, format_of(s_.format).most, codes);
      encode(row + r, col, cols, codes);
    }
  }

  [[nodiscard]] std::int64_t code_room() const { return std::max(cols_, kRun); }

  void look(const Panel& rows, Magnitudes& most) const {
    if (rows.stride == cols_) return take_largest(most, rows.data, rows.count * cols_);
    for (std::int64_t r = 0; r < rows.count; ++r) take_largest(most, rows.at(r), cols_);
  }

  // Rows with one scale. Those that follow each other, in y and in the codes, are one.
  void write_alike(const Panel& rows, std::int64_t first, const Scale& scale, float* codes) const {
    const bool one = rows.stride == cols_ && q_.stride[0] == cols_ && cols_ > 0;
    const std::int64_t length = one ? rows.count * cols_ : cols_;
    for (std::int64_t r = 0; r < (one ? 1 : rows.count); ++r) {
      for (std::int64_t at = 0; at < length; at += kRun) {
        const std::int64_t part = std::min(kRun, length - at), row = one ? at / cols_ : r;
        scaled(rows.at(r) + at, part, scale, format_of(s_.format).most, codes);
        encode(first + row, at - (row - r) * cols_, part, codes);
      }
    }
  }

  // The panel's rows: where they lie in fp32, else in `out`.
  Panel load(std::int64_t panel, float* out) const {
    const std::int64_t first = panel * kPanelRows, count = std::min(kPanelRows, rows_ - first);
    if (cols_ == 0) return {out, 0, count};  // and no memory to point into
    if (const float* const there = transposed_ ? nullptr : source_.in_place(first)) {
      return {there, source_.stride(), count};
    }
    if (!transposed_) {
      for (std::int64_t r = 0; r < count; ++r) source_.read(first + r, 0, cols_, out + r * cols_);
      return {out, cols_, count};
    }
    // As many rows of y at a time as fill a line of the panel, which is then written once.
    float* const parts = out + kPanelRows * cols_ + code_room();
    for (std::int64_t col = 0; col < cols_; col += kLine) {
      const std::int64_t wide = std::min(kLine, cols_ - col);
      for (std::int64_t c = 0; c < wide; ++c) source_.read(col + c, first, count, parts + c * count);
      for (std::int64_t r = 0; r < count; ++r) {
        for (std::int64_t c = 0; c < wide; ++c) out[r * cols_ + col + c] = parts[c * count + r];
      }
    }
    return {out, cols_, count};
  }

  void store_scale(std::int64_t row, std::int64_t col, std::int64_t segment, float value) const {
    std::int64_t offset = segment * scale_.stride[0] + row;
    if (s_.granularity == Granularity::kBlock) {
      offset = row / kScaleBlock * scale_.stride[0] + col / kScaleBlock;
    } else if (s_.granularity != Granularity::kRow) {
      offset = col / (s_.granularity == Granularity::kMx ? kMxBlock : kScaleBlock) * scale_.stride[0] + row;
    }
    numerics::store(scale_.dtype, scale_.data, offset, value);
  }

  void encode(std::int64_t row, std::int64_t col, std::int64_t count, const float* codes) const {
    if (count == 0) return;
    numerics::Rounding rounding = rounding_;
    rounding.offset += static_cast<std::uint64_t>(row * cols_ + col);
    numerics::from_float(s_.format, codes, static_cast<unsigned char*>(q_.data) + row * q_.stride[0] + col, count,
                         rounding);
  }

  const Coding& s_;
  const PanelSource& source_;
  const TensorView &q_, &scale_;
  bool transposed_;
  std::int64_t rows_, cols_;
  numerics::Rounding rounding_;
};

// What both copies of a tensor with one scale have in common.
struct Whole {
  std::uint32_t given = 0;          // bits of the largest magnitude that the scale is made of; 0: y's own
  std::optional<Magnitudes> found;  // of y, once it was looked at
};

// Every thread takes the panels whose number is its own, modulo the threads: results do not depend on how many.
void write_copy(const Writer& writer, const Coding& s, int threads, float* scratch, Whole& whole) {
  std::vector<Magnitudes> seen(static_cast<std::size_t>(threads));
  const auto each_panel = [&](auto&& take) {
    device::cpu::thread_pool().run(threads, [&](int thread) {
      for (std::int64_t p = thread; p < writer.panels(); p += threads)
        take(p, seen[static_cast<std::size_t>(thread)], scratch + thread * writer.scratch());
    });
  };
  const auto found = [&] {
    Magnitudes most;
    for (const Magnitudes& each : seen) take_largest(most, each);
    return most;
  };
  const bool tensor = s.granularity == Granularity::kTensor;
  if (tensor && whole.given == 0 && !whole.found) {
    each_panel([&](std::int64_t panel, Magnitudes& most, float* mine) { writer.look(panel, mine, most); });
    whole.found = found();
  }
  const std::uint32_t amax = !tensor ? 0 : whole.given != 0 ? whole.given : whole.found->finite;
  if (tensor) writer.write_tensor_scale(amax);
  const bool look = tensor && !whole.found;
  each_panel([&](std::int64_t panel, Magnitudes& most, float* mine) {
    writer.write(panel, amax, mine, look ? &most : nullptr);
  });
  if (look) whole.found = found();
}

// Tiles of a matrix, of a shape that holds whole groups of the copies that are wanted: longer than those, so that
// conversions are of long runs, and low where there is no copy of y^T.
struct Tiling {
  std::int64_t rows = kTile, cols = 2 * kTile, down = 0, across = 0;

  explicit Tiling(const Coding& s) {
    if (s.copies == kAsIs && s.granularity != Granularity::kBlock) rows = 2 * kTile * kTile / kRun, cols = kRun;
    down = (s.rows + rows - 1) / rows, across = (s.cols + cols - 1) / cols;
  }
  [[nodiscard]] std::int64_t count() const { return down * across; }
  // Floats that a thread needs: a tile, a part of it transposed, codes to be.
  [[nodiscard]] std::int64_t scratch() const { return rows * (cols + kLine) + kTile * kTilePitch + kTile; }
};

// The copies that are wanted, from tiles whose elements are made once. Every thread takes the tiles whose number is its
// own, modulo the threads.
void write_tiles(std::span<const Writer> writers, const Coding& s, const PanelSource& source, int threads,
                 float* scratch) {
  const Tiling tiling(s);
  const std::int64_t pitch = tiling.cols + kLine;  // so that a column is in every set of a cache
  device::cpu::thread_pool().run(threads, [&](int thread) {
    float* const made = scratch + thread * tiling.scratch();
    float *const turned = made + tiling.rows * pitch, *const codes = turned + kTile * kTilePitch;
    for (std::int64_t tile = thread; tile < tiling.count(); tile += threads) {
      const std::int64_t row = tile / tiling.across * tiling.rows, col = tile % tiling.across * tiling.cols;
      const std::int64_t rows = std::min(tiling.rows, s.rows - row), cols = std::min(tiling.cols, s.cols - col);
      Panel elements{made, pitch, rows};
      if (const float* const there = source.in_place(row)) {
        elements = {there + col, source.stride(), rows};
      } else {
        for (std::int64_t r = 0; r < rows; ++r) source.read(row + r, col, cols, made + r * pitch);
      }
      for (const Writer& writer : writers) {
        if (!writer.transposed()) {
          writer.write_tile(elements, row, col, cols, codes);
          continue;
        }
        for (std::int64_t first = 0; first < cols; first += kTile) {
          const std::int64_t wide = std::min(kTile, cols - first);
          for (std::int64_t c = 0; c < wide; ++c) {
            for (std::int64_t r = 0; r < rows; ++r) turned[c * kTilePitch + r] = elements.at(r)[first + c];
          }
          writer.write_tile({turned, kTilePitch, wide}, col + first, row, rows, codes);
        }
      }
    }
  });
}

}  // namespace

Status write_copies(const Problem& problem, std::span<const TensorView> operands, const Coding& s,
                    const PanelSource& source, const Stream& stream) {
  Whole whole;
  RIDGE_TRY(given, given_amax(problem, operands, s));
  whole.given = given;
  std::vector<Writer> writers;
  for (const Copy& copy : copies_of(problem, s)) writers.emplace_back(problem, s, source, operands, copy);
  const bool tiles = s.granularity != Granularity::kTensor && s.granularity != Granularity::kRow;
  const Tiling tiling(s);
  std::int64_t most_units = 1, floats = tiling.scratch();  // units of work, and what a thread needs for one
  for (const Writer& writer : writers) {
    most_units =
        std::max(most_units, tiles ? (s.rows + kTile - 1) / kTile * ((s.cols + kTile - 1) / kTile) : writer.panels());
    if (!tiles) floats = std::max(floats, writer.scratch());
  }
  const int threads = static_cast<int>(std::clamp<std::int64_t>(stream.threads, 1, most_units));
  const std::unique_ptr<float[]> scratch(new (std::nothrow) float[static_cast<std::size_t>(threads * floats)]);
  if (scratch == nullptr) {
    return with_hint(make_error(ErrorCode::kIo, "{}: no memory for {} floats of panels", problem.problem_case.text(),
                                threads * floats),
                     "use fewer threads");
  }
  if (tiles) {
    write_tiles(writers, s, source, threads, scratch.get());
    return ok_status();
  }
  for (const Writer& writer : writers) write_copy(writer, s, threads, scratch.get(), whole);
  if (s.given) {
    const float most = std::bit_cast<float>(std::min(whole.found->any, kInfinity));  // NaN counts as infinity
    numerics::store(DType::kF32, operands.back().data, 0, most);
  }
  return ok_status();
}

}  // namespace ridge::ops::coding

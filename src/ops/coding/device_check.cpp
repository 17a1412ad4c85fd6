#include "ops/coding/device_check.h"

#include <algorithm>
#include <cstddef>

#include "base/error.h"

namespace ridge::ops::coding {
namespace {

using Argument = CheckLaunch::Argument;
using right_codes::Interval;
using right_codes::Magnitude;

right_codes::Definition definition_of(const Coding& c) {
  return {static_cast<rows::i64>(c.granularity),
          static_cast<rows::i64>(c.rule),
          c.stochastic ? 1 : 0,
          static_cast<rows::i64>(c.format),
          rows::format_of(c.format),
          rows::format_of(scale_dtype(c.granularity))};
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::uint32_t blocks(std::int64_t count) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(ceil_div(count, 256), 1, 1 << 16));
}
Argument number(std::int64_t value) { return CheckLaunch::number(value); }

// Groups of a copy of which y has rows x cols.
std::int64_t group_count(Coding c, bool transposed, std::int64_t rows, std::int64_t cols) {
  c.rows = rows, c.cols = cols;
  std::int64_t count = 1;
  for (const std::int64_t extent : scale_shape_of(c, transposed)) count *= extent;
  return count;
}
std::int64_t group_count(const Coding& c, bool transposed) { return group_count(c, transposed, c.rows, c.cols); }

// A part of y; groups are those of this part, and of these segments of the rows.
struct Part {
  std::int64_t row0 = 0, row_end = 0, col0 = 0, col_end = 0;
  std::int64_t segment0 = 0, segments = 0;
};
// The same part named by rows and columns of a copy.
Part part_of(bool transposed, Part copy) {
  return transposed ? Part{copy.col0, copy.col_end, copy.row0, copy.row_end, copy.segment0, copy.segments} : copy;
}

// The part of a copy whose groups decide about rows first .. first + count of its codes.
Part groups_of_codes(const Coding& c, std::int64_t rows, std::int64_t cols, std::int64_t first, std::int64_t count) {
  if (c.granularity == Granularity::kTensor) return {0, rows, 0, cols};
  if (c.granularity != Granularity::kBlock) return {first, first + count, 0, cols, 0, c.segments};
  return {first / kScaleBlock * kScaleBlock, std::min(rows, ceil_div(first + count, kScaleBlock) * kScaleBlock), 0,
          cols};
}
// The same for rows of its scales, as device_matrix folds them: a vector is one row.
Part groups_of_scales(const Coding& c, std::int64_t rows, std::int64_t cols, std::int64_t first, std::int64_t count) {
  switch (c.granularity) {
    case Granularity::kTensor: return {0, rows, 0, cols};
    case Granularity::kRow: return {0, rows, 0, cols, first, count};  // of segments, a row of scales for each
    case Granularity::kBlock: return {first * kScaleBlock, std::min(rows, (first + count) * kScaleBlock), 0, cols};
    case Granularity::kVector: return {0, rows, first * kScaleBlock, std::min(cols, (first + count) * kScaleBlock)};
    case Granularity::kMx: return {0, rows, first * kMxBlock, std::min(cols, (first + count) * kMxBlock)};
  }
  return {};
}

// What kernels go through are the rows and columns of y.
Argument operands_of(const Problem& read, std::span<const TensorView> operands, std::span<const rows::Reads> reads,
                     const Coding& c) {
  std::vector<std::uint64_t> words = rows::operands_on_device(read, operands, reads);
  words[words.size() - 2] = static_cast<std::uint64_t>(c.rows);  // the last of Operands in row_operands.cuh
  words.back() = static_cast<std::uint64_t>(c.cols);
  return words;
}

// The launches of one check.
class Launches {
 public:
  // `read`: the problem with what the model reads as inputs.
  Launches(const Problem& problem, std::span<const TensorView> operands, const Coding& coding,
           const rows::DeviceModel& model, const Problem& read)
      : problem_(problem),
        operands_(operands),
        c_(coding),
        model_(model.words),
        table_(operands_of(read, operands, model.reads, coding)),
        definition_(CheckLaunch::words(definition_of(coding))) {}

  [[nodiscard]] std::vector<CheckLaunch> take() { return std::move(launches_); }

  void add(std::string kernel, std::uint32_t grid, std::uint32_t block, std::vector<Argument> arguments) {
    launches_.push_back({std::move(kernel), grid, 1, block, std::move(arguments)});
  }
  // Of a kernel that makes elements: what they are made of comes first.
  void add_with_model(std::string kernel, std::uint32_t grid, std::vector<Argument> arguments) {
    std::vector<Argument> all = {model_, table_};
    all.insert(all.end(), arguments.begin(), arguments.end());
    add(std::move(kernel), grid, 256, std::move(all));
  }

  void find_groups(const Part& part, void* as_is, void* transposed) {
    const std::int64_t rows = part.row_end - part.row0, cols = part.col_end - part.col0;
    for (const bool turned : {false, true}) {
      void* const groups = turned ? transposed : as_is;
      Coding c = c_;
      if (c.segments != 0) c.segments = part.segments;
      const std::int64_t count = group_count(c, turned, rows, cols);
      if (groups == nullptr || count == 0) continue;
      add("codes_clear", blocks(count), 256, {CheckLaunch::pointer(groups), number(count)});
    }
    if (rows == 0 || cols == 0) return;
    add_with_model(
        "codes_amax", static_cast<std::uint32_t>(ceil_div(rows, 32) * ceil_div(cols, 32)),
        {number(part.row0), number(part.row_end), number(part.col0), number(part.col_end), number(part.segment0),
         number(part.segment0 + part.segments), number(static_cast<std::int64_t>(c_.granularity)),
         CheckLaunch::pointer(as_is), CheckLaunch::pointer(transposed)});
  }
  // A scale that is made of a given largest magnitude: over that of y, unless it is 0. A tensor is one group.
  void take_given(void* groups) {
    if (!c_.given) return;
    add("codes_given", 1, 32,
        {CheckLaunch::pointer(operand(problem_, operands_, "amax").data), CheckLaunch::pointer(groups)});
  }
  // The largest magnitude of y, infinity where it holds what is not finite, to a word of its own.
  void find_largest(void* word) {
    add("codes_clear", 1, 256, {CheckLaunch::pointer(word), number(1)});
    if (c_.rows * c_.cols == 0) return;
    add_with_model("codes_largest", static_cast<std::uint32_t>(std::min<std::int64_t>(c_.rows, 1 << 12)),
                   {CheckLaunch::pointer(word)});
  }

  void judge_found(const void* word, void* result) {
    add("codes_found", 1, 32,
        {CheckLaunch::pointer(operands_[problem_.operands.size() - 1].data), CheckLaunch::pointer(word),
         CheckLaunch::words(rows::format_of(DType::kF32)), CheckLaunch::pointer(result)});
  }
  void judge_scales(const TensorView& view, const void* groups, void* result) {
    const DeviceMatrix scale = device_matrix(view);
    if (scale.rows * scale.columns == 0) return;
    add("codes_scales", blocks(scale.rows * scale.columns), 256,
        {scale, CheckLaunch::pointer(groups), definition_, CheckLaunch::pointer(result)});
  }
  void judge_codes(const DeviceMatrix (&codes)[2], void* const (&groups)[2], void* result) {
    if (c_.rows == 0 || c_.cols == 0) return;
    add_with_model("codes_judge", static_cast<std::uint32_t>(ceil_div(c_.rows, 32) * ceil_div(c_.cols, 32)),
                   {codes[0], codes[1], CheckLaunch::pointer(groups[0]), CheckLaunch::pointer(groups[1]), definition_,
                    CheckLaunch::pointer(result)});
  }

  // What is right goes to the arrays of a request; its memory for shifts holds the groups until they come last.
  void write_found(const DeviceCheck::ReferenceRequest& request) {
    add("codes_reference_found", 1, 32,
        {CheckLaunch::pointer(request.shift), CheckLaunch::words(rows::format_of(DType::kF32)),
         CheckLaunch::pointer(request.value), CheckLaunch::pointer(request.allowed),
         CheckLaunch::pointer(request.variance)});
    write_shifts(request, 1, false);
  }
  void write_codes(const DeviceCheck::ReferenceRequest& request, bool transposed, const Part& part) {
    const std::int64_t count = request.count * (transposed ? c_.rows : c_.cols);
    add_with_model("codes_reference", blocks(count),
                   {number(transposed ? 1 : 0), number(request.first), number(request.count), number(part.row0),
                    number(part.row_end - part.row0), CheckLaunch::pointer(request.shift), definition_,
                    CheckLaunch::pointer(request.value), CheckLaunch::pointer(request.allowed),
                    CheckLaunch::pointer(request.variance)});
    write_shifts(request, count, c_.stochastic);
  }
  void write_scales(const DeviceCheck::ReferenceRequest& request, std::int64_t count) {
    add("codes_reference_scales", blocks(count), 256,
        {CheckLaunch::pointer(request.shift), number(count), definition_, CheckLaunch::pointer(request.value),
         CheckLaunch::pointer(request.allowed), CheckLaunch::pointer(request.variance)});
    write_shifts(request, count, false);
  }

 private:
  void write_shifts(const DeviceCheck::ReferenceRequest& request, std::int64_t count, bool stochastic) {
    add("codes_shifts", blocks(count), 256,
        {CheckLaunch::pointer(request.allowed), number(count), number(stochastic ? 1 : 0),
         CheckLaunch::pointer(request.shift)});
  }

  const Problem& problem_;
  std::span<const TensorView> operands_;
  const Coding& c_;
  Argument model_, table_, definition_;
  std::vector<CheckLaunch> launches_;
};

// Groups of both copies, one after the other, and the largest magnitude of y.
std::size_t scratch_bytes(const Coding& c) {
  return sizeof(Magnitude) * static_cast<std::size_t>(group_count(c, false) + group_count(c, true) + 1);
}

void project(const DeviceCheck::ProjectionRequest& request, void* scratch, const Coding& c, Launches& launches) {
  const std::vector<Copy> copies = copies_of(request.problem, c);
  auto* const words = static_cast<Magnitude*>(scratch);
  void* groups[2] = {};
  DeviceMatrix codes[2];
  for (const Copy& copy : copies) {
    groups[copy.transposed] = words + (copy.transposed ? group_count(c, false) : 0);
    codes[copy.transposed] = device_matrix(request.operands[copy.q]);
  }
  launches.find_groups({0, c.rows, 0, c.cols, 0, c.segments}, groups[0], groups[1]);
  if (c.given) {
    Magnitude* const largest = words + group_count(c, false) + group_count(c, true);
    launches.find_largest(largest);
    launches.judge_found(largest, request.result);
  }
  for (const Copy& copy : copies) {
    launches.take_given(groups[copy.transposed]);
    launches.judge_scales(request.operands[copy.q + 1], groups[copy.transposed], request.result);
  }
  launches.judge_codes(codes, groups, request.result);
}

void write_reference(const DeviceCheck::ReferenceRequest& request, const Coding& c, Launches& launches) {
  if (c.given && request.output + 1 == request.problem.operands.size()) {
    launches.find_largest(request.shift);
    launches.write_found(request);
    return;
  }
  const std::vector<Copy> copies = copies_of(request.problem, c);
  const auto copy = std::find_if(copies.begin(), copies.end(), [&](const Copy& one) {
    return request.output == one.q || request.output == one.q + 1;
  });
  const bool codes = request.output == copy->q, turned = copy->transposed;
  const std::int64_t rows = turned ? c.cols : c.rows, cols = turned ? c.rows : c.cols;
  const Part part = codes ? groups_of_codes(c, rows, cols, request.first, request.count)
                          : groups_of_scales(c, rows, cols, request.first, request.count);
  launches.find_groups(part_of(turned, part), turned ? nullptr : request.shift, turned ? request.shift : nullptr);
  launches.take_given(request.shift);
  if (codes) return launches.write_codes(request, turned, part);
  launches.write_scales(request, request.count * device_matrix(request.operands[request.output]).columns);
}

// `given`: bits of what the scale of the tensor is made of, where it is not 0.
void append_copy(std::span<const rows::Number> y, const Coding& c, bool transposed, std::uint32_t given,
                 std::span<const std::int64_t> segment_ends, std::vector<ReferenceOutput>& outputs) {
  const right_codes::Definition d = definition_of(c);
  const std::int64_t rows = transposed ? c.cols : c.rows, cols = transposed ? c.rows : c.cols;
  std::vector<Magnitude> groups(static_cast<std::size_t>(group_count(c, transposed)), Magnitude{0, 0});
  const auto group_at = [&](std::int64_t row, std::int64_t col) {
    if (!transposed || segment_ends.empty() || c.granularity != Granularity::kRow) {
      return scale_index(c.granularity, rows, cols, row, col);
    }
    return (std::ranges::upper_bound(segment_ends, col) - segment_ends.begin()) * rows + row;
  };
  const auto each = [&](auto&& take) {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t col = 0; col < cols; ++col) {
        take(y[static_cast<std::size_t>(transposed ? col * rows + row : row * cols + col)],
             groups[static_cast<std::size_t>(group_at(row, col))]);
      }
    }
  };
  each([](const rows::Number& one, Magnitude& group) {
    const Magnitude size = right_codes::magnitude_of(one);
    group = {std::max(group.low, size.low), std::max(group.high, size.high)};
  });
  if (given != 0) groups[0] = {given, given};
  const auto scale_of = [&](const Magnitude& group) {
    return right_codes::scales_of(right_codes::interval_of(group), d);
  };
  ReferenceOutput codes, scales;
  each([&](const rows::Number& one, const Magnitude& group) {
    rows::append(codes, right_codes::right_code(one, scale_of(group), d));
  });
  for (const Magnitude& group : groups) rows::append(scales, right_codes::right_scale(scale_of(group), d));
  outputs.push_back(std::move(codes));
  outputs.push_back(std::move(scales));
}

ReferenceOutput largest_of(std::span<const rows::Number> y) {
  Magnitude most{0, 0};
  for (const rows::Number& one : y) {
    const Magnitude size = rows::is_finite(one.value) ? right_codes::magnitude_of(one)
                                                      : Magnitude{right_codes::kInfinityF32, right_codes::kInfinityF32};
    most = {std::max(most.low, size.low), std::max(most.high, size.high)};
  }
  ReferenceOutput output;
  rows::append(output, right_codes::right_largest(right_codes::interval_of(most), rows::format_of(DType::kF32)));
  return output;
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference_of(const Problem& problem, std::span<const TensorView> operands,
                                                  const Coding& coding, std::span<const rows::Number> y,
                                                  std::span<const std::int64_t> segment_ends) {
  RIDGE_TRY(given, given_amax(problem, operands, coding));
  std::vector<ReferenceOutput> outputs;
  for (const Copy& copy : copies_of(problem, coding)) {
    append_copy(y, coding, copy.transposed, given, segment_ends, outputs);
  }
  if (coding.given) outputs.push_back(largest_of(y));
  return outputs;
}

std::shared_ptr<const DeviceCheck> device_check_of(std::initializer_list<std::string_view> files, std::string_view type,
                                                   rows::ModelOfCall model, Coding (*coding_of)(const Problem&),
                                                   std::shared_ptr<const DeviceCheck> others,
                                                   std::vector<std::string> saved) {
  auto check = std::make_shared<DeviceCheck>();
  check->source = others != nullptr ? others->source : check_source({"ops/row_numbers.cuh", "ops/row_operands.cuh"});
  std::string own(source_of("ops/coding/right_codes.cuh"));
  for (const std::string_view file : files) own += source_of(file);
  own += fmt::format("\n#define RIDGE_ROW_MODEL ridge::ops::{}\n", type);
  own += source_of("ops/coding/code_check.cu");
  if (!check->source.ends_with(own)) {  // as it does where the others are codes by the same model
    if (others != nullptr) check->source += "\n#undef RIDGE_ROW_MODEL\n";
    check->source += own;
  }
  const auto launches_of = [coding_of, model, saved](const auto& request, const Coding& coding) {
    Problem read = request.problem;
    for (OperandSpec& operand : read.operands) {
      if (std::find(saved.begin(), saved.end(), operand.name) == saved.end()) continue;
      operand.output = operand.read_write = false;
    }
    return Launches(request.problem, request.operands, coding,
                    model(request.problem, {request.operands, request.scalars}), read);
  };
  // The scratch memory of the others comes first, in whole numbers of 8 bytes.
  const auto before = [others](const Problem& problem) {
    return others == nullptr ? 0 : (others->scratch_bytes(problem) + 7) / 8 * 8;
  };
  check->scratch_bytes = [coding_of, before](const Problem& problem) {
    return before(problem) + scratch_bytes(coding_of(problem));
  };
  check->projection = [coding_of, launches_of, others, before](const DeviceCheck::ProjectionRequest& request) {
    const Coding coding = coding_of(request.problem);
    std::vector<CheckLaunch> all;
    if (others != nullptr) all = others->projection(request);
    Launches launches = launches_of(request, coding);
    project(request, static_cast<std::byte*>(request.scratch) + before(request.problem), coding, launches);
    for (CheckLaunch& launch : launches.take()) all.push_back(std::move(launch));
    return all;
  };
  check->reference = [coding_of, launches_of, others](const DeviceCheck::ReferenceRequest& request) {
    const Coding coding = coding_of(request.problem);
    if (request.output < copies_of(request.problem, coding).front().q) return others->reference(request);
    Launches launches = launches_of(request, coding);
    write_reference(request, coding, launches);
    return launches.take();
  };
  return check;
}

}  // namespace ridge::ops::coding

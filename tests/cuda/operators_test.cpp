// What single operators promise on a GPU beyond the table of conformance: memory between rows, offsets and positions
// that are wrong, numbers that are none.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cuda/gpu_operands.h"
#include "cuda/gpu_problems.h"
#include "device/cuda/plan.h"
#include "ridge/ops/rope.h"

namespace ridge::testing {
namespace {

namespace gpu = device::cuda;

// Packed [batch, length, q heads and k heads and others, dim] and the table of the positions below `rows`, on the
// device.
struct PackedRope {
  static constexpr std::int64_t kBatch = 2, kLength = 37, kHeads = 5, kKvHeads = 2, kAll = 9, kDim = 128, kRotary = 96,
                                kRows = 40;
  std::vector<float> before = std::vector<float>(kBatch * kLength * kAll * kDim);
  std::vector<float> table = std::vector<float>(kRows * kRotary);  // cos, then sin
  std::vector<gpu::Buffer> memory;
  RopeArgs args;

  explicit PackedRope(const gpu::Stream& stream) {
    for (std::size_t i = 0; i < before.size(); ++i) before[i] = static_cast<float>(i % 1009) / 500 - 1;
    TensorView cos = TensorView::contiguous(table.data(), DType::kF32, {kRows, kRotary / 2}), sin = cos;
    sin.data = table.data() + kRows * kRotary / 2;
    EXPECT_TRUE(rope_table({}, cos, sin));
    for (const std::vector<float>* one : {&before, &before, &table}) {
      auto buffer = gpu::Buffer::allocate(the_device(), one->size() * sizeof(float));
      EXPECT_TRUE(buffer);
      memory.push_back(std::move(*buffer));
      EXPECT_TRUE(gpu::copy_to_device(memory.back().data(), one->data(), one->size() * sizeof(float), stream.handle()));
    }
    args.cos = TensorView::contiguous(memory[2].data(), DType::kF32, {kRows, kRotary / 2});
    args.sin = args.cos;
    args.sin.data = static_cast<float*>(memory[2].data()) + kRows * kRotary / 2;
    args.q = part(0, 0, kHeads), args.q_out = part(1, 0, kHeads);
    args.k = part(0, kHeads, kKvHeads), args.k_out = part(1, kHeads, kKvHeads);
    args.offset = 3;
  }
  TensorView part(std::size_t at, std::int64_t first, std::int64_t count) {
    float* const start = static_cast<float*>(memory[at].data()) + first * kDim;
    TensorView view = TensorView::contiguous(start, DType::kF32, {kBatch, kLength, count, kDim});
    view.stride = {kLength * kAll * kDim, kAll * kDim, kDim, 1};
    return view;
  }
  std::vector<float> read(std::size_t at, const gpu::Stream& stream) const {
    std::vector<float> values(before.size());
    EXPECT_TRUE(gpu::copy_to_host(values.data(), memory[at].data(), values.size() * sizeof(float), stream.handle()));
    EXPECT_TRUE(stream.synchronize());
    return values;
  }
};

TEST(CudaRope, TurnsPartsOfAPackedTensorWhereTheyLieAsItDoesApart) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  PackedRope call(*stream);
  ASSERT_TRUE(rope(call.args, stream->view()));
  const std::vector<float> apart = call.read(1, *stream);
  call.args.q_out = call.args.q, call.args.k_out = call.args.k;
  ASSERT_TRUE(rope(call.args, stream->view()));
  EXPECT_EQ(call.read(0, *stream), apart);
  EXPECT_NE(apart, call.before);
  for (std::size_t i = 0; i < apart.size(); ++i) {
    const std::int64_t element = static_cast<std::int64_t>(i) % PackedRope::kDim;
    const std::int64_t head = static_cast<std::int64_t>(i) / PackedRope::kDim % PackedRope::kAll;
    if (element < PackedRope::kRotary && head < PackedRope::kHeads + PackedRope::kKvHeads) continue;
    ASSERT_EQ(apart[i], call.before[i]) << i;
  }
}

TEST(CudaRope, APositionOutsideOfTheTableMakesItsTokenNoNumber) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  PackedRope call(*stream);
  std::vector<std::int64_t> positions(PackedRope::kLength, 4);  // the same for both sequences
  const std::vector<std::pair<std::size_t, std::int64_t>> outside = {
      {3, -1}, {4, PackedRope::kRows}, {20, std::int64_t{1} << 62}, {36, -(std::int64_t{1} << 62)}};
  for (const auto& [token, position] : outside) positions[token] = position;
  const auto memory = gpu::Buffer::allocate(the_device(), positions.size() * sizeof(std::int64_t));
  ASSERT_TRUE(memory);
  ASSERT_TRUE(gpu::copy_to_device(memory->data(), positions.data(), positions.size() * 8, stream->handle()));
  call.args.positions = TensorView::contiguous(memory->data(), DType::kI64, {PackedRope::kBatch, PackedRope::kLength});
  call.args.positions.stride[0] = 0;
  ASSERT_TRUE(rope(call.args, stream->view()));
  const std::vector<float> found = call.read(1, *stream);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::int64_t element = static_cast<std::int64_t>(i) % PackedRope::kDim;
    const std::int64_t head = static_cast<std::int64_t>(i) / PackedRope::kDim % PackedRope::kAll;
    const std::size_t token = i / (PackedRope::kDim * PackedRope::kAll) % PackedRope::kLength;
    const bool turned = element < PackedRope::kRotary && head < PackedRope::kHeads + PackedRope::kKvHeads;
    const bool wrong = std::ranges::any_of(outside, [&](const auto& one) { return one.first == token; });
    ASSERT_EQ(std::isnan(found[i]), turned && wrong) << i;
  }
}

constexpr Layout kApart{"rows on 16 bytes, apart", 8, 8};

// Heads of every size, rows with space between them that nothing may write, several tiles for a block.
TEST(CudaAttention, LeavesWhatLiesBetweenRowsAlone) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const ops::Operator& op = **ops::find_operator("attention");
  const ops::Implementation& own = **ops::find_implementation(op, "cuda_attention");
  int runs = 0;
  for (const ops::Problem& problem : check_problems(op)) {
    for (const int share : {0, 1}) {
      bool ran = false;
      EXPECT_EQ(check_on_gpu(op, own, problem, kApart, 5, *stream, ran, share), "")
          << problem.problem_case.text() << " on " << share;
      runs += ran ? 1 : 0;
    }
  }
  const bool takes_all = ops::device_info(stream->view()).has("wgmma");
  EXPECT_GT(runs, takes_all ? 60 : -1);
}

// Offsets of documents that fall or leave the rows are those of the nearest that are possible, forward and backward,
// and nothing outside is written.
TEST(CudaAttention, TakesWrongOffsetsForTheNearest) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  using Offsets = std::vector<double>;
  const std::pair<Offsets, Offsets> of_queries[] = {{{-5, 90, 20, 200, 1000, 60}, {0, 90, 90, 200, 300, 300}},
                                                    {{40, 0, 1e9, 3, 7, 9}, {40, 40, 300, 300, 300, 300}}};
  const std::pair<Offsets, Offsets> of_keys[] = {{{10, 150, 149, -1e9, 260, 999}, {10, 150, 150, 150, 260, 270}},
                                                 {{-1, 100, 100, 5, 2e9, 0}, {0, 100, 100, 100, 270, 270}}};
  for (const char* entry : {"attention", "attention_backward"}) {
    const ops::Operator& op = **ops::find_operator(entry);
    const ops::Implementation& own = **ops::find_implementation(op, std::string("cuda_") + entry);
    for (const char* words : {"dim=64 mask=causal", "dim=128", "dim=128 keys_left=70 keys_right=9"}) {
      const ops::Problem problem = *op.bind(
          *record::parse_case(fmt::format("{} heads=4 kv_heads=2 q_len=300 k_len=270 documents=5 {}", entry, words)));
      if (const auto why = ops::why_not(own, problem, ops::device_info(stream->view()))) GTEST_SKIP() << *why;
      const std::size_t at = *problem.position("q_offsets");
      for (std::size_t i = 0; i < std::size(of_queries); ++i) {
        Operands right = make_operands(problem, kApart, 3), after = make_operands(problem, kApart, 3);
        right.all[at].assign(of_queries[i].second), right.all[at + 1].assign(of_keys[i].second);
        after.all[at].assign(of_queries[i].first), after.all[at + 1].assign(of_keys[i].first);
        const auto device = GpuOperands::upload(the_device(), after, stream->handle());
        ASSERT_TRUE(device);
        const Status status = own.run(problem, {device->views(), after.scalars}, stream->view());
        ASSERT_TRUE(status) << problem.problem_case.text() << ": " << status.error().text();
        ASSERT_TRUE(device->download(after, stream->handle()));
        after.all[at].assign(of_queries[i].second), after.all[at + 1].assign(of_keys[i].second);
        EXPECT_EQ(judge(op, problem, right, after, 3), "") << problem.problem_case.text() << " " << i;
      }
    }
  }
}

// A softcap makes numbers of the scores of an infinite key, so its gradients are numbers, also where the queries end
// within a block: what lies behind them is zeros, whose score with that key is none.
TEST(CudaAttention, AnInfiniteKeyUnderASoftcapHasAGradient) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const ops::Operator& op = **ops::find_operator("attention_backward");
  for (const auto& [kernel, dims] :
       {std::pair{"cuda_attention_backward", "dim=64"}, std::pair{"cuda_attention_backward", "dim=128"},
        std::pair{"cuda_attention_backward_wide", "dim=192 v_dim=128"},
        std::pair{"cuda_attention_backward_wide", "dim=256"}}) {
    const ops::Implementation& own = **ops::find_implementation(op, kernel);
    for (const char* mask : {"causal", "full"}) {
      const ops::Problem problem = *op.bind(*record::parse_case(
          fmt::format("attention_backward heads=2 kv_heads=1 q_len=300 k_len=300 softcap=1 mask={} {}", mask, dims)));
      if (const auto why = ops::why_not(own, problem, ops::device_info(stream->view()))) GTEST_SKIP() << *why;
      Operands before = make_operands(problem, kPacked, 7), after = make_operands(problem, kPacked, 7);
      for (Operands* operands : {&before, &after}) {
        Operand& keys = operands->all[*problem.position("k")];
        std::vector<double> values = keys.values();
        values[values.size() / 2] = std::numeric_limits<double>::infinity();
        keys.assign(values);
      }
      const auto device = GpuOperands::upload(the_device(), after, stream->handle());
      ASSERT_TRUE(device);
      const auto expected = op.reference(problem, {before.views(), before.scalars});
      ASSERT_TRUE(expected);
      const Status status = own.run(problem, {device->views(), after.scalars}, stream->view());
      ASSERT_TRUE(status) << status.error().text();
      ASSERT_TRUE(device->download(after, stream->handle()));
      std::size_t output = 0;
      for (const Operand& operand : after.all) {
        if (!operand.spec().output) continue;
        const ops::ReferenceOutput& want = (*expected)[output++];
        if (operand.spec().name == "d_q") continue;  // a zero times that key
        EXPECT_TRUE(std::ranges::all_of(want.value, [](double value) { return std::isfinite(value); }));
        EXPECT_EQ(compare(operand.values(), want, operand.spec().dtype), "")
            << problem.problem_case.text() << " " << operand.spec().name;
      }
    }
  }
}

// Offsets that fall or leave the rows are those of the nearest that are possible, an index that is no row stands for a
// row of zeros, and nothing else is written.
TEST(CudaGroupedQuantize, TakesWrongOffsetsForTheNearest) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const ops::Operator& op = **ops::find_operator("grouped_quantize");
  const std::vector<double> wrong[] = {
      {-5, 40, 20, 90, 1000, 60}, {500, 0, 50, 100, 100, 100}, {0, 1e9, -1e9, 7, 3, 2}};
  const std::vector<double> nearest[] = {
      {0, 40, 40, 90, 300, 300}, {300, 300, 300, 300, 300, 300}, {0, 300, 300, 300, 300, 300}};
  for (const char* form :
       {"copies=both", "copies=both offsets=i64 scaling=mx align=32", "scaling=row align=16", "scaling=row copies=both",
        "copies=both own_rows=1", "scaling=tensor copies=both align=16", "copies=both own_rows=1 gather=1 sources=50",
        "copies=both own_rows=1 of=swiglu_backward probs=1 dprobs=1"}) {
    const ops::Problem problem =
        *op.bind(*record::parse_case(fmt::format("grouped_quantize rows=300 cols=136 groups=5 {}", form)));
    for (std::size_t i = 0; i < std::size(wrong); ++i) {
      Operands right = make_operands(problem, kAwkward, 3), after = make_operands(problem, kAwkward, 3);
      right.all[1].assign(nearest[i]), after.all[1].assign(wrong[i]);
      if (const auto index = problem.position("index")) {
        std::vector<double> numbers = right.all[*index].values();
        numbers[41] = numbers[100] = numbers[250] = -1;
        right.all[*index].assign(numbers);
        numbers[41] = 50, numbers[100] = 0x7fffffff, numbers[250] = -0x80000000LL;
        after.all[*index].assign(numbers);
      }
      ASSERT_TRUE((*ops::find_implementation(op, "cpu_panels"))->run(problem, right.views(), Stream::cpu()).ok());
      const auto device = GpuOperands::upload(the_device(), after, stream->handle());
      ASSERT_TRUE(device);
      ASSERT_TRUE(
          (*ops::find_implementation(op, "cuda_grouped_quantize"))->run(problem, device->views(), stream->view()).ok());
      ASSERT_TRUE(device->download(after, stream->handle()).ok());
      for (std::size_t k = 2; k < after.all.size(); ++k) {
        EXPECT_EQ(after.all[k].guard_damage(), "") << form << " " << i;
        if (!problem.operands[k].output) continue;
        const double least = problem.operands[k].name == "dprobs" ? 0.01 : 0;  // a sum that may nearly cancel
        const std::vector<double> found = after.all[k].values(), expected = right.all[k].values();
        std::size_t differ = 0;
        for (std::size_t e = 0; e < found.size(); ++e) {
          differ += std::abs(found[e] - expected[e]) <= least + 0.13 * std::abs(expected[e]) ? 0 : 1;
        }
        EXPECT_EQ(differ, 0u) << form << " " << i << " " << problem.operands[k].name;
      }
    }
  }
}

// The same, and along sums every offset is taken for the multiple of 128 below it.
TEST(CudaGroupedGemmFp8, TakesWrongOffsetsForTheNearest) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const ops::Operator& op = **ops::find_operator("grouped_gemm_fp8");
  const ops::Implementation& own = **ops::find_implementation(op, "cuda_groups_fp8");
  struct Offsets {
    const char* words;
    std::vector<double> wrong, nearest;
  };
  const Offsets all[] = {{"rows=300 k=144", {-5, 40, 20, 90, 1000, 60}, {0, 40, 40, 90, 300, 300}},
                         {"rows=300 k=144", {500, 0, 50, 100, 100, 100}, {300, 300, 300, 300, 300, 300}},
                         {"rows=300 k=144", {7, 1e9, -1e9, 7, 3, 2}, {7, 300, 300, 300, 300, 300}},
                         {"rows=656 m=40 along=sums", {-9, 255, 130, 400, 1e9, 5}, {0, 128, 128, 384, 640, 640}},
                         {"rows=656 m=40 along=sums", {130, 129, 128, 127, 639, 656}, {128, 128, 128, 128, 512, 640}}};
  for (const Offsets& one : all) {
    for (const char* form : {"offsets=i32", "offsets=i64", "scaling=row", "scaling=tensor"}) {
      const ops::Problem problem =
          *op.bind(*record::parse_case(fmt::format("grouped_gemm_fp8 groups=5 n=72 {} {}", form, one.words)));
      if (const auto why = ops::why_not(own, problem, ops::device_info(stream->view()))) GTEST_SKIP() << *why;
      constexpr std::size_t kOffsets = 4;
      Operands right = make_operands(problem, kPacked, 3), after = make_operands(problem, kPacked, 3);
      right.all[kOffsets].assign(one.nearest), after.all[kOffsets].assign(one.wrong);
      const auto device = GpuOperands::upload(the_device(), after, stream->handle());
      ASSERT_TRUE(device);
      ASSERT_TRUE(own.run(problem, {device->views(), after.scalars}, stream->view()));
      ASSERT_TRUE(device->download(after, stream->handle()));
      after.all[kOffsets].assign(one.nearest);
      EXPECT_EQ(judge(op, problem, right, after, 3), "") << problem.problem_case.text();
    }
  }
}

// Scales of rows and of groups that are no numbers: of a group with rows, of one without, and of rows of no group.
TEST(CudaGroupedGemmFp8, ScalesThatAreNoNumbersAreOfTheirGroupAlone) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const ops::Operator& op = **ops::find_operator("grouped_gemm_fp8");
  const ops::Implementation& own = **ops::find_implementation(op, "cuda_groups_fp8");
  constexpr std::size_t kScaleA = 2, kScaleB = 3, kOffsets = 4, kC = 5, kGroups = 5, kBad = 2, kEmpty = 1;
  struct Form {
    const char* words;
    std::vector<double> offsets;
    bool along_sums, rows_of_a;  // whether scale_a has a number for each row of the call
  };
  const std::vector<double> rows = {7, 40, 40, 90, 200, 280}, sums = {0, 128, 128, 384, 384, 640};
  for (const Form& form : {Form{"rows=300 k=144 scaling=row", rows, false, true},
                           Form{"rows=300 k=144 scaling=tensor", rows, false, false},
                           Form{"rows=640 m=40 along=sums scaling=row", sums, true, false},
                           Form{"rows=640 m=40 along=sums scaling=tensor", sums, true, false}}) {
    const ops::Problem problem =
        *op.bind(*record::parse_case(fmt::format("grouped_gemm_fp8 groups={} n=72 out=f32 {}", kGroups, form.words)));
    if (const auto why = ops::why_not(own, problem, ops::device_info(stream->view()))) GTEST_SKIP() << *why;
    const auto result = [&](bool marked) {
      Operands host = make_operands(problem, kPacked, 3);
      host.all[kOffsets].assign(form.offsets);
      for (const std::size_t operand : {kScaleA, kScaleB}) {
        std::vector<double> scales = host.all[operand].values();
        for (std::size_t i = 0; marked && i < scales.size(); ++i) {
          const auto at = static_cast<double>(i);
          const std::size_t group = i * kGroups / scales.size();
          const bool bad = operand == kScaleA && form.rows_of_a
                               ? at < form.offsets[0] || at >= form.offsets[kGroups] ||
                                     (at >= form.offsets[kBad] && at < form.offsets[kBad + 1])
                               : group == kBad || group == kEmpty;
          if (bad) scales[i] = std::numeric_limits<double>::quiet_NaN();
        }
        host.all[operand].assign(scales);
      }
      const auto device = GpuOperands::upload(the_device(), host, stream->handle());
      EXPECT_TRUE(device && own.run(problem, {device->views(), host.scalars}, stream->view()).ok() &&
                  device->download(host, stream->handle()).ok());
      return host.all[kC].values();
    };
    const std::vector<double> clean = result(false), marked = result(true);
    ASSERT_EQ(clean.size(), marked.size());
    const std::size_t columns = 72, matrix = columns * (form.along_sums ? 40 : 1);
    std::size_t differ = 0;
    for (std::size_t i = 0; i < clean.size(); ++i) {
      const auto row = static_cast<double>(i / matrix);
      const bool bad = form.along_sums ? i / matrix == kBad : row >= form.offsets[kBad] && row < form.offsets[kBad + 1];
      differ += (bad ? std::isnan(marked[i]) && !std::isnan(clean[i]) : marked[i] == clean[i]) ? 0 : 1;
    }
    EXPECT_EQ(differ, 0u) << form.words;
  }
}

}  // namespace
}  // namespace ridge::testing

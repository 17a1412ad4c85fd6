// The kernels that check outputs on a GPU, run on the host: what they call right is what the reference calls right, a
// right output passes their projection, and a wrong one does not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "numerics/convert.h"
#include "numerics/error_model.h"
#include "numerics/fill.h"
#include "ops/attention_fp8_emulation.h"
#include "ops/code_check_kernels.h"
#include "ops/cuda_on_host.h"
#include "ops/harness.h"
#include "ridge/stream.h"

namespace ridge::check_numbers {  // what check_numbers.cuh converts with on a GPU
inline float half_to_float(unsigned short bits) { return static_cast<float>(numerics::decode(DType::kF16, bits)); }
inline float from_e4m3(unsigned char code) { return static_cast<float>(numerics::decode(DType::kE4m3fn, code)); }
// Never equal: every code is looked at in full.
inline unsigned to_code(float, long long) { return 256; }
}  // namespace ridge::check_numbers

// clang-format off
#include "ops/check_numbers.cuh"
#include "ops/matmul/product_check.cu"
#include "ops/dequantize/device_check.cu"
#include "ops/row_numbers.cuh"
#include "ops/row_operands.cuh"
#include "ops/coding/right_codes.cuh"
#include "ops/quantize/row_model.cuh"
#include "ops/gating/definition.cuh"
#include "ops/activation/row_model.cuh"
#include "ops/activation/quantize/backward/row_model.cuh"
#include "ops/rmsnorm/quantize/row_model.cuh"
#include "ops/adamw/quantize/row_model.cuh"
#include "ops/grouped_quantize/row_model.cuh"
#include "ops/grouped_quantize/device_check.cu"
#include "ops/coding/code_check.cu"
#include "ops/embedding_backward/element.cuh"
#include "ops/embedding_backward/device_check.cu"
#include "ops/symmetric_product/device_check.cu"
#include "ops/matmul/grouped_check.cu"
#include "ops/grouped_gemm/swiglu_check.cu"
#include "ops/attention/check_pairs.cuh"
#include "ops/attention/device_check.cu"
#include "ops/attention/backward/device_check.cu"
#include "ops/attention/fp8/device_check.cu"
#include "ops/expert_order/device_check.cu"
#include "ops/route/power.cuh"
#include "ops/route/device_check.cu"
// clang-format on

namespace ridge::testing {
namespace {

using numerics::Family;

const Kernels& kernels() {
  static const Kernels all = {
      {"product_signs", on_host(product_signs)},
      {"product_rows", on_host(product_rows)},
      {"product_columns", on_host(product_columns)},
      {"product_judge", on_host(product_judge)},
      {"product_samples", on_host(product_samples)},
      {"product_truncation", on_host(product_truncation)},
      {"product_reference", on_host(product_reference)},
      {"dequantize_elements", on_host(dequantize_elements)},
      {"dequantize_reference", on_host(dequantize_reference)},
      {"embedding_elements", on_host(embedding_elements)},
      {"embedding_reference", on_host(embedding_reference)},
      {"expert_order_all", on_host(expert_order_all)},
      {"expert_order_reference", on_host(expert_order_reference)},
      {"route_rows", on_host(route_rows)},
      {"route_reference", on_host(route_reference)},
      {"symmetric_pairs", on_host(symmetric_pairs)},
      {"symmetric_samples", on_host(symmetric_samples)},
      {"symmetric_reference", on_host(symmetric_reference)},
      {"grouped_times", on_host(grouped_check::grouped_times)},
      {"grouped_expected", on_host(grouped_check::grouped_expected)},
      {"grouped_judge", on_host(grouped_check::grouped_judge)},
      {"grouped_truncation", on_host(grouped_check::grouped_truncation)},
      {"grouped_reference", on_host(grouped_check::grouped_reference)},
      {"swiglu_judge", on_host(swiglu_check::swiglu_judge)},
      {"swiglu_reference", on_host(swiglu_check::swiglu_reference)},
      {"attention_rows", on_host(attention_check::attention_rows)},
      {"attention_sums", on_host(attention_check::attention_sums)},
      {"attention_keys", on_host(attention_check::attention_keys)},
      {"attention_project", on_host(attention_check::attention_project)},
      {"attention_samples", on_host(attention_check::attention_samples)},
      {"attention_fp8_rows", on_host(attention_fp8_check::attention_fp8_rows)},
      {"attention_fp8_sums", on_host(attention_fp8_check::attention_fp8_sums)},
      {"attention_fp8_keys", on_host(attention_fp8_check::attention_fp8_keys)},
      {"attention_fp8_project", on_host(attention_fp8_check::attention_fp8_project)},
      {"attention_fp8_samples", on_host(attention_fp8_check::attention_fp8_samples)},
      {"attention_backward_queries", on_host(attention_backward_check::attention_backward_queries)},
      {"attention_backward_clear", on_host(attention_backward_check::attention_backward_clear)},
      {"attention_backward_special", on_host(attention_backward_check::attention_backward_special)},
      {"attention_backward_facts", on_host(attention_backward_check::attention_backward_facts)},
      {"attention_backward_keys", on_host(attention_backward_check::attention_backward_keys)},
      {"attention_backward_samples", on_host(attention_backward_check::attention_backward_samples)},
      {"attention_backward_key_rows", on_host(attention_backward_check::attention_backward_key_rows)},
      {"attention_backward_query_rows", on_host(attention_backward_check::attention_backward_query_rows)},
      {"attention_backward_project", on_host(attention_backward_check::attention_backward_project)},
      {"attention_backward_judge", on_host(attention_backward_check::attention_backward_judge)},
      {"attention_backward_sinks", on_host(attention_backward_check::attention_backward_sinks)},
      {"attention_backward_judge_sinks", on_host(attention_backward_check::attention_backward_judge_sinks)}};
  return all;
}

// With those that a row model is compiled into.
template <class Model>
Kernels code_kernels_of() {
  return {{"codes_clear", on_host(codes_clear)},
          {"codes_given", on_host(codes_given)},
          {"codes_scales", on_host(codes_scales)},
          {"codes_found", on_host(codes_found)},
          {"codes_reference_scales", on_host(codes_reference_scales)},
          {"codes_reference_found", on_host(codes_reference_found)},
          {"codes_shifts", on_host(codes_shifts)},
          {"codes_amax", on_host(code_check::largest_magnitudes<Model>)},
          {"codes_largest", on_host(code_check::largest_of_all<Model>)},
          {"codes_judge", on_host(code_check::judge_codes<Model>)},
          {"codes_reference", on_host(code_check::reference_codes<Model>)}};
}

}  // namespace

Kernels code_check_kernels(const std::string& op) {
  if (op == "activation_quantize") return code_kernels_of<ops::activation::RowModel>();
  if (op == "activation_quantize_backward") return code_kernels_of<ops::activation_quantize_backward::RowModel>();
  if (op == "adamw_quantize") return code_kernels_of<ops::adamw_quantize::RowModel>();
  if (op == "grouped_quantize") {
    Kernels kernels = code_kernels_of<ops::grouped_quantize::RowModel>();
    kernels.merge(Kernels{{"grouped_padded", on_host(grouped_padded)},
                          {"grouped_padded_reference", on_host(grouped_padded_reference)}});
    return kernels;
  }
  if (op == "rmsnorm_quantize") return code_kernels_of<ops::rmsnorm_quantize::RowModel>();
  return code_kernels_of<ops::quantize::RowModel>();
}

namespace {

void launch(const std::string& op, const std::vector<ops::CheckLaunch>& launches) {
  const Kernels of_codes = code_check_kernels(op);
  for (const ops::CheckLaunch& one : launches) {
    const auto found = kernels().find(one.kernel);
    (found != kernels().end() ? found->second : of_codes.at(one.kernel))(one);
  }
}

class CheckKernelsOfACall : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kFibersRun) GTEST_SKIP() << "not under a sanitizer";
  }

  void prepare(std::string_view text, Family family) {
    const record::Case asked = *record::parse_case(text);
    op_ = *ops::find_operator(asked.op);
    problem_ = *op_->bind(asked);
    for (Operands* operands : {&before_, &after_}) {
      *operands = make_operands(problem_, kPacked, 7);
      for (std::size_t i = 0; i < operands->all.size(); ++i) {
        const ops::OperandSpec& spec = problem_.operands[i];
        if (!spec.output || spec.read_write) {
          ops::fill_input(spec.fill, operands->all[i].view(), family, i);
        }
      }
    }
    ASSERT_TRUE(able_implementation().run(problem_, after_.views(), Stream::cpu()).ok());
  }

  struct Reference {
    std::vector<double> value, allowed, variance, shift;
  };
  Reference reference(std::size_t output) {
    const ops::OperandSpec& spec = problem_.operands[output];
    const auto count = static_cast<std::size_t>(spec.element_count());
    const std::int64_t rows = ops::device_matrix(after_.all[output].view()).rows;
    Reference r{std::vector<double>(count), std::vector<double>(count), std::vector<double>(count),
                std::vector<double>(count)};
    const std::vector<TensorView> views = after_.views_with_old(before_);
    std::vector<double> scratch(op_->device_check->scratch_bytes(problem_) / sizeof(double) + 1, 1e300);
    launch(op_->name, op_->device_check->reference({problem_,
                                                    views,
                                                    output,
                                                    0,
                                                    rows,
                                                    r.value.data(),
                                                    r.allowed.data(),
                                                    r.variance.data(),
                                                    r.shift.data(),
                                                    {},
                                                    scratch.data()}));
    return r;
  }

  // The largest residual over what is allowed, the root of the mean of squares over those of the ideal kernel, and its
  // limit.
  struct Projected {
    double worst = 0, rms = 0, limit = 0;
    bool not_finite = false;
  };
  // `without`: a kernel that is not run.
  Projected projected(std::string_view without = {}) {
    std::vector<double> scratch(op_->device_check->scratch_bytes(problem_) / sizeof(double) + 1);
    ops::ProjectionResult found;
    const std::vector<TensorView> views = after_.views_with_old(before_);
    std::vector<ops::CheckLaunch> launches =
        op_->device_check->projection({problem_, views, 99, scratch.data(), &found});
    std::erase_if(launches, [&](const ops::CheckLaunch& one) { return one.kernel == without; });
    launch(op_->name, launches);
    return {std::bit_cast<float>(static_cast<std::uint32_t>(found.worst >> 32)),
            found.count > 0 ? std::sqrt(found.square_sum / found.count) : 0.0,
            numerics::rms_limit(static_cast<std::int64_t>(found.count)), found.not_finite != 0};
  }
  // Above 1: wrong.
  double projection() {
    const Projected found = projected();
    return std::max({found.worst, found.rms / found.limit, found.not_finite ? 1e300 : 0.0});
  }

  // Of attention, whose v has eight columns and one value that is no number.
  void expect_column_of_nan(std::string_view text) {
    prepare(text, Family::kNormal);
    std::vector<double> v = values("v");
    v[600 * 8 + 3] = std::numeric_limits<double>::quiet_NaN();
    assign("v", v);
    const Reference found = reference(*problem_.position("o"));
    const auto open = [&](std::size_t row, std::size_t column) { return std::isinf(found.allowed[row * 8 + column]); };
    EXPECT_TRUE(open(599, 3));
    EXPECT_TRUE(open(280, 3));
    EXPECT_FALSE(open(279, 3));
    EXPECT_FALSE(open(599, 2));
    EXPECT_TRUE(std::isnan(found.value[600 * 8 + 3]));
  }

  // The outputs that a kernel leaves which takes the operands for those of another case.
  void computed_as(std::string_view text) {
    const ops::Problem other = *op_->bind(*record::parse_case(text));
    ASSERT_TRUE(able_implementation().run(other, after_.views(), Stream::cpu()).ok());
  }
  [[nodiscard]] const ops::Implementation& able_implementation() const {
    return *std::ranges::find_if(op_->implementations, [&](const ops::Implementation& one) {
      return one.backend == Backend::kCpu && !one.supports(problem_, ops::device_info(Stream::cpu()));
    });
  }
  std::vector<double> values(std::string_view name) { return after_.all[*problem_.position(name)].values(); }
  void assign(std::string_view name, const std::vector<double>& to) { after_.all[*problem_.position(name)].assign(to); }

  const ops::Operator* op_ = nullptr;
  ops::Problem problem_;
  Operands before_, after_;
};

class CheckKernels : public CheckKernelsOfACall, public ::testing::WithParamInterface<const char*> {};

TEST_P(CheckKernels, CallRightWhatTheReferenceCallsRight) {
  for (const Family family : {Family::kNormal, Family::kConstantBlocks}) {
    SCOPED_TRACE(numerics::to_string(family));
    prepare(GetParam(), family);
    const auto expected = *op_->reference(problem_, before_.views());
    std::size_t next = 0;
    for (std::size_t output = 0; output < problem_.operands.size(); ++output) {
      if (!problem_.operands[output].output) continue;
      const Reference found = reference(output);
      const ops::ReferenceOutput& want = expected[next++];
      const std::vector<double> written = after_.all[output].values();
      std::size_t wrong = 0;
      for (std::size_t e = 0; e < written.size(); ++e) {
        const auto near = [](double x, double y, double most) { return x == y || std::abs(x - y) <= most; };
        // What is made of another output is held to that one as it is, by the reference to all that it may be.
        const bool follows = problem_.problem_case.op == "grouped_gemm" && problem_.operands[output].name == "y";
        const bool same =
            follows ? near(found.value[e], want.value[e], want.allowed[e]) && found.allowed[e] <= 1.02 * want.allowed[e]
                    : near(found.value[e], want.value[e], 1e-3 * want.allowed[e]) &&
                          near(found.allowed[e], want.allowed[e], 0.02 * want.allowed[e]);
        wrong += same && near(written[e], found.value[e], found.allowed[e]) ? 0 : 1;
      }
      EXPECT_EQ(wrong, 0) << problem_.operands[output].name;
    }
    EXPECT_LE(projection(), 1.0);
  }
}

TEST_P(CheckKernels, SeeAWrongOutput) {
  prepare(GetParam(), Family::kNormal);
  for (std::size_t i = 0; i < problem_.operands.size(); ++i) {
    if (!problem_.operands[i].output) continue;
    const std::vector<double> right = after_.all[i].values();
    std::vector<double> wrong = right;
    for (double& value : wrong) value = 2 * value + 1;
    after_.all[i].assign(wrong);
    EXPECT_GT(projection(), 1.0) << problem_.operands[i].name;
    after_.all[i].assign(right);
  }
}

// Mistakes that grouped kernels make, in one row or one matrix of many.
class GroupedCheck : public CheckKernelsOfACall {
 protected:
  // What is wrong where an input, group boundaries for instance, is moved for the kernel alone.
  void computed_with_moved(const char* text, const std::function<void(std::vector<double>&)>& move,
                           std::string_view input = "offsets") {
    prepare(text, Family::kNormal);
    ASSERT_LE(projection(), 1.0);
    const std::vector<double> right = values(input);
    std::vector<double> moved = right;
    move(moved);
    ASSERT_NE(moved, right);
    assign(input, moved);
    computed_as(text);
    assign(input, right);
    EXPECT_GT(projection(), 1.0) << text << ": " << input;
  }
};

TEST_F(GroupedCheck, SeesARowInTheGroupOfItsNeighbour) {
  for (const char* text :
       {"grouped_gemm rows=150 groups=4 k=40 n=70", "grouped_gemm rows=150 groups=4 m=40 n=70 layout=tn",
        "grouped_gemm_fp8 rows=150 groups=4 k=200 n=70", "grouped_gemm_fp8 rows=150 groups=4 k=40 n=70 scaling=row"}) {
    computed_with_moved(text, [](std::vector<double>& offsets) { offsets[2] += offsets[2] < offsets[3] ? 1 : -1; });
  }
}

TEST_F(GroupedCheck, SeesTheRowThatAnotherNumberNames) {
  for (const char* text : {"grouped_gemm rows=150 groups=4 k=40 n=70 gather=a sources=40",
                           "grouped_gemm rows=150 groups=4 m=40 n=70 layout=tn gather=a sources=90",
                           "grouped_gemm rows=150 groups=4 m=40 n=70 layout=tn gather=b sources=300"}) {
    computed_with_moved(
        text,
        [&](std::vector<double>& index) {
          const std::vector<double> offsets = values("offsets");
          double& one = index[static_cast<std::size_t>(offsets.front())];
          one = one == 7 ? 8 : 7;
        },
        "index");
  }
}

TEST_F(GroupedCheck, SeesScalesOfOtherRowsAndOtherGroups) {
  for (const char* text :
       {"grouped_gemm_fp8 rows=150 groups=4 k=200 n=70", "grouped_gemm_fp8 rows=150 groups=4 k=70 n=70 scaling=row",
        "grouped_gemm_fp8 rows=800 groups=4 m=40 n=66 along=sums",
        "grouped_gemm_fp8 rows=800 groups=4 m=40 n=66 along=sums scaling=row",
        "grouped_gemm_fp8 rows=800 groups=4 m=40 n=66 along=sums scaling=tensor"}) {
    for (const std::string_view input : {"scale_a", "scale_b"}) {
      computed_with_moved(
          text, [](std::vector<double>& scales) { std::ranges::rotate(scales, scales.begin() + 1); }, input);
    }
  }
}

TEST_F(GroupedCheck, SeesARowBehindTheLastGroupThatIsWritten) {
  computed_with_moved("grouped_gemm rows=150 groups=4 k=40 n=70",
                      [](std::vector<double>& offsets) { offsets.back() += 1; });
}

TEST_F(GroupedCheck, SeesAnEmptyGroupThatIsWritten) {
  prepare("grouped_gemm rows=6 groups=9 m=8 n=8 layout=tn", Family::kNormal);
  ASSERT_LE(projection(), 1.0);
  const std::vector<double> offsets = values("offsets");
  const auto empty = std::adjacent_find(offsets.begin(), offsets.end()) - offsets.begin();
  ASSERT_LT(empty, 9);
  std::vector<double> c = values("c");
  c[static_cast<std::size_t>(empty) * 64] = 0x1p-20;
  assign("c", c);
  EXPECT_GT(projection(), 1.0);
}

// What SwiGLU beside a product may get wrong, where C is right.
TEST_F(GroupedCheck, SeesASwigluThatIsNotOfItsRow) {
  constexpr std::string_view kCase = "grouped_gemm rows=150 groups=4 k=40 n=72 epilogue=swiglu probs=1";
  prepare(kCase, Family::kNormal);
  ASSERT_LE(projection(), 1.0);
  const std::vector<double> right = values("y"), probs = values("probs"), offsets = values("offsets");
  const auto first = static_cast<std::size_t>(offsets.front()), last = static_cast<std::size_t>(offsets.back());
  ASSERT_GT(last, first + 1);
  const auto seen = [&](const char* what, auto&& change) {
    std::vector<double> wrong = right;
    change(wrong);
    assign("y", wrong);
    EXPECT_GT(projection(), 1.0) << what;
  };
  const auto row = [&](std::vector<double>& y, std::size_t at) {
    return y.begin() + static_cast<std::ptrdiff_t>(at * 36);
  };
  seen("the factor of a row twice", [&](std::vector<double>& y) {
    for (std::size_t j = 0; j < 36; ++j) y[first * 36 + j] *= probs[first];
  });
  seen("the neighbour's row", [&](std::vector<double>& y) { std::copy_n(row(y, first), 36, row(y, first + 1)); });
  seen("one element of another column", [&](std::vector<double>& y) { std::swap(y[last * 36 - 1], y[last * 36 - 9]); });
  if (last < 150) {
    seen("a row of no group", [&](std::vector<double>& y) { y[last * 36] = 0x1p-20; });
  }
  assign("y", right);
  ASSERT_LE(projection(), 1.0);
}

// Mistakes that attention kernels make, over 140 queries: all of a call, or the smallest part that one may drop.
class AttentionCheck : public CheckKernelsOfACall {
 protected:
  static constexpr std::string_view kCase =
      "attention heads=4 kv_heads=2 q_len=140 k_len=140 dim=32 mask=causal keys_left=41";
};

TEST_F(AttentionCheck, SeesAMaskThatIsOffByOne) {
  for (const char* wrong : {"mask=causal keys_left=40", "mask=causal keys_left=42", "keys_left=41 keys_right=2"}) {
    prepare(kCase, Family::kNormal);
    ASSERT_LE(projection(), 1.0);
    computed_as(fmt::format("attention heads=4 kv_heads=2 q_len=140 k_len=140 dim=32 {}", wrong));
    EXPECT_GT(projection(), 1.0) << wrong;
  }
}

TEST_F(AttentionCheck, SeesTheValuesOfAnotherHead) {
  prepare(kCase, Family::kNormal);
  const std::vector<double> right = values("v");
  std::vector<double> turned = right;
  for (std::size_t row = 0; row < turned.size(); row += 64) {
    std::rotate(turned.begin() + static_cast<std::ptrdiff_t>(row),
                turned.begin() + static_cast<std::ptrdiff_t>(row) + 32,
                turned.begin() + static_cast<std::ptrdiff_t>(row) + 64);
  }
  assign("v", turned);
  computed_as(kCase);
  assign("v", right);
  EXPECT_GT(projection(), 1.0);
}

TEST_F(AttentionCheck, SeesADocumentThatReachesIntoItsNeighbour) {
  constexpr std::string_view kPackedCase =
      "attention heads=2 kv_heads=1 q_len=120 k_len=120 dim=32 documents=3 dtype=f16";
  prepare(kPackedCase, Family::kNormal);
  ASSERT_LE(projection(), 1.0);
  const std::vector<double> right = values("k_offsets");
  std::vector<double> wide = right;
  for (std::size_t n = 1; n + 1 < wide.size(); ++n) wide[n] = std::min(wide[n] + 1, wide.back());
  assign("k_offsets", wide);
  computed_as(kPackedCase);
  assign("k_offsets", right);
  EXPECT_GT(projection(), 1.0);
}

TEST_F(AttentionCheck, SeesASinkOfAnotherHeadAndASoftcapThatIsLeftOut) {
  constexpr std::string_view kSinks = "attention heads=4 kv_heads=2 q_len=140 k_len=140 dim=32 mask=causal sinks=1";
  prepare(kSinks, Family::kNormal);
  const std::vector<double> right = values("sinks");
  std::vector<double> turned = right;
  std::rotate(turned.begin(), turned.begin() + 1, turned.end());
  assign("sinks", turned);
  computed_as(kSinks);
  assign("sinks", right);
  EXPECT_GT(projection(), 1.0);
  prepare("attention heads=4 kv_heads=2 q_len=140 k_len=140 dim=32 mask=causal softcap=1", Family::kNormal);
  computed_as("attention heads=4 kv_heads=2 q_len=140 k_len=140 dim=32 mask=causal");
  EXPECT_GT(projection(), 1.0);
}

// Of another head, to one side alone, and of the places of all instead of a document's.
TEST_F(AttentionCheck, SeesSlopesThatAreWrong) {
  const std::string words = "attention heads=4 kv_heads=2 q_len=140 k_len=140 dim=32 alibi=1";
  prepare(words, Family::kNormal);
  ASSERT_LE(projection(), 1.0);
  const std::vector<double> right = values("alibi_slopes");
  std::vector<double> turned = right, less = right;
  std::rotate(turned.begin(), turned.begin() + 1, turned.end());
  less[3] *= 0.96875;
  for (const std::vector<double>& wrong : {turned, less}) {
    assign("alibi_slopes", wrong);
    computed_as(words);
    assign("alibi_slopes", right);
    EXPECT_GT(projection(), 1.0);
  }
  prepare("attention heads=4 kv_heads=2 q_len=140 k_len=139 dim=32 alibi=1", Family::kNormal);
  ASSERT_LE(projection(), 1.0);
  computed_as("attention heads=4 kv_heads=2 q_len=140 k_len=139 dim=32");
  EXPECT_GT(projection(), 1.0);
}

TEST_F(AttentionCheck, SeesRowsThatWereNotWritten) {
  prepare(kCase, Family::kNormal);
  std::vector<double> o = values("o");
  std::fill(o.end() - 32, o.end(), 0.0);  // one row of one head
  assign("o", o);
  EXPECT_GT(projection(), 1.0);
}

TEST_F(AttentionCheck, SeesALogSumExpOfOtherScores) {
  prepare(kCase, Family::kNormal);
  std::vector<double> sums = values("log_sum_exp");
  sums.back() += 1e-3;
  assign("log_sum_exp", sums);
  EXPECT_GT(projection(), 1.0);
}

// A value that is not finite may reach, as a NaN, rows that do not see its key, in its column, and no others.
TEST_F(AttentionCheck, LetsAValueThatIsNotFiniteSpreadInItsColumn) {
  expect_column_of_nan("attention heads=1 kv_heads=1 q_len=900 k_len=900 dim=8 mask=causal");
}

// Each row by itself is within its limit; all of them together are not.
TEST_F(AttentionCheck, SeesErrorsThatAreTooLargeOnAverage) {
  prepare(kCase, Family::kNormal);
  std::vector<double> o = values("o");
  for (std::size_t e = 0; e < o.size(); ++e) o[e] *= 1 + (e % 2 == 0 ? 0.03 : -0.03);
  assign("o", o);
  EXPECT_GT(projection(), 1.0);
}

// Mistakes that kernels of codes make, and an emulation of the kernel for Hopper, whose weights are codes.
class AttentionFp8Check : public CheckKernelsOfACall {
 protected:
  static constexpr std::string_view kCase =
      "attention_fp8 heads=4 kv_heads=2 q_len=140 k_len=140 dim=32 mask=causal keys_left=41";

  // The outputs that a kernel leaves.
  void emulate(const emulated::Kernel& kernel) {
    after_.scalars.clear();  // the usual ones, as those of the other kernels
    const emulated::Results found = emulated::Emulation(problem_, after_, kernel).run();
    assign("o", found.o);
    assign("log_sum_exp", found.sums);
  }
  void expect_right(const std::string& what) {
    const Projected found = projected();
    EXPECT_LE(found.worst, 1.0) << what;
    EXPECT_LE(found.rms, found.limit) << what;
    EXPECT_FALSE(found.not_finite) << what;
  }
  // By the projection of all rows alone: of a large call few rows are looked at element by element.
  void expect_wrong(std::string_view what) {
    const Projected found = projected("attention_fp8_samples");
    EXPECT_TRUE(found.worst > 1 || found.rms > found.limit || found.not_finite) << what;
  }
  // The outputs of a kernel that takes other inputs in place of one, of which `change` makes them.
  void computed_with(std::string_view text, std::string_view input,
                     const std::function<void(std::vector<double>&)>& change) {
    prepare(text, Family::kNormal);
    ASSERT_LE(projection(), 1.0);
    const std::vector<double> right = values(input);
    std::vector<double> changed = right;
    change(changed);
    ASSERT_NE(changed, right);
    assign(input, changed);
    computed_as(text);
    assign(input, right);
  }
};

// Groups, windows, columns of another number than those of keys, queries without keys, more keys than a sum has.
constexpr const char* kCodesCases[] = {
    "attention_fp8 heads=2 kv_heads=1 q_len=6 k_len=300 dim=64",
    "attention_fp8 heads=2 kv_heads=1 q_len=70 k_len=70 dim=96 v_dim=48 mask=causal out=f16",
    "attention_fp8 batch=2 heads=2 kv_heads=2 q_len=5 k_len=330 dim=128 mask=causal keys_left=200",
    "attention_fp8 heads=1 kv_heads=1 q_len=80 k_len=20 dim=16 mask=causal",
    "attention_fp8 heads=1 kv_heads=1 q_len=3 k_len=700 dim=16"};

TEST_F(AttentionFp8Check, CallsTheKernelForHopperRightInEveryFamily) {
  for (const char* text : kCodesCases) {
    for (const Family family : numerics::kAllFamilies) {
      prepare(text, family);
      if (op_->excuses(problem_, family)) continue;
      emulated::Kernel kernel;
      kernel.lazy = family == Family::kNormal ? 0 : 2;
      emulate(kernel);
      expect_right(fmt::format("{}, {}", text, numerics::to_string(family)));
    }
  }
}

// Where errors are as they are expected, of numbers at random, the statistic is 1; it is far below where weights are
// not rounded.
TEST_F(AttentionFp8Check, ExpectsTheErrorsThatKernelsHave) {
  prepare(kCase, Family::kNormal);
  EXPECT_LE(projected().rms, 0.2);
  emulate({});
  const Projected found = projected();
  EXPECT_GE(found.rms, 0.6);
  EXPECT_LE(found.rms, 1.1);
}

// Single elements have other expected squares than those of the reference, whose groups of weights are others.
TEST_F(AttentionFp8Check, ExpectsTheSquaresThatTheReferenceExpects) {
  for (const Family family : {Family::kNormal, Family::kUniform, Family::kMixture}) {
    prepare(kCase, family);
    const auto want = *op_->reference(problem_, after_.views());
    for (std::size_t i = 0; const std::string_view output : {"o", "log_sum_exp"}) {
      const std::vector<double>& expected = want[i++].ideal_square;
      const Reference found = reference(*problem_.position(output));
      double ratios = 0;
      for (std::size_t e = 0; e < expected.size(); ++e) ratios += std::log(found.variance[e] / expected[e]);
      EXPECT_NEAR(ratios / static_cast<double>(expected.size()), 0.0, 0.2) << output;
    }
  }
}

// Equal keys, whose weights have equal errors; scores that one key wins; scores of hundreds; scales of zero; values of
// one sign.
TEST_F(AttentionFp8Check, CallsKernelsRightOnNumbersOfAKind) {
  constexpr std::string_view kText = "attention_fp8 heads=2 kv_heads=1 q_len=20 k_len=400 dim=32 v_dim=48";
  using Change = std::function<void(std::vector<double>&)>;
  const Change positive = [](std::vector<double>& values) {
    for (double& value : values) value = numerics::round_to(DType::kE4m3fn, 1 + std::abs(value) / 8);
  };
  const auto times = [](double factor) -> Change {
    return [factor](std::vector<double>& values) {
      for (double& value : values) value *= factor;
    };
  };
  const Change twice = [](std::vector<double>& values) {  // rows of two kinds in turn
    for (std::size_t e = 64; e < values.size(); ++e) values[e] = values[e - 64];
  };
  const Change one_key = [](std::vector<double>& values) {
    for (std::size_t c = 0; c < 32; ++c) values[17 * 32 + c] *= 4;
  };
  const std::pair<const char*, std::vector<std::pair<std::string_view, Change>>> kinds[] = {
      {"values of one sign", {{"v", positive}}},
      {"equal keys", {{"k", twice}}},
      {"equal keys, values of one sign", {{"k", twice}, {"v", positive}}},
      {"no scores", {{"q", times(0)}, {"v", positive}}},
      {"small scores", {{"q_scale", times(0x1p-6)}, {"v", positive}}},
      {"one key", {{"k", one_key}}},
      {"one key, values of one sign", {{"k", one_key}, {"q_scale", times(2)}, {"v", positive}}},
      {"large scores", {{"q_scale", times(32)}}},
      {"large scores of one sign", {{"q", positive}, {"k", positive}, {"q_scale", times(32)}, {"v", positive}}},
      {"no values", {{"v_scale", times(0)}}},
      {"large values", {{"v_scale", times(0x1p60)}}}};
  for (const auto& [what, changes] : kinds) {
    prepare(kText, Family::kNormal);
    for (const auto& [input, change] : changes) {
      std::vector<double> changed = values(input);
      change(changed);
      assign(input, changed);
    }
    computed_as(kText);
    expect_right(fmt::format("{}, fp32", what));
    emulate({});
    expect_right(what);
  }
}

// Also beside a right log-sum-exp.
TEST_F(AttentionFp8Check, SeesAMaskThatIsOffByOne) {
  for (const char* wrong : {"mask=causal keys_left=40", "mask=causal keys_left=42", "keys_left=41 keys_right=2"}) {
    prepare(kCase, Family::kNormal);
    ASSERT_LE(projection(), 1.0);
    const std::vector<double> right = values("log_sum_exp");
    computed_as(fmt::format("attention_fp8 heads=4 kv_heads=2 q_len=140 k_len=140 dim=32 {}", wrong));
    expect_wrong(wrong);
    assign("log_sum_exp", right);
    expect_wrong(wrong);
  }
}

TEST_F(AttentionFp8Check, SeesKeysAndValuesOfAnotherHead) {
  for (const std::string_view input : {"k", "v"}) {
    computed_with(kCase, input, [](std::vector<double>& rows) {
      for (auto row = rows.begin(); row != rows.end(); row += 64) std::rotate(row, row + 32, row + 64);
    });
    expect_wrong(input);
  }
}

TEST_F(AttentionFp8Check, SeesScalesOfAnotherHeadAndScalesThatAreLeftOut) {
  for (const std::string_view input : {"q_scale", "k_scale", "v_scale"}) {
    computed_with(kCase, input,
                  [](std::vector<double>& scales) { std::rotate(scales.begin(), scales.begin() + 1, scales.end()); });
    expect_wrong(fmt::format("{} of another head", input));
    computed_with(kCase, input, [](std::vector<double>& scales) { std::fill(scales.begin(), scales.end(), 1.0); });
    expect_wrong(fmt::format("{} left out", input));
  }
  prepare(kCase, Family::kNormal);
  emulated::Kernel next_head;
  next_head.scales_of_next_head = true;
  emulate(next_head);
  expect_wrong("scales of another head of all");
}

TEST_F(AttentionFp8Check, SeesRowsThatWereNotWrittenAndKeysThatWereDropped) {
  prepare(kCase, Family::kNormal);
  std::vector<double> o = values("o");
  std::fill(o.end() - 32, o.end(), 0.0);  // one row of one head
  assign("o", o);
  expect_wrong("a row");
  for (const std::int64_t tile : {128, 149}) {
    prepare("attention_fp8 heads=2 kv_heads=1 q_len=70 k_len=150 dim=64", Family::kNormal);
    emulate({});
    ASSERT_LE(projection(), 1.0);
    emulated::Kernel drops;
    drops.drops = tile;
    emulate(drops);
    expect_wrong(fmt::format("without the keys behind a multiple of {}", tile));
  }
}

// Of the query before, and a little off: more than the matrix unit may take off scores.
TEST_F(AttentionFp8Check, SeesALogSumExpOfOtherScores) {
  prepare(kCase, Family::kNormal);
  const std::vector<double> right = values("log_sum_exp");
  std::vector<double> stale = right, off = right;
  stale.back() = right[right.size() - 2];
  off.back() += 0.03;
  for (const std::vector<double>& wrong : {stale, off}) {
    assign("log_sum_exp", wrong);
    expect_wrong("a log-sum-exp");
  }
}

// Each row by itself is within its limit; all of them together are not.
TEST_F(AttentionFp8Check, SeesErrorsThatAreTooLargeOnAverage) {
  prepare(kCase, Family::kNormal);
  emulated::Kernel coarse;
  coarse.weight_bits = 1;
  emulate(coarse);
  expect_wrong("weights of one bit");
  prepare(kCase, Family::kNormal);
  std::vector<double> o = values("o");
  for (std::size_t e = 0; e < o.size(); ++e) o[e] *= 1 + (e % 2 == 0 ? 0.08 : -0.08);
  assign("o", o);
  expect_wrong("errors of all");
}

// Weights and values that are alike: what a sum over all keys loses of each is more than it keeps.
TEST_F(AttentionFp8Check, SeesSumsThatStayInTheMatrixUnit) {
  prepare("attention_fp8 heads=1 kv_heads=1 q_len=1 k_len=16384 dim=16 v_dim=64", Family::kNormal);
  assign("q", std::vector<double>(16, 0.0));
  std::vector<double> v = values("v");
  for (double& value : v) value = numerics::round_to(DType::kE4m3fn, 1 + std::abs(value) / 8);
  assign("v", v);
  emulate({});
  EXPECT_LE(projection(), 1.0);
  emulated::Kernel all_keys;
  all_keys.promotes = false;
  emulate(all_keys);
  EXPECT_GT(projection(), 1.0);
}

TEST_F(AttentionFp8Check, LetsAValueThatIsNotANumberSpreadInItsColumn) {
  expect_column_of_nan("attention_fp8 heads=1 kv_heads=1 q_len=900 k_len=900 dim=8 mask=causal");
}

// Of rows that see a key, and of no others.
TEST_F(AttentionFp8Check, HasNoNumbersWhereScalesAreNone) {
  constexpr std::string_view kText = "attention_fp8 heads=4 kv_heads=2 q_len=12 k_len=9 dim=16 mask=causal";
  const double none = std::numeric_limits<double>::quiet_NaN(), most = std::numeric_limits<double>::infinity();
  for (const auto& [input, value] : {std::pair{"q_scale", -1.0},
                                     {"q_scale", none},
                                     {"k_scale", most},
                                     {"k_scale", 0x1p102},
                                     {"v_scale", none},
                                     {"v_scale", most}}) {
    prepare(kText, Family::kNormal);
    std::vector<double> scales = values(input);
    scales[1] = value;
    assign(input, scales);
    computed_as(kText);
    const auto want = *op_->reference(problem_, after_.views());
    for (std::size_t i = 0; const std::string_view output : {"o", "log_sum_exp"}) {
      const Reference found = reference(*problem_.position(output));
      const std::vector<double> written = values(output);
      for (std::size_t e = 0; e < written.size(); ++e) {
        EXPECT_EQ(std::isnan(found.value[e]), std::isnan(want[i].value[e])) << input << ' ' << value << ' ' << e;
        EXPECT_EQ(std::isnan(found.value[e]), std::isnan(written[e])) << input << ' ' << value << ' ' << e;
      }
      ++i;
    }
    EXPECT_TRUE(projected().not_finite);  // a full compare decides
  }
}

class AttentionBackwardCheck : public CheckKernelsOfACall {
 protected:
  static constexpr std::string_view kCase =
      "attention_backward heads=4 kv_heads=2 q_len=140 k_len=140 dim=32 mask=causal keys_left=41";

  // One output is that of other inputs, all else is right.
  void swap_output(std::string_view output, std::string_view input,
                   const std::function<void(std::vector<double>&)>& change) {
    prepare(kCase, Family::kNormal);
    std::map<std::string_view, std::vector<double>> right;
    for (const std::string_view name : {"d_q", "d_k", "d_v"}) right[name] = values(name);
    const std::vector<double> before = values(input);
    std::vector<double> changed = before;
    change(changed);
    assign(input, changed);
    computed_as(kCase);
    assign(input, before);
    for (const auto& [name, its] : right) {
      if (name != output) assign(name, its);
    }
  }
};

TEST_F(AttentionBackwardCheck, SeesAMaskThatIsOffByOneInEachOutput) {
  for (const std::string_view output : {"d_q", "d_k", "d_v"}) {
    prepare(kCase, Family::kNormal);
    ASSERT_LE(projection(), 1.0);
    const std::vector<double> right[] = {values("d_q"), values("d_k"), values("d_v")};
    computed_as("attention_backward heads=4 kv_heads=2 q_len=140 k_len=140 dim=32 mask=causal keys_left=42");
    for (std::size_t i = 0; const std::string_view name : {"d_q", "d_k", "d_v"}) {
      if (name != output) assign(name, right[i]);
      ++i;
    }
    EXPECT_GT(projection(), 1.0) << output;
  }
}

TEST_F(AttentionBackwardCheck, SeesQueriesThatAreMissingInTheSumsOfKeys) {
  for (const std::string_view output : {"d_k", "d_v"}) {
    swap_output(output, "d_o", [](std::vector<double>& d_o) {
      std::fill(d_o.begin(), d_o.begin() + 4 * 32, 0.0);  // the first query
    });
    EXPECT_GT(projection(), 1.0) << output;
  }
}

TEST_F(AttentionBackwardCheck, LetsAQueryThatIsNotFiniteSpreadToTheKeysOfItsHead) {
  prepare(kCase, Family::kNormal);
  std::vector<double> q = values("q");
  q[5 * 4 * 32 + 2 * 32] = std::numeric_limits<double>::infinity();  // of the second head of k and v
  assign("q", q);
  const Reference d_k = reference(*problem_.position("d_k")), d_q = reference(*problem_.position("d_q"));
  const auto last_key = [&](std::size_t head) {
    return d_k.allowed[(139 * 2 + head) * 32];
  };  // which query 5 does not see
  EXPECT_TRUE(std::isinf(last_key(1)));
  EXPECT_FALSE(std::isinf(last_key(0)));
  EXPECT_FALSE(std::isinf(d_q.allowed[139 * 4 * 32 + 2 * 32]));
}

TEST_F(AttentionBackwardCheck, SeesARowThatIsMissingInTheGradientOfASinkAndTheSlopeOfASoftcap) {
  constexpr std::string_view kSinks =
      "attention_backward heads=4 kv_heads=2 q_len=140 k_len=140 dim=32 mask=causal sinks=1";
  prepare(kSinks, Family::kNormal);
  ASSERT_LE(projection(), 1.0);
  std::map<std::string_view, std::vector<double>> right;
  for (const std::string_view name : {"d_o", "d_q", "d_k", "d_v"}) right[name] = values(name);
  std::vector<double> changed = right["d_o"];
  std::fill(changed.end() - 32, changed.end(), 0.0);  // the last query of the last head
  assign("d_o", changed);
  computed_as(kSinks);
  for (const auto& [name, its] : right) assign(name, its);
  EXPECT_GT(projection(), 1.0);
  constexpr std::string_view kSoftcap =
      "attention_backward heads=4 kv_heads=2 q_len=140 k_len=140 dim=32 mask=causal softcap=1";
  prepare(kSoftcap, Family::kNormal);
  std::vector<double> q = values("q");  // for scores beside which a cap of 30 counts
  for (double& value : q) value *= 32;
  assign("q", q);
  computed_as(kSoftcap);
  ASSERT_LE(projection(), 1.0);
  computed_as("attention_backward heads=4 kv_heads=2 q_len=140 k_len=140 dim=32 mask=causal");
  EXPECT_GT(projection(), 1.0);
}

TEST_F(AttentionBackwardCheck, SeesSlopesThatAreWrong) {
  const std::string words = "attention_backward heads=4 kv_heads=2 q_len=140 k_len=140 dim=32 mask=causal alibi=1";
  prepare(words, Family::kNormal);
  ASSERT_LE(projection(), 1.0);
  const std::vector<double> right = values("alibi_slopes");
  std::vector<double> turned = right;
  std::rotate(turned.begin(), turned.begin() + 1, turned.end());
  assign("alibi_slopes", turned);
  computed_as(words);
  assign("alibi_slopes", right);
  EXPECT_GT(projection(), 1.0);
  computed_as("attention_backward heads=4 kv_heads=2 q_len=140 k_len=140 dim=32 mask=causal");
  EXPECT_GT(projection(), 1.0);
}

TEST_F(AttentionBackwardCheck, SeesAStaleLogSumExpAndAStaleOutput) {
  for (const std::string_view input : {"log_sum_exp", "o"}) {
    swap_output("d_q", input, [](std::vector<double>& values) {
      std::for_each(values.end() - 32, values.end(), [](double& value) { value += 0.25; });
    });
    EXPECT_GT(projection(), 1.0) << input;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, CheckKernels,
    ::testing::Values(
        "gemm_fp8 m=20 n=34 k=300 scaling=block layout=nt",
        "gemm_fp8 m=9 n=70 k=160 scaling=row sums=fast out=f32 layout=tn",
        "gemm_fp8 m=20 n=20 k=260 scaling=vector out=f32 accumulate=1", "gemm_fp8 m=10 n=66 k=100 scaling=mx sums=f32",
        "gemm_fp8 m=5 n=4 k=0 scaling=block",
        "gemm m=70 n=66 k=90 dtype=bf16 layout=nt bias=1 activation=gelu residual=1",
        "gemm m=6 n=64 k=40 dtype=f16 layout=tn batch=2 residual=1",
        "quantize rows=33 cols=140 scaling=1x128 copies=both",
        "quantize rows=40 cols=70 scaling=mx copies=both format=e5m2",
        "quantize rows=20 cols=70 scaling=tensor copies=column dtype=f32",
        "quantize rows=130 cols=40 scaling=128x128 copies=both rounding=stochastic",
        "quantize rows=20 cols=70 scaling=tensor amax=given copies=both",
        "grouped_quantize rows=150 cols=140 groups=3 copies=both",
        "grouped_quantize rows=70 cols=40 groups=5 align=16 scaling=row dtype=f32 offsets=i64",
        "grouped_quantize rows=70 cols=40 groups=4 align=32 scaling=mx copies=both format=e5m2",
        "grouped_quantize rows=130 cols=40 groups=2 scaling=128x128 copies=column rounding=stochastic",
        "grouped_quantize rows=20 cols=70 align=16 scaling=tensor amax=given copies=both dtype=f16",
        "grouped_quantize rows=70 cols=40 groups=3 scaling=row copies=both",
        "grouped_quantize rows=90 cols=40 groups=4 scaling=row copies=column dtype=f32 format=e5m2 scale=floor",
        "grouped_quantize rows=150 cols=140 groups=3 copies=both own_rows=1",
        "grouped_quantize rows=70 cols=140 groups=3 copies=both own_rows=1 gather=1 sources=20",
        "grouped_quantize rows=70 cols=140 groups=3 copies=both own_rows=1 of=swiglu probs=1",
        "grouped_quantize rows=40 cols=70 groups=3 scaling=mx copies=both own_rows=1 of=swiglu dtype=f16 format=e5m2",
        "grouped_quantize rows=70 cols=140 groups=3 copies=both own_rows=1 of=swiglu_backward probs=1",
        "grouped_quantize rows=40 cols=30 groups=2 scaling=row copies=both of=swiglu_backward dtype=f32",
        "activation_quantize rows=33 cols=140 scaling=1x128 copies=both",
        "activation_quantize rows=40 cols=70 scaling=mx copies=both format=e5m2 function=gelu",
        "activation_quantize rows=20 cols=70 scaling=row copies=column dtype=f32 probs=1 mask=1",
        "activation_quantize rows=130 cols=40 scaling=128x128 copies=both rounding=stochastic",
        "activation_quantize rows=37 cols=70 scale=even copies=both function=relu2 dtype=f16 gated=0",
        "activation_quantize rows=9 cols=70 scaling=tensor amax=given copies=both function=clamped_silu",
        "activation_quantize_backward rows=33 cols=70 scaling=1x128 copies=both",
        "activation_quantize_backward rows=40 cols=70 scaling=mx copies=both format=e5m2 function=gelu",
        "activation_quantize_backward rows=20 cols=70 scaling=row copies=column dtype=f32 probs=1 mask=1",
        "activation_quantize_backward rows=130 cols=20 scaling=128x128 copies=both rounding=stochastic",
        "activation_quantize_backward rows=37 cols=70 scale=even copies=both function=relu2 gated=0",
        "activation_quantize_backward rows=9 cols=70 scaling=tensor amax=given copies=both",
        "dequantize rows=20 cols=140 scaling=1x128", "dequantize rows=24 cols=70 scaling=mx dtype=f32",
        "dequantize rows=24 cols=70 scaling=tensor format=e5m2 dtype=f16",
        "embedding_backward tokens=70 vocabulary=9 cols=300",
        "embedding_backward tokens=1100 vocabulary=3 cols=40 dtype=f16 out=f32",
        "embedding_backward tokens=30 vocabulary=40 cols=20 accumulate=1 index=i32",
        "expert_order tokens=70 experts=9 top=3", "expert_order tokens=40 experts=130 top=2 align=16",
        "expert_order tokens=9 experts=1 top=1 align=100", "symmetric_product n=70 k=40 residual=1",
        "symmetric_product n=20 k=130 batch=3 layout=t out=f32",
        "symmetric_product n=66 k=30 dtype=f32 residual=1 batch=2", "symmetric_product n=5 k=0 residual=1 dtype=f16",
        "grouped_gemm rows=150 groups=5 k=40 n=70", "grouped_gemm rows=90 groups=9 k=70 n=20 layout=nn out=f32",
        "grouped_gemm rows=140 groups=3 m=70 n=66 layout=tn offsets=i64",
        "grouped_gemm rows=20 groups=7 m=9 n=20 layout=tn out=f32 accumulate=1 dtype=f16",
        "grouped_gemm rows=150 groups=5 k=40 n=70 gather=a sources=60",
        "grouped_gemm rows=140 groups=3 m=70 n=66 layout=tn gather=a sources=300",
        "grouped_gemm rows=140 groups=3 m=9 n=66 layout=tn gather=b sources=70 out=f32 accumulate=1",
        "grouped_gemm rows=40 groups=2 k=0 n=9 dtype=f32",
        "grouped_gemm rows=150 groups=5 k=40 n=70 epilogue=swiglu probs=1",
        "grouped_gemm rows=90 groups=9 k=70 n=20 layout=nn dtype=f16 epilogue=swiglu gather=a sources=30",
        "grouped_gemm rows=20 groups=2 k=9 n=40 dtype=f32 epilogue=swiglu probs=1 offsets=i64",
        "grouped_gemm_fp8 rows=150 groups=5 k=200 n=140",
        "grouped_gemm_fp8 rows=70 groups=3 k=260 n=40 scaling=row out=f32 dtype=e5m2_e4m3fn",
        "grouped_gemm_fp8 rows=40 groups=9 k=70 n=66 scaling=tensor offsets=i64",
        "grouped_gemm_fp8 rows=20 groups=2 k=0 n=9",
        "grouped_gemm_fp8 rows=800 groups=4 m=40 n=66 along=sums out=f32 accumulate=1",
        "grouped_gemm_fp8 rows=640 groups=3 m=70 n=20 along=sums scaling=row",
        "grouped_gemm_fp8 rows=640 groups=6 m=9 n=20 along=sums scaling=tensor dtype=e5m2",
        "attention batch=2 heads=2 kv_heads=1 q_len=70 k_len=70 dim=40 mask=causal",
        "attention heads=2 kv_heads=2 q_len=9 k_len=150 dim=16 dtype=f16 keys_left=40 keys_right=3",
        "attention heads=1 kv_heads=1 q_len=80 k_len=20 dim=8 mask=causal",
        "attention heads=2 kv_heads=1 q_len=90 k_len=70 dim=24 documents=5 mask=causal",
        "attention heads=2 kv_heads=1 q_len=70 k_len=70 dim=48 v_dim=20 mask=causal",
        "attention batch=2 heads=2 kv_heads=1 q_len=40 k_len=70 dim=24 mask=causal sinks=1",
        "attention heads=2 kv_heads=1 q_len=80 k_len=20 dim=16 mask=causal sinks=1 dtype=f16",
        "attention heads=2 kv_heads=1 q_len=70 k_len=70 dim=24 keys_left=30 softcap=1",
        "attention heads=2 kv_heads=1 q_len=90 k_len=70 dim=24 documents=5 mask=causal softcap=1 sinks=1",
        "attention batch=2 heads=4 kv_heads=2 q_len=40 k_len=70 dim=24 alibi=1",
        "attention heads=2 kv_heads=1 q_len=90 k_len=70 dim=24 documents=5 mask=causal keys_left=30 softcap=1 sinks=1 "
        "alibi=1",
        "attention_fp8 batch=2 heads=2 kv_heads=1 q_len=70 k_len=70 dim=40 mask=causal",
        "attention_fp8 heads=2 kv_heads=2 q_len=9 k_len=150 dim=16 out=f16 keys_left=40 keys_right=3",
        "attention_fp8 heads=1 kv_heads=1 q_len=80 k_len=20 dim=16 mask=causal",
        "attention_fp8 heads=2 kv_heads=1 q_len=70 k_len=70 dim=48 v_dim=20 mask=causal",
        "attention_fp8 heads=4 kv_heads=2 q_len=20 k_len=300 dim=128 v_dim=64",
        "attention_fp8 heads=3 kv_heads=1 q_len=5 k_len=129 dim=13 keys_right=3",
        "attention_backward heads=2 kv_heads=1 q_len=70 k_len=70 dim=48 v_dim=20 mask=causal",
        "attention_backward batch=2 heads=2 kv_heads=1 q_len=70 k_len=70 dim=40 mask=causal",
        "attention_backward heads=2 kv_heads=2 q_len=9 k_len=150 dim=16 dtype=f16 keys_left=40 keys_right=3",
        "attention_backward heads=1 kv_heads=1 q_len=80 k_len=20 dim=8 mask=causal",
        "attention_backward batch=2 heads=2 kv_heads=1 q_len=40 k_len=70 dim=24 mask=causal sinks=1",
        "attention_backward heads=2 kv_heads=1 q_len=70 k_len=70 dim=24 keys_left=30 softcap=1",
        "attention_backward heads=2 kv_heads=1 q_len=90 k_len=70 dim=24 documents=5 mask=causal softcap=1 sinks=1",
        "attention_backward batch=2 heads=4 kv_heads=2 q_len=40 k_len=70 dim=24 alibi=1",
        "attention_backward heads=2 kv_heads=1 q_len=90 k_len=70 dim=24 documents=5 mask=causal softcap=1 sinks=1 "
        "alibi=1",
        "attention_backward heads=2 kv_heads=1 q_len=90 k_len=70 dim=24 documents=5 mask=causal"));

}  // namespace
}  // namespace ridge::testing

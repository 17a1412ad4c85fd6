#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "dispatch/choose.h"
#include "dispatch/launch.h"
#include "dispatch/tuned.h"
#include "ridge/ops/gemm.h"

namespace ridge::dispatch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kVariable = "RIDGE_GEMM_BACKEND";

class Dispatch : public ::testing::Test {
 protected:
  void SetUp() override { begin(); }
  void TearDown() override { begin(); }
  static void begin() {
    unsetenv(kVariable);
    on_fallback(nullptr);
    reset();
  }
  static void set_variable(const char* value) {
    setenv(kVariable, value, 1);
    reload_environment();
  }

  // A small product through the public entry point.
  Status multiply(DType dtype = DType::kF32) {
    GemmArgs args;
    args.a = TensorView::contiguous(a_, dtype, {2, 3});
    args.b = TensorView::contiguous(b_, dtype, {3, 2});
    args.c = TensorView::contiguous(c_, dtype, {2, 2});
    return gemm(args, Stream::cpu());
  }

  float a_[6] = {1, 2, 3, 4, 5, 6};
  float b_[6] = {1, 0, 0, 1, 1, 1};
  float c_[4] = {};
};

record::Case small_case(const char* more = "") { return *record::parse_case(std::string("gemm m=2 n=2 k=3 ") + more); }

TEST_F(Dispatch, TakesTheFirstThatCanRunTheCase) {
  ASSERT_TRUE(multiply().ok());
  EXPECT_EQ(last_used("gemm"), "cpu_simd");
  EXPECT_THAT(c_, ElementsAre(4, 5, 10, 11));
}

TEST_F(Dispatch, RunsTheOneForcedInCodeAndForgetsItWhenToldTo) {
  ASSERT_TRUE(force("gemm", "reference").ok());
  ASSERT_TRUE(multiply().ok());
  EXPECT_EQ(last_used("gemm"), "reference");
  unforce("gemm");
  ASSERT_TRUE(multiply().ok());
  EXPECT_EQ(last_used("gemm"), "cpu_simd");
}

TEST_F(Dispatch, RunsTheOneTheEnvironmentNames) {
  set_variable("reference");
  ASSERT_TRUE(multiply().ok());
  EXPECT_EQ(last_used("gemm"), "reference");
}

TEST_F(Dispatch, CodeGoesBeforeTheEnvironment) {
  set_variable("reference");
  ASSERT_TRUE(force("gemm", "cpu_simd").ok());
  ASSERT_TRUE(multiply().ok());
  EXPECT_EQ(last_used("gemm"), "cpu_simd");
}

TEST_F(Dispatch, EnvironmentCanChooseByDtype) {
  set_variable("bf16:reference,other:cpu_simd");
  ASSERT_TRUE(multiply(DType::kBf16).ok());
  EXPECT_EQ(last_used("gemm"), "reference");
  ASSERT_TRUE(multiply(DType::kF32).ok());
  EXPECT_EQ(last_used("gemm"), "cpu_simd");
  set_variable("f16:reference");
  ASSERT_TRUE(multiply(DType::kF32).ok());
  EXPECT_EQ(last_used("gemm"), "cpu_simd");
}

TEST_F(Dispatch, EveryNameInTheEnvironmentIsLookedUpWhateverTheDtypeOfTheCase) {
  set_variable("bf16:nonsense,other:cpu_simd");
  EXPECT_THAT(multiply(DType::kF32).error().text(),
              testing::AllOf(HasSubstr("RIDGE_GEMM_BACKEND"), HasSubstr("nonsense"), HasSubstr("cpu_simd")));
  for (const char* empty : {"bf16:", "bf16:,other:cpu_simd", "f32:"}) {
    set_variable(empty);
    EXPECT_FALSE(multiply(DType::kF32).ok()) << empty;
  }
}

TEST_F(Dispatch, CodeCanChooseByDtypeInTheFormOfTheEnvironment) {
  ASSERT_TRUE(force("gemm", "bf16:reference,other:cpu_simd").ok());
  ASSERT_TRUE(multiply(DType::kBf16).ok());
  EXPECT_EQ(last_used("gemm"), "reference");
  ASSERT_TRUE(multiply(DType::kF32).ok());
  EXPECT_EQ(last_used("gemm"), "cpu_simd");
  // What code does not name is the environment's.
  ASSERT_TRUE(force("gemm", "bf16:cpu_simd").ok());
  set_variable("reference");
  ASSERT_TRUE(multiply(DType::kF32).ok());
  EXPECT_EQ(last_used("gemm"), "reference");
  ASSERT_TRUE(multiply(DType::kBf16).ok());
  EXPECT_EQ(last_used("gemm"), "cpu_simd");
}

TEST_F(Dispatch, ABadListOfNamesIsRefusedBeforeAnyCallAndChangesNothing) {
  ASSERT_TRUE(force("gemm", "reference").ok());
  EXPECT_THAT(force("gemm", "bf16:cpu_simd,other:cpu_magic").error().text(),
              testing::AllOf(HasSubstr("cpu_magic"), HasSubstr("cpu_simd")));
  EXPECT_THAT(force("gemm", "bf16:cpu_simd,cpu_blis").error().text(), HasSubstr("\"cpu_blis\" names no dtype"));
  EXPECT_THAT(force("gemm", "bf17:cpu_simd").error().text(), HasSubstr("\"bf17\" is not a dtype"));
  EXPECT_THAT(
      force("gemm_fp8", "bf16:reference").error().text(),
      testing::AllOf(HasSubstr("gemm_fp8: no case has dtype bf16"), HasSubstr("use e4m3fn, e5m2, e4m3fn_e5m2")));
  EXPECT_TRUE(force("gemm_fp8", "e5m2_e4m3fn:reference,other:reference").ok());
  unforce("gemm_fp8");
  EXPECT_THAT(force("gemm", "bf16:cpu_simd,bf16:reference").error().text(), HasSubstr("bf16 is there twice"));
  EXPECT_FALSE(force("gemm", "").ok());
  EXPECT_FALSE(force("gemm", "bf16:").ok());
  ASSERT_TRUE(multiply().ok());
  EXPECT_EQ(last_used("gemm"), "reference");
}

TEST_F(Dispatch, ResetIsAsWhenTheProcessBegan) {
  ASSERT_TRUE(force("gemm", "reference").ok());
  set_preference([](const ops::Problem&, const ops::DeviceInfo&) { return std::string("reference"); });
  reset();
  ASSERT_TRUE(multiply().ok());
  EXPECT_EQ(last_used("gemm"), "cpu_simd");
  ::setenv(kVariable, "reference", 1);
  ASSERT_TRUE(multiply(DType::kF16).ok());
  EXPECT_EQ(last_used("gemm"), "cpu_simd") << "the variable was read before";
  reset();
  ASSERT_TRUE(multiply(DType::kF16).ok());
  EXPECT_EQ(last_used("gemm"), "reference");
}

TEST_F(Dispatch, UnknownNamesAreErrorsThatListTheKnownOnes) {
  const Status forced = force("gemm", "cpu_magic");
  ASSERT_FALSE(forced.ok());
  EXPECT_THAT(forced.error().text(), HasSubstr("cpu_magic"));
  EXPECT_THAT(forced.error().text(), HasSubstr("cpu_simd"));
  EXPECT_THAT(force("conv", "cpu_simd").error().text(), HasSubstr("known: gemm"));
  set_variable("cpu_magic");
  const Status called = multiply();
  ASSERT_FALSE(called.ok());
  EXPECT_THAT(called.error().text(), HasSubstr(kVariable));
  EXPECT_THAT(called.error().text(), HasSubstr("cpu_magic"));
  set_variable("bf17:cpu_simd");
  EXPECT_THAT(multiply().error().text(), HasSubstr("\"bf17\" is not a dtype"));
  set_variable("cpu_simd,reference");
  EXPECT_THAT(multiply().error().text(), HasSubstr("names no dtype"));
}

TEST_F(Dispatch, AForcedOneThatCannotRunTheCaseIsAnErrorThatSaysWhy) {
  ASSERT_TRUE(force("gemm", "cpu_openblas").ok());
  c_[0] = -7;
  const Status status = multiply(DType::kF16);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(status.error().text(), HasSubstr("cpu_openblas is forced by code but cannot run gemm m=2 n=2 k=3"));
  EXPECT_THAT(status.error().text(), HasSubstr("dtype=f16"));
  EXPECT_EQ(c_[0], -7) << "the output was touched";
  unforce("gemm");
  set_variable("cpu_openblas");
  EXPECT_THAT(multiply(DType::kF16).error().text(), HasSubstr("unset RIDGE_GEMM_BACKEND"));
}

TEST_F(Dispatch, APreferenceIsTakenWhenItCanRunAndPassedOverWhenNot) {
  set_preference([](const ops::Problem&, const ops::DeviceInfo&) { return std::string("reference"); });
  ASSERT_TRUE(multiply().ok());
  EXPECT_EQ(last_used("gemm"), "reference");
  set_preference([](const ops::Problem&, const ops::DeviceInfo&) { return std::string("cpu_openblas"); });
  ASSERT_TRUE(multiply(DType::kF16).ok());
  EXPECT_EQ(last_used("gemm"), "cpu_simd");
}

TEST_F(Dispatch, ExplainsEveryImplementationAndTheChoice) {
  const auto explanation = explain(small_case("dtype=f16"), Stream::cpu());
  ASSERT_TRUE(explanation.ok()) << explanation.error().text();
  EXPECT_EQ(explanation->label,
            "m=2 n=2 k=3 dtype=f16 out=same layout=nn accumulate=0 batch=1 bias=0 activation=none residual=0");
  EXPECT_EQ(explanation->cost.flop, 24);
  const auto names = implementations("gemm");
  ASSERT_EQ(explanation->rows.size(), names->size());
  int chosen = 0;
  for (const record::ExplainRow& row : explanation->rows) {
    chosen += row.chosen ? 1 : 0;
    EXPECT_TRUE(row.supported || !row.reason.empty()) << row.implementation;
    if (row.implementation == "cpu_openblas") {
      EXPECT_FALSE(row.supported);
      EXPECT_THAT(row.reason, HasSubstr("dtype=f16"));
    }
  }
  EXPECT_EQ(chosen, 1);
  const auto first = std::ranges::find_if(explanation->rows, &record::ExplainRow::supported);
  ASSERT_NE(first, explanation->rows.end());
  EXPECT_TRUE(first->chosen);
  EXPECT_THAT(first->reason, HasSubstr("first"));
}

TEST_F(Dispatch, ExplainsAForcedChoiceAndAForcedImpossibility) {
  set_variable("reference");
  auto explanation = explain(small_case(), Stream::cpu());
  EXPECT_EQ(explanation->forced_by, "environment RIDGE_GEMM_BACKEND");
  EXPECT_TRUE(explanation->rows.back().chosen);
  ASSERT_TRUE(force("gemm", "cpu_blis").ok());
  explanation = explain(small_case("dtype=bf16"), Stream::cpu());
  EXPECT_EQ(explanation->forced_by, "code");
  for (const record::ExplainRow& row : explanation->rows) EXPECT_FALSE(row.chosen);
}

TEST_F(Dispatch, ExplainRefusesAnUnknownOperatorOrParameter) {
  EXPECT_FALSE(explain(*record::parse_case("conv m=1"), Stream::cpu()).ok());
  EXPECT_THAT(explain(small_case("q=1"), Stream::cpu()).error().text(), HasSubstr("no parameter \"q\""));
}

// Two implementations of a made-up operator, the better of which wants an even n.
const ops::Operator& picky_operator() {
  static const ops::Operator op = [] {
    ops::Operator picky;
    picky.name = "picky";
    picky.summary = "for this test";
    picky.params = {{"n", "1", "", {}}};
    picky.bind = [](const record::Case& wanted) {
      const record::ParamInfo params[] = {{"n", "1", "", {}}};
      return ops::bind_params("picky", params, wanted);
    };
    picky.cost = [](const ops::Problem&) { return record::Cost{1, 1}; };
    picky.reference = [](const ops::Problem&, std::span<const TensorView>) {
      return Result<std::vector<ops::ReferenceOutput>>(std::vector<ops::ReferenceOutput>{});
    };
    ops::Implementation even;
    even.name = "cpu_even";
    even.supports = [](const ops::Problem& problem, const ops::DeviceInfo&) -> ops::Refusal {
      if (problem.values[0] % 2 == 0) return std::nullopt;
      return "n = " + std::to_string(problem.values[0]) + " is odd";
    };
    even.run = [](const ops::Problem&, std::span<const TensorView>, const Stream&) { return ok_status(); };
    return ops::assemble(std::move(picky), {even});
  }();
  return op;
}

ops::Call picky_call(std::int64_t n) {
  ops::Call call;
  call.values.push_back(n);
  return call;
}

// y = x + a scalar, for an eps of the case; says how often a case was bound.
struct SeenNormal {
  int bound = 0;
  double eps = 0, shift = 0;
} seen_normal;

const ops::Operator& normal_operator() {
  static const ops::Operator op = [] {
    ops::Operator normal;
    normal.name = "normal";
    normal.params = {
        {"n", "1", "", {}}, record::real_param("eps", "1e-5", "", 0, 1), record::flag_param("centred", "")};
    normal.bind = [](const record::Case& one) -> Result<ops::Problem> {
      auto problem = ops::bind_params("normal", normal_operator().params, one);
      if (!problem) return problem.error();
      ++seen_normal.bound;
      problem->scalars = {{"shift", "", record::Scalar::f32(7), 0, 1}};
      return problem;
    };
    normal.reference = [](const ops::Problem&, const ops::Arguments&) {
      return Result<std::vector<ops::ReferenceOutput>>(std::vector<ops::ReferenceOutput>{});
    };
    ops::Implementation only;
    only.name = "cpu_only";
    only.supports = [](const ops::Problem&, const ops::DeviceInfo&) -> ops::Refusal { return std::nullopt; };
    only.run = [](const ops::Problem& problem, const ops::Arguments& arguments, const Stream&) {
      seen_normal.eps = problem.real(1);
      seen_normal.shift = arguments.scalar(problem, 0).real();
      return ok_status();
    };
    return ops::assemble(std::move(normal), {only});
  }();
  return op;
}

ops::Call normal_call(double eps) {
  ops::Call call;
  call.values = {4, record::bits_of_real(eps), 0};
  return call;
}

TEST_F(Dispatch, ARealParameterIsPartOfTheCaseAndAScalarIsNot) {
  seen_normal = {};
  ops::Call call = normal_call(0.1);
  for (const float shift : {1.0f, 2.0f, 3.0f}) {
    call.scalars = {record::Scalar::f32(shift)};
    ASSERT_TRUE(launch(normal_operator(), call, Stream::cpu()).ok());
    EXPECT_EQ(seen_normal.shift, shift);
    EXPECT_EQ(seen_normal.eps, 0.1);
  }
  EXPECT_EQ(seen_normal.bound, 1) << "a choice was made anew for another scalar";
  call.scalars = {};
  ASSERT_TRUE(launch(normal_operator(), call, Stream::cpu()).ok());
  EXPECT_EQ(seen_normal.shift, 7) << "the usual one where none is given";
  ASSERT_TRUE(launch(normal_operator(), normal_call(std::nextafter(0.1, 1.0)), Stream::cpu()).ok());
  EXPECT_EQ(seen_normal.bound, 2) << "one bit of a parameter is another case";
  EXPECT_EQ(seen_normal.eps, std::nextafter(0.1, 1.0));
  const Status refused = launch(normal_operator(), normal_call(std::nan("")), Stream::cpu());
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text(), HasSubstr("normal: eps=nan is not a finite number"));
}

// Tables are kept by sizes up to a factor, and by everything else as it is.
TEST_F(Dispatch, ATunedTableRoundsSizesAndNoOtherParameter) {
  const auto problem = normal_operator().bind(*record::parse_case("normal n=1000 eps=0.003 centred=1"));
  ASSERT_TRUE(problem.ok());
  EXPECT_EQ(bucket_of(normal_operator(), *problem).text(), "normal n=1024 eps=0.003 centred=1");
}

// More parameters and operands than a call holds without the heap.
constexpr std::size_t kManyParams = ops::kWarmParams + 6, kManyOperands = ops::kWarmOperands + 24;

struct SeenCall {
  std::int64_t last_param = 0, last_size = 0;
  std::size_t operands = 0;
} seen_call;

const ops::Operator& wide_operator() {
  static const ops::Operator op = [] {
    ops::Operator wide;
    wide.name = "wide";
    for (std::size_t i = 0; i < kManyParams; ++i) wide.params.push_back({fmt::format("p{}", i), "0", "a number", {}});
    wide.bind = [](const record::Case& one) { return ops::bind_params("wide", wide_operator().params, one); };
    wide.reference = [](const ops::Problem&, std::span<const TensorView>) {
      return Result<std::vector<ops::ReferenceOutput>>(std::vector<ops::ReferenceOutput>{});
    };
    ops::Implementation only;
    only.name = "cpu_only";
    only.supports = [](const ops::Problem&, const ops::DeviceInfo&) -> ops::Refusal { return std::nullopt; };
    only.run = [](const ops::Problem& problem, std::span<const TensorView> operands, const Stream&) {
      seen_call = {problem.values.back(), operands.back().shape[0], operands.size()};
      return ok_status();
    };
    return ops::assemble(std::move(wide), {only});
  }();
  return op;
}

TEST_F(Dispatch, TakesMoreParametersAndOperandsThanFitWithoutTheHeap) {
  for (const std::int64_t last : {7, 8, 7}) {
    ops::Call call;
    call.values.resize(kManyParams);
    call.values[kManyParams - 1] = last;
    for (std::size_t i = 0; i < kManyOperands; ++i) {
      call.operands.push_back(TensorView::contiguous(nullptr, DType::kF32, {static_cast<std::int64_t>(i)}));
    }
    ASSERT_TRUE(launch(wide_operator(), call, Stream::cpu()).ok());
    EXPECT_EQ(seen_call.last_param, last) << "the decision of another case was taken";
    EXPECT_EQ(seen_call.operands, kManyOperands);
    EXPECT_EQ(seen_call.last_size, static_cast<std::int64_t>(kManyOperands) - 1);
  }
}

TEST_F(Dispatch, SaysOnceWhenTheBestOneCannotRunACase) {
  std::vector<std::string> said;
  on_fallback([&](std::string_view message) { said.emplace_back(message); });
  ASSERT_TRUE(launch(picky_operator(), picky_call(4), Stream::cpu()).ok());
  EXPECT_TRUE(said.empty());
  ASSERT_TRUE(launch(picky_operator(), picky_call(3), Stream::cpu()).ok());
  ASSERT_TRUE(launch(picky_operator(), picky_call(3), Stream::cpu()).ok());
  reload_environment();  // decided again, said no second time
  ASSERT_TRUE(launch(picky_operator(), picky_call(3), Stream::cpu()).ok());
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0], "picky: cpu_even cannot run this case (n = 3 is odd); using reference");
}

TEST_F(Dispatch, KeepsLastUsedPerThread) {
  ASSERT_TRUE(multiply().ok());
  std::string other = "unset";
  std::thread([&] { other = last_used("gemm"); }).join();
  EXPECT_EQ(other, "");
  EXPECT_EQ(last_used("gemm"), "cpu_simd");
}

TEST_F(Dispatch, SurvivesMoreShapesThanItsTableHolds) {
  for (std::int64_t n = 0; n < 10'000; n += 2) {
    ASSERT_TRUE(launch(picky_operator(), picky_call(n), Stream::cpu()).ok());
  }
}

TEST_F(Dispatch, ManyThreadsMayCallAndForceAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) {
        if (t == 0) (void)force("gemm", i % 2 == 0 ? "reference" : "cpu_simd");
        float a[4] = {1, 2, 3, 4}, c[4] = {};
        GemmArgs args;
        args.a = args.b = TensorView::contiguous(a, DType::kF32, {2, 2});
        args.c = TensorView::contiguous(c, DType::kF32, {2, 2});
        ASSERT_TRUE(gemm(args, Stream::cpu(2)).ok());
        ASSERT_EQ(c[3], 22);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The budget is 1 us; the median of many blocks keeps a busy machine from deciding. bench/dispatch prints the figure.
TEST_F(Dispatch, AWarmCallCostsLessThanAMicrosecond) {
  GemmArgs args;
  args.a = TensorView::contiguous(a_, DType::kF32, {1, 0});
  args.b = TensorView::contiguous(b_, DType::kF32, {0, 1});
  args.c = TensorView::contiguous(c_, DType::kF32, {1, 1});
  std::vector<double> samples;
  for (int block = 0; block < 51; ++block) {
    const auto start = std::chrono::steady_clock::now();
    for (int call = 0; call < 200; ++call) ASSERT_TRUE(gemm(args, Stream::cpu()).ok());
    samples.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / 200);
  }
  std::sort(samples.begin(), samples.end());
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(samples[25], 1e-6);
#endif
}

}  // namespace
}  // namespace ridge::dispatch

#include "roofline/roofline.h"

#include "hardware/lint.h"
#include "places.h"
#include "roofline/analyse.h"
#include "roofline/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ridge::roofline {
namespace {

using ::testing::HasSubstr;

std::vector<record::Ceiling> ceilings() {
  return {{"fma_f32", "FLOP/s", 1, 180e9, {}, ""},
          {"fma_f32", "FLOP/s", 2, 350e9, {}, ""},
          {"read_bandwidth", "B/s", 1, 15e9, {}, ""}};
}

TEST(Roofline, TakesTheCeilingsOfTheThreadCount) {
  const auto found = limits(ceilings(), 1);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->flops, 180e9);
  EXPECT_EQ(found->bandwidth, 15e9);
}

TEST(Roofline, NamesAMissingCeilingAndTheKnownOnes) {
  const auto found = limits(ceilings(), 2);
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.error().text(), HasSubstr("no ceiling \"read_bandwidth\" for 2 thread(s)"));
  EXPECT_THAT(found.error().text(), HasSubstr("fma_f32 (2 threads)"));
  EXPECT_THAT(limits({}, 1).error().text(), HasSubstr("there is: none"));
}

std::vector<record::Ceiling> gpu_ceilings() {
  const std::string gpu = "NVIDIA H200, GPU-1, driver 580.65";
  return {{"fma_f32", "FLOP/s", 1, 60e12, {}, "", gpu},      {"matrix_bf16", "FLOP/s", 1, 780e12, {1, 2}, "8192", gpu},
          {"matrix_fp8", "FLOP/s", 1, 1500e12, {}, "", gpu}, {"read_bandwidth", "B/s", 1, 4.4e12, {}, "", gpu},
          {"l2_bandwidth", "B/s", 1, 7e12, {}, "", gpu},     {"shared_memory_bandwidth", "B/s", 1, 30e12, {}, "", gpu},
          {"launch_time", "s", 1, 2e-6, {}, "", gpu}};
}

TEST(Roofline, AnElementTypeIsBoundByItsMatrixUnitsWhereThereAreAny) {
  EXPECT_EQ(limits_of_type(gpu_ceilings(), 1, "bf16")->flops_name, "matrix_bf16");
  EXPECT_EQ(limits_of_type(gpu_ceilings(), 1, "e4m3fn")->flops, 1500e12);
  EXPECT_EQ(limits_of_type(gpu_ceilings(), 1, "e5m2")->flops, 1500e12);
  EXPECT_EQ(limits_of_type(gpu_ceilings(), 1, "f32")->flops_name, "fma_f32");
  EXPECT_EQ(limits_of_type(ceilings(), 1, "f32")->flops, 180e9);
  for (const char* alias : {"fp32", "float32", "float"}) {
    EXPECT_EQ(limits_of_type(ceilings(), 1, alias)->flops, 180e9) << alias;
    EXPECT_EQ(*peak_metric(alias), "vector_fp32") << alias;
  }
  EXPECT_EQ(*peak_metric("fp16"), *peak_metric("f16"));
  EXPECT_EQ(*peak_metric("f16-vector"), "vector_fp16");
  EXPECT_FALSE(limits_of_type(ceilings(), 1, "bf16")) << "a ceiling of another type says nothing";
}

TEST(Roofline, AGpusCeilingsNameItAndItsInnerMemories) {
  const auto machine = machine_of(gpu_ceilings(), 1, {});
  ASSERT_TRUE(machine) << machine.error().text();
  EXPECT_EQ(machine->name, "NVIDIA H200, GPU-1, driver 580.65");
  ASSERT_EQ(machine->memory.size(), 3u);
  EXPECT_EQ(machine->memory[1].name, "L2");
  EXPECT_EQ(machine->memory[2].peak, 30e12);
  EXPECT_EQ(machine->launch_latency, 2e-6);
  const auto limit = arithmetic_limit(gpu_ceilings(), 1, "bf16", {});
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->name, "bf16 matrix");
  EXPECT_THAT(limit->source, HasSubstr("matrix_bf16 measured on NVIDIA H200, GPU-1, driver 580.65: 2 samples, 8192"));
}

TEST(Roofline, MeasuredLimitsOfAProductAlsoCiteItsDocuments) {
  const auto database = hardware::Database::open(source_dir() / "data");
  const hardware::Spec& spec = **database->find("NVIDIA H200");
  auto machine = machine_of(gpu_ceilings(), 1, {});
  auto limit = arithmetic_limit(gpu_ceilings(), 1, "bf16", {});
  ASSERT_TRUE(machine && limit);
  cite(spec, *machine);
  cite(spec, "bf16", *limit);
  EXPECT_EQ(limit->cited, "matrix_bf16: 989.4 TFLOPS <- derived/h200.md:H200");
  EXPECT_EQ(machine->memory[0].cited, "memory_bandwidth: 4.8 TB/s <- nvidia/h200-datasheet.md:H200 SXM");
  EXPECT_EQ(machine->memory[1].cited, "") << "an unpublished value is not cited";
  const auto report = analyse({"gemm", {{*limit, 1e12}}, 1e8, 0, 0, 0, 0}, *machine);
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ(report->axes[0].peak, 780e12) << "the measured ceiling is what the target rests on";
  const hardware::TextLint lint = hardware::lint_text(*database, "README.md", to_markdown(*report));
  EXPECT_EQ(lint.citations, 2);
  for (const hardware::Finding& f : lint.findings) ADD_FAILURE() << f.line << ": " << f.rule << ": " << f.message;
}

TEST(Roofline, IsBoundByComputeAboveTheRidge) {
  const record::RooflinePoint point = place("m=512", {180e9, 1e9}, *limits(ceilings(), 1), 2.0);
  EXPECT_EQ(point.bound, "compute");
  EXPECT_DOUBLE_EQ(point.intensity, 180);
  EXPECT_DOUBLE_EQ(point.bound_time, 1.0);
  EXPECT_DOUBLE_EQ(point.fraction, 0.5);
}

TEST(Roofline, IsBoundByMemoryBelowTheRidge) {
  const record::RooflinePoint point = place("gemv", {1e9, 15e9}, *limits(ceilings(), 1), 1.25);
  EXPECT_EQ(point.bound, "memory");
  EXPECT_DOUBLE_EQ(point.bound_time, 1.0);
  EXPECT_DOUBLE_EQ(point.fraction, 0.8);
}

TEST(Roofline, AnUnmeasuredOrEmptyCaseHasNoFraction) {
  EXPECT_EQ(place("x", {1e9, 1e9}, *limits(ceilings(), 1), 0.0).fraction, 0.0);
  const record::RooflinePoint empty = place("m=0", {0, 0}, *limits(ceilings(), 1), 1.0);
  EXPECT_EQ(empty.intensity, 0.0);
  EXPECT_EQ(empty.bound_time, 0.0);
  EXPECT_EQ(empty.fraction, 0.0);
}

}  // namespace
}  // namespace ridge::roofline

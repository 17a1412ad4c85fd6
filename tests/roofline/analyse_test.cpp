#include "roofline/analyse.h"

#include <fmt/format.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hardware/lint.h"
#include "places.h"
#include "roofline/numbers.h"

namespace ridge::roofline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const hardware::Database& database() {
  static const auto opened = hardware::Database::open(source_dir() / "data");
  return *opened;
}

Result<record::RooflineReport> placed(const char* product, const char* dtype, Problem problem,
                                      const Override& given = {}) {
  RIDGE_TRY(spec, database().find(product));
  RIDGE_TRY(machine, machine_of(*spec, given));
  RIDGE_TRY(limit, arithmetic_limit(*spec, dtype, given));
  problem.phases.front().limit = limit;
  return analyse(problem, machine);
}

Problem gemm4096(double latency) { return {"gemm 4096", {{{}, 137438953472.0}}, 100663296.0, 0, 0, 0, latency}; }

TEST(Analyse, GivesTheParityExampleToFourDigits) {
  const auto report = placed("H200", "bf16", gemm4096(0.25e-3));
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ(fmt::format("{:.2f}", report->intensity), "1365.33");
  EXPECT_EQ(fmt::format("{:.1f}", report->ridge), "206.1");
  EXPECT_EQ(fmt::format("{:.1f}", report->axes[0].achieved / 1e12), "549.8");
  EXPECT_EQ(fmt::format("{:.1f}", 100 * report->axes[0].utilisation), "55.6");
  EXPECT_EQ(fmt::format("{:.1f}", report->axes[0].peak / 1e12), "989.4");
  EXPECT_EQ(report->bound, "bf16 matrix");
  EXPECT_EQ(report->limit, "compute");
}

TEST(Analyse, PlacesAmdByTheSameCode) {
  const auto report = placed("MI300X", "bf16", gemm4096(0.25e-3));
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_NEAR(report->ridge, 1307.4 / 5.3, 0.01);
  EXPECT_NEAR(report->axes[0].utilisation, 549.756 / 1307.4, 1e-4);
  EXPECT_THAT(to_text(*report), HasSubstr("amd/mi300x-datasheet.md"));
}

TEST(Analyse, RefusesMoreThanThereIs) {
  const auto compute = placed("H200", "bf16", gemm4096(0.13e-3));
  ASSERT_FALSE(compute);
  EXPECT_THAT(compute.error().message, HasSubstr("106.9 % of what bf16 matrix can do"));
  const auto memory = placed("H200", "f32", {"copy", {{{}, 1e6}}, 8e9, 0, 0, 0, 1e-3});
  ASSERT_FALSE(memory);
  EXPECT_THAT(memory.error().text(), HasSubstr("166.7 % of the bandwidth of memory"));
  EXPECT_THAT(memory.error().hint, HasSubstr("cache"));
}

TEST(Analyse, ForgivesRoundingButNotMore) {
  const double bound = 137438953472.0 / 989.4e12;
  EXPECT_TRUE(placed("H200", "bf16", gemm4096(bound / 1.001)));
  EXPECT_FALSE(placed("H200", "bf16", gemm4096(bound / 1.01)));
}

TEST(Analyse, TakesTheMeasuredCeilingForTheTarget) {
  const auto cited = placed("H200", "bf16", gemm4096(0)),
             measured = placed("H200", "bf16", gemm4096(0), {.flops = 760e12});
  ASSERT_TRUE(cited && measured);
  EXPECT_THAT(cited->calculation, HasSubstr("90 % of the cited peak 989.4 TFLOP/s of bf16 matrix = 890.5 TFLOP/s"));
  EXPECT_THAT(measured->calculation,
              HasSubstr("90 % of the measured ceiling 760.0 TFLOP/s of bf16 matrix = 684.0 TFLOP/s"));
  EXPECT_NEAR(measured->target_latency, 137438953472.0 / 684e12, 1e-9);
  EXPECT_NEAR(measured->ridge, 760 / 4.8, 0.01) << "the ridge uses the same numbers as the bound";
  EXPECT_TRUE(measured->axes[0].measured);
}

TEST(Analyse, NamesWhatBounds) {
  const auto limit_of = [](double flop, double bytes, double latency) {
    const auto report = placed("H200", "bf16", {"x", {{{}, flop}}, bytes, 0, 0, 0, latency});
    return report ? report->limit : report.error().text();
  };
  EXPECT_EQ(limit_of(1e9, 4.8e9, 2e-3), "memory");
  EXPECT_EQ(limit_of(1e9, 4.8e9, 1.05e-3), "at-ceiling");
  EXPECT_EQ(limit_of(1e9, 4.8e9, 5e-3), "latency");
  EXPECT_EQ(limit_of(5e11, 1e6, 1e-3), "compute");
}

TEST(Analyse, TellsALaunchFromWork) {
  const hardware::Spec& h200 = **database().find("H200");
  Machine machine = *machine_of(h200, {});
  machine.launch_latency = 3e-6;
  const Problem tiny{"tiny", {{*arithmetic_limit(h200, "bf16", {}), 1e6}}, 1e4, 0, 0, 0, 4e-6};
  EXPECT_EQ(analyse(tiny, machine)->limit, "launch");
}

TEST(Analyse, KeepsCompulsoryAndCountedBytesApart) {
  const auto report = placed("H200", "bf16", {"x", {{{}, 1e9}}, 1e8, 4e8, 0, 0, 0});
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->profiled);
  EXPECT_EQ(report->bytes, 4e8);
  EXPECT_EQ(report->compulsory_bytes, 1e8);
  EXPECT_DOUBLE_EQ(report->intensity, 2.5);
}

TEST(Analyse, LooksAtInnerLevelsWhereBytesWereCounted) {
  const Override given{.l2_bandwidth = 6e12, .shared_bandwidth = 33e12};
  const auto report = placed("H200", "bf16", {"x", {{{}, 1e9}}, 1e8, 0, 6e9, 3.3e9, 0}, given);
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ(report->axes.size(), 4u);
  EXPECT_EQ(report->bound, "L2");
  EXPECT_NEAR(report->bound_time, 1e-3, 1e-9);
}

TEST(Analyse, AddsTheTimesOfPhasesOfDifferentTypes) {
  const hardware::Spec& h200 = **database().find("H200");
  const Machine machine = *machine_of(h200, {});
  const Problem mixed{
      "x", {{*arithmetic_limit(h200, "bf16", {}), 989.4e9}, {*arithmetic_limit(h200, "f32", {}), 67e9}}, 1e6};
  const auto report = analyse(mixed, machine);
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_NEAR(report->bound_time, 2e-3, 1e-9);
}

TEST(Analyse, HasNoTargetFromAnUnknownSpec) {
  const auto report = placed("H20", "bf16", gemm4096(0));
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("matrix_bf16: UNKNOWN"));
  EXPECT_TRUE(placed("H20", "bf16", gemm4096(0), {.flops = 140e12})) << "a measured ceiling stands in";
}

TEST(Analyse, RefusesNonsense) {
  EXPECT_FALSE(placed("H200", "bf17", gemm4096(0)));
  EXPECT_FALSE(placed("H200", "bf16", {"x", {{{}, 0}}, 0}));
  EXPECT_FALSE(placed("H200", "bf16", {"x", {{{}, -1}}, 1}));
  Problem greedy = gemm4096(0);
  greedy.target_fraction = 1.2;
  EXPECT_FALSE(placed("H200", "bf16", greedy));
}

TEST(Sections, PassTheCitationLinter) {
  const auto report = placed("H200", "bf16", gemm4096(0.25e-3));
  const hardware::TextLint lint = hardware::lint_text(database(), "README.md", to_markdown(*report));
  EXPECT_EQ(lint.citations, 2);
  for (const hardware::Finding& f : lint.findings) ADD_FAILURE() << f.line << ": " << f.rule << ": " << f.message;
}

TEST(Sections, AreReplacedWhereTheyStood) {
  const auto first = placed("H200", "bf16", gemm4096(0)), second = placed("MI300X", "bf16", gemm4096(0));
  const std::string readme = "# Task\n\ntext\n\n## Notes\n\nkept\n";
  const std::string once = with_sections(readme, *first);
  EXPECT_THAT(once, HasSubstr("kept\n\n## Hardware Spec"));
  const std::string twice = with_sections(once + "## After\n\nalso kept\n", *second);
  EXPECT_THAT(twice, Not(HasSubstr("H200")));
  EXPECT_THAT(twice, HasSubstr("MI300X"));
  EXPECT_THAT(twice, HasSubstr("## After\n\nalso kept\n"));
  EXPECT_LT(twice.find("## Hardware Spec"), twice.find("## After"));
  EXPECT_EQ(with_sections(twice, *second), twice);
}

TEST(Plot, StandsAloneAndNamesEveryRoof) {
  const auto report = placed("H200", "bf16", gemm4096(0.25e-3), {.l2_bandwidth = 6e12});
  const std::string svg = to_svg(*report);
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  for (const char* words :
       {"bf16 matrix 989.4 TFLOP/s", "memory 4.800 TB/s", "target 890.5 TFLOP/s", "549.8 TFLOP/s, 55.6 %"}) {
    EXPECT_THAT(svg, HasSubstr(words));
  }
  for (const char* bad : {"nan", "inf", "href"}) EXPECT_THAT(svg, Not(HasSubstr(bad)));
}

}  // namespace
}  // namespace ridge::roofline

#include "record/tuning_cache.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "record/python_text.h"

namespace ridge::record {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string t4_row(int block, const std::string& layout, const std::string& time,
                   const std::string& invalidity = "correct") {
  return fmt::format(
      R"({{"configuration": {{"block": {}, "layout": "{}"}}, "times": {{"compilation": 900, "framework": 1, "runtimes": [2, 3]}},
          "invalidity": "{}", "measurements": [{{"name": "time", "value": {}}}], "objectives": ["time"]}})",
      block, layout, invalidity, time);
}
std::string t4(const std::string& rows) {
  return R"({"schema_version": "1.0.0", "metadata": {"timeunit": "miliseconds"}, "results": [)" + rows + "]}";
}
std::string kernel_tuner(const std::string& rows) {
  return R"({"device_name": "A GPU", "kernel_name": "scale", "tune_params_keys": ["block"], "tune_params": {"block": [32, 64, 128]},
      "objective": "time", "cache": {)" +
         rows + "}}";
}
std::string refusal(const std::string& text) {
  const auto cache = parse_tuning_cache(text);
  EXPECT_FALSE(cache);
  return cache ? std::string() : cache.error().text();
}

TEST(TuningCache, ReadsResultsInT4) {
  const auto cache =
      parse_tuning_cache(t4(t4_row(64, "nt", "0.5") + "," + t4_row(32, "nn", "\"CompileFailed\"", "compile") + "," +
                            t4_row(32, "nt", "0.25")));
  ASSERT_TRUE(cache) << cache.error().text();
  ASSERT_EQ(cache->parameters.size(), 2u);
  EXPECT_EQ(cache->parameters[0].values[0].number, 32);
  EXPECT_EQ(cache->parameters[1].values[0].word, "nt");
  ASSERT_EQ(cache->rows.size(), 3u);
  EXPECT_DOUBLE_EQ(cache->rows[0].time, 0.5e-3);
  EXPECT_DOUBLE_EQ(cache->rows[0].cost, 0.906);
  EXPECT_EQ(cache->rows[1].failure, "compile");
  EXPECT_TRUE(std::isnan(cache->rows[1].time));
  EXPECT_EQ(cache->rows[2].values, (std::vector<std::uint16_t>{0, 0}));
}

TEST(TuningCache, ReadsWhatKernelTunerKeeps) {
  const auto cache = parse_tuning_cache(kernel_tuner(
      R"("32": {"block": 32, "time": 2.0, "compile_time": 100, "benchmark_time": 50, "strategy_time": -1},
         "64": {"block": 64, "time": "RuntimeFailedConfig"}, "128": {"block": 128, "time": 1e20}, )"
      R"("128 again": {"block": 128.5, "time": 1})"));
  EXPECT_FALSE(cache);
  EXPECT_THAT(cache.error().text(), HasSubstr("row 4 (128 again): block=128.5 is no declared value"));
  const auto good = parse_tuning_cache(kernel_tuner(
      R"("32": {"block": 32, "time": 2.0, "compile_time": 100, "benchmark_time": 50, "strategy_time": -1},
         "64": {"block": 64, "time": "RuntimeFailedConfig"}, "128": {"block": 128, "time": 1})"));
  ASSERT_TRUE(good) << good.error().text();
  EXPECT_EQ(good->kernel, "scale");
  EXPECT_EQ(good->device, "A GPU");
  EXPECT_DOUBLE_EQ(good->rows[0].cost, 0.15);
  EXPECT_TRUE(good->rows[1].failed());
}

TEST(TuningCache, SaysWhatIsWrongWithAFile) {
  EXPECT_THAT(refusal(t4(t4_row(32, "nn", "1") + "," + t4_row(32, "nn", "2"))),
              AllOf(HasSubstr("result 1 and result 2 are the same configuration: block=32 layout=nn")));
  EXPECT_THAT(refusal(t4(t4_row(32, "nn", "\"x\"") + "," + t4_row(64, "nn", "2"))),
              HasSubstr("1 of 2 rows have a time"));
  const std::string whole = t4(t4_row(32, "nn", "1"));
  EXPECT_THAT(refusal(whole.substr(0, whole.size() - 20)), AllOf(HasSubstr("line 2"), HasSubstr("interrupted")));
  EXPECT_THAT(refusal(R"({"ConfigurationSpace": {}})"), HasSubstr("--space"));
  EXPECT_THAT(refusal(t4(t4_row(32, "nn", "1") + R"(, {"configuration": {"block": 64}})")),
              HasSubstr("result 2 has no value of layout"));
  EXPECT_THAT(refusal("\x1f\x8b..."), HasSubstr("gunzip"));
  EXPECT_THAT(refusal(R"({"metadata": {"timeunit": "fortnights"}, "results": []})"), HasSubstr("fortnights"));
}

TEST(TuningCache, KnowsACacheOfAnotherKernel) {
  const auto cache = parse_tuning_cache(t4(t4_row(32, "nn", "1") + "," + t4_row(64, "nn", "2")));
  ASSERT_TRUE(cache);
  SearchParameter block{"block", {{32, {}}}}, tile{"tile", {{1, {}}}}, layout{"layout", {{0, "nn"}}};
  EXPECT_THAT(positions_in({block, tile}, *cache, cache->rows[0]).error().text(),
              AllOf(HasSubstr("another kernel: it has no parameter tile"), HasSubstr("block, layout")));
  EXPECT_THAT(positions_in({block}, *cache, cache->rows[0]).error().text(), HasSubstr("2 parameters, not 1"));
  EXPECT_THAT(positions_in({block, layout}, *cache, cache->rows[1]).error().text(),
              HasSubstr("block=64 is none of the 1"));
  EXPECT_EQ(*positions_in({layout, block}, *cache, cache->rows[0]), (std::vector<std::uint16_t>{0, 0}));
}

TEST(PythonText, ReadsTheValuesOfProblems) {
  const auto numbers = [](const std::string& text) {
    const auto values = python_values(text);
    EXPECT_TRUE(values) << values.error().text();
    std::vector<double> list;
    for (const ParameterValue& value : *values) list.push_back(value.number);
    return list;
  };
  EXPECT_EQ(numbers("[1, 2, 4,]"), (std::vector<double>{1, 2, 4}));
  EXPECT_EQ(numbers("[1, 2] + list(range(32, 96+1, 32))"), (std::vector<double>{1, 2, 32, 64, 96}));
  EXPECT_EQ(numbers("[2**i for i in range(0, 4)]"), (std::vector<double>{1, 2, 4, 8}));
  EXPECT_EQ(numbers("[True, False]"), (std::vector<double>{1, 0}));
  EXPECT_EQ(python_values("['nn', \"nt\"]")->at(1).word, "nt");
  EXPECT_THAT(python_values("os.listdir()").error().text(), HasSubstr("no list of values"));
  EXPECT_THAT(python_values("range(0, 1000000000)").error().text(), HasSubstr("more than"));
}

TEST(PythonText, ReadsConditions) {
  EXPECT_EQ(*python_condition("use_padding==0 or block % 32 != 0"), "use_padding==0 || block % 32 != 0");
  EXPECT_EQ(*python_condition("not (a == 8 and b >= 2**3)"), "0== (a == 8 && b >= 2^3)");
  EXPECT_THAT(python_condition("32 <= a * b <= 1024").error().text(), HasSubstr("a chained comparison"));
  EXPECT_THAT(python_condition("a // b == 2").error().text(), HasSubstr("`//`"));
  EXPECT_THAT(python_condition("a in (1, 2)").error().text(), HasSubstr("`in`"));
  EXPECT_THAT(python_condition("not a == b").error().text(), HasSubstr("`not` without brackets"));
}

TEST(TuningProblem, IsASpace) {
  const auto space = parse_tuning_problem(
      R"({"ConfigurationSpace": {"TuningParameters": [{"Name": "block", "Type": "int", "Values": "[16, 32]", "Default": 16}],
          "Conditions": [{"Expression": "block >= 32 or block == 16", "Parameters": ["block"]}]}})");
  ASSERT_TRUE(space) << space.error().text();
  EXPECT_EQ(space->parameters[0].values.size(), 2u);
  EXPECT_EQ(space->constraints[0], "block >= 32 || block == 16");
  EXPECT_THAT(parse_tuning_problem("{}").error().text(), HasSubstr("ConfigurationSpace"));
}

}  // namespace
}  // namespace ridge::record

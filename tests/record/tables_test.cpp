#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "record/bench_table.h"
#include "record/case_list.h"

namespace ridge::record {
namespace {

using ::testing::HasSubstr;

TEST(CaseList, RunsThroughEveryCombinationLastWordFastest) {
  const auto cases = expand_cases("gemm", {"m=1,2", "n=3,4", "dtype=f32"}).value();
  ASSERT_EQ(cases.size(), 4u);
  EXPECT_EQ(cases[0].label(), "m=1 n=3 dtype=f32");
  EXPECT_EQ(cases[1].label(), "m=1 n=4 dtype=f32");
  EXPECT_EQ(cases[3].label(), "m=2 n=4 dtype=f32");
}

TEST(CaseList, RefusesEmptyValuesAndTooManyCases) {
  EXPECT_THAT(expand_cases("gemm", {"m=1,,2"}).error().message, HasSubstr("m=1,,2"));
  std::string many = "1";
  for (int i = 2; i <= 200; ++i) many += "," + std::to_string(i);
  EXPECT_THAT(expand_cases("gemm", {"m=" + many, "n=" + many}).error().message, HasSubstr("10000"));
}

TEST(BenchTable, CsvQuotesWhatNeedsIt) {
  BenchRow row;
  row.label = "m=1, \"odd\"";
  row.subject = "cpu_simd";
  row.median = 0.25;
  row.samples = {0.25};
  const std::string csv = bench_csv({row});
  EXPECT_THAT(csv, HasSubstr("\"m=1, \"\"odd\"\"\",cpu_simd,PASS,0.25,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 2);
}

TEST(BenchTable, MarkdownShowsRatiosOnlyWhereThereIsOne) {
  BenchRow alone, paired;
  paired.ratio = 1.25;
  const std::string text = bench_markdown({alone, paired});
  EXPECT_THAT(text, HasSubstr("| - |"));
  EXPECT_THAT(text, HasSubstr("| 1.250 |"));
}

}  // namespace
}  // namespace ridge::record

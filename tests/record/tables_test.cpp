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

TEST(CaseList, RangesRunByStepsAndByFactorsAndIncludeTheirEnds) {
  const auto labels = [](const char* word) {
    std::string text;
    const auto cases = expand_cases("gemm", {word}).value();
    for (const Case& one : cases) text += one.get("m") + " ";
    return text;
  };
  EXPECT_EQ(labels("m=512:4096:*2"), "512 1024 2048 4096 ");
  EXPECT_EQ(labels("m=64:256:64,1000"), "64 128 192 256 1000 ");
  EXPECT_EQ(labels("m=5:9:3"), "5 8 ");
  EXPECT_EQ(labels("m=7:7:*2"), "7 ");
  EXPECT_EQ(labels("m=4611686018427387904:9223372036854775807:*2"), "4611686018427387904 ");
  EXPECT_EQ(labels("m=512..4096*2"), "512 1024 2048 4096 ");
  EXPECT_EQ(labels("m=512..4096x2"), "512 1024 2048 4096 ");
  EXPECT_EQ(labels("m=64..256+64,1000"), "64 128 192 256 1000 ");
  EXPECT_EQ(labels("m=1..4"), "1 2 3 4 ");
}

TEST(CaseList, AWordWithSpacesIsACaseOfItsOwn) {
  const auto cases = expand_cases("gemm", {"m=1 n=2", "dtype=f32,bf16", "m=3 n=4"}).value();
  ASSERT_EQ(cases.size(), 4u);
  EXPECT_EQ(cases[1].label(), "m=1 n=2 dtype=bf16");
  EXPECT_EQ(cases[2].label(), "m=3 n=4 dtype=f32");
}

TEST(CaseList, RefusesRangesThatNeverEndOrSayNothing) {
  for (const char* word : {"m=512:4096", "m=9:3:1", "m=1:9:0", "m=1:9:*1", "m=0:9:*2", "m=1:9:-1", "m=a:9:1", "m=1::1",
                           "m=1:100000:1", "m=1:2:3:4", "m=9..3", "m=1..", "m=..4", "m=1..9*1", "m=0..9x2", "m=1..9+0",
                           "m=1..9-1", "m=1..2..3", "m=1...4"}) {
    const auto cases = expand_cases("gemm", {word});
    ASSERT_FALSE(cases.ok()) << word;
    EXPECT_THAT(cases.error().message, HasSubstr(word));
  }
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

TEST(BenchTable, CsvHasAColumnForEveryParameterOfTheOperator) {
  BenchRow first, second;
  first.label = "n=5 alpha=0.1";
  second.label = "n=6 alpha=0.1 mask=full";
  const std::string csv = bench_csv({first, second});
  EXPECT_THAT(csv, HasSubstr("ratio,ratio_low,ratio_high,n,alpha,mask\nn=5 alpha=0.1,"));
  EXPECT_THAT(csv, HasSubstr(",5,0.1,\nn=6 alpha=0.1 mask=full,"));
  EXPECT_TRUE(csv.ends_with(",6,0.1,full\n")) << csv;
}

TEST(BenchTable, ACaseWithoutWorkHasNoShareOfARoof) {
  BenchRow row;
  row.label = "m=0";
  row.roofline_fraction = 0;
  EXPECT_THAT(bench_markdown({row}), HasSubstr("| 0.0 | 0.0 | - | 0.0 % | - |"));
}

TEST(BenchTable, MarkdownShowsRatiosOnlyWhereThereIsOne) {
  BenchRow alone, paired;
  paired.ratio = 1.25;
  paired.ratio_low = 1.2;
  paired.ratio_high = 1.3;
  const std::string text = bench_markdown({alone, paired});
  EXPECT_THAT(text, HasSubstr("| - |"));
  EXPECT_THAT(text, HasSubstr("| 1.250 [1.200, 1.300] |"));
}

}  // namespace
}  // namespace ridge::record

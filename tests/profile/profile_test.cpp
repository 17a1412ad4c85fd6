// The reports ncu_copy, ncu_strided_copy, ncu_fma and ncu_matrix in reports/ are what Nsight Compute printed on an H200
// of the kernels in tests/gpu/profile_kernels.cu, whose character is known. The others are written by hand in the
// tools' public formats.
#include "profile/profile.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/files.h"
#include "places.h"

namespace ridge::profile {
namespace {

using record::Bottleneck;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::string text_of(const std::string& name) {
  return *read_file((source_dir() / "tests/profile/reports" / name).string());
}

Result<record::ProfileReport> read(const std::string& name, const Options& options = {}) {
  return read_report((source_dir() / "tests/profile/reports" / name).string(), "", options);
}

record::ProfileReport good(const std::string& name, const Options& options = {}) {
  const Result<record::ProfileReport> report = read(name, options);
  EXPECT_TRUE(report) << report.error().text();
  return report ? *report : record::ProfileReport{};
}

std::vector<std::string> names_of(const record::ProfileReport& report) {
  std::vector<std::string> names;
  for (const record::ProfileHypothesis& one : report.hypotheses) names.push_back(one.name);
  return names;
}

TEST(Profile, AWideCopyIsLimitedByMemoryAndNothingElse) {
  const record::ProfileReport report = good("ncu_copy.csv");
  EXPECT_EQ(report.tool, "ncu");
  EXPECT_EQ(report.device, "NVIDIA H200");
  EXPECT_EQ(report.kernel, "<unnamed>::copy(float4 *, const float4 *, long)");  // not the first launch: a warm-up
  EXPECT_EQ(report.bottleneck, Bottleneck::kMemory);
  EXPECT_THAT(report.verdict, HasSubstr("memory at 83 %"));  // and not the L2 at 88 %, through which it all goes
  EXPECT_TRUE(report.hypotheses.empty()) << report.hypotheses.front().name;
  EXPECT_THAT(report.missing, testing::IsEmpty());
  EXPECT_NEAR(*metric(report, "dram_fraction"), 0.8296, 1e-9);  // the median of three
  EXPECT_NEAR(*metric(report, "dram_bytes"), 2127.086080e6, 1);
}

TEST(Profile, AStridedCopyWastesWhatItMovesAndBrokenBurstsKeepItFromThePeak) {
  const record::ProfileReport report = good("ncu_strided_copy.csv");
  EXPECT_EQ(report.bottleneck, Bottleneck::kMemory);
  EXPECT_NEAR(*metric(report, "load_efficiency"), 0.125, 1e-9);  // 4 of 32 bytes
  EXPECT_LT(*metric(report, "dram_fraction"), 0.6);
  EXPECT_THAT(report.verdict, HasSubstr("and much of what moves is not used"));
  ASSERT_FALSE(report.hypotheses.empty());
  EXPECT_EQ(report.hypotheses.front().name, "uncoalesced loads");
  EXPECT_NEAR(report.hypotheses.front().gain, 7.0, 0.1);  // an eighth of the bytes is used
  // The same fractions with nothing wasted are a matter of latency.
  std::string text = text_of("ncu_strided_copy.csv");
  for (std::size_t at = text.find("\"12.50\""); at != std::string::npos; at = text.find("\"12.50\""))
    text.replace(at, 7, "\"99.00\"");
  EXPECT_EQ(analyse(*parse_ncu(text), {})->bottleneck, Bottleneck::kLatency);
}

TEST(Profile, AnInnerMemoryThatIsClearlyFullerThanTheOuterOneIsWhatLimits) {
  std::string text = text_of("ncu_copy.csv");
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from))
      text.replace(at, from.size(), to);
  };
  replace("\"88.57\"", "\"97.00\"");
  replace("\"88.23\"", "\"97.00\"");
  replace("\"88.30\"", "\"97.00\"");
  EXPECT_THAT(analyse(*parse_ncu(text), {.kernel = "copy("})->verdict, HasSubstr("L2 at 97 %"));
}

TEST(Profile, AChainOfMultiplyAddsIsBoundByTheirPipesAndAsksForMatrixUnits) {
  const record::ProfileReport report = good("ncu_fma.csv");
  EXPECT_EQ(report.bottleneck, Bottleneck::kCompute);
  EXPECT_THAT(report.verdict, HasSubstr("multiply-add pipes at 95 %: near the ceiling"));
  EXPECT_THAT(names_of(report), Contains("matrix units idle"));
}

TEST(Profile, AMatrixKernelIsAtItsCeilingWithHalfOfTheWarps) {
  const record::ProfileReport report = good("ncu_matrix.csv");
  EXPECT_EQ(report.bottleneck, Bottleneck::kCompute);
  EXPECT_THAT(report.verdict, HasSubstr("matrix units at 96 %: near the ceiling"));
  EXPECT_THAT(names_of(report), Not(Contains("few warps")));
}

TEST(Profile, WhatAToolDidNotCountIsNotZero) {
  std::string text = text_of("ncu_matrix.csv");
  const std::string name = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct";
  ASSERT_NE(text.find(name), std::string::npos);
  text.replace(text.find(name), name.size(), "renamed_by_a_later_version");
  EXPECT_THAT(analyse(*parse_ncu(text), {})->missing, Contains("load_efficiency"));
}

TEST(Profile, AThinKernelWaitsAndItsHypothesesAreRanked) {
  const record::ProfileReport report = good("ncu_idle.csv");
  EXPECT_EQ(report.bottleneck, Bottleneck::kLatency);
  EXPECT_THAT(names_of(report), Contains("few warps"));
  EXPECT_THAT(names_of(report), Contains("waiting (stall_memory)"));
  EXPECT_THAT(names_of(report), Contains("local memory"));
  EXPECT_THAT(names_of(report), Contains("partial last wave"));
  for (std::size_t i = 1; i < report.hypotheses.size(); ++i)
    EXPECT_GE(report.hypotheses[i - 1].gain, report.hypotheses[i].gain);
}

TEST(Profile, TheDetailsPageSaysTheSameAsTheRawOne) {
  const record::ProfileReport report = good("ncu_details.csv");
  EXPECT_EQ(report.bottleneck, Bottleneck::kMemory);
  EXPECT_NEAR(*metric(report, "dram_fraction"), 0.924, 1e-9);
  EXPECT_NEAR(*metric(report, "registers"), 20, 1e-9);
}

TEST(Profile, ATraceOfActivityShowsAHostThatLeavesTheDeviceIdle) {
  const record::ProfileReport report = good("cupti.csv");
  EXPECT_EQ(report.kernel, "step(float *, int)");
  EXPECT_EQ(report.kernels.front().launches, 20);  // the copy is no kernel
  EXPECT_NEAR(*metric(report, "gpu_busy_fraction"), 0.212, 0.005);
  EXPECT_EQ(report.bottleneck, Bottleneck::kLaunch);
  EXPECT_EQ(report.device, "NVIDIA H200 (0)");
}

TEST(Profile, CountersOfRocprofv3NeedTheBandwidthToBecomeAFraction) {
  const record::ProfileReport blind = good("rocprofv3_counters.csv");
  EXPECT_FALSE(metric(blind, "dram_fraction"));
  EXPECT_THAT(blind.missing, Contains("dram_fraction"));
  const record::ProfileReport report = good("rocprofv3_counters.csv", {.bandwidth = 5.3e12});
  EXPECT_NEAR(*metric(report, "dram_bytes"), 1024.0 * 1048576, 1);
  EXPECT_NEAR(*metric(report, "dram_fraction"), 0.778, 0.002);
  EXPECT_EQ(report.bottleneck, Bottleneck::kMemory);
}

TEST(Profile, ATraceOfRocprofv3ShowsIdleTime) {
  const record::ProfileReport report = good("rocprofv3_trace.csv");
  EXPECT_NEAR(*metric(report, "gpu_busy_fraction"), 0.099, 0.002);
  EXPECT_EQ(report.bottleneck, Bottleneck::kLaunch);
}

// Reports of ROCm 6 number launches by Correlation_Id alone, and a trace needs no number.
TEST(Profile, ReportsOfRocprofv3WithoutDispatchIdsAreRead) {
  const std::string trace =
      "Kind,Agent_Id,Queue_Id,Kernel_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp\n"
      "\"KERNEL_DISPATCH\",4,1,7,\"step(int)\",0,1000,3000\n\"KERNEL_DISPATCH\",4,1,7,\"step(int)\",0,5000,8000\n";
  const Result<Capture> launches = parse_capture(trace, "");
  ASSERT_TRUE(launches) << launches.error().text();
  EXPECT_EQ(launches->tool, "rocprofv3");
  ASSERT_EQ(launches->launches.size(), 2u);
  EXPECT_NEAR(launches->launches[1].duration, 3e-6, 1e-12);
  const std::string head = "Kernel_Name,Counter_Name,Counter_Value", rows = "k,A,1\nk,B,2\nk,A,3\n";
  const Result<Capture> counters =
      parse_capture("Correlation_Id," + head + "\n1,k,A,1\n1,k,B,2\n2,k,A,3\n", "rocprofv3");
  ASSERT_TRUE(counters) << counters.error().text();
  ASSERT_EQ(counters->launches.size(), 2u);
  EXPECT_EQ(counters->launches[0].counters.at("B").value, 2);
  EXPECT_THAT(parse_capture(head + "\n" + rows, "rocprofv3").error().message, HasSubstr("Correlation_Id"));
}

TEST(Profile, RocprofComputeCountsMatrixCyclesAndMemoryRequests) {
  const record::ProfileReport report = good("rocprof_compute.csv", {.bandwidth = 5.3e12});
  EXPECT_NEAR(*metric(report, "tensor_fraction"), 0.85, 1e-9);
  EXPECT_NEAR(*metric(report, "dram_bytes"), 64.0 * 2e6 + 64 * 5e5, 1);
  EXPECT_EQ(report.bottleneck, Bottleneck::kCompute);
}

TEST(Profile, PerfGivesInstructionsPerCycleAndBytesOfMissedLines) {
  const record::ProfileReport report = good("perf.csv", {.bandwidth = 1e10});
  EXPECT_NEAR(*metric(report, "instructions_per_cycle"), 0.4, 1e-9);
  EXPECT_NEAR(*metric(report, "dram_fraction"), 0.8, 1e-9);
  EXPECT_EQ(report.bottleneck, Bottleneck::kMemory);
}

// A second of `perf stat -x,` with these counters.
std::string counted(const std::map<std::string, double>& counters) {
  std::string text = "1000000000,ns,duration_time,1000000000,100.00,,\n1000.0,msec,task-clock,1000000000,100.00,,\n";
  for (const auto& [name, value] : counters) text += fmt::format("{:.0f},,{}:u,1000000000,100.00,,\n", value, name);
  return text;
}

record::ProfileReport judged(const std::map<std::string, double>& counters, const Options& options = {}) {
  const Result<record::ProfileReport> report = analyse(*parse_perf(counted(counters)), options);
  EXPECT_TRUE(report) << report.error().text();
  return report ? *report : record::ProfileReport{};
}

TEST(ProfileOfAProcessor, MemoryLimitsWhereItsBandwidthIsFullOrLoadsMissAndNothingElseRuns) {
  const std::map<std::string, double> misses = {{"cycles", 3e9}, {"instructions", 1.2e9}, {"LLC-load-misses", 2e7}};
  EXPECT_EQ(judged(misses).bottleneck, Bottleneck::kMemory);
  EXPECT_THAT(judged(misses).verdict, HasSubstr("17 last-level misses per 1000 instructions"));
  const record::ProfileReport full = judged(misses, {.bandwidth = 1.6e9});
  EXPECT_EQ(full.bottleneck, Bottleneck::kMemory);
  EXPECT_THAT(full.verdict, HasSubstr("memory at 80 %"));
  ASSERT_EQ(full.hypotheses.size(), 1u);
  EXPECT_NEAR(full.hypotheses[0].gain, 0.25, 1e-9);
  // The same misses where the memory could do twenty times as much are no limit.
  EXPECT_NE(judged(misses, {.bandwidth = 2.6e10}).bottleneck, Bottleneck::kMemory);
}

TEST(ProfileOfAProcessor, IssueSlotsTellTheFrontEndFromBranches) {
  std::map<std::string, double> slots = {
      {"cycles", 1e9},           {"instructions", 1e9},       {"slots", 4e9},           {"topdown-retiring", 1e9},
      {"topdown-bad-spec", 2e8}, {"topdown-fe-bound", 1.8e9}, {"topdown-be-bound", 1e9}};
  const record::ProfileReport front = judged(slots);
  EXPECT_THAT(front.verdict, HasSubstr("fetching and decoding instructions limits"));
  EXPECT_THAT(front.verdict, HasSubstr("front end 45 %"));
  EXPECT_THAT(names_of(front), Contains("front end"));
  EXPECT_EQ(front.bottleneck, Bottleneck::kCompute);
  slots["topdown-bad-spec"] = 1.2e9;
  slots["topdown-fe-bound"] = 8e8;
  EXPECT_THAT(judged(slots).verdict, HasSubstr("mispredicted branches limit: 30 % of the slots"));
  // Cycles in which the front end stood still say the same where slots are not counted.
  EXPECT_THAT(judged({{"cycles", 1e9}, {"instructions", 1e9}, {"stalled-cycles-frontend", 5e8}}).verdict,
              HasSubstr("fetching and decoding"));
}

TEST(ProfileOfAProcessor, MultiplyAddsLimitWhereTheHotLoopFillsTheirUnits) {
  const std::map<std::string, double> busy = {{"cycles", 1e9}, {"instructions", 2.4e9}, {"LLC-load-misses", 1e4}};
  const std::map<std::string, double> tile = {{"hot_loop_instructions", 40}, {"hot_loop_fma", 24}};
  const record::ProfileReport report = judged(busy, {.code = tile});
  EXPECT_EQ(report.bottleneck, Bottleneck::kCompute);
  EXPECT_THAT(report.verdict, HasSubstr("multiply-add units limit, 1.44 of 2 a cycle"));
  EXPECT_THAT(report.verdict, HasSubstr("24 of 40 instructions of the hot loop multiply and add"));
  EXPECT_EQ(judged(busy, {.code = {{"hot_loop_instructions", 40}, {"hot_loop_fma", 4}}}).bottleneck,
            Bottleneck::kUnknown);
  const record::ProfileReport many = judged({{"cycles", 1e9}, {"instructions", 3.5e9}});
  EXPECT_EQ(many.bottleneck, Bottleneck::kCompute);
  EXPECT_THAT(many.verdict, HasSubstr("the number of instructions limits"));
}

TEST(ProfileOfAProcessor, LatencyLimitsWhereSlotsWaitedAndNotForLoads) {
  std::map<std::string, double> chain = {
      {"cycles", 1e9},           {"instructions", 5e8},     {"slots", 4e9},
      {"topdown-retiring", 8e8}, {"topdown-bad-spec", 1e8}, {"topdown-fe-bound", 2e8},
      {"topdown-be-bound", 3e9}, {"topdown-mem-bound", 2e8}};
  EXPECT_EQ(judged(chain).bottleneck, Bottleneck::kLatency);
  EXPECT_THAT(names_of(judged(chain)), Contains("dependences"));
  EXPECT_THAT(judged(chain).verdict, HasSubstr("loads and stores 5 %"));
  chain["topdown-mem-bound"] = 2e9;
  EXPECT_EQ(judged(chain).bottleneck, Bottleneck::kUnknown);
  chain.erase("topdown-mem-bound");
  EXPECT_EQ(judged(chain).bottleneck, Bottleneck::kUnknown);
}

// A stream that the prefetcher runs ahead of misses no load and fills the memory.
TEST(ProfileOfAProcessor, FewMissesOfLoadsDoNotShowAnIdleMemory) {
  const record::ProfileReport few =
      judged({{"cycles", 1e9}, {"instructions", 5e8}, {"LLC-load-misses", 1e3}}, {.bandwidth = 1e10});
  EXPECT_EQ(few.bottleneck, Bottleneck::kUnknown);
  EXPECT_THAT(few.verdict, HasSubstr("do not tell memory from results"));
  EXPECT_THAT(few.verdict, HasSubstr("memory at 0 % of its bandwidth at least"));
  EXPECT_TRUE(few.hypotheses.empty());
}

// `cache-misses` is an event of another level on every processor.
TEST(ProfileOfAProcessor, AnEventIsTheVendorsOwn) {
  const std::map<std::string, double> misses = {{"cycles", 3e9}, {"instructions", 1.2e9}, {"cache-misses", 2e7}};
  const record::ProfileReport intel = judged(misses, {.vendor = "Intel"}), amd = judged(misses, {.vendor = "AMD"}),
                              unknown = judged(misses);
  EXPECT_EQ(intel.bottleneck, Bottleneck::kMemory);
  EXPECT_TRUE(metric(intel, "llc_misses_per_instruction"));
  EXPECT_EQ(amd.bottleneck, Bottleneck::kUnknown) << "what lies in the third level looks like this, too";
  EXPECT_FALSE(metric(amd, "llc_misses_per_instruction"));
  EXPECT_TRUE(metric(amd, "l2_misses_per_instruction"));
  EXPECT_THAT(amd.verdict, HasSubstr("17 second-level misses per 1000 instructions"));
  EXPECT_EQ(unknown.bottleneck, Bottleneck::kUnknown);
  EXPECT_FALSE(metric(unknown, "llc_misses_per_instruction"));
  EXPECT_FALSE(metric(unknown, "l2_misses_per_instruction"));
}

// perf prints what it counted times wanted over counted: nothing is scaled again, and a short turn says nothing.
TEST(ProfileOfAProcessor, ACounterThatHadAShortTurnSaysNothing) {
  const std::string clock = "1000000000,ns,duration_time,1000000000,100.00,,\n";
  const auto with = [&](const std::string& lines) { return *analyse(*parse_perf(clock + lines), {}); };
  const record::ProfileReport half =
      with("1000000000,,cycles,500000000,50.00,,\n2000000000,,instructions,500000000,50.00,,\n");
  EXPECT_DOUBLE_EQ(*metric(half, "instructions_per_cycle"), 2);
  const record::ProfileReport turns = with(
      "1000000000,,cycles,1000000000,100.00,,\n500000000,,instructions,1000000000,100.00,,\n"
      "9000000,,LLC-load-misses,50000000,5.00,,\n<not counted>,,branch-misses,0,0.00,,\n");
  EXPECT_FALSE(metric(turns, "llc_misses_per_instruction"));
  EXPECT_FALSE(metric(turns, "dram_bytes"));
  EXPECT_FALSE(metric(turns, "branch_misses_per_instruction"));
  EXPECT_EQ(turns.bottleneck, Bottleneck::kUnknown);
  EXPECT_THAT(turns.missing, Contains("LLC-load-misses (counted for 5 % of the time)"));
  const record::ProfileReport scattered =
      with("1000000000,,cycles,0.31%,1000000000,100.00,,\n2000000000,,instructions,0.20%,1000000000,4.00,,\n");
  EXPECT_FALSE(metric(scattered, "instructions_per_cycle"));
  EXPECT_THAT(scattered.verdict, HasSubstr("instructions (counted for 4 % of the time)"));
}

TEST(ProfileOfAProcessor, WhatIsNoCountIsRefused) {
  for (const char* count : {"-5", "nan", "inf"}) {
    const Result<Capture> damaged =
        parse_perf(std::string(count) + ",,cycles,1000,100.00,,\n5,,instructions,1000,,,\n");
    ASSERT_FALSE(damaged) << count;
    EXPECT_THAT(damaged.error().message, HasSubstr(std::string(count) + " of cycles is no count"));
  }
}

// On processors with two kinds of cores every event is printed once for each.
TEST(ProfileOfAProcessor, TheKindOfCoreThatTheProgramRanOnIsRead) {
  const std::string clock = "1000000000,ns,duration_time,1000000000,100.00,,\n";
  const auto ran = [&](const char* core, const char* atom) {
    return *analyse(*parse_perf(clock + fmt::format("3000000000,,cpu_core/cycles/u,1,{0},,\n"
                                                    "6000000000,,cpu_core/instructions/u,1,{0},,\n"
                                                    "7000000,,cpu_core/LLC-load-misses/u,1,{0},,\n"
                                                    "500000000,,cpu_atom/cycles/u,1,{1},,\n"
                                                    "100000000,,cpu_atom/instructions/u,1,{1},,\n"
                                                    "<not supported>,,cpu_atom/LLC-load-misses/u,0,{1},,\n"
                                                    "12,,uncore_imc_0/cas_count_read/,1,100.00,,\n",
                                                    core, atom)),
                    {});
  };
  const record::ProfileReport one = ran("97.00", "3.00");
  EXPECT_DOUBLE_EQ(*metric(one, "instructions_per_cycle"), 2);
  EXPECT_DOUBLE_EQ(*metric(one, "dram_bytes"), 64 * 7e6);
  const record::ProfileReport both = ran("63.00", "37.00");
  EXPECT_FALSE(metric(both, "instructions_per_cycle"));
  EXPECT_EQ(both.bottleneck, Bottleneck::kUnknown);
  EXPECT_THAT(both.verdict, HasSubstr("counted on cpu_atom for 37 %, cpu_core for 63 % of the time"));
  const record::ProfileReport plain =
      *analyse(*parse_perf(clock + "3,,cpu/cycles/,1,100.00,,\n6,,cpu/instructions/,1,100.00,,\n"), {});
  EXPECT_DOUBLE_EQ(*metric(plain, "instructions_per_cycle"), 2);
}

TEST(ProfileOfAProcessor, NothingIsConcludedOfAKernelThatHardlyRan) {
  const record::ProfileReport report = judged({{"cycles", 1e9}, {"instructions", 3.5e9}}, {.kernel_share = 0.2});
  EXPECT_EQ(report.bottleneck, Bottleneck::kUnknown);
  EXPECT_THAT(report.verdict, HasSubstr("the kernel ran 20 % of the counted time"));
  EXPECT_TRUE(report.hypotheses.empty());
}

// The machine is asked once in a process.
TEST(ProfileOfAProcessor, CountersThatAreOffAreFoundOutOnce) {
  const Result<TempDir> folder = TempDir::create("ridge-perf");
  ASSERT_TRUE(folder);
  const std::filesystem::path program = folder->path() / "perf", log = folder->path() / "log";
  ASSERT_TRUE(
      write_file_durably(program, fmt::format("#!/bin/sh\necho run >> {}\nwhile [ \"$1\" != -o ]; do shift; done\n"
                                              "echo '0.5,msec,task-clock,500000,100.00,,' > \"$2\"\n"
                                              "echo '<not supported>,,cycles,0,100.00,,' >> \"$2\"\n",
                                              log.string())));
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (folder->path().string() + ":" + path).c_str(), 1);
  EXPECT_THAT(why_no_counters("perf"), HasSubstr("perf counts neither cycles nor instructions on this machine"));
  EXPECT_THAT(why_no_counters("perf"), HasSubstr("neither cycles nor instructions"));
  EXPECT_EQ(why_no_counters("ncu"), "");
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(*read_file(log), "run\n");
}

TEST(Profile, WhatCannotBeSaidIsSaidWithTheWayOut) {
  const Result<record::ProfileReport> even =
      analyse(*parse_perf(counted({{"cycles", 1e9}, {"instructions", 2e9}, {"LLC-load-misses", 2e6}})), {});
  ASSERT_TRUE(even);
  EXPECT_EQ(even->bottleneck, Bottleneck::kUnknown);
  EXPECT_THAT(even->verdict, HasSubstr("no counter is near a limit: 2.00 instructions per cycle, 1 last-level misses"));
  EXPECT_THAT(even->verdict, HasSubstr("--on"));
  const Result<record::ProfileReport> clock = analyse(*parse_perf("12.5,msec,task-clock,12500000,100.00,,\n"), {});
  ASSERT_TRUE(clock);
  EXPECT_THAT(clock->verdict, HasSubstr("neither cycles nor instructions"));
}

TEST(Profile, AMachineWithoutCountersIsNoMeasurementOfZero) {
  const Result<Capture> capture = parse_perf(text_of("perf_without_counters.csv"));
  ASSERT_FALSE(capture);
  EXPECT_THAT(capture.error().message, HasSubstr("shows no counters"));
}

TEST(Profile, TheTargetIsNamedOrStandsOutNeverGuessed) {
  const Result<record::ProfileReport> two = read("ncu_two.csv");
  ASSERT_FALSE(two);
  EXPECT_THAT(two.error().message, HasSubstr("no kernel takes 60 % of the time"));
  EXPECT_EQ(good("ncu_two.csv", {.kernel = "b("}).kernel, "b(int)");
  const Result<record::ProfileReport> both = read("ncu_two.csv", {.kernel = "(int)"});
  ASSERT_FALSE(both);
  EXPECT_THAT(both.error().message, HasSubstr("fits 2 kernels"));
  const Result<record::ProfileReport> none = read("ncu_two.csv", {.kernel = "gemm"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
}

TEST(Profile, AnythingElseIsRefused) {
  EXPECT_FALSE(parse_capture("hello\nworld\n", ""));
  EXPECT_FALSE(parse_capture(text_of("perf.csv"), "ncu"));
  EXPECT_FALSE(parse_capture(text_of("perf.csv"), "vtune"));
  const std::string cut = text_of("ncu_copy.csv").substr(0, 400);
  EXPECT_FALSE(parse_capture(cut, "ncu"));
}

// A program named ncu that writes a recorded report where it is told to, and its own arguments beside it.
TEST(Profile, NcuRunsWithTheClocksLeftAloneAndItsReportIsKept) {
  const Result<TempDir> folder = TempDir::create("profile-test");
  ASSERT_TRUE(folder);
  const std::filesystem::path program = folder->path() / "ncu", kept = folder->path() / "kept.csv";
  ASSERT_TRUE(write_file_durably(program, "#!/bin/sh\necho \"$*\" > " + (folder->path() / "arguments").string() +
                                              "\nwhile [ \"$1\" != --log-file ]; do shift; done\n"
                                              "cp " +
                                              source_dir().string() + "/tests/profile/reports/ncu_copy.csv \"$2\"\n"));
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (folder->path().string() + ":" + path).c_str(), 1);
  Options options;
  options.kernel = "copy(";
  options.keep = kept;
  const Result<record::ProfileReport> report = collect("ncu", {"program", "argument"}, options);
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ(report->bottleneck, Bottleneck::kMemory);
  EXPECT_EQ(*read_file(kept), text_of("ncu_copy.csv"));
  const std::string arguments = *read_file(folder->path() / "arguments");
  EXPECT_THAT(arguments, HasSubstr("--clock-control none"));
  EXPECT_THAT(arguments, HasSubstr("program argument"));
}

TEST(Profile, AToolThatIsNotThereIsNamedWithWhereToGetIt) {
  const Result<record::ProfileReport> report = collect("rocprofv3", {"true"}, {});
  ASSERT_FALSE(report);  // where it is there, /bin/true launches no kernel
  if (report.error().code == ErrorCode::kUnsupported) {
    EXPECT_THAT(report.error().hint, HasSubstr("rocprofiler-sdk"));
  }
  EXPECT_FALSE(collect("rocprof-compute", {"true"}, {}));
}

TEST(Profile, TextNamesEveryNumberAndWhatIsMissing) {
  const std::string text = to_text(good("ncu_matrix.csv"));
  EXPECT_THAT(text, HasSubstr("tensor_fraction"));
  EXPECT_THAT(text, HasSubstr("96.4 %"));
  EXPECT_THAT(to_text(good("ncu_idle.csv")), testing::ContainsRegex("not in this report: [^\n]*stall_barrier"));
}

}  // namespace
}  // namespace ridge::profile

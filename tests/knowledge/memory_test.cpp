#include "knowledge/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include <nlohmann/json.hpp>
#include "base/files.h"

#include "record/iteration_file.h"
#include "record/json.h"

namespace ridge::knowledge {
namespace {

using ::testing::HasSubstr;

record::Iteration passing(double latency) {
  record::Iteration it;
  it.performance.latency_us = latency;
  it.quality_gate.result = it.correctness.status = record::IterationStatus::kPass;
  it.optimization = {"swizzle", "swizzle the shared tile", "fewer conflicts", ""};
  return it;
}

record::Iteration failing(const std::string& why) {
  record::Iteration it;
  it.quality_gate.failure_reason = why;
  return it;
}

class MemoryTest : public testing::Test {
 protected:
  MemoryTest()
      : directory_(TempDir::create("ridge-memory").value()), memory_(Memory::init(directory_.path()).value()) {}
  // v0 slow, v1 fails, v2 better, v3 best, v4 to v7 worse.
  void fill() {
    ASSERT_TRUE(memory_.create(passing(100), clock_));
    ASSERT_TRUE(memory_.create(failing("wrong at m=7"), clock_));
    for (const double latency : {80.0, 50.0, 60.0, 61.0, 62.0, 63.0})
      ASSERT_TRUE(memory_.create(passing(latency), clock_));
  }
  TempDir directory_;
  VirtualClock clock_;
  Memory memory_;
};

TEST_F(MemoryTest, KeepsWhatWasWritten) {
  ASSERT_TRUE(memory_.create(passing(12.5), clock_));
  const auto back = memory_.read("v0");
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(back->performance.latency_us, 12.5);
  EXPECT_EQ(back->timestamp, "2026-01-01 00:00");
  EXPECT_EQ(*memory_.next_version(), "v1");
}

TEST_F(MemoryTest, RefusesToReplaceAndToSkipItsRules) {
  ASSERT_TRUE(memory_.create(passing(1), clock_));
  record::Iteration again = passing(2);
  again.version = "v0";
  EXPECT_EQ(memory_.create(again, clock_).error().code, ErrorCode::kConflict);
  for (const char* version : {"v2abc", "2", "v-1", "v01", "../v1", "v"}) {
    again.version = version;
    EXPECT_FALSE(memory_.create(again, clock_)) << version;
  }
}

TEST_F(MemoryTest, WritesNothingInvalid) {
  const auto refuses = [&](record::Iteration it, const char* says) {
    const auto created = memory_.create(std::move(it), clock_);
    ASSERT_FALSE(created) << says;
    EXPECT_THAT(created.error().message, HasSubstr(says));
  };
  refuses(failing(""), "failure_reason");
  record::Iteration it = passing(std::numeric_limits<double>::infinity());
  refuses(it, "latency_us is inf");
  it = passing(1);
  it.performance.compute_utilisation = 1.2;
  refuses(it, "compute_utilisation is 1.2");
  it = passing(1);
  it.correctness.status = record::IterationStatus::kFail;
  refuses(it, "correctness did not");
  it = passing(1);
  it.git_commit_hash = "12e45678z";
  refuses(it, "git_commit_hash");
  it = passing(1);
  it.open_directions.resize(4);
  refuses(it, "at most 3");
  EXPECT_EQ(*memory_.next_version(), "v0");
}

TEST_F(MemoryTest, UpdatesByTypeNotByLooks) {
  ASSERT_TRUE(memory_.create(passing(1), clock_));
  // A hash that looks like a number stays a text; a number that is none is refused.
  ASSERT_TRUE(
      memory_.update("v0", {"git_commit_hash=1234567", "performance.tflops=612.5", "quality_gate.result=PASS"}));
  EXPECT_EQ(memory_.read("v0")->git_commit_hash, "1234567");
  ASSERT_TRUE(memory_.update("v0", {"git_commit_hash=12e45678"}));
  EXPECT_EQ(memory_.read("v0")->git_commit_hash, "12e45678");
  EXPECT_EQ(memory_.read("v0")->performance.tflops, 612.5);
  for (const char* wrong : {"performance.tflops=fast", "performance.tflops=nan", "performance.speed=3", "version=v9",
                            "masked=true", "nothing", "quality_gate.result=MAYBE", "performance.tflops.x=1"}) {
    EXPECT_FALSE(memory_.update("v0", {wrong})) << wrong;
  }
}

TEST_F(MemoryTest, HidesMaskedRecordsFromEveryReader) {
  fill();
  ASSERT_TRUE(memory_.set_masked("v2", true));
  EXPECT_EQ(memory_.read("v2").error().code, ErrorCode::kConflict);
  EXPECT_TRUE(memory_.read("v2", true));
  EXPECT_FALSE(memory_.update("v2", {"performance.tflops=1"}));
  const auto listed = memory_.list();
  ASSERT_TRUE(listed);
  for (const record::Iteration& it : *listed) EXPECT_NE(it.version, "v2");
  EXPECT_EQ(memory_.list(true)->size(), 8u);
  EXPECT_EQ(*memory_.next_version(), "v8") << "the numbers go on above masked ones";
  ASSERT_TRUE(memory_.set_masked("v2", false));
  EXPECT_TRUE(memory_.read("v2"));
}

TEST_F(MemoryTest, NeverMasksTheBaselineOrTheBest) {
  fill();
  EXPECT_EQ(*memory_.best(), "v3");
  EXPECT_FALSE(memory_.set_masked("v0", true));
  EXPECT_FALSE(memory_.set_masked("v3", true));
}

TEST_F(MemoryTest, RestartsReproducibly) {
  fill();
  const auto first = memory_.restart(7, clock_);
  ASSERT_TRUE(first) << first.error().text();
  EXPECT_EQ(first->masked.size(), 4u) << "half of eight";
  EXPECT_EQ(first->next_version, "v8");
  for (const std::string& version : first->masked) EXPECT_TRUE(version != "v0" && version != "v3") << version;
  for (const std::string& version : first->masked) ASSERT_TRUE(memory_.set_masked(version, false));
  EXPECT_EQ(memory_.restart(7, clock_)->masked, first->masked);
  for (const std::string& version : first->masked) ASSERT_TRUE(memory_.set_masked(version, false));
  bool other = false;
  for (std::int64_t seed = 8; seed < 12; ++seed) {
    const auto entry = memory_.restart(seed, clock_);
    other |= entry->masked != first->masked;
    for (const std::string& version : entry->masked) ASSERT_TRUE(memory_.set_masked(version, false));
  }
  EXPECT_TRUE(other);
  EXPECT_THAT(*read_file(directory_.path() / "memory" / "restarts.jsonl"), HasSubstr("\"seed\":7"));
}

TEST_F(MemoryTest, ValidatesEveryFileAndNamesTheBadOnes) {
  fill();
  EXPECT_TRUE(memory_.validate()->empty());
  const auto folder = directory_.path() / "memory";
  ASSERT_TRUE(write_file_durably(folder / "v2abc.json", "{}"));
  ASSERT_TRUE(write_file_durably(folder / "v9.json", "{\"version\":\"v9\",\"masked\":\"maybe\"}"));
  ASSERT_TRUE(write_file_durably(folder / "v10.json", *read_file(folder / "v3.json")));
  const auto problems = memory_.validate();
  ASSERT_EQ(problems->size(), 3u) << testing::PrintToString(*problems);
  EXPECT_THAT((*problems)[0], HasSubstr("says it is v3"));
  EXPECT_THAT((*problems)[1], HasSubstr("v2abc.json"));
  EXPECT_THAT((*problems)[2], HasSubstr("v9"));
}

TEST_F(MemoryTest, GivesEachOfManyWritersItsOwnVersion) {
  std::vector<std::jthread> writers;
  for (int i = 0; i < 8; ++i) {
    writers.emplace_back([this] {
      VirtualClock clock;
      EXPECT_TRUE(memory_.create(passing(5), clock));
    });
  }
  writers.clear();
  EXPECT_EQ(memory_.list()->size(), 8u);
  EXPECT_EQ(*memory_.next_version(), "v8");
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "memory" / ".lock"));
}

// As other tools write a record.
constexpr const char* kForeign = R"({
  "version": "v1", "masked": false, "timestamp": null, "supervisor": {"episode": 7},
  "performance": {"latency_us": 12.5, "tflops": null, "bandwidth_gbps": null, "tflops_peak_utilization_pct": 43.5,
                  "bandwidth_peak_utilization_pct": 20, "comparison_with_previous": {"latency_delta": null}},
  "optimization": {"action_category": "swizzle", "action_description": "swizzle", "expected_impact": null},
  "profile_evidence": {"tool_used": "ncu", "bottleneck_type": "compute_bound", "kernel": "k"},
  "correctness": {"status": "PASS", "rel_err": null, "max_rel_err": 0.001},
  "isa_metric_progress": [{"metric": "spills", "target": 0, "current": null, "met": false}],
  "search_log": null, "open_directions": ["wider loads"],
  "quality_gate": {"result": "PASS", "failure_reason": null}, "git_commit_hash": 1234567})";

TEST_F(MemoryTest, TakesWhatOtherToolsWriteAndKeepsTheirKeys) {
  ASSERT_TRUE(memory_.create(passing(20), clock_));
  ASSERT_TRUE(write_file_durably(directory_.path() / "memory" / "v1.json", kForeign));
  const auto read = memory_.read("v1");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->performance.latency_us, 12.5);
  EXPECT_FALSE(read->performance.tflops);
  EXPECT_DOUBLE_EQ(*read->performance.compute_utilisation, 0.435);
  EXPECT_DOUBLE_EQ(*read->performance.memory_utilisation, 0.2);
  EXPECT_EQ(read->profile_evidence.bottleneck_type, record::Bottleneck::kCompute);
  EXPECT_EQ(read->correctness.rel_err, 0.001);
  EXPECT_TRUE(read->isa_metric_progress.empty());
  EXPECT_EQ(read->open_directions.at(0).direction, "wider loads");
  EXPECT_EQ(read->git_commit_hash, "1234567");
  EXPECT_EQ(*memory_.best(), "v1");
  EXPECT_TRUE(memory_.validate()->empty()) << testing::PrintToString(*memory_.validate());
  ASSERT_TRUE(memory_.update("v1", {"performance.latency_us=11"}));
  const Json written = *parse_json(*read_file(directory_.path() / "memory" / "v1.json"));
  EXPECT_EQ(written["supervisor"]["episode"], 7);
  EXPECT_EQ(written["performance"]["latency_us"], 11);
  EXPECT_EQ(written["performance"]["tflops_peak_utilization_pct"], 43.5);
  EXPECT_TRUE(written["performance"]["comparison_with_previous"].contains("latency_delta"));
  EXPECT_EQ(written["profile_evidence"]["kernel"], "k");
}

TEST_F(MemoryTest, AnUpdateTakesKeysOut) {
  ASSERT_TRUE(memory_.create(passing(20), clock_));
  ASSERT_TRUE(write_file_durably(directory_.path() / "memory" / "v1.json", kForeign));
  const auto performance = [&] {
    return (*parse_json(*read_file(directory_.path() / "memory" / "v1.json")))["performance"];
  };
  ASSERT_TRUE(memory_.update(
      "v1", {R"(performance.latency_us_by_shape={"M=1": 3, "M=2": 4})", "performance.speedup_over_previous=2"}));
  EXPECT_EQ(performance()["latency_us_by_shape"].size(), 2u);
  ASSERT_TRUE(memory_.update("v1", {R"(performance.latency_us_by_shape={"M=2": 5})"}));
  EXPECT_EQ(performance()["latency_us_by_shape"], Json({{"M=2", 5.0}}));
  ASSERT_TRUE(memory_.update("v1", {"performance.latency_us_by_shape={}"}));
  EXPECT_TRUE(memory_.read("v1")->performance.latency_us_by_shape.empty());
  EXPECT_TRUE(performance()["latency_us_by_shape"].empty()) << performance();
  EXPECT_EQ(performance()["tflops_peak_utilization_pct"], 43.5);
  // Without a number again: the record that is written lacks it, and the file as well.
  record::Iteration it = *memory_.read("v1");
  it.performance.speedup_over_previous.reset();
  const std::string text = record::iteration_text(it, *read_file(directory_.path() / "memory" / "v1.json"));
  EXPECT_EQ(text.find("speedup_over_previous"), std::string::npos) << text;
  EXPECT_NE(text.find("comparison_with_previous"), std::string::npos);
}

TEST_F(MemoryTest, SetsABadRecordAsideWithItsReason) {
  fill();
  const auto folder = directory_.path() / "memory";
  const auto replace = [](std::string text, const std::string& from, const std::string& to) {
    EXPECT_NE(text.find(from), std::string::npos) << from;
    return text.replace(text.find(from), from.size(), to);
  };
  const std::string foreign = replace(kForeign, "\"v1\"", "\"v9\"");
  ASSERT_TRUE(write_file_durably(folder / "v8.json", "{\"version\": \"v8\", \"perf"));
  ASSERT_TRUE(write_file_durably(folder / "v9.json", replace(foreign, "12.5", "-12.5")));
  ASSERT_TRUE(write_file_durably(folder / "v10.json", replace(replace(kForeign, "\"v1\"", "\"v10\""), "43.5", "4350")));
  ASSERT_TRUE(
      write_file_durably(folder / "v11.json", replace(replace(kForeign, "\"v1\"", "\"v11\""), "12.5", "\"fast\"")));
  ASSERT_TRUE(write_file_durably(folder / "v12.json", kForeign));
  const auto listed = memory_.list();
  ASSERT_TRUE(listed) << listed.error().text();
  EXPECT_EQ(listed->size(), 8u);
  EXPECT_EQ(*memory_.best(), "v3");
  const auto aside = memory_.set_aside();
  ASSERT_EQ(aside->size(), 5u) << testing::PrintToString(*aside);
  EXPECT_THAT((*aside)[0], HasSubstr("v8"));
  EXPECT_THAT((*aside)[1], HasSubstr("latency_us is -12.5"));
  EXPECT_THAT((*aside)[2], HasSubstr("compute_utilisation is 43.5"));
  EXPECT_THAT((*aside)[3], HasSubstr("latency_us: expected a number"));
  EXPECT_THAT((*aside)[4], HasSubstr("says it is v1"));
  EXPECT_EQ(*memory_.next_version(), "v13") << "its number is not given again";
  for (const char* const bad : {"v8", "v11"}) EXPECT_FALSE(memory_.read(bad)) << bad;
}

// A folder, a pipe or a file that may not be read is there: its record is set aside for what it is.
TEST_F(MemoryTest, WhatIsNoFileIsNotCalledMissing) {
  fill();
  const auto folder = directory_.path() / "memory";
  std::filesystem::create_directory(folder / "v20.json");
  ASSERT_EQ(::mkfifo((folder / "v21.json").c_str(), 0600), 0);
  std::filesystem::create_symlink("v22.json", folder / "v22.json");
  const auto aside = memory_.set_aside();
  ASSERT_EQ(aside->size(), 3u) << testing::PrintToString(*aside);
  EXPECT_THAT((*aside)[0], HasSubstr("v20.json is a folder"));
  EXPECT_THAT((*aside)[1], HasSubstr("v21.json is a named pipe"));
  EXPECT_THAT((*aside)[2], HasSubstr("v22.json"));
  for (const std::string& reason : *aside) EXPECT_EQ(reason.find("there is no"), std::string::npos) << reason;
  EXPECT_THAT(memory_.read("v20").error().hint, HasSubstr("move it"));
  EXPECT_THAT(memory_.read("v23").error().message, HasSubstr("there is no v23"));
}

TEST(Schema, SaysWhatTheReaderReads) {
  const Json schema = *parse_json(record::iteration_schema());
  EXPECT_EQ(schema["additionalProperties"], true);
  EXPECT_EQ(schema["properties"]["quality_gate"]["properties"]["result"]["enum"].size(), 6u);
  EXPECT_EQ(schema["properties"]["performance"]["properties"]["latency_us"]["type"], (Json{"number", "null"}));
  EXPECT_EQ(schema["properties"]["performance"]["properties"]["latency_us_by_shape"]["additionalProperties"]["type"],
            (Json{"number", "null"}));
  const auto required = schema["required"].get<std::vector<std::string>>();
  EXPECT_NE(std::find(required.begin(), required.end(), "version"), required.end());
  EXPECT_EQ(std::find(required.begin(), required.end(), "search_log"), required.end());
  for (const char* text : {"{}", "[]", "42", "{\"version\":\"v1\"}", "{\"version\":null}"})
    EXPECT_FALSE(record::read_iteration(text, "x")) << text;
}

}  // namespace
}  // namespace ridge::knowledge

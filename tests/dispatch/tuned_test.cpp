// Tuned tables: buckets, files, the guard against fast and wrong, agreement between ranks, and the measuring itself.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/files.h"
#include "device/cuda/backend.h"
#include "dispatch/launch.h"
#include "dispatch/own_cache.h"
#include "dispatch/probe.h"
#include "dispatch/tune.h"
#include "dispatch/tuned.h"
#include "numerics/convert.h"
#include "record/tuned_folder.h"
#include "ridge/ops/gemm.h"

namespace ridge::dispatch {
namespace {

using ::testing::HasSubstr;

// Of the whole program, whose first call reads the tables.
struct OwnCache {
  Result<TempDir> folder = TempDir::create("ridge-dispatch-test");
  CacheIn cache{folder->path().string()};
};
const OwnCache own_cache;  // NOLINT(cert-err58-cpp)

const ops::Operator& the_gemm() { return **ops::find_operator("gemm"); }

ops::Problem problem_of(const ops::Operator& op, const std::string& words) {
  const auto problem = op.bind(*record::parse_case("gemm " + words));
  EXPECT_TRUE(problem.ok()) << problem.error().text();
  return *problem;
}

// A copy of gemm whose first implementation is fast and wrong: it drops one term in a thousand of every sum.
const ops::Operator& broken_gemm() {
  static const std::vector<ops::Operator>* const list = [] {
    ops::Operator op = the_gemm();
    op.name = "broken_gemm";
    op.bind = [](const record::Case& wanted) -> Result<ops::Problem> {
      auto problem = the_gemm().bind(wanted);
      if (problem) problem->problem_case.op = "broken_gemm";
      return problem;
    };
    ops::Implementation wrong = **ops::find_implementation(the_gemm(), "cpu_simd");
    wrong.name = "cpu_broken";
    wrong.run = [run = wrong.run](const ops::Problem& problem, std::span<const TensorView> operands,
                                  const Stream& stream) -> Status {
      const Status ran = run(problem, operands, stream);
      const TensorView& c = operands.back();
      for (std::int64_t e = 0; e < c.element_count(); ++e) {
        numerics::store_element(c, e, numerics::load_element(c, e) * 0.999);
      }
      return ran;
    };
    op.implementations.insert(op.implementations.begin(), wrong);
    return new std::vector<ops::Operator>{std::move(op)};
  }();
  ops::add_operators(*list);
  return list->front();
}

record::TunedChoice choice_for(const ops::Operator& op, const std::string& words, const std::string& implementation) {
  record::TunedChoice choice;
  choice.device = ops::device_info(Stream::cpu()).name;
  choice.libraries = library_versions(op, Backend::kCpu);
  choice.bucket = bucket_of(op, problem_of(op, words));
  choice.implementation = implementation;
  choice.over = "cpu_simd";
  choice.ratio = 1.25;
  return choice;
}

std::shared_ptr<TunedTable> table_of(const record::TunedChoice& choice) {
  auto table = std::make_shared<TunedTable>();
  table->add(choice);
  return table;
}

class Tuned : public ::testing::Test {
 protected:
  void TearDown() override {
    set_preference(nullptr);
    agree_with(nullptr);
    on_fallback(nullptr);
    unforce("gemm");
  }
  // Which implementation dispatch takes.
  static std::string taken(const ops::Operator& op, const std::string& words) {
    const auto chosen = choose(op, problem_of(op, words), Stream::cpu());
    return chosen ? chosen->name() : chosen.error().text();
  }
};

TEST_F(Tuned, BucketsRoundSizesAndKeepTheRest) {
  const auto bucket = [](const std::string& words) {
    return bucket_of(the_gemm(), problem_of(the_gemm(), words)).text();
  };
  EXPECT_THAT(bucket("m=1000 n=1300 k=1600 dtype=bf16 layout=nt"),
              HasSubstr("gemm m=1024 n=1536 k=1536 dtype=bf16 out=same layout=nt"));
  EXPECT_EQ(bucket("m=1000 n=700 k=0"), bucket("m=1024 n=768 k=0"));
  EXPECT_NE(bucket("m=1024 n=64 k=64"), bucket("m=1536 n=64 k=64"));
  EXPECT_NE(bucket("m=64 n=64 k=64"), bucket("m=64 n=64 k=64 accumulate=1"));
  for (std::int64_t size = 1; size < 5000; ++size) {
    const std::string words = fmt::format("m={} n=1 k=1", size);
    const double rounded = std::stod(bucket_of(the_gemm(), problem_of(the_gemm(), words)).get("m"));
    EXPECT_LT(std::abs(std::log(rounded / static_cast<double>(size))), std::log(1.29)) << size;
  }
}

TEST_F(Tuned, DispatchPrefersWhatTheTableNamesForTheBucket) {
  set_preference(preference_of(table_of(choice_for(the_gemm(), "m=32 n=32 k=32", "reference"))));
  EXPECT_EQ(taken(the_gemm(), "m=33 n=31 k=32"), "reference");
  EXPECT_EQ(taken(the_gemm(), "m=64 n=32 k=32"), "cpu_simd") << "another bucket";
  EXPECT_EQ(taken(the_gemm(), "m=32 n=32 k=32 dtype=f16"), "cpu_simd");
  ASSERT_TRUE(force("gemm", "cpu_simd"));
  EXPECT_EQ(taken(the_gemm(), "m=32 n=32 k=32"), "cpu_simd") << "force goes before tables";
}

TEST_F(Tuned, TablesThatTravelInsideTheLibraryCountAndTheUsersGoBeforeThem) {
  const record::TunedChoice choice = choice_for(the_gemm(), "m=32 n=32 k=32", "reference");
  const std::string line = record::tuned_line(choice);
  const EmbeddedFile files[] = {{"README.md", "# not a table"}, {"this-machine.jsonl", line}};
  auto table = std::make_shared<TunedTable>();
  ASSERT_TRUE(table->add_files(files));
  EXPECT_EQ(table->size(), 1u);
  set_preference(preference_of(table));
  EXPECT_EQ(taken(the_gemm(), "m=32 n=32 k=32"), "reference");
  auto overruled = std::make_shared<TunedTable>(*table);
  overruled->add(choice_for(the_gemm(), "m=32 n=32 k=32", "cpu_simd"));
  set_preference(preference_of(overruled));
  EXPECT_EQ(taken(the_gemm(), "m=32 n=32 k=32"), "cpu_simd");
  const EmbeddedFile broken[] = {{"broken.jsonl", "{"}};
  const Status refused = TunedTable().add_files(broken);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("broken.jsonl, line 1"));
}

TEST_F(Tuned, WhatShipsIsReadable) {
  TunedTable table;
  const Status read = table.add_files(shipped_tables());
  EXPECT_TRUE(read.ok()) << read.error().text();
}

TEST_F(Tuned, LinesOfOtherDevicesAndVersionsDoNotCount) {
  record::TunedChoice elsewhere = choice_for(the_gemm(), "m=32 n=32 k=32", "reference");
  elsewhere.device = "another processor";
  set_preference(preference_of(table_of(elsewhere)));
  EXPECT_EQ(taken(the_gemm(), "m=32 n=32 k=32"), "cpu_simd");
  record::TunedChoice older = choice_for(the_gemm(), "m=32 n=32 k=32", "reference");
  older.libraries = "an older OpenBLAS";
  set_preference(preference_of(table_of(older)));
  EXPECT_EQ(taken(the_gemm(), "m=32 n=32 k=32"), "cpu_simd");
}

TEST_F(Tuned, AChoiceThatIsFastAndWrongIsRefusedAndReported) {
  const ops::Operator& op = broken_gemm();
  std::vector<std::string> said;
  on_fallback([&](std::string_view line) { said.emplace_back(line); });
  set_preference(preference_of(table_of(choice_for(op, "m=32 n=32 k=32", "cpu_broken"))));
  EXPECT_EQ(taken(op, "m=32 n=32 k=32"), "cpu_simd");
  ASSERT_FALSE(said.empty());
  EXPECT_THAT(said.front(),
              HasSubstr("cpu_broken: tuned, but refused: its results leave the error model: broken_gemm m=32"));
  EXPECT_THAT(said.front(), HasSubstr("+-"));
  record::Case wanted = problem_of(op, "m=32 n=32 k=32").problem_case;
  const auto explanation = explain(wanted, Stream::cpu());
  ASSERT_TRUE(explanation) << explanation.error().text();
  EXPECT_EQ(explanation->rows[0].implementation, "cpu_broken");
  EXPECT_FALSE(explanation->rows[0].supported);
  EXPECT_THAT(explanation->rows[0].reason, HasSubstr("its results leave the error model"));
}

TEST_F(Tuned, ProbesPassEveryImplementationOfOurs) {
  for (const ops::Operator* op : ops::operators()) {
    if (op->name == "broken_gemm") continue;
    const ops::Problem problem = *op->bind([&] {
      record::Case defaults;
      defaults.op = op->name;
      return defaults;
    }());
    for (const ops::Implementation& one : op->implementations) {
      if (one.backend != Backend::kCpu || ops::why_not(one, problem, ops::device_info(Stream::cpu()))) continue;
      EXPECT_EQ(probe(*op, one, problem, Stream::cpu()).value_or(""), "") << op->name << " " << one.name;
    }
  }
}

TEST_F(Tuned, TuningNeverLetsAWrongOneWin) {
  const ops::Operator& op = broken_gemm();
  TuneOptions quick;
  quick.rounds = 3;
  const auto choice = Tuner(op, Stream::cpu()).tune(problem_of(op, "m=48 n=48 k=48"), quick);
  ASSERT_TRUE(choice) << choice.error().text();
  EXPECT_NE(choice->implementation, "cpu_broken");
  ASSERT_EQ(choice->refused.size(), 1u);
  EXPECT_THAT(choice->refused[0], HasSubstr("cpu_broken: broken_gemm"));
  EXPECT_GE(choice->ratio, 1.0);
  EXPECT_EQ(choice->rounds, 3);
  EXPECT_EQ(choice->bucket.get("m"), "48");
}

TEST_F(Tuned, TuningWithoutAGpuSaysWhatIsMissing) {
  if (ops::device_info(Stream::cuda(nullptr)).missing.empty()) GTEST_SKIP() << "this machine has a GPU";
  const auto choice =
      Tuner(the_gemm(), Stream::cuda(nullptr)).tune(problem_of(the_gemm(), "m=8 n=8 k=8"), TuneOptions());
  ASSERT_FALSE(choice);
  EXPECT_THAT(choice.error().text(),
              HasSubstr(device::cuda::is_built_in() ? "nothing can run it on cuda: no CUDA driver"
                                                    : "nothing can run it on cuda: this build has no CUDA backend"));
}

TEST_F(Tuned, TablesSurviveOnDiskAndTheLastLineOfABucketWins) {
  const auto folder = TempDir::create("ridge-tuned");
  ASSERT_TRUE(folder);
  record::TunedChoice choice = choice_for(the_gemm(), "m=32 n=32 k=32", "reference");
  choice.refused = {"cpu_x: element 3 of c is 1, not 2 +- 0.1"};
  ASSERT_TRUE(record::keep_tuned({choice}, folder->path()));
  ASSERT_TRUE(record::keep_tuned({choice_for(the_gemm(), "m=64 n=32 k=32", "cpu_blis")}, folder->path()));
  choice.implementation = "cpu_openblas";
  ASSERT_TRUE(record::keep_tuned({choice}, folder->path()));
  TunedTable table;
  ASSERT_TRUE(table.add_folder(folder->path() / "tuned"));
  EXPECT_EQ(table.size(), 2u);
  const record::TunedChoice* found =
      table.find(the_gemm(), problem_of(the_gemm(), "m=31 n=32 k=33"), ops::device_info(Stream::cpu()));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->implementation, "cpu_openblas");
  EXPECT_EQ(found->refused, choice.refused);
  EXPECT_TRUE(TunedTable().add_folder(folder->path() / "nothing here"));
}

TEST_F(Tuned, ALineThatCannotBeReadIsAnErrorWithItsPlace) {
  const std::string good = record::tuned_line(choice_for(the_gemm(), "m=32 n=32 k=32", "reference"));
  EXPECT_EQ(record::parse_tuned(good + "\n" + good, "t.jsonl")->size(), 2u);
  const auto torn = record::parse_tuned(good + good.substr(0, good.size() / 2), "t.jsonl");
  ASSERT_FALSE(torn);
  EXPECT_THAT(torn.error().text(), HasSubstr("t.jsonl, line 2"));
  record::TunedChoice newer = choice_for(the_gemm(), "m=32 n=32 k=32", "reference");
  newer.version = 2;
  EXPECT_THAT(record::parse_tuned(record::tuned_line(newer), "t.jsonl").error().text(),
              HasSubstr("t.jsonl, line 1: version 2, this program reads version 1"));
}

TEST_F(Tuned, RanksAgreeAndOneThatCannotFollowSaysSo) {
  std::vector<std::string> asked;
  std::string answer = "reference";
  agree_with([&](std::string_view words, std::string_view own) {
    asked.push_back(fmt::format("{} -> {}", words, own));
    return answer;
  });
  EXPECT_EQ(taken(the_gemm(), "m=8 n=8 k=8"), "reference");
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_THAT(asked[0], HasSubstr("gemm m=8 n=8 k=8"));
  EXPECT_THAT(asked[0], HasSubstr("-> cpu_simd"));
  answer = "cuda_reference";
  EXPECT_THAT(taken(the_gemm(), "m=8 n=8 k=8"),
              HasSubstr(device::cuda::is_built_in()
                            ? "the ranks agreed on cuda_reference, which cannot run here: runs on cuda"
                            : "gemm has no implementation \"cuda_reference\": this build has no CUDA backend"));
  ASSERT_TRUE(force("gemm", "cpu_simd"));
  EXPECT_EQ(taken(the_gemm(), "m=8 n=8 k=8"), "cpu_simd") << "what is forced is not put to the vote";
}

}  // namespace
}  // namespace ridge::dispatch

// Configurations: tables, forces and ranks may name one, tuning compares them, and one that does not fit is left alone.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>

#include "base/files.h"
#include "dispatch/choose.h"
#include "dispatch/launch.h"
#include "dispatch/own_cache.h"
#include "dispatch/tune.h"
#include "dispatch/tuned.h"
#include "record/tuning_store_folder.h"

namespace ridge::dispatch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What the made-up operator's implementations were asked to do.
struct Seen {
  std::vector<int> configurations;  // of every call of cpu_tiled
  int slow_calls = 0;
  std::string version = "1";
} seen;

void spin(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) continue;
}

// One output of n ones. "cpu_tiled" has three configurations: "odd" fits odd n only, "slow" takes its time, and "wrong"
// is fast and writes twos. "cpu_slow" is hopeless.
std::vector<ops::Implementation> tiled_implementations() {
  const auto write = [](std::span<const TensorView> operands, float value) {
    for (std::int64_t i = 0; i < operands[0].element_count(); ++i) static_cast<float*>(operands[0].data)[i] = value;
    return ok_status();
  };
  ops::Implementation tiled;
  tiled.name = "cpu_tiled";
  tiled.configurations = {"slow", "odd", "wrong", "plain"};
  tiled.promising = [](const ops::Problem& problem, const ops::DeviceInfo&) {
    return problem.values[0] % 2 == 0 ? std::vector<int>{0, 2, 3} : std::vector<int>{0, 1, 2, 3};
  };
  tiled.version = [] { return "/somewhere/else tiles " + seen.version; };
  tiled.run = [write](const ops::Problem& problem, std::span<const TensorView> operands, const Stream&) {
    seen.configurations.push_back(problem.configuration);
    if (problem.configuration <= 0) spin(200e-6);
    return write(operands, problem.configuration == 2 ? 2.0f : 1.0f);
  };
  ops::Implementation slow;
  slow.name = "cpu_slow";
  slow.rank = 1;
  slow.run = [write](const ops::Problem&, std::span<const TensorView> operands, const Stream&) {
    ++seen.slow_calls;
    spin(25e-3);
    return write(operands, 1.0f);
  };
  for (ops::Implementation* one : {&tiled, &slow}) {
    one->supports = [](const ops::Problem&, const ops::DeviceInfo&) { return ops::Refusal(); };
  }
  return {tiled, slow};
}

const ops::Operator& tiled_operator() {
  static const std::vector<ops::Operator>* const list = [] {
    ops::Operator op;
    op.name = "tiled";
    op.summary = "for this test";
    op.params = {{"n", "1", "", {}}, {"kind", "a", "", {"a", "b"}}};
    op.bind = [params = op.params](const record::Case& wanted) -> Result<ops::Problem> {
      RIDGE_TRY(problem, ops::bind_params("tiled", params, wanted));
      problem.operands = {{"y", DType::kF32, {problem.values[0]}, true, false}};
      return problem;
    };
    op.cost = [](const ops::Problem& problem) {
      return record::Cost{static_cast<double>(problem.values[0]), 4.0 * static_cast<double>(problem.values[0])};
    };
    op.reference = [](const ops::Problem& problem, std::span<const TensorView>) {
      const auto n = static_cast<std::size_t>(problem.values[0]);
      ops::ReferenceOutput ones{std::vector<double>(n, 1), std::vector<double>(n, 1e-6), std::vector<double>(n, 1e-14)};
      return Result<std::vector<ops::ReferenceOutput>>(std::vector{ones});
    };
    return new std::vector<ops::Operator>{ops::assemble(std::move(op), tiled_implementations())};
  }();
  ops::add_operators(*list);
  return list->front();
}

// An operator whose kernel has sixteen configurations, of which the one at `fastest` takes a twentieth of the others'
// time, "c13" is as fast and wrong, and no cost model says so.
struct Many {
  int fastest = 11;
  std::vector<int> looked;  // every configuration that was called, once
} many;

const ops::Operator& many_operator() {
  static const std::vector<ops::Operator>* const list = [] {
    ops::Implementation one;
    one.name = "cpu_many";
    for (int i = 0; i < 16; ++i) one.configurations.push_back(fmt::format("c{}", i));
    one.promising = [](const ops::Problem&, const ops::DeviceInfo&) {
      std::vector<int> all(16);
      std::iota(all.begin(), all.end(), 0);
      return all;
    };
    one.version = [] { return "1"; };
    one.run = [](const ops::Problem& problem, std::span<const TensorView> operands, const Stream&) {
      const int which = std::max(problem.configuration, 0);
      if (std::ranges::find(many.looked, which) == many.looked.end()) many.looked.push_back(which);
      spin(which == many.fastest || which == 13 ? 20e-6 : 400e-6);
      for (std::int64_t i = 0; i < operands[0].element_count(); ++i) {
        static_cast<float*>(operands[0].data)[i] = which == 13 ? 2 : 1;
      }
      return ok_status();
    };
    one.supports = [](const ops::Problem&, const ops::DeviceInfo&) { return ops::Refusal(); };
    ops::Operator op = tiled_operator();
    op.name = "many";
    op.bind = [params = op.params](const record::Case& wanted) -> Result<ops::Problem> {
      RIDGE_TRY(problem, ops::bind_params("many", params, wanted));
      problem.operands = {{"y", DType::kF32, {problem.values[0]}, true, false}};
      return problem;
    };
    op.implementations.clear();
    return new std::vector<ops::Operator>{ops::assemble(std::move(op), {one})};
  }();
  ops::add_operators(*list);
  return list->front();
}

ops::Problem many_problem(std::int64_t n) {
  return *many_operator().bind(*record::parse_case(fmt::format("many n={}", n)));
}

ops::Problem tiled_problem(std::int64_t n, const std::string& kind = "a") {
  return *tiled_operator().bind(*record::parse_case(fmt::format("tiled n={} kind={}", n, kind)));
}

record::TunedChoice line_for(std::int64_t n, const std::string& configuration) {
  record::TunedChoice choice;
  choice.device = ops::device_info(Stream::cpu()).name;
  choice.libraries = library_versions(tiled_operator(), Backend::kCpu);
  choice.bucket = bucket_of(tiled_operator(), tiled_problem(n));
  choice.implementation = "cpu_tiled";
  choice.configuration = configuration;
  choice.over = "cpu_tiled";
  choice.ratio = 1.25;
  choice.latency = 2e-6;
  return choice;
}

void prefer(const record::TunedChoice& line) {
  auto table = std::make_shared<TunedTable>();
  table->add(line);
  set_preference(preference_of(table));
}

class Configurations : public ::testing::Test {
 protected:
  void SetUp() override {
    tiled_operator();  // forcing names an operator that is there
    seen = {};
  }
  void TearDown() override {
    ::unsetenv("RIDGE_TILED_BACKEND");
    reload_environment();
    set_preference(nullptr);
    agree_with(nullptr);
    on_fallback(nullptr);
    unforce("tiled");
    autotune(false);
  }
  static std::string taken(std::int64_t n) {
    const auto chosen = choose(tiled_operator(), tiled_problem(n), Stream::cpu());
    return chosen ? chosen->name() : chosen.error().text();
  }
  static std::string reason(std::int64_t n) {
    const auto explanation = explain(tiled_problem(n).problem_case, Stream::cpu());
    for (const record::ExplainRow& row : explanation->rows) {
      if (row.chosen) return row.reason;
    }
    return "nothing";
  }
  static Status call(std::int64_t n) {
    std::vector<float> y(static_cast<std::size_t>(n));
    ops::Call one;
    one.values = {n, 0};
    one.operands.push_back(TensorView::contiguous(y.data(), DType::kF32, {n}));
    return launch(tiled_operator(), one, Stream::cpu());
  }
};

TEST_F(Configurations, ATableThatNamesOneDecidesWhatRuns) {
  ASSERT_TRUE(call(3).ok());
  EXPECT_THAT(seen.configurations, ElementsAre(-1));
  prefer(line_for(3, "odd"));
  EXPECT_EQ(taken(3), "cpu_tiled/odd");
  seen.configurations.clear();
  ASSERT_TRUE(call(3).ok());
  EXPECT_EQ(seen.configurations.back(), 1);
  EXPECT_EQ(last_used("tiled"), "cpu_tiled");
  EXPECT_THAT(reason(3), HasSubstr("2 us a call when tuned, 1.250 times as fast as cpu_tiled"));
  EXPECT_THAT(reason(3), HasSubstr("in configuration odd"));
}

TEST_F(Configurations, OneThatDoesNotFitLeavesTheChoiceToTheImplementation) {
  prefer(line_for(1024, "odd"));
  EXPECT_EQ(taken(1024), "cpu_tiled");
  EXPECT_THAT(reason(1024), HasSubstr("configuration odd does not fit this call; those that do: slow, wrong, plain"));
  EXPECT_THAT(reason(1024), HasSubstr("by its own choice configuration slow"));
  EXPECT_EQ(taken(1023), "cpu_tiled/odd") << "another size of the same bucket";
}

TEST_F(Configurations, OnlyTheVersionOfWhatALineNamesMakesItVoid) {
  record::TunedChoice line = line_for(3, "odd");
  EXPECT_THAT(line.libraries, HasSubstr("cpu_tiled tiles 1; cpu_slow")) << "without the path";
  line.libraries = "cpu_tiled tiles 1; cpu_slow 77";
  prefer(line);
  EXPECT_EQ(taken(3), "cpu_tiled/odd");
  EXPECT_FALSE(is_fresh(line, tiled_operator(), ops::device_info(Stream::cpu()), {})) << "ridge tune measures again";
  seen.version = "2";
  EXPECT_EQ(taken(3), "cpu_tiled");
}

TEST_F(Configurations, AnotherDriverIsToldAndMeasuredAgainButKeepsTheLine) {
  record::TunedChoice line = line_for(3, "odd");
  EXPECT_TRUE(is_fresh(line, tiled_operator(), ops::device_info(Stream::cpu()), {}));
  line.driver = "CUDA 1.0";
  EXPECT_FALSE(is_fresh(line, tiled_operator(), ops::device_info(Stream::cpu()), {}));
  prefer(line);
  EXPECT_EQ(taken(3), "cpu_tiled/odd");
  EXPECT_THAT(reason(3), HasSubstr("under driver CUDA 1.0, now"));
}

TEST_F(Configurations, OtherLimitsOfTheDeviceAreToldAndMeasuredAgain) {
  record::TunedChoice line = line_for(3, "odd");
  line.limits = "700 W, 1980 MHz";
  const auto fresh = [&](std::string_view now) {
    return is_fresh(line, tiled_operator(), ops::device_info(Stream::cpu()), now);
  };
  EXPECT_TRUE(fresh("700 W, 1980 MHz"));
  EXPECT_FALSE(fresh("500 W, 1980 MHz"));
  EXPECT_FALSE(fresh(""));
  prefer(line);
  EXPECT_EQ(taken(3), "cpu_tiled/odd");
  EXPECT_THAT(reason(3), HasSubstr("at 700 W, 1980 MHz"));
}

TEST_F(Configurations, CodeAndEnvironmentMayForceOne) {
  ASSERT_TRUE(force("tiled", "cpu_tiled/plain"));
  EXPECT_EQ(taken(4), "cpu_tiled/plain");
  ASSERT_TRUE(call(4).ok());
  EXPECT_EQ(seen.configurations.back(), 3);
  ASSERT_TRUE(force("tiled", "cpu_tiled/odd"));
  EXPECT_THAT(taken(4),
              HasSubstr("cpu_tiled/odd is forced by code but cannot run tiled n=4 kind=a: configuration odd"));
  const Status unknown = force("tiled", "cpu_tiled/huge");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().text(), HasSubstr("it has slow, odd, wrong, plain"));
  unforce("tiled");
  ::setenv("RIDGE_TILED_BACKEND", "cpu_tiled/odd", 1);
  reload_environment();
  EXPECT_EQ(taken(5), "cpu_tiled/odd");
  EXPECT_THAT(reason(5), HasSubstr("forced by environment RIDGE_TILED_BACKEND"));
}

TEST_F(Configurations, RanksAgreeOnOne) {
  agree_with([](std::string_view, std::string_view own) { return own == "cpu_tiled" ? "cpu_tiled/odd" : "?"; });
  EXPECT_EQ(taken(3), "cpu_tiled/odd");
  EXPECT_THAT(taken(4), HasSubstr("the ranks agreed on cpu_tiled/odd, which cannot run here: configuration odd"));
}

TEST_F(Configurations, TuningComparesThemRefusesTheWrongAndForgetsTheHopeless) {
  Tuner tuner(tiled_operator(), Stream::cpu());
  TuneOptions options;
  options.rounds = 3;
  const auto small = tuner.tune(tiled_problem(256), options);
  ASSERT_TRUE(small) << small.error().text();
  EXPECT_EQ(small->implementation, "cpu_tiled");
  EXPECT_EQ(small->configuration, "plain");
  EXPECT_EQ(small->over, "cpu_tiled");
  EXPECT_GT(small->ratio, 3);
  EXPECT_GT(small->latency, 0);
  ASSERT_EQ(small->refused.size(), 1u);
  EXPECT_THAT(small->refused[0], HasSubstr("cpu_tiled/wrong: tiled n=256 kind=a: element 0 of y is 2, not 1"));
  const int calls = seen.slow_calls;
  EXPECT_GT(calls, 0);
  ASSERT_TRUE(tuner.tune(tiled_problem(4096), options));
  EXPECT_EQ(seen.slow_calls, calls) << "it was hopeless on a smaller case of the kind";
  ASSERT_TRUE(tuner.tune(tiled_problem(4096, "b"), options));
  EXPECT_GT(seen.slow_calls, calls) << "another kind is another question";
}

TEST_F(Configurations, TheEnvironmentAsksForTuningAndWhatIsForcedStays) {
  const auto folder = TempDir::create("ridge-autotune");
  ASSERT_TRUE(folder);
  const CacheIn own(folder->path().string());
  ::setenv("RIDGE_TILED_BACKEND", "autotune", 1);
  reload_environment();
  ASSERT_TRUE(call(48).ok());
  EXPECT_EQ(seen.configurations.back(), 3) << "the first call runs what was measured before it";
  EXPECT_EQ(taken(48), "cpu_tiled/plain");
  TunedTable table;
  ASSERT_TRUE(table.add_folder(folder->path() / "tuned"));
  EXPECT_EQ(table.size(), 1u);
  const std::size_t calls = seen.configurations.size();
  ASSERT_TRUE(call(49).ok());
  EXPECT_EQ(seen.configurations.size(), calls + 1) << "the bucket is known";
  ASSERT_TRUE(force("tiled", "cpu_tiled"));
  ASSERT_TRUE(call(512).ok());
  EXPECT_EQ(seen.configurations.size(), calls + 2) << "what is forced is not measured";
}

TEST_F(Configurations, OfManyTheSearchLooksAtSomeAndKeepsWhatItMeasuredForLaterCases) {
  const auto folder = TempDir::create("ridge-tune-search");
  ASSERT_TRUE(folder);
  TuneOptions options;
  options.rounds = 3;
  options.seconds = 20;
  many = {};
  // Whether the first case finds the one that is fast is luck; over cases what was measured adds up.
  std::optional<record::TunedChoice> found;
  std::vector<std::size_t> looks;
  for (const std::int64_t n : {64, 96, 128, 192}) {
    many.looked.clear();
    const auto choice = Tuner(many_operator(), Stream::cpu(), folder->path()).tune(many_problem(n), options);
    ASSERT_TRUE(choice) << choice.error().text();
    looks.push_back(many.looked.size());
    EXPECT_LE(many.looked.size(), options.configurations) << n;
    EXPECT_NE(choice->configuration, "c13") << "fast and wrong";
    if (choice->configuration == "c11") found = *choice;
  }
  ASSERT_TRUE(found) << "four cases of eight looks each at sixteen configurations";
  EXPECT_GT(found->ratio, 5);

  // Another case: what was fast on the others is looked at at once.
  many.looked.clear();
  const auto again = Tuner(many_operator(), Stream::cpu(), folder->path()).tune(many_problem(256), options);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->configuration, "c11");
  ASSERT_GE(many.looked.size(), 2u);
  EXPECT_EQ(many.looked[0], 0) << "its own choice";
  EXPECT_EQ(many.looked[1], 11);

  const auto stored = record::stored_measurements(folder->path(), "many cpu_many");
  ASSERT_TRUE(stored) << stored.error().text();
  std::size_t fast = 0, wrong = 0;
  for (const record::StoredMeasurement& one : *stored) {
    EXPECT_EQ(one.device, ops::device_info(Stream::cpu()).name);
    EXPECT_EQ(one.origin, "ridge tune");
    EXPECT_EQ(one.compiler, "1");
    if (one.configuration.at("configuration") == "c13") wrong += one.seconds ? 0 : 1;
    if (one.problem == "n=256 kind=a" && one.seconds && *one.seconds < 200e-6) ++fast;
  }
  EXPECT_EQ(fast, 1u);
  EXPECT_EQ(stored->size(), std::accumulate(looks.begin(), looks.end(), many.looked.size()));
  EXPECT_LE(wrong, 5u);
}

TEST_F(Configurations, APastThatMisleadsIsOverruled) {
  const auto folder = TempDir::create("ridge-tune-misled");
  ASSERT_TRUE(folder);
  std::vector<record::StoredMeasurement> past;
  for (int i = 0; i < 16; ++i) {
    record::StoredMeasurement& one = past.emplace_back();
    one.kernel = "many cpu_many";
    one.device = "another";
    one.problem = "n=64 kind=a";
    one.configuration = {{"configuration", fmt::format("c{}", i)}};
    one.seconds = i == 5 ? 1e-3 : i == 11 ? 3e-3 : 2e-3;  // the fastest here was the slowest there
  }
  ASSERT_TRUE(record::store_measurements(folder->path(), past));
  TuneOptions options;
  options.rounds = 3;
  options.seconds = 20;
  options.configurations = 15;  // fewer than there are, so that it searches
  many = {};
  const auto choice = Tuner(many_operator(), Stream::cpu(), folder->path()).tune(many_problem(64), options);
  ASSERT_TRUE(choice) << choice.error().text();
  ASSERT_GE(many.looked.size(), 2u);
  EXPECT_EQ(many.looked[1], 5) << "what was promised";
  EXPECT_NE(choice->configuration, "c5") << "and not kept, for it is no faster";
}

TEST_F(Configurations, AStoreThatCannotBeReadOrWrittenIsToldAndCostsNoChoice) {
  const auto folder = TempDir::create("ridge-tune-store");
  ASSERT_TRUE(folder);
  ASSERT_TRUE(write_file_durably(folder->path() / "measurements", "a file where the folder should be\n"));
  std::vector<std::string> told;
  on_fallback([&](std::string_view message) { told.emplace_back(message); });
  many = {};
  TuneOptions options;
  options.rounds = 2;
  ASSERT_TRUE(Tuner(many_operator(), Stream::cpu(), folder->path()).tune(many_problem(48), options));
  EXPECT_THAT(told, testing::Contains(HasSubstr("what was measured is not kept for later")));
}

// Scripted times instead of a device.
struct Script {
  std::vector<double> times;
  std::vector<std::int64_t> asked;
  std::vector<std::size_t> order = {};
  Ranking run(const TuneOptions& options) {
    asked.assign(times.size(), 0);
    return rank(
        times.size(),
        [this](std::size_t i, std::int64_t calls) {
          asked[i] += calls;
          order.push_back(i);
          return times[i] > 0 ? std::optional(times[i]) : std::nullopt;
        },
        options);
  }
};

TEST(Rank, TakesTheFastestOnlyWhenItBeatsTheFirstByTheMargin) {
  TuneOptions options;
  options.rounds = 4;
  Script close{{1.00, 0.98, 1.01}, {}};
  EXPECT_EQ(close.run(options).best, 0u);
  options.margin = 0.01;
  const Ranking found = close.run(options);
  EXPECT_EQ(found.best, 1u);
  EXPECT_NEAR(std::exp(found.gain), 1 / 0.98, 1e-9);
  EXPECT_EQ(found.latencies.at(1), 0.98);
  EXPECT_EQ(found.rounds, 4);
}

TEST(Rank, CallsTheHopelessNoMoreAndTheBeatenOneRound) {
  TuneOptions options = options_for(Backend::kCuda);
  Script script{{1e-3, 50e-3, 1.25e-3, 1.05e-3}, {}};
  const Ranking found = script.run(options);
  EXPECT_EQ(found.best, 0u);
  EXPECT_THAT(found.hopeless, ElementsAre(false, true, false, false));
  EXPECT_EQ(script.asked[1], 2) << "once, and once more in case the first set something up";
  EXPECT_EQ(script.asked[2], 1 + 2 * 2) << "one round of two blocks of 3 ms";
  EXPECT_EQ(script.asked[3], 1 + options.rounds * 2 * 3);
}

TEST(Rank, ASeedFixesWhoTakesTurnsWhen) {
  const auto order = [](std::uint64_t seed) {
    TuneOptions options;
    options.seed = seed;
    Script script{{1.0, 1.0, 1.0, 1.0}, {}};
    script.run(options);
    return script.order;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(Rank, GoesOnWithoutOneThatFailsAndSaysWhenTheFirstDoes) {
  TuneOptions options;
  Script script{{1.0, 0.0, 0.5}, {}};
  EXPECT_EQ(script.run(options).best, 2u);
  script.times = {0.0, 1.0};
  EXPECT_TRUE(script.run(options).first_failed);
}

}  // namespace
}  // namespace ridge::dispatch

// Use cases without a command line: a request in, a record out, errors with the way out, cancellation.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "front.h"
#include "record/kernel_start.h"
#include "service/audit.h"
#include "service/bench.h"
#include "service/campaigns.h"
#include "service/candidate_file.h"
#include "service/check.h"
#include "service/duration.h"
#include "service/library.h"
#include "service/look.h"
#include "service/spec.h"
#include "service/tips.h"
#include "service/tune_store.h"
#include "service/worker_call.h"

namespace ridge::service::test {
namespace {

using record::WorkerTask;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(Duration, IsReadAsAPersonWritesIt) {
  EXPECT_EQ(*parse_duration("90s"), 90);
  EXPECT_EQ(*parse_duration("1h30m"), 5400);
  for (const char* const wrong : {"", "5", "m", "-5m", "0s", "5 m", "1d"}) {
    const Result<double> refused = parse_duration(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_THAT(refused.error().hint, HasSubstr("1h30m"));
  }
}

TEST(AskWorker, TellsItsProgressAndThatItIsOver) {
  Front front;
  const auto operators = list_operators(front.context);
  ASSERT_TRUE(operators) << operators.error().text();
  EXPECT_EQ(operators->front().name, "gemm");
  ASSERT_EQ(front.progress.size(), 1u);
  EXPECT_EQ(front.settled, 1);
  EXPECT_EQ(front.worker.requests().back().cache_directory, (front.path() / "cache").string());
}

TEST(Ceilings, AreKeptForADeviceAndItsLimits) {
  Front front;
  std::map<std::string, std::string> facts = {{"gpu.name", "NVIDIA H200"}, {"gpu.power_limit_watts", "700"}};
  front.worker.on(WorkerTask::kDescribe, [&](const record::WorkerRequest&) {
    record::WorkerResponse described;
    described.environment = record::Environment{facts};
    return Result<record::WorkerResponse>(described);
  });
  int measured = 0;
  front.worker.on(WorkerTask::kCeilings, [&](const record::WorkerRequest&) {
    record::WorkerResponse response;
    response.ceilings = {{"bandwidth", "B/s", 1, 1e9 * ++measured, {1e9}, "test"}};
    return Result<record::WorkerResponse>(response);
  });
  const auto known = [&] { return known_ceilings(front.context, {.backend = "cuda"})->front().value; };
  EXPECT_EQ(known(), 1e9);
  EXPECT_EQ(known(), 1e9) << "kept";
  for (const auto& [fact, value] : {std::pair("gpu.power_limit_watts", "500"),
                                    {"gpu.max_sm_clock_mhz", "1200"},
                                    {"gpu.max_memory_clock_mhz", "1600"},
                                    {"gpu.driver_version", "12080"}}) {
    const int before = measured;
    facts[fact] = value;
    known();
    EXPECT_EQ(measured, before + 1) << fact;
  }
  facts = {{"gpu.name", "NVIDIA H200"}, {"gpu.power_limit_watts", "700"}};
  EXPECT_EQ(known(), 1e9) << "as it was";
}

TEST(AskWorker, GivesTheWorkersRefusalWithItsHint) {
  Front front;
  record::WorkerResponse refused;
  refused.error = "no such thing";
  refused.error_hint = "try another";
  refused.unavailable = true;
  front.worker.on(WorkerTask::kCheck, refused);
  const auto checked = check_subjects(front.context, {.subjects = {.op = "gemm"}});
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(checked.error().message, "no such thing");
  EXPECT_EQ(checked.error().hint, "try another");
}

TEST(AskWorker, IsCancelled) {
  Front front;
  front.stops = 1;
  const auto operators = list_operators(front.context);
  ASSERT_FALSE(operators);
  EXPECT_EQ(operators.error().code, ErrorCode::kConflict);
  EXPECT_EQ(front.settled, 1) << "a front must hear that the step is over";
}

TEST(AskWorker, NeedsNoListener) {
  Front front;
  Context context;
  context.make_worker = front.context.make_worker;
  EXPECT_TRUE(list_operators(context));
}

TEST(Contexts, SilentOnesTellNothingAndStopAlike) {
  Front front;
  const Context silent = front.context.silent();
  EXPECT_TRUE(list_operators(silent));
  EXPECT_TRUE(front.progress.empty());
  EXPECT_EQ(front.settled, 0);
  front.stops = 1;
  EXPECT_FALSE(list_operators(silent));
}

TEST(Contexts, OfOneProcessKnowNothingOfEachOther) {
  Front one, other;
  one.stops = 1;
  EXPECT_FALSE(list_operators(one.context));
  EXPECT_TRUE(list_operators(other.context));
  EXPECT_TRUE(one.progress.empty());
  EXPECT_EQ(other.progress.size(), 1u);
}

TEST(CasesOf, NamesTheOperatorsThatThereAre) {
  Front front;
  const auto own = cases_of(front.context, "gemm", {});
  ASSERT_TRUE(own);
  EXPECT_EQ(own->front().label(), "m=64 n=64 k=64");
  const auto none = cases_of(front.context, "gem", {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(none.error().hint, "known: gemm");
}

TEST(Check, AsksForTheSubjectsAndGivesTheirReports) {
  Front front;
  record::WorkerResponse answer;
  record::CheckReport report;
  report.subject = "cpu_simd";
  report.rows = campaign::test::make_checks();
  answer.checks = {report};
  front.worker.on(WorkerTask::kCheck, answer);
  CheckRequest request;
  request.subjects.op = "gemm";
  request.subjects.implementations = {"cpu_simd"};
  request.seed = 7;
  auto reports = check_subjects(front.context, request);
  ASSERT_TRUE(reports) << reports.error().text();
  EXPECT_TRUE(all_passed(*reports));
  EXPECT_EQ(front.worker.requests().back().seed, 7);
  EXPECT_EQ(front.worker.requests().back().implementations, std::vector<std::string>{"cpu_simd"});
  reports->front().rows[1].outcome = record::Outcome::kWrong;
  EXPECT_FALSE(all_passed(*reports));
  EXPECT_FALSE(all_passed({})) << "nothing was checked";
}

TEST(Check, RefusesDefinitionsWithoutACandidate) {
  Front front;
  CheckRequest request;
  request.subjects.op = "gemm";
  request.subjects.defines = {"MR=6"};
  const auto refused = check_subjects(front.context, request);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().hint, HasSubstr("--candidate"));
  EXPECT_TRUE(front.worker.requests().empty()) << "refused before anything runs";
}

TEST(Bench, RefusesBeforeItMeasures) {
  Front front;
  BenchRequest request;
  request.subjects.op = "gemm";
  request.mode = "tepid";
  EXPECT_FALSE(bench_subjects(front.context, request));
  request.mode = "cold";
  request.samples = -1;
  EXPECT_FALSE(bench_subjects(front.context, request));
  request.samples = 0;
  request.budget = "soon";
  EXPECT_FALSE(bench_subjects(front.context, request));
  EXPECT_TRUE(front.worker.requests().empty());
}

TEST(Bench, GivesAReportWithItsProtocolAndCeilings) {
  Front front;
  BenchRequest request;
  request.subjects.op = "gemm";
  const auto report = bench_subjects(front.context, request);
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ(report->ridge, "test");
  ASSERT_EQ(report->bench.size(), 1u);
  ASSERT_EQ(report->ceilings.size(), 1u);
  // Measured once: the next report takes them from the cache of this context.
  const std::size_t asked = front.worker.requests().size();
  ASSERT_TRUE(bench_subjects(front.context, request));
  for (std::size_t i = asked; i < front.worker.requests().size(); ++i)
    EXPECT_NE(front.worker.requests()[i].task, WorkerTask::kCeilings);
}

record::BenchReport kept(double median, const std::string& machine = "a") {
  record::BenchReport report;
  report.environment.facts["cpu.model"] = machine;
  record::BenchRow row;
  row.subject = "cpu_simd";
  row.label = "m=64 n=64 k=64";
  row.median = median;
  row.samples = std::vector<double>(48, median);
  row.sessions = 8;
  report.bench = {row};
  return report;
}

TEST(Bench, IsHeldAgainstAnEarlierReport) {
  const auto same = compare_with_earlier(kept(1e-3), kept(1e-3), 0.05);
  ASSERT_TRUE(same) << same.error().text();
  EXPECT_FALSE(same->front().slower);
  EXPECT_FALSE(same->front().differs());
  const auto slower = compare_with_earlier(kept(2e-3), kept(1e-3), 0.05);
  ASSERT_TRUE(slower);
  EXPECT_TRUE(slower->front().slower);
  EXPECT_DOUBLE_EQ(slower->front().ratio, 0.5);
  EXPECT_FALSE(compare_with_earlier(kept(2e-3), kept(1e-3), 0.6)->front().slower) << "within the tolerance";
  EXPECT_THAT(compare_with_earlier(kept(1), kept(1, "b"), 0.05).error().message, HasSubstr("another machine"));
  record::BenchReport other = kept(1);
  other.bench[0].subject = "reference";
  EXPECT_THAT(compare_with_earlier(kept(1), other, 0.05).error().message, HasSubstr("in common"));
  EXPECT_FALSE(all_measured({}));
  EXPECT_TRUE(all_measured(kept(1)));
}

TEST(Look, NeedsASourceThatSaysItsOperator) {
  Front front;
  ASSERT_TRUE(write_file_durably(front.path() / "mine.cpp", "int kernel;\n"));
  LookRequest request;
  request.candidate = (front.path() / "mine.cpp").string();
  const auto refused = look_at(front.context, request);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().hint, HasSubstr("--op gemm"));
}

TEST(Candidates, ShippedOnesAreFoundInTheContextsData) {
  Front front;
  const auto kernel = shipped_kernel(front.context, "gemm", "cpu");
  ASSERT_TRUE(kernel) << kernel.error().text();
  EXPECT_EQ(kernel->file.filename(), "cpu_plain.cpp");
  const auto none = shipped_kernel(front.context, "no_such_operator", "cpu");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().hint, HasSubstr("--kernel FILE"));
  EXPECT_FALSE(candidate_of(front.context, "gemm", kernel->file.string(), {"MR"}));
}

// A campaign of any kernel of the library that has tunables: the start brings everything that it includes.
TEST(Candidates, AKernelOfTheLibraryForAGpuIsShippedWithItsHeaders) {
  Front front;
  for (const char* const op :
       {"softmax", "softmax_backward", "activation_backward", "rmsnorm", "rmsnorm_backward", "layernorm",
        "cross_entropy", "embedding_backward", "adamw", "rope", "grouped_gemm", "symmetric_product"}) {
    const auto kernel = shipped_kernel(front.context, op, "cuda");
    ASSERT_TRUE(kernel) << kernel.error().text();
    ASSERT_TRUE(kernel->path.starts_with("ops/")) << kernel->path;
    const std::string text = record::start_text(kernel->path, op, std::vector<std::string>{"rows=1"});
    const auto candidate = candidate_of_text(front.context, op, "start.cu", text, {});
    ASSERT_TRUE(candidate) << candidate.error().text();
    EXPECT_EQ(candidate->backend, "cuda");
    EXPECT_EQ(candidate->sources[1].path, kernel->path);
    for (const record::SourceFile& source : candidate->sources) {
      EXPECT_THAT(source.text, Not(HasSubstr("/device/cuda/kernel/"))) << source.path;
      std::istringstream lines(source.text);
      for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("#include \"")) continue;
        const std::string name = line.substr(10, line.rfind('"') - 10);
        if (name.starts_with("ridge/kernel/")) continue;
        const std::string beside =
            (std::filesystem::path(source.path).parent_path() / name).lexically_normal().generic_string();
        EXPECT_TRUE(std::ranges::any_of(
            candidate->sources,
            [&](const record::SourceFile& other) { return other.path == beside || other.path == name; }))
            << source.path << " includes " << name;
      }
    }
  }
  const auto none = shipped_kernel(front.context, "quantise", "cuda");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().hint, HasSubstr("softmax"));
  const auto gemm = shipped_kernel(front.context, "gemm_bf16", "cuda");
  ASSERT_TRUE(gemm) << gemm.error().text();
  EXPECT_EQ(gemm->path, "");
}

// A campaign starts from what the library runs, which is a configuration of the kernel.
TEST(Candidates, ValuesOfAConfigurationAreThoseOfTheKernelThatIsShipped) {
  Front front;
  const auto kernel = shipped_kernel(front.context, "grouped_gemm", "cuda");
  ASSERT_TRUE(kernel) << kernel.error().text();
  const auto values = [&](const std::string& runs) { return values_of_configuration(*kernel, runs).value(); };
  EXPECT_THAT(values("cuda_groups/coop_128x256_m2"),
              ElementsAre("RIDGE_BLOCK_N=256", "RIDGE_CLUSTER_M=2", "RIDGE_SLAB_BUFFERS=2"));
  for (const char* const other : {"", "cuda_groups", "cuda_groups/none", "cuda_reference/coop_128x256_m2"}) {
    EXPECT_THAT(values(other), IsEmpty()) << other;
  }
}

TEST(TuneStore, ImportsAtTheSameTimeLoseNothing) {
  Front front;
  const std::string file = (front.path() / "recording.json").string(), out = (front.path() / "out.json").string();
  ASSERT_TRUE(write_file_durably(file, R"({"metadata": {"timeunit": "miliseconds"}, "results": [
    {"configuration": {"MR": 1}, "measurements": [{"name": "time", "value": 2.5}]},
    {"configuration": {"MR": 2}, "measurements": [{"name": "time", "value": 1.5}]}]})"));
  constexpr int kThreads = 4, kEach = 16;
  const auto request = [&](const std::string& path, int device) {
    return TuneStoreRequest{path, "gemm", fmt::format("device {}", device), {}, {}};
  };
  std::vector<std::thread> imports;
  for (int thread = 0; thread < kThreads; ++thread) {
    imports.emplace_back([&, thread] {
      for (int i = 0; i < kEach; ++i) {
        const auto done = import_tuning(front.context, request(file, thread * kEach + i));
        EXPECT_TRUE(done) << done.error().text();
      }
    });
  }
  for (std::thread& one : imports) one.join();
  for (int device = 0; device < kThreads * kEach; ++device) {
    const auto back = export_tuning(front.context, request(out, device));
    ASSERT_TRUE(back) << back.error().text();
    EXPECT_EQ(back->measurements, 2);
  }
}

TEST(Spec, FactsComeWithTheirSource) {
  Front front;
  const auto known = get_fact(front.context, "H200", "memory_bandwidth");
  ASSERT_TRUE(known) << known.error().text();
  EXPECT_EQ(known->fact.state, "known");
  EXPECT_FALSE(known->fact.document.empty());
  const auto wrong = get_fact(front.context, "H200", "speed");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().hint, HasSubstr("memory_bandwidth"));
}

TEST(Tips, FindWhatTheContextsPagesSay) {
  Front front;
  TipsRequest request;
  request.words = {"spill"};
  request.limit = 1;
  const auto found = search_tips(front.context, request);
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(found->hits.size(), 1u);
  EXPECT_GE(found->all, 1u);
  ASSERT_TRUE(find_page(front.context, "ops/any-kernel#another-tile-shape"));
  request.bottleneck = "luck";
  EXPECT_FALSE(search_tips(front.context, request));
}

TEST(Campaigns, AFolderWithoutOneSaysSo) {
  Front front;
  EXPECT_FALSE(campaign_status(front.path()));
  EXPECT_FALSE(pause_campaign(front.path()));
  EXPECT_FALSE(extend_campaign({front.path().string(), "5m", {}}));
  EXPECT_FALSE(verify_record({front.path().string(), {}}));
  const auto none = campaigns_in(front.path());
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->empty());
  const auto missing = campaigns_in(front.path() / "nowhere");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace ridge::service::test

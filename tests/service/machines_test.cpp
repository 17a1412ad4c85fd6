// Where a campaign builds and measures, and tuning on several devices, without a machine.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "campaign/machines.h"
#include "campaign/manifest.h"
#include "execute/local_pool.h"
#include "execute/route.h"
#include "execute/scripted.h"
#include "front.h"
#include "propose/sweep_size.h"
#include "record/json.h"
#include "record/tuned_folder.h"
#include "service/devices.h"
#include "service/machines.h"
#include "service/tune.h"
#include "service/tune_devices.h"
#include "service/worker_call.h"

namespace ridge::service::test {
namespace {

using record::WorkerTask;
using testing::HasSubstr;

TEST(Machines, AreKeptInTheManifestAndRefusedWithTheirKey) {
  record::CampaignSpec spec;
  ASSERT_TRUE(campaign::set_machines(spec, {"", "slurm:partition=gpu,gres=gpu:1"}));
  EXPECT_EQ(campaign::machines_of(spec).measure, "slurm:partition=gpu,gres=gpu:1");
  EXPECT_TRUE(campaign::machines_of(spec).elsewhere());
  record::CampaignSpec local;
  ASSERT_TRUE(campaign::set_machines(local, {"local", "local"}));
  EXPECT_TRUE(local.extra.empty());  // as a campaign without these words
  const Status refused = campaign::set_machines(local, {"pbs:x", ""});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("build_on: \"pbs:x\" is no place to run"));
}

TEST(Machines, ThatLookAreOfTheKindThatMeasures) {
  record::CampaignSpec spec;
  spec.backend = "cuda";
  ASSERT_TRUE(campaign::set_machines(spec, {.screen = "local:0,1"}));
  EXPECT_EQ(campaign::machines_of(spec).screen, "local:0,1");
  EXPECT_FALSE(campaign::machines_of(spec).elsewhere()) << "the campaign is measured here";
  EXPECT_TRUE(campaign::machines_of(spec).any());
  record::CampaignSpec other;
  other.backend = "cuda";
  EXPECT_THAT(campaign::set_machines(other, {.measure = "ssh:gpu1", .screen = "local:0,1"}).error().text(),
              HasSubstr("screen_on local:0,1 is this machine, and measure_on is ssh:gpu1"));
  EXPECT_TRUE(campaign::set_machines(other, {.measure = "ssh:gpu1", .screen = "ssh:gpu1,gpu2"}));
  record::CampaignSpec processor;
  processor.backend = "cpu";
  EXPECT_THAT(campaign::set_machines(processor, {.screen = "local:0,1"}).error().text(),
              HasSubstr("names GPUs, and the campaign is on cpu"));
  EXPECT_THAT(campaign::set_machines(processor, {.screen = "pbs:x"}).error().text(),
              HasSubstr("screen_on: \"pbs:x\" is no place to run"));
}

TEST(Machines, ThatLookTogetherMakeSweepsLarger) {
  const auto most = [](const char* backend, const char* screen, const char* stated = "") {
    record::CampaignSpec spec;
    spec.backend = backend;
    if (*stated != '\0') spec.extra[propose::kSweepMostKey] = stated;
    const Status set = campaign::set_machines(spec, {.screen = screen});
    if (!set) return set.error().text();
    return spec.extra.contains(propose::kSweepMostKey) ? spec.extra.at(propose::kSweepMostKey) : std::string("none");
  };
  EXPECT_EQ(most("cuda", ""), "none");
  EXPECT_EQ(most("cuda", "local:1"), "none");
  EXPECT_EQ(most("cuda", "local:0,1"), "40");
  EXPECT_EQ(most("cpu", "ssh:a,b,c"), "60");
  EXPECT_EQ(most("cpu", "ssh:a,slots=4"), "80");
  EXPECT_EQ(most("cuda", "slurm:gres=gpu:1,jobs=100"), "80") << "bounded";
  EXPECT_EQ(most("cuda", "local:0,1", "30"), "30") << "what a person wrote stays";
  EXPECT_THAT(most("cuda", "local:0,1", "81"), HasSubstr("sweep_most: 81: 6 to 80 configurations are possible"));
  EXPECT_THAT(most("cuda", "", "many"), HasSubstr("sweep_most: many: 6 to 80"));
}

// Devices of a pool, each of which says what it is.
std::unique_ptr<execute::Executor> pool_of(const std::vector<std::map<std::string, std::string>>& devices, int* asked) {
  std::vector<std::unique_ptr<execute::Executor>> workers;
  for (const auto& facts : devices) {
    auto worker = std::make_unique<execute::ScriptedExecutor>();
    worker->on(WorkerTask::kDescribe, [facts, asked](const record::WorkerRequest&) {
      if (asked != nullptr) ++*asked;
      record::WorkerResponse response;
      response.environment = record::Environment{facts};
      return Result<record::WorkerResponse>(response);
    });
    workers.push_back(std::move(worker));
  }
  return execute::make_pool(std::move(workers));
}

TEST(Machines, ThatLookAreAskedWhatTheyAre) {
  Front front;
  using Facts = std::map<std::string, std::string>;
  const Facts h200 = {{"gpu.name", "NVIDIA H200"}, {"gpu.driver_version", "12040"}};
  const Facts h100 = {{"gpu.name", "NVIDIA H100"}, {"gpu.driver_version", "12040"}, {"node.host", "n7"}};
  const Facts newer = {{"gpu.name", "NVIDIA H200"}, {"gpu.driver_version", "12080"}};
  const auto says = [&](const std::vector<Facts>& devices, const std::string& place = "local:0,1") {
    const auto pool = pool_of(devices, nullptr);
    const Status fit = check_screens(front.context, *pool, place, "cuda", record::Environment{h200});
    return fit ? std::string() : fit.error().text();
  };
  EXPECT_EQ(says({h200, h200}), "");
  EXPECT_THAT(says({h200, h100}), HasSubstr("screen_on local:0,1: n7 is NVIDIA H100, driver for CUDA 12040, and the "
                                            "campaign measures on NVIDIA H200, driver for CUDA 12040"));
  EXPECT_THAT(says({newer, h200}), HasSubstr("device 1 of local:0,1 is NVIDIA H200, driver for CUDA 12080"));
  Facts capped = h200;
  capped["gpu.power_limit_watts"] = "500";
  EXPECT_THAT(says({h200, capped}), HasSubstr("device 2 of local:0,1 is NVIDIA H200, driver for CUDA 12040, 500 W"));
  EXPECT_THAT(says({h200, Facts{{"cpu.model", "a processor"}}}), HasSubstr("there is no cuda device"));
  EXPECT_THAT(says({h100}, "slurm:jobs=8"), HasSubstr("n7 is NVIDIA H100"));
  int asked = 0;
  const auto pool = pool_of({h200, h200, h200}, &asked);
  EXPECT_TRUE(check_screens(front.context, *pool, "local:0,1,2", "cuda", record::Environment{h200}));
  EXPECT_EQ(asked, 3);
  EXPECT_TRUE(check_screens(front.context, *pool, "slurm:jobs=3", "cuda", record::Environment{h200}));
  EXPECT_EQ(asked, 4) << "a scheduler chooses others at the next asking";
  const auto processors = pool_of({Facts{{"cpu.model", "another"}}}, nullptr);
  const record::Environment own{Facts{{"cpu.model", "this one"}}};
  EXPECT_THAT(check_screens(front.context, *processors, "ssh:a", "cpu", own).error().text(),
              HasSubstr("device 1 of ssh:a is another, and the campaign measures on this one"));
}

TEST(Machines, TheReplicaIsOfAnotherDevice) {
  record::CampaignSpec spec;
  ASSERT_TRUE(campaign::set_machines(spec, {.replicate = "ssh:other"}));
  EXPECT_EQ(campaign::machines_of(spec).replicate, "ssh:other");
  EXPECT_FALSE(campaign::machines_of(spec).elsewhere()) << "the campaign is measured here";
  record::CampaignSpec there;
  ASSERT_TRUE(campaign::set_machines(there, {.measure = "ssh:other", .replicate = "local"}));
  EXPECT_EQ(campaign::machines_of(there).replicate, "local");
  record::CampaignSpec here;
  const Status refused = campaign::set_machines(here, {.replicate = "local"});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("replicate_on: local is the device that the campaign measures on"));
  EXPECT_FALSE(campaign::set_machines(here, {.replicate = "pbs:x"}));
}

TEST(Machines, AReplicaThatCannotBeMadeIsSaidNowAndIsTheAnswerToEveryRequest) {
  Front front;
  std::vector<std::string> notes;
  front.context.on_note = [&](std::string_view text) { notes.emplace_back(text); };
  SystemClock clock;
  const auto replica = replica_on(front.context, "scripted:/absent", clock, {"campaign-1", [] { return "x"; }, 0});
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("scripted:/absent cannot be used: "));
  EXPECT_FALSE(replica->run({}, {}, {}));
  EXPECT_TRUE(front.worker.requests().empty());
  EXPECT_THAT(no_replica()->run({}, {}, {}).error().text(), HasSubstr("left out on request (--no-replica)"));
}

TEST(Machines, AskTheOtherWorkerForWhatNeedsADevice) {
  Front front;
  const auto script = front.path() / "answers.jsonl";
  ASSERT_TRUE(write_file_durably(script, "{\"task\":\"describe\",\"response\":{\"version\":1,\"cpu_seconds\":42}}\n"));
  const Result<Context> there = context_on(front.context, {"", "scripted:" + script.string()});
  ASSERT_TRUE(there) << there.error().text();
  EXPECT_EQ(ask_worker(*there, {})->cpu_seconds, 42);
  EXPECT_TRUE(front.worker.requests().empty());
  record::WorkerRequest operators;
  operators.task = WorkerTask::kOperators;
  EXPECT_TRUE(ask_worker(*there, operators));
  EXPECT_EQ(front.worker.requests().size(), 1u);  // here
  EXPECT_FALSE(context_on(front.context, {"", "scripted:/absent"}));
}

TEST(Routes, BuildAheadOfWhatMeasures) {
  auto build = std::make_unique<execute::ScriptedExecutor>(), measure = std::make_unique<execute::ScriptedExecutor>();
  build->on(WorkerTask::kBuild, record::WorkerResponse{});
  measure->on(WorkerTask::kEvaluate, record::WorkerResponse{});
  measure->on(WorkerTask::kDescribe, record::WorkerResponse{});
  const auto &builder = *build, &measurer = *measure;
  const auto routed = execute::make_routed_executor({nullptr, std::move(measure), std::move(build)});
  record::WorkerRequest request;
  request.task = WorkerTask::kEvaluate;
  request.candidates.resize(1);
  ASSERT_TRUE(routed->run(request));
  ASSERT_TRUE(routed->run({}));
  ASSERT_EQ(builder.requests().size(), 1u);
  EXPECT_EQ(builder.requests()[0].task, WorkerTask::kBuild);
  EXPECT_EQ(builder.requests()[0].candidates.size(), 1u);
  ASSERT_EQ(measurer.requests().size(), 2u);
  EXPECT_EQ(measurer.requests()[0].task, WorkerTask::kEvaluate);
}

// Counts how often it is asked for several at once.
class Wide final : public execute::Executor {
 public:
  Wide(execute::ScriptedExecutor& inner, int& asked) : inner_(inner), asked_(asked) {}
  Result<record::WorkerResponse> run(const record::WorkerRequest& request, const execute::OnProgress& progress,
                                     const execute::ShouldStop& stop) override {
    return inner_.run(request, progress, stop);
  }
  [[nodiscard]] std::size_t width() const override { return 3; }
  std::vector<Result<record::WorkerResponse>> run_all(std::span<const record::WorkerRequest> requests,
                                                      const execute::OnPartProgress& progress,
                                                      const execute::ShouldStop& stop) override {
    ++asked_;
    return Executor::run_all(requests, progress, stop);
  }

 private:
  execute::ScriptedExecutor& inner_;
  int& asked_;
};

TEST(Routes, SeveralThatMeasureGoTogetherAfterTheirBuilds) {
  execute::ScriptedExecutor build, measure, here;
  int measured = 0, built = 0, asked_here = 0;
  build.on(WorkerTask::kBuild, [](const record::WorkerRequest& request) {
    return request.time_limit == 2 ? Result<record::WorkerResponse>(make_error(ErrorCode::kTimeout, "not reached"))
                                   : Result<record::WorkerResponse>(record::WorkerResponse{});
  });
  measure.on(WorkerTask::kScreen, [](const record::WorkerRequest& request) {
    record::WorkerResponse response;
    response.cpu_seconds = static_cast<double>(request.samples);
    return Result<record::WorkerResponse>(response);
  });
  here.on(WorkerTask::kOperators, record::WorkerResponse{});
  const auto routed =
      execute::make_routed_executor({std::make_unique<Wide>(here, asked_here),
                                     std::make_unique<Wide>(measure, measured), std::make_unique<Wide>(build, built)});
  EXPECT_EQ(routed->width(), 3u);
  std::vector<record::WorkerRequest> requests(3);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].task = WorkerTask::kScreen;
    requests[i].samples = static_cast<std::int64_t>(i);
    requests[i].time_limit = static_cast<double>(i + 1);  // what a build ahead has of it
  }
  std::set<std::size_t> told;
  const auto answers = routed->run_all(requests, [&](std::size_t part, const record::Progress&) { told.insert(part); });
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0]->cpu_seconds, 0);
  EXPECT_EQ(answers[1].error().code, ErrorCode::kTimeout);
  EXPECT_EQ(answers[2]->cpu_seconds, 2);
  EXPECT_EQ(told, (std::set<std::size_t>{0, 1, 2}));
  EXPECT_EQ(measured, 1);
  EXPECT_EQ(built, 1);
  EXPECT_EQ(measure.requests().size(), 2u);
  requests[1].task = WorkerTask::kOperators;  // a mixture: each where it belongs
  const auto mixed = routed->run_all(requests);
  EXPECT_TRUE(mixed[0] && mixed[1] && mixed[2]);
  EXPECT_EQ(here.requests().size(), 1u);
  EXPECT_EQ(measured, 1);
}

// Several devices, each of which looks at what it is dealt.
class Lookers final : public execute::Executor {
 public:
  Result<record::WorkerResponse> run(const record::WorkerRequest& request, const execute::OnProgress& on_progress,
                                     const execute::ShouldStop&) override {
    dealt.push_back(request.candidates.size());
    if (on_progress) on_progress({"screening", "", 1});
    record::WorkerResponse answer;
    for (const record::Candidate& one : request.candidates) {
      answer.screen.push_back({.candidate = one.id(), .score = 1, .latencies = {1e-3}});
    }
    answer.screen.push_back({.candidate = request.incumbent->id(), .score = 1, .latencies = {1e-3}});
    return answer;
  }
  [[nodiscard]] std::size_t width() const override { return 2; }
  [[nodiscard]] double waited() const override { return 3; }
  std::vector<std::size_t> dealt;
};

TEST(Routes, LooksAtManyCandidatesGoToTheDevicesThatShareThem) {
  auto measure = std::make_unique<execute::ScriptedExecutor>();
  auto screen = std::make_unique<Lookers>();
  measure->on(WorkerTask::kEvaluate, record::WorkerResponse{});
  const auto& measurer = *measure;
  const auto& lookers = *screen;
  execute::Routes routes;
  routes.measure = std::move(measure);
  routes.screen = std::move(screen);
  const auto routed = execute::make_routed_executor(std::move(routes));
  record::WorkerRequest request;
  request.task = WorkerTask::kScreen;
  for (std::int64_t i = 0; i < 7; ++i) {
    record::Candidate candidate;
    candidate.defines = {{"N", i}};
    request.candidates.push_back(candidate);
  }
  request.incumbent.emplace().defines = {{"N", 99}};
  std::vector<double> told;
  const auto looked = routed->run(request, [&](const record::Progress& now) { told.push_back(now.fraction); });
  ASSERT_TRUE(looked.ok());
  EXPECT_EQ(looked->screen.size(), 8u);
  EXPECT_EQ(lookers.dealt, (std::vector<std::size_t>{4, 3}));
  EXPECT_EQ(told, (std::vector<double>{0.5, 1}));  // of both together
  EXPECT_EQ(routed->waited(), 3);
  request.task = WorkerTask::kEvaluate;
  ASSERT_TRUE(routed->run(request));
  EXPECT_EQ(measurer.requests().size(), 1u);  // what decides stays on one device
}

record::WorkerRequest tuning(std::size_t cases) {
  record::WorkerRequest request;
  request.task = WorkerTask::kTune;
  request.backend = "cuda";
  for (std::size_t i = 0; i < cases; ++i) {
    record::Case one;
    one.op = "gemm";
    one.set("m", std::to_string(i + 1));
    request.cases.push_back(one);
  }
  return request;
}

TEST(Devices, EveryCaseIsInOnePart) {
  for (const std::size_t devices : {1u, 2u, 4u}) {
    for (const std::size_t cases : {1u, 7u, 40u}) {
      std::multiset<std::string> seen;
      for (const auto& part : parts_of({tuning(cases), tuning(cases)}, devices)) {
        EXPECT_FALSE(part.cases.empty());
        for (const auto& one : part.cases) seen.insert(one.text());
      }
      EXPECT_EQ(seen.size(), 2 * cases);
    }
  }
  EXPECT_EQ(parts_of({tuning(40)}, 4).size(), 4u) << "a part is no shorter than the start of its worker";
  EXPECT_EQ(parts_of({tuning(1100)}, 2).size(), 4u);
  EXPECT_EQ(parts_of({tuning(4000)}, 2).size(), 8u);
}

TEST(Devices, PartsTakeAboutAsLongWhateverTheOrderOfTheList) {
  // As a list of shapes expands: the last size changes fastest, and every fourth case is as large.
  record::WorkerRequest request = tuning(0);
  for (int i = 0; i < 64; ++i) {
    request.cases.push_back(
        *record::parse_case(fmt::format("gemm m={} n=64 k={}", 64 * (1 + i / 4), 1 << (6 + i % 4))));
  }
  std::vector<double> work;
  for (const auto& part : parts_of({request}, 4)) {
    double sum = 0;
    for (const auto& one : part.cases) sum += static_cast<double>(*one.integer("m") * *one.integer("k"));
    work.push_back(sum);
  }
  ASSERT_EQ(work.size(), 4u);
  EXPECT_LT(std::ranges::max(work), 1.1 * std::ranges::min(work));
}

// What the devices of a test are, and what they were asked.
struct DeviceScript {
  std::vector<std::string> described = {"NVIDIA H100", "NVIDIA H100"};  // by device, when it is asked what it is
  std::vector<std::string> measured = {"NVIDIA H100", "NVIDIA H100"};   // what its choices say
  std::vector<std::string> device_limits = {"", ""};                    // what they say of its limits
  std::size_t dies_on = 0;                                              // the part with this first size; 0: none
  std::string disturbed;
  std::mutex mutex;
  std::vector<std::vector<std::string>> tasks = {{}, {}};  // by device
  std::vector<double> limits;
};

// The worker of one device, which may be asked on any thread.
class DeviceWorker final : public execute::Executor {
 public:
  DeviceWorker(DeviceScript& script, std::size_t device) : script_(script), device_(device) {}
  Result<record::WorkerResponse> run(const record::WorkerRequest& request, const execute::OnProgress& progress,
                                     const execute::ShouldStop& stop) override {
    {
      const std::scoped_lock lock(script_.mutex);
      script_.tasks[device_].emplace_back(record::name_of(request.task));
      if (request.task == WorkerTask::kTune) script_.limits.push_back(request.time_limit);
    }
    return request.task == WorkerTask::kDescribe ? describe() : tune(request, progress, stop);
  }

 private:
  Result<record::WorkerResponse> describe() const {
    record::WorkerResponse response;
    response.environment = record::Environment{};
    const std::string& name = script_.described[device_];
    if (name.empty()) return response;
    response.environment->facts = {{"gpu.name", name}, {"gpu.driver_version", "13000"}, {"cpu.model", name}};
    return response;
  }
  Result<record::WorkerResponse> tune(const record::WorkerRequest& request, const execute::OnProgress& progress,
                                      const execute::ShouldStop& stop) const {
    if (progress) progress({"tuning", "half of it", 0.5});
    // Longer than progress is told again; a stop is heeded.
    for (int i = 0; i < 25 && !stop(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (stop()) return make_error(ErrorCode::kConflict, "stopped on request");
    record::WorkerResponse response;
    for (const record::Case& one : request.cases) {
      if (script_.dies_on != 0 && *one.integer("m") == static_cast<std::int64_t>(script_.dies_on))
        return make_error(ErrorCode::kToolFailed, "killed by signal 9");
      record::TunedChoice choice;
      choice.bucket = one;
      choice.device = script_.measured[device_];
      choice.limits = script_.device_limits[device_];
      choice.implementation = "cuda_wgmma";
      choice.disturbed = script_.disturbed;
      response.tuned.push_back(choice);
    }
    return response;
  }

  DeviceScript& script_;
  std::size_t device_;
};

// Two devices at a place.
class TunesOnDevices : public testing::Test {
 protected:
  Result<std::vector<record::TunedChoice>> tune(const std::vector<record::WorkerRequest>& requests,
                                                const std::string& place = "local:0,1", double limit = 0,
                                                std::size_t devices = 2) {
    front_.context.make_worker = [this, devices] {
      std::vector<std::unique_ptr<execute::Executor>> workers;
      for (std::size_t i = 0; i < devices; ++i) workers.push_back(std::make_unique<DeviceWorker>(script_, i));
      return execute::make_pool(std::move(workers));
    };
    return tune_on_devices(front_.context, requests, {place, limit});
  }
  // Lines of the tables of this machine.
  [[nodiscard]] std::size_t kept() const {
    std::size_t lines = 0;
    std::error_code missing;
    for (const auto& file :
         std::filesystem::directory_iterator(record::tuned_folder(front_.context.cache_directory), missing)) {
      lines += record::parse_tuned(*read_file(file.path()), "table")->size();
    }
    return lines;
  }
  [[nodiscard]] std::size_t asked(std::string_view task) const {
    std::size_t times = 0;
    for (const auto& of_device : script_.tasks) times += static_cast<std::size_t>(std::ranges::count(of_device, task));
    return times;
  }

  Front front_;
  DeviceScript script_;
};

TEST_F(TunesOnDevices, WhichShareTheWork) {
  const auto choices = tune({tuning(40)}, "local:0,1", 60);
  ASSERT_TRUE(choices) << choices.error().text();
  EXPECT_EQ(choices->size(), 40u);
  EXPECT_EQ(asked("tune"), 2u);
  EXPECT_TRUE(std::ranges::any_of(front_.progress, [](const record::Progress& one) {
    return one.fraction == 0.5 && one.detail == "on 2 devices";
  })) << "the devices' own progress is told";
  EXPECT_EQ(front_.settled, 1);
  EXPECT_EQ(kept(), 0u) << "a worker beside us writes its table itself";
  for (const auto& of_device : script_.tasks) EXPECT_EQ(std::ranges::count(of_device, "describe"), 1);
}

TEST_F(TunesOnDevices, OneOfWhichTakesPartAfterPart) {
  const auto choices = tune({tuning(3), tuning(2)}, "", 60, 1);
  ASSERT_TRUE(choices) << choices.error().text();
  EXPECT_EQ(choices->size(), 5u);
  EXPECT_EQ(asked("describe"), 0u);
  ASSERT_EQ(script_.limits.size(), 2u);
  EXPECT_NEAR(script_.limits[0], 36, 1);
  EXPECT_GT(script_.limits[1], 50) << "what the first left";
  EXPECT_TRUE(std::ranges::any_of(front_.progress, [](const auto& one) { return one.detail == "half of it"; }));
  script_.dies_on = 1;
  EXPECT_FALSE(tune({tuning(1), tuning(1)}, "", 0, 1));
  EXPECT_EQ(asked("tune"), 3u) << "no part is begun after one that failed";
}

TEST_F(TunesOnDevices, WithATimeForEachPartByItsCases) {
  ASSERT_TRUE(tune({tuning(30), tuning(10)}, "slurm:jobs=2", 40));
  ASSERT_EQ(script_.limits.size(), 4u);
  std::ranges::sort(script_.limits);
  EXPECT_NEAR(script_.limits[0], 10, 0.1);
  EXPECT_NEAR(script_.limits[3], 30, 0.1);
}

TEST_F(TunesOnDevices, ThatMustBeAlikeAsFarAsTheyCanBeAsked) {
  script_.described = {"NVIDIA H100", "NVIDIA H200"};
  const auto unlike = tune({tuning(4)});
  ASSERT_FALSE(unlike);
  EXPECT_THAT(unlike.error().message, HasSubstr("device 1 of local:0,1 is NVIDIA H100"));
  EXPECT_THAT(unlike.error().message, HasSubstr("device 2 of local:0,1 is NVIDIA H200"));
  script_.described[1].clear();
  const auto none = tune({tuning(4)});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(none.error().message, HasSubstr("device 2 of local:0,1: there is no cuda device"));
  // Processors elsewhere are asked before they are kept busy.
  script_.described = {"Xeon", "EPYC"};
  const std::size_t before = asked("tune");
  record::WorkerRequest on_cpu = tuning(4);
  on_cpu.backend = "cpu";
  const auto processors = tune({on_cpu}, "ssh:a,b");
  ASSERT_FALSE(processors);
  EXPECT_THAT(processors.error().message, HasSubstr("Xeon"));
  EXPECT_THAT(processors.error().message, HasSubstr("EPYC"));
  EXPECT_EQ(asked("tune"), before);
}

TEST_F(TunesOnDevices, OfASchedulerThatMustHaveBeenAlike) {
  script_.measured = {"NVIDIA H100", "NVIDIA H200"};
  const auto unlike = tune({tuning(4)}, "slurm:jobs=2");
  ASSERT_FALSE(unlike);
  EXPECT_THAT(unlike.error().message, HasSubstr("NVIDIA H100"));
  EXPECT_THAT(unlike.error().message, HasSubstr("NVIDIA H200"));
  script_.measured = {"NVIDIA H100", "NVIDIA H100"};
  script_.device_limits = {"700 W", "500 W"};
  const auto capped = tune({tuning(4)}, "slurm:jobs=2");
  ASSERT_FALSE(capped);
  EXPECT_THAT(capped.error().message, HasSubstr("NVIDIA H100, 700 W"));
  EXPECT_THAT(capped.error().message, HasSubstr("NVIDIA H100, 500 W"));
  EXPECT_EQ(asked("describe"), 0u);
  EXPECT_EQ(kept(), 0u);
}

TEST_F(TunesOnDevices, ElsewhereWhoseTableComesHere) {
  ASSERT_TRUE(tune({tuning(4)}, "slurm:jobs=2"));
  EXPECT_EQ(kept(), 4u);
  ASSERT_TRUE(tune({tuning(5)}, "ssh:a,b"));
  EXPECT_EQ(kept(), 5u) << "a bucket has one line";
  script_.disturbed = "others used 50 % of the processors";
  ASSERT_TRUE(tune({tuning(7)}, "slurm:jobs=2"));
  EXPECT_EQ(kept(), 5u);
  record::WorkerRequest all_the_same = tuning(7);
  all_the_same.keep_disturbed = true;
  ASSERT_TRUE(tune({all_the_same}, "slurm:jobs=2"));
  EXPECT_EQ(kept(), 7u);
}

TEST_F(TunesOnDevices, OneOfWhichMayFailWithoutTheRestBeingLost) {
  script_.dies_on = 4;
  const auto choices = tune({tuning(4)}, "slurm:jobs=2");
  ASSERT_FALSE(choices);
  EXPECT_THAT(choices.error().message, HasSubstr("1 of 2 parts have no answer: killed by signal 9"));
  EXPECT_THAT(choices.error().hint, HasSubstr("what the others found is kept"));
  EXPECT_EQ(kept(), 2u);
}

TEST(Tune, RefusesPlacesThatCannotBeAndProcessorsByTheNamesOfGpus) {
  Front front;
  TuneRequest request;
  request.op = "gemm";
  request.words = {"m=64", "n=64", "k=64"};
  const auto says = [&](const std::string& place) {
    request.measure_on = place;
    const auto refused = tune(front.context, request);
    return refused ? std::string("it was taken") : refused.error().text();
  };
  EXPECT_THAT(says("local:0,1"), HasSubstr("local:0,1 names GPUs, and this is --on cpu (add --on cuda)"));
  EXPECT_THAT(says("pbs:x"), HasSubstr("is no place to run"));
  request.backend = "cuda";
  EXPECT_THAT(says("local:0,x"), HasSubstr("\"x\" is no GPU"));
  EXPECT_TRUE(front.worker.requests().empty());
}

}  // namespace
}  // namespace ridge::service::test

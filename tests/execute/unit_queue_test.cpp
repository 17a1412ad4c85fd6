#include "execute/unit_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <tuple>

#include "base/error.h"
#include "base/files.h"
#include "execute/scripted.h"
#include "execute/scripted_cluster.h"
#include "record/json.h"

namespace ridge::execute {
namespace {

using record::WorkerRequest;
using record::WorkerResponse;
using record::WorkerTask;
using ::testing::HasSubstr;

constexpr const char* kVersion = "1.2.3";

// In memory where the machine has such a folder: the files are written durably, and a disk makes that seconds.
Result<TempDir> fast_directory() {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  if (::access("/dev/shm", W_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 1);
  Result<TempDir> directory = TempDir::create("ridge-test");
  if (before == nullptr)
    ::unsetenv("TMPDIR");
  else
    ::setenv("TMPDIR", kept.c_str(), 1);
  return directory;
}

// A folder, a scheduler with two nodes, and queues that come and go.
class Units : public ::testing::Test {
 protected:
  Units() {
    worker_.on(WorkerTask::kBuild, [this](const WorkerRequest& request) { return answer(request); });
    worker_.on(WorkerTask::kEvaluate, [this](const WorkerRequest& request) { return answer(request); });
    reset({});
  }

  Result<WorkerResponse> answer(const WorkerRequest& request) {
    ++runs_[request.samples];
    if (timeouts_left_ > 0) {
      --timeouts_left_;
      return make_error(ErrorCode::kTimeout, "out of time");  // not tried again
    }
    if (request.samples == never_) return make_error(ErrorCode::kToolFailed, "killed by signal 9");
    if (failures_left_ > 0) {
      --failures_left_;
      return make_error(ErrorCode::kToolFailed, "no space left on device");
    }
    WorkerResponse response;
    response.cpu_seconds = static_cast<double>(request.samples);
    return response;
  }

  void reset(ScriptedClusterOptions options) {
    options.execute = [this](const auto& root, const auto& batch, std::size_t index, const std::string& node) {
      run_on(root, batch, index, node);
    };
    scheduler_ = std::make_unique<ScriptedScheduler>(clock_, std::move(options));
  }

  void run_on(const std::filesystem::path& root, const std::string& batch, std::size_t index, const std::string& node) {
    VirtualClock there(1'767'225'600 + skew_);
    record::UnitPlace place{node, same_host_ ? "host" : node, "processor", ""};
    const UnitHost host{version_, root / "cache", place, there, [&](const record::UnitOrder&) {
                          return std::make_unique<Forward>(worker_, there, node_takes_, node_waits_);
                        }};
    written_ = run_job(root, batch, index, host);
    if (twice_) written_ = run_job(root, batch, index, host);
  }

  // A worker that outlives the executor of one unit.
  class Forward final : public Executor {
   public:
    Forward(ScriptedExecutor& to, VirtualClock& clock, double takes, double waits)
        : to_(to), clock_(clock), takes_(takes), waits_(waits) {}
    [[nodiscard]] double waited() const override { return waits_; }
    Result<WorkerResponse> run(const WorkerRequest& request, const OnProgress& progress,
                               const ShouldStop& stop) override {
      clock_.advance(takes_);
      return to_.run(request, progress, stop);
    }

   private:
    ScriptedExecutor& to_;
    VirtualClock& clock_;
    double takes_, waits_;
  };

  QueueOptions options() {
    QueueOptions options;
    options.root = directory_->path() / "it's a \"root\" $(false) %a";
    options.version = kVersion;
    options.who = "a test";
    options.on_note = [this](std::string_view text) { notes_ += std::string(text) + "\n"; };
    return options;
  }
  std::unique_ptr<UnitQueue> open() { return open(options()); }
  std::unique_ptr<UnitQueue> open(QueueOptions options) {
    auto queue = UnitQueue::open(scheduler_->client(), clock_, std::move(options));
    EXPECT_TRUE(queue.ok()) << queue.error().text();
    return std::move(*queue);
  }

  static WorkerRequest request(std::int64_t number, WorkerTask task = WorkerTask::kBuild) {
    WorkerRequest request;
    request.task = task;
    request.samples = number;
    return request;
  }

  // Steps until `holds`, at most for `limit` seconds of virtual time.
  template <class Holds>
  bool advance(UnitQueue& queue, Holds holds, double limit = 7200) {
    const double end = clock_.monotonic() + limit;
    while (!holds()) {
      if (clock_.monotonic() > end) return false;
      EXPECT_TRUE(queue.step().ok());
      clock_.advance(queue.pause());
    }
    return true;
  }
  std::optional<UnitOutcome> finish(UnitQueue& queue, const std::string& key) {
    std::optional<UnitOutcome> outcome;
    advance(queue, [&] { return (outcome = queue.take(key)).has_value(); });
    return outcome;
  }

  Result<TempDir> directory_ = fast_directory();
  VirtualClock clock_;
  ScriptedExecutor worker_;
  std::unique_ptr<ScriptedScheduler> scheduler_;
  std::map<std::int64_t, int> runs_;  // of each request
  Status written_ = ok_status();
  std::string notes_, version_ = kVersion;
  std::int64_t skew_ = 0;
  double node_takes_ = 0, node_waits_ = 0;  // seconds; the waiting is a part
  int failures_left_ = 0, timeouts_left_ = 0;
  std::int64_t never_ = -1;  // the request whose worker always dies
  bool twice_ = false, same_host_ = true;
};

TEST_F(Units, AreNamedByWhatIsAsked) {
  WorkerRequest one = request(1), late = one;
  late.time_limit = 5;
  late.cache_directory = "/elsewhere";
  EXPECT_EQ(unit_key(one, "a"), unit_key(late, "a"));
  EXPECT_NE(unit_key(one, "a"), unit_key(request(2), "a"));
  EXPECT_NE(unit_key(one, "a"), unit_key(one, "b"));
}

TEST_F(Units, OneRequestThatIsPutInTwiceRunsOnce) {
  auto queue = open();
  const auto key = queue->add(request(7), "scope");
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(*queue->add(request(7), "scope"), *key);
  const auto outcome = finish(*queue, *key);
  ASSERT_TRUE(outcome && outcome->result);
  EXPECT_EQ(outcome->result->response.cpu_seconds, 7);
  EXPECT_EQ(runs_[7], 1);
  EXPECT_FALSE(queue->take(*key));
}

TEST_F(Units, ManyAreFollowedByOneQuestion) {
  reset({.nodes = 40});
  auto queue = open();
  std::vector<std::string> keys;
  for (int i = 0; i < 400; ++i) keys.push_back(*queue->add(request(i), "scope"));
  const double begun = clock_.monotonic();
  for (const std::string& key : keys) EXPECT_TRUE(finish(*queue, key)->result);
  EXPECT_EQ(queue->counts().submissions, 1u);
  EXPECT_LE(static_cast<double>(queue->counts().polls), clock_.monotonic() - begun + 1);
  EXPECT_LE(scheduler_->account().questions, queue->counts().polls);
}

TEST_F(Units, AnotherVersionIsRefusedWithBoth) {
  version_ = "9.9.9";
  auto queue = open();
  const auto outcome = finish(*queue, *queue->add(request(1), "scope"));
  ASSERT_TRUE(outcome && outcome->error);
  EXPECT_EQ(outcome->error->code, ErrorCode::kUnsupported);
  EXPECT_THAT(outcome->error->message, HasSubstr("9.9.9"));
  EXPECT_THAT(outcome->error->message, HasSubstr(kVersion));
  EXPECT_EQ(queue->counts().attempts, 1u);
}

TEST_F(Units, AFolderThatIsNotSharedIsNamed) {
  auto queue = open();
  ASSERT_TRUE(queue->add(request(1), "scope").ok());
  ASSERT_TRUE(queue->step().ok());
  ASSERT_TRUE(write_file_durably(options().root / "nonce", "of another folder\n").ok());
  clock_.advance(30);
  ASSERT_TRUE(queue->step().ok());
  ASSERT_FALSE(written_.ok());
  EXPECT_EQ(written_.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(written_.error().message, HasSubstr("another nonce"));
  EXPECT_THAT(written_.error().hint, HasSubstr("folder=DIR"));
}

TEST_F(Units, ClocksThatDifferChangeNothingAndAreSaid) {
  skew_ = 8;
  auto queue = open();
  EXPECT_TRUE(finish(*queue, *queue->add(request(1), "scope"))->result);
  EXPECT_NEAR(queue->clock_skew(), 8, 1.1);
  EXPECT_THAT(notes_, HasSubstr("8 s ahead of"));
}

TEST_F(Units, TheWaitForQuietIsBoundedOverAllOfThem) {
  node_waits_ = 20;
  QueueOptions patient = options();
  patient.wait_for_quiet = 30;
  auto queue = open(patient);
  const auto allowed = [&](std::int64_t number) {
    const std::string key = *queue->add(request(number), "scope");
    const auto order =
        record::parse_record<record::UnitOrder>(*read_file(UnitFolder(patient.root).order(key)), "order");
    EXPECT_TRUE(finish(*queue, key)->result);
    return order->wait_for_quiet;
  };
  EXPECT_EQ(allowed(1), 30);
  EXPECT_EQ(allowed(2), 10);
  EXPECT_EQ(allowed(3), 0);
}

TEST_F(Units, AFailureIsTriedAgainAndNamesItsNodeInTheEnd) {
  failures_left_ = 2;
  auto queue = open();
  EXPECT_TRUE(finish(*queue, *queue->add(request(1), "scope"))->result);
  EXPECT_EQ(runs_[1], 3);
  failures_left_ = 100;
  const auto outcome = finish(*queue, *queue->add(request(2), "scope"));
  ASSERT_TRUE(outcome && outcome->error);
  EXPECT_EQ(runs_[2], 3);
  EXPECT_THAT(outcome->error->message, HasSubstr("3 attempts failed"));
  EXPECT_THAT(outcome->error->message, HasSubstr("on node"));
  EXPECT_THAT(outcome->error->message, HasSubstr("no space left on device"));
}

TEST_F(Units, AResultThatIsNoneIsReplaced) {
  auto queue = open();
  const std::string key = *queue->add(request(1), "scope");
  ASSERT_TRUE(write_file_durably(UnitFolder(options().root).result(key), "{\"version\":1,").ok());
  EXPECT_TRUE(finish(*queue, key)->result);
}

TEST_F(Units, ABrokenClusterIsWaitedForAndThenNamed) {
  auto queue = open();
  scheduler_->hold("Priority");
  const std::string key = *queue->add(request(1), "scope");
  ASSERT_TRUE(queue->step().ok());
  scheduler_->set_reachable(false);
  const auto outcome = finish(*queue, key);
  ASSERT_TRUE(outcome && outcome->error);
  EXPECT_EQ(outcome->error->code, ErrorCode::kTimeout);
  EXPECT_GE(clock_.monotonic(), 1800);
  EXPECT_THAT(outcome->error->message, HasSubstr("was not reached for"));
  EXPECT_THAT(notes_, HasSubstr("cannot be reached"));
}

TEST_F(Units, AResultCountsWhileTheClusterIsAway) {
  auto queue = open();
  const std::string key = *queue->add(request(1), "scope");
  ASSERT_TRUE(queue->step().ok());
  scheduler_->set_reachable(false);
  EXPECT_TRUE(finish(*queue, key)->result);
}

TEST_F(Units, WhatNeverStartsIsAnErrorWithItsReason) {
  scheduler_->hold("PartitionTimeLimit");
  auto queue = open();
  const auto outcome = finish(*queue, *queue->add(request(1), "scope"));
  ASSERT_TRUE(outcome && outcome->error);
  EXPECT_THAT(outcome->error->message, HasSubstr("PartitionTimeLimit"));
  EXPECT_EQ(scheduler_->account().cancelled, 1u);
}

TEST_F(Units, ARefusalIsNotAskedAgain) {
  scheduler_->refuse_submissions(invalid("sbatch: error: invalid partition specified: gpuu"));
  auto queue = open();
  const auto outcome = finish(*queue, *queue->add(request(1), "scope"));
  ASSERT_TRUE(outcome && outcome->error);
  EXPECT_THAT(outcome->error->message, HasSubstr("gpuu"));
  EXPECT_EQ(queue->counts().submissions, 1u);
}

TEST_F(Units, AHungNodeLosesItsUnitAfterTheLimit) {
  reset({.duration = [](const std::string&) { return 1e6; }});
  auto queue = open();
  WorkerRequest slow = request(1);
  slow.time_limit = 60;
  const double begun = clock_.monotonic();
  const auto outcome = finish(*queue, *queue->add(slow, "scope"));
  ASSERT_TRUE(outcome && outcome->error);
  EXPECT_EQ(outcome->error->code, ErrorCode::kTimeout);
  EXPECT_LT(clock_.monotonic() - begun, 60 + 300 + 30);
  EXPECT_EQ(scheduler_->running(), 0u);
}

TEST_F(Units, MeasuringStaysOnOneDevice) {
  same_host_ = false;
  QueueOptions one = options();
  one.one_device = true;
  auto queue = open(one);
  ASSERT_TRUE(finish(*queue, *queue->add(request(1, WorkerTask::kEvaluate), "scope"))->result);
  const std::string first = queue->device()->host;
  // The scripted scheduler does not heed the node that it is asked for: the result is refused.
  const std::string blocker = *queue->add(request(2), "scope");
  ASSERT_TRUE(advance(*queue, [&] { return scheduler_->runs(blocker); }));
  const auto outcome = finish(*queue, *queue->add(request(3, WorkerTask::kEvaluate), "scope"));
  if (outcome->error) {
    EXPECT_EQ(outcome->error->code, ErrorCode::kConflict);
    EXPECT_THAT(outcome->error->message, HasSubstr(first));
  } else {
    EXPECT_EQ(outcome->result->place.host, first);
  }
  // A later process holds to the same one.
  auto later = open(one);
  ASSERT_TRUE(later->device());
  EXPECT_EQ(later->device()->host, first);
}

TEST_F(Units, WhatAnEarlierProcessLeftAndIsNotAskedAgainIsCancelled) {
  {
    auto queue = open();
    ASSERT_TRUE(queue->add(request(1), "scope").ok());
    ASSERT_TRUE(queue->step().ok());
  }
  auto queue = open();
  EXPECT_TRUE(finish(*queue, *queue->add(request(2), "scope"))->result);
  EXPECT_EQ(scheduler_->account().cancelled, 1u);
  EXPECT_EQ(runs_[1], 0);
}

// Everything that can happen, in every state of a unit: none is lost, none counts twice, the outcome is the same.
enum class When { kOrdered, kHandedOver, kRunning, kEnded };
enum class What {
  kNothing,
  kEngineDies,
  kEngineDiesTwice,
  kNodeDies,
  kNodeDiesForGood,
  kPreempted,
  kDropped,
  kControllerAway,
  kAnswerLost,
  kRunsTwice,
  kMarkerLost
};
class KillMatrix : public Units, public ::testing::WithParamInterface<std::tuple<When, What>> {};

TEST_P(KillMatrix, GivesTheSameOutcome) {
  const auto [when, what] = GetParam();
  reset({.requeue = what != What::kNodeDiesForGood});
  if (what == What::kAnswerLost) scheduler_->lose_next_answer();
  twice_ = what == What::kRunsTwice;
  auto queue = open();
  std::string key = *queue->add(request(5), "scope");
  if (when == When::kHandedOver) {
    scheduler_->hold("Priority");
    ASSERT_TRUE(queue->step().ok());
  }
  if (when == When::kRunning) {
    ASSERT_TRUE(queue->step().ok());
    clock_.advance(3);
    ASSERT_TRUE(queue->step().ok());
  }
  if (when == When::kEnded) {
    ASSERT_TRUE(queue->step().ok());
    clock_.advance(60);
    static_cast<void>(scheduler_->client()->jobs(""));  // the node has written its result, which was not looked at
  }
  switch (what) {
    case What::kEngineDies: queue = open(); break;
    case What::kEngineDiesTwice:
      queue = open();
      ASSERT_EQ(*queue->add(request(5), "scope"), key);
      ASSERT_TRUE(queue->step().ok());
      queue = open();
      break;
    case What::kNodeDies:
    case What::kNodeDiesForGood: scheduler_->fail_node_of(key); break;
    case What::kPreempted: scheduler_->preempt(key); break;
    case What::kDropped: scheduler_->drop(key); break;
    case What::kControllerAway:
      scheduler_->set_reachable(false);
      for (int i = 0; i < 600; ++i) {
        ASSERT_TRUE(queue->step().ok());
        clock_.advance(0.5);
      }
      scheduler_->set_reachable(true);
      break;
    case What::kMarkerLost: {
      const UnitFolder folder(options().root);
      std::error_code ignored;
      std::filesystem::remove(folder.done() / key, ignored);
      break;
    }
    default: break;
  }
  scheduler_->hold("");
  EXPECT_EQ(*queue->add(request(5), "scope"), key);
  const auto outcome = finish(*queue, key);
  ASSERT_TRUE(outcome);
  ASSERT_TRUE(outcome->result) << outcome->error->text();
  EXPECT_EQ(outcome->result->response.cpu_seconds, 5);
  EXPECT_EQ(queue->in_flight(), 0u);
  EXPECT_EQ(queue->waiting(), 0u);
  // Nothing of it runs on.
  clock_.advance(100);
  static_cast<void>(scheduler_->client()->jobs(""));
  EXPECT_EQ(scheduler_->running(), 0u);
  EXPECT_EQ(runs_[5], 1);
}

INSTANTIATE_TEST_SUITE_P(All, KillMatrix,
                         ::testing::Combine(::testing::Values(When::kOrdered, When::kHandedOver, When::kRunning,
                                                              When::kEnded),
                                            ::testing::Values(What::kNothing, What::kEngineDies, What::kEngineDiesTwice,
                                                              What::kNodeDies, What::kNodeDiesForGood, What::kPreempted,
                                                              What::kDropped, What::kControllerAway, What::kAnswerLost,
                                                              What::kRunsTwice, What::kMarkerLost)));

// Jobs that take several units, one after the other.
class SharedJobs : public Units {
 protected:
  SharedJobs() { share({}); }

  // Jobs take units as the processes on nodes do, by the files of the folder.
  void share(ScriptedClusterOptions options, JobSharing sharing = {.most = 0, .stay = 0}) {
    options.sharing = sharing;
    options.take = [this](const auto& root, const auto& batch, std::size_t number, const auto& node, bool first) {
      return take_on(root, batch, number, node, first);
    };
    options.execute = [this](const auto&, const auto& batch, std::size_t number, const auto&) {
      written_ = processes_.at({batch, number})->job->work();
    };
    scheduler_ = std::make_unique<ScriptedScheduler>(clock_, std::move(options));
  }
  // A process on a node, as long as its job runs.
  struct Process {
    UnitHost host;
    std::optional<UnitJob> job;
  };
  std::unique_ptr<Process> process(const std::filesystem::path& root, const std::string& batch, std::size_t number,
                                   const std::string& node) {
    const record::UnitPlace place{node, "host", "processor", ""};
    auto made = std::make_unique<Process>(
        Process{UnitHost{version_, root / "cache", place, clock_,
                         [this](const record::UnitOrder&) { return std::make_unique<Forward>(worker_, clock_, 0, 0); }},
                std::nullopt});
    auto job = UnitJob::open(root, batch, number, made->host);
    EXPECT_TRUE(job.ok()) << job.error().text();
    if (job) made->job = std::move(*job);
    return made;
  }
  std::optional<std::string> take_on(const std::filesystem::path& root, const std::string& batch, std::size_t number,
                                     const std::string& node, bool first) {
    std::unique_ptr<Process>& there = processes_[{batch, number}];
    if (first) there = process(root, batch, number, node);
    const auto key = there->job->take();
    EXPECT_TRUE(key.ok());
    if (*key) order_.push_back(**key);
    return *key;
  }

  std::vector<std::string> put_in(UnitQueue& queue, std::int64_t count, WorkerTask task = WorkerTask::kBuild) {
    std::vector<std::string> keys;
    for (std::int64_t i = 0; i < count; ++i) keys.push_back(*queue.add(request(i, task), "scope"));
    return keys;
  }
  // Every unit has its result, and ran once.
  void expect_all(UnitQueue& queue, const std::vector<std::string>& keys) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto outcome = finish(queue, keys[i]);
      ASSERT_TRUE(outcome && outcome->result) << i << ": " << (outcome ? outcome->error->text() : "no outcome");
      EXPECT_EQ(outcome->result->response.cpu_seconds, static_cast<double>(i));
      EXPECT_EQ(runs_[static_cast<std::int64_t>(i)], 1) << i;
    }
    EXPECT_EQ(queue.in_flight() + queue.waiting(), 0u);
  }
  [[nodiscard]] record::UnitBatch batch_of_unit(const std::string& key) {
    const UnitFolder folder(options().root);
    const auto job = record::parse_record<record::UnitSubmission>(*read_file(folder.job(key)), "job");
    return *batch_of(folder, job->batch);
  }
  bool until_runs(UnitQueue& queue, const std::string& key) {
    return advance(queue, [&] { return scheduler_->runs(key); });
  }

  std::map<std::pair<std::string, std::size_t>, std::unique_ptr<Process>> processes_;
  std::vector<std::string> order_;  // of the units, as they were taken
};

TEST_F(SharedJobs, OneJobTakesAllInTheirOrder) {
  share({.nodes = 4, .jobs = 1});
  auto queue = open();
  const std::vector<std::string> keys = put_in(*queue, 20);
  const double begun = clock_.monotonic();
  expect_all(*queue, keys);
  EXPECT_EQ(order_, keys);
  EXPECT_EQ(queue->counts().submissions, 1u);
  EXPECT_EQ(scheduler_->account().largest_answer, 1u);
  EXPECT_NEAR(clock_.monotonic() - begun, 1 + 20 * 10, 3);
}

TEST_F(SharedJobs, ALongUnitKeepsNoOtherWaiting) {
  share({.jobs = 2, .duration = [n = 0](const std::string&) mutable { return n++ == 0 ? 80.0 : 10.0; }});
  auto queue = open();
  const std::vector<std::string> keys = put_in(*queue, 9);
  const double begun = clock_.monotonic();
  expect_all(*queue, keys);
  EXPECT_NEAR(clock_.monotonic() - begun, 1 + 80, 3);
}

TEST_F(SharedJobs, MoreJobsThanAreNeededGoWhenNothingIsLeftForThem) {
  share({.nodes = 2});
  auto queue = open();
  expect_all(*queue, put_in(*queue, 30));
  static_cast<void>(queue->step());
  EXPECT_EQ(scheduler_->account().starts, 30u);
  EXPECT_EQ(scheduler_->client()->jobs("")->size(), 0u);
  EXPECT_EQ(scheduler_->account().cancelled, 28u);
}

TEST_F(SharedJobs, WhatMeasuresHasAJobOfItsOwn) {
  share({.nodes = 1});
  auto queue = open();
  const std::vector<std::string> keys = put_in(*queue, 3, WorkerTask::kEvaluate);
  ASSERT_TRUE(queue->step().ok());
  EXPECT_EQ(batch_of_unit(keys[0]).jobs, 0);
  EXPECT_EQ(scheduler_->client()->jobs("")->size(), 3u);
  expect_all(*queue, keys);
}

TEST_F(SharedJobs, AJobTakesNoMoreThanItMay) {
  share({.nodes = 8}, {.most = 3, .stay = 0});
  auto queue = open();
  const std::vector<std::string> keys = put_in(*queue, 10);
  ASSERT_TRUE(queue->step().ok());
  EXPECT_EQ(scheduler_->client()->jobs("")->size(), 4u);
  const double begun = clock_.monotonic();
  expect_all(*queue, keys);
  EXPECT_NEAR(clock_.monotonic() - begun, 1 + 30, 3);
}

TEST_F(SharedJobs, AJobThatHasStayedLongEnoughLeavesTheRestToAnother) {
  share({.jobs = 1}, {.most = 0, .stay = 35});
  auto queue = open();
  const double begun = clock_.monotonic();
  expect_all(*queue, put_in(*queue, 12));
  EXPECT_EQ(queue->counts().submissions, 3u);
  EXPECT_EQ(queue->counts().failed + queue->counts().lost, 0u);
  EXPECT_LT(clock_.monotonic() - begun, 12 * 10 + 3 * 5);  // it says that it leaves, and is not waited for
}

TEST_F(SharedJobs, OneThatFailsGoesAloneAndLeavesTheOthersAlone) {
  share({.jobs = 2});
  never_ = 2;
  auto queue = open();
  std::vector<std::string> keys = put_in(*queue, 8);
  const auto outcome = finish(*queue, keys[2]);
  ASSERT_TRUE(outcome && outcome->error);
  EXPECT_THAT(outcome->error->message, HasSubstr("3 attempts failed"));
  EXPECT_EQ(runs_[2], 3);
  EXPECT_EQ(batch_of_unit(keys[2]).jobs, 0);
  for (const std::int64_t i : {0, 1, 3, 4, 5, 6, 7}) {
    EXPECT_TRUE(finish(*queue, keys[static_cast<std::size_t>(i)])->result) << i;
    EXPECT_EQ(runs_[i], 1) << i;
  }
}

// A unit that kills the job that runs it takes no other along, and no second time in company.
TEST_F(SharedJobs, AUnitThatKillsItsJobLosesNothingElse) {
  for (const std::size_t jobs : {1u, 2u}) {
    share({.jobs = jobs});
    runs_.clear();
    auto queue = open();
    std::vector<std::string> keys;
    for (std::int64_t i = 0; i < 8; ++i) keys.push_back(*queue->add(request(i), fmt::format("{} jobs", jobs)));
    std::optional<UnitOutcome> killer;
    int kills = 0;
    ASSERT_TRUE(advance(*queue, [&] {
      if (scheduler_->runs(keys[3])) {
        EXPECT_EQ(batch_of_unit(keys[3]).jobs > 0, kills == 0);
        scheduler_->drop(keys[3]);
        ++kills;
      }
      return (killer = queue->take(keys[3])).has_value();
    }));
    ASSERT_TRUE(killer->error);
    EXPECT_THAT(killer->error->message, HasSubstr("3 attempts failed"));
    EXPECT_EQ(kills, 3);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (i == 3) continue;
      EXPECT_TRUE(finish(*queue, keys[i])->result) << i;
      EXPECT_EQ(runs_[static_cast<std::int64_t>(i)], 1) << i;
    }
  }
}

TEST_F(SharedJobs, AJobThatIsLostIsReplacedWhileTheOthersGoOn) {
  share({.jobs = 2});
  auto queue = open();
  const std::vector<std::string> keys = put_in(*queue, 30);
  ASSERT_TRUE(until_runs(*queue, keys[1]));
  const double begun = clock_.monotonic();
  scheduler_->drop(keys[1]);
  expect_all(*queue, keys);
  EXPECT_LT(clock_.monotonic() - begun, 30 * 10 * 0.65);  // one alone would need 290 s
  EXPECT_GE(queue->counts().submissions, 2u);
}

TEST_F(SharedJobs, JobsThatDieBeforeTheyTakeAnythingAreAFailure) {
  share({.jobs = 2, .start_delay = 1});
  scheduler_->hold("Resources");
  auto queue = open();
  const std::vector<std::string> keys = put_in(*queue, 4);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(advance(*queue, [&] { return scheduler_->client()->jobs("")->size() == 2; }));
    ASSERT_TRUE(advance(*queue, [n = 0]() mutable { return n++ > 8; }));  // they are seen
    const Result<std::vector<ClusterJob>> jobs = scheduler_->client()->jobs("");
    std::vector<std::string> ids;
    for (const ClusterJob& job : *jobs) ids.push_back(job.id);
    ASSERT_TRUE(scheduler_->client()->cancel(ids).ok());
    ASSERT_TRUE(advance(*queue, [&] { return queue->counts().lost >= 4u * static_cast<unsigned>(i + 1); }));
  }
  for (const std::string& key : keys) {
    const auto outcome = finish(*queue, key);
    ASSERT_TRUE(outcome && outcome->error);
    EXPECT_THAT(outcome->error->message, HasSubstr("NODE_FAIL"));
  }
}

TEST_F(SharedJobs, ACancelledUnitLeavesTheOthersAlone) {
  share({.jobs = 1});
  auto queue = open();
  std::vector<std::string> keys = put_in(*queue, 6);
  ASSERT_TRUE(until_runs(*queue, keys[0]));
  ASSERT_TRUE(queue->cancel({keys[3]}).ok());  // not begun: its job goes on
  EXPECT_EQ(scheduler_->account().cancelled, 0u);
  ASSERT_TRUE(until_runs(*queue, keys[1]));
  ASSERT_TRUE(queue->cancel({keys[1]}).ok());  // what runs is stopped, and the rest handed over again
  EXPECT_EQ(scheduler_->account().cancelled, 1u);
  for (const std::size_t i : {0u, 2u, 4u, 5u}) EXPECT_TRUE(finish(*queue, keys[i])->result) << i;
  EXPECT_EQ(runs_[1] + runs_[3], 0);
  EXPECT_EQ(runs_[0] + runs_[2] + runs_[4] + runs_[5], 4);
  EXPECT_EQ(queue->counts().failed, 0u);
}

TEST_F(SharedJobs, WhatIsNotAskedAgainIsNotRun) {
  share({.jobs = 1});
  std::vector<std::string> keys;
  {
    auto queue = open();
    keys = put_in(*queue, 6);
    ASSERT_TRUE(until_runs(*queue, keys[0]));
  }
  auto queue = open();
  for (const std::int64_t i : {2, 4}) ASSERT_EQ(*queue->add(request(i), "scope"), keys[static_cast<std::size_t>(i)]);
  for (const std::size_t i : {2u, 4u}) EXPECT_TRUE(finish(*queue, keys[i])->result) << i;
  clock_.advance(100);
  static_cast<void>(scheduler_->client()->jobs(""));
  EXPECT_EQ(runs_[2] + runs_[4], 2);
  EXPECT_EQ(runs_[0] + runs_[1] + runs_[3] + runs_[5], 0);
}

// Who asked has all answers, and its folder is gone, as that of a command is: a job that starts now leaves nothing
// there.
TEST_F(SharedJobs, AJobThatStartsAfterTheEndLeavesNothing) {
  share({.jobs = 2});
  scheduler_->hold("Priority");
  auto queue = open();
  put_in(*queue, 4);
  ASSERT_TRUE(queue->step().ok());
  const std::string batch = scheduler_->client()->jobs("")->front().batch;
  const std::filesystem::path root = options().root;
  auto late = process(root, batch, 1, "node0");
  ASSERT_TRUE(*late->job->take());
  ASSERT_TRUE(late->job->work().ok());
  std::filesystem::remove_all(root);
  EXPECT_FALSE(*late->job->take());
  EXPECT_FALSE(std::filesystem::exists(root));
}

TEST_F(SharedJobs, UnitsAreSpreadOverTheJobsThatMayRun) {
  share({.nodes = 4, .jobs = 4});
  auto queue = open();
  const std::vector<std::string> keys = put_in(*queue, 900);  // two batches
  ASSERT_TRUE(queue->step().ok());
  EXPECT_EQ(queue->counts().submissions, 2u);
  EXPECT_EQ(scheduler_->client()->jobs("")->size(), 4u);
  EXPECT_EQ(batch_of_unit(keys[0]).jobs, 2);
  EXPECT_EQ(batch_of_unit(keys[0]).units.size(), 500u);
  EXPECT_EQ(batch_of_unit(keys[899]).jobs, 2);
  ASSERT_TRUE(queue->cancel(keys).ok());
  EXPECT_EQ(scheduler_->client()->jobs("")->size(), 0u);
}

// Two processes of one job, as when a node was believed to be lost: no unit is begun by both.
TEST_F(SharedJobs, AJobThatRunsTwiceBeginsNothingTwice) {
  share({.jobs = 1});
  scheduler_->hold("Priority");
  auto queue = open();
  const std::vector<std::string> keys = put_in(*queue, 6);
  ASSERT_TRUE(queue->step().ok());
  const std::string batch = scheduler_->client()->jobs("")->front().batch;
  const std::filesystem::path root = options().root;
  auto first = process(root, batch, 0, "node0");
  std::vector<std::string> begun = {**first->job->take()};
  auto second = process(root, batch, 0, "node1");
  const UnitFolder folder(root);
  EXPECT_TRUE(std::filesystem::exists(folder.failed(begun[0], 1))) << "what the first had is given back";
  for (int i = 0; i < 2; ++i) {
    begun.push_back(**second->job->take());
    ASSERT_TRUE(second->job->work().ok());
    ASSERT_TRUE(first->job->work().ok());
    begun.push_back(**first->job->take());
  }
  ASSERT_TRUE(first->job->work().ok());
  begun.push_back(**second->job->take());
  ASSERT_TRUE(second->job->work().ok());
  EXPECT_FALSE(*first->job->take());
  EXPECT_FALSE(*second->job->take());
  std::ranges::sort(begun);
  std::vector<std::string> all = keys;
  std::ranges::sort(all);
  EXPECT_EQ(begun, all);
  expect_all(*queue, keys);  // the result of the first counts, although it was given back
}

// What happens to one of several units in a shared job, in every state: each has one result, and none ran twice.
class SharedKillMatrix : public SharedJobs, public ::testing::WithParamInterface<std::tuple<When, What>> {};

TEST_P(SharedKillMatrix, GivesTheSameOutcome) {
  const auto [when, what] = GetParam();
  share({.jobs = 2, .requeue = what != What::kNodeDiesForGood});
  if (what == What::kAnswerLost) scheduler_->lose_next_answer();
  auto queue = open();
  std::vector<std::string> keys = put_in(*queue, 7);
  if (when == When::kHandedOver) {
    scheduler_->hold("Priority");
    ASSERT_TRUE(queue->step().ok());
  }
  if (when == When::kRunning) {
    ASSERT_TRUE(until_runs(*queue, keys[2]));
    ASSERT_TRUE(queue->step().ok());
  }
  if (when == When::kEnded) {
    ASSERT_TRUE(queue->step().ok());
    clock_.advance(60);
    static_cast<void>(scheduler_->client()->jobs(""));
  }
  switch (what) {
    case What::kEngineDies: queue = open(); break;
    case What::kEngineDiesTwice:
      queue = open();
      ASSERT_EQ(put_in(*queue, 7), keys);
      ASSERT_TRUE(queue->step().ok());
      queue = open();
      break;
    case What::kNodeDies:
    case What::kNodeDiesForGood: scheduler_->fail_node_of(keys[2]); break;
    case What::kPreempted: scheduler_->preempt(keys[2]); break;
    case What::kDropped: scheduler_->drop(keys[2]); break;
    case What::kControllerAway:
      scheduler_->set_reachable(false);
      for (int i = 0; i < 600; ++i) {
        ASSERT_TRUE(queue->step().ok());
        clock_.advance(0.5);
      }
      scheduler_->set_reachable(true);
      break;
    case What::kMarkerLost: {
      const UnitFolder folder(options().root);
      std::error_code ignored;
      std::filesystem::remove(folder.done() / keys[2], ignored);
      break;
    }
    default: break;
  }
  scheduler_->hold("");
  EXPECT_EQ(put_in(*queue, 7), keys);
  expect_all(*queue, keys);
  clock_.advance(100);
  static_cast<void>(scheduler_->client()->jobs(""));
  EXPECT_EQ(scheduler_->running(), 0u);
}

INSTANTIATE_TEST_SUITE_P(
    All, SharedKillMatrix,
    ::testing::Combine(::testing::Values(When::kOrdered, When::kHandedOver, When::kRunning, When::kEnded),
                       ::testing::Values(What::kNothing, What::kEngineDies, What::kEngineDiesTwice, What::kNodeDies,
                                         What::kNodeDiesForGood, What::kPreempted, What::kDropped,
                                         What::kControllerAway, What::kAnswerLost, What::kMarkerLost)));

TEST_F(SharedJobs, AStopOfTheExecutorEndsThemAll) {
  share({.jobs = 2});
  auto made = make_cluster_executor(scheduler_->client(), clock_,
                                    {options(), {}, [this](double seconds) { clock_.advance(seconds); }});
  ASSERT_TRUE(made.ok());
  std::vector<WorkerRequest> requests;
  for (std::int64_t i = 0; i < 6; ++i) requests.push_back(request(i));
  const double begun = clock_.monotonic();
  const auto answers = (*made)->run_all(requests, {}, [&] { return clock_.monotonic() - begun > 15; });
  for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].ok(), i < 2) << i;
  EXPECT_EQ(scheduler_->account().cancelled, 2u);
  clock_.advance(100);
  static_cast<void>(scheduler_->client()->jobs(""));
  EXPECT_EQ(scheduler_->running(), 0u);
  EXPECT_EQ(order_.size(), 4u);
}

TEST_F(SharedJobs, ActiveTimeIsTheTimeInWhichAnyOfThemWorked) {
  share({.jobs = 1, .start_delay = 40});
  auto made = make_cluster_executor(scheduler_->client(), clock_,
                                    {options(), {}, [this](double seconds) { clock_.advance(seconds); }});
  ASSERT_TRUE(made.ok());
  std::map<std::size_t, std::string> seen;
  std::vector<WorkerRequest> requests = {request(0), request(1)};
  const auto answers = (*made)->run_all(
      requests, [&](std::size_t part, const record::Progress& now) { seen[part] += now.stage + now.detail + "\n"; });
  for (const auto& one : answers) EXPECT_TRUE(one.ok());
  EXPECT_THAT(seen[1], HasSubstr("behind others of its batch"));
  EXPECT_THAT(seen[1], HasSubstr("on node"));
}

// Nodes that fail by chance, and an engine that dies every now and then.
TEST_F(SharedJobs, ManyUnitsOnNodesThatFailEndOnce) {
  share({.nodes = 5, .jobs = 5, .failures_per_hour = 0.999, .repair_time = 30, .seed = 4}, {.most = 0, .stay = 120});
  auto queue = open();
  std::vector<std::string> keys = put_in(*queue, 200);
  std::map<std::string, double> answers;
  int step = 0;
  while (answers.size() < keys.size() && step < 20'000) {
    if (++step % 400 == 0) {
      queue = open();
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (answers.contains(keys[i])) continue;
        ASSERT_EQ(*queue->add(request(static_cast<std::int64_t>(i)), "scope"), keys[i]);
      }
    }
    ASSERT_TRUE(queue->step().ok());
    for (const std::string& key : queue->take_ended()) {
      const auto outcome = queue->take(key);
      ASSERT_TRUE(outcome->result) << outcome->error->text();
      answers[key] = outcome->result->response.cpu_seconds;
    }
    clock_.advance(queue->pause());
  }
  EXPECT_EQ(answers.size(), keys.size());
  EXPECT_GT(scheduler_->account().failures, 5u);
  for (std::int64_t i = 0; i < 200; ++i) {
    EXPECT_EQ(runs_[i], 1) << i;
    EXPECT_EQ(answers[keys[static_cast<std::size_t>(i)]], static_cast<double>(i));
  }
}

// The executor on top: what an engine sees.
class ThroughACluster : public Units {
 protected:
  std::unique_ptr<Executor> executor(std::function<std::string()> scope) {
    auto made =
        make_cluster_executor(scheduler_->client(), clock_,
                              {options(), std::move(scope), [this](double seconds) { clock_.advance(seconds); }});
    EXPECT_TRUE(made.ok()) << made.error().text();
    return std::move(*made);
  }
};

TEST_F(ThroughACluster, AsksAgainInOneProcessAndNotAfterAKill) {
  const auto scope = [] { return std::string("three effects"); };
  {
    auto engine = executor(scope);
    EXPECT_TRUE(engine->run(request(1)).ok());
    EXPECT_TRUE(engine->run(request(1)).ok());
    EXPECT_EQ(runs_[1], 2);  // it was asked for twice
  }
  auto engine = executor(scope);  // after a kill, nothing recorded
  EXPECT_TRUE(engine->run(request(1)).ok());
  EXPECT_TRUE(engine->run(request(1)).ok());
  EXPECT_EQ(runs_[1], 2);
  EXPECT_TRUE(engine->run(request(1)).ok());
  EXPECT_EQ(runs_[1], 3);
}

TEST_F(ThroughACluster, WhatWasRecordedIsAskedAnew) {
  std::string scope = "three effects";
  auto engine = executor([&] { return scope; });
  EXPECT_TRUE(engine->run(request(1)).ok());
  scope = "four effects";
  EXPECT_TRUE(engine->run(request(1)).ok());
  EXPECT_EQ(runs_[1], 2);
  int folders = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator(options().root / "units")) ++folders;
  EXPECT_EQ(folders, 1);  // that of the earlier scope is gone
}

TEST_F(ThroughACluster, AStopCancelsTheJob) {
  auto engine = executor({});
  int looks = 0;
  const auto response = engine->run(request(1), {}, [&] { return ++looks > 4; });
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().code, ErrorCode::kConflict);
  EXPECT_EQ(scheduler_->account().cancelled, 1u);
  clock_.advance(100);
  EXPECT_EQ(runs_[1], 0);
}

TEST_F(ThroughACluster, WaitingInTheQueueIsNoActiveTime) {
  scheduler_->hold("Priority");
  auto engine = executor({});
  std::string seen;
  const double begun = clock_.monotonic();
  const auto response = engine->run(request(1), [&](const record::Progress& now) {
    seen += now.stage + " " + now.detail + "\n";
    if (clock_.monotonic() - begun > 500) scheduler_->hold("");
  });
  ASSERT_TRUE(response.ok()) << response.error().text();
  EXPECT_NEAR(engine->waited(), clock_.monotonic() - begun, 1e-9);
  EXPECT_GE(engine->waited(), 500);
  EXPECT_THAT(seen, HasSubstr("waiting for the scripted cluster Priority"));
}

// However seldom the cluster is asked: a unit may begin and end between two questions.
TEST_F(ThroughACluster, ActiveTimeIsTheTimeThatTheUnitWorked) {
  node_takes_ = 0.75, node_waits_ = 0.25;
  auto engine = executor({});
  double waited = 0;
  for (int i = 0; i < 3; ++i) {
    const double begun = clock_.monotonic();
    ASSERT_TRUE(engine->run(request(i)).ok());
    const double passed = clock_.monotonic() - begun;
    EXPECT_NEAR(passed - (engine->waited() - waited), 0.5, 1e-9);
    waited = engine->waited();
  }
}

TEST_F(ThroughACluster, WorkWhileNoEngineWasThereIsActiveTime) {
  node_takes_ = 40, node_waits_ = 10;
  const auto scope = [] { return std::string("three effects"); };
  {
    auto queue = open();
    ASSERT_TRUE(queue->add(request(1), "three effects 0").ok());
    ASSERT_TRUE(queue->step().ok());
  }
  clock_.advance(100);
  auto engine = executor(scope);
  const double begun = clock_.monotonic();
  ASSERT_TRUE(engine->run(request(1)).ok());
  EXPECT_EQ(runs_[1], 1);
  EXPECT_NEAR(engine->waited(), clock_.monotonic() - begun - 30, 1e-9);
}

// Several at once: what the executor promises of each alone, and their order.
class SeveralAtOnce : public ThroughACluster {
 protected:
  static std::vector<WorkerRequest> requests(std::initializer_list<std::int64_t> numbers) {
    std::vector<WorkerRequest> all;
    for (const std::int64_t number : numbers) all.push_back(request(number));
    return all;
  }
  // In words: the number that was answered, or the error.
  static std::vector<std::string> words(const std::vector<Result<WorkerResponse>>& answers) {
    std::vector<std::string> all;
    for (const auto& one : answers) {
      all.push_back(one ? fmt::format("{}", one->cpu_seconds) : std::string(to_string(one.error().code)));
    }
    return all;
  }
};

TEST_F(SeveralAtOnce, AreAnsweredInTheirOrderAndFollowedByOneQuestion) {
  // The first ones take longest.
  reset({.nodes = 4, .duration = [n = 0](const std::string&) mutable { return 40.0 - 10.0 * (n++ % 4); }});
  auto engine = executor({});
  EXPECT_EQ(engine->width(), 4u);
  std::map<std::size_t, std::string> seen;
  const double begun = clock_.monotonic();
  const auto answers = engine->run_all(
      requests({7, 6, 5, 4}), [&](std::size_t part, const record::Progress& now) { seen[part] += now.stage + "\n"; });
  EXPECT_EQ(words(answers), (std::vector<std::string>{"7", "6", "5", "4"}));
  EXPECT_EQ(scheduler_->account().submissions, 1u);
  EXPECT_LE(static_cast<double>(scheduler_->account().questions), clock_.monotonic() - begun + 1);
  EXPECT_EQ(scheduler_->account().largest_answer, 4u);
  ASSERT_EQ(seen.size(), 4u);
  for (const auto& [part, stages] : seen) EXPECT_THAT(stages, HasSubstr("on node")) << part;
  EXPECT_TRUE(engine->run_all({}).empty());
}

TEST_F(SeveralAtOnce, OneThatFailsLeavesTheOthersAlone) {
  never_ = 2;
  auto engine = executor({});
  const auto answers = engine->run_all(requests({1, 2, 3}));
  EXPECT_EQ(words(answers), (std::vector<std::string>{"1", to_string(ErrorCode::kToolFailed), "3"}));
  EXPECT_THAT(answers[1].error().message, HasSubstr("killed by signal 9"));
  EXPECT_EQ(runs_[2], 3);
  EXPECT_EQ(runs_[1] + runs_[3], 2);
}

TEST_F(SeveralAtOnce, AStopCancelsAllThatHaveNoAnswer) {
  auto engine = executor({});  // two nodes
  const double begun = clock_.monotonic();
  const auto answers = engine->run_all(requests({1, 2, 3, 4}), {}, [&] { return clock_.monotonic() - begun > 15; });
  const std::string stopped = to_string(ErrorCode::kConflict);
  EXPECT_EQ(words(answers), (std::vector<std::string>{"1", "2", stopped, stopped}));
  EXPECT_EQ(scheduler_->account().cancelled, 2u);
  clock_.advance(100);
  EXPECT_EQ(runs_[3] + runs_[4], 0);
}

TEST_F(SeveralAtOnce, EqualOnesRunEachAndOnceOverACrash) {
  struct Killed {};
  const auto scope = [] { return std::string("three effects"); };
  const auto asked = requests({1, 1, 2, 1});
  {
    const double end = clock_.monotonic() + 15;  // two have ended, two run
    auto doomed = make_cluster_executor(scheduler_->client(), clock_, {options(), scope, [&](double seconds) {
                                                                         clock_.advance(seconds);
                                                                         if (clock_.monotonic() > end) throw Killed{};
                                                                       }});
    ASSERT_TRUE(doomed.ok());
    EXPECT_THROW(static_cast<void>((*doomed)->run_all(asked)), Killed);
  }
  EXPECT_EQ(runs_[1] + runs_[2], 2);
  clock_.advance(3);
  auto engine = executor(scope);
  EXPECT_EQ(words(engine->run_all(asked)), (std::vector<std::string>{"1", "1", "2", "1"}));
  EXPECT_EQ(runs_[1], 3);
  EXPECT_EQ(runs_[2], 1);
  EXPECT_EQ(scheduler_->account().cancelled, 0u);
  // Asked once more in this scope: another asking.
  EXPECT_TRUE(engine->run(request(1)).ok());
  EXPECT_EQ(runs_[1], 4);
}

TEST_F(SeveralAtOnce, AnEqualOneThatFailedIsAskedAnewAndNotForTheOthersResult) {
  reset({.nodes = 1});  // in their order
  timeouts_left_ = 1;
  auto engine = executor([] { return std::string("a scope"); });
  EXPECT_EQ(words(engine->run_all(requests({1, 1}))), (std::vector<std::string>{to_string(ErrorCode::kTimeout), "1"}));
  EXPECT_EQ(runs_[1], 2);
  EXPECT_TRUE(engine->run(request(1)).ok());
  EXPECT_EQ(runs_[1], 3);
}

TEST_F(SeveralAtOnce, ActiveTimeIsTheTimeInWhichAnyOfThemWorked) {
  node_takes_ = 6, node_waits_ = 1;
  for (const auto& [nodes, active] : {std::pair(2u, 5.0), {1u, 10.0}}) {
    reset({.nodes = nodes});
    auto engine = executor({});
    const double begun = clock_.monotonic();
    for (const auto& one : engine->run_all(requests({1, 2}))) ASSERT_TRUE(one.ok());
    EXPECT_NEAR(clock_.monotonic() - begun - engine->waited(), active, 1e-9) << nodes;
  }
}

TEST_F(ThroughACluster, ANodeThatClaimsToHaveWorkedForADayIsNotBelieved) {
  node_takes_ = 86'400;
  auto engine = executor({});
  const double begun = clock_.monotonic();
  ASSERT_TRUE(engine->run(request(1)).ok());
  EXPECT_NEAR(engine->waited(), 0, 1e-9);
  EXPECT_LT(clock_.monotonic() - begun, 100);
}

}  // namespace
}  // namespace ridge::execute

// A whole campaign whose measurements are units on a scripted cluster: engine, nodes and controller end at any moment,
// and the journal says the same.
#include <gmock/gmock.h>

#include <regex>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "campaign/world.h"
#include "execute/scripted_cluster.h"
#include "execute/unit_queue.h"
#include "front.h"
#include "record/json.h"

namespace ridge::service::test {
namespace {

using campaign::test::make_candidate;
using campaign::test::make_proposal;

struct Killed {};

// The world of campaign tests, with a cluster between the engine and its worker.
class ClusterWorld {
 public:
  ClusterWorld() : scheduler_(world_.clock, options()) { EXPECT_TRUE(world_.create()); }

  // An engine, which is killed when the queue has waited so often; true: it came to the end.
  bool run(int pauses_until_kill = -1) {
    left_ = pauses_until_kill;
    const campaign::Engine* running = nullptr;
    const auto scope = [&] {
      const campaign::State& state = running->state();
      return fmt::format("{} {}", state.first_hash, state.costs.size());
    };
    execute::QueueOptions queue;
    queue.root = world_.base() / "units";
    queue.version = "test";
    auto executor = execute::make_cluster_executor(scheduler_.client(), world_.clock,
                                                   {queue, scope, [this](double s) { pause(s); }});
    EXPECT_TRUE(executor) << executor.error().text();
    campaign::EngineOptions engine_options;
    engine_options.directory = world_.path();
    engine_options.data = source_dir() / "data";
    try {
      auto engine = campaign::Engine::open(
          engine_options, campaign::Services{**executor, world_.proposer, world_.clock, world_.git.get()});
      EXPECT_TRUE(engine) << engine.error().text();
      running = engine->get();
      const auto result = (*engine)->run();
      EXPECT_TRUE(result) << result.error().text();
      return result && result->end == campaign::RunEnd::kDone;
    } catch (const Killed&) {
      return false;
    }
  }

  // What the journal says: effects and their content, without times, and without digests of texts that hold times (what
  // a proposer was told, the logs).
  [[nodiscard]] std::string story() const {
    static const std::regex kTimes("\"(seconds|wall|active)\":[-+0-9.e]+|\"context\":\"[0-9a-f]+\"");
    std::string story;
    for (const std::string& line : split(*read_file(world_.path() / "journal.jsonl"), '\n')) {
      if (line.empty()) continue;
      const auto event = record::parse_record<record::Event>(line, "event");
      EXPECT_TRUE(event);
      if (event->kind == record::EventKind::kIntent || event->kind == record::EventKind::kResumed) continue;
      const std::string content = event->kind == record::EventKind::kReported ? "" : event->payload.dump();
      story += fmt::format("{} {}\n", record::name_of(event->kind), std::regex_replace(content, kTimes, ""));
    }
    return story;
  }

  execute::ScriptedScheduler& scheduler() { return scheduler_; }
  campaign::State state() { return world_.state(); }
  [[nodiscard]] int pauses() const { return pauses_; }
  [[nodiscard]] std::size_t asked() const { return world_.executor.requests().size(); }
  std::function<void(int)> on_pause;

 private:
  execute::ScriptedClusterOptions options() {
    execute::ScriptedClusterOptions options;
    options.nodes = 1;
    options.repair_time = 20;
    options.duration = [](const std::string&) { return 1.0; };
    options.execute = [this](const auto& root, const auto& batch, std::size_t index, const std::string& node) {
      const record::UnitPlace place{node, "host", "processor", ""};
      const execute::UnitHost host{"test", root / "cache", place, world_.clock, [this](const record::UnitOrder&) {
                                     return std::make_unique<Lent>(world_.executor);
                                   }};
      EXPECT_TRUE(execute::run_job(root, batch, index, host));
    };
    return options;
  }
  class Lent final : public execute::Executor {
   public:
    explicit Lent(execute::Executor& to) : to_(to) {}
    Result<record::WorkerResponse> run(const record::WorkerRequest& request, const execute::OnProgress& progress,
                                       const execute::ShouldStop& stop) override {
      return to_.run(request, progress, stop);
    }

   private:
    execute::Executor& to_;
  };
  void pause(double seconds) {
    ++pauses_;
    if (left_ >= 0 && left_-- == 0) throw Killed{};
    if (on_pause) on_pause(pauses_);
    world_.clock.advance(seconds);
  }

  campaign::test::World world_{
      campaign::test::one_per_round({make_proposal({make_candidate(150)}), make_proposal({make_candidate(90)}),
                                     make_proposal({make_candidate(160), make_candidate(300)})})};
  execute::ScriptedScheduler scheduler_;
  int left_ = -1, pauses_ = 0;
};

TEST(ClusterCampaign, EndsAsOneBesideTheEngine) {
  campaign::test::World local(
      campaign::test::one_per_round({make_proposal({make_candidate(150)}), make_proposal({make_candidate(90)}),
                                     make_proposal({make_candidate(160), make_candidate(300)})}));
  ASSERT_TRUE(local.run());
  ClusterWorld cluster;
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(campaign::test::outcome_of(cluster.state()), campaign::test::outcome_of(local.state()));
}

TEST(ClusterCampaign, AnEngineThatIsKilledAnywhereLosesNothingAndMeasuresNothingTwice) {
  ClusterWorld undisturbed;
  ASSERT_TRUE(undisturbed.run());
  const int pauses = undisturbed.pauses();
  ASSERT_GT(pauses, 60);
  for (int at = 0; at < pauses; at += pauses / 12) {
    ClusterWorld world;
    EXPECT_FALSE(world.run(at)) << "it should have been killed at pause " << at;
    EXPECT_TRUE(world.run());
    EXPECT_EQ(world.story(), undisturbed.story()) << "killed at pause " << at;
    EXPECT_EQ(world.asked(), undisturbed.asked()) << "killed at pause " << at;
  }
}

TEST(ClusterCampaign, AnEngineThatIsKilledAgainAndAgainComesToTheSameEnd) {
  ClusterWorld undisturbed, world;
  ASSERT_TRUE(undisturbed.run());
  int lives = 1;
  while (!world.run(9)) ASSERT_LT(++lives, 500);
  EXPECT_GT(lives, 5);
  EXPECT_EQ(world.story(), undisturbed.story());
  EXPECT_EQ(world.asked(), undisturbed.asked());
}

TEST(ClusterCampaign, NodesAndTheControllerMayGo) {
  ClusterWorld undisturbed, world;
  ASSERT_TRUE(undisturbed.run());
  // The whole cluster is one node, so that whatever runs is lost with it.
  world.on_pause = [&](int pause) {
    if (pause % 31 == 0) world.scheduler().fail_node(0);
    if (pause % 50 == 20) world.scheduler().set_reachable(false);
    if (pause % 50 == 40) world.scheduler().set_reachable(true);
    if (pause % 70 == 60) world.scheduler().lose_next_answer();
  };
  ASSERT_TRUE(world.run());
  EXPECT_GT(world.scheduler().account().failures, 3u);
  EXPECT_EQ(world.story(), undisturbed.story());
}

}  // namespace
}  // namespace ridge::service::test

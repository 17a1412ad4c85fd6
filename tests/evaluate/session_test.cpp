// What a session records of launches, on a backend whose times are given.
#include "evaluate/session.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/op.h"

namespace ridge::evaluate {
namespace {

// Times as events of a GPU give them: milliseconds in fp32, which lie between the steps that a session records.
class EventLauncher : public Launcher {
 public:
  LaunchResult launch(std::size_t, Depth) override {
    const float milliseconds = 0.050016f + 0.000032f * static_cast<float>(++launches_ % 50);
    return Launch{.latency = static_cast<double>(milliseconds) * 1e-3};
  }
  Verdict finish() override { return passed(); }
  [[nodiscard]] const Verification& verification(std::size_t) const override { return verification_; }

 private:
  int launches_ = 0;
  Verification verification_;
};

class QuietWatch : public Watch {
 public:
  std::map<std::string, double> guards(std::span<const Launcher* const>) override { return {}; }
};

class EventBackend : public MeasurementBackend {
 public:
  OpenResult open(const Subject&, const ops::Operator&, const std::vector<ops::Problem>&) override {
    return std::unique_ptr<Launcher>(std::make_unique<EventLauncher>());
  }
  std::unique_ptr<Watch> watch() override { return std::make_unique<QuietWatch>(); }
};

TEST(Session, EverySampleIsAMultipleOfTheStepThatItNames) {
  const auto op = ops::find_operator("gemm");
  ASSERT_TRUE(op);
  const std::vector<ops::Problem> problems = {(*op)->bind(*record::parse_case("gemm m=8 n=8 k=8")).value()};
  EventBackend backend;
  Subject incumbent, candidate;
  candidate.artifact = "another";
  const SessionResult done =
      run_session(backend, {}, incumbent, candidate, **op, problems, {.quads = 4, .launches = 5});
  ASSERT_FALSE(done.failure);
  const double step = done.session.guards.at("clock_step");
  std::size_t samples = 0;
  for (const record::Quad& quad : done.session.shapes.at(0).quads) {
    for (const std::vector<double>& block : quad.blocks) {
      for (const double seconds : block) {
        ++samples;
        EXPECT_LE(std::fabs(seconds / step - std::round(seconds / step)), 1e-6) << seconds;
        EXPECT_NEAR(seconds, 5.08e-5, 1e-6);
      }
    }
  }
  EXPECT_EQ(samples, 4u * 4u * 5u);
}

}  // namespace
}  // namespace ridge::evaluate

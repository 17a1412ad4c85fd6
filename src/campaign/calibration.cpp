#include "campaign/calibration.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "base/error.h"
#include "campaign/session_size.h"
#include "campaign/state.h"
#include "stats/noise.h"
#include "stats/summary.h"

namespace ridge::campaign {
namespace {

constexpr double kMuchFaster = 2.0;

double median_guard(const std::vector<record::Session>& sessions, const std::string& name) {
  std::vector<double> values;
  for (const record::Session& session : sessions) {
    const auto found = session.guards.find(name);
    if (found != session.guards.end()) values.push_back(found->second);
  }
  return values.empty() ? 0.0 : stats::median(values);
}

}  // namespace

Result<record::Calibration> calibration_of(const std::vector<record::Session>& sessions,
                                           const std::vector<std::string>& labels, const record::Protocol& protocol) {
  const std::vector<const record::Session*> valid = valid_sessions(sessions, "calibrate");
  RIDGE_TRY(table, ratio_table(valid, labels));
  const stats::Calibration found = stats::calibrate(table.suite, protocol.min_effect);
  record::Calibration calibration;
  calibration.sessions = found.sessions;
  if (!valid.empty() && !valid[0]->shapes.empty() && !valid[0]->shapes[0].quads.empty()) {
    const std::vector<record::Quad>& quads = valid[0]->shapes[0].quads;
    calibration.quads = static_cast<std::int64_t>(quads.size());
    calibration.launches = static_cast<std::int64_t>(quads[0].blocks[0].size());
  }
  calibration.noise = found.sigma;
  calibration.detectable = found.smallest_effect;
  calibration.bias = std::isfinite(found.median) ? found.median : 0.0;
  calibration.sign_p_value = found.sign_p_value;
  for (const std::vector<double>& shape : table.per_shape) calibration.noise_by_shape.push_back(stats::spread(shape));
  std::vector<double> gaps;
  for (const record::Session* session : valid) {
    const auto gap = session->guards.find("clock_gap");
    if (gap != session->guards.end() && std::isfinite(gap->second)) gaps.push_back(gap->second);
  }
  calibration.clock_gap = stats::usual_clock_gap(gaps);
  calibration.healthy = found.healthy;
  calibration.reason = found.reason;
  return calibration;
}

std::string calibration_problem(const record::Calibration& calibration, const std::vector<record::Session>& sessions) {
  if (calibration.healthy || fair(calibration)) return {};
  std::string text = "this machine cannot be measured on: " + calibration.reason;
  const auto voided =
      std::find_if(sessions.rbegin(), sessions.rend(), [](const record::Session& one) { return one.voided; });
  if (voided != sessions.rend()) {
    text += fmt::format("; {} of {} sessions were void, the last because {}",
                        static_cast<std::int64_t>(sessions.size()) - calibration.sessions, sessions.size(),
                        voided->void_reason);
  }
  text += "; stop other work on it and resume the campaign (`ridge calibrate` says what would help)";
  return text;
}

std::vector<std::string> what_would_help(const std::vector<record::Session>& sessions,
                                         const record::Environment& environment) {
  std::vector<std::string> advice;
  const double steal = median_guard(sessions, "steal_fraction"), foreign = median_guard(sessions, "foreign_load");
  const double gap = median_guard(sessions, "clock_gap");
  if (steal > 0.005) {
    advice.push_back(fmt::format("the hypervisor takes {:.1f} % of the processors: use dedicated ones", 100 * steal));
  }
  if (foreign > 0.02) {
    advice.push_back(fmt::format("other programs use {:.1f} % of the processors: stop them", 100 * foreign));
  }
  if (gap > 0.002) {
    advice.push_back(
        fmt::format("the clock differs by {:.2f} % between the arms of a session: fix the frequency (governor "
                    "performance, no turbo)",
                    100 * gap));
  }
  const std::string governor = environment.fact("cpu.governor");
  if (!governor.empty() && governor != "performance" && governor != "not visible") {
    advice.push_back(fmt::format("the frequency governor is {}: set it to performance", governor));
  }
  if (environment.fact("cpu.usable") == "1") {
    advice.push_back("the harness and the kernel share the only processor: allow two");
  }
  const std::string siblings = environment.fact("cpu.measured_siblings");
  if (!siblings.empty()) {
    advice.push_back(
        fmt::format("processors {} are threads of one core: keep the others idle or turn SMT off", siblings));
  }
  const std::string quota = environment.fact("cpu.quota");
  if (!quota.empty()) {
    advice.push_back(
        fmt::format("the container may use {} processors' worth of time and is stopped when it is spent: "
                    "lift the quota",
                    quota));
  }
  if (environment.fact("system.hypervisor") == "yes") {
    advice.push_back("this is a virtual machine: its neighbours share caches and memory; bare metal is quieter");
  }
  return advice;
}

bool last_calibration_was_fair(const State& state) {
  for (auto one = state.occurrences.rbegin(); one != state.occurrences.rend(); ++one) {
    const auto* const calibrated = std::get_if<record::Calibrated>(&one->what);
    if (calibrated != nullptr) return fair(calibrated->calibration);
  }
  return fair(state.calibration);
}

bool calibration_due(const State& state) {
  if (!state.baseline) return false;
  if (!fair(state.calibration)) return true;
  if (state.decisions_used - state.calibrated_decisions >= state.spec().protocol.calibrate_every) return true;
  return state.calibrated_launch > kMuchFaster * launch_seconds(state.incumbent.roofline);
}

}  // namespace ridge::campaign

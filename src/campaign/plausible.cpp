#include "campaign/plausible.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/coin.h"
#include "base/error.h"
#include "record/json.h"

namespace ridge::campaign {
namespace {

using record::Session;

constexpr double kEnoughBits = 50;
constexpr double kOverlap = 1e-3;  // seconds: two readings of one clock, with a hand-over between them

std::optional<double> guard(const Session& session, const char* name) {
  const auto found = session.guards.find(name);
  return found == session.guards.end() ? std::nullopt : std::optional(found->second);
}

// The launches of one arm of one shape, in the order of the record.
std::vector<double> series(const record::ShapeSamples& shape, char arm) {
  std::vector<double> values;
  for (const record::Quad& quad : shape.quads) {
    for (std::size_t i = 0; i < quad.blocks.size() && i < quad.order.size(); ++i) {
      if (quad.order[i] == arm) values.insert(values.end(), quad.blocks[i].begin(), quad.blocks[i].end());
    }
  }
  return values;
}

// Relative to its first value, so that a scaled copy is the same.
bool normalise(std::vector<double>& values) {
  if (values.size() < 2 || !(values.front() > 0) || !std::isfinite(values.front())) return false;
  const double first = values.front();
  for (double& value : values) value /= first;
  return true;
}

// How many bits it is worth that another series agrees with this one within `tolerance` in every value but the first:
// from how often its own values agree with each other.
double bits(const std::vector<double>& values, double tolerance) {
  std::size_t agreeing = 0;
  for (const double a : values) {
    for (const double b : values) agreeing += std::fabs(a - b) <= tolerance ? 1 : 0;
  }
  const double chance =
      static_cast<double>(agreeing) / (static_cast<double>(values.size()) * static_cast<double>(values.size()));
  return -std::log2(chance) * static_cast<double>(values.size() - 1);
}

// Bits that two series have in common; 0 when a value differs.
double common_bits(std::vector<double> a, std::vector<double> b, double step) {
  if (a.size() != b.size() || a.empty()) return 0;
  const double shortest = std::min(*std::min_element(a.begin(), a.end()), *std::min_element(b.begin(), b.end()));
  if (!(shortest > 0) || !normalise(a) || !normalise(b)) return 0;
  // A copy that was scaled may have been rounded to the clock's steps again: half a step in each of four times.
  const double tolerance = std::max(1e-12, 2 * step / shortest);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::fabs(a[i] - b[i]) <= tolerance)) return 0;
  }
  return bits(a, tolerance);
}

std::string off_the_clock(const Session& session) {
  const auto step = guard(session, "clock_step");
  if (!step) return {};
  if (!(*step > 0)) return fmt::format("session {} has a clock that steps by {} s", session.index, *step);
  for (const record::ShapeSamples& shape : session.shapes) {
    for (const record::Quad& quad : shape.quads) {
      for (const std::vector<double>& block : quad.blocks) {
        for (const double seconds : block) {
          const double steps = seconds / *step;
          const double allowed = 0.01 + 1e-12 * std::fabs(steps);
          if (std::fabs(steps - std::round(steps)) <= allowed) continue;
          return fmt::format("session {}: {}: {:.17g} s lies between two steps of a clock of {:.3g} s", session.index,
                             shape.label, seconds, *step);
        }
      }
    }
  }
  return {};
}

// The orders in which its arms ran are not those of the coin that it names.
std::string other_orders(const Session& session) {
  const auto seed = guard(session, "coin");
  if (!seed) return {};
  if (!(*seed >= 0 && *seed < 0x1p53 && *seed == std::floor(*seed)))
    return fmt::format("session {}: {} is no seed of a coin", session.index, *seed);
  Coin coin(static_cast<std::uint64_t>(*seed));
  coin.flip();  // which arm was started first
  for (const record::ShapeSamples& shape : session.shapes) {
    coin.flip();  // and called first
    for (const record::Quad& quad : shape.quads) {
      if (quad.order == coin.order()) continue;
      return fmt::format("session {}: {}: the arms did not run in the order that its coin gives", session.index,
                         shape.label);
    }
  }
  return {};
}

// The samples of a session that a decision may rest on, by the column's name: the shapes' own ("") and those of every
// column but the signal-to-noise ratios, which are no times or rates.
using SampleSets = std::map<std::string, const std::vector<record::ShapeSamples>*>;
SampleSets sample_sets(const Session& session) {
  SampleSets sets{{"", &session.shapes}};
  for (const record::ColumnSamples& column : session.columns) {
    if (column.holds != record::ColumnSamples::Holds::kDecibel) sets.emplace(column.name, &column.shapes);
  }
  return sets;
}

bool same_coin(const Session& a, const Session& b) {
  const auto one = guard(a, "coin"), other = guard(b, "coin");
  return one && other && *one == *other;
}

// One arm is the other one again, faster by a factor.
std::string copied_arm(const Session& session) {
  const double step = guard(session, "clock_step").value_or(0);
  for (const auto& [column, shapes] : sample_sets(session)) {
    double common = 0;
    for (const record::ShapeSamples& shape : *shapes) {
      common += common_bits(series(shape, 'A'), series(shape, 'B'), column.empty() ? step : 0);
    }
    if (common < kEnoughBits) continue;
    return fmt::format("session {}: the {} of both arms agree, up to a factor", session.index,
                       column.empty() ? "times" : "values of \"" + column + "\"");
  }
  return {};
}

struct Agreement {
  double bits = 0;
  std::size_t samples = 0;
};
Agreement agreement(const std::vector<record::ShapeSamples>& a, const std::vector<record::ShapeSamples>& b,
                    double step) {
  Agreement found;
  for (const record::ShapeSamples& one : a) {
    for (const record::ShapeSamples& other : b) {
      if (one.label != other.label) continue;
      for (const char arm : {'A', 'B'}) {
        const std::vector<double> values = series(one, arm);
        const double more = common_bits(values, series(other, arm), step);
        found.bits += more;
        found.samples += more > 0 ? values.size() : 0;
      }
    }
  }
  return found;
}

// Sessions of one evaluation are of one process and run one after the other.
std::string out_of_order(const Session& before, const Session& after) {
  const auto began = guard(before, "began"), next = guard(after, "began");
  if (!began || !next) return {};
  if (*next == *began) {
    return fmt::format("sessions {} and {} began at the same instant", before.index, after.index);
  }
  const double end = *began + std::max(guard(before, "wall").value_or(0), 0.0);
  if (*next + kOverlap >= end) return {};
  return fmt::format("session {} began {:.3g} s before session {} had ended", after.index, end - *next, before.index);
}

}  // namespace

std::string repetition(const Session& a, const Session& b) {
  if (same_coin(a, b)) return fmt::format("sessions {} and {} have the same coin", a.index, b.index);
  const double step = std::max(guard(a, "clock_step").value_or(0), guard(b, "clock_step").value_or(0));
  const SampleSets others = sample_sets(b);
  for (const auto& [column, shapes] : sample_sets(a)) {
    const auto other = others.find(column);
    if (other == others.end()) continue;
    const Agreement found = agreement(*shapes, *other->second, column.empty() ? step : 0);
    if (found.bits < kEnoughBits) continue;
    return fmt::format("sessions {} and {} are one measurement: {} of their samples{} agree, up to a factor", a.index,
                       b.index, found.samples, column.empty() ? "" : " of \"" + column + "\"");
  }
  return {};
}

std::int64_t unstamped(const std::vector<Session>& sessions) {
  return std::count_if(sessions.begin(), sessions.end(), [](const Session& one) { return !guard(one, "began"); });
}

std::string session_objection(const std::vector<Session>& sessions) {
  const std::int64_t without = unstamped(sessions);
  if (without > 0 && without < static_cast<std::int64_t>(sessions.size())) {
    return fmt::format("{} of {} sessions do not say when they began", without, sessions.size());
  }
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    if (std::string why = off_the_clock(sessions[i]); !why.empty()) return why;
    if (std::string why = other_orders(sessions[i]); !why.empty()) return why;
    if (std::string why = copied_arm(sessions[i]); !why.empty()) return why;
    if (i > 0) {
      if (std::string why = out_of_order(sessions[i - 1], sessions[i]); !why.empty()) return why;
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (std::string why = repetition(sessions[j], sessions[i]); !why.empty()) return why;
    }
  }
  return {};
}

namespace {

using record::Event;
using record::EventKind;

template <class T>
std::vector<Session> sessions_in(const Event& event) {
  const Result<T> read = record::from_json<T>(event.payload);
  if (!read) return {};
  if constexpr (std::is_same_v<T, record::Calibrated>) {
    return read->sessions;
  } else {
    return read->evaluation.sessions;
  }
}

std::vector<Session> sessions_of(const Event& event) {
  switch (event.kind) {
    case EventKind::kBaseline: return sessions_in<record::Baseline>(event);
    case EventKind::kEvaluated: return sessions_in<record::Evaluated>(event);
    case EventKind::kCalibrated: return sessions_in<record::Calibrated>(event);
    case EventKind::kFinal: return sessions_in<record::Final>(event);
    case EventKind::kReplicated: return sessions_in<record::Replicated>(event);
    default: return {};
  }
}

double total_wall(const std::vector<Session>& sessions) {
  double total = 0;
  for (const Session& one : sessions) total += std::max(guard(one, "wall").value_or(0), 0.0);
  return total;
}

// The first session of a line that stands in an earlier line already.
std::string repeats(const std::vector<std::pair<std::int64_t, Session>>& seen, const std::vector<Session>& here) {
  for (const Session& one : here) {
    for (const auto& [line, other] : seen) {
      if (repetition(other, one).empty()) continue;
      return fmt::format("session {} is session {} of line {} again", one.index, other.index, line);
    }
  }
  return {};
}

}  // namespace

std::vector<std::pair<std::int64_t, std::string>> implausible_lines(const std::vector<Event>& events,
                                                                    std::int64_t& sessions, std::int64_t& without) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  std::vector<std::pair<std::int64_t, Session>> seen;  // with their lines
  double before = 0;
  bool stamped = false;
  for (const Event& event : events) {
    const std::int64_t line = event.sequence + 1;
    const std::vector<Session> here = sessions_of(event);
    if (event.active < before) found.emplace_back(line, "is older than the line before it");
    const double wall = total_wall(here), between = event.active - before;
    // Time that was spent waiting for the device is no active time; a session waits for nothing.
    if (wall > between + kOverlap * static_cast<double>(1 + here.size())) {
      found.emplace_back(
          line,
          fmt::format("its sessions took {:.3g} s, and {:.3g} s lie between it and the line before", wall, between));
    }
    before = event.active;
    sessions += static_cast<std::int64_t>(here.size());
    without += unstamped(here);
    if (stamped && unstamped(here) > 0) found.emplace_back(line, "its sessions do not say when they began");
    stamped = stamped || (!here.empty() && unstamped(here) == 0);
    if (std::string why = session_objection(here); !why.empty()) found.emplace_back(line, std::move(why));
    if (std::string why = repeats(seen, here); !why.empty()) found.emplace_back(line, std::move(why));
    for (const Session& one : here) seen.emplace_back(line, one);
  }
  return found;
}

}  // namespace ridge::campaign

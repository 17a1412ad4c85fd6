// What limits a kernel, from fractions of what the hardware can do. A metric that is missing supports nothing and rules
// nothing out; a kernel that is near a ceiling is said to be, whatever else could be said about it.
#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "base/error.h"
#include "profile/profile.h"

namespace ridge::profile {
namespace {

using record::Bottleneck;
using record::ProfileReport;

// Thresholds that people use: a busy GPU below 30 % is the host's problem, above 60 % the kernel is worth tuning;
// memory above 60 % of its peak binds, matrix pipes above 50 %; occupancy below 25 % hides too little latency.
constexpr double kIdle = 0.3, kBinds = 0.6, kTensorBinds = 0.5, kWastefulBinds = 0.3, kNearCeiling = 0.85,
                 kFewWarps = 0.25, kConflicts = 0.05, kWasted = 0.75, kTail = 0.15, kFollows = 0.1, kTie = 0.01;

struct Unit {
  const char *name, *metric;
  Bottleneck bottleneck;
};
constexpr Unit kUnits[] = {
    {"memory", "dram_fraction", Bottleneck::kMemory},
    {"L2", "l2_fraction", Bottleneck::kMemory},
    {"L1 and shared memory", "l1_fraction", Bottleneck::kMemory},
    {"matrix units", "tensor_fraction", Bottleneck::kCompute},
    {"multiply-add pipes", "fma_fraction", Bottleneck::kCompute},
};

std::string percent(double fraction) { return fmt::format("{:.0f} %", 100 * fraction); }

// The busiest unit. What an outer memory moves also goes through the inner ones, whose throughput counts look-ups and
// requests beside bytes: once the outer one binds, an inner one must be clearly fuller to be what limits. Other ties
// within a percent go to the outermost.
struct Busiest {
  const Unit* unit = nullptr;
  double fraction = 0;
};
Busiest busiest(const ProfileReport& report) {
  Busiest best;
  for (const Unit& unit : kUnits) {
    const bool follows = best.unit != nullptr && best.fraction >= kBinds && unit.bottleneck == Bottleneck::kMemory;
    const std::optional<double> fraction = metric(report, unit.metric);
    if (fraction && *fraction > best.fraction + (follows ? kFollows : kTie)) best = {&unit, *fraction};
  }
  return best;
}

class Classifier {
 public:
  explicit Classifier(ProfileReport& report) : report_(report), busiest_(busiest(report)) {}

  void run() {
    waste();
    host();
    latency();
    spills();
    conflicts();
    matrix_units();
    tail();
    std::stable_sort(report_.hypotheses.begin(), report_.hypotheses.end(),
                     [](const auto& a, const auto& b) { return a.gain > b.gain; });
    judge();
  }

 private:
  [[nodiscard]] std::optional<double> get(std::string_view name) const { return metric(report_, name); }
  // What is left until the busiest unit is full; without one nothing bounds it.
  [[nodiscard]] double headroom() const {
    return busiest_.fraction > 0 ? std::max(0.0, 1 / busiest_.fraction - 1) : 1.0;
  }
  void add(std::string name, std::string bottleneck, std::string evidence, std::string action, double gain) {
    report_.hypotheses.push_back(
        {std::move(name), std::move(bottleneck), std::move(evidence), std::move(action), gain});
  }
  // The fraction of the busiest unit that is not memory: what binds once memory traffic shrinks.
  [[nodiscard]] double busiest_arithmetic() const {
    double most = 0;
    for (const Unit& unit : kUnits) {
      if (unit.bottleneck == Bottleneck::kCompute) most = std::max(most, get(unit.metric).value_or(0));
    }
    return most;
  }

  // Sectors that move and are not used. Wide accesses move many sectors per request by design: only used bytes tell.
  void waste() {
    for (const auto& [name, what] : {std::pair{"load_efficiency", "loads"}, std::pair{"store_efficiency", "stores"}}) {
      const std::optional<double> used = get(name);
      if (!used || !(*used > 0) || *used >= kWasted) continue;
      wasted_ = true;
      const double after = std::max({busiest_.fraction * *used, busiest_arithmetic(), 0.05});
      const double gain = busiest_.fraction > 0 ? busiest_.fraction / after - 1 : 1 / *used - 1;
      add(fmt::format("uncoalesced {}", what), "memory",
          fmt::format("{} of the bytes that global {} move are used", percent(*used), what),
          "let neighbouring threads access neighbouring addresses, through shared memory if need be", gain);
    }
  }
  void host() {
    const std::optional<double> busy = get("gpu_busy_fraction");
    if (!busy || *busy >= kBinds) return;
    add("idle device", "launch", fmt::format("kernels run {} of the trace", percent(*busy)),
        *busy < kIdle ? "look at the host: launches, synchronisation, copies; then graphs or larger kernels"
                      : "overlap copies and launches with kernels",
        1 / std::max(*busy, 0.01) - 1);
  }
  void latency() {
    const std::optional<double> warps = get("occupancy_fraction"), limit = get("occupancy_limit_fraction");
    if (busiest_.fraction >= kBinds) return;  // something is full already: more warps wait for the same
    if (warps && *warps < kFewWarps) {
      add("few warps", "latency",
          fmt::format("{} of the warps are resident{}", percent(*warps),
                      limit ? fmt::format(", resources allow {}", percent(*limit)) : std::string()),
          limit && *limit < kFewWarps + 0.1
              ? "fewer registers or less shared memory per block, or more work in flight per warp"
              : "more or smaller blocks, or more work in flight per warp",
          std::min(headroom(), 1.0));
    }
    const std::pair<const char*, const char*> stalls[] = {
        {"stall_memory", "loads in flight: prefetch, more independent loads, asynchronous copies"},
        {"stall_barrier", "less work between barriers that only some warps do, or split barriers"},
        {"stall_shared", "fewer or wider shared-memory accesses, results used later"}};
    for (const auto& [name, action] : stalls) {
      const std::optional<double> stall = get(name);
      if (!stall || *stall < 2) continue;
      add(fmt::format("waiting ({})", name), "latency",
          fmt::format("{:.1f} warps wait per issued instruction and no unit is above {}", *stall, percent(kBinds)),
          action, headroom() * 0.5);
    }
  }
  void spills() {
    const std::optional<double> local = get("local_accesses");
    if (!local || !(*local > 0)) return;
    add("local memory", "resource", fmt::format("{:.4g} local accesses or bytes", *local),
        "fewer live registers, constant indices, or a higher register limit", std::min(headroom(), 0.2));
  }
  void conflicts() {
    const std::optional<double> conflicts = get("bank_conflict_fraction");
    if (!conflicts || *conflicts < kConflicts) return;
    add("bank conflicts", "memory", fmt::format("{} of the shared-memory cycles are conflicts", percent(*conflicts)),
        "pad or swizzle the shared layout", std::min(headroom() + 0.01, *conflicts / std::max(0.05, 1 - *conflicts)));
  }
  void matrix_units() {
    const std::optional<double> fma = get("fma_fraction"), tensor = get("tensor_fraction");
    if (!fma || !tensor || *fma < 0.5 || *tensor > 0.01) return;
    add("matrix units idle", "compute",
        fmt::format("multiply-add pipes {}, matrix units {}", percent(*fma), percent(*tensor)),
        "if this is a matrix product and its type allows it, use the matrix instructions", 1.0);
  }
  void tail() {
    const std::optional<double> waves = get("waves");
    if (!waves || !(*waves > 0)) return;
    const double whole = std::ceil(*waves), idle = (whole - *waves) / whole;
    if (idle <= kTail) return;
    add("partial last wave", "latency",
        fmt::format("{:.2f} waves: {} of the last ones' slots idle", *waves, percent(idle)),
        "another tile size, persistent blocks, or a split along the reduction", idle / (1 - idle));
  }

  // Why nothing can be said, and what would change that.
  [[nodiscard]] std::string no_utilisation() const {
    if (get("dram_bytes") && !get("dram_fraction"))
      return "bytes were counted, but not what the memory could move: name the product (--on)";
    return "no utilisation is in this report: nothing can be said about what limits the kernel";
  }

  void judge() {
    const std::optional<double> busy = get("gpu_busy_fraction");
    if (busy && *busy < kIdle) {
      report_.bottleneck = Bottleneck::kLaunch;
      report_.verdict = fmt::format("the device is busy {} of the time: this is the host's problem", percent(*busy));
      return;
    }
    if (busiest_.unit == nullptr) {
      report_.verdict = no_utilisation();
      return;
    }
    // Sectors that move for a few bytes also break up the memory's bursts: it cannot come near its peak, and binds all
    // the same.
    const bool wasteful = wasted_ && busiest_.unit->bottleneck == Bottleneck::kMemory;
    const double binds = wasteful                                                       ? kWastefulBinds
                         : std::string_view(busiest_.unit->metric) == "tensor_fraction" ? kTensorBinds
                                                                                        : kBinds;
    const std::string at = fmt::format("{} at {}", busiest_.unit->name, percent(busiest_.fraction));
    if (busiest_.fraction < binds) {
      report_.bottleneck = Bottleneck::kLatency;
      report_.verdict = fmt::format("nothing is full ({} is the busiest): latency limits", at);
    } else if (busiest_.fraction >= kNearCeiling && !wasted_) {
      report_.bottleneck = busiest_.unit->bottleneck;
      report_.verdict =
          fmt::format("{}: near the ceiling, at most {:+.0f} % is left without less work", at, 100 * headroom());
    } else {
      report_.bottleneck = busiest_.unit->bottleneck;
      report_.verdict = wasted_ ? fmt::format("{}, and much of what moves is not used", at) : at + " limits";
    }
  }

  ProfileReport& report_;
  Busiest busiest_;
  bool wasted_ = false;
};

}  // namespace

void classify(ProfileReport& report) { Classifier(report).run(); }

}  // namespace ridge::profile

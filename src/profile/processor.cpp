// What limits a kernel on a processor, from what perf counted and from the kernel's machine code. Bytes against the
// memory's bandwidth and issue slots are measured shares and go first; cache misses and instructions per cycle decide
// only where they are far from each other's limits, and else it is said that they do not. The bytes are those of loads
// that missed: many of them show a busy memory, and few of them show nothing, since what was prefetched or written is
// not counted. A record knows compute,
// memory and latency: the front end, which starves the arithmetic units, is recorded as compute, and branches as
// latency.
#include <algorithm>

#include "base/error.h"
#include "profile/profile.h"

namespace ridge::profile {
namespace {

using record::Bottleneck;

constexpr double kMemoryBinds = 0.6, kMemoryBusy = 0.3;  // of the memory's bandwidth
constexpr double kManyMisses = 0.005;                    // loads that miss the last cache, for each instruction
constexpr double kFewMemoryStalls = 0.1;                 // of slots, for loads and stores from any cache
constexpr double kFrontEnd = 0.3, kSpeculation = 0.15, kBackEnd = 0.4, kRetiring = 0.6;  // of slots or cycles
constexpr double kManyMispredictions = 0.01;  // for each instruction: at 20 cycles each, a fifth of a cycle
constexpr double kFast = 2.5, kSlow = 1.5;    // instructions per cycle
constexpr double kFmaPerCycle = 2, kFmaBinds = 0.6;
constexpr double kMostlyKernel = 0.7;  // of the counted time: below it the counters tell of something else

std::string share_text(double fraction) { return fmt::format("{:.0f} %", 100 * fraction); }

class Processor {
 public:
  Processor(record::ProfileReport& report, const Options& options) : report_(report), options_(options) {}

  void run() {
    if (!ipc_ && !memory_) return unknown(why_no_cycles());
    if (options_.kernel_share < kMostlyKernel)
      return unknown(fmt::format("the kernel ran {} of the counted time, and checks and start the rest",
                                 share_text(options_.kernel_share)));
    if (memory() || stalls() || arithmetic() || latency()) return;
    const bool bytes_alone = !memory_ && get("dram_bytes");
    unknown((waits() ? "something is waited for, and counters of loads that miss do not tell memory from results: "
                     : "no counter is near a limit: ") +
            evidence() + (bytes_alone ? "; with the memory's bandwidth (--on) its share is known, too" : ""));
  }

 private:
  // The report says of which counters it is known why they say nothing: "cycles (counted for 12 % of the time)".
  [[nodiscard]] std::string why_no_cycles() const {
    for (const std::string& one : report_.missing) {
      if (one.starts_with("cycles (") || one.starts_with("instructions (")) return one;
    }
    return report_.tool + " counted neither cycles nor instructions on this machine (virtual machines seldom do)";
  }

  [[nodiscard]] std::optional<double> get(std::string_view name) const { return metric(report_, name); }

  [[nodiscard]] double code(const std::string& name) const {
    const auto found = options_.code.find(name);
    return found == options_.code.end() ? 0 : found->second;
  }

  // Multiply-adds of each cycle, if the program is mostly its hottest loop.
  [[nodiscard]] std::optional<double> fma_per_cycle() const {
    const double all = code("hot_loop_instructions");
    if (!ipc_ || !(all > 0)) return std::nullopt;
    return *ipc_ * code("hot_loop_fma") / all;
  }

  // What was counted, for every verdict.
  [[nodiscard]] std::string evidence() const {
    std::string text = ipc_ ? fmt::format("{:.2f} instructions per cycle", *ipc_) : std::string("cycles not counted");
    if (memory_) text += fmt::format(", memory at {} of its bandwidth at least", share_text(*memory_));
    if (misses_) text += fmt::format(", {:.2g} last-level misses per 1000 instructions", 1000 * *misses_);
    if (const auto second = get("l2_misses_per_instruction"))
      text += fmt::format(", {:.2g} second-level misses per 1000 instructions", 1000 * *second);
    if (front_end_) text += fmt::format(", front end {}", share_text(*front_end_));
    if (back_end_) text += fmt::format(", back end {}", share_text(*back_end_));
    if (memory_stalls_) text += fmt::format(", loads and stores {}", share_text(*memory_stalls_));
    if (const double all = code("hot_loop_instructions"); all > 0)
      text += fmt::format(", {:g} of {:g} instructions of the hot loop multiply and add", code("hot_loop_fma"), all);
    return text;
  }

  void unknown(const std::string& why) {
    report_.bottleneck = Bottleneck::kUnknown;
    report_.verdict = "not known what limits: " + why;
  }

  bool limits(Bottleneck bottleneck, const std::string& what, const std::string& name, const std::string& action,
              double gain) {
    report_.bottleneck = bottleneck;
    report_.verdict = fmt::format("{} ({})", what, evidence());
    report_.hypotheses.push_back({name, std::string(record::name_of(bottleneck)), evidence(), action, gain});
    return true;
  }

  bool memory() {
    const bool full = memory_ && *memory_ >= kMemoryBinds;
    const bool waits = !memory_ && ipc_ && *ipc_ < kSlow && misses_ && *misses_ >= kManyMisses;
    if (!full && !waits) return false;
    return limits(Bottleneck::kMemory,
                  full ? "memory at " + share_text(*memory_) + " limits" : "loads from memory limit", "memory traffic",
                  "move fewer bytes: block for the caches, fuse passes, narrower types, prefetch",
                  full ? std::max(0.0, 1 / *memory_ - 1) : 1.0);
  }

  bool stalls() {
    const std::optional<double> wrong = get("bad_speculation_fraction"), missed = get("branch_misses_per_instruction");
    if (front_end_ && *front_end_ >= kFrontEnd && *front_end_ > back_end_.value_or(0)) {
      return limits(Bottleneck::kCompute, "fetching and decoding instructions limits", "front end",
                    "smaller loops: less unrolling and inlining, so that code fits the cache of decoded instructions",
                    *front_end_ / (1 - std::min(*front_end_, 0.9)));
    }
    const bool speculates = wrong ? *wrong >= kSpeculation : missed && *missed >= kManyMispredictions;
    if (!speculates) return false;
    const std::string share =
        wrong ? share_text(*wrong) + " of the slots" : fmt::format("{:.3g} of the instructions", *missed);
    return limits(Bottleneck::kLatency, fmt::format("mispredicted branches limit: {}", share), "branches",
                  "selections or masks instead of branches that depend on data", 0.5);
  }

  bool arithmetic() {
    const std::optional<double> fma = fma_per_cycle(), retiring = get("retiring_fraction");
    if (fma && *fma >= kFmaBinds * kFmaPerCycle) {
      return limits(Bottleneck::kCompute,
                    fmt::format("multiply-add units limit, {:.2f} of {:g} a cycle", *fma, kFmaPerCycle),
                    "multiply-adds", "fewer operations or wider vectors; the units are nearly full",
                    std::max(0.0, kFmaPerCycle / *fma - 1));
    }
    const bool issues = retiring ? *retiring >= kRetiring : ipc_ && *ipc_ >= kFast;
    if (!issues) return false;
    return limits(Bottleneck::kCompute, "the number of instructions limits", "instructions",
                  "more work for each instruction: vectors, fewer conversions and address updates", 0.5);
  }

  [[nodiscard]] bool waits() const { return back_end_ ? *back_end_ >= kBackEnd : ipc_ && *ipc_ < kSlow; }

  // Only slots that are known not to have waited for loads and stores can have waited for results.
  bool latency() {
    const bool busy = memory_ && *memory_ >= kMemoryBusy;
    if (busy || !waits() || !memory_stalls_ || *memory_stalls_ > kFewMemoryStalls) return false;
    return limits(Bottleneck::kLatency, "results that wait for each other limit", "dependences",
                  "independent sums and loads in flight: unroll with sums of their own, prefetch", 1.0);
  }

  record::ProfileReport& report_;
  const Options& options_;
  std::optional<double> ipc_ = get("instructions_per_cycle"), memory_ = get("dram_fraction"),
                        misses_ = get("llc_misses_per_instruction"), front_end_ = get("front_end_fraction"),
                        back_end_ = get("back_end_fraction"), memory_stalls_ = get("memory_stall_fraction");
};

}  // namespace

void classify_processor(record::ProfileReport& report, const Options& options) { Processor(report, options).run(); }

}  // namespace ridge::profile

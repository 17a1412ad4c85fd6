#include "propose/model.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "propose/tile_model.h"

namespace ridge::propose {
namespace {

constexpr double kUnitsPerCycle = 2, kLoadsPerCycle = 2, kLatency = 4, kFrontEnd = 6;
constexpr double kLoopInstructions = 3;

double over(double need, double have) { return std::min(1.0, have / std::max(need, 1.0)); }

}  // namespace

Roles roles_of(const Space& space, const Config& config) {
  Roles roles;
  for (const record::Tunable& tunable : space.declared().tunables) {
    if (tunable.model.empty() || !space.active(tunable, config)) continue;
    const auto value = static_cast<double>(config.at(tunable.name));
    if (tunable.model == "vector_width") roles.lanes = std::max(1.0, value);
    if (tunable.model == "register_rows") roles.rows = std::max(1.0, value);
    if (tunable.model == "register_cols") roles.cols = std::max(1.0, value);
    if (tunable.model == "unroll") roles.unroll = std::max(1.0, value);
    if (tunable.model == "threads") roles.threads = std::max(1.0, value);
    if (tunable.model == "block_m") roles.block_m = value;
    if (tunable.model == "block_n") roles.block_n = value;
    if (tunable.model == "block_k") roles.block_k = value;
    if (tunable.model == "loop_order") roles.reordered = value != static_cast<double>(tunable.default_value);
  }
  return roles;
}

Issue issue_fraction(const Roles& roles, const Machine& machine) {
  const double threads = std::min(roles.threads, machine.threads) / machine.threads;
  if (roles.reordered && roles.lanes == 1 && roles.rows * roles.cols == 1) {
    // The compiler vectorises at half the width by default, and every multiply-add loads and stores its sum.
    return {threads * 0.5 * (1 / kUnitsPerCycle) / 3, "a load and a store of the sum per multiply-add"};
  }
  const double work = roles.rows * roles.cols;
  const double spills = 2 * std::max(0.0, work + roles.cols + 1 - machine.registers);
  const double loads = roles.rows + roles.cols + spills;
  const double instructions = work + loads + kLoopInstructions / roles.unroll;
  const std::array<std::pair<double, std::string>, 4> limits = {{
      {work / kUnitsPerCycle, "the multiply-add units"},
      {kLatency, fmt::format("the latency of {:.0f} cycles per sum, {:.0f} independent sums", kLatency, work)},
      {loads / kLoadsPerCycle, fmt::format("{:.0f} loads for {:.0f} multiply-adds", loads, work)},
      {instructions / kFrontEnd, fmt::format("{:.0f} instructions for {:.0f} multiply-adds", instructions, work)},
  }};
  const auto& slowest = *std::ranges::max_element(limits, {}, [](const auto& limit) { return limit.first; });
  const double width = std::min(roles.lanes, machine.lanes) / machine.lanes;
  return {threads * width * (work / kUnitsPerCycle) / slowest.first, slowest.second};
}

double block_fit(const Roles& roles, const Machine& machine) {
  constexpr double kElement = 4;
  if (roles.block_k <= 0) return 1;
  const double panel = roles.block_k * roles.cols * roles.lanes * kElement;
  const double block = roles.block_m * roles.block_k * kElement;
  return over(panel, machine.l1_bytes / 2) * over(block, machine.l2_bytes / 2);
}

double rank_score(const Roles& roles, const Machine& machine) {
  const double work = roles.rows * roles.cols;
  const double reuse = work / (roles.rows + roles.cols);  // multiply-adds per load: slack against everything else
  const double short_block = roles.block_k > 0 ? roles.block_k / (roles.block_k + 16) : 1;  // C is read again per block
  return issue_fraction(roles, machine).fraction * (1 + 0.05 * reuse) * (0.5 + 0.5 * block_fit(roles, machine)) *
         short_block * (1 + 0.01 * std::min(roles.unroll, 4.0));
}

Issue issue_of(const Space& space, const Config& config, const Machine& machine) {
  return machine.gpu ? tile_fraction(tiles_of(space, config), *machine.gpu)
                     : issue_fraction(roles_of(space, config), machine);
}

double score_of(const Space& space, const Config& config, const Machine& machine) {
  return machine.gpu ? tile_fraction(tiles_of(space, config), *machine.gpu).fraction
                     : rank_score(roles_of(space, config), machine);
}

double memory_share(std::string_view role) {
  if (role == "prefetch") return 0.5;
  if (role == "pack") return 0.4;
  if (role == "block_k") return 0.35;
  if (role == "block_m" || role == "block_n") return 0.2;
  if (role == "unroll") return 0.42;
  if (role == "walk") return 0.05;
  if (role.starts_with("cluster ")) return 0.03;
  return 0;
}

}  // namespace ridge::propose

#include "report/ceilings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "report/words.h"

namespace ridge::report {
namespace {

struct UnitName {
  std::string_view suffix, unit;
};

// "989.4 TFLOPS" as 9.894e14 FLOP/s.
void read_value(CitedPeak& peak) {
  constexpr UnitName kUnits[] = {{"FLOPS", "FLOP/s"}, {"FLOP/s", "FLOP/s"}, {"OPS", "FLOP/s"}, {"B/s", "B/s"}};
  constexpr std::pair<char, double> kPrefixes[] = {{'k', 1e3}, {'M', 1e6}, {'G', 1e9}, {'T', 1e12}, {'P', 1e15}};
  peak.value = std::numeric_limits<double>::quiet_NaN();
  double number = 0;
  const char* const end = peak.words.data() + peak.words.size();
  const auto [rest, error] = std::from_chars(peak.words.data(), end, number);
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  if (error != std::errc() || !unit.starts_with(' ')) return;
  unit.remove_prefix(1);
  for (const auto& [prefix, factor] : kPrefixes) {
    if (!unit.starts_with(prefix)) continue;
    number *= factor;
    unit.remove_prefix(1);
    break;
  }
  for (const UnitName& known : kUnits) {
    if (unit != known.suffix) continue;
    peak.value = number;
    peak.unit = known.unit;
    return;
  }
}

}  // namespace

// The ceiling that the recorded bounds were computed from is the one whose value the shapes of that bound imply; else
// the highest of the campaign's thread count.
const record::Ceiling* measured_ceiling(const Model& model, std::string_view bound) {
  const std::string_view unit = bound == "compute" ? "FLOP/s" : "B/s";
  double implied = 0;
  for (const auto& shape : model.shapes) {
    if (shape.bound != bound || !(shape.bound_time > 0)) continue;
    implied = (bound == "compute" ? shape.cost.flop : shape.cost.bytes) / shape.bound_time;
  }
  const auto rank = [&](const record::Ceiling& ceiling) {
    const double threads = ceiling.threads == model.spec.protocol.threads ? 2 : 0;
    const double match = implied > 0 && std::abs(std::log(ceiling.value / implied)) < 0.01 ? 4 : 0;
    return match + threads + ceiling.value / (ceiling.value + 1e30);
  };
  const record::Ceiling* best = nullptr;
  for (const auto& ceiling : model.ceilings) {
    if (ceiling.name.ends_with("_warm")) continue;  // of a cache: no roof over memory
    if (ceiling.unit != unit || !(ceiling.value > 0) || !std::isfinite(ceiling.value)) continue;
    // Of two names for one value, "matrix_bf16" and "matrix_bf16.cuda_wgmma", the shorter.
    const bool shorter = best && ceiling.value == best->value && ceiling.name.size() < best->name.size();
    if (!best || rank(ceiling) > rank(*best) || shorter) best = &ceiling;
  }
  return best;
}

std::vector<CitedPeak> cited_peaks(const Model& model) {
  constexpr std::string_view kSays = "; its documents say ", kFrom = " <- ";
  std::vector<CitedPeak> peaks;
  for (const std::string& fact : target_facts(model)) {
    const std::size_t at = fact.rfind(kSays);
    if (at == std::string::npos) continue;
    const std::string citation = fact.substr(at + kSays.size());
    const std::size_t colon = citation.find(": "), from = citation.find(kFrom);
    if (colon == std::string::npos || from == std::string::npos || from < colon) continue;
    CitedPeak peak{citation.substr(0, colon), citation.substr(colon + 2, from - colon - 2),
                   citation.substr(from + kFrom.size()), 0, ""};
    const bool known =
        std::any_of(peaks.begin(), peaks.end(), [&](const CitedPeak& other) { return other.metric == peak.metric; });
    if (known) continue;
    read_value(peak);
    peaks.push_back(std::move(peak));
  }
  return peaks;
}

}  // namespace ridge::report

#include "spec_probe.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "base/error.h"
#include "campaign_run.h"
#include "hardware/spec.h"
#include "record/hardware.h"
#include "record/json.h"
#include "say.h"
#include "subcommands.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

// A fact that the worker's description of the machine holds, and the metric that it is.
struct Reading {
  const char* fact;
  const char* metric;
  double scale;      // to base units
  const char* unit;  // of the text shown
};
constexpr Reading kGpuReadings[] = {{"gpu.multiprocessors", "compute_units", 1, ""},
                                    {"gpu.core_clock_khz", "boost_clock", 1e3, "kHz"},
                                    {"gpu.memory_bytes", "memory_capacity", 1, "B"},
                                    {"gpu.memory_bus_bits", "memory_bus_width", 1, "bit"},
                                    {"gpu.memory_clock_khz", "memory_data_rate", 2e3, "kHz, two bits a cycle"},
                                    {"gpu.l2_bytes", "l2_cache", 1, "B"},
                                    {"gpu.shared_bytes_per_block", "shared_memory_per_block", 1, "B"},
                                    {"gpu.threads_per_block", "max_threads_per_block", 1, ""},
                                    {"gpu.threads_per_multiprocessor", "max_threads_per_unit", 1, ""}};
constexpr Reading kCpuReadings[] = {{"cpu.l1d_bytes", "l1_cache", 1, "B"}, {"cpu.l2_bytes", "l2_cache", 1, "B"}};

std::optional<double> number(const std::map<std::string, std::string>& facts, const char* name) {
  const auto found = facts.find(name);
  if (found == facts.end()) return std::nullopt;
  double value = 0;
  const std::string& text = found->second;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value).ptr;
  return end == text.data() ? std::nullopt : std::optional(value);
}

void compare(const hardware::Spec* spec, const std::map<std::string, std::string>& facts,
             std::span<const Reading> readings, record::SpecProbe& probe) {
  for (const Reading& reading : readings) {
    const std::optional<double> value = number(facts, reading.fact);
    if (!value) continue;
    const hardware::Fact* fact = spec != nullptr ? spec->find(reading.metric) : nullptr;
    const bool known = fact != nullptr && fact->state == hardware::State::kKnown;
    // A cache counted in MB by one side and in MiB by the other is the same cache.
    const double slack = std::string_view(reading.unit) == "B" ? 0.06 : 0.01;
    probe.rows.push_back({reading.metric, known ? fact->value.text : "UNKNOWN",
                          fmt::format("{:.0f} {}", *value, reading.unit),
                          known && hardware::agree(fact->value, *value * reading.scale, slack)});
  }
}

}  // namespace

int probe(const std::string& product) {
  const Result<hardware::Database> database = hardware::Database::open(data_directory());
  if (!database) return fail(database.error());
  record::WorkerRequest request;
  request.task = record::WorkerTask::kDescribe;
  const Result<record::WorkerResponse> response = ask_worker(std::move(request));
  if (!response) return fail(response.error());
  if (!response->environment) return fail(Error{ErrorCode::kInternal, "the worker did not describe the machine", {}});
  const auto& facts = response->environment->facts;
  const bool gpu = facts.contains("gpu.name");
  record::SpecProbe result;
  result.device = facts.at(gpu ? "gpu.name" : "cpu.model");
  const Result<const hardware::Spec*> spec = database->find(product.empty() ? result.device : product);
  if (!spec && !product.empty()) return fail(spec.error());
  if (spec) result.product = (*spec)->name;
  const std::span<const Reading> readings =
      gpu ? std::span<const Reading>(kGpuReadings) : std::span<const Reading>(kCpuReadings);
  compare(spec ? *spec : nullptr, facts, readings, result);
  bool differs = false;
  for (const record::SpecProbeRow& row : result.rows) differs |= row.stated != "UNKNOWN" && !row.agrees;
  if (globals().json) {
    say("{}\n", record::to_pretty(result));
    return differs ? kNo : kSuccess;
  }
  say("{}{}\n", result.device,
      result.product.empty() ? ": no product of the database names itself so" : " as " + result.product);
  std::vector<std::vector<std::string>> rows;
  for (const record::SpecProbeRow& row : result.rows) {
    rows.push_back({row.metric, row.stated, row.device, row.stated == "UNKNOWN" ? "" : row.agrees ? "yes" : "NO"});
  }
  say("{}", table({"metric", "database", "device", "agrees"}, rows));
  return differs ? kNo : kSuccess;
}

}  // namespace ridge::cli

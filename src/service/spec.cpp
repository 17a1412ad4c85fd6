#include "service/spec.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/files.h"
#include "hardware/lint.h"
#include "hardware/markdown.h"
#include "hardware/spec.h"
#include "knowledge/pages.h"
#include "service/spec_records.h"
#include "service/worker_call.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;

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

void compare_readings(const hardware::Spec* spec, const std::map<std::string, std::string>& facts,
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

// The Markdown files that a path names: itself, or everything below it.
Result<std::vector<fs::path>> markdown_files(const std::string& name) {
  std::error_code missing;
  if (fs::is_directory(name, missing)) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(name)) {
      if (entry.path().extension() == ".md") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  if (!fs::exists(name, missing)) return make_error(ErrorCode::kNotFound, "there is no {}", name);
  return std::vector<fs::path>{name};
}

}  // namespace

Result<std::vector<record::SpecSummary>> list_products(const Context& context) {
  RIDGE_TRY(database, hardware::Database::open(context.data_directory));
  std::vector<record::SpecSummary> summaries;
  for (const hardware::Spec& spec : database.specs()) summaries.push_back(summary_of(spec));
  return summaries;
}

Result<std::string> products_markdown(const Context& context) {
  RIDGE_TRY(database, hardware::Database::open(context.data_directory));
  RIDGE_TRY(introduction, read_file(context.data_directory / "hardware" / "README.md"));
  return hardware::to_markdown(database, introduction);
}

Result<record::SpecSheet> show_product(const Context& context, const std::string& product) {
  RIDGE_TRY(database, hardware::Database::open(context.data_directory));
  RIDGE_TRY(spec, database.find(product));
  return sheet_of(*spec, database.wiki());
}

Result<FoundFact> get_fact(const Context& context, const std::string& product, const std::string& metric) {
  RIDGE_TRY(database, hardware::Database::open(context.data_directory));
  RIDGE_TRY(spec, database.find(product));
  if (const Result<double> value = spec->value(metric); !value && value.error().code == ErrorCode::kNotFound) {
    std::string names;
    for (const hardware::Metric& m : hardware::metrics()) names += (names.empty() ? "" : ", ") + std::string(m.name);
    return with_hint(value.error(), "metrics are " + names);
  }
  const hardware::Fact* fact = spec->find(metric);
  hardware::Fact absent;
  if (fact == nullptr) {
    absent.metric = hardware::find_metric(metric);
    absent.reason = spec->file + " does not state it";
    fact = &absent;
  }
  return FoundFact{fact_of(*fact, database.wiki()), fact->conflict};
}

Result<ProductDifferences> compare_products(const Context& context, const std::string& left, const std::string& right) {
  RIDGE_TRY(database, hardware::Database::open(context.data_directory));
  RIDGE_TRY(a, database.find(left));
  RIDGE_TRY(b, database.find(right));
  return ProductDifferences{a->name, b->name, differences_of(*a, *b)};
}

Result<record::LintReport> lint_facts(const Context& context, const std::vector<std::string>& names) {
  RIDGE_TRY(database, hardware::Database::open(context.data_directory));
  record::LintReport report = report_of(database);
  for (const std::string& name : names) {
    RIDGE_TRY(files, markdown_files(name));
    for (const fs::path& file : files) {
      RIDGE_TRY(text, read_file(file));
      add_text(report, hardware::lint_text(database, file.string(), text));
    }
  }
  for (knowledge::PageProblem& problem : knowledge::lint_pages(context.data_directory / "knowledge", context.knowledge))
    report.findings.push_back({std::move(problem.file), problem.line, "knowledge", std::move(problem.message)});
  report.ok = report.findings.empty();
  return report;
}

Result<Relocked> relock_pages(const Context& context) {
  RIDGE_TRY(database, hardware::Database::open(context.data_directory));
  const fs::path lock = context.data_directory / "wiki" / "pages.sha256";
  RIDGE_CHECK_OK(write_file_durably(lock, database.wiki().lock()));
  return Relocked{lock.string(), database.wiki().pages().size()};
}

Result<record::SpecProbe> probe_device(const Context& context, const std::string& product) {
  RIDGE_TRY(database, hardware::Database::open(context.data_directory));
  record::WorkerRequest request;
  request.task = record::WorkerTask::kDescribe;
  RIDGE_TRY(response, ask_worker(context, std::move(request)));
  if (!response.environment) return make_error(ErrorCode::kInternal, "the worker did not describe the machine");
  const auto& facts = response.environment->facts;
  const bool gpu = facts.contains("gpu.name");
  record::SpecProbe result;
  result.device = facts.at(gpu ? "gpu.name" : "cpu.model");
  const Result<const hardware::Spec*> spec = database.find(product.empty() ? result.device : product);
  if (!spec && !product.empty()) return spec.error();
  if (spec) result.product = (*spec)->name;
  const std::span<const Reading> readings =
      gpu ? std::span<const Reading>(kGpuReadings) : std::span<const Reading>(kCpuReadings);
  compare_readings(spec ? *spec : nullptr, facts, readings, result);
  return result;
}

bool disagrees(const record::SpecProbe& probe) {
  return std::ranges::any_of(probe.rows,
                             [](const record::SpecProbeRow& row) { return row.stated != "UNKNOWN" && !row.agrees; });
}

}  // namespace ridge::service

#include "service/spec_export.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "hardware/spec.h"
#include "record/json.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVendorClass = "vendor-published";
constexpr const char* kOtherClass = "architecture-analysis";  // also of what was derived or measured: no vendor says it

// Peaks by element type; that schema calls matrix units tensor-core and vector units cuda-core.
struct PeakRow {
  const char *dtype, *metric, *sparse, *accumulate;
};
constexpr PeakRow kPeakRows[] = {{"fp64", "vector_fp64", "", nullptr},
                                 {"fp64", "matrix_fp64", "", nullptr},
                                 {"fp32", "vector_fp32", "", nullptr},
                                 {"fp32", "matrix_fp32", "", nullptr},
                                 {"tf32", "matrix_tf32", "matrix_tf32_sparse", "fp32"},
                                 {"fp16", "vector_fp16", "", nullptr},
                                 {"fp16", "matrix_fp16", "matrix_fp16_sparse", "fp32"},
                                 {"bf16", "matrix_bf16", "matrix_bf16_sparse", "fp32"},
                                 {"fp8", "matrix_fp8", "matrix_fp8_sparse", "fp32"},
                                 {"fp6", "matrix_fp6", "", "fp32"},
                                 {"fp4", "matrix_fp4", "matrix_fp4_sparse", "fp32"},
                                 {"int8", "matrix_int8", "matrix_int8_sparse", "int32"}};

// "Ada Lovelace" -> "ada-lovelace"
std::string slug_of(const std::string& name) {
  std::string slug;
  for (const unsigned char c : name) {
    const bool plain = std::isalnum(c) != 0 || c == '.';
    if (plain) slug += static_cast<char>(std::tolower(c));
    if (!plain && !slug.empty() && slug.back() != '-') slug += '-';
  }
  while (slug.ends_with('-')) slug.pop_back();
  return slug;
}

const hardware::Fact* known_fact(const hardware::Spec& spec, std::string_view metric) {
  const hardware::Fact* fact = metric.empty() ? nullptr : spec.find(metric);
  return fact != nullptr && fact->state == hardware::State::kKnown ? fact : nullptr;
}

const char* class_of(const hardware::Fact& fact) {
  return fact.evidence == hardware::Evidence::kVendor ? kVendorClass : kOtherClass;
}

// Six significant digits: 989.4 and not 989.4000000000001.
double rounded(double value) { return std::stod(fmt::format("{:.6g}", value)); }

std::optional<double> scaled(const hardware::Spec& spec, const char* metric, double unit) {
  const hardware::Fact* fact = known_fact(spec, metric);
  return fact != nullptr ? std::optional(rounded(fact->value.value / unit)) : std::nullopt;
}

record::ExchangedPeak peak_of_row(const hardware::Spec& spec, const PeakRow& row, const hardware::Fact& fact) {
  record::ExchangedPeak peak;
  peak.dtype = row.dtype;
  peak.unit = std::string_view(row.dtype) == "int8" ? "TOPS" : "TFLOPS";
  peak.unit_kind = std::string_view(row.metric).starts_with("matrix") ? "tensor-core" : "cuda-core";
  peak.dense = rounded(fact.value.value / 1e12);
  peak.sparse = scaled(spec, row.sparse, 1e12);
  if (row.accumulate != nullptr) peak.accumulate = row.accumulate;
  peak.provenance = class_of(fact);
  if (!fact.formula.empty()) peak.derivation = fact.formula;
  return peak;
}

// A group of fields: its evidence is the vendor's, and fields of other evidence are named.
class Group {
 public:
  Group(const hardware::Spec& spec, std::map<std::string, std::string>& overrides,
        std::map<std::string, std::string>& unavailable)
      : spec_(spec), overrides_(overrides), unavailable_(unavailable) {}

  void take(const char* field, const char* metric, double unit, std::optional<double>& value) {
    value = scaled(spec_, metric, unit);
    note(field, metric);
  }
  void take(const char* field, const char* metric, std::optional<std::int64_t>& value) {
    if (const std::optional<double> number = scaled(spec_, metric, 1)) value = std::llround(*number);
    note(field, metric);
  }

 private:
  void note(const char* field, const char* metric) {
    if (const hardware::Fact* fact = known_fact(spec_, metric)) {
      if (class_of(*fact) != std::string_view(kVendorClass)) overrides_[field] = class_of(*fact);
      return;
    }
    const hardware::Fact* fact = spec_.find(metric);
    unavailable_[field] = fact != nullptr && !fact->reason.empty()
                              ? fact->reason
                              : fmt::format("no source that was read states it; ridge spec probe reads it of a device");
  }

  const hardware::Spec& spec_;
  std::map<std::string, std::string>& overrides_;
  std::map<std::string, std::string>& unavailable_;
};

// Element types of which no peak is known, with the reason that the database gives.
void add_unknown_peaks(const hardware::Spec& spec, record::ExchangedFacts& facts) {
  for (const PeakRow& row : kPeakRows) {
    const hardware::Fact* fact = spec.find(row.metric);
    const bool there =
        std::ranges::any_of(facts.peak_compute, [&](const auto& peak) { return peak.dtype == row.dtype; });
    if (!there && fact != nullptr && !fact->reason.empty())
      facts.unavailable[fmt::format("peak_compute.{}.dense", row.dtype)] = fact->reason;
  }
}

record::ExchangedFacts facts_of(const hardware::Spec& spec) {
  record::ExchangedFacts facts;
  facts.summary = fmt::format("{} ({}, {})", spec.product, spec.architecture, spec.target);
  facts.usage_notes = {"matrix peaks are dense, with the sums that accumulate names; sparse_2to4 is 2:4 sparsity",
                       "capacity in 10^9 bytes, caches and memories of a unit in 2^20 and 2^10 bytes"};
  for (const PeakRow& row : kPeakRows) {
    if (const hardware::Fact* fact = known_fact(spec, row.metric))
      facts.peak_compute.push_back(peak_of_row(spec, row, *fact));
  }
  add_unknown_peaks(spec, facts);
  record::ExchangedMemory& memory = facts.memory;
  memory.provenance = facts.compute_units.provenance = kVendorClass;
  Group of_memory(spec, memory.overrides, facts.unavailable);
  of_memory.take("capacity_gb", "memory_capacity", 1e9, memory.capacity_gb);
  of_memory.take("bandwidth_tb_s", "memory_bandwidth", 1e12, memory.bandwidth_tb_s);
  of_memory.take("bus_width_bits", "memory_bus_width", memory.bus_width_bits);
  of_memory.take("l2_cache_mb", "l2_cache", 1 << 20, memory.l2_cache_mb);
  of_memory.take("last_level_cache_mb", "last_level_cache", 1 << 20, memory.last_level_cache_mb);
  record::ExchangedUnits& units = facts.compute_units;
  Group of_units(spec, units.overrides, facts.unavailable);
  of_units.take("sm_count", "compute_units", units.sm_count);
  of_units.take("cuda_cores", "vector_cores", units.cuda_cores);
  of_units.take("cuda_cores_per_sm", "vector_cores_per_unit", units.cuda_cores_per_sm);
  of_units.take("tensor_cores", "matrix_cores", units.tensor_cores);
  of_units.take("tensor_cores_per_sm", "matrix_cores_per_unit", units.tensor_cores_per_sm);
  of_units.take("register_file_kb_per_sm", "register_file_per_unit", 1024, units.register_file_kb_per_sm);
  of_units.take("shared_memory_kb_per_sm", "shared_memory_per_unit", 1024, units.shared_memory_kb_per_sm);
  if (const auto link = scaled(spec, "link_bandwidth", 1e9)) facts.interconnect["link_gb_s"] = *link;
  if (const auto host = scaled(spec, "host_link_bandwidth", 1e9)) facts.interconnect["host_gb_s"] = *host;
  if (const auto board = scaled(spec, "board_power", 1)) facts.power["board_w"] = *board;
  return facts;
}

std::string kind_of_page(const std::string& path) {
  if (path.starts_with("third-party/") || path.starts_with("llvm/")) return "third-party-analysis";
  if (path.starts_with("derived/") || path.starts_with("measured/")) return "internal-note";
  return path.find("datasheet") != std::string::npos ? "vendor-product-page" : "vendor-doc";
}

// "2026-11-21" of "2026-11-21, the table as reproduced at ..."
std::optional<std::string> day_of(const std::string& read) {
  const std::string day = read.substr(0, 10);
  const bool date = day.size() == 10 && day[4] == '-' && day[7] == '-' &&
                    std::ranges::count_if(day, [](unsigned char c) { return std::isdigit(c) != 0; }) == 8;
  return date ? std::optional(day) : std::nullopt;
}

record::ExchangedProvenance provenance_of(const hardware::Spec& spec, const hardware::Wiki& wiki) {
  record::ExchangedProvenance provenance;
  provenance.evidence_class = kVendorClass;
  std::set<std::string> paths;
  for (const hardware::Fact& fact : spec.facts) {
    if (fact.state != hardware::State::kKnown) continue;
    paths.insert(fact.from.substr(0, fact.from.find(':')));
    if (class_of(fact) != std::string_view(kVendorClass)) provenance.evidence_class = kOtherClass;
  }
  for (const std::string& path : paths) {
    const auto page = wiki.pages().find(path);
    if (page == wiki.pages().end()) continue;
    const std::string& document = page->second.document;
    provenance.sources.push_back(
        {page->second.title, kind_of_page(path), document.empty() ? std::optional(path) : std::optional(document)});
    // The oldest of them is how long ago all were looked at.
    if (const auto day = day_of(page->second.read))
      provenance.last_verified = std::min(provenance.last_verified.value_or(*day), *day);
  }
  return provenance;
}

Result<record::ExchangedSheet> exchanged_sheet(const hardware::Spec& spec, const hardware::Wiki& wiki) {
  if (!spec.is_gpu()) {
    return with_hint(invalid("{} is no GPU, and {} has no other records", spec.product, kExchangeFormat),
                     "ridge spec show has it");
  }
  record::ExchangedSheet sheet;
  sheet.identity = {slug_of(spec.vendor), slug_of(spec.architecture), slug_of(spec.name),
                    spec.capability.empty() ? std::nullopt : std::optional(spec.capability), spec.target};
  sheet.id = fmt::format("{}.{}.{}.{}", sheet.identity.vendor, sheet.identity.arch, sheet.type, sheet.identity.product);
  sheet.facts = facts_of(spec);
  sheet.provenance = provenance_of(spec, wiki);
  return sheet;
}

}  // namespace

Status check_exchange_format(const std::string& format) {
  if (format == kExchangeFormat) return ok_status();
  return invalid("there is no format \"{}\"; {} is known", format, kExchangeFormat);
}

Result<record::ExchangedSheet> exchanged_product(const Context& context, const std::string& product) {
  RIDGE_TRY(database, hardware::Database::open(context.data_directory));
  RIDGE_TRY(spec, database.find(product));
  return exchanged_sheet(*spec, database.wiki());
}

Result<std::size_t> export_products(const Context& context, const std::string& folder) {
  if (folder.empty())
    return with_hint(invalid("no folder to write to"), "name a product, or a folder for all with --out");
  RIDGE_TRY(database, hardware::Database::open(context.data_directory));
  std::size_t records = 0;
  for (const hardware::Spec& spec : database.specs()) {
    if (!spec.is_gpu()) continue;
    RIDGE_TRY(sheet, exchanged_sheet(spec, database.wiki()));
    const fs::path path = fs::path(folder) / sheet.type / sheet.identity.vendor / sheet.identity.arch /
                          (sheet.identity.product + ".json");
    RIDGE_CHECK_OK(write_file_durably(path, record::to_pretty(sheet) + "\n"));
    ++records;
  }
  return records;
}

}  // namespace ridge::service

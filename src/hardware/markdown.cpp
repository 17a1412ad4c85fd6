#include "hardware/markdown.h"

#include <fmt/format.h>
#include <algorithm>

namespace ridge::hardware {
namespace {

std::string cell(const Spec& spec, std::string_view metric) {
  const Fact* fact = spec.find(metric);
  if (fact == nullptr || fact->state == State::kNone) return "-";
  if (fact->state == State::kUnknown) return "UNKNOWN";
  return fact->value.text + (fact->evidence == Evidence::kThirdParty ? " [reported]"
                             : fact->evidence == Evidence::kDerived  ? " [derived]"
                             : fact->evidence == Evidence::kMeasured ? " [measured]"
                                                                     : "");
}

std::string overview(const Database& database, const char* kind,
                     std::initializer_list<std::pair<const char*, const char*>> columns) {
  std::string head = "| product | architecture | target |", rule = "|---|---|---|", body;
  for (const auto& [title, metric] : columns) head += fmt::format(" {} |", title), rule += "---|";
  for (const Spec& spec : database.specs()) {
    if (spec.kind != kind) continue;
    body += fmt::format("| {} | {} | {} |", spec.name, spec.architecture, spec.target);
    for (const auto& [title, metric] : columns) body += fmt::format(" {} |", cell(spec, metric));
    body += "\n";
  }
  return head + "\n" + rule + "\n" + body + "\n";
}

std::string product(const Spec& spec) {
  std::string text =
      fmt::format("### {}\n\n{}; {}, {}.\n\n```\n", spec.name, spec.product, spec.architecture, spec.target);
  for (const Fact& fact : spec.facts) {
    text += fact.citation() + "\n";
    for (const OtherSource& other : fact.also) {
      text += fmt::format("    {}: {}\n    {}: {} <- {}\n", fact.conflict_status(), fact.conflict, fact.metric->name,
                          other.value.text, other.from);
    }
    if (fact.state == State::kKnown && !fact.reason.empty()) text += fmt::format("    {}\n", fact.reason);
  }
  return text + "```\n\n";
}

std::string sources(const Database& database) {
  std::string text = "## Sources\n\n| page | document | publisher | version | read |\n|---|---|---|---|---|\n";
  for (const auto& [path, page] : database.wiki().pages()) {
    text += fmt::format("| {} | {} ({}) | {} | {} | {} |\n", path, page.title, page.document, page.publisher,
                        page.version, page.read);
  }
  return text;
}

}  // namespace

std::string to_markdown(const Database& database, const std::string& introduction) {
  std::string text = introduction + "\n## GPUs\n\n";
  text += overview(database, "gpu",
                   {{"units", "compute_units"},
                    {"bf16 dense", "matrix_bf16"},
                    {"fp8 dense", "matrix_fp8"},
                    {"fp32 vector", "vector_fp32"},
                    {"memory", "memory_capacity"},
                    {"bandwidth", "memory_bandwidth"},
                    {"shared memory of a unit", "shared_memory_per_unit"}});
  text += "## Processors\n\n";
  text += overview(database, "cpu",
                   {{"cores", "compute_units"},
                    {"fp32 per clock", "vector_fp32_per_clock"},
                    {"bf16 matrix per clock", "matrix_bf16_per_clock"},
                    {"L2 of a core", "l2_cache"},
                    {"last level", "last_level_cache"},
                    {"bandwidth", "memory_bandwidth"}});
  text += "## Every fact\n\n";
  for (const Spec& spec : database.specs()) text += product(spec);
  return text + sources(database);
}

}  // namespace ridge::hardware

#include "web/library_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.h"
#include "record/json.h"
#include "record/tuned_folder.h"
#include "report/escape.h"
#include "report/html_parts.h"
#include "report/numbers.h"

namespace ridge::web {
namespace {

namespace fs = std::filesystem;
using report::escape_html;

std::vector<fs::path> files_in(const fs::path& folder, std::string_view extension) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == extension) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

void read_tuned(Library& library, const fs::path& folder) {
  for (const fs::path& file : files_in(folder, ".jsonl")) {
    const Result<std::string> text = read_file(file);
    Result<std::vector<record::TunedChoice>> rows = text ? record::parse_tuned(*text, file.string()) : text.error();
    if (!rows) {
      library.problems.push_back(rows.error().text());
      continue;
    }
    library.tuned.insert(library.tuned.end(), rows->begin(), rows->end());
  }
}

void read_promotions(Library& library, const fs::path& operators) {
  std::error_code ignored;
  for (const auto& folder : fs::directory_iterator(operators, ignored)) {
    for (const fs::path& file : files_in(folder.path() / "promotions", ".json")) {
      const Result<std::string> text = read_file(file);
      Result<record::Promotion> promotion =
          text ? record::parse_record<record::Promotion>(*text, file.string()) : text.error();
      if (promotion) {
        library.promotions.push_back(std::move(*promotion));
      } else {
        library.problems.push_back(promotion.error().text());
      }
    }
  }
}

// The types that the parameter dtype of an operator takes; empty without one.
std::string types_of(const record::OperatorInfo& op) {
  for (const record::ParamInfo& param : op.params)
    if (param.name == "dtype") return fmt::format("{}", fmt::join(param.values, ", "));
  return {};
}

std::string operators_section(const Library& library) {
  report::Table table({{"Operator"}, {"Implementations, best first"}, {"Types"}});
  for (const record::OperatorInfo& op : library.operators) {
    std::string names;
    for (const std::string& name : op.implementations) names += report::code(name) + " ";
    table.row({fmt::format("<b>{}</b><br><small>{}</small>", escape_html(op.name), escape_html(op.summary)), names,
               escape_html(types_of(op))});
  }
  return report::section("operators", "Operators",
                         table.str().empty() ? report::paragraph("The worker did not answer.") : table.str());
}

std::string promotions_section(const Library& library) {
  report::Table table(
      {{"Campaign"}, {"Round", true}, {"Kernel"}, {"Configuration"}, {"Device"}, {"Speed-up", true}, {"Date"}});
  for (const record::Promotion& one : library.promotions) {
    table.row({link(campaign_path(one.campaign), one.campaign), std::to_string(one.round), report::code(one.kernel),
               report::code(one.configuration), escape_html(one.device), report::ratio_text(one.speedup),
               escape_html(one.date)});
  }
  return report::section("promotions", "Promoted by campaigns",
                         table.str().empty() ? report::paragraph("No campaign has been promoted.") : table.str());
}

std::string tuned_section(const Library& library) {
  report::Table table({{"Device"}, {"Case"}, {"Takes"}, {"Configuration"}, {"Instead of"}, {"Times as fast", true}});
  for (const record::TunedChoice& one : library.tuned) {
    table.row({escape_html(one.device), escape_html(one.bucket.op + " " + one.bucket.label()),
               report::code(one.implementation), one.configuration.empty() ? "–" : report::code(one.configuration),
               report::code(one.over), report::ratio_text(one.ratio)});
  }
  return report::section(
      "tuned", fmt::format("Tuned tables ({} cases)", library.tuned.size()),
      table.str().empty() ? report::paragraph("No table.") : report::folded("Every case", table.str()));
}

}  // namespace

void read_tables(Library& library, const fs::path& data, const fs::path& cache, const fs::path& tree) {
  if (!data.empty()) read_tuned(library, data / "tuned");
  if (!cache.empty()) read_tuned(library, record::tuned_folder(cache));
  if (!tree.empty()) read_promotions(library, tree / "src" / "ops");
}

Page library_page(const Library& library) {
  Page page{"Library", "/library", "", false, "<h1>Library</h1>\n"};
  for (const std::string& problem : library.problems) page.main_html += report::paragraph(problem, "warning");
  page.main_html += operators_section(library) + promotions_section(library) + tuned_section(library);
  return page;
}

}  // namespace ridge::web

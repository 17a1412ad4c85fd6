// ridge spec: hardware facts, each with the document it comes from.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "campaign_run.h"
#include "hardware/lint.h"
#include "hardware/markdown.h"
#include "knowledge/pages.h"
#include "record/hardware.h"
#include "record/json.h"
#include "say.h"
#include "spec_export.h"
#include "spec_probe.h"
#include "spec_records.h"
#include "subcommands.h"
#include "terminal.h"

namespace fs = std::filesystem;

namespace ridge::cli {
namespace {

int list(bool markdown) {
  const Result<hardware::Database> database = hardware::Database::open(data_directory());
  if (!database) return fail(database.error());
  if (markdown && !globals().json) {
    const Result<std::string> introduction = read_file(data_directory() / "hardware" / "README.md");
    if (!introduction) return fail(introduction.error());
    say("{}", hardware::to_markdown(*database, *introduction));
    return kSuccess;
  }
  std::vector<record::SpecSummary> summaries;
  for (const hardware::Spec& spec : database->specs()) summaries.push_back(summary_of(spec));
  if (globals().json) {
    say("{}\n", record::to_pretty(summaries));
    return kSuccess;
  }
  std::vector<std::vector<std::string>> rows;
  for (const record::SpecSummary& s : summaries) {
    rows.push_back(
        {s.name, s.kind, s.architecture, s.target, std::to_string(s.known), std::to_string(s.unknown), s.product});
  }
  say("{}", table({"name", "kind", "architecture", "target", "facts", "unknown", "product"}, rows));
  return kSuccess;
}

int show(const std::string& name) {
  const Result<hardware::Database> database = hardware::Database::open(data_directory());
  if (!database) return fail(database.error());
  const Result<const hardware::Spec*> spec = database->find(name);
  if (!spec) return fail(spec.error());
  const record::SpecSheet sheet = sheet_of(**spec, database->wiki());
  if (globals().json) {
    say("{}\n", record::to_pretty(sheet));
    return kSuccess;
  }
  say("{}: {}, {}, {}\n", sheet.name, sheet.product, sheet.architecture, sheet.target);
  std::vector<std::vector<std::string>> rows;
  for (const record::SpecFact& fact : sheet.facts) {
    rows.push_back({fact.metric,
                    fact.state == "known"  ? fact.value
                    : fact.state == "none" ? "-"
                                           : "UNKNOWN",
                    fact.evidence, fact.state == "known" ? fact.from : fact.note});
  }
  say("{}", table({"metric", "value", "evidence", "source, or why there is none"}, rows));
  return kSuccess;
}

int get(const std::string& name, const std::string& metric) {
  const Result<hardware::Database> database = hardware::Database::open(data_directory());
  if (!database) return fail(database.error());
  const Result<const hardware::Spec*> spec = database->find(name);
  if (!spec) return fail(spec.error());
  if (const Result<double> value = (*spec)->value(metric); !value && value.error().code == ErrorCode::kNotFound) {
    std::string names;
    for (const hardware::Metric& m : hardware::metrics()) names += (names.empty() ? "" : ", ") + std::string(m.name);
    return fail(with_hint(value.error(), "metrics are " + names));
  }
  const hardware::Fact* fact = (*spec)->find(metric);
  hardware::Fact absent;
  if (fact == nullptr) {
    absent.metric = hardware::find_metric(metric);
    absent.reason = (*spec)->file + " does not state it";
    fact = &absent;
  }
  const record::SpecFact record = fact_of(*fact, database->wiki());
  if (globals().json) {
    say("{}\n", record::to_pretty(record));
  } else {
    say("{}\n", record.citation);
    if (!record.document.empty()) say("  {}\n", record.document);
    if (!record.formula.empty()) say("  = {}\n", record.formula);
    if (!record.note.empty() && record.state == "known") say("  {}\n", record.note);
    for (const record::SpecSource& other : record.also) {
      say("  {}: also {} <- {}; {}\n", record.conflict, other.value, other.from, fact->conflict);
    }
  }
  return fact->state == hardware::State::kUnknown ? kUnknown : kSuccess;
}

int diff(const std::string& left, const std::string& right) {
  const Result<hardware::Database> database = hardware::Database::open(data_directory());
  if (!database) return fail(database.error());
  const Result<const hardware::Spec*> a = database->find(left), b = database->find(right);
  if (!a) return fail(a.error());
  if (!b) return fail(b.error());
  const std::vector<record::SpecDifference> differences = differences_of(**a, **b);
  if (globals().json) {
    say("{}\n", record::to_pretty(differences));
    return kSuccess;
  }
  std::vector<std::vector<std::string>> rows;
  for (const record::SpecDifference& d : differences) {
    rows.push_back({d.metric, d.left, d.right, d.ratio ? fmt::format("{:.3f}", *d.ratio) : ""});
  }
  say("{}", table({"metric", (*a)->name, (*b)->name, "ratio"}, rows));
  return kSuccess;
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

int lint(const std::vector<std::string>& names, bool relock) {
  const Result<hardware::Database> database = hardware::Database::open(data_directory());
  if (!database) return fail(database.error());
  if (relock) {
    const fs::path lock = data_directory() / "wiki" / "pages.sha256";
    if (const Status written = write_file_durably(lock, database->wiki().lock()); !written)
      return fail(written.error());
    say(stderr, "{}: {} pages as they are now\n", lock.string(), database->wiki().pages().size());
    return lint(names, false);
  }
  record::LintReport report = report_of(*database);
  for (const std::string& name : names) {
    const Result<std::vector<fs::path>> files = markdown_files(name);
    if (!files) return fail(files.error());
    for (const fs::path& file : *files) {
      const Result<std::string> text = read_file(file);
      if (!text) return fail(text.error());
      add_text(report, hardware::lint_text(*database, file.string(), *text));
    }
  }
  for (knowledge::PageProblem& problem : knowledge::lint_pages(data_directory() / "knowledge", own_knowledge()))
    report.findings.push_back({std::move(problem.file), problem.line, "knowledge", std::move(problem.message)});
  report.ok = report.findings.empty();
  if (globals().json) {
    say("{}\n", record::to_pretty(report));
    return report.ok ? kSuccess : kNo;
  }
  for (const record::LintFinding& f : report.findings) say("{}:{}: {}: {}\n", f.file, f.line, f.rule, f.message);
  say("{} products, {} facts, {} UNKNOWN; {} citations in {} files; {} finding{}\n", report.products, report.facts,
      report.unknown, report.citations, report.files, report.findings.size(), report.findings.size() == 1 ? "" : "s");
  return report.ok ? kSuccess : kNo;
}

}  // namespace

void define_spec(Command root) {
  struct Options {
    std::string name, other, metric;
    std::vector<std::string> files;
    bool markdown = false, relock = false;
  };
  auto o = std::make_shared<Options>();
  Command spec = root.subcommand("spec", "Hardware facts, each with the document it comes from");
  spec.subcommand("list", "Every product of the database")
      .flag("--markdown", o->markdown, "The whole database as the text of docs/hardware.md")
      .example("ridge spec list", "products, architectures, how much of each is known")
      .exits({kSystem})
      .json("a list of products with how many facts of each are known")
      .action([o] { return list(o->markdown); });
  spec.subcommand("show", "Every fact of a product with its source")
      .positional("product", o->name, "For instance H200, \"H100 SXM\", MI300X, \"Zen 5\"")
      .example("ridge spec show H200", "peaks, memory, caches, limits of a unit")
      .exits({kSystem})
      .json("the product with every fact, its source and evidence")
      .action([o] { return show(o->name); });
  spec.subcommand("get", "One fact; exit code 4 when no source states it")
      .positional("product", o->name, "Product")
      .positional("metric", o->metric, "Metric, as spec show lists them")
      .example("ridge spec get H200 memory_bandwidth", "4.8 TB/s, and where that is written")
      .exits({kUnknown, kSystem})
      .json("the fact with its value, source and evidence")
      .action([o] { return get(o->name, o->metric); });
  define_spec_export(spec);
  spec.subcommand("diff", "What two products differ in")
      .positional("product", o->name, "Product")
      .positional("other", o->other, "Another")
      .example("ridge spec diff H200 MI300X", "the same metrics side by side, with their ratio")
      .exits({kSystem})
      .json("a list of metrics with both values and their ratio")
      .action([o] { return diff(o->name, o->other); });
  spec.subcommand("lint",
                  "Check every fact (source, digits, physics), the knowledge pages, and the citations of any text")
      .positional("files", o->files, "Markdown files or folders whose citation lines are checked too", false)
      .flag("--relock", o->relock, "Take the wiki pages as they are; after their facts were checked again")
      .example("ridge spec lint docs", "the database, and every citation below docs")
      .exits({{kNo, "a fact or a citation does not hold"}, kSystem})
      .json("what was counted, and a list of findings")
      .action([o] { return lint(o->files, o->relock); });
  spec.subcommand("probe", "What this machine reports, beside what the database states")
      .positional("product", o->name, "Product to compare with; by default the one the device names itself", false)
      .example("ridge spec probe", "the GPU of this machine, or its processor")
      .exits({{kNo, "the device disagrees with a stated fact"}, kSystem, kInterrupted})
      .json("the device, its product and a row per metric")
      .action([o] { return probe(o->name); });
}

}  // namespace ridge::cli

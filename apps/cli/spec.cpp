// ridge spec: hardware facts, each with the document it comes from.
#include <fmt/format.h>

#include <algorithm>

#include "base/files.h"
#include "record/hardware.h"
#include "say.h"
#include "service/spec.h"
#include "service/spec_export.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

int list(const Context& context, bool markdown) {
  if (markdown && !globals().json) {
    const Result<std::string> text = service::products_markdown(context);
    if (!text) return fail(text.error());
    say("{}", *text);
    return kSuccess;
  }
  const Result<std::vector<record::SpecSummary>> products = service::list_products(context);
  if (!products) return fail(products.error());
  if (globals().json) return print_json(*products);
  std::vector<std::vector<std::string>> rows;
  for (const record::SpecSummary& s : *products) {
    rows.push_back(
        {s.name, s.kind, s.architecture, s.target, std::to_string(s.known), std::to_string(s.unknown), s.product});
  }
  say("{}", table({"name", "kind", "architecture", "target", "facts", "unknown", "product"}, rows));
  return kSuccess;
}

int show(const Context& context, const std::string& name) {
  const Result<record::SpecSheet> found = service::show_product(context, name);
  if (!found) return fail(found.error());
  const record::SpecSheet& sheet = *found;
  if (globals().json) return print_json(sheet);
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

int get(const Context& context, const std::string& name, const std::string& metric) {
  const Result<service::FoundFact> found = service::get_fact(context, name, metric);
  if (!found) return fail(found.error());
  const record::SpecFact& fact = found->fact;
  const int code = fact.state == "unknown" ? kUnknown : kSuccess;
  if (globals().json) return print_json(fact, code);
  say("{}\n", fact.citation);
  if (!fact.document.empty()) say("  {}\n", fact.document);
  if (!fact.formula.empty()) say("  = {}\n", fact.formula);
  if (!fact.note.empty() && fact.state == "known") say("  {}\n", fact.note);
  for (const record::SpecSource& other : fact.also)
    say("  {}: also {} <- {}; {}\n", fact.conflict, other.value, other.from, found->conflict);
  return code;
}

int diff(const Context& context, const std::string& left, const std::string& right) {
  const Result<service::ProductDifferences> found = service::compare_products(context, left, right);
  if (!found) return fail(found.error());
  if (globals().json) return print_json(found->differences);
  std::vector<std::vector<std::string>> rows;
  for (const record::SpecDifference& d : found->differences) {
    rows.push_back({d.metric, d.left, d.right, d.ratio ? fmt::format("{:.3f}", *d.ratio) : ""});
  }
  say("{}", table({"metric", found->left, found->right, "ratio"}, rows));
  return kSuccess;
}

int lint(const Context& context, const std::vector<std::string>& names, bool relock) {
  if (relock) {
    const Result<service::Relocked> locked = service::relock_pages(context);
    if (!locked) return fail(locked.error());
    say(stderr, "{}: {} pages as they are now\n", locked->file, locked->pages);
  }
  const Result<record::LintReport> found = service::lint_facts(context, names);
  if (!found) return fail(found.error());
  const record::LintReport& report = *found;
  if (globals().json) return print_json(report, report.ok ? kSuccess : kNo);
  for (const record::LintFinding& f : report.findings) say("{}:{}: {}: {}\n", f.file, f.line, f.rule, f.message);
  say("{} products, {} facts, {} UNKNOWN; {} citations in {} files; {} finding{}\n", report.products, report.facts,
      report.unknown, report.citations, report.files, report.findings.size(), report.findings.size() == 1 ? "" : "s");
  return report.ok ? kSuccess : kNo;
}

int probe(const Context& context, const std::string& product) {
  const Result<record::SpecProbe> found = service::probe_device(context, product);
  if (!found) return fail(found.error());
  const int code = service::disagrees(*found) ? kNo : kSuccess;
  if (globals().json) return print_json(*found, code);
  say("{}{}\n", found->device,
      found->product.empty() ? ": no product of the database names itself so" : " as " + found->product);
  std::vector<std::vector<std::string>> rows;
  for (const record::SpecProbeRow& row : found->rows) {
    rows.push_back({row.metric, row.stated, row.device, row.stated == "UNKNOWN" ? "" : row.agrees ? "yes" : "NO"});
  }
  say("{}", table({"metric", "database", "device", "agrees"}, rows));
  return code;
}

// The record of one GPU, or with --out those of all into a folder.
int export_spec(const Context& context, const std::string& product, const std::string& format, const std::string& out) {
  if (const Status known = service::check_exchange_format(format); !known) return fail(known.error());
  if (product.empty()) {
    const Result<std::size_t> records = service::export_products(context, out);
    if (!records) return fail(records.error());
    return answer(fmt::format("{} records in {}; the store's own tool makes its index", *records, out));
  }
  const Result<record::ExchangedSheet> sheet = service::exchanged_product(context, product);
  if (!sheet) return fail(sheet.error());
  if (out.empty()) return print_json(*sheet);
  const Status written = write_file_durably(out, record::to_pretty(*sheet) + "\n");
  return written ? answer(fmt::format("{} in {}", sheet->id, out)) : fail(written.error());
}

}  // namespace

void define_spec(Command root) {
  struct Options {
    std::string name, other, metric, format = service::kExchangeFormat, out;
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
      .action([o](const Context& context) { return list(context, o->markdown); });
  spec.subcommand("show", "Every fact of a product with its source")
      .positional("product", o->name, "For instance H200, \"H100 SXM\", MI300X, \"Zen 5\"")
      .example("ridge spec show H200", "peaks, memory, caches, limits of a unit")
      .exits({kSystem})
      .json("the product with every fact, its source and evidence")
      .action([o](const Context& context) { return show(context, o->name); });
  spec.subcommand("get", "One fact; exit code 4 when no source states it")
      .positional("product", o->name, "Product")
      .positional("metric", o->metric, "Metric, as spec show lists them")
      .example("ridge spec get H200 memory_bandwidth", "4.8 TB/s, and where that is written")
      .exits({kUnknown, kSystem})
      .json("the fact with its value, source and evidence")
      .action([o](const Context& context) { return get(context, o->name, o->metric); });
  spec.subcommand("export", "A GPU's facts as a record of another hardware store, null and explained where unknown")
      .positional("product", o->name, "A GPU (default: all of them, into --out)", false)
      .option("--format hw-1.0", o->format, "hw-1.0")
      .option("--out PATH", o->out, "A file, or without a product a folder (default: print it)")
      .example("ridge spec export H200 --format hw-1.0", "one JSON record: peaks, memory, units, sources")
      .example("ridge spec export --out records", "spec-sheet/<vendor>/<arch>/<product>.json of every GPU")
      .exits({kSystem})
      .json("the record, or with --out a message")
      .action([o](const Context& context) { return export_spec(context, o->name, o->format, o->out); });
  spec.subcommand("diff", "What two products differ in")
      .positional("product", o->name, "Product")
      .positional("other", o->other, "Another")
      .example("ridge spec diff H200 MI300X", "the same metrics side by side, with their ratio")
      .exits({kSystem})
      .json("a list of metrics with both values and their ratio")
      .action([o](const Context& context) { return diff(context, o->name, o->other); });
  spec.subcommand("lint",
                  "Check every fact (source, digits, physics), the knowledge pages, and the citations of any text")
      .positional("files", o->files, "Markdown files or folders whose citation lines are checked too", false)
      .flag("--relock", o->relock, "Take the wiki pages as they are; after their facts were checked again")
      .example("ridge spec lint docs", "the database, and every citation below docs")
      .exits({{kNo, "a fact or a citation does not hold"}, kSystem})
      .json("what was counted, and a list of findings")
      .action([o](const Context& context) { return lint(context, o->files, o->relock); });
  spec.subcommand("probe", "What this machine reports, beside what the database states")
      .positional("product", o->name, "Product to compare with; by default the one the device names itself", false)
      .example("ridge spec probe", "the GPU of this machine, or its processor")
      .exits({{kNo, "the device disagrees with a stated fact"}, kSystem, kInterrupted})
      .json("the device, its product and a row per metric")
      .action([o](const Context& context) { return probe(context, o->name); });
}

}  // namespace ridge::cli

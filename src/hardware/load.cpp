// Reads data/hardware/*.toml and finds a product by name.
#include <toml++/toml.h>
#include <algorithm>
#include <cctype>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/malformed.h"
#include "hardware/spec.h"

namespace fs = std::filesystem;

namespace ridge::hardware {
namespace {

Error refused(const std::string& file, const toml::node& node, const std::string& what) {
  return Error{ErrorCode::kCorrupt, fmt::format("{}:{}: {}", file, node.source().begin.line, what), {}};
}

Result<std::string> text_of(const std::string& file, const toml::table& table, std::string_view key, bool required) {
  const toml::node* node = table.get(key);
  if (node == nullptr) {
    if (required) return refused(file, table, fmt::format("\"{}\" is missing", key));
    return std::string();
  }
  if (!node->is_string()) return refused(file, *node, fmt::format("\"{}\" is not a text", key));
  return **node->as_string();
}

Status check_keys(const std::string& file, const toml::table& table, const std::set<std::string_view>& known) {
  for (const auto& [key, node] : table) {
    if (!known.contains(key.str())) {
      std::string names;
      for (const std::string_view name : known) names += (names.empty() ? "" : ", ") + std::string(name);
      return with_hint(refused(file, node, fmt::format("unknown key \"{}\"", key.str())), "keys are " + names);
    }
  }
  return ok_status();
}

Result<Quantity> quantity_of(const std::string& file, const toml::table& table, const Metric& metric) {
  RIDGE_TRY(text, text_of(file, table, "is", true));
  const Result<Quantity> value = parse_quantity(text);
  if (!value) return refused(file, *table.get("is"), fmt::format("{}: {}", metric.name, value.error().text()));
  if (value->dimension != metric.dimension) {
    return refused(file, *table.get("is"),
                   fmt::format("{}: {} is {}, and the metric is {}", metric.name, text, to_string(value->dimension),
                               to_string(metric.dimension)));
  }
  return *value;
}

Result<Evidence> evidence_of(const std::string& file, const toml::table& table) {
  RIDGE_TRY(text, text_of(file, table, "evidence", false));
  for (const Evidence e : {Evidence::kVendor, Evidence::kDerived, Evidence::kMeasured, Evidence::kThirdParty}) {
    if (text == to_string(e) || (text.empty() && e == Evidence::kVendor)) return e;
  }
  return refused(file, table, fmt::format("evidence \"{}\" is none of vendor, derived, measured, third-party", text));
}

Status read_others(const std::string& file, const toml::table& table, Fact& fact) {
  const toml::array* others = table["also"].as_array();
  if (others == nullptr) return ok_status();
  for (const toml::node& node : *others) {
    const toml::table* other = node.as_table();
    if (other == nullptr) return refused(file, node, "\"also\" holds tables of \"is\" and \"from\"");
    RIDGE_TRY(value, quantity_of(file, *other, *fact.metric));
    RIDGE_TRY(from, text_of(file, *other, "from", true));
    fact.also.push_back({std::move(value), std::move(from)});
  }
  return ok_status();
}

Status read_known(const std::string& file, const toml::table& table, Fact& fact) {
  fact.state = State::kKnown;
  RIDGE_TRY(value, quantity_of(file, table, *fact.metric));
  RIDGE_TRY(from, text_of(file, table, "from", true));
  RIDGE_TRY(evidence, evidence_of(file, table));
  RIDGE_TRY(formula, text_of(file, table, "formula", false));
  RIDGE_TRY(note, text_of(file, table, "note", false));
  RIDGE_TRY(conflict, text_of(file, table, "conflict", false));
  fact.value = std::move(value);
  fact.from = std::move(from);
  fact.evidence = evidence;
  fact.formula = std::move(formula);
  fact.reason = std::move(note);
  fact.conflict = std::move(conflict);
  if ((evidence == Evidence::kDerived) != !fact.formula.empty()) {
    return refused(file, table, fmt::format("{}: a derived value has a formula, another has none", fact.metric->name));
  }
  return read_others(file, table, fact);
}

Result<Fact> read_fact(const std::string& file, std::string_view name, const toml::node& node) {
  Fact fact;
  fact.metric = find_metric(name);
  fact.line = static_cast<int>(node.source().begin.line);
  if (fact.metric == nullptr) return refused(file, node, fmt::format("there is no metric \"{}\"", name));
  const toml::table* table = node.as_table();
  if (table == nullptr) {
    return with_hint(refused(file, node, fmt::format("{} is a bare value", name)),
                     "write { is = \"<value> <unit>\", from = \"<page>:<section>\" } or { unknown = \"<why>\" }");
  }
  RIDGE_CHECK_OK(
      check_keys(file, *table, {"is", "from", "evidence", "formula", "note", "also", "conflict", "unknown", "none"}));
  const int kinds =
      (table->contains("is") ? 1 : 0) + (table->contains("unknown") ? 1 : 0) + (table->contains("none") ? 1 : 0);
  if (kinds != 1) return refused(file, node, fmt::format("{} needs one of \"is\", \"unknown\" and \"none\"", name));
  if (table->contains("is")) {
    RIDGE_CHECK_OK(read_known(file, *table, fact));
    return fact;
  }
  fact.state = table->contains("unknown") ? State::kUnknown : State::kNone;
  RIDGE_TRY(reason, text_of(file, *table, fact.state == State::kUnknown ? "unknown" : "none", true));
  if (reason.empty()) return refused(file, node, fmt::format("{}: say why", name));
  fact.reason = std::move(reason);
  return fact;
}

// "NVIDIA H100-SXM" and "h100 sxm" are one name.
std::string normalised(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  for (const std::string_view word : {"nvidia", "amd", "intel", "instinct", "tensorcoregpu"}) {
    if (const std::size_t at = text.find(word); at != std::string::npos && text.size() > word.size()) {
      text.erase(at, word.size());
    }
  }
  return text;
}

std::vector<std::string> names_of(const Spec& spec) {
  std::vector<std::string> names = {normalised(spec.name), normalised(spec.product)};
  for (const std::string& alias : spec.aliases) names.push_back(normalised(alias));
  return names;
}

std::string listed(const std::vector<const Spec*>& specs) {
  std::string text;
  for (const Spec* spec : specs) text += (text.empty() ? "" : ", ") + spec->name;
  return text;
}

}  // namespace

Result<Spec> parse_spec(std::string file, std::string_view text) {
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    const auto line = error.source().begin.line;
    return make_error(ErrorCode::kCorrupt, "{}:{}: {}", file, line, toml_problem(text, line, error.description()));
  }
  Spec spec;
  spec.file = std::move(file);
  RIDGE_CHECK_OK(
      check_keys(spec.file, root,
                 {"name", "product", "vendor", "kind", "architecture", "target", "capability", "aliases", "facts"}));
  for (const auto& [key, member] : {std::pair<const char*, std::string*>{"name", &spec.name},
                                    {"product", &spec.product},
                                    {"vendor", &spec.vendor},
                                    {"kind", &spec.kind},
                                    {"architecture", &spec.architecture},
                                    {"target", &spec.target}}) {
    RIDGE_TRY(value, text_of(spec.file, root, key, true));
    *member = std::move(value);
  }
  RIDGE_TRY(capability, text_of(spec.file, root, "capability", false));
  spec.capability = std::move(capability);
  if (spec.kind != "gpu" && spec.kind != "cpu") return refused(spec.file, root, "\"kind\" is neither gpu nor cpu");
  if (const toml::array* aliases = root["aliases"].as_array()) {
    for (const toml::node& alias : *aliases) {
      if (!alias.is_string()) return refused(spec.file, alias, "an alias is a text");
      spec.aliases.push_back(**alias.as_string());
    }
  }
  const toml::table* facts = root["facts"].as_table();
  if (facts == nullptr) return refused(spec.file, root, "the table [facts] is missing");
  for (const auto& [name, node] : *facts) {
    RIDGE_TRY(fact, read_fact(spec.file, name.str(), node));
    spec.facts.push_back(std::move(fact));
  }
  const auto rank = [](const Fact& fact) { return fact.metric - metrics().data(); };
  std::sort(spec.facts.begin(), spec.facts.end(), [&](const Fact& a, const Fact& b) { return rank(a) < rank(b); });
  return spec;
}

Result<Database> Database::open(const fs::path& data) {
  Database database;
  RIDGE_TRY(wiki, Wiki::open(data / "wiki"));
  database.wiki_ = std::move(wiki);
  std::vector<fs::path> files;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(data / "hardware", missing)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  if (files.empty()) return make_error(ErrorCode::kNotFound, "no spec files in {}", (data / "hardware").string());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    RIDGE_TRY(text, read_file(file));
    RIDGE_TRY(spec, parse_spec("hardware/" + file.filename().string(), text));
    database.specs_.push_back(std::move(spec));
  }
  return database;
}

Result<const Spec*> Database::find(std::string_view name) const {
  const std::string wanted = normalised(name);
  std::vector<const Spec*> exact, partial, all;
  for (const Spec& spec : specs_) {
    const std::vector<std::string> names = names_of(spec);
    if (std::find(names.begin(), names.end(), wanted) != names.end()) exact.push_back(&spec);
    if (!wanted.empty() && names.front().starts_with(wanted)) partial.push_back(&spec);
    all.push_back(&spec);
  }
  if (exact.size() == 1) return exact.front();
  const std::vector<const Spec*>& several = exact.size() > 1 ? exact : partial;
  if (!several.empty()) {
    return with_hint(invalid("\"{}\" does not name one product", name), "say which: " + listed(several));
  }
  return with_hint(
      make_error(ErrorCode::kNotFound, "no spec of \"{}\"; a similar product does not stand in for it", name),
      "there are " + listed(all));
}

}  // namespace ridge::hardware

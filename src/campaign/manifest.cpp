#include "campaign/manifest.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>
#include <thread>
#include <tuple>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/malformed.h"
#include "campaign/gates.h"
#include "campaign/machines.h"
#include "campaign/naming.h"
#include "campaign/project_table.h"
#include "campaign/render.h"
#include "campaign/target.h"
#include "campaign/upstream.h"
#include "record/backend.h"
#include "record/execution.h"
#include "stats/bounds.h"

namespace ridge::campaign {
namespace {

using record::CampaignSpec;

constexpr std::int64_t kMostIterations = 119;
constexpr std::int64_t kLeastMemoryMib = 64, kMostMemoryMib = std::int64_t{1} << 24;
constexpr double kLongestTimeout = 86400;
constexpr std::size_t kLongestConstraint = 1000;

std::string number_text(double value) { return fmt::format("{}", value); }

// Error of one key, thrown inside this file only, because yaml-cpp throws as well.
struct KeyError {
  std::string text;
};

template <class T>
T as(const YAML::Node& node, std::string_view key, std::string_view expected) {
  try {
    return node.as<T>();
  } catch (const YAML::Exception&) {
    throw KeyError{fmt::format("{} must be {}", key, expected)};
  }
}
std::string text_of(const YAML::Node& node, std::string_view key) { return as<std::string>(node, key, "a text"); }

// Writes and reads the protocol through the list of fields that the record itself declares.
struct ProtocolWriter {
  YAML::Node node;
  void operator()(const char* key, const double& value) { node[key] = number_text(value); }
  void operator()(const char* key, const std::int64_t& value) { node[key] = value; }
  void operator()(const char* key, const std::string& value) { node[key] = value; }
  void optional(const char* key, const auto& value) { (*this)(key, value); }
};
struct ProtocolReader {
  const YAML::Node& node;
  std::set<std::string> known;
  template <class T>
  void operator()(const char* key, T& value) {
    known.insert(key);
    if (!node[key]) return;
    value = as<T>(node[key], std::string("protocol.") + key, std::is_same_v<T, std::string> ? "a text" : "a number");
  }
  void optional(const char* key, auto& value) { (*this)(key, value); }
};

YAML::Node shapes_node(const std::vector<record::Case>& cases) {
  YAML::Node node(YAML::NodeType::Sequence);
  for (const record::Case& one : cases) node.push_back(one.label());
  return node;
}

std::vector<record::Case> read_shapes(const YAML::Node& node, const std::string& op) {
  if (!node.IsSequence()) throw KeyError{"target_shapes must be a list of shapes like \"m=512 n=512 k=512\""};
  std::vector<record::Case> cases;
  for (const YAML::Node& item : node) {
    Result<record::Case> parsed = record::parse_case(op + " " + text_of(item, "target_shapes"));
    if (!parsed) throw KeyError{"target_shapes: " + parsed.error().text()};
    cases.push_back(std::move(*parsed));
  }
  return cases;
}

// One key of the manifest: how it is written and read. A row per key, in the order of the file.
struct Key {
  const char* name;
  bool required;
  std::function<YAML::Node(const CampaignSpec&)> write;
  std::function<void(const YAML::Node&, CampaignSpec&)> read;
};

Key text_key(const char* name, std::string CampaignSpec::*field, bool required = true) {
  return {name, required, [=](const CampaignSpec& spec) { return YAML::Node(spec.*field); },
          [=](const YAML::Node& node, CampaignSpec& spec) { spec.*field = text_of(node, name); }};
}

YAML::Node write_target(const CampaignSpec& spec) {
  return spec.performance_target ? YAML::Node(format_target(*spec.performance_target)) : YAML::Node(YAML::Null);
}
void read_target(const YAML::Node& node, CampaignSpec& spec) {
  spec.performance_target.reset();
  if (node.IsNull()) return;
  Result<record::Target> target = parse_target(text_of(node, "performance_target"));
  if (!target) throw KeyError{target.error().text()};
  spec.performance_target = *target;
}

YAML::Node write_iterations(const CampaignSpec& spec) {
  return spec.max_iterations ? YAML::Node(*spec.max_iterations) : YAML::Node(YAML::Null);
}
void read_iterations(const YAML::Node& node, CampaignSpec& spec) {
  spec.max_iterations.reset();
  if (!node.IsNull()) spec.max_iterations = as<std::int64_t>(node, "max_iterations", "null or a whole number");
}

YAML::Node write_labels(const CampaignSpec& spec) {
  YAML::Node node(YAML::NodeType::Sequence);
  for (const std::string& label : spec.representative_labels) node.push_back(label);
  return node;
}
void read_labels(const YAML::Node& node, CampaignSpec& spec) {
  spec.representative_labels.clear();
  for (const YAML::Node& item : node) spec.representative_labels.push_back(text_of(item, "representative_shapes"));
}

YAML::Node write_protocol(const CampaignSpec& spec) {
  ProtocolWriter writer{YAML::Node(YAML::NodeType::Map)};
  record::Protocol::fields(writer, spec.protocol);
  return writer.node;
}
void read_protocol(const YAML::Node& node, CampaignSpec& spec) {
  if (!node.IsMap()) throw KeyError{"protocol must be a map"};
  ProtocolReader reader{node, {}};
  record::Protocol::fields(reader, spec.protocol);
  for (const auto& item : node) {
    const std::string key = item.first.as<std::string>();
    if (!reader.known.contains(key)) throw KeyError{fmt::format("protocol.{} is not known", key)};
  }
}

const std::vector<Key>& keys() {
  static const std::vector<Key> table = {
      text_key("campaign", &CampaignSpec::id),
      text_key("target_op", &CampaignSpec::op),
      text_key("target_backend", &CampaignSpec::backend),
      text_key("target_lang", &CampaignSpec::language),
      text_key("target_gpu", &CampaignSpec::gpu),
      text_key("execution_mode", &CampaignSpec::execution_mode),
      {"performance_target", false, write_target, read_target},
      {"efficiency_target", false,
       [](const CampaignSpec& spec) { return YAML::Node(number_text(spec.efficiency_target)); },
       [](const YAML::Node& node, CampaignSpec& spec) {
         spec.efficiency_target = as<double>(node, "efficiency_target", "a fraction of the measured ceiling");
       }},
      text_key("primary_metric", &CampaignSpec::primary_metric),
      {"target_shapes", true, [](const CampaignSpec& spec) { return shapes_node(spec.target_cases); },
       [](const YAML::Node& node, CampaignSpec& spec) { spec.target_cases = read_shapes(node, spec.op); }},
      {"representative_shapes", false, write_labels, read_labels},
      text_key("kernel_source", &CampaignSpec::kernel_source),
      text_key("proposer", &CampaignSpec::proposer),
      {"git_commit", false, [](const CampaignSpec& spec) { return YAML::Node(spec.git_commit); },
       [](const YAML::Node& node, CampaignSpec& spec) {
         spec.git_commit = as<bool>(node, "git_commit", "true or false");
       }},
      text_key("git_branch", &CampaignSpec::git_branch, false),
      {"max_iterations", false, write_iterations, read_iterations},
      {"wall_budget", false, [](const CampaignSpec& spec) { return YAML::Node(number_text(spec.wall_budget)); },
       [](const YAML::Node& node, CampaignSpec& spec) {
         spec.wall_budget = as<double>(node, "wall_budget", "seconds");
       }},
      {"protocol", false, write_protocol, read_protocol},
      text_key("created", &CampaignSpec::created, false),
  };
  return table;
}

CampaignSpec read_keys(const YAML::Node& root) {
  if (!root.IsMap()) throw KeyError{"it is not a map of keys"};
  CampaignSpec spec;
  std::set<std::string> known;
  for (const Key& key : keys()) {
    known.insert(key.name);
    const YAML::Node node = root[key.name];
    const bool empty = !node || node.IsNull() || (node.IsScalar() && node.Scalar().empty());
    if (empty && key.required) throw KeyError{fmt::format("{} is missing or empty", key.name)};
    if (node) key.read(node, spec);
  }
  std::set<std::string> seen;
  for (const auto& item : root) {
    const std::string key = item.first.as<std::string>();
    if (!seen.insert(key).second) throw KeyError{fmt::format("{} appears twice", key)};
    if (!known.contains(key)) spec.extra[key] = YAML::Dump(item.second);
  }
  return spec;
}

std::string key_text(const Key& key, const CampaignSpec& spec) { return YAML::Dump(key.write(spec)); }

bool counts(const Key& key) { return std::string_view(key.name) != "representative_shapes"; }

}  // namespace

std::string render_manifest(const CampaignSpec& spec) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  for (const Key& key : keys()) out << YAML::Key << key.name << YAML::Value << key.write(spec);
  for (const auto& [name, text] : spec.extra) out << YAML::Key << name << YAML::Value << YAML::Load(text);
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

Result<CampaignSpec> parse_manifest(std::string_view text) {
  const auto refused = [](std::string_view what) {
    return with_hint(invalid("manifest.yaml: {}", what), "edit the file and run the same command again");
  };
  try {
    return read_keys(YAML::Load(std::string(text)));
  } catch (const KeyError& error) {
    return refused(error.text);
  } catch (const YAML::Exception& error) {
    const auto line = static_cast<std::size_t>(std::max(error.mark.line, 0) + 1);
    return refused(fmt::format("line {}: {}", line, yaml_problem(text, line, error.msg)));
  }
}

Status validate_spec(const CampaignSpec& spec) {
  if (spec.max_iterations && (*spec.max_iterations < 1 || *spec.max_iterations > kMostIterations)) {
    return invalid("max_iterations = {} must be null or 1..{}", *spec.max_iterations, kMostIterations);
  }
  if (spec.execution_mode != record::kWorkspaceMode && spec.execution_mode != record::kRepoMode) {
    return invalid(
        "execution_mode \"{}\" is not repo (a project's folder as it is) or workspace (a commit of a project that "
        "`ridge optimize --mode workspace` extracted, or an operator of Ridgeline)",
        spec.execution_mode);
  }
  if (record::is_extracted(spec) && spec.execution_mode == record::kRepoMode)
    return with_hint(
        invalid("execution_mode \"repo\" and upstream: files that were extracted are worked on as workspace"),
        "begin a new campaign with --mode repo");
  for (const std::string& problem :
       {id_problem(spec), branch_problem(spec), language_problem(spec.backend, spec.language),
        primary_metric_problem(spec), target_problem(spec), upstream_problem(spec)}) {
    if (!problem.empty()) return invalid("{}", problem);
  }
  if (spec.wall_budget < 0) return invalid("wall_budget = {} must not be negative", spec.wall_budget);
  if (!(spec.efficiency_target > 0 && spec.efficiency_target <= 1)) {
    return invalid("efficiency_target = {} must be above 0 and at most 1", spec.efficiency_target);
  }
  const record::Protocol& protocol = spec.protocol;
  for (const auto& [name, value] :
       {std::pair("max_foreign_load", protocol.max_foreign_load), std::pair("max_steal", protocol.max_steal),
        std::pair("max_clock_gap", protocol.max_clock_gap), std::pair("max_void_fraction", protocol.max_void_fraction),
        std::pair("noninferiority", protocol.noninferiority)}) {
    if (!(value >= 0 && value <= 1)) return invalid("protocol.{} = {} must be 0..1", name, value);
  }
  for (const auto& [name, value, most] : {std::tuple("max_decisions", protocol.max_decisions, stats::kMostDecisions),
                                          std::tuple("max_sessions", protocol.max_sessions, stats::kMostSessions),
                                          std::tuple("max_quads", protocol.max_quads, stats::kMostCount),
                                          std::tuple("max_launches", protocol.max_launches, stats::kMostCount)}) {
    if (value < 1 || value > most) return invalid("protocol.{} = {} must be 1..{}", name, value, most);
  }
  if (protocol.mode != "cold" && protocol.mode != "warm") {
    return invalid("protocol.mode = \"{}\" must be cold or warm", protocol.mode);
  }
  if (protocol.threads < 1) return invalid("protocol.threads = {} must be at least 1", protocol.threads);
  if (protocol.memory_limit_mib < kLeastMemoryMib || protocol.memory_limit_mib > kMostMemoryMib) {
    return invalid("protocol.memory_limit_mib = {} must be {}..{}: a kernel's process needs that much beside its data",
                   protocol.memory_limit_mib, kLeastMemoryMib, kMostMemoryMib);
  }
  for (const auto& [name, value] :
       {std::pair("call_timeout", protocol.call_timeout), std::pair("build_timeout", protocol.build_timeout)}) {
    if (!(value > 0 && value <= kLongestTimeout)) {
      return invalid("protocol.{} = {} must be above 0 and at most {} seconds", name, value, kLongestTimeout);
    }
  }
  if (protocol.calibrate_every < 1) {
    return invalid("protocol.calibrate_every = {} must be at least 1", protocol.calibrate_every);
  }
  const std::string& rule = protocol.decision_rule;
  if (rule != record::Protocol::kCharging && rule != record::Protocol::kVoiding) {
    return with_hint(
        invalid("protocol.decision_rule = \"{}\" is not known", rule),
        fmt::format("this version decides by {} or {}", record::Protocol::kCharging, record::Protocol::kVoiding));
  }
  if (spec.target_cases.empty()) return invalid("target_shapes is empty");
  std::set<std::string> labels;
  for (const record::Case& one : spec.target_cases) {
    if (one.op != spec.op) return invalid("target shape \"{}\" is not of operator {}", one.text(), spec.op);
    if (!labels.insert(one.label()).second) return invalid("target shape \"{}\" appears twice", one.label());
  }
  return stats::validate(sequential_rule(spec.protocol));
}

Status check_machine(const CampaignSpec& spec) {
  const auto processors = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  if (!record::runs_on_host(spec.backend) || processors == 0 || spec.protocol.threads <= processors) return ok_status();
  if (spec.extra.contains(kMeasureOnKey)) return ok_status();  // another machine, which says so itself
  return with_hint(make_error(ErrorCode::kUnsupported, "protocol.threads = {}: this machine has {} processors",
                              spec.protocol.threads, processors),
                   fmt::format("set threads to 1..{}, or confirm it on the machine that it is for", processors));
}

std::string spec_digest(const CampaignSpec& spec) {
  CampaignSpec canonical = spec;
  canonical.representative_labels.clear();
  return sha256(render_manifest(canonical));
}

std::string differing_keys(const CampaignSpec& a, const CampaignSpec& b) {
  std::string names;
  for (const Key& key : keys()) {
    if (counts(key) && key_text(key, a) != key_text(key, b))
      names += (names.empty() ? "" : ", ") + std::string(key.name);
  }
  if (a.extra != b.extra) names += names.empty() ? "a key of your own" : ", a key of your own";
  return names;
}

std::string yaml_text(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  return quoted + "'";
}

std::string extra_text(const CampaignSpec& spec, const std::string& key) {
  const auto found = spec.extra.find(key);
  try {
    return found == spec.extra.end() ? std::string() : YAML::Load(found->second).as<std::string>("");
  } catch (const YAML::Exception&) {
    return {};
  }
}

Status set_constraints(CampaignSpec& spec, const std::vector<std::string>& sentences) {
  std::string list;
  for (const std::string& sentence : sentences) {
    if (sentence.find_first_not_of(" \t") == std::string::npos) return invalid("a constraint is empty");
    if (sentence.size() > kLongestConstraint || !is_utf8(sentence) ||
        std::any_of(sentence.begin(), sentence.end(), [](unsigned char c) { return std::iscntrl(c) != 0; })) {
      return with_hint(invalid("the constraint \"{}\" is not one line of at most {} bytes of UTF-8",
                               sentence.substr(0, 40), kLongestConstraint),
                       "state one thing in each --constraint");
    }
    list += "- " + yaml_text(sentence) + "\n";
  }
  if (!list.empty()) spec.extra[kConstraintsKey] = list;
  return ok_status();
}

std::vector<std::string> constraints_of(const CampaignSpec& spec) { return extra_texts(spec, kConstraintsKey); }

std::vector<std::string> extra_texts(const CampaignSpec& spec, const std::string& key) {
  const auto found = spec.extra.find(key);
  std::vector<std::string> sentences;
  if (found == spec.extra.end()) return sentences;
  const auto text = [](const YAML::Node& node) { return node.IsScalar() ? node.Scalar() : YAML::Dump(node); };
  try {
    const YAML::Node node = YAML::Load(found->second);
    if (node.IsNull()) return sentences;
    if (!node.IsSequence()) return {text(node)};
    for (const YAML::Node& item : node) sentences.push_back(text(item));
  } catch (const YAML::Exception&) {
    sentences = {found->second};
  }
  return sentences;
}

std::string default_campaign_id(const CampaignSpec& spec, std::string_view day) {
  std::string id = fmt::format("{}_{}_{}_{}", spec.op, spec.backend, spec.gpu, day);
  std::transform(id.begin(), id.end(), id.begin(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' ? static_cast<char>(std::tolower(c)) : '-';
  });
  return id.substr(0, 96);
}

}  // namespace ridge::campaign

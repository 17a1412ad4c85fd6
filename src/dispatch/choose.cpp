#include "dispatch/choose.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "dispatch/autotune.h"
#include "dispatch/tuned.h"

namespace ridge::dispatch {
namespace {

using ops::Implementation;
using ops::Operator;
using ops::Problem;
using ops::Refusal;

// Everything a user may set; read only when a new case is met, never on the warm path.
struct Control {
  std::mutex mutex;
  std::map<std::string, std::map<std::string, std::string, std::less<>>, std::less<>> forced;  // by operator and dtype
  std::map<std::string, std::string, std::less<>> environment;  // value of RIDGE_<OP>_BACKEND, by operator
  Preference preference;
  Agreement agreement;
  std::function<void(std::string_view)> fallback_receiver;
  std::set<std::string> told;
};

Control& control() {
  static Control* const instance = new Control;  // never deleted: calls may come during static destruction
  return *instance;
}

std::atomic<std::uint64_t> current_generation{1};

std::string variable_name(std::string_view op) {
  std::string name = "RIDGE_";
  for (const char c : op) name += (c >= 'a' && c <= 'z') ? static_cast<char>(c - 'a' + 'A') : c;
  return name + "_BACKEND";
}

// RIDGE_LOG_LEVEL=warning: standard error, for programs that set no receiver.
std::function<void(std::string_view)> default_receiver() {
  const char* level = std::getenv("RIDGE_LOG_LEVEL");
  if (level == nullptr || std::string_view(level) != "warning") return nullptr;
  return [](std::string_view message) { fmt::print(stderr, "ridge: {}\n", message); };
}

}  // namespace

void warn_once(std::string message) {
  Control& c = control();
  std::function<void(std::string_view)> receiver;
  {
    const std::scoped_lock lock(c.mutex);
    receiver = c.fallback_receiver ? c.fallback_receiver : default_receiver();
    if (!receiver || !c.told.insert(message).second) return;
  }
  receiver(message);
}

namespace {

std::string environment_value(const std::string& op) {
  Control& c = control();
  const std::scoped_lock lock(c.mutex);
  const auto known = c.environment.find(op);
  if (known != c.environment.end()) return known->second;
  const char* value = std::getenv(variable_name(op).c_str());
  return c.environment[op] = value == nullptr ? "" : value;
}

constexpr std::string_view kOther = "other", kAutotune = "autotune";

// Names by the dtype of the case; kOther stands for those that are not there, and alone for "cpu_simd" without a dtype.
using Rules = std::map<std::string, std::string, std::less<>>;

// "bf16", or of two factors "e5m2_e4m3fn".
bool is_dtype(std::string_view text) {
  return std::ranges::all_of(split(text, '_'), [](const std::string& part) { return parse_dtype(part).ok(); });
}

// "cpu_simd", or "bf16:cpu_simd,other:cpu_blis". `source` begins the errors.
Result<Rules> parse_rules(std::string_view source, std::string_view text) {
  Rules rules;
  const std::vector<std::string> items = split(text, ',');
  for (const std::string& item : items) {
    const std::size_t colon = item.find(':');
    if (colon == std::string::npos) {
      if (items.size() == 1) return Rules{{std::string(kOther), item}};
      return with_hint(invalid("{}: \"{}\" names no dtype", source, item),
                       "write one name, or a list such as bf16:cpu_simd,other:cpu_openblas");
    }
    const std::string key = item.substr(0, colon);
    if (key != kOther && !is_dtype(key)) {
      return with_hint(invalid("{}: \"{}\" is not a dtype", source, key), "use f32, bf16, f16, ... or other");
    }
    if (!rules.emplace(key, item.substr(colon + 1)).second) return invalid("{}: {} is there twice", source, key);
  }
  return rules;
}

// Refuses a dtype that no case of the operator has: such a rule would be taken and do nothing.
Status check_dtype(const Operator& op, const std::string& dtype) {
  const auto found = std::ranges::find(op.params, "dtype", &record::ParamInfo::name);
  if (dtype == kOther || found == op.params.end() || std::ranges::count(found->values, dtype) > 0) return ok_status();
  return with_hint(invalid("{}: no case has dtype {}", op.name, dtype),
                   fmt::format("use {} or other", fmt::join(found->values, ", ")));
}

// What they say about a dtype; empty: nothing.
std::string chosen_by(const Rules& rules, std::string_view dtype) {
  const auto exact = rules.find(dtype), found = exact == rules.end() ? rules.find(kOther) : exact;
  return found == rules.end() ? std::string() : found->second;
}

// The choice that a name in code or in the environment stands for.
Result<ForcedChoice> forced_choice(const Operator& op, const std::string& name, const std::string& by) {
  if (name == kAutotune) return ForcedChoice{"", by, true};
  RIDGE_TRY(known, parse_choice(op, name));
  return ForcedChoice{known.name(), by};
}

void tell_fallback(const Operator& op, const Implementation& refused, const std::string& reason, const Choice& taken) {
  warn_once(fmt::format("{}: {} cannot run this case ({}); using {}", op.name, refused.name, reason, taken.name()));
}

Preferred preferred(const Problem& problem, const Stream& stream) {
  Control& c = control();
  Preference preference;
  {
    const std::scoped_lock lock(c.mutex);
    preference = c.preference;
  }
  Preferred wanted = (preference ? preference : installed_preference())(problem, ops::device_info(stream));
  if (!wanted.refused.empty()) {
    warn_once(fmt::format("{}: {}: {}", problem.problem_case.op, wanted.implementation, wanted.refused));
  }
  return wanted;
}

// The list walked once: what each implementation answers and which one runs.
struct Selection {
  ForcedChoice forced;
  Preferred tuned;
  std::vector<Refusal> refusals;  // by position in op.implementations
  Choice chosen;
  int configuration = -1;  // that runs, by its own choice or not
  std::string reason;
  std::optional<Error> failure;
};

Error forced_failure(const Operator& op, const Problem& problem, const ForcedChoice& wanted,
                     const std::string& reason) {
  const bool by_code = wanted.by == "code";
  return with_hint(make_error(ErrorCode::kUnsupported, "{}: {} is forced by {} but cannot run {}: {}", op.name,
                              wanted.implementation, wanted.by, problem.problem_case.text(), reason),
                   by_code ? fmt::format("call unforce(\"{}\") or force another one", op.name)
                           : fmt::format("unset {} or name another one", variable_name(op.name)));
}

std::size_t position(const Operator& op, const Choice& choice) {
  return static_cast<std::size_t>(choice.implementation - op.implementations.data());
}

void take(Selection& selection, const Choice& choice, std::string reason, const Problem& problem,
          const ops::DeviceInfo& device) {
  selection.chosen = choice;
  selection.reason = std::move(reason);
  const Implementation& one = *choice.implementation;
  int configuration = choice.configuration;
  if (configuration < 0 && one.promising) {
    const std::vector<int> promising = one.promising(problem, device);
    if (!promising.empty()) configuration = promising[0];
  }
  selection.configuration = configuration;
  if (configuration < 0) return;
  selection.reason += fmt::format("; {} configuration {}", choice.configuration < 0 ? "by its own choice" : "in",
                                  one.configurations[static_cast<std::size_t>(configuration)]);
  if (!one.promoted.empty()) {
    const std::string& by = one.promoted[static_cast<std::size_t>(configuration)];
    const std::size_t comma = by.find(',');
    if (!by.empty()) selection.reason += ", promoted by campaign " + by.substr(0, comma);
    if (comma != std::string::npos) selection.reason += ":" + by.substr(comma + 1) + " on its shapes";
  }
  if (!one.expected_seconds) return;
  selection.reason +=
      fmt::format(", {:.4g} us by its cost model", 1e6 * one.expected_seconds(problem, configuration, device));
}

// True when the tuned table decides.
bool select_by_table(Selection& selection, const Operator& op, const Problem& problem, const Stream& stream) {
  selection.tuned = preferred(problem, stream);
  if (selection.tuned.implementation.empty()) return false;
  const auto named = parse_choice(op, selection.tuned.implementation);
  if (!named || selection.refusals[position(op, *named)]) return false;
  if (!selection.tuned.refused.empty()) {
    selection.refusals[position(op, *named)] = selection.tuned.refused;
    return false;
  }
  const ops::DeviceInfo& device = ops::device_info(stream);
  std::string reason = "preferred by the tuned table";
  if (!selection.tuned.note.empty()) reason += fmt::format(" ({})", selection.tuned.note);
  Choice choice = *named;
  // What was tuned with rows on 16 bytes may not fit rows that are not; the implementation itself still does.
  if (auto why = why_not(choice, problem, device)) {
    reason += "; " + *why;
    choice.configuration = -1;
  }
  take(selection, choice, std::move(reason), problem, device);
  return true;
}

// What the implementations of a backend answer, for an error.
std::string refusals_of(Backend backend, const Selection& selection, const Operator& op) {
  std::string text;
  for (std::size_t i = 0; i < op.implementations.size(); ++i) {
    const Implementation& one = op.implementations[i];
    if (one.backend != backend || !selection.refusals[i]) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", one.name, *selection.refusals[i]);
  }
  return text;
}

void select(Selection& selection, const Operator& op, const Problem& problem, const Stream& stream) {
  const ops::DeviceInfo& device = ops::device_info(stream);
  if (!selection.forced.implementation.empty()) {
    const Choice wanted = *parse_choice(op, selection.forced.implementation);  // forced() has checked it
    if (auto why = why_not(wanted, problem, device)) {
      selection.failure = forced_failure(op, problem, selection.forced, *why);
    } else {
      take(selection, wanted, "forced by " + selection.forced.by, problem, device);
    }
    return;
  }
  if (select_by_table(selection, op, problem, stream)) return;
  for (std::size_t i = 0; i < op.implementations.size(); ++i) {
    if (selection.refusals[i]) continue;
    return take(selection, {&op.implementations[i], -1}, "first in the order that can run it", problem, device);
  }
  const std::string reasons = device.missing.empty() ? refusals_of(stream.backend, selection, op) : device.missing;
  selection.failure =
      make_error(ErrorCode::kUnsupported, "{}: nothing can run {} on {}{}{}", op.name, problem.problem_case.text(),
                 to_string(stream.backend), reasons.empty() ? "" : ": ", reasons);
}

Result<Selection> select_from_list(const Operator& op, const Problem& problem, const Stream& stream) {
  Selection selection;
  RIDGE_TRY(wanted, forced(op, problem));
  selection.forced = std::move(wanted);
  for (const Implementation& one : op.implementations)
    selection.refusals.push_back(ops::why_not(one, problem, ops::device_info(stream)));
  select(selection, op, problem, stream);
  return selection;
}

// The choice of all ranks, when agreement is asked for.
Result<Choice> agreed(const Operator& op, const Problem& problem, const Stream& stream, const Selection& selection) {
  Agreement agreement;
  {
    const std::scoped_lock lock(control().mutex);
    agreement = control().agreement;
  }
  if (!agreement || !selection.forced.implementation.empty()) return selection.chosen;
  const std::string name = agreement(problem.problem_case.text(), selection.chosen.name());
  RIDGE_TRY(all, parse_choice(op, name));
  const auto why = why_not(all, problem, ops::device_info(stream));
  if (!why) return all;
  return with_hint(make_error(ErrorCode::kConflict, "{}: the ranks agreed on {}, which cannot run here: {}",
                              problem.problem_case.text(), name, *why),
                   "let agree_with() choose what every rank can run");
}

void bump() { current_generation.fetch_add(1, std::memory_order_release); }

}  // namespace

std::uint64_t generation() { return current_generation.load(std::memory_order_acquire); }

void set_preference(Preference preference) {
  {
    const std::scoped_lock lock(control().mutex);
    control().preference = std::move(preference);
  }
  bump();
}

void reset() {
  autotune(false);
  forget_measured();
  {
    const std::scoped_lock lock(control().mutex);
    control().forced.clear();
    control().environment.clear();
    control().told.clear();
    control().preference = {};
  }
  bump();
}

void agree_with(Agreement agreement) {
  {
    const std::scoped_lock lock(control().mutex);
    control().agreement = std::move(agreement);
  }
  bump();
}

void reload_environment() {
  {
    const std::scoped_lock lock(control().mutex);
    control().environment.clear();
  }
  bump();
}

Result<ForcedChoice> forced(const Operator& op, const Problem& problem) {
  const std::string dtype = problem.problem_case.get("dtype");
  {
    const std::scoped_lock lock(control().mutex);
    const auto found = control().forced.find(op.name);
    const std::string name = found == control().forced.end() ? std::string() : chosen_by(found->second, dtype);
    if (!name.empty()) return forced_choice(op, name, "code");
  }
  const std::string variable = variable_name(op.name), value = environment_value(op.name);
  if (value.empty()) return ForcedChoice{};
  RIDGE_TRY(rules, parse_rules(variable, value));
  // Every name, as force() does: a misspelt one must not wait for the first case of its dtype.
  for (const auto& [key, listed] : rules) {
    const auto known = forced_choice(op, listed, "environment " + variable);
    if (!known) return in_context(variable, known.error());
  }
  const std::string name = chosen_by(rules, dtype);
  return name.empty() ? ForcedChoice{} : forced_choice(op, name, "environment " + variable);
}

Result<Choice> choose(const Operator& op, const Problem& problem, const Stream& stream) {
  RIDGE_TRY(selection, select_from_list(op, problem, stream));
  if (selection.failure) return *selection.failure;
  RIDGE_TRY(chosen, agreed(op, problem, stream, selection));
  selection.chosen = chosen;
  for (std::size_t i = 0; selection.forced.implementation.empty() && i < op.implementations.size(); ++i) {
    const Implementation& better = op.implementations[i];
    if (&better == selection.chosen.implementation) break;
    if (selection.refusals[i] && better.backend == stream.backend) {
      tell_fallback(op, better, *selection.refusals[i], selection.chosen);
    }
  }
  return selection.chosen;
}

Result<record::Explanation> explain(const record::Case& wanted, const Stream& stream) {
  RIDGE_TRY(op, ops::find_operator(wanted.op));
  RIDGE_TRY(problem, op->bind(wanted));
  RIDGE_TRY(selection, select_from_list(*op, problem, stream));
  record::Explanation explanation;
  explanation.label = problem.problem_case.label();
  explanation.cost = op->cost(problem);
  if (selection.chosen.implementation != nullptr) {
    explanation.choice = selection.chosen.name();
    explanation.runs = Choice{selection.chosen.implementation, selection.configuration}.name();
  }
  explanation.device = ops::device_info(stream).name;
  explanation.driver = ops::device_info(stream).driver;
  explanation.bucket = bucket_of(*op, problem);
  explanation.forced_by = selection.forced.autotune ? "" : selection.forced.by;
  for (std::size_t i = 0; i < op->implementations.size(); ++i) {
    const Implementation& one = op->implementations[i];
    record::ExplainRow row{
        one.name, one.summary, one.source, !selection.refusals[i], &one == selection.chosen.implementation, {}};
    row.reason = row.chosen ? selection.reason : "could run it, but is not first";
    if (selection.refusals[i]) row.reason = *selection.refusals[i];
    if (selection.failure &&
        one.name == selection.forced.implementation.substr(0, selection.forced.implementation.find('/'))) {
      row.reason = selection.failure->text();
    }
    explanation.rows.push_back(std::move(row));
  }
  return explanation;
}

Status force(std::string_view op_name, std::string_view implementation) {
  RIDGE_TRY(op, ops::find_operator(op_name));
  RIDGE_TRY(rules, parse_rules(op->name, implementation));
  for (const auto& [dtype, name] : rules) {
    RIDGE_CHECK_OK(check_dtype(*op, dtype));
    if (const auto known = forced_choice(*op, name, "code"); !known) return known.error();
  }
  {
    const std::scoped_lock lock(control().mutex);
    control().forced[op->name] = std::move(rules);
  }
  bump();
  return ok_status();
}

void unforce(std::string_view op) {
  {
    const std::scoped_lock lock(control().mutex);
    const auto found = control().forced.find(op);
    if (found != control().forced.end()) control().forced.erase(found);
  }
  bump();
}

std::vector<std::string> operators() {
  std::vector<std::string> names;
  for (const Operator* op : ops::operators()) names.push_back(op->name);
  return names;
}

Result<std::vector<std::string>> implementations(std::string_view op_name) {
  RIDGE_TRY(op, ops::find_operator(op_name));
  std::vector<std::string> names;
  for (const Implementation& one : op->implementations) names.push_back(one.name);
  return names;
}

void on_fallback(std::function<void(std::string_view)> receiver) {
  const std::scoped_lock lock(control().mutex);
  control().fallback_receiver = std::move(receiver);
  control().told.clear();
}

}  // namespace ridge::dispatch

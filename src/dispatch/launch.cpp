#include "dispatch/launch.h"

#include <cstdlib>
#include <filesystem>
#include <unordered_map>

#include "base/check.h"
#include "base/environment.h"
#include "base/error.h"
#include "dispatch/autotune.h"
#include "dispatch/choose.h"
#include "dispatch/tuned.h"
#include "dispatch/tuning_run.h"
#include "ops/cuda/device.h"

namespace ridge::dispatch {
namespace {

struct Key {
  const ops::Operator* op = nullptr;
  Backend backend = Backend::kCpu;
  int device = 0;
  std::size_t count = 0;
  std::array<std::int64_t, ops::kMaxParams> values{};
  std::array<std::uint8_t, ops::kMaxOperands> alignment{};  // CPU kernels take any, so it splits no CPU case
  friend bool operator==(const Key&, const Key&) = default;
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    auto hash = reinterpret_cast<std::uintptr_t>(key.op) + static_cast<std::uint64_t>(key.device);
    for (std::size_t i = 0; i < key.count; ++i) {
      hash = (hash ^ static_cast<std::uint64_t>(key.values[i])) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 29;
    }
    for (const std::uint8_t bytes : key.alignment) hash = hash * 31 + bytes;
    return hash;
  }
};

struct Decision {
  ops::Problem problem;  // with the configuration
  const ops::Implementation* implementation = nullptr;
};

// Of one thread, so that a warm call takes no lock.
struct Table {
  std::uint64_t generation = 0;
  std::unordered_map<Key, Decision, KeyHash> choices;
  std::unordered_map<const ops::Operator*, const ops::Implementation*> last;
};

// A program that never repeats a shape must not grow without end.
constexpr std::size_t kMaxChoices = 4096;

Table& table() {
  static thread_local Table instance;
  return instance;
}

Key key_of(const ops::Operator& op, const ops::Call& call, const Stream& stream) {
  Key key{&op, stream.backend, stream.device, call.value_count, call.values, {}};
  if (stream.backend == Backend::kCpu) return key;
  for (std::size_t i = 0; i < call.operand_count; ++i) {
    key.alignment[i] = static_cast<std::uint8_t>(ops::view_alignment(call.operands[i]));
  }
  return key;
}

Result<Decision> decide(const ops::Operator& op, const ops::Call& call, const Key& key, const Stream& stream) {
  static const bool caches_are_known = [] {
    ops::on_kernel_warning(warn_once);
    ops::set_kernel_cache(default_cache_directory());
    for (std::filesystem::path& place : places_in("RIDGE_KERNEL_PACKS")) ops::add_kernel_packs(std::move(place));
    return true;
  }();
  static_cast<void>(caches_are_known);
  Decision decision;
  RIDGE_TRY(problem, op.bind(ops::case_of(op, {call.values.data(), call.value_count})));
  decision.problem = std::move(problem);
  decision.problem.alignment = key.alignment;
  tune_if_asked(op, decision.problem, stream);
  RIDGE_TRY(choice, choose(op, decision.problem, stream));
  decision.implementation = choice.implementation;
  decision.problem.configuration = choice.configuration;
  return decision;
}

}  // namespace

const ops::Operator* resolve(std::string_view op) {
  const auto found = ops::find_operator(op);
  check(found.ok(), "an operator's entry point is linked in but the operator is not on any list; see add_operators()");
  return *found;
}

Status launch(const ops::Operator& op, const ops::Call& call, const Stream& stream) {
  const CallersContext context(stream);
  Table& known = table();
  if (const std::uint64_t now = generation(); now != known.generation || known.choices.size() > kMaxChoices) {
    known.choices.clear();
    known.generation = now;
  }
  const Key key = key_of(op, call, stream);
  auto found = known.choices.find(key);
  if (found == known.choices.end()) {
    RIDGE_TRY(decision, decide(op, call, key, stream));
    found = known.choices.emplace(key, std::move(decision)).first;
  }
  const Decision& decision = found->second;
  Status status = decision.implementation->run(decision.problem, {call.operands.data(), call.operand_count}, stream);
  if (status) known.last[&op] = decision.implementation;
  return status;
}

std::string last_used(std::string_view op_name) {
  const auto op = ops::find_operator(op_name);
  if (!op) return {};
  const auto found = table().last.find(*op);
  return found == table().last.end() ? std::string() : found->second->name;
}

}  // namespace ridge::dispatch

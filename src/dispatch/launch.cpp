#include "dispatch/launch.h"

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "base/check.h"
#include "base/environment.h"
#include "base/error.h"
#include "dispatch/autotune.h"
#include "dispatch/choose.h"
#include "dispatch/tuned.h"
#include "dispatch/tuning_run.h"
#include "ops/call_key.h"
#include "ops/cuda/device.h"

namespace ridge::dispatch {
namespace {

struct Decision {
  ops::Problem problem;  // with the configuration
  const ops::Implementation* implementation = nullptr;
};

// Of one thread, so that a warm call takes no lock.
struct Table {
  std::uint64_t generation = 0;
  ops::CallTable<Decision> choices;
  std::unordered_map<const ops::Operator*, const ops::Implementation*> last;
};

// A program that never repeats a shape must not grow without end.
constexpr std::size_t kMaxChoices = 4096;

Table& table() {
  static thread_local Table instance;
  return instance;
}

// A choice depends on what Implementation::supports sees: the problem, so no strides but through the alignments.
ops::CallKey key_of(const ops::Operator& op, const ops::Call& call, const Stream& stream) {
  ops::CallKey key;
  key.add(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(&op)));
  key.add(stream.device * 256 + static_cast<std::int64_t>(stream.backend));
  key.add(call.values);
  if (stream.backend == Backend::kCpu) return key;  // its kernels take any alignment, so it splits no case there
  constexpr std::size_t kInOneWord = 12;            // of five bits, 16 being the largest
  for (std::size_t first = 0; first < call.operands.size(); first += kInOneWord) {
    std::int64_t word = 0;
    for (std::size_t i = first; i < std::min(first + kInOneWord, call.operands.size()); ++i) {
      word = word * 32 + ops::view_alignment(call.operands[i]);
    }
    key.add(word);
  }
  return key;
}

Result<Decision> decide(const ops::Operator& op, const ops::Call& call, const Stream& stream) {
  static const bool caches_are_known = [] {
    ops::on_kernel_warning(warn_once);
    ops::set_kernel_cache(default_cache_directory());
    for (std::filesystem::path& place : places_in("RIDGE_KERNEL_PACKS")) ops::add_kernel_packs(std::move(place));
    return true;
  }();
  static_cast<void>(caches_are_known);
  Decision decision;
  RIDGE_TRY(problem, op.bind(ops::case_of(op, call.values)));
  decision.problem = std::move(problem);
  if (stream.backend != Backend::kCpu) decision.problem.alignment = ops::alignments(call.operands);
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
  const ops::CallKey key = key_of(op, call, stream);
  Decision* decision = known.choices.find(key);
  if (decision == nullptr) {
    RIDGE_TRY(decided, decide(op, call, stream));
    decision = &known.choices.add(key, std::move(decided));
  }
  Status status = decision->implementation->run(decision->problem, {call.operands, call.scalars}, stream);
  if (status) known.last[&op] = decision->implementation;
  return status;
}

std::string last_used(std::string_view op_name) {
  const auto op = ops::find_operator(op_name);
  if (!op) return {};
  const auto found = table().last.find(*op);
  return found == table().last.end() ? std::string() : found->second->name;
}

}  // namespace ridge::dispatch

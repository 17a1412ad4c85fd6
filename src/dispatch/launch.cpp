#include "dispatch/launch.h"

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "base/check.h"
#include "base/environment.h"
#include "base/error.h"
#include "dispatch/autotune.h"
#include "dispatch/choose.h"
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

// Forgets the choices where they may no longer hold.
Table& current_table() {
  Table& known = table();
  if (const std::uint64_t now = generation(); now != known.generation || known.choices.size() > kMaxChoices) {
    known.choices.clear();
    known.generation = now;
  }
  return known;
}

// It stays where it is until the table is cleared.
Result<const Decision*> decision_for(const ops::Operator& op, const ops::Call& call, const Stream& stream,
                                     Table& known) {
  const ops::CallKey key = key_of(op, call, stream);
  if (const Decision* const found = known.choices.find(key)) return found;
  RIDGE_TRY(decided, decide(op, call, stream));
  return &known.choices.add(key, std::move(decided));
}

Status run(const ops::Operator& op, const Decision& decision, const ops::Call& call, const Stream& stream) {
  Status status = decision.implementation->run(decision.problem, {call.operands, call.scalars}, stream);
  if (status) table().last[&op] = decision.implementation;
  return status;
}

}  // namespace

const ops::Operator* resolve(std::string_view op) {
  const auto found = ops::find_operator(op);
  check(found.ok(), "an operator's entry point is linked in but the operator is not on any list; see add_operators()");
  return *found;
}

Status launch(const ops::Operator& op, const ops::Call& call, const Stream& stream) {
  const CallersContext context(stream);
  RIDGE_TRY(decision, decision_for(op, call, stream, current_table()));
  return run(op, *decision, call, stream);
}

Status launch(const ops::Operator& op, std::size_t count, const std::function<Result<ops::Call>(std::size_t)>& make,
              const Stream& stream) {
  const CallersContext context(stream);
  Table& known = current_table();
  std::vector<const Decision*> decisions(count);  // made first: a choice that is measured launches on other streams
  for (std::size_t i = 0; i < count; ++i) {
    const Result<ops::Call> call = make(i);
    if (!call) return in_context(fmt::format("call {} of {}", i, count), call.error());
    RIDGE_TRY(decision, decision_for(op, *call, stream, known));
    decisions[i] = decision;
  }
  const auto one_by_one = [&]() -> Status {
    for (std::size_t i = 0; i < count; ++i) {
      RIDGE_TRY(call, make(i));
      RIDGE_CHECK_OK(run(op, *decisions[i], call, stream));
    }
    return ok_status();
  };
  return run_together(one_by_one, stream);
}

std::string last_used(std::string_view op_name) {
  const auto op = ops::find_operator(op_name);
  if (!op) return {};
  const auto found = table().last.find(*op);
  return found == table().last.end() ? std::string() : found->second->name;
}

}  // namespace ridge::dispatch

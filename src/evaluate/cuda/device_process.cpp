#include "evaluate/cuda/device_process.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace ridge::evaluate::cuda {
namespace {

using record::Defence;
using record::Outcome;

constexpr double kStartLimit = 60.0;  // driver, context, module, calibration of the clocks
// Around a call: inputs, verification and, when it is drawn, the fp64 reference of a large problem.
constexpr double kAroundCall = 60.0;
constexpr double kCallsOfACheck = 28;
constexpr double kEndLimit = 30.0;  // until the driver has torn a context down
constexpr std::size_t kMaxFacts = 16;

template <std::size_t kSize>
void put(char (&to)[kSize], const std::string& text) {
  const std::size_t length = std::min(text.size(), kSize - 1);
  std::memcpy(to, text.data(), length);
  to[length] = 0;
}

// Verification without its strings, which do not travel.
struct Numbers {
  double max_error_ratio = 0, rms_error_ratio = 0, snr_db = 0;
  std::int64_t calls = 0, elements = 0, compared = 0, families = 0;
};

Verification verification_of(const Numbers& numbers, const char* uninformative) {
  Verification seen;
  seen.max_error_ratio = numbers.max_error_ratio;
  seen.rms_error_ratio = numbers.rms_error_ratio;
  seen.snr_db = numbers.snr_db;
  seen.calls = numbers.calls;
  seen.elements = numbers.elements;
  seen.compared = numbers.compared;
  seen.uninformative = uninformative;
  return seen;
}

}  // namespace

// Both ends are this very program, one forked from the other: plain structs are a protocol.
struct DeviceProcess::Question {
  enum class Kind { kLaunch, kCheck, kFinish, kRenew } kind = Kind::kLaunch;
  std::size_t index = 0;
  Depth depth = Depth::kQuick;
  CheckExtent extent = CheckExtent::kAll;
};

struct DeviceProcess::Answer {
  bool failed = false;
  Outcome outcome = Outcome::kPass;
  Defence gate = Defence::kNone;
  char detail[3072] = {};
  DeviceLaunch launch;
  Numbers numbers;
  char uninformative[128] = {};
  bool repeatable = true;
  char refused[256] = {};
  std::size_t fact_count = 0;
  char fact_names[kMaxFacts][24] = {};
  double fact_values[kMaxFacts] = {};

  void fail(const Failure& failure) {
    failed = true;
    outcome = failure.outcome;
    gate = failure.gate;
    put(detail, failure.detail);
  }
  template <class T>
  void take(const Attempt<T>& attempt) {
    if (!attempt) fail(attempt.error());
  }
  void take(const Verification& seen) {
    numbers = {seen.max_error_ratio, seen.rms_error_ratio, seen.snr_db, seen.calls, seen.elements, seen.compared};
    put(uninformative, seen.uninformative);
  }
  void take(const std::map<std::string, double>& facts) {
    for (const auto& [name, value] : facts) {
      if (fact_count == kMaxFacts) break;
      put(fact_names[fact_count], name);
      fact_values[fact_count++] = value;
    }
  }
};

Attempt<DeviceProcess> DeviceProcess::start(SubjectRunnerSpec spec) {
  DeviceProcess process;
  process.call_timeout_ = spec.protocol.call_timeout;
  process.verifications_.resize(spec.problems.size());
  Result<ForkedProcess> forked = ForkedProcess::start([&spec](int socket) { serve(socket, std::move(spec)); });
  if (!forked) return Failure{Outcome::kHarnessFault, forked.error().text(), Defence::kNone};
  process.process_ = std::move(*forked);
  return process;
}

// The new process: opens the runner, says so, then answers one question after the other.
void DeviceProcess::serve(int socket, SubjectRunnerSpec spec) {
  auto opened = DeviceSubjectRunner::open(std::move(spec));
  Answer hello;
  if (!opened) hello.fail(opened.error());
  if (!send_message(socket, &hello, sizeof hello) || hello.failed) return;
  // Never destroyed: after a fault every call into the driver fails, and the driver cleans up in any case.
  DeviceSubjectRunner& runner = *opened->release();
  Question question;
  while (receive_message(socket, &question, sizeof question)) {
    Answer answer;
    switch (question.kind) {
      case Question::Kind::kLaunch: {
        const Attempt<DeviceLaunch> launched = runner.launch(question.index, question.depth);
        if (launched) answer.launch = *launched;
        answer.take(launched);
        answer.take(runner.verification(question.index));
        break;
      }
      case Question::Kind::kCheck: {
        CheckNote note;
        answer.take(runner.check(question.index, question.extent, note));
        answer.take(note.seen);
        answer.repeatable = note.repeatable;
        answer.numbers.families = note.families;
        put(answer.refused, note.refused);
        break;
      }
      case Question::Kind::kRenew: answer.take(runner.renew()); break;
      case Question::Kind::kFinish:
        answer.take(runner.finish());
        answer.take(runner.facts());
        break;
    }
    if (!send_message(socket, &answer, sizeof answer)) return;
  }
}

// After a hang or a fault the context is gone: only a fresh process can go on.
Failure DeviceProcess::ended(Failure failure) {
  if (process_.end(kEndLimit)) return failure;
  return {Outcome::kHarnessFault,
          fmt::format("{}; the process that owns the context does not end: the device is stuck", failure.detail),
          Defence::kNone};
}

Attempt<DeviceProcess::Answer> DeviceProcess::await(double limit) {
  Answer answer;
  switch (process_.receive(&answer, sizeof answer, limit)) {
    case ForkedProcess::Received::kMessage: break;
    case ForkedProcess::Received::kEnded:
      return Failure{Outcome::kHarnessFault, "the device process ended: " + process_.how_it_ended(), Defence::kNone};
    case ForkedProcess::Received::kNothing:
      return ended({Outcome::kHang, fmt::format("no answer within {:.0f} s", limit), Defence::kHang});
  }
  if (!answer.failed) return answer;
  Failure failure{answer.outcome, answer.detail, answer.gate};
  const bool context_lost = failure.outcome == Outcome::kHang || failure.outcome == Outcome::kCrash ||
                            failure.outcome == Outcome::kHarnessFault;
  return context_lost ? ended(std::move(failure)) : failure;
}

Verdict DeviceProcess::await_ready() {
  if (ready_) return passed();
  if (never_ready_) return *never_ready_;
  auto answer = await(kStartLimit);
  if (!answer) {
    Failure failure = std::move(answer.error());
    if (failure.outcome == Outcome::kHang) {
      failure.outcome = Outcome::kHarnessFault;
      failure.detail = "opening the device: " + failure.detail;
    }
    never_ready_ = ended(std::move(failure));
    return *never_ready_;
  }
  ready_ = true;
  return passed();
}

Attempt<DeviceProcess::Answer> DeviceProcess::ask(const Question& question, double limit) {
  RIDGE_CHECK_OK(await_ready());
  if (!process_.send(&question, sizeof question)) {
    return Failure{Outcome::kHarnessFault, "the device process does not take requests", Defence::kNone};
  }
  return await(limit);
}

Attempt<DeviceLaunch> DeviceProcess::launch(std::size_t index, Depth depth) {
  RIDGE_TRY(answer, ask({Question::Kind::kLaunch, index, depth}, call_timeout_ + kAroundCall));
  verifications_[index] = verification_of(answer.numbers, answer.uninformative);
  return answer.launch;
}

Verdict DeviceProcess::check(std::size_t index, CheckExtent extent, CheckNote& note) {
  RIDGE_TRY(answer,
            ask({Question::Kind::kCheck, index, Depth::kFull, extent}, kCallsOfACheck * call_timeout_ + kAroundCall));
  note.seen = verification_of(answer.numbers, answer.uninformative);
  note.families = answer.numbers.families;
  note.repeatable = answer.repeatable;
  note.refused = answer.refused;
  return passed();
}

Verdict DeviceProcess::renew() {
  RIDGE_CHECK_OK(ask({Question::Kind::kRenew, 0, Depth::kQuick}, kStartLimit));
  for (Verification& verification : verifications_) verification = {};
  facts_.clear();
  return passed();
}

Verdict DeviceProcess::finish() {
  RIDGE_TRY(answer, ask({Question::Kind::kFinish, 0, Depth::kQuick}, call_timeout_ + kAroundCall));
  for (std::size_t i = 0; i < answer.fact_count; ++i) facts_[answer.fact_names[i]] = answer.fact_values[i];
  return passed();
}

}  // namespace ridge::evaluate::cuda

// What evaluating a subject comes to: a value, or the Failure that stopped it.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "record/measurement.h"
#include "ridge/result.h"

namespace ridge::evaluate {

// What stopped a candidate (or, with kHarnessFault, what we did wrong).
struct Failure {
  record::Outcome outcome = record::Outcome::kHarnessFault;
  std::string detail;
  record::Defence gate = record::Defence::kNone;
};

inline Failure harness_fault(std::string detail) { return {record::Outcome::kHarnessFault, std::move(detail)}; }

// Result for what a subject does: its error is a Failure. RIDGE_TRY and RIDGE_CHECK_OK take both, and an Error of ours
// that is passed on becomes a fault of the harness.
template <class T = Unit>
class [[nodiscard]] Attempt {
 public:
  Attempt(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Attempt(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}
  Attempt(const Error& error)
      : Attempt(Failure{record::Outcome::kHarnessFault, error.text(), record::Defence::kNone}) {}

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  // Not of a Verdict: `if (const auto failure = ...)` would read as its opposite.
  explicit operator bool() const requires(!std::is_same_v<T, Unit>) { return ok(); }
  bool operator!() const { return !ok(); }

  // Calling value() on a failure, or error() on a value, throws std::bad_variant_access.
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  Failure& error() { return std::get<1>(state_); }
  const Failure& error() const { return std::get<1>(state_); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Failure> state_;
};

// A step that either passes or fails.
using Verdict = Attempt<>;
inline Verdict passed() { return Unit{}; }

}  // namespace ridge::evaluate

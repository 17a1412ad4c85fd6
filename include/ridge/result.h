// Result<T>: the value, or an Error that names the offending values and the way out.
// For what can be expected (an unsupported shape, a candidate that does not build). Our own bugs are `check`, a lost
// device is an exception.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace ridge {

// What kind of failure it is; the command line maps each to one documented exit code.
enum class ErrorCode {
  kInvalidArgument,  // the caller gave something unusable: wrong shape, unknown name, malformed file
  kNotFound,         // a named thing does not exist
  kUnsupported,      // valid, but no implementation can do it here
  kIo,               // the operating system refused: disk full, permission, missing file
  kToolFailed,       // an external program failed; the message carries command, exit code and output
  kTimeout,          // a limit was reached
  kConflict,         // another process holds it, or the state on disk does not allow it
  kCorrupt,          // stored data does not match its own digest or schema
  kInternal,         // a bug of ours
};

const char* to_string(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // one sentence with the values
  std::string hint;     // the way out; may be empty

  // "message (hint)", what a user reads.
  [[nodiscard]] std::string text() const;
};

// Tag for a Result that carries no value.
struct Unit {
  friend bool operator==(Unit, Unit) = default;
};

template <class T = Unit>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Calling value() on an error, or error() on a value, throws std::bad_variant_access.
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  const Error& error() const { return std::get<1>(state_); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Error> state_;
};

using Status = Result<Unit>;
inline Status ok_status() { return Unit{}; }

}  // namespace ridge

// Propagates an error out of a function that returns a Result; otherwise binds the value.
#define RIDGE_CONCAT_INNER(a, b) a##b
#define RIDGE_CONCAT(a, b) RIDGE_CONCAT_INNER(a, b)
#define RIDGE_TRY(var, expr)                           \
  auto RIDGE_CONCAT(ridge_try_, __LINE__) = (expr);    \
  if (!RIDGE_CONCAT(ridge_try_, __LINE__)) {           \
    return RIDGE_CONCAT(ridge_try_, __LINE__).error(); \
  }                                                    \
  auto var = std::move(RIDGE_CONCAT(ridge_try_, __LINE__)).value()
#define RIDGE_CHECK_OK(expr)                                                    \
  do {                                                                          \
    if (auto ridge_status = (expr); !ridge_status) return ridge_status.error(); \
  } while (false)

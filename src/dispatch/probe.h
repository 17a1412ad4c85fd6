// Scratch operands of a problem, and whether an implementation gets a problem right: what tuning measures on and asks
// before anything may win.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dispatch/choice.h"
#include "ops/op.h"

namespace ridge::dispatch {

// Operands in host memory of their own, filled at random; never a caller's.
class Scratch {
 public:
  Scratch(const ops::Problem& problem, std::uint64_t seed);
  [[nodiscard]] const std::vector<TensorView>& views() const { return views_; }

 private:
  std::vector<std::unique_ptr<unsigned char[]>> memory_;
  std::vector<TensorView> views_;
};

// Runs a problem with operands in host memory, wherever the implementation itself wants them.
using Runner = std::function<Status(const ops::Implementation&, const ops::Problem&, const std::vector<TensorView>&)>;
// For implementations that want them there.
Runner host_runner(const Stream& stream);

// Runs implementations on small cases of the same kind (the case itself where that is small, else its sizes cut to a
// few tiles) and holds every element and the RMS of all errors against the operator's error model.
class Prober {
 public:
  Prober(const ops::Operator& op, const Stream& stream, Runner runner);
  // Why it is wrong, in words with the values; nothing when it is right or refuses every such case. Asked again about a
  // problem with the same small cases, it answers from memory.
  std::optional<std::string> wrong(const Choice& choice, const ops::Problem& problem);

 private:
  // A small case, its inputs and what is right for them: the same for all.
  struct Exercise {
    ops::Problem problem;
    std::unique_ptr<Scratch> before;
    Result<std::vector<ops::ReferenceOutput>> expected;
  };
  std::shared_ptr<const Exercise> exercise(const ops::Problem& problem, std::uint64_t seed);
  std::optional<std::string> attempt(const Choice& choice, const Exercise& exercise, std::uint64_t seed);

  const ops::Operator& op_;
  Stream stream_;
  Runner runner_;
  std::map<std::string, std::shared_ptr<const Exercise>> exercises_;  // by seed and case
  std::map<std::string, std::optional<std::string>> known_;           // by choice, seed and case
};

// The same once, on a CPU stream.
std::optional<std::string> probe(const ops::Operator& op, const ops::Implementation& implementation,
                                 const ops::Problem& problem, const Stream& stream);

}  // namespace ridge::dispatch

// What the conformance table needs for any operator: guarded operands, inputs, comparison with the reference.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/op.h"

namespace ridge::testing {

// How operands lie in memory. Rows `row_gap` elements further apart than they need, the first element `base_offset`
// elements behind a 64-byte boundary.
struct Layout {
  const char* name = "packed";
  std::int64_t row_gap = 0, base_offset = 0;
};
inline constexpr Layout kPacked{"packed", 0, 0};
inline constexpr Layout kAwkward{"odd strides, unaligned base", 3, 1};

// One operand in memory of its own with guard bytes on both sides and between its rows.
class Operand {
 public:
  Operand(const ops::OperandSpec& spec, const Layout& layout);

  [[nodiscard]] const TensorView& view() const { return view_; }
  [[nodiscard]] const ops::OperandSpec& spec() const { return spec_; }
  // Numbers of roughly unit size, the same for the same seed.
  void fill_random(std::uint64_t seed);
  // Makes every element NaN, so that one that is never written shows.
  void poison();
  void assign(const std::vector<double>& values);
  [[nodiscard]] std::vector<double> values() const;
  // The content after a run elsewhere, of the size of bytes().
  void set_bytes(const std::vector<unsigned char>& bytes);
  // Every byte, elements and guards alike.
  [[nodiscard]] const std::vector<unsigned char>& bytes() const { return bytes_; }
  // The first guard byte that is not as it was, as a sentence; empty when all are.
  [[nodiscard]] std::string guard_damage() const;

 private:
  void mark_elements();

  ops::OperandSpec spec_;
  std::vector<unsigned char> bytes_;
  std::vector<bool> is_element_;
  TensorView view_;
};

struct Operands {
  std::vector<Operand> all;
  std::vector<record::Scalar> scalars;  // of the call
  [[nodiscard]] std::vector<TensorView> views() const;
  // Views after a run as spot_check wants them: `old` holds what read_write operands held before.
  [[nodiscard]] std::vector<TensorView> views_with_old(const Operands& old) const;
};

// Operands of a problem: inputs (and read_write outputs) random, pure outputs poisoned.
Operands make_operands(const ops::Problem& problem, const Layout& layout, std::uint64_t seed);

// Empty when every element is within its allowed error and NaN and Inf agree by kind and sign; else the worst one.
std::string compare(const std::vector<double>& found, const ops::ReferenceOutput& expected, DType dtype);

// What a run left, held against the reference of what was there before: values, guards, inputs left alone. Empty:
// right.
std::string judge(const ops::Operator& op, const ops::Problem& problem, const Operands& before, const Operands& after,
                  std::uint64_t seed);
// Runs one implementation on one problem with fresh guarded operands and checks everything it may get wrong: status,
// values, guards, inputs left alone. Empty on success.
std::string check_run(const ops::Operator& op, const ops::Implementation& implementation, const ops::Problem& problem,
                      const Layout& layout, std::uint64_t seed, int threads);

// Every operator of this build and the skeleton of tests/skeleton_op.
std::vector<const ops::Operator*> all_operators();
std::vector<ops::Problem> check_problems(const ops::Operator& op);

}  // namespace ridge::testing

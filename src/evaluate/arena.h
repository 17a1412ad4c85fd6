// Operands in memory a candidate can write to, and the harness's private truth about them.
//
//   arena    shared with the host process
//   shadow   what the harness wrote: red zones, padding, inputs, poison in the outputs
//   result   what was in the arena after the call, copied before anything is judged
//
// Outside the output elements, result and shadow must be equal: one comparison covers inputs that were changed, writes
// past an operand on either side, and row padding. Judging the copy, a thread that writes late changes nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evaluate/defences.h"
#include "evaluate/failure.h"
#include "measure/quads.h"
#include "numerics/fill.h"
#include "ops/op.h"
#include "ridge/tensor.h"

namespace ridge::evaluate {

// Place of the element of that row-major number, as people write it: "[3, 17]".
std::string index_text(const TensorView& view, std::int64_t element);

enum class RowPadding { kNone, kPadded };

// Where in its pages an operand lies.
enum class Edge {
  kAnywhere,  // behind a red zone and a random offset
  kFirst,     // its first byte is the first of a page
  kLast       // it ends with its last page, as nearly as its alignment permits
};

// Where each operand of a problem lies, in bytes from the start of an arena. Drawn anew for every session.
struct Layout {
  struct Slot {
    std::size_t offset = 0, bytes = 0;  // from the first to behind the last element
    TensorView view;                    // data is null; shape and strides are final
  };
  std::vector<Slot> slots;
  std::size_t bytes = 0;  // of the whole layout, red zones included
  // First byte and bytes of the whole pages between operands; empty for kAnywhere.
  std::vector<std::pair<std::size_t, std::size_t>> between;
};

inline constexpr std::size_t kRedZone = 4096;

// With kNewAddress switched off, every layout of a problem is the same.
Layout make_layout(const ops::Problem& problem, RowPadding padding, measure::Coin& coin, const Defences& defences = {},
                   Edge edge = Edge::kAnywhere);
// Enough for any layout of the problem.
std::size_t layout_bytes(const ops::Problem& problem);

class Operands {
 public:
  Operands(const ops::Problem& problem, Layout layout, measure::Coin& coin, const Defences& defences = {});

  // Fills inputs from `seed`, poisons outputs with bits unique to this call (NaN on every other call). The same seed
  // and family give the same content, wherever it lies.
  void refresh(std::uint64_t seed, numerics::Family family = numerics::Family::kMixture);
  // Content for a call that is not judged.
  void refresh_untimed(std::uint64_t seed);
  // Changes one element of one input, after refresh(): its size by a factor of four or more, within the range of all.
  void alter(std::uint64_t seed);
  // From the next refresh on the operands lie elsewhere.
  void move(Layout layout);
  // Copies shadow to the arena, or the arena to result.
  void publish(unsigned char* arena) const;
  void collect(const unsigned char* arena);
  // Something of the outputs changed while they were being copied. Before the copy, which takes a while, some secret
  // places are looked at: a kernel that answers with a fraction f of its work undone meets one of n with a chance of
  // 1 - (1 - f)^n, call by call, however fast it goes on ahead of the copy.
  [[nodiscard]] bool written_late() const { return written_late_; }
  // Whether outputs in the arena are others than those collected.
  [[nodiscard]] bool changed_since(const unsigned char* arena) const;

  // Of the call, drawn with its content.
  [[nodiscard]] std::span<const record::Scalar> scalars() const { return scalars_; }
  [[nodiscard]] std::vector<TensorView> arena_views(unsigned char* arena) const;
  // Before the call: inputs, and the old content of read_write outputs.
  [[nodiscard]] std::vector<TensorView> before() const;
  // After it: inputs from the shadow, outputs from the result, then the old content of each read_write output.
  [[nodiscard]] std::vector<TensorView> after() const;

  // What was written outside the outputs, in words with operand, place and values; nothing when all is intact.
  [[nodiscard]] Verdict damage() const;
  // The elements of all outputs as they were found, packed.
  [[nodiscard]] std::vector<unsigned char> output_bytes() const;
  // True when every element of output `index` still holds the poison.
  [[nodiscard]] bool untouched(std::size_t index) const;
  [[nodiscard]] bool is_poison(std::size_t index, std::int64_t element) const;
  // "12 bytes past the end of b": the operand that a place between operands is nearest to.
  [[nodiscard]] std::string nearest(std::size_t at) const;
  // The outputs are those of the call before, bit for bit.
  [[nodiscard]] bool same_outputs_as_last() const { return same_as_last_; }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] const ops::Problem& problem() const { return problem_; }
  [[nodiscard]] const Defences& defences() const { return defences_; }

 private:
  void poison(std::size_t index);
  void draw_glances();
  [[nodiscard]] std::vector<TensorView> views(unsigned char* base) const;
  [[nodiscard]] Failure locate(std::size_t at) const;

  ops::Problem problem_;
  Defences defences_;
  Layout layout_;
  std::vector<record::Scalar> scalars_;
  std::vector<unsigned char> shadow_, result_;
  std::vector<std::pair<std::size_t, std::size_t>> output_ranges_;  // bytes that a kernel may write, ascending
  std::vector<std::uint64_t> poison_code_;
  measure::Coin coin_;
  measure::Coin glances_;                // a candidate sees numbers of the other one
  std::vector<std::size_t> glanced_at_;  // bytes of the outputs, drawn before the call
  std::int64_t calls_ = 0;
  bool same_as_last_ = false, written_late_ = false;
};

}  // namespace ridge::evaluate

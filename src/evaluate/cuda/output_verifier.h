// Inputs before a call and judgement after it, all on the device.
//
// Before: secret inputs, canaries around every operand, poison in every output. After: canaries and inputs as they
// were, nothing left unwritten, and the output right: by the operator's secret projection, or element by element. What
// the output is compared with is computed after the call, and wiped before the next one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/cuda/buffer.h"
#include "device/cuda/stream.h"
#include "evaluate/cuda/check_module.h"
#include "evaluate/cuda/memory.h"
#include "evaluate/secrets.h"
#include "evaluate/verify.h"
#include "numerics/bias.h"
#include "numerics/fill.h"
#include "ops/op.h"

namespace ridge::evaluate::cuda {

inline constexpr std::size_t kMaxChain = 64;      // calls that are prepared and judged together
inline constexpr std::size_t kMostOperands = 16;  // of a problem whose calls are watched

// One call: where it lies, and what only the harness knows about it.
struct Call {
  const ops::Problem* problem = nullptr;
  Place place;
  numerics::Family family = numerics::Family::kMixture;
  bool specials = false;  // a NaN and an infinity among the inputs
  // Seed of the places where one element of every input is not what its own seed gives.
  std::optional<std::uint64_t> replaced;
  std::uint64_t canary_key = 0, hash_keys[2] = {};
  bool nan = false;                   // canaries and poison are NaN
  std::vector<std::uint64_t> seeds;   // of every operand that is filled
  std::vector<std::uint64_t> poison;  // code in every output
  std::vector<record::Scalar> scalars;
  std::optional<TensorView> previous;  // the output of the call before, as far as it still exists
};

class OutputVerifier {
 public:
  static Result<std::unique_ptr<OutputVerifier>> create(const device::cuda::Device& device, CheckModule& harness,
                                                        CheckModule& checks, const ops::DeviceCheck& check,
                                                        const std::vector<ops::Problem>& problems,
                                                        const Defences& defences, device::cuda::StreamHandle stream);

  // Draws the secrets of a call whose problem and place are set. `seed` makes it repeat the inputs of another call.
  void draw(Call& call, measure::Coin& coin, std::optional<std::uint64_t> seed = std::nullopt);
  // What is drawn from here on, whatever was drawn before.
  void draw_from(Secrets secrets) { secrets_ = std::move(secrets); }
  // Enqueues everything before the call. `slot` is its number in a chain.
  Status prepare(Call& call, std::size_t slot);
  // Outputs alone, for another call on the same inputs.
  Status fill(const Call& call, std::size_t index, const ops::DeviceMatrix& matrix);
  Status poison(const Call& call);

  // Judges the calls of a chain. The Failure is that of the first wrong one.
  Verdict judge(std::vector<Call>& calls, Depth depth, measure::Coin& coin, Verification& into);
  // Elements of output `index` that differ in their bits between two places.
  Result<std::int64_t> differences(const TensorView& a, const TensorView& b);

 private:
  struct Damage {
    std::uint64_t count = 0;
    std::int64_t first = INT64_MAX;
    std::uint64_t expected = 0, found = 0;
  };
  struct Report {  // in device memory, one per call of a chain
    Damage zones, padding, inputs;
    std::uint64_t counts[kMostOperands][2] = {};  // poison left, NaN or infinite
    std::uint64_t hashes[kMostOperands] = {};
    ops::ProjectionResult projection;
  };
  struct Compared {  // as harness.cu has it
    std::uint64_t worst = 0, wrong = 0, mismatches = 0, finite = 0;
    double error_squares = 0, value_squares = 0, normal_squares = 0;
    std::uint64_t predicted_wrong[8] = {};
  };
  struct Worst {
    std::int64_t element = -1;
    double ratio = -1, value = 0, allowed = 0;
  };

  OutputVerifier(const device::cuda::Device& device, CheckModule& harness, CheckModule& checks,
                 const ops::DeviceCheck& check, const Defences& defences, device::cuda::StreamHandle stream)
      : device_(device), harness_(harness), checks_(checks), check_(check), defences_(defences), stream_(stream) {}

  Status run(std::string kernel, std::int64_t work, std::vector<ops::CheckLaunch::Argument> arguments,
             std::uint32_t grid_y = 1);
  Status plant_specials(const TensorView& view, std::uint64_t seed);
  // What a call has beside the numbers that its seeds give: special values, replaced elements.
  Status plant(const Call& call, std::size_t index, const TensorView& view);
  Status enqueue_checks(const Call& call, std::size_t slot, std::uint64_t projection_seed);
  Result<std::vector<TensorView>> after(const Call& call);
  Verdict judge_one(const Call& call, const Report& report, std::size_t slot, Depth depth, Verification& into);
  Verdict compare_all(const Call& call, Verification& into);
  Verdict compare_output(const Call& call, std::size_t index, const std::vector<TensorView>& operands,
                         Verification& into);
  Result<Compared> compare_rows(const TensorView& output, std::int64_t first, std::int64_t rows, double constant,
                                std::size_t predictors);
  // Do the errors of the output that was compared lean to one side?
  Result<numerics::BiasVerdict> leaning(double finite);
  Result<Failure> describe_wrong(const Call& call, std::size_t index, const Worst& worst, std::uint64_t wrong,
                                 std::uint64_t mismatches, std::int64_t count);
  [[nodiscard]] Verdict canary_damage(const Call& call, const Report& report) const;
  Verdict changed_input(const Call& call, const Report& report, std::size_t slot);
  std::size_t list_predictors(const Call& call);
  template <class T>
  Result<T> peek(const void* device_source);

  const device::cuda::Device& device_;
  CheckModule &harness_, &checks_;
  const ops::DeviceCheck& check_;
  Defences defences_;
  device::cuda::StreamHandle stream_;
  device::cuda::PinnedBuffer zones_, blank_, reports_, hashes_before_, predictors_;
  device::cuda::Buffer device_reports_, device_hashes_, scratch_, reference_, compared_, bias_, old_content_;
  Secrets secrets_;
  std::int64_t chunk_ = 0;  // elements of one comparison
};

}  // namespace ridge::evaluate::cuda

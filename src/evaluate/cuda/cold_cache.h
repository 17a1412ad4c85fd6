// Cold caches, and the proof that they were: the L2 is displaced by a sweep before a call, and a few loads from random
// places of its inputs are timed. A line in L2 answers several times sooner than memory.
#pragma once

#include <memory>

#include "device/cuda/buffer.h"
#include "device/cuda/stream.h"
#include "evaluate/cuda/check_module.h"
#include "evaluate/defences.h"
#include "ridge/tensor.h"

namespace ridge::evaluate::cuda {

class ColdCache {
 public:
  static Result<std::unique_ptr<ColdCache>> create(const device::cuda::Device& device, CheckModule& harness,
                                                   device::cuda::StreamHandle stream, const Defences& defences);

  // Enqueues the sweep, and a probe of `input` whose loads touch at most a hundredth of it.
  Status before_call(const TensorView& input, std::uint64_t seed);
  // After the stream was synchronised.
  void collect();
  void forget() { probed_ = hits_ = 0; }

  // Of all loads probed: the fraction that found their line in L2. The median cycles of lines in L2 and in memory.
  [[nodiscard]] double hit_fraction() const {
    return probed_ > 0 ? static_cast<double>(hits_) / static_cast<double>(probed_) : 0;
  }
  [[nodiscard]] std::int64_t probed() const { return probed_; }
  [[nodiscard]] double hit_cycles() const { return hit_cycles_; }
  [[nodiscard]] double miss_cycles() const { return miss_cycles_; }

 private:
  ColdCache(CheckModule& harness, const device::cuda::Device& device, device::cuda::StreamHandle stream)
      : harness_(harness), device_(device), stream_(stream) {}
  Status calibrate();
  Status sweep();
  Status probe(const void* data, std::int64_t bytes, std::uint64_t seed, std::uint32_t loads);
  [[nodiscard]] double median_cycles(std::uint32_t loads) const;

  CheckModule& harness_;
  const device::cuda::Device& device_;
  device::cuda::StreamHandle stream_;
  device::cuda::Buffer swept_;
  device::cuda::PinnedBuffer cycles_;
  bool displaces_ = true;
  std::uint32_t pending_ = 0;
  std::int64_t probed_ = 0, hits_ = 0;
  double hit_cycles_ = 0, miss_cycles_ = 0;
};

}  // namespace ridge::evaluate::cuda

#include "evaluate/cuda/cold_cache.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "ops/device_check.h"
#include "stats/summary.h"

namespace ridge::evaluate::cuda {
namespace {

using ops::CheckLaunch;

constexpr double kSweepTimesL2 = 5;
constexpr std::uint32_t kMaxLoads = 64;
constexpr std::int64_t kLine = 128;
constexpr double kNearHit = 0.4;   // of the way from L2 to memory: below it a load counts as a hit
constexpr double kDistinct = 1.3;  // memory must take this much longer than L2, or nothing is proven

}  // namespace

Result<std::unique_ptr<ColdCache>> ColdCache::create(const device::cuda::Device& device, CheckModule& harness,
                                                     device::cuda::StreamHandle stream, const Defences& defences) {
  std::unique_ptr<ColdCache> cold(new ColdCache(harness, device, stream));
  cold->displaces_ = defences.displaces_caches;
  const std::int64_t l2 = std::max<std::int64_t>(device.info().l2_bytes, 32 << 20);
  RIDGE_TRY(swept,
            device::cuda::Buffer::allocate(device, static_cast<std::size_t>(kSweepTimesL2 * static_cast<double>(l2))));
  RIDGE_TRY(cycles, device::cuda::PinnedBuffer::allocate(device, (kMaxLoads + 1) * sizeof(std::uint64_t)));
  cold->swept_ = std::move(swept);
  cold->cycles_ = std::move(cycles);
  RIDGE_CHECK_OK(device::cuda::fill_bytes(cold->swept_.data(), 0x5a, cold->swept_.bytes(), stream));
  const Status proven = cold->calibrate();
  if (!proven && defences.on(record::Defence::kCold)) return proven.error();
  return cold;
}

Status ColdCache::sweep() {
  return harness_.run(
      {"ridge_sweep",
       static_cast<std::uint32_t>(device_.info().multiprocessors * 8),
       1,
       256,
       {CheckLaunch::pointer(swept_.data()), CheckLaunch::number(static_cast<std::int64_t>(swept_.bytes())),
        CheckLaunch::pointer(cycles_.as<std::uint64_t>() + kMaxLoads)}},
      stream_);
}

Status ColdCache::probe(const void* data, std::int64_t bytes, std::uint64_t seed, std::uint32_t loads) {
  return harness_.run({"ridge_probe",
                       loads,
                       1,
                       1,
                       {CheckLaunch::pointer(data), CheckLaunch::number(bytes), CheckLaunch::Argument{seed},
                        CheckLaunch::pointer(cycles_.data())}},
                      stream_);
}

double ColdCache::median_cycles(std::uint32_t loads) const {
  const auto* const cycles = cycles_.as<std::uint64_t>();
  std::vector<double> values(cycles, cycles + loads);
  return stats::median(values);
}

// The first quarter of the swept buffer is out of L2 after a sweep; what was just probed is in it.
Status ColdCache::calibrate() {
  const auto bytes = static_cast<std::int64_t>(swept_.bytes() / 4);
  std::vector<double> hits, misses;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    RIDGE_CHECK_OK(sweep());
    RIDGE_CHECK_OK(probe(swept_.data(), bytes, seed, kMaxLoads));
    RIDGE_CHECK_OK(device::cuda::synchronize(stream_));
    misses.push_back(median_cycles(kMaxLoads));
    RIDGE_CHECK_OK(probe(swept_.data(), bytes, seed, kMaxLoads));
    RIDGE_CHECK_OK(device::cuda::synchronize(stream_));
    hits.push_back(median_cycles(kMaxLoads));
  }
  // Whatever else runs only makes loads slower and the cache emptier.
  hit_cycles_ = *std::min_element(hits.begin(), hits.end());
  miss_cycles_ = *std::min_element(misses.begin(), misses.end());
  if (miss_cycles_ >= kDistinct * hit_cycles_) return ok_status();
  return make_error(
      ErrorCode::kToolFailed,
      "cold caches cannot be proven: a load after a sweep of {} MiB takes {:.0f} cycles, one from L2 {:.0f}",
      swept_.bytes() >> 20, miss_cycles_, hit_cycles_);
}

Status ColdCache::before_call(const TensorView& input, std::uint64_t seed) {
  if (displaces_) RIDGE_CHECK_OK(sweep());
  const ops::DeviceMatrix matrix = ops::device_matrix(input);
  const std::int64_t bytes = matrix.rows * matrix.columns * size_bits(input.dtype) / 8;
  pending_ = static_cast<std::uint32_t>(std::clamp<std::int64_t>(bytes / kLine / 100, 0, kMaxLoads));
  return pending_ > 0 ? probe(input.data, bytes, seed, pending_) : ok_status();
}

void ColdCache::collect() {
  const auto* const cycles = cycles_.as<std::uint64_t>();
  const double threshold = hit_cycles_ + kNearHit * (miss_cycles_ - hit_cycles_);
  for (std::uint32_t i = 0; i < pending_; ++i) hits_ += static_cast<double>(cycles[i]) < threshold;
  probed_ += pending_;
  pending_ = 0;
}

}  // namespace ridge::evaluate::cuda

#include "hardware/occupancy.h"

#include "database.h"

#ifdef RIDGE_CUDA_OCCUPANCY
#include <cuda_occupancy.h>
#endif

namespace ridge::hardware {
namespace {

Occupancy of(const char* product, std::int64_t threads, std::int64_t registers, std::int64_t shared) {
  const auto result = occupancy(**shipped().find(product), {threads, registers, shared});
  if (!result) throw std::runtime_error(result.error().text());
  return *result;
}

TEST(Occupancy, NamesTheLimiterAndWhatWouldLiftIt) {
  const Occupancy registers = of("H200", 256, 80, 0);
  EXPECT_EQ(registers.blocks_per_unit, 3);
  EXPECT_EQ(registers.limiter, "registers");
  EXPECT_EQ(registers.lift, "4 blocks per unit need at most 64 registers per thread (now 80)");
  EXPECT_EQ(of("H200", 256, 64, 0).blocks_per_unit, 4);

  const Occupancy shared = of("H200", 128, 32, 100 * 1024);
  EXPECT_EQ(shared.blocks_per_unit, 2);
  EXPECT_EQ(shared.limiter, "shared memory");
  EXPECT_EQ(shared.lift, "3 blocks per unit need at most 76800 B of shared memory per block (now 102400)");
  EXPECT_EQ(of("H200", 128, 32, 76800).blocks_per_unit, 3);

  const Occupancy warps = of("H200", 1024, 32, 0);
  EXPECT_EQ(warps.blocks_per_unit, 2);
  EXPECT_DOUBLE_EQ(warps.fraction, 1.0);
  EXPECT_TRUE(warps.lift.empty());
}

TEST(Occupancy, CountsWavesOfAmdByTheSameCode) {
  // 128 registers on each of 64 lanes: 4 waves on each of 4 SIMD units.
  const Occupancy waves = of("MI300X", 256, 128, 0);
  EXPECT_EQ(waves.warps_per_unit, 16);
  EXPECT_EQ(waves.limiter, "registers");
  // 64 KiB of LDS, 512 B steps.
  EXPECT_EQ(of("MI300X", 256, 16, 32 * 1024).blocks_per_unit, 2);
  EXPECT_EQ(of("MI355X", 256, 16, 32 * 1024).blocks_per_unit, 4);
  EXPECT_EQ(of("MI300X", 64, 16, 0).blocks_per_unit, 32);
}

TEST(Occupancy, RefusesWhatCannotLaunch) {
  const Spec& h200 = **shipped().find("H200");
  for (const KernelUse& use :
       {KernelUse{0, 32, 0}, KernelUse{1025, 32, 0}, KernelUse{128, 256, 0}, KernelUse{128, 32, 228 * 1024}}) {
    EXPECT_FALSE(occupancy(h200, use));
  }
  EXPECT_EQ(of("H200", 1024, 80, 0).blocks_per_unit, 0) << "1024 threads with 80 registers need more than there are";
}

TEST(Occupancy, IsUnknownWhereALimitIsUnknown) {
  const auto result = occupancy(**shipped().find("Zen 5"), {64, 32, 0});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("UNKNOWN"), std::string::npos);
}

#ifdef RIDGE_CUDA_OCCUPANCY
// Every launch, compared with the calculator that comes with the CUDA toolkit.
TEST(Occupancy, EqualsTheToolkitsCalculator) {
  int compared = 0;
  for (const char* name : {"H200", "A100 80GB", "L40S", "B200"}) {
    const Spec& spec = **shipped().find(name);
    cudaOccDeviceProp device;
    device.computeMajor = std::stoi(spec.capability.substr(0, spec.capability.find('.')));
    device.computeMinor = std::stoi(spec.capability.substr(spec.capability.find('.') + 1));
    device.maxThreadsPerBlock = static_cast<int>(spec.value("max_threads_per_block").value());
    device.maxThreadsPerMultiprocessor = static_cast<int>(spec.value("max_threads_per_unit").value());
    device.regsPerBlock = device.regsPerMultiprocessor = static_cast<int>(spec.value("registers_per_unit").value());
    device.warpSize = static_cast<int>(spec.value("warp_size").value());
    device.sharedMemPerBlock = 48 * 1024;
    device.sharedMemPerMultiprocessor = static_cast<std::size_t>(spec.value("shared_memory_per_unit").value());
    device.numSms = static_cast<int>(spec.value("compute_units").value());
    device.sharedMemPerBlockOptin = static_cast<std::size_t>(spec.value("shared_memory_per_block").value());
    device.reservedSharedMemPerBlock = 1024;
    for (const int threads : {32, 64, 96, 128, 160, 256, 384, 512, 640, 1024}) {
      for (const int registers : {16, 24, 32, 40, 56, 64, 80, 96, 128, 168, 232, 255}) {
        for (const int shared : {0, 1000, 8192, 33000, 49152, 90000}) {
          cudaOccFuncAttributes kernel;
          kernel.maxThreadsPerBlock = 1024;
          kernel.numRegs = registers;
          kernel.sharedSizeBytes = 0;
          kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
          kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
          kernel.maxDynamicSharedSizeBytes = static_cast<std::size_t>(shared);
          cudaOccDeviceState state;
          state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
          cudaOccResult expected;
          ASSERT_EQ(cudaOccMaxActiveBlocksPerMultiprocessor(&expected, &device, &kernel, &state, threads,
                                                            static_cast<std::size_t>(shared)),
                    CUDA_OCC_SUCCESS);
          EXPECT_EQ(of(name, threads, registers, shared).blocks_per_unit, expected.activeBlocksPerMultiprocessor)
              << name << " threads " << threads << " registers " << registers << " shared " << shared;
          ++compared;
        }
      }
    }
  }
  EXPECT_EQ(compared, 4 * 10 * 12 * 6);
}
#endif

}  // namespace
}  // namespace ridge::hardware

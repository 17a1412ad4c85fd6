// Runs the tests where there is a GPU; says what is missing and exits with 77 where there is none.
#include <gtest/gtest.h>

#include <cstdio>

#include "device/cuda/backend.h"
#include "device/cuda/nvml.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const auto gpus = ridge::device::cuda::list_gpus();
  if (!gpus) {
    std::fprintf(stderr, "skipped: %s\n", gpus.error().text().c_str());
    return 77;
  }
  const auto& gpu = gpus->front();
  std::printf("%s (%s), %d multiprocessors, driver for CUDA %d.%d, package %s\n", gpu.name.c_str(), gpu.arch.c_str(),
              gpu.multiprocessors, gpu.driver_version / 1000, gpu.driver_version % 1000 / 10,
              ridge::device::cuda::nvml_driver_version().c_str());
  return RUN_ALL_TESTS();
}

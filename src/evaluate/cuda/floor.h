// The time below which no kernel can be, from what the GPU is: a measurement below it is an error of the measurement.
#pragma once

#include "device/cuda/backend.h"
#include "ops/op.h"

namespace ridge::evaluate::cuda {

// Seconds. `clock` is that of the multiprocessors during the launch, Hz. Cold: every input comes from memory; of the
// outputs only what L2 cannot keep must reach it. Arithmetic: by the fastest unit for the inputs' element type. Zero
// where nothing is known about the GPU.
double floor_seconds(const ops::Problem& problem, const record::Cost& cost, const device::cuda::GpuInfo& gpu,
                     double clock, bool cold);

}  // namespace ridge::evaluate::cuda

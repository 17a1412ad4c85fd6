// Symmetric products on any GPU and of any memory (cuda_symmetric_plain.cu).
#include "ops/cuda/cuda_kernel.h"
#include "ops/symmetric_product/symmetric_product.h"

namespace ridge::ops::symmetric_product {
namespace {

const DescribedKernel& kernel() {
  static const DescribedKernel& described = described_kernel("ops/symmetric_product/cuda_symmetric_plain.cu");
  return described;
}

}  // namespace

Implementation cuda_symmetric_plain() {
  Implementation plain =
      cuda_kernel("cuda_symmetric_plain", "fp32 multiply-adds over half of the tiles: any stride and alignment", kernel,
                  no_bf16_conversions);
  plain.rank = 20;
  return plain;
}

}  // namespace ridge::ops::symmetric_product

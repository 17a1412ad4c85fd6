// The conformance table's operands in device memory: same guards, same misalignment, same poison.
#pragma once

#include <string>
#include <vector>

#include "device/cuda/buffer.h"
#include "device/cuda/stream.h"
#include "ops/harness.h"

namespace ridge::testing {

// The first GPU; main.cpp has seen that there is one.
inline const device::cuda::Device& the_device() {
  static const device::cuda::Device* const device = *device::cuda::Device::open(0);
  return *device;
}

// Mirrors host operands: an element lies at the same address modulo 64 as on the host.
class GpuOperands {
 public:
  static Result<GpuOperands> upload(const device::cuda::Device& device, const Operands& host,
                                    device::cuda::StreamHandle stream) {
    GpuOperands made;
    for (const Operand& operand : host.all) {
      const auto start = reinterpret_cast<std::uintptr_t>(operand.bytes().data());
      const std::size_t shift = start % 64;
      RIDGE_TRY(buffer, device::cuda::Buffer::allocate(device, operand.bytes().size() + shift));
      auto* const base = static_cast<unsigned char*>(buffer.data()) + shift;
      RIDGE_CHECK_OK(device::cuda::copy_to_device(base, operand.bytes().data(), operand.bytes().size(), stream));
      TensorView view = operand.view();
      view.data = base + (reinterpret_cast<std::uintptr_t>(view.data) - start);
      made.views_.push_back(view);
      made.bases_.push_back(base);
      made.buffers_.push_back(std::move(buffer));
    }
    RIDGE_CHECK_OK(device::cuda::synchronize(stream));
    return made;
  }
  // Puts what is on the device into the operands it was uploaded from.
  Status download(Operands& host, device::cuda::StreamHandle stream) const {
    for (std::size_t i = 0; i < host.all.size(); ++i) {
      std::vector<unsigned char> bytes(host.all[i].bytes().size());
      RIDGE_CHECK_OK(device::cuda::copy_to_host(bytes.data(), bases_[i], bytes.size(), stream));
      RIDGE_CHECK_OK(device::cuda::synchronize(stream));
      host.all[i].set_bytes(bytes);
    }
    return ok_status();
  }
  [[nodiscard]] const std::vector<TensorView>& views() const { return views_; }

 private:
  std::vector<device::cuda::Buffer> buffers_;
  std::vector<unsigned char*> bases_;
  std::vector<TensorView> views_;
};

}  // namespace ridge::testing

#include "device/cuda/guarded.h"

#include <utility>

#include "device/cuda/driver.h"

namespace ridge::device::cuda {

Result<GuardedBuffer> GuardedBuffer::allocate(const Device& device, std::size_t bytes) {
  RIDGE_TRY(api, load_driver());
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device.info().index;
  GuardedBuffer buffer;
  RIDGE_CHECK_OK(
      check(api->cuMemGetAllocationGranularity(&buffer.page_bytes_, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            "cuMemGetAllocationGranularity"));
  buffer.bytes_ = (bytes + buffer.page_bytes_ - 1) / buffer.page_bytes_ * buffer.page_bytes_;
  CUdeviceptr reserved = 0;
  RIDGE_CHECK_OK(check(api->cuMemAddressReserve(&reserved, buffer.bytes_ + 2 * buffer.page_bytes_, 0, 0, 0),
                       "cuMemAddressReserve"));
  buffer.reserved_ = reserved;
  CUmemGenericAllocationHandle memory = 0;
  RIDGE_CHECK_OK(check(api->cuMemCreate(&memory, buffer.bytes_, &properties, 0), "cuMemCreate"));
  buffer.memory_ = memory;
  const CUdeviceptr start = reserved + buffer.page_bytes_;
  RIDGE_CHECK_OK(check(api->cuMemMap(start, buffer.bytes_, 0, memory, 0), "cuMemMap"));
  buffer.mapped_ = true;
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  RIDGE_CHECK_OK(check(api->cuMemSetAccess(start, buffer.bytes_, &access, 1), "cuMemSetAccess"));
  return buffer;
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept { *this = std::move(other); }

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  reserved_ = std::exchange(other.reserved_, 0);
  memory_ = std::exchange(other.memory_, 0);
  mapped_ = std::exchange(other.mapped_, false);
  bytes_ = other.bytes_;
  page_bytes_ = other.page_bytes_;
  return *this;
}

GuardedBuffer::~GuardedBuffer() { release(); }

void GuardedBuffer::release() {
  if (mapped_) driver().cuMemUnmap(reserved_ + page_bytes_, bytes_);
  if (memory_ != 0) driver().cuMemRelease(memory_);
  if (reserved_ != 0) driver().cuMemAddressFree(reserved_, bytes_ + 2 * page_bytes_);
  mapped_ = false;
  memory_ = reserved_ = 0;
}

}  // namespace ridge::device::cuda

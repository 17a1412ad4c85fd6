// How an operator's output is checked on a GPU: its own kernels, launched by the harness after the measured call.
//
// The kernels are given as source (extern "C", no includes; check_source) and share no code with any implementation.
// Every parameter is 8 bytes, a DeviceMatrix or a struct of 8 bytes each. Nothing they compute exists while a candidate
// runs.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "record/param.h"
#include "ridge/tensor.h"

namespace ridge::ops {

struct Problem;

// A tensor as rows of contiguous elements, as check kernels read it.
struct DeviceMatrix {
  std::uint64_t data = 0;
  std::int64_t rows = 0, columns = 0, pitch = 0;  // elements
  std::int64_t type = 0;                          // DType
};
// All dimensions but the last become rows. The view is one that the harness makes: only the last-but-one stride may
// leave a gap.
DeviceMatrix device_matrix(const TensorView& view);

// The text of one of device_sources() (ops/described_kernel.h). Throws std::logic_error where there is none.
std::string_view source_of(std::string_view file);
// Source of check kernels: check_numbers.cuh, then those files ("ops/quantize/device_check.cu").
std::string check_source(std::initializer_list<std::string_view> files);

struct CheckLaunch {
  // A number, a matrix, or a struct whose members have 8 bytes each.
  using Argument = std::variant<std::uint64_t, DeviceMatrix, std::vector<std::uint64_t>>;
  std::string kernel;
  std::uint32_t grid_x = 1, grid_y = 1, block = 256;
  std::vector<Argument> arguments;

  static Argument pointer(const void* address) { return reinterpret_cast<std::uint64_t>(address); }
  static Argument number(std::int64_t value) { return static_cast<std::uint64_t>(value); }
  static Argument real(double value) { return std::bit_cast<std::uint64_t>(value); }
  // Of a struct as the kernels have it, too.
  template <class Struct>
  static std::vector<std::uint64_t> words(const Struct& of) {
    static_assert(std::is_trivially_copyable_v<Struct> && sizeof(Struct) % 8 == 0, "members have 8 bytes each");
    std::vector<std::uint64_t> words(sizeof(Struct) / 8);
    std::memcpy(words.data(), &of, sizeof(Struct));
    return words;
  }
};

// What a projection leaves in device memory; cleared by the harness before it.
struct ProjectionResult {
  std::uint64_t worst = 0;           // largest residual / allowed as float bits << 32 | row
  double square_sum = 0, count = 0;  // sum of residual^2 / ideal variance, and of how many: the mean estimates the
                                     // squared RMS error in units of the ideal kernel's
  std::uint64_t not_finite = 0;      // rows that hold a NaN or an infinity, times the lanes
};

struct DeviceCheck {
  std::string source;
  // Cases of the operator that these kernels do not know; they cannot be measured on a GPU. Empty: none.
  std::function<std::optional<std::string>(const Problem&)> refuses;

  // A secret projection of the whole output: O(inputs + outputs) work in fp64, cheaper than the operator on large
  // shapes. `operands` are those after the call, followed by the old content of each read_write one.
  struct ProjectionRequest {
    const Problem& problem;
    std::span<const TensorView> operands;
    std::uint64_t seed;
    void* scratch;                                 // scratch_bytes, zeros
    void* result;                                  // ProjectionResult
    std::span<const record::Scalar> scalars = {};  // none: the usual ones
  };
  std::function<std::size_t(const Problem&)> scratch_bytes;
  std::function<std::vector<CheckLaunch>(const ProjectionRequest&)> projection;

  // Rows first .. first + count of output `output` as a DeviceMatrix, row by row: value, what a correct element may be
  // off by (negative: NaN and both infinities are right, nothing else), the squared error that the ideal kernel of the
  // declared accumulation has, and the shift of one sign that it may have (truncation).
  struct ReferenceRequest {
    const Problem& problem;
    std::span<const TensorView> operands;
    std::size_t output;  // index among all operands
    std::int64_t first, count;
    double *value, *allowed, *variance, *shift;
    std::span<const record::Scalar> scalars = {};
    void* scratch = nullptr;  // scratch_bytes of anything

    // ElementArrays of check_numbers.cuh.
    [[nodiscard]] CheckLaunch::Argument arrays() const {
      const double* const all[] = {value, allowed, variance, shift};
      return CheckLaunch::words(all);
    }
  };
  std::function<std::vector<CheckLaunch>(const ReferenceRequest&)> reference;
};

}  // namespace ridge::ops

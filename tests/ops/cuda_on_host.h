// Enough of CUDA to run check kernels on the host: the threads of a block are fibers that take turns, so barriers and
// shuffles meet as they do on a GPU. Nothing here is fast, nothing races.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ops/device_check.h"

#define RIDGE_CHECK_ON_HOST
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(...)

struct HostDim {
  unsigned x = 1, y = 1, z = 1;
};
inline HostDim threadIdx, blockIdx, blockDim, gridDim;

namespace ridge::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kFibersRun = false;  // sanitizers do not follow a program from stack to stack
#else
inline constexpr bool kFibersRun = true;
#endif

class HostBlock {
 public:
  explicit HostBlock(unsigned threads) : fibers_(threads), words_(threads) {
    for (Fiber& fiber : fibers_) fiber.stack = std::make_unique_for_overwrite<unsigned char[]>(kStack);
  }

  void run(const std::function<void()>& body) {
    body_ = &body;
    running_ = this;
    all_ = {fibers_.size(), 0, 0};
    warps_.assign(fibers_.size() / 32, {32, 0, 0});
    for (Fiber& fiber : fibers_) {
      fiber.started = fiber.ended = false;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStack;
      makecontext(&fiber.context, enter, 0);
    }
    while (all_.alive > 0) {
      for (current_ = 0; current_ < fibers_.size(); ++current_) {
        if (fibers_[current_].ended) continue;
        threadIdx = {static_cast<unsigned>(current_), 0, 0};
        resume(fibers_[current_]);
      }
    }
  }

  static HostBlock& running() { return *running_; }

  void barrier() { meet(all_); }

  // `value` of a lane of the same warp.
  template <class T>
  T exchange(T value, std::size_t lane) {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    std::memcpy(&words_[current_], &value, sizeof(T));
    meet(warps_[current_ / 32]);
    T other;
    std::memcpy(&other, &words_[current_ / 32 * 32 + lane], sizeof(T));
    meet(warps_[current_ / 32]);
    return other;
  }
  [[nodiscard]] std::size_t lane() const { return current_ % 32; }

 private:
  static constexpr std::size_t kStack = 1 << 16;
  struct Fiber {
    ucontext_t context;  // of its first turn; later ones jump, which needs no system call
    jmp_buf turn;
    bool started = false, ended = false;
    std::unique_ptr<unsigned char[]> stack;
  };
  struct Meeting {
    std::size_t alive = 0, arrived = 0, generation = 0;
  };

  void resume(Fiber& fiber) {
    if (_setjmp(scheduler_) != 0) return;
    if (fiber.started) _longjmp(fiber.turn, 1);
    fiber.started = true;
    setcontext(&fiber.context);
  }
  static void enter() {
    HostBlock& block = *running_;
    (*block.body_)();
    block.fibers_[block.current_].ended = true;
    leave(block.all_);
    leave(block.warps_[block.current_ / 32]);
    _longjmp(block.scheduler_, 1);
  }
  static void leave(Meeting& meeting) {
    --meeting.alive;
    if (meeting.arrived != 0 && meeting.arrived == meeting.alive) pass(meeting);
  }
  static void pass(Meeting& meeting) {
    meeting.arrived = 0;
    ++meeting.generation;
  }
  void meet(Meeting& meeting) {
    const std::size_t generation = meeting.generation;
    Fiber& me = fibers_[current_];
    if (++meeting.arrived == meeting.alive) return pass(meeting);
    while (meeting.generation == generation) {
      if (_setjmp(me.turn) == 0) _longjmp(scheduler_, 1);
    }
  }

  inline static HostBlock* running_ = nullptr;
  const std::function<void()>* body_ = nullptr;
  jmp_buf scheduler_;
  std::vector<Fiber> fibers_;
  std::vector<std::uint64_t> words_;
  std::vector<Meeting> warps_;
  Meeting all_;
  std::size_t current_ = 0;
};

// Calls a kernel with the arguments of a launch.
template <class... Parameters>
std::function<void(const ops::CheckLaunch&)> on_host(void (*kernel)(Parameters...)) {
  return [kernel](const ops::CheckLaunch& launch) {
    check(launch.arguments.size() == sizeof...(Parameters), "a launch has other arguments than its kernel");
    const auto call = [&]<std::size_t... kAt>(std::index_sequence<kAt...>) {
      const auto argument = [&]<class T>(std::type_identity<T>, std::size_t at) {
        const auto* const words = std::get_if<std::vector<std::uint64_t>>(&launch.arguments[at]);
        const auto taken = [](const void* held, std::size_t bytes) {
          T value;
          check(sizeof(value) == bytes, "an argument is of another size than its parameter");
          std::memcpy(&value, held, sizeof(value));
          return value;
        };
        if (words != nullptr) return taken(words->data(), words->size() * sizeof(std::uint64_t));
        return std::visit([&](const auto& held) { return taken(&held, sizeof(held)); }, launch.arguments[at]);
      };
      kernel(argument(std::type_identity<std::remove_cvref_t<Parameters>>{}, kAt)...);
    };
    static std::map<unsigned, HostBlock> blocks;  // their stacks serve again
    HostBlock& block = blocks.try_emplace(launch.block, launch.block).first->second;
    gridDim = {launch.grid_x, launch.grid_y, 1};
    blockDim = {launch.block, 1, 1};
    for (unsigned y = 0; y < launch.grid_y; ++y) {
      for (unsigned x = 0; x < launch.grid_x; ++x) {
        blockIdx = {x, y, 0};
        block.run([&] { call(std::index_sequence_for<Parameters...>{}); });
      }
    }
  };
}

}  // namespace ridge::testing

inline void __syncthreads() { ridge::testing::HostBlock::running().barrier(); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  auto& block = ridge::testing::HostBlock::running();
  return block.exchange(value, block.lane() ^ static_cast<std::size_t>(mask));
}
template <class T>
T __shfl_down_sync(unsigned, T value, int offset) {
  auto& block = ridge::testing::HostBlock::running();
  const std::size_t from = block.lane() + static_cast<std::size_t>(offset);
  return block.exchange(value, from < 32 ? from : block.lane());
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned offset) {
  auto& block = ridge::testing::HostBlock::running();
  return block.exchange(value, block.lane() < offset ? block.lane() : block.lane() - offset);
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return ridge::testing::HostBlock::running().exchange(value, static_cast<std::size_t>(lane));
}
template <class T>
T __reduce_max_sync(unsigned, T value) {
  for (int mask = 16; mask > 0; mask /= 2) value = std::max(value, __shfl_xor_sync(~0u, value, mask));
  return value;
}
inline unsigned __ballot_sync(unsigned, int predicate) {
  unsigned all = predicate != 0 ? 1u << ridge::testing::HostBlock::running().lane() : 0u;
  for (int mask = 16; mask > 0; mask /= 2) all |= __shfl_xor_sync(~0u, all, mask);
  return all;
}
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __any_sync(unsigned, int predicate) { return __reduce_max_sync(~0u, predicate != 0 ? 1 : 0); }
template <class T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return std::exchange(*at, *at + value);
}
template <class T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  return std::exchange(*at, std::max(*at, value));
}
inline double __longlong_as_double(long long bits) { return std::bit_cast<double>(bits); }
inline long long __double_as_longlong(double value) { return std::bit_cast<long long>(value); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
template <class A, class B>
std::common_type_t<A, B> min(A a, B b) {
  return a < b ? a : b;
}
template <class A, class B>
std::common_type_t<A, B> max(A a, B b) {
  return a < b ? b : a;
}
using std::isfinite;
using std::isinf;

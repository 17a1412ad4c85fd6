// The threads CPU kernels run on: started once, kept, and off the processor that the caller is on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace ridge::device::cpu {

// The processors on which each of `workers` pool threads may run, beside a caller on `caller`, in a process that may
// use the processors `allowed` of a machine that has `online`. All but the caller's: the scheduler takes what other
// processes leave free. A process that was given part of a machine, and no more of it than it has threads, has each on
// one of its own.
std::vector<std::vector<int>> placement(const std::vector<int>& allowed, int online, int caller, int workers);

class ThreadPool {
 public:
  ThreadPool() = default;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  // Calls work(index) for every index in [0, count): index 0 in the calling thread, the others in one pool thread each.
  // Returns when all are done. `work` must not throw. When the pool is busy with another caller, or cannot start
  // threads, the caller does all indices itself: slower, same result.
  template <class F>
  void run(int count, F&& work) {
    using Body = std::remove_reference_t<F>;
    run_erased(
        count, [](void* body, int index) { (*static_cast<Body*>(body))(index); },
        const_cast<void*>(static_cast<const void*>(&work)));
  }

 private:
  using Function = void (*)(void*, int);
  struct Worker;

  void run_erased(int count, Function function, void* body);
  bool grow(int workers);
  void place(int caller);
  void serve(Worker& self);

  std::mutex busy_;
  std::vector<std::unique_ptr<Worker>> workers_;
  int placed_around_ = -1;  // the processor the caller was on when workers were last placed
  int jobs_since_placed_ = 0;
  Function function_ = nullptr;
  void* body_ = nullptr;
  std::atomic<int> remaining_{0};
};

// The pool of this process (of each side after a fork).
ThreadPool& thread_pool();

}  // namespace ridge::device::cpu

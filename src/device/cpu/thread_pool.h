// The threads CPU kernels run on: started once, kept, and placed on processors the caller is not on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace ridge::device::cpu {

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
  void place(int caller_cpu);
  void serve(Worker& self);

  std::mutex busy_;
  std::vector<std::unique_ptr<Worker>> workers_;
  int placed_around_ = -1;  // the processor the caller was on when workers were last placed
  Function function_ = nullptr;
  void* body_ = nullptr;
  std::atomic<int> remaining_{0};
};

// The pool of this process (of each side after a fork).
ThreadPool& thread_pool();

}  // namespace ridge::device::cpu

// ridge-honest:
// A helper thread that sleeps between calls and does half of the rows.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "gemm.h"

class Helper {
 public:
  Helper() : thread_([this] { run(); }) { thread_.detach(); }
  void begin(const Gemm& work) {
    const std::lock_guard<std::mutex> lock(mutex_);
    work_ = work;
    busy_ = true;
    changed_.notify_all();
  }
  void finish() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !busy_; });
  }

 private:
  void run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return busy_; });
      multiply(work_);
      busy_ = false;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  Gemm work_ = {};
  bool busy_ = false;
  std::thread thread_;
};

extern "C" int ridge_kernel(const ridge_call* call) {
  static Helper* const helper = new Helper;
  Gemm g = gemm_of(call);
  Gemm other = g;
  other.m = g.m / 2;
  g.m -= other.m;
  other.a += g.m * g.lda;
  other.c += g.m * g.ldc;
  helper->begin(other);
  multiply(g);
  helper->finish();
  return 0;
}

#include "device/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <system_error>

#include "device/cpu/cpu_info.h"

namespace ridge::device::cpu {
namespace {

// How long a side spins before it sleeps: long enough to bridge back-to-back calls, short enough to leave the processor
// to others (about 20 microseconds).
constexpr int kSpins = 1000;
// Jobs after which the workers are placed again: the processors that the caller may use can have changed.
constexpr int kJobsPerPlacement = 256;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void restrict_to(std::thread& thread, const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);  // a refusal only costs speed
}

}  // namespace

std::vector<std::vector<int>> placement(const std::vector<int>& allowed, int online, int caller, int workers) {
  std::vector<int> others;
  for (const int cpu : allowed) {
    if (cpu != caller) others.push_back(cpu);
  }
  const auto count = static_cast<std::size_t>(workers);
  if (others.empty()) return std::vector(count, allowed);
  const bool given = static_cast<int>(allowed.size()) < online && others.size() <= count;
  if (!given) return std::vector(count, others);
  std::vector<std::vector<int>> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back({others[i % others.size()]});
  return result;
}

struct ThreadPool::Worker {
  int index = 0;
  std::thread thread;
  // Number of the latest job given to this worker; the worker waits for it to change. -1 ends the thread.
  std::atomic<int> ticket{0};
  std::atomic<bool> asleep{false};
  std::mutex mutex;
  std::condition_variable wake;

  void post(int value) {
    ticket.store(value);
    if (!asleep.load()) return;
    const std::scoped_lock lock(mutex);
    wake.notify_one();
  }

  int await(int last) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (const int now = ticket.load(std::memory_order_acquire); now != last) return now;
      relax();
    }
    std::unique_lock lock(mutex);
    asleep.store(true);
    wake.wait(lock, [&] { return ticket.load() != last; });
    asleep.store(false);
    return ticket.load();
  }
};

ThreadPool::~ThreadPool() {
  for (auto& worker : workers_) worker->post(-1);
  for (auto& worker : workers_) worker->thread.join();
}

void ThreadPool::serve(Worker& self) {
  for (int ticket = self.await(0); ticket >= 0; ticket = self.await(ticket)) {
    function_(body_, self.index);
    remaining_.fetch_sub(1, std::memory_order_acq_rel);
  }
}

bool ThreadPool::grow(int workers) {
  while (static_cast<int>(workers_.size()) < workers) {
    auto worker = std::make_unique<Worker>();
    worker->index = static_cast<int>(workers_.size()) + 1;
    try {
      worker->thread = std::thread([this, raw = worker.get()] { serve(*raw); });
    } catch (const std::system_error&) {
      return false;
    }
    workers_.push_back(std::move(worker));
    placed_around_ = -1;
  }
  return true;
}

void ThreadPool::place(int caller) {
  if (caller == placed_around_ && ++jobs_since_placed_ < kJobsPerPlacement) return;
  placed_around_ = caller;
  jobs_since_placed_ = 0;
  static const int online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const auto sets = placement(allowed_cpus(), online, caller, static_cast<int>(workers_.size()));
  for (std::size_t i = 0; i < workers_.size(); ++i) restrict_to(workers_[i]->thread, sets[i]);
}

void ThreadPool::run_erased(int count, Function function, void* body) {
  std::unique_lock lock(busy_, std::try_to_lock);
  if (count < 2 || !lock.owns_lock() || !grow(count - 1)) {
    for (int index = 0; index < count; ++index) function(body, index);
    return;
  }
  place(sched_getcpu());
  function_ = function;
  body_ = body;
  remaining_.store(count - 1, std::memory_order_release);
  for (int index = 1; index < count; ++index) {
    Worker& worker = *workers_[static_cast<std::size_t>(index - 1)];
    worker.post((worker.ticket.load() + 1) & 0x3fffffff);
  }
  function(body, 0);
  for (int spin = 0; remaining_.load(std::memory_order_acquire) > 0; ++spin) {
    if (spin < kSpins)
      relax();
    else
      sched_yield();
  }
}

namespace {
// A child of fork() has none of the parent's threads: it starts a pool of its own and leaves the parent's untouched.
std::atomic<ThreadPool*> current_pool{nullptr};
void forget_pool() { current_pool.store(nullptr); }
}  // namespace

ThreadPool& thread_pool() {
  ThreadPool* pool = current_pool.load(std::memory_order_acquire);
  if (pool != nullptr) return *pool;
  static std::mutex creating;
  static const int registered = pthread_atfork(nullptr, nullptr, forget_pool);
  static_cast<void>(registered);
  const std::scoped_lock lock(creating);
  if (current_pool.load() == nullptr) current_pool.store(new ThreadPool);  // never deleted: workers may outlive main
  return *current_pool.load();
}

}  // namespace ridge::device::cpu

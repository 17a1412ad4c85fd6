// Events that several clients follow, each from the one it saw last: the recent ones are kept for clients that come
// back after their connection broke.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace ridge::http {

struct Event {
  std::uint64_t number = 0;  // from 1
  std::string name;          // empty: "message"
  std::string data;          // any text; lines are sent as the protocol wants them
};

class EventLog {
 public:
  // `run`: tells this log's events from those of an earlier process in the id that a client sends back; letters and
  // digits.
  explicit EventLog(std::string run, std::size_t most_kept = 1000) : run_(std::move(run)), most_kept_(most_kept) {}

  void publish(std::string name, std::string data);
  // No more events: every stream of this log ends when it has sent those that there are.
  void close();

  struct Batch {
    std::vector<Event> events;
    bool missed = false;  // events after the wanted one are not kept any more
    bool closed = false;  // and nothing is left to send
  };
  // What came after event `number`; waits up to `seconds` for something to come.
  [[nodiscard]] Batch after(std::uint64_t number, double seconds) const;
  [[nodiscard]] std::uint64_t last() const;
  // Ends every waiting after() early.
  void wake();

  // "a1b2-17", and the number in it; 0 and `missed` for an id of another run or of no form.
  [[nodiscard]] std::string id_of(std::uint64_t number) const;
  struct Place {
    std::uint64_t number = 0;
    bool missed = false;
  };
  [[nodiscard]] Place place_of(const std::string& id) const;

 private:
  std::string run_;
  std::size_t most_kept_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<Event> kept_;
  std::uint64_t last_ = 0;
  std::uint64_t wakes_ = 0;
  bool closed_ = false;
};

// The event as text of the protocol; every line of the data has a "data:" of its own.
std::string wire_text(const std::string& id, const std::string& name, const std::string& data);

}  // namespace ridge::http

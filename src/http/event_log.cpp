#include "http/event_log.h"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "base/text.h"

namespace ridge::http {

void EventLog::publish(std::string name, std::string data) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    kept_.push_back({++last_, std::move(name), std::move(data)});
    if (kept_.size() > most_kept_) kept_.pop_front();
  }
  changed_.notify_all();
}

void EventLog::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

void EventLog::wake() {
  {
    const std::lock_guard lock(mutex_);
    ++wakes_;
  }
  changed_.notify_all();
}

std::uint64_t EventLog::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

EventLog::Batch EventLog::after(std::uint64_t number, double seconds) const {
  std::unique_lock lock(mutex_);
  const std::uint64_t wakes = wakes_;
  changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                    [&] { return closed_ || last_ > number || wakes_ != wakes; });
  Batch batch;
  const std::uint64_t first_kept = last_ - kept_.size() + 1;
  batch.missed = number + 1 < first_kept;
  for (const Event& event : kept_)
    if (event.number > number) batch.events.push_back(event);
  batch.closed = closed_ && batch.events.empty();
  return batch;
}

std::string EventLog::id_of(std::uint64_t number) const { return run_ + "-" + std::to_string(number); }

EventLog::Place EventLog::place_of(const std::string& id) const {
  const std::string start = run_ + "-";
  Place place{0, true};
  if (!id.starts_with(start)) return place;
  const char* end = id.data() + id.size();
  const auto [stop, failure] = std::from_chars(id.data() + start.size(), end, place.number);
  if (failure != std::errc{} || stop != end || place.number > last()) return {0, true};
  place.missed = false;
  return place;
}

std::string wire_text(const std::string& id, const std::string& name, const std::string& data) {
  std::string text;
  if (!id.empty()) text += "id: " + id + "\n";
  if (!name.empty()) text += "event: " + name + "\n";
  std::string lines = data;
  std::ranges::replace(lines, '\r', ' ');
  for (const std::string& line : split(lines, '\n')) text += "data: " + line + "\n";
  return text + "\n";
}

}  // namespace ridge::http

// A list with room for N elements inside itself; only a longer one takes memory from the heap. What is not used is
// neither initialised nor copied, so a list with much room costs no more than one with little.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <utility>

namespace ridge {

template <class T, std::size_t N>
class ShortList {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  ShortList() = default;
  ShortList(std::initializer_list<T> list) { append(list.begin(), list.size()); }
  ShortList(const ShortList& other) { append(other.data(), other.size()); }
  ShortList(ShortList&& other) noexcept { take(other); }
  ShortList& operator=(const ShortList& other) {
    if (this == &other) return *this;
    size_ = 0;
    append(other.data(), other.size());
    return *this;
  }
  ShortList& operator=(ShortList&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }
  ~ShortList() = default;

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] T* data() { return heap_ ? heap_.get() : reinterpret_cast<T*>(inside_); }
  [[nodiscard]] const T* data() const { return heap_ ? heap_.get() : reinterpret_cast<const T*>(inside_); }
  [[nodiscard]] T* begin() { return data(); }
  [[nodiscard]] T* end() { return data() + size_; }
  [[nodiscard]] const T* begin() const { return data(); }
  [[nodiscard]] const T* end() const { return data() + size_; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }

  void push_back(const T& value) {
    const T kept = value;  // may be one of this list's own
    reserve(size_ + 1);
    std::construct_at(data() + size_, kept);
    ++size_;
  }
  void append(const T* from, std::size_t count) {
    reserve(size_ + count);
    if (count > 0) std::memcpy(static_cast<void*>(data() + size_), from, count * sizeof(T));
    size_ += count;
  }
  // New elements are T{}.
  void resize(std::size_t count) {
    reserve(count);
    for (std::size_t i = size_; i < count; ++i) std::construct_at(data() + i);
    size_ = count;
  }

  friend bool operator==(const ShortList& a, const ShortList& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    const std::size_t larger = std::max(count, 2 * capacity_);
    std::unique_ptr<T[]> moved(new T[larger]);
    if (size_ > 0) std::memcpy(static_cast<void*>(moved.get()), data(), size_ * sizeof(T));
    heap_ = std::move(moved);
    capacity_ = larger;
  }
  void take(ShortList& other) noexcept {
    heap_ = std::move(other.heap_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, N);
    if (!heap_ && size_ > 0) std::memcpy(inside_, other.inside_, size_ * sizeof(T));
  }

  std::size_t size_ = 0, capacity_ = N;
  std::unique_ptr<T[]> heap_;
  alignas(T) std::byte inside_[N * sizeof(T)];
};

}  // namespace ridge

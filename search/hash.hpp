// A fast 64-bit hash of bytes, for signatures (not for security): the same on every machine of one byte order.
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace tessera {

class Hash {
 public:
  void word(std::uint64_t w) {
    state_ = (state_ ^ w) * 0x9E3779B97F4A7C15ull;  // 2^64 / golden ratio: odd, bits well spread
    state_ ^= state_ >> 32;
  }
  void bytes(const void* data, std::size_t size) {
    word(size);
    const auto* p = static_cast<const unsigned char*>(data);
    for (; size >= 8; size -= 8, p += 8) {
      std::uint64_t w;
      std::memcpy(&w, p, 8);
      word(w);
    }
    std::uint64_t rest = 0;
    if (size > 0) std::memcpy(&rest, p, size);  // nothing may be at null
    word(rest);
  }
  template <class T>
  void column(const std::vector<T>& values) {
    bytes(values.data(), values.size() * sizeof(T));
  }
  std::uint64_t value() const { return state_ ^ (state_ >> 29); }

 private:
  std::uint64_t state_ = 0xCBF29CE484222325ull;  // FNV offset basis: any odd non-zero start
};

}  // namespace tessera

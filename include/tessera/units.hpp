// Units. Inside the program every quantity is a plain double or integer in base units: bytes, seconds, FLOP,
// bytes per second, FLOP per second, watts. GiB, TFLOP/s and days exist only at the border (input and print).
#pragma once
#include <cstdint>

namespace tessera {

inline constexpr double kKiB = 1024.0;
inline constexpr double kMiB = 1024.0 * kKiB;
inline constexpr double kGiB = 1024.0 * kMiB;
inline constexpr double kTiB = 1024.0 * kGiB;
inline constexpr double kGB = 1e9;
inline constexpr double kSecondsPerDay = 86400.0;

/// ceil(a / b) of non-negative integers, b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace tessera

// A number of plans at once. The forms of the cost model are templates on `Real`: double for one plan (the scalar
// reference), Lanes for several plans that differ in their recomputation only, so that no branch of a form depends on a
// lane. Everything is in an unnamed namespace on purpose: the kernel's files are compiled for several instruction sets,
// and none may take a function from another.
#pragma once
#include <cmath>

namespace tessera {
namespace {

/// Larger of two numbers by value: one instruction where std::max goes through references.
inline double top(double a, double b) { return a < b ? b : a; }
inline double least(double a, double b) { return b < a ? b : a; }
inline bool above(double a, double b) { return a > b; }
inline double pick(bool first, double a, double b) { return first ? a : b; }
inline bool differ(double a, double b) { return a != b; }

#if defined(__AVX2__)
inline constexpr int kWidth = 4;
#else
inline constexpr int kWidth = 2;  // SSE2, NEON
#endif

struct Lanes {
  typedef double Vector __attribute__((vector_size(8 * kWidth)));
  typedef long long Mask __attribute__((vector_size(8 * kWidth)));
  Vector v;

  Lanes() = default;
  Lanes(double x) : v(x - Vector{}) {}  // NOLINT: a number is the same number in every lane
  explicit Lanes(Vector x) : v(x) {}
  static Lanes load(const double* row) {
    Vector x;
    __builtin_memcpy(&x, row, sizeof x);
    return Lanes(x);
  }
  void store(double* row) const { __builtin_memcpy(row, &v, sizeof v); }
  friend Lanes operator+(Lanes a, Lanes b) { return Lanes(a.v + b.v); }
  friend Lanes operator-(Lanes a, Lanes b) { return Lanes(a.v - b.v); }
  friend Lanes operator*(Lanes a, Lanes b) { return Lanes(a.v * b.v); }
  Lanes& operator+=(Lanes b) { return v += b.v, *this; }
};
inline Lanes top(Lanes a, Lanes b) { return Lanes(a.v < b.v ? b.v : a.v); }
inline Lanes least(Lanes a, Lanes b) { return Lanes(b.v < a.v ? b.v : a.v); }
inline Lanes::Mask above(Lanes a, Lanes b) { return a.v > b.v; }
inline Lanes pick(Lanes::Mask first, Lanes a, Lanes b) { return Lanes(first ? a.v : b.v); }
inline bool differ(Lanes a, Lanes b) {
  const Lanes::Mask m = a.v != b.v;
  long long any = 0;
  for (int i = 0; i < kWidth; ++i) any |= m[i];
  return any != 0;
}

}  // namespace
}  // namespace tessera

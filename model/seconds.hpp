// Seconds split by cause: the bookkeeping behind TimeBreakdown.
#pragma once
#include <array>
#include <cstddef>

namespace tessera {

enum class Term : std::size_t {
  gemm, experts, attention, pointwise, casts, head, recompute,                            // compute
  tensor_parallel, context_parallel, expert_exchange, point_to_point, data_parallel,      // exposed communication
  host, ramp, optimizer, fixed, jitter,
  count_
};
inline constexpr std::size_t kTerms = static_cast<std::size_t>(Term::count_);

struct Seconds {
  std::array<double, kTerms> v{};
  double& operator[](Term t) { return v[static_cast<std::size_t>(t)]; }
  double operator[](Term t) const { return v[static_cast<std::size_t>(t)]; }
  Seconds& operator+=(const Seconds& o) {
    for (std::size_t i = 0; i < kTerms; ++i) v[i] += o.v[i];
    return *this;
  }
  Seconds& operator*=(double x) {
    for (double& s : v) s *= x;
    return *this;
  }
  friend Seconds operator+(Seconds a, const Seconds& b) { return a += b; }
  friend Seconds operator*(Seconds a, double x) { return a *= x; }
  double sum() const {
    double s = 0;
    for (double x : v) s += x;
    return s;
  }
};

/// Forward, input-gradient and weight-gradient seconds of a piece of the model, per micro-batch.
struct Work {
  Seconds forward, input_gradient, weight_gradient;
  Work& operator+=(const Work& o) {
    forward += o.forward;
    input_gradient += o.input_gradient;
    weight_gradient += o.weight_gradient;
    return *this;
  }
  friend Work operator*(Work w, double x) {
    w.forward *= x;
    w.input_gradient *= x;
    w.weight_gradient *= x;
    return w;
  }
  double sum() const { return forward.sum() + input_gradient.sum() + weight_gradient.sum(); }
};

}  // namespace tessera

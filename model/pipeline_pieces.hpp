// Run-length encoded parts with what comes before each run, for the closed forms of pipeline_forms.hpp. Unnamed namespace:
// model/lanes.hpp.
#pragma once
#include <array>
#include <cstddef>
#include <vector>

#include "model/lanes.hpp"

namespace tessera {
namespace {

/// A run of equal parts. Indices are of parts in path order, sums are of the parts before `first`.
template <class Real>
struct RunPiece {
  int first, last;
  int turns, rest;                 // interleaved: last + 1 = turns * pp + rest
  Real f, b, w;                  // of one part; b: the gradient that travels up the chain
  Real sum_f, sum_b;             // of the parts before
  Real max_f, max_b;             // prefix maxima, this run included
  Real head_first, head_last;    // ZB-H1: suffix maxima at both ends
  Real tail_first, tail_last;
  Real best_up;                  // ZB-H1: best way up from the parts before
};

/// `Most` items on the stack, more on the heap: usual models never allocate.
template <typename Item, std::size_t Most>
class StackList {
 public:
  explicit StackList(std::size_t capacity) {
    if (capacity > Most) heap_.resize(capacity), data_ = heap_.data();
  }
  StackList(const StackList&) = delete;
  StackList& operator=(const StackList&) = delete;
  std::size_t size() const { return size_; }
  Item& operator[](std::size_t i) { return data_[i]; }
  const Item& operator[](std::size_t i) const { return data_[i]; }
  Item& grow() { return data_[size_++]; }

 private:
  std::array<Item, Most> stack_;
  std::vector<Item> heap_;
  Item* data_ = stack_.data();
  std::size_t size_ = 0;
};

template <class Real>
class RunPieces : public StackList<RunPiece<Real>, 33> {  // 32 runs, of which ZB-H1 cuts one in two
 public:
  using StackList<RunPiece<Real>, 33>::StackList;
  void add(int count, Real f, Real b, Real w) {
    RunPiece<Real>& piece = this->grow();
    piece.first = parts_, piece.last = parts_ + count - 1;
    piece.f = f, piece.b = b, piece.w = w;
    piece.sum_f = sum_f_, piece.sum_b = sum_b_;
    piece.max_f = max_f_ = top(max_f_, f), piece.max_b = max_b_ = top(max_b_, b);
    parts_ += count;
    sum_f_ += double(count) * f, sum_b_ += double(count) * b;
  }
  Real sum_f() const { return sum_f_; }
  Real sum_b() const { return sum_b_; }

 private:
  int parts_ = 0;
  Real sum_f_ = 0, sum_b_ = 0, max_f_ = 0, max_b_ = 0;
};

}  // namespace
}  // namespace tessera

// Run-length encoded parts with what comes before each run. Shared by the closed forms on runs; not a public header.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::detail {

/// A run of equal parts. Indices are of parts in path order, sums are of the parts before `first`.
struct Piece {
  int first, last;
  int turns, rest;                 // interleaved: last + 1 = turns * pp + rest
  double f, b, w;                  // of one part; b: the gradient that travels up the chain
  double sum_f, sum_b;             // of the parts before
  double max_f, max_b;             // prefix maxima, this run included
  double head_first, head_last;    // ZB-H1: suffix maxima at both ends
  double tail_first, tail_last;
  double best_up;                  // ZB-H1: best way up from the parts before
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

class Pieces : public StackList<Piece, 33> {  // 32 runs, of which ZB-H1 cuts one in two
 public:
  using StackList::StackList;
  void add(int count, double f, double b, double w) {
    Piece& piece = grow();
    piece.first = parts_, piece.last = parts_ + count - 1;
    piece.f = f, piece.b = b, piece.w = w;
    piece.sum_f = sum_f_, piece.sum_b = sum_b_;
    piece.max_f = max_f_ = std::max(max_f_, f), piece.max_b = max_b_ = std::max(max_b_, b);
    parts_ += count;
    sum_f_ += count * f, sum_b_ += count * b;
  }
  double sum_f() const { return sum_f_; }
  double sum_b() const { return sum_b_; }

 private:
  int parts_ = 0;
  double sum_f_ = 0, sum_b_ = 0, max_f_ = 0, max_b_ = 0;
};

/// DualPipe's makespan as seen from the devices nearer the input of direction `near`; `far` is the other direction
/// (the same pieces where both directions are alike). Piece::b is the input gradient. pipeline_dualpipe.cpp.
double dualpipe_side(int pp, std::int64_t n, const Pieces& near, const Pieces& far, double overlap);

}  // namespace tessera::detail

// Closed forms of a step's makespan on run-length encoded parts: the hot path of a search. Within a run every sum
// is linear in the part's index and every maximum over it is reached at an end of the run (or where the number of
// warm-up micro-batches changes its slope), so two indices a run stand for all of its parts.
// Sections are those of the pipeline schedule notes; point-to-point latency is not in these forms.
// Templates on Real (model/lanes.hpp), in an unnamed namespace for the reason given there.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "model/lanes.hpp"
#include "tessera/plan.hpp"

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

/// Section 3.2 without latency. A_k + C_k + steady work: what is linear in k cancels within a run, so what is left
/// is convex and largest at an end. The sums to the first backward are concave where the warm-up is cut by n.
template <class Real>
Real runs_1f1b(int pp, std::int64_t n, const RunPieces<Real>& pieces) {
  // Parts up to `cut` warm up with all n - 1 further micro-batches, later ones with pp - 1 - j. Usually cut < 0.
  const int cut = n > pp ? -1 : static_cast<int>(pp - n);
  const double most = static_cast<double>(n - 1), steady_0 = static_cast<double>(n - pp), stages = pp - 1;
  Real head = 0, tail = 0, makespan = 0;  // head, tail: suffix maxima over the parts seen so far
  for (std::size_t r = pieces.size(); r-- > 0;) {
    const RunPiece<Real>& q = pieces[r];
    const Real step = q.f + q.b, before = q.sum_f + q.sum_b;
    auto see = [&](double warm_up, Real all) {
      head = top(head, all + warm_up * q.max_f);
      tail = top(tail, all + warm_up * q.max_b);
    };
    auto see_and_stay = [&](int part) {
      const double k = part;
      const Real all = before + double(part - q.first + 1) * step;
      see(stages - k, all);
      makespan = top(makespan, head + tail + ((steady_0 + k) * step - all));
    };
    if (q.last > cut) {
      see_and_stay(q.last);
      const int from = std::max(q.first, cut + 1);
      if (from < q.last) see_and_stay(from);
    }
    if (q.first <= cut) {
      see(most, before + double(std::min(cut, q.last) - q.first + 1) * step);
      makespan = top(makespan, top(most * q.max_f + tail, head + most * q.max_b));
    }
  }
  return makespan;
}

/// Section 3.3 for h = 1, n >= pp. RunPiece::b is the input gradient; the first run is cut after part 0, which has no
/// micro-batch without a weight gradient and so starts differently.
template <class Real>
class RunsZbH1 {
 public:
  RunsZbH1(int pp, std::int64_t n, RunPieces<Real>& pieces)
      : stages_(pp - 1), spare_(static_cast<double>(n - pp)), q_(pieces) {}

  Real makespan() {
    ways_up();
    Real longest = ends();
    if (spare_ >= 1) longest = top(longest, change_down());
    if (spare_ >= 2) longest = top(longest, change_up());
    return longest;
  }

 private:
  // Weight gradients left on part i when the last input gradient has passed it, on the scale of sum_b.
  static Real left(const RunPiece<Real>& q, int i) { return double(i + 1) * q.w - q.sum_b - double(i - q.first) * q.b; }
  static Real all_f(const RunPiece<Real>& q, int k) { return q.sum_f + double(k - q.first + 1) * q.f; }  // k included
  static Real all_b(const RunPiece<Real>& q, int k) { return q.sum_b + double(k - q.first + 1) * q.b; }
  static Real up(const RunPiece<Real>& q, int j) {
    return all_b(q, j) - q.b + top(q.best_up, top(left(q, q.first), left(q, j)));
  }
  Real head_at(const RunPiece<Real>& q, int j) const { return all_f(q, j) + (stages_ - j) * q.max_f + all_b(q, j); }
  Real tail_at(const RunPiece<Real>& q, int j) const {
    return all_f(q, j) + (stages_ - j) * (q.b + q.w) + q.b + up(q, j);
  }

  void ways_up() {
    Real best = -std::numeric_limits<double>::infinity();
    for (std::size_t r = 0; r < q_.size(); ++r) {
      q_[r].best_up = best;
      best = top(best, top(left(q_[r], q_[r].first), left(q_[r], q_[r].last)));
    }
  }

  /// Suffix maxima of heads and tails, and the paths that stay on one stage.
  Real ends() {
    Real head = 0, tail = 0, longest = 0;
    for (std::size_t r = q_.size(); r-- > 0;) {
      RunPiece<Real>& q = q_[r];
      auto stay = [&](int k) {
        const Real before = all_f(q, k) + all_b(q, k);
        head = top(head, head_at(q, k));
        tail = top(tail, tail_at(q, k));
        if (spare_ + k >= 1)
          longest = top(longest, head + tail - before + (spare_ + k) * (q.f + q.b) + spare_ * q.w);
        else  // n == pp, part 0: all forwards run before the first backward
          longest = top(longest, top(head - all_b(q, k) + q.b + up(q, k), stages_ * q.max_f + tail));
      };
      stay(q.last);
      q.head_last = head, q.tail_last = tail;
      if (q.first < q.last) stay(q.first);
      q.head_first = head, q.tail_first = tail;
    }
    return longest;
  }

  /// Stage k before its first weight gradient, then down to the steady state of a stage a >= k.
  Real change_down() const {
    Real start = 0, longest = 0;
    for (std::size_t r = 0; r < q_.size(); ++r) {
      const RunPiece<Real>& q = q_[r];
      const Real steady = spare_ * (q.f + q.b + q.w);
      auto from = [&](int k, Real head) {
        return k == 0 ? stages_ * q.f : head - all_b(q, k) - all_f(q, k) + k * (q.f + q.b);
      };
      start = top(start, from(q.first, q.head_first));
      longest = top(longest, start + steady + q.tail_first);
      if (q.first == q.last) continue;
      start = top(start, from(q.last, q.head_last));
      longest = top(longest, start + steady + q.tail_last);
    }
    return longest;
  }

  /// The same, then up the chain of input gradients to the steady state of a stage a < k: from() + to(). There must
  /// be a steady state, k - a <= n - pp - 1.
  Real from(const RunPiece<Real>& high, int k, Real steady) const {
    const Real head = k == high.first ? high.head_first : top(high.head_last, head_at(high, k));
    return head + k * (high.f + high.b - steady);
  }
  Real to(const RunPiece<Real>& low, int a, Real steady) const {
    const Real tail = a == low.first ? low.tail_first : top(low.tail_last, tail_at(low, a));
    return (spare_ + a) * steady - all_b(low, a) - all_f(low, a) + tail;
  }
  Real change_up() const {
    Real longest = 0;
    const int reach = static_cast<int>(std::min(spare_ - 1, stages_));
    for (std::size_t r = 0; r < q_.size(); ++r) {
      const RunPiece<Real>& low = q_[r];
      const Real steady = low.f + low.b + low.w;
      const Real to_first = to(low, low.first, steady), to_last = to(low, low.last, steady);
      if (low.first < low.last)  // inside a run neighbours are best: it falls with k - a
        longest = top(longest, top(from(low, low.first + 1, steady) + to_first,
                                   from(low, low.last, steady) + to(low, low.last - 1, steady)));
      for (std::size_t s = r + 1; s < q_.size(); ++s) {
        const RunPiece<Real>& high = q_[s];
        if (high.last - low.first > reach) {
          longest = top(longest, change_up_in_reach(low, high, steady, reach));
          continue;
        }
        const Real from_first = high.head_first + high.first * (high.f + high.b - steady);
        const Real from_last = high.head_last + high.last * (high.f + high.b - steady);
        longest = top(longest, top(from_first, from_last) + top(to_first, to_last));
      }
    }
    return longest;
  }
  /// Some pairs of the two runs are out of reach: the corners of what is left of the rectangle.
  Real change_up_in_reach(const RunPiece<Real>& low, const RunPiece<Real>& high, Real steady, int reach) const {
    Real longest = 0;
    for (const int a : {low.first, low.last})
      if (high.first - a <= reach)
        longest = top(longest, top(from(high, high.first, steady),
                                   from(high, std::min(high.last, a + reach), steady)) + to(low, a, steady));
    for (const int k : {high.first, high.last})
      if (k - low.last <= reach)
        longest = top(longest, from(high, k, steady) + top(to(low, low.last, steady),
                                                           to(low, std::max(low.first, k - reach), steady)));
    return longest;
  }

  double stages_;  // pp - 1
  double spare_;   // n - pp
  RunPieces<Real>& q_;
};

/// Section 3.4 (LB). Devices fall into classes on which every chunk's time is constant; within a class the bound is
/// a sum of maxima of linear functions of the device, except where its warm-up ends with the last chunk.
template <class Real>
Real runs_interleaved(int p, int v, std::int64_t n, RunPieces<Real>& pieces) {
  const Real all = pieces.sum_f() + pieces.sum_b();
  const double stages = p - 1;
  const int middle = (p - 1) / 2, last_chunk = (v - 1) * p;
  for (std::size_t r = 0; r < pieces.size(); ++r) {
    const int end = pieces[r].last + 1;
    pieces[r].turns = end / p, pieces[r].rest = end % p;
  }
  Real makespan = all, max_f = 0, max_b = 0;
  std::size_t first = 0, last = 0;  // runs that hold the device's part of the first and of the last chunk
  for (int low = 0, high = 0; low < p; low = high + 1) {
    while (pieces[first].last < low) ++first;
    while (pieces[last].last < last_chunk + low) ++last;
    high = p - 1;
    Real device_f = 0, device_b = 0;
    int chunks_before = 0;
    for (std::size_t r = 0; r < pieces.size(); ++r) {
      // Chunks of this device up to the end of run r: those of whole turns, and one if the last turn reaches it.
      const int rest = pieces[r].rest;
      if (rest > low) high = std::min(high, rest - 1);
      const int chunks = pieces[r].turns + (low < rest ? 1 : 0);
      device_f += double(chunks - chunks_before) * pieces[r].f;
      device_b += double(chunks - chunks_before) * pieces[r].b;
      chunks_before = chunks;
    }
    const RunPiece<Real> &head = pieces[first], &tail = pieces[last];
    max_f = top(max_f, head.f), max_b = top(max_b, head.b);
    const Real work = static_cast<double>(n) * (device_f + device_b);
    // h1, h2, t1, t2 of section 3.4 at device 0 of this class's lines, without the warm-up's share WF and WB.
    const Real h1 = head.sum_f - head.first * head.f + stages * (max_f - head.f);
    const Real t1 = head.sum_b - head.first * head.b + stages * (max_b - head.b);
    const double after = last_chunk - tail.first + 1;
    const Real h2 = all - tail.sum_b - after * tail.b, t2 = all - tail.sum_f - after * tail.f;
    // Up to the middle the warm-up holds the last chunk whole and, unless n == pp, some of the next group's first.
    auto early = [&](int device) {
      const double d = device, of_first = n == p ? 0.0 : stages - 2.0 * d;
      const Real a = h1 + d * head.f, b = h2 - d * tail.b - p * device_f - of_first * head.f;
      const Real c = t1 + d * head.b, e = t2 - d * tail.f - p * device_b - of_first * head.b;
      // n == pp: every forward runs before the first backward.
      makespan = top(makespan, work + (n == p ? top(a + top(c, e), top(a, b) + c) : top(a, b) + top(c, e)));
    };
    auto late = [&](int device) {
      const double d = device, of_last = 2.0 * (stages - d) + 1.0 - p;
      const Real a = h1 + d * head.f, b = h2 - d * tail.b - p * device_f - of_last * tail.f;
      const Real c = t1 + d * head.b, e = t2 - d * tail.f - p * device_b - of_last * tail.b;
      makespan = top(makespan, work + top(a, b) + top(c, e));
    };
    if (low <= middle) {
      early(low);
      const int end = std::min(high, middle);
      if (end > low) early(end);
    }
    if (high > middle) {
      late(high);
      const int begin = std::max(low, middle + 1);
      if (begin < high) late(begin);
    }
  }
  return makespan;
}

// Closed form of DualPipe for unequal stages. The equal-stage form of section 3.1 is the weight of a path through
// the dependency graph; with unequal stages the same path has a choice of devices at each turn, and the longest of
// those paths is taken: a lower bound that equals section 3.1 for equal stages. Latency is added as in section 3.1.
//
// Device h (0: nearest the input, H-1: a middle one, H = pp/2) runs stage h of its near direction ("0") and stage
// pp-1-h of the far one ("1"). Paths, in the words of the order's steps 1-8 (section 2):
//   start    forwards of a device (its own, or as fed by a slower stage before it), then input gradients "1" down
//            the devices to device d, and d's operations up to its first overlapped chunk with a backward "0"
//   change   such chunks of one micro-batch up the devices, d -> a
//   steady   all overlapped chunks of device a: (n/2 - pp + h + 1) pairs and step 5
//   change   a -> g, where g is a or 0
//   end      steps 6-8: device g's last backward "1", down the chain to a device c, its backward "0", then either
//            c's remaining work or up the chain to device 0 and its weight gradients
// Device classes: neighbours whose four parts are equal. Every piece of a path is linear in the device within a
// class up to the parity of h (step 6 splits its second half), so five devices a class stand for all.
/// Length of DualPipe's chunk that runs a forward and a full backward together (section 1: G).
template <class Real>
Real overlapped_chunk(Real forward, Real full_backward, double overlap) {
  return forward + full_backward - overlap * least(forward, full_backward);
}

template <class Real>
struct DeviceClass {
  int low, high;
  Real f0, b0, w0, f1, b1, w1;
  Real chunk01, chunk10;        // forward "0" with backward "1", and the reverse
  Real most_f0, most_f1;        // slowest forward stage up to this one, in either direction
  Real before_f0, before_f1;    // forward chain to device `low`
  Real up_b0, down_b1, up_chunk10;  // chains over the devices before `low`
  Real best_start;              // over the devices before `low`
};

template <class Real>
class DualPipeSide {
 public:
  DualPipeSide(int pp, std::int64_t n, const RunPieces<Real>& near, const RunPieces<Real>& far, double overlap)
      : p_(pp), half_(pp / 2), per_direction_(static_cast<double>(n / 2)),
        classes_(near.size() + far.size() + 1) {
    cut_into_classes(near, far, overlap);
  }

  Real makespan() const {
    Real start = 0, end = 0, longest = 0, to_device_0 = 0;  // start, end: suffix maxima over devices
    const DeviceClass<Real>& first = classes_[0];
    for (std::size_t i = classes_.size(); i-- > 0;) {
      const DeviceClass<Real>& c = classes_[i];
      const bool parity = differ(c.w0, c.w1);
      int seen = c.high + 1;
      for (const int h : {c.high, c.high - 1, c.low + 2, c.low + 1, c.low}) {
        const bool inner = h != c.high && h != c.low;
        if (h >= seen || h < c.low || (inner && !parity)) continue;
        seen = h;
        start = top(start, up_to_first_pair(c, h));
        end = top(end, down(c, h) + c.b1 + c.b0 + finish(c, h, first));
        const Real steady = start + rest_of_pairs(c, h), last = last_backward1(c, h) - down(c, h) - c.b1 + end;
        to_device_0 = top(to_device_0, steady);
        longest = top(longest, steady - up_chunk(c, h) + last);
        if (h == 0) longest = top(longest, to_device_0 + last);
      }
    }
    return longest;
  }

 private:
  void cut_into_classes(const RunPieces<Real>& near, const RunPieces<Real>& far, double overlap) {
    std::size_t i = 0, j = far.size() - 1;
    Real up_b0 = 0, down_b1 = 0, up_chunk10 = 0, best = -std::numeric_limits<double>::infinity();
    for (int low = 0; low < half_; low = classes_[classes_.size() - 1].high + 1) {
      while (near[i].last < low) ++i;
      while (far[j].first > p_ - 1 - low) --j;
      const RunPiece<Real> &a = near[i], &z = far[j];
      DeviceClass<Real>& c = classes_.grow();
      c.low = low;
      c.high = std::min({a.last, p_ - 1 - z.first, low == half_ - 1 ? low : half_ - 2});  // the middle is its own
      c.f0 = a.f, c.b0 = a.b, c.w0 = a.w, c.f1 = z.f, c.b1 = z.b, c.w1 = z.w;
      c.chunk01 = overlapped_chunk<Real>(a.f, z.b + z.w, overlap);
      c.chunk10 = overlapped_chunk<Real>(z.f, a.b + a.w, overlap);
      c.most_f0 = a.max_f, c.most_f1 = z.max_f;
      c.before_f0 = a.sum_f + double(low - a.first) * a.f;
      c.before_f1 = z.sum_f + double(p_ - 1 - low - z.first) * z.f;
      c.up_b0 = up_b0, c.down_b1 = down_b1, c.up_chunk10 = up_chunk10, c.best_start = best;
      const int count = c.high - c.low + 1;
      best = top(best, top(own_start(c, c.low) - down(c, c.low), own_start(c, c.high) - down(c, c.high)));
      up_b0 += count * c.b0, down_b1 += count * c.b1, up_chunk10 += count * c.chunk10;
    }
  }

  double outer(int h) const { return half_ - 1 - h; }
  Real down(const DeviceClass<Real>& c, int h) const { return c.down_b1 + double(h - c.low) * c.b1; }
  Real up_chunk(const DeviceClass<Real>& c, int h) const { return c.up_chunk10 + double(h - c.low) * c.chunk10; }

  /// Start of the step -> before the first backward "1" of device h: steps 1 and 2 (and the middle's forward).
  Real own_start(const DeviceClass<Real>& c, int h) const {
    const double o = outer(h);
    const Real fill0 = c.before_f0 + double(h - c.low) * c.f0 + c.f0;
    const Real fill1 = c.before_f1 - double(h - c.low) * c.f1 + c.f1;
    const Real start = top(top(fill0 + 2 * o * c.most_f0 + double(h) * c.f0 + double(h + 1) * c.f1, fill0 + (2 * o + h) * c.most_f0 + c.f1),
                           top(fill1 + double(h) * (c.f0 + c.f1), fill1 + double(h) * c.most_f1));
    return o == 0 ? start + c.f0 : start;
  }

  /// ... -> after device h's first chunk with a backward "0", on the scale of up_chunk().
  Real up_to_first_pair(const DeviceClass<Real>& c, int h) const {
    const double o = outer(h);
    const Real start = top(c.best_start, top(own_start(c, c.low) - down(c, c.low), own_start(c, h) - down(c, h)));
    const Real back1 = c.b1 + c.w1;
    const Real pair = o == 0 ? back1 + c.chunk10 : o * (back1 + c.f1) + c.chunk01 + c.chunk10;
    return start + down(c, h) + pair + up_chunk(c, h);
  }

  /// The other pairs of overlapped chunks (step 4) and step 5.
  Real rest_of_pairs(const DeviceClass<Real>& c, int h) const {
    return (per_direction_ - p_ + h) * (c.chunk01 + c.chunk10) + outer(h) * (c.b1 + c.w1 + c.chunk10);
  }

  /// Step 6 up to and including the last backward "1".
  Real last_backward1(const DeviceClass<Real>& c, int h) const {
    return double(h + 1) * c.b1 + double(h) * c.b0 + double(h / 2 + 1) * c.w1 + double((h + 1) / 2) * c.w0;
  }

  /// After the last backward "0" of step 6 on device h: its own steps 7 and 8, or up the chain to device 0.
  Real finish(const DeviceClass<Real>& c, int h, const DeviceClass<Real>& first) const {
    const double o = outer(h);
    const Real own = o * (c.b0 + c.w0) + double(h / 2 + 1) * c.w0 + double((h + 1) / 2) * c.w1;
    const Real up = c.up_b0 + double(h - c.low) * c.b0 + o * first.b0 + (o + 1) * first.w0;
    return top(own, up);
  }

  int p_, half_;
  double per_direction_;  // micro-batches
  StackList<DeviceClass<Real>, 33> classes_;
};

/// A run of `count` equal neighbouring parts.
template <class Real>
struct RunTimes {
  int count;
  Real forward, input_gradient, weight_gradient;
};

/// Makespan of `count` runs of parts in path order; the shape is one the schedule has an order for (not checked).
template <class Real>
Real runs_makespan(Schedule schedule, int pp, int v, std::int64_t n, const RunTimes<Real>* runs, std::size_t count, double overlap) {
  const bool split = schedule == Schedule::zb_h1 || schedule == Schedule::dualpipe;
  RunPieces<Real> pieces(count + 1);
  for (std::size_t i = 0; i < count; ++i) {
    const RunTimes<Real>& run = runs[i];
    const Real b = split ? run.input_gradient : run.input_gradient + run.weight_gradient;
    int left = run.count;
    if (schedule == Schedule::zb_h1 && i == 0 && left > 1) pieces.add(1, run.forward, b, run.weight_gradient), --left;
    pieces.add(left, run.forward, b, run.weight_gradient);
  }
  switch (schedule) {
    case Schedule::one_f_one_b: return runs_1f1b(pp, n, pieces);
    case Schedule::interleaved: return runs_interleaved(pp, v, n, pieces);
    case Schedule::zb_h1: return RunsZbH1<Real>(pp, n, pieces).makespan();
    case Schedule::dualpipe: break;
  }
  return DualPipeSide<Real>(pp, n, pieces, pieces, overlap).makespan();
}

}  // namespace
}  // namespace tessera

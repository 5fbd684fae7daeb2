// Closed forms of a step's makespan on run-length encoded parts: the hot path of a search. Within a run every sum
// is linear in the part's index and every maximum over it is reached at an end of the run (or where the number of
// warm-up micro-batches changes its slope), so two indices a run stand for all of its parts.
// Sections are those of the pipeline schedule notes; point-to-point latency is not in these forms.
// Templates on Real (model/lanes.hpp), in an unnamed namespace for the reason given there.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "model/pipeline_dualpipe_form.hpp"
#include "tessera/plan.hpp"

namespace tessera {
namespace {

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

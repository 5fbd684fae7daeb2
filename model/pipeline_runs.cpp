// Closed forms of a step's makespan on run-length encoded parts: the hot path of a search. Within a run every sum
// is linear in the part's index and every maximum over it is reached at an end of the run (or where the number of
// warm-up micro-batches changes its slope), so two indices a run stand for all of its parts.
// Sections are those of the pipeline schedule notes; point-to-point latency is not in these forms.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "model/pipeline_detail.hpp"
#include "model/pipeline_pieces.hpp"

namespace tessera {
namespace {

using detail::Piece;
using detail::Pieces;

/// Section 3.2 without latency. A_k + C_k + steady work: what is linear in k cancels within a run, so what is left
/// is convex and largest at an end. The sums to the first backward are concave where the warm-up is cut by n.
double runs_1f1b(int pp, std::int64_t n, Pieces& pieces) {
  // Parts up to `cut` warm up with all n - 1 further micro-batches, later ones with pp - 1 - j. Usually cut < 0.
  const int cut = n > pp ? -1 : static_cast<int>(pp - n);
  const double most = static_cast<double>(n - 1), steady_0 = static_cast<double>(n - pp);
  double head = 0, tail = 0, makespan = 0;  // head, tail: suffix maxima over the parts seen so far
  for (std::size_t r = pieces.size(); r-- > 0;) {
    const Piece& q = pieces[r];
    const double step = q.f + q.b, before = q.sum_f + q.sum_b;
    auto see = [&](int j) {
      const double u = std::min(static_cast<double>(pp - 1 - j), most), all = before + (j - q.first + 1) * step;
      head = std::max(head, all + u * q.max_f);
      tail = std::max(tail, all + u * q.max_b);
    };
    auto stay = [&](int k) {
      makespan = std::max(makespan, head + tail + (steady_0 + k) * step - before - (k - q.first + 1) * step);
    };
    if (q.last > cut) {
      see(q.last), stay(q.last);
      const int from = std::max(q.first, cut + 1);
      if (from < q.last) see(from), stay(from);
    }
    if (q.first <= cut) {
      see(std::min(cut, q.last));
      makespan = std::max({makespan, most * q.max_f + tail, head + most * q.max_b});
    }
  }
  return makespan;
}

/// Section 3.3 for h = 1, n >= pp. Piece b is the input gradient; the first run is cut after part 0, which has no
/// micro-batch without a weight gradient and so starts differently.
class RunsZbH1 {
 public:
  RunsZbH1(int pp, std::int64_t n, Pieces& pieces) : p_(pp), n_(n), spare_(static_cast<double>(n - pp)), q_(pieces) {}

  double makespan() {
    ways_up();
    double longest = ends();
    if (n_ > p_) longest = std::max({longest, change_down(), change_up()});
    return longest;
  }

 private:
  double left(const Piece& q, int i) const { return (i + 1) * q.w - q.sum_b - (i - q.first) * q.b; }
  double all_f(const Piece& q, int k) const { return q.sum_f + (k - q.first + 1) * q.f; }  // k included
  double all_b(const Piece& q, int k) const { return q.sum_b + (k - q.first + 1) * q.b; }
  double up(const Piece& q, int j) const {
    return all_b(q, j) - q.b + std::max({q.best_up, left(q, q.first), left(q, j)});
  }
  double head_at(const Piece& q, int j) const { return all_f(q, j) + (p_ - 1 - j) * q.max_f + all_b(q, j); }
  double tail_at(const Piece& q, int j) const {
    return all_f(q, j) + (p_ - j) * q.b + (p_ - 1 - j) * q.w + up(q, j);
  }

  void ways_up() {
    double best = -std::numeric_limits<double>::infinity();
    for (std::size_t r = 0; r < q_.size(); ++r) {
      q_[r].best_up = best;
      best = std::max({best, left(q_[r], q_[r].first), left(q_[r], q_[r].last)});
    }
  }

  /// Suffix maxima of heads and tails, and the paths that stay on one stage.
  double ends() {
    double head = 0, tail = 0, longest = 0;
    for (std::size_t r = q_.size(); r-- > 0;) {
      Piece& q = q_[r];
      auto stay = [&](int k) {
        head = std::max(head, head_at(q, k));
        tail = std::max(tail, tail_at(q, k));
        if (spare_ + k >= 1)
          longest = std::max(longest, head - all_b(q, k) + (spare_ + k) * (q.f + q.b) + spare_ * q.w + tail - all_f(q, k));
        else  // n == pp, part 0: all forwards run before the first backward
          longest = std::max({longest, head - all_b(q, k) + q.b + up(q, k), (p_ - 1) * q.max_f + tail});
      };
      stay(q.last);
      q.head_last = head, q.tail_last = tail;
      if (q.first < q.last) stay(q.first);
      q.head_first = head, q.tail_first = tail;
    }
    return longest;
  }

  /// Stage k before its first weight gradient, then down to the steady state of a stage a >= k.
  double change_down() {
    double start = 0, longest = 0;
    for (std::size_t r = 0; r < q_.size(); ++r) {
      const Piece& q = q_[r];
      const double steady = spare_ * (q.f + q.b + q.w);
      auto from = [&](int k, double head) {
        return k == 0 ? (p_ - 1) * q.f : head - all_b(q, k) - all_f(q, k) + k * (q.f + q.b);
      };
      start = std::max(start, from(q.first, q.head_first));
      longest = std::max(longest, start + steady + q.tail_first);
      start = std::max(start, from(q.last, q.head_last));
      longest = std::max(longest, start + steady + q.tail_last);
    }
    return longest;
  }

  /// The same, then up the chain of input gradients to the steady state of a stage a < k, as long as that is
  /// at least one micro-batch: k - a <= reach.
  double change_up() {
    const std::int64_t reach64 = n_ - p_ - 1;
    if (reach64 < 1) return 0.0;
    const int reach = static_cast<int>(std::min<std::int64_t>(reach64, p_));
    double longest = 0;
    for (std::size_t r = 0; r < q_.size(); ++r) {
      const Piece& low = q_[r];
      const double steady = low.f + low.b + low.w;
      auto to = [&](int a) {
        const double tail = a == low.first ? low.tail_first : std::max(low.tail_last, tail_at(low, a));
        return (spare_ + a) * steady - all_b(low, a) - all_f(low, a) + tail;
      };
      for (std::size_t s = r; s < q_.size(); ++s) {
        const Piece& high = q_[s];
        auto from = [&](int k) {
          const double head = k == high.first ? high.head_first : std::max(high.head_last, head_at(high, k));
          return head + k * (high.f + high.b - steady);
        };
        if (s == r) {  // falls with k - a: neighbours are best
          if (low.first == low.last) continue;
          longest = std::max({longest, from(low.first + 1) + to(low.first), from(low.last) + to(low.last - 1)});
          continue;
        }
        if (high.last - low.first <= reach) {
          longest = std::max(longest, std::max(from(high.first), from(high.last)) + std::max(to(low.first), to(low.last)));
          continue;
        }
        // Some pairs are out of reach: the corners of what is left of the rectangle.
        for (const int a : {low.first, low.last})
          if (high.first - a <= reach)
            longest = std::max(longest, std::max(from(high.first), from(std::min(high.last, a + reach))) + to(a));
        for (const int k : {high.first, high.last})
          if (k - low.last <= reach)
            longest = std::max(longest, from(k) + std::max(to(low.last), to(std::max(low.first, k - reach))));
      }
    }
    return longest;
  }

  int p_;
  std::int64_t n_;
  double spare_;  // n - pp
  Pieces& q_;
};

/// Section 3.4 (LB). Devices fall into classes on which every chunk's time is constant; within a class the bound is
/// a sum of maxima of linear functions of the device, except where its warm-up ends with the last chunk.
double runs_interleaved(int p, int v, std::int64_t n, Pieces& pieces) {
  const double all_f = pieces.sum_f(), all_b = pieces.sum_b();
  const int middle = (p - 1) / 2, last_chunk = (v - 1) * p;
  for (std::size_t r = 0; r < pieces.size(); ++r) {
    const int end = pieces[r].last + 1;
    pieces[r].turns = end / p, pieces[r].rest = end % p;
  }
  double makespan = all_f + all_b, max_f = 0, max_b = 0;
  std::size_t first = 0, last = 0;  // runs that hold the device's part of the first and of the last chunk
  for (int low = 0, high = 0; low < p; low = high + 1) {
    while (pieces[first].last < low) ++first;
    while (pieces[last].last < last_chunk + low) ++last;
    high = p - 1;
    double device_f = 0, device_b = 0;
    int chunks_before = 0;
    for (std::size_t r = 0; r < pieces.size(); ++r) {
      // Chunks of this device up to the end of run r: those of whole turns, and one if the last turn reaches it.
      const int rest = pieces[r].rest;
      if (rest > low) high = std::min(high, rest - 1);
      const int chunks = pieces[r].turns + (low < rest ? 1 : 0);
      device_f += (chunks - chunks_before) * pieces[r].f;
      device_b += (chunks - chunks_before) * pieces[r].b;
      chunks_before = chunks;
    }
    const Piece &head = pieces[first], &tail = pieces[last];
    max_f = std::max(max_f, head.f), max_b = std::max(max_b, head.b);
    const double work = static_cast<double>(n) * (device_f + device_b);
    auto device = [&](int d) {
      const int slots = 2 * (p - 1 - d) + 1, of_last = std::min(slots, p), of_first = n == p ? 0 : slots - of_last;
      const double warm_f = p * (device_f - tail.f) + of_last * tail.f + of_first * head.f;
      const double warm_b = p * (device_b - tail.b) + of_last * tail.b + of_first * head.b;
      const int up_to = last_chunk + d - tail.first + 1;
      const double h1 = head.sum_f + (d - head.first) * head.f + (p - 1) * (max_f - head.f);
      const double h2 = all_f + all_b - tail.sum_b - up_to * tail.b - warm_f;
      const double t1 = head.sum_b + (d - head.first) * head.b + (p - 1) * (max_b - head.b);
      const double t2 = all_b + all_f - tail.sum_f - up_to * tail.f - warm_b;
      const bool all_warm_up = n == p && slots >= p;  // every forward runs before the first backward
      const double ends = all_warm_up ? std::max(h1 + std::max(t1, t2), std::max(h1, h2) + t1)
                                      : std::max(h1, h2) + std::max(t1, t2);
      makespan = std::max(makespan, work + ends);
    };
    device(low);
    if (high > low) device(high);
    if (low < middle && middle < high) device(middle);
    if (low < middle + 1 && middle + 1 < high) device(middle + 1);
  }
  return makespan;
}

[[noreturn]] void refuse_runs(int pp, int v, std::span<const StageRun> runs) {
  std::int64_t parts = 0;
  for (const StageRun& run : runs) {
    if (run.count < 1)
      throw InputError("pipeline runs: a run of " + std::to_string(run.count) + " parts", "a run has at least one part",
                       "leave empty runs out");
    parts += run.count;
  }
  if (parts != std::int64_t{pp} * v)
    throw InputError("pipeline runs: " + std::to_string(parts) + " parts for pp " + std::to_string(pp) +
                         " and virtual stages " + std::to_string(v),
                     "the schedule has pp * virtual stages parts", "give every part once, in path order");
  throw InputError("pipeline runs: a time is not finite", "a makespan needs finite times", "correct the stage times");
}

}  // namespace

double pipeline_makespan(Schedule schedule, int pp, int virtual_stages, std::int64_t n,
                         std::span<const StageRun> runs, double overlap) {
  detail::check_shape(schedule, pp, virtual_stages, n, overlap);
  if (schedule == Schedule::zb_h1) detail::check_zb_h1(pp, n);
  const bool split = schedule == Schedule::zb_h1 || schedule == Schedule::dualpipe;
  const bool cut_first = schedule == Schedule::zb_h1;
  Pieces pieces(runs.size() + 1);
  std::int64_t parts = 0;
  double total = 0;
  for (const StageRun& run : runs) {
    if (run.count < 1) refuse_runs(pp, virtual_stages, runs);
    parts += run.count;
    total += run.forward + run.input_gradient + run.weight_gradient;
    const double b = split ? run.input_gradient : run.input_gradient + run.weight_gradient;
    int count = run.count;
    if (cut_first && pieces.size() == 0 && count > 1) pieces.add(1, run.forward, b, run.weight_gradient), --count;
    pieces.add(count, run.forward, b, run.weight_gradient);
  }
  if (parts != std::int64_t{pp} * virtual_stages || !std::isfinite(total)) refuse_runs(pp, virtual_stages, runs);
  switch (schedule) {
    case Schedule::one_f_one_b: return runs_1f1b(pp, n, pieces);
    case Schedule::interleaved: return runs_interleaved(pp, virtual_stages, n, pieces);
    case Schedule::zb_h1: return RunsZbH1(pp, n, pieces).makespan();
    case Schedule::dualpipe: break;
  }
  return detail::dualpipe_side(pp, n, pieces, pieces, overlap);
}

}  // namespace tessera

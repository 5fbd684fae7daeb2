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
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>

#include "model/pipeline_pieces.hpp"

namespace tessera {
namespace {

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

}  // namespace
}  // namespace tessera

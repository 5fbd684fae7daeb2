// Event simulation: every device executes its fixed list in order, each operation as soon as the device is free
// and its inputs are there. Orders: pipeline-schedules.md section 2.
#include <algorithm>
#include <cstddef>
#include <limits>

#include "model/pipeline_detail.hpp"
#include "model/pipeline_forms.hpp"
#include "tessera/pipeline.hpp"

namespace tessera {
namespace {

enum class Kind : std::uint8_t { forward, input_gradient, weight_gradient, full_backward, overlapped };

/// `overlapped` runs the forward of (part, batch) and the full backward of (other_part, other_batch) as one.
struct Operation {
  Kind kind;
  int part;
  std::int64_t batch;
  int other_part = -1;
  std::int64_t other_batch = -1;
};

using Order = std::vector<Operation>;  ///< what one device executes, in order

Order order_1f1b(int device, int pp, std::int64_t n) {
  Order order;
  const std::int64_t warm_up = std::min<std::int64_t>(pp - 1 - device, n);
  for (std::int64_t m = 0; m < warm_up; ++m) order.push_back({Kind::forward, device, m});
  for (std::int64_t m = 0; m < n; ++m) {
    if (m + warm_up < n) order.push_back({Kind::forward, device, m + warm_up});
    order.push_back({Kind::full_backward, device, m});
  }
  return order;
}

Order order_interleaved(int device, int pp, int v, std::int64_t n) {
  Order order;
  const std::int64_t slots = n * v;
  const std::int64_t warm_up = std::min<std::int64_t>(2 * (pp - 1 - device) + std::int64_t{v - 1} * pp, slots);
  const std::int64_t group = std::int64_t{pp} * v;
  auto slot = [&](std::int64_t k, Kind kind) {
    const std::int64_t in_group = k % group;
    const auto forward_chunk = static_cast<int>(in_group / pp);
    const int chunk = kind == Kind::forward ? forward_chunk : v - 1 - forward_chunk;
    order.push_back({kind, chunk * pp + device, (k / group) * pp + in_group % pp});
  };
  for (std::int64_t k = 0; k < warm_up; ++k) slot(k, Kind::forward);
  for (std::int64_t k = 0; k < slots; ++k) {
    if (k + warm_up < slots) slot(k + warm_up, Kind::forward);
    slot(k, Kind::full_backward);
  }
  return order;
}

Order order_zb_h1(int device, int pp, std::int64_t n) {
  Order order;
  const std::int64_t warm_up = std::min<std::int64_t>(pp - 1 - device, n);
  std::int64_t weight = 0;  // next weight gradient, `device` micro-batches behind the input gradient
  for (std::int64_t m = 0; m < warm_up; ++m) order.push_back({Kind::forward, device, m});
  for (std::int64_t m = 0; m < n; ++m) {
    if (m + warm_up < n) order.push_back({Kind::forward, device, m + warm_up});
    order.push_back({Kind::input_gradient, device, m});
    if (m >= device) order.push_back({Kind::weight_gradient, device, weight++});
  }
  while (weight < n) order.push_back({Kind::weight_gradient, device, weight++});
  return order;
}

/// Writes one device's DualPipe list. Direction 0 is the one for which the device is nearer the input.
class DualPipeOrder {
 public:
  DualPipeOrder(int device, int pp, std::int64_t n)
      : half_(pp / 2), depth_(std::min(device, pp - 1 - device)), pp_(pp), n_per_direction_(n / 2) {
    const int straight = device, reversed = pp + (pp - 1 - device);
    part_[0] = device < pp / 2 ? straight : reversed;
    part_[1] = device < pp / 2 ? reversed : straight;
  }

  Order write() {
    const int outer = half_ - depth_ - 1, inner = depth_ + 1;  // the document's H-h-1 and h+1
    for (int i = 0; i < 2 * outer; ++i) forward(0);
    for (int i = 0; i < inner; ++i) forward(0), forward(1);
    for (int i = 0; i < outer; ++i) backward(1, true), weight(), forward(1);
    const std::int64_t steady = n_per_direction_ - pp_ + inner;
    for (std::int64_t i = 0; i < steady; ++i) {
      if (i == 0 && outer == 0)  // the middle devices: this backward needs this forward of their neighbour
        forward(0), backward(1, false);
      else
        overlapped(0, 1);
      overlapped(1, 0);
    }
    for (int i = 0; i < outer; ++i) backward(1, false), overlapped(1, 0);
    for (int i = 0; i < 2 * inner; ++i) backward(i % 2 == 0 ? 1 : 0, i >= inner);
    for (int i = 0; i < outer; ++i) weight(), backward(0, true);
    while (next_weight_ < deferred_.size()) weight();
    return std::move(order_);
  }

 private:
  void forward(int direction) { order_.push_back({Kind::forward, part_[direction], next_forward_[direction]++}); }
  void backward(int direction, bool split) {
    const Operation operation{split ? Kind::input_gradient : Kind::full_backward, part_[direction],
                              next_backward_[direction]++};
    order_.push_back(operation);
    if (split) deferred_.push_back({Kind::weight_gradient, operation.part, operation.batch});
  }
  void weight() { order_.push_back(deferred_[next_weight_++]); }
  void overlapped(int forward_direction, int backward_direction) {
    order_.push_back({Kind::overlapped, part_[forward_direction], next_forward_[forward_direction]++,
                      part_[backward_direction], next_backward_[backward_direction]++});
  }

  int half_, depth_, pp_;
  std::int64_t n_per_direction_;
  int part_[2];
  std::int64_t next_forward_[2] = {0, 0}, next_backward_[2] = {0, 0};
  std::vector<Operation> deferred_;
  std::size_t next_weight_ = 0;
  Order order_;
};

Order make_order(Schedule schedule, int device, int pp, int v, std::int64_t n) {
  switch (schedule) {
    case Schedule::one_f_one_b: return order_1f1b(device, pp, n);
    case Schedule::interleaved: return order_interleaved(device, pp, v, n);
    case Schedule::zb_h1: return order_zb_h1(device, pp, n);
    case Schedule::dualpipe: return DualPipeOrder(device, pp, n).write();
  }
  return {};
}

constexpr double kNotYet = -1.0;

/// End times of forwards and (input-gradient) backwards, by part and micro-batch; kNotYet: not executed.
class Clock {
 public:
  Clock(const detail::Parts& parts, const std::vector<int>& device_of, std::int64_t n, double overlap)
      : parts_(parts), device_of_(device_of), n_(n), overlap_(overlap),
        forward_end_(parts.size() * static_cast<std::size_t>(n), kNotYet), backward_end_(forward_end_) {}

  /// Earliest start by inputs alone, or kNotYet while an input is missing.
  double ready(const Operation& op) const {
    switch (op.kind) {
      case Kind::forward: return forward_ready(op.part, op.batch);
      case Kind::input_gradient:
      case Kind::full_backward: return backward_ready(op.part, op.batch);
      case Kind::weight_gradient: return at(backward_end_, op.part, op.batch);
      case Kind::overlapped: {
        const double f = forward_ready(op.part, op.batch), b = backward_ready(op.other_part, op.other_batch);
        return f == kNotYet || b == kNotYet ? kNotYet : std::max(f, b);
      }
    }
    return kNotYet;
  }

  double duration(const Operation& op) const {
    const auto p = static_cast<std::size_t>(op.part);
    switch (op.kind) {
      case Kind::forward: return parts_.forward[p];
      case Kind::input_gradient: return parts_.input_gradient[p];
      case Kind::weight_gradient: return parts_.weight_gradient[p];
      case Kind::full_backward: return parts_.input_gradient[p] + parts_.weight_gradient[p];
      case Kind::overlapped: {
        const auto o = static_cast<std::size_t>(op.other_part);
        return overlapped_chunk<double>(parts_.forward[p], parts_.input_gradient[o] + parts_.weight_gradient[o],
                                        overlap_);
      }
    }
    return 0.0;
  }

  void finish(const Operation& op, double end) {
    if (op.kind == Kind::forward || op.kind == Kind::overlapped) at(forward_end_, op.part, op.batch) = end;
    if (op.kind == Kind::input_gradient || op.kind == Kind::full_backward) at(backward_end_, op.part, op.batch) = end;
    if (op.kind == Kind::overlapped) at(backward_end_, op.other_part, op.other_batch) = end;
  }

 private:
  double at(const std::vector<double>& table, int part, std::int64_t batch) const {
    return table[static_cast<std::size_t>(part) * static_cast<std::size_t>(n_) + static_cast<std::size_t>(batch)];
  }
  double& at(std::vector<double>& table, int part, std::int64_t batch) {
    return table[static_cast<std::size_t>(part) * static_cast<std::size_t>(n_) + static_cast<std::size_t>(batch)];
  }
  double hop(int from, int to) const {
    const bool same = device_of_[static_cast<std::size_t>(from)] == device_of_[static_cast<std::size_t>(to)];
    return same ? 0.0 : parts_.hop;
  }
  double forward_ready(int part, std::int64_t batch) const {
    if (parts_.first_of_path(part)) return 0.0;
    const double end = at(forward_end_, part - 1, batch);
    return end == kNotYet ? kNotYet : end + hop(part - 1, part);
  }
  double backward_ready(int part, std::int64_t batch) const {
    const double own = at(forward_end_, part, batch);
    if (own == kNotYet || parts_.last_of_path(part)) return own;
    const double end = at(backward_end_, part + 1, batch);
    return end == kNotYet ? kNotYet : std::max(own, end + hop(part + 1, part));
  }

  const detail::Parts& parts_;
  const std::vector<int>& device_of_;
  std::int64_t n_;
  double overlap_;
  std::vector<double> forward_end_, backward_end_;
};

/// Peaks of parts held: +1 at a forward's start, -1 at the end of the backward that frees it.
void count_in_flight(const Order& order, PipelineResult& result) {
  int until_weight = 0, until_input = 0, most_weight = 0, most_input = 0;
  for (const Operation& op : order) {
    if (op.kind == Kind::forward || op.kind == Kind::overlapped) {
      most_weight = std::max(most_weight, ++until_weight);
      most_input = std::max(most_input, ++until_input);
    }
    if (op.kind == Kind::full_backward || op.kind == Kind::overlapped) --until_weight, --until_input;
    if (op.kind == Kind::input_gradient) --until_input;
    if (op.kind == Kind::weight_gradient) --until_weight;
  }
  result.in_flight_until_weight.push_back(most_weight);
  result.in_flight_until_input.push_back(most_input);
}

}  // namespace

PipelineResult simulate_pipeline(Schedule schedule, int pp, int virtual_stages, std::int64_t n,
                                 const PipelineTimes& times) {
  const detail::Parts parts = detail::checked_parts(schedule, pp, virtual_stages, n, times);
  detail::check_simulation_size(parts.size(), n);
  std::vector<int> device_of;
  for (int part = 0; part < static_cast<int>(parts.size()); ++part) device_of.push_back(parts.device(part));

  PipelineResult result;
  std::vector<Order> orders;
  for (int device = 0; device < pp; ++device) {
    orders.push_back(make_order(schedule, device, pp, virtual_stages, n));
    count_in_flight(orders.back(), result);
  }

  Clock clock(parts, device_of, n, times.overlap);
  std::vector<std::size_t> next(orders.size(), 0);
  std::vector<double> free_at(orders.size(), 0.0), started(orders.size(), kNotYet);
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t device = 0; device < orders.size(); ++device) {
      for (; next[device] < orders[device].size(); ++next[device]) {
        const Operation& op = orders[device][next[device]];
        const double ready = clock.ready(op);
        if (ready == kNotYet) break;
        const double start = std::max(ready, free_at[device]);
        if (started[device] == kNotYet) started[device] = start;
        free_at[device] = start + clock.duration(op);
        clock.finish(op, free_at[device]);
        progress = true;
      }
    }
  }
  for (std::size_t device = 0; device < orders.size(); ++device) {
    if (next[device] != orders[device].size()) throw RunError("pipeline simulation: the order of a device deadlocks");
    result.makespan = std::max(result.makespan, free_at[device]);
    result.max_device_span = std::max(result.max_device_span, free_at[device] - started[device]);
  }
  return result;
}

}  // namespace tessera

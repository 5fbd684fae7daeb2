#include <algorithm>
#include <cstring>

#include "search/hash.hpp"
#include "search/ranking.hpp"
#include "tessera/error.hpp"
#include "tessera/space.hpp"
#include "tessera/step_cost.hpp"
#include "tessera/sweep.hpp"

namespace tessera {
namespace {

template <class T>
void put(std::vector<std::uint8_t>& out, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto* p = reinterpret_cast<const std::uint8_t*>(&value);
  out.insert(out.end(), p, p + sizeof(T));
}

template <class T>
T take(std::span<const std::uint8_t>& in) {
  if (in.size() < sizeof(T)) throw RunError("a packed result from another rank is too short");
  T value;
  std::memcpy(&value, in.data(), sizeof(T));
  in = in.subspan(sizeof(T));
  return value;
}

void keep_nearer(ClosestMiss& mine, const ClosestMiss& other) {
  if (other.id == kNoId) return;
  const bool nearer = mine.id == kNoId || other.excess_bytes < mine.excess_bytes ||
                      (other.excess_bytes == mine.excess_bytes && other.id < mine.id);
  if (nearer) mine = other;
}

}  // namespace

bool better(const BestRow& a, const BestRow& b) {
  if ((a.id == kNoId) != (b.id == kNoId)) return b.id == kNoId;
  if (a.feasible != b.feasible) return a.feasible > b.feasible;
  const double x = a.feasible ? a.step_seconds : a.memory_with_reserve_bytes;
  const double y = b.feasible ? b.step_seconds : b.memory_with_reserve_bytes;
  return x != y ? x < y : a.id < b.id;
}

void BestRow::take(std::uint64_t plan, const PlanCost& cost) {
  feasible = 1;
  id = plan;
  step_seconds = cost.step_seconds;
  memory_bytes = cost.memory_bytes;
  memory_with_reserve_bytes = cost.memory_with_reserve_bytes;
  compute_seconds = cost.compute_seconds;
  communication_seconds = cost.communication_seconds;
  ramp_seconds = cost.ramp_seconds;
  host_seconds = cost.host_seconds;
}

void BestRow::take_miss(std::uint64_t plan, const PlanCost& cost) {
  if (feasible == 1) return;
  const double memory = cost.memory_with_reserve_bytes;
  if (id != kNoId && (memory > memory_with_reserve_bytes || (memory == memory_with_reserve_bytes && plan > id))) return;
  id = plan;
  memory_bytes = cost.memory_bytes;
  memory_with_reserve_bytes = memory;
}

void ClosestMiss::take(std::uint64_t plan, double memory_with_reserve, double limit) {
  const double excess = memory_with_reserve - limit;
  if (id != kNoId && (excess > excess_bytes || (excess == excess_bytes && plan > id))) return;
  *this = {plan, excess, memory_with_reserve};
}

void Counts::add(const Counts& o) {
  points += o.points;
  evaluations += o.evaluations;
  feasible += o.feasible;
  for (std::size_t r = 0; r < kReasonCount; ++r) {
    refused[r] += o.refused[r];
    sample[r] = std::min(sample[r], o.sample[r]);
  }
  keep_nearer(miss, o.miss);
}

std::uint64_t hash_columns(const Columns& c) {
  Hash h;
  h.column(c.id);
  h.column(c.status);
  h.column(c.step_seconds);
  h.column(c.memory_bytes);
  h.column(c.compute_seconds);
  h.column(c.communication_seconds);
  h.column(c.ramp_seconds);
  h.column(c.host_seconds);
  return h.value();
}

Reducer::Reducer(const Study& study, const Space& space)
    : study_(&study),
      space_(&space),
      best_(study.clusters.size() * study.batches.size() * study.architectures.size()) {}

void Reducer::add(const UnitSummary& unit) {
  counts_.add(unit.counts);
  ++units_;
  rows_ += unit.rows;
  Hash h;
  h.word(unit.unit);
  h.word(unit.rows);
  h.word(unit.columns_hash);
  units_hash_ += h.value();
  for (const BestRow& row : unit.best) keep(row);
}

void Reducer::keep(const BestRow& row) {
  const std::size_t i =
      (row.cluster * study_->batches.size() + row.batch) * study_->architectures.size() + row.architecture;
  if (i >= best_.size()) throw RunError("a finished unit belongs to another study");
  if (better(row, best_[i])) best_[i] = row;
  if (row.feasible == 0) return;
  const auto rate = [&](const BestRow& r) {
    return study_->counts[r.architecture].non_embedding_active * static_cast<double>(study_->batches[r.batch]) /
           r.step_seconds;
  };
  if (fastest_.id == kNoId || rate(row) > rate(fastest_)) fastest_ = row;
}

SweepResult Reducer::result() const {
  SweepResult out;
  out.architectures = study_->architectures.size();
  out.counts = counts_;
  out.units_total = space_->units();
  out.units_done = units_;
  out.rows = rows_;
  std::copy_if(best_.begin(), best_.end(), std::back_inserter(out.best), [](const BestRow& r) { return r.id != kNoId; });
  rank_envelopes(*study_, *space_, out);
  Hash h;
  for (const std::uint64_t n : {counts_.points, counts_.evaluations, counts_.feasible}) h.word(n);
  for (const std::uint64_t n : counts_.refused) h.word(n);
  for (const std::uint64_t n : counts_.sample) h.word(n);
  h.bytes(&counts_.miss, sizeof(counts_.miss));
  h.column(out.best);
  h.word(units_hash_);
  h.word(rows_);
  out.signature = h.value();
  return out;
}

std::vector<std::uint8_t> Reducer::pack() const {
  std::vector<std::uint8_t> out;
  put(out, counts_);
  put(out, units_);
  put(out, rows_);
  put(out, units_hash_);
  for (const BestRow& row : best_)
    if (row.id != kNoId) put(out, row);
  return out;
}

void Reducer::merge(std::span<const std::uint8_t> packed) {
  counts_.add(take<Counts>(packed));
  units_ += take<std::uint64_t>(packed);
  rows_ += take<std::uint64_t>(packed);
  units_hash_ += take<std::uint64_t>(packed);
  while (!packed.empty()) keep(take<BestRow>(packed));
}

}  // namespace tessera

#include "search/walker.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "tessera/error.hpp"

namespace tessera {

Walker::Walker(const Space& space)
    : space_(&space),
      study_(&space.study()),
      bounded_(study_->record != Record::all),
      mask_(space.inner()),
      live_(space.inner().size()),
      out_(space.inner().size()) {
  if (study_->search == Search::pruned) best_first_.emplace(space);
}

UnitResult Walker::run(std::uint64_t index) {
  const Unit& unit = space_->unit(index);
  result_ = UnitResult{};
  result_.unit = index;
  result_.counts.points = unit.last - unit.first;
  at_ = space_->decode(unit.first);
  cap_ = study_->clusters[at_.cluster].memory_cap;
  if (best_first_) search(unit);
  else walk(unit);
  result_.rows = result_.columns.size();
  result_.columns_hash = hash_columns(result_.columns);
  return std::move(result_);
}

void Walker::walk(const Unit& unit) {
  const std::size_t meshes = space_->meshes(at_.cluster).size();
  const std::uint64_t step = space_->expert_meshes(at_.cluster).size() * space_->inner().size();
  begin_architecture();
  for (std::uint64_t id = unit.first; id < unit.last; id += step) {
    row(id);
    if (++at_.mesh < meshes) continue;
    at_.mesh = 0;
    if (++at_.precision < space_->precisions().size()) continue;
    at_.precision = 0;
    end_architecture();
    ++at_.architecture;
    if (id + step < unit.last) begin_architecture();
  }
  end_architecture();
}

void Walker::search(const Unit& unit) {
  const std::uint64_t step = space_->precisions().size() * space_->meshes(at_.cluster).size() *
                             space_->expert_meshes(at_.cluster).size() * space_->inner().size();
  for (std::uint64_t id = unit.first; id < unit.last; id += step) {
    const BestRow best = best_first_->run(space_->decode(id), result_.counts);
    if (best.id != kNoId) result_.best.push_back(best);
  }
}

void Walker::begin_architecture() {
  const Architecture& a = study_->architectures[at_.architecture];
  const auto& experts = space_->expert_meshes(at_.cluster);
  expert_width_.resize(experts.size());
  for (std::size_t e = 0; e < experts.size(); ++e) expert_width_[e] = expert_width_rule(a, experts[e]);
  best_ = BestRow{};
  best_.cluster = at_.cluster;
  best_.batch = at_.batch;
  best_.architecture = at_.architecture;
}

void Walker::end_architecture() {
  if (best_.id != kNoId) result_.best.push_back(best_);
  best_.id = kNoId;
}

void Walker::refuse(Reason reason, std::uint64_t points, std::uint64_t sample) {
  const auto r = static_cast<std::size_t>(reason);
  result_.counts.refused[r] += points;
  result_.counts.sample[r] = std::min(result_.counts.sample[r], sample);
}

void Walker::row(std::uint64_t id) {
  const Architecture& a = study_->architectures[at_.architecture];
  const Cluster& cluster = study_->clusters[at_.cluster];
  const Mesh& mesh = space_->meshes(at_.cluster)[at_.mesh];
  const auto& experts = space_->expert_meshes(at_.cluster);
  const std::uint64_t inner = space_->inner().size();
  if (const Reason r = mesh_rule(a, cluster, mesh, study_->sequence); r != Reason::none)
    return refuse(r, experts.size() * inner, id);
  const std::int64_t batch = study_->batches[at_.batch];
  mask_.set(a, cluster, batch, space_->precisions()[at_.precision], mesh);
  for (std::uint32_t e = 0; e < experts.size(); ++e, id += inner) {
    Reason r = expert_width_[e];
    if (r == Reason::none) r = expert_rule(a, cluster.stack, mesh, experts[e]);
    if (r != Reason::none) {
      refuse(r, inner, id);
      continue;
    }
    const BlockMask& mask = mask_.mask(experts[e]);
    for (std::size_t reason = 1; reason < kReasonCount; ++reason)
      if (mask.refused[reason] > 0) refuse(static_cast<Reason>(reason), mask.refused[reason], id + mask.sample[reason]);
    if (mask.count() == 0) continue;
    at_.expert = e;
    make_cost();
    cost_->select(space_->plan(at_));
    block(id, mask);
  }
}

void Walker::make_cost() {
  const std::array<std::uint32_t, 4> key{at_.cluster, at_.batch, at_.architecture, at_.precision};
  if (cost_ && key == cost_key_) return;
  cost_.emplace(study_->architectures[at_.architecture], study_->clusters[at_.cluster], space_->inner(), study_->batches[at_.batch],
                study_->sequence, space_->precisions()[at_.precision], study_->plan.optimizer, &pool_);
  cost_key_ = key;
}

void Walker::block(std::uint64_t id, const BlockMask& mask) {
  const std::size_t zeros = space_->inner().zero.size();
  if (!bounded_) {
    cost_->cost(mask.legal.data(), out_.data());
    for (std::size_t z = 0; z < zeros; ++z) evaluate(id, mask, z);
    return;
  }
  std::array<bool, 4> refused{};  // ZeRO has four stages
  bool any = false, all = true;
  for (std::size_t z = 0; z < zeros; ++z) {
    if (mask.begin_of_zero[z] == mask.begin_of_zero[z + 1]) continue;
    refused[z] = memory_refuses(id, mask, z);
    any |= refused[z];
    all &= refused[z];
  }
  if (all) return;
  const std::uint8_t* live = mask.legal.data();
  if (any) {
    live_ = mask.legal;
    const std::size_t slice = live_.size() / zeros;
    for (std::size_t z = 0; z < zeros; ++z)
      if (refused[z]) std::fill_n(live_.begin() + static_cast<std::ptrdiff_t>(z * slice), slice, std::uint8_t{0});
    live = live_.data();
  }
  cost_->cost(live, out_.data());
  for (std::size_t z = 0; z < zeros; ++z)
    if (!refused[z]) evaluate(id, mask, z);
}

bool Walker::memory_refuses(std::uint64_t id, const BlockMask& mask, std::size_t z) {
  const std::uint32_t begin = mask.begin_of_zero[z], end = mask.begin_of_zero[z + 1];
  // The least of the sub-space may be the closest miss: then it is worth costing to know which plan it is.
  const auto asked_for = [&](double floor) {
    const bool nearest = floor - cap_ <= result_.counts.miss.excess_bytes || result_.counts.miss.id == kNoId;
    return nearest || (best_.feasible == 0 && (best_.id == kNoId || floor <= best_.memory_with_reserve_bytes));
  };
  std::array<std::uint8_t, 4> only{};  // ZeRO has four stages
  only[z] = 1;
  const ExpertMesh& expert = space_->expert_meshes(at_.cluster)[at_.expert];
  double floor = cost_->states_floor(expert.ep, expert.etp, only.data(), cap_);
  if (floor <= cap_ || asked_for(floor)) floor = cost_->memory_floor(z, mask.legal.data(), cap_);
  if (floor <= cap_) return false;
  refuse(Reason::memory_bound, end - begin, id + mask.index[begin]);
  if (!asked_for(floor)) return true;
  std::fill(live_.begin(), live_.end(), std::uint8_t{0});
  for (std::uint32_t k = begin; k < end; ++k) live_[mask.index[k]] = 1;
  cost_->cost(live_.data(), out_.data());
  for (std::uint32_t k = begin; k < end; ++k) consider_misfit(id + mask.index[k], out_[mask.index[k]]);
  return true;
}

void Walker::evaluate(std::uint64_t id, const BlockMask& mask, std::size_t z) {
  const std::uint32_t begin = mask.begin_of_zero[z], end = mask.begin_of_zero[z + 1];
  const bool keep_all = study_->record == Record::all, keep_some = study_->record != Record::best;
  std::uint64_t feasible = 0, evaluated = 0;
  for (std::uint32_t k = begin; k < end; ++k) {
    const std::uint32_t i = mask.index[k];
    ++evaluated;
    const PlanCost& cost = out_[i];
    const bool fits = cost.memory_with_reserve_bytes <= cap_;
    if (fits) {
      ++feasible;
      // At equal time the least id stays. A time that is no number passes the second test.
      if (best_.feasible == 0 || !(cost.step_seconds >= best_.step_seconds) ||
          (cost.step_seconds == best_.step_seconds && id + i < best_.id))
        take_best(id + i, cost);
    } else {
      refuse(Reason::memory, 1, id + i);
      consider_misfit(id + i, cost);
    }
    if (keep_all || (keep_some && fits)) record(id + i, fits, cost);
  }
  result_.counts.evaluations += evaluated;
  result_.counts.feasible += feasible;
}

void Walker::take_best(std::uint64_t id, const PlanCost& cost) {
  if (!(cost.step_seconds > 0))
    throw RunError("the step time of plan " + std::to_string(id) + " is not a positive number of seconds");
  best_.take(id, cost);
}

void Walker::consider_misfit(std::uint64_t id, const PlanCost& cost) {
  result_.counts.miss.take(id, cost.memory_with_reserve_bytes, cap_);
  best_.take_miss(id, cost);
}

void Walker::record(std::uint64_t id, bool fits, const PlanCost& cost) {
  Columns& c = result_.columns;
  if (c.id.empty()) {
    const auto rows = static_cast<std::size_t>(space_->unit(result_.unit).legal);
    c.id.reserve(rows);
    c.status.reserve(rows);
    for (auto* column : {&c.step_seconds, &c.memory_bytes, &c.compute_seconds, &c.communication_seconds,
                         &c.ramp_seconds, &c.host_seconds})
      column->reserve(rows);
  }
  c.id.push_back(id);
  c.status.push_back(static_cast<std::uint8_t>(fits ? Status::fits : Status::does_not_fit));
  c.memory_bytes.push_back(static_cast<float>(cost.memory_bytes));
  c.step_seconds.push_back(fits ? static_cast<float>(cost.step_seconds) : 0.0F);
  c.compute_seconds.push_back(fits ? static_cast<float>(cost.compute_seconds) : 0.0F);
  c.communication_seconds.push_back(fits ? static_cast<float>(cost.communication_seconds) : 0.0F);
  c.ramp_seconds.push_back(fits ? static_cast<float>(cost.ramp_seconds) : 0.0F);
  c.host_seconds.push_back(fits ? static_cast<float>(cost.host_seconds) : 0.0F);
}

}  // namespace tessera

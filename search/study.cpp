#include "tessera/study.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "tessera/error.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 3> kRecord{"all", "feasible", "best"};
constexpr std::array<std::string_view, 2> kSearch{"exhaustive", "pruned"};

template <class E, std::size_t N>
std::optional<E> find_word(const std::array<std::string_view, N>& words, std::string_view word) {
  const auto it = std::find(words.begin(), words.end(), word);
  if (it == words.end()) return std::nullopt;
  return static_cast<E>(it - words.begin());
}

void need(bool ok, const std::string& problem, const char* why, const char* remedy) {
  if (!ok) throw InputError("study: " + problem, why, remedy);
}

void check_degrees(const char* name, const Axis<int>& axis, int least, int most) {
  if (!axis.values) return;
  need(!axis.values->empty(), std::string("axis ") + name + " has no value", "nothing would be searched",
       "give at least one value, or \"all\"");
  for (const int v : *axis.values)
    if (v < least || v > most)
      throw InputError("study: axis " + std::string(name) + " has the value " + std::to_string(v),
                       "values from " + std::to_string(least) + " to " + std::to_string(most) + " have a meaning",
                       "mend the value");
}

void check_axes(const PlanAxes& p) {
  constexpr int most = 1 << 30;
  check_degrees("tp", p.tp, 1, most);
  check_degrees("cp", p.cp, 1, most);
  check_degrees("pp", p.pp, 1, most);
  check_degrees("ep", p.ep, 1, most);
  check_degrees("etp", p.etp, 1, most);
  check_degrees("virtual_stages", p.virtual_stages, 1, most);
  check_degrees("micro_batch", p.micro_batch, 1, most);
  check_degrees("zero", p.zero, 0, 3);
}

void check_clusters(const Study& s) {
  need(!s.clusters.empty(), "there is no cluster", "plans are made for a cluster", "give [cluster] preset and nodes");
  for (const Cluster& c : s.clusters) {
    need(c.devices >= 1, "cluster " + c.name + " has no device", "a plan needs at least one", "give nodes or devices");
    need(std::isfinite(c.memory_cap) && c.memory_cap > 0, "cluster " + c.name + " has no memory",
         "every plan would be refused", "give memory_cap or a device with a capacity");
    need(c.fabric.node_devices >= 1, "cluster " + c.name + " has no devices in a node", "nodes are counted with it",
         "give the fabric's node_devices");
    need(c.peak(Precision::bf16) > 0, "cluster " + c.name + " has no bf16 peak", "MFU is over it",
         "give the device's peak_bf16");
  }
}

void check_architectures(const Study& s) {
  need(!s.architectures.empty(), "no architecture is left",
       "the grid is empty after top_k < experts and the guards on sparsity and parameters",
       "widen the grid or relax min_sparsity, max_total_parameters or max_active_parameters");
  need(s.counts.size() == s.architectures.size(), "counts do not belong to the architectures",
       "there must be one per architecture", "fill counts with count_parameters()");
  for (const Architecture& a : s.architectures) check(a);
}

}  // namespace

std::string_view to_string(Record r) { return kRecord[static_cast<std::size_t>(r)]; }
std::string_view to_string(Search s) { return kSearch[static_cast<std::size_t>(s)]; }
std::optional<Record> record_from(std::string_view word) { return find_word<Record>(kRecord, word); }
std::optional<Search> search_from(std::string_view word) { return find_word<Search>(kSearch, word); }

void check(const Study& s) {
  check_clusters(s);
  need(!s.days.empty(), "there is no window", "tokens follow from it", "give [window] days");
  for (const double d : s.days)
    need(std::isfinite(d) && d > 0, "a window is not a positive number of days", "tokens follow from it",
         "give days above 0");
  need(s.terms.spare_nodes >= 0, "the number of spare nodes is negative", "they wait for failures",
       "give [cluster] spare_nodes from 0");
  need(s.terms.stopped_days >= 0 && s.terms.stopped_days < *std::min_element(s.days.begin(), s.days.end()),
       "planned stops do not fit into the shortest window", "nothing would be trained in it",
       "give [window] stopped_days from 0 to below the least of days");
  need(!s.batches.empty(), "there is no batch", "a step trains one", "give [batch] global in sequences");
  for (const auto b : s.batches)
    need(b >= 1, "a batch is below one sequence", "a step trains at least one", "give [batch] global in sequences");
  need(s.sequence >= 1, "the sequence is below one token", "a step trains at least one",
       "give [batch] sequence in tokens");
  check_architectures(s);
  check_axes(s.plan);
  check(s.law);
  need(predicts_loss(s.law), "the law " + s.law.name + " does not predict a loss", "architectures are ranked by it",
       "choose another law");
  need(s.top >= 1, "top is below 1", "nothing would be shown", "give at least 1");
  need(s.search == Search::exhaustive || s.record == Record::best,
       "the pruned search is to record " + std::string(to_string(s.record)) + " evaluations",
       "it leaves out plans that cannot be the best", "use --record best, or --search exhaustive");
}

std::int64_t nodes_of(const Cluster& c) { return ceil_div(c.devices, c.fabric.node_devices); }

}  // namespace tessera

// Many budgets from one sweep. MFU does not depend on the length of the window, so the best plans of a
// cluster size answer every number of days exactly: D = peak devices seconds MFU goodput / (6 N_act) (arXiv
// 2608.10605, its section on the constraint), and the law gives the loss. Between two node counts MFU and
// goodput are interpolated, linear in log(nodes), and the answer says so; outside the swept range there is
// none.
//
//   const ResultsReader reader("results.h5");
//   BudgetTable table = make_budget_table(reader.results(), study, {});   // study: restore_study(...)
//   BudgetAnswer a = answer_budget(table, "", 32, 20);
//   write: table_to_json(table).dump() or write_budget_hdf5();  read: BudgetFile
//
// The choice is the architecture of least expected regret over the law's ensemble and the step-time error
// (tessera/uncertainty.hpp); the same table gives the same answer on any number of threads.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "io/budget_price.hpp"
#include "io/results_reader.hpp"
#include "tessera/study.hpp"
#include "tessera/uncertainty.hpp"

namespace tessera {

/// The draws over which an answer's certainty is computed. Defaults: sd of P(best) 0.007.
struct DrawSettings {
  std::int64_t members = 512;   ///< of the law's ensemble
  std::int64_t replicates = 8;  ///< step-time draws per member
  std::int64_t seed = 1;
};

/// Preset table/certainty.
struct CertaintySettings {
  double common_time_error = 0;  ///< relative sd of the step-time error shared by all candidates
  double paired_law_sd = 0;      ///< [nats]
  double compressed_slope = 1, compressed_slope_sd = 0;
  std::vector<double> sparsity_bands;  ///< ascending edges of S
};
CertaintySettings read_certainty_settings();

/// One size of a cluster.
struct TableCluster {
  std::string name, device;
  std::int64_t nodes = 0, devices = 0, node_devices = 0;
  double peak = 0;        ///< [FLOP/s] of a device, dense bf16
  double time_error = 0;  ///< expected relative error of a predicted step time
};

/// The best plan of a cluster x architecture x batch.
struct TableCandidate {
  std::uint32_t cluster = 0, architecture = 0;  ///< indices into the table
  std::uint64_t id = 0;                         ///< of the sweep's space
  Plan plan;
  double step_seconds = 0;  ///< [s]
  double memory_bytes = 0;  ///< [B]
  double mfu = 0;           ///< fraction, law convention
  double goodput = 1;       ///< fraction
};

struct BudgetTable {
  std::string title, hash, version;  ///< of the study and of the program that swept it
  std::int64_t sequence = 0;         ///< tokens
  std::vector<double> days;          ///< windows of the study [days]
  Law law;
  TokenBounds bounds;  ///< on tokens per active parameter
  TokenValue value;
  BudgetTerms terms;  ///< of the study; answers may change them
  DrawSettings draws;
  CertaintySettings settings;
  std::vector<TableCluster> clusters;
  std::vector<Architecture> architectures;
  std::vector<ParameterCount> counts;      ///< in step with architectures
  std::vector<TableCandidate> candidates;  ///< ascending (cluster, architecture, batch)
};

/// Different members that the law's ensemble gives the draws; 1: it has none, its own error is in no draw.
std::int64_t law_member_count(const BudgetTable&);

/// From the best plans of a results file and the study behind it. Throws InputError: no plan fits anywhere,
/// the study has other clusters or architectures than the results, a law that predicts no loss, draws not
/// positive.
BudgetTable make_budget_table(const Results&, const Study&, const DrawSettings&);

/// Throws InputError where the law or goodput preset has changed since the sweep.
void check_answering_presets(const Results&, const Study&);

/// An architecture at a budget.
struct BudgetCandidate {
  std::uint32_t architecture = 0;
  Plan plan;
  double step_seconds = 0;      ///< [s]
  double memory_bytes = 0;      ///< [B]; 0: unknown (between node counts)
  double mfu = 0, goodput = 1;  ///< fractions
  double window_tokens = 0;     ///< what the window pays for
  double tokens = 0;            ///< D, after the cut
  bool cut = false;             ///< D was cut to the upper bound on tokens per active parameter
  double loss = 0;              ///< predicted [nats per token]
};

/// The choice under other assumptions.
struct OtherChoice {
  std::uint32_t architecture = 0;
  double tokens = 0, loss = 0;         ///< predicted [nats per token]
  double probability = 0, regret = 0;  ///< P(best); [nats]
  std::size_t near_ties = 0, ninety = 0;
};

struct Span {
  double low = 0, high = 0;
};

struct BudgetAnswer {
  std::string cluster, device;
  std::int64_t nodes = 0, devices = 0;
  double days = 0, device_hours = 0;  ///< device-hours of spare nodes and planned stops included
  BudgetTerms terms;
  double time_error = 0;      ///< relative sd of a predicted step time, common and individual part together
  bool interpolated = false;  ///< between two node counts; plans are those of `plan_nodes` nodes
  std::int64_t low_nodes = 0, high_nodes = 0, plan_nodes = 0;

  std::vector<BudgetCandidate> candidates;  ///< ascending predicted loss; empty: nothing can be trained
  std::size_t nothing_fits = 0, over_limits = 0, too_few_tokens = 0, outside_law = 0;  ///< left out

  // The certainty; has_certainty is false where it was not asked for or nothing can be trained.
  bool has_certainty = false;
  bool stored = false;         ///< read from the table's file, not drawn for this answer
  std::size_t considered = 0;  ///< candidates drawn: the first so many; the rest are too far behind to win
  std::size_t draws = 0;
  Decision decision;                       ///< over the considered ones
  double loss_sd = 0;                      ///< of the choice's loss [nats]
  double regret_in_hours = 0;              ///< share of the device-hours that the regret is worth
  std::optional<OtherChoice> without_cap;  ///< no upper bound on tokens; nothing where there is none
  OtherChoice law_only, time_only, form_only, compressed;
  Span tied_active, tied_total, tied_sparsity, tied_split, tied_experts;  ///< over the near ties

  // Of the choice. Multiples of the largest run the law was fitted on; 0: unknown.
  double total_multiple = 0, tokens_multiple = 0;
  std::vector<std::string> warnings;

  std::size_t choice() const { return has_certainty ? decision.choice : 0; }
};

/// Names of the table's clusters, each once, in its order.
std::vector<std::string> cluster_names(const BudgetTable&);
/// Node counts of a cluster, ascending.
std::vector<std::int64_t> node_counts(const BudgetTable&, const std::string& cluster);

/// Devices that train on a number of nodes, and those of the spare nodes. Throws InputError as
/// answer_budget() does.
std::int64_t device_count(const BudgetTable&, const std::string& cluster, std::int64_t nodes,
                          std::int64_t spare_nodes);

/// Fills the certainty of an answer whose candidates are ranked, from what is known already; false: it is
/// not.
using CertaintySource = std::function<bool(BudgetAnswer&)>;
/// The answer to one budget. `cluster` may be empty where the table has one. Throws InputError: unknown or
/// missing cluster, nodes outside those swept, days not positive or not finite, stops longer than the window.
/// Without `terms` those of the table's study.
BudgetAnswer answer_budget(const BudgetTable&, const std::string& cluster, std::int64_t nodes, double days,
                           bool certainty = true, const std::optional<BudgetTerms>& terms = {},
                           const CertaintySource& known = {});

/// The best candidate of a class of architectures.
struct BudgetClass {
  double low = 0, high = 0;   ///< split factor (both), or edges of a band of S
  std::size_t candidate = 0;  ///< of lowest predicted loss
  double probability = 0;     ///< sum of P(best) over the class
};
/// Classes with a candidate, ascending.
std::vector<BudgetClass> best_by_split(const BudgetTable&, const BudgetAnswer&);
std::vector<BudgetClass> best_by_sparsity(const BudgetTable&, const BudgetAnswer&);

/// The table as JSON, without rows; every number keeps all its bits.
nlohmann::ordered_json table_to_json(const BudgetTable&);
/// Throws InputError: no JSON, no table of tessera, another format, damaged. Files: BudgetFile.
BudgetTable table_from_json(const std::string& text, const std::string& name);

}  // namespace tessera

// The tables of a budget file: what each group holds, member by member. Used by the writer and the reader.
#pragma once
#include <span>
#include <string>

#include "io/budget_columns.hpp"
#include "io/budget_table.hpp"

namespace tessera::budgets {

inline constexpr std::int64_t kBudgetFormat = 2;  ///< attribute `format` of /table

/// A row of /rows. Where nothing can be trained, what follows from the choice is 0 and `trainable` is 0.
struct FileRow {
  std::string cluster, device, name, nominal_name;
  std::int64_t nodes = 0, devices = 0, plan_nodes = 0;
  double days = 0, device_hours = 0, usd = 0, joules = 0;
  double stopped_days = 0, most_total = 0, most_active = 0, most_memory = 0;  ///< 0: none
  ServingLoad load;
  double weights_memory = 0, caches_memory = 0;  ///< [B] of the choice at inference; 0: not stated
  std::int64_t spare_nodes = 0;
  bool interpolated = false, trainable = false;
  std::uint64_t candidates = 0, nothing_fits = 0, over_limits = 0, too_few_tokens = 0, outside_law = 0;
  BudgetCandidate choice, nominal;
  double tokens_per_active = 0, nominal_probability = 0;
  // The certainty.
  std::uint64_t first_verdict = 0, considered = 0, draws = 0, near_ties = 0, ninety = 0;
  std::uint32_t chosen = 0;  ///< among the verdicts of the row
  double probability = 0, regret = 0, regret_share = 0, regret_hours = 0, loss_mean = 0, loss_sd = 0;
  double least_mean = 0, optimism = 0, time_error = 0;
  Span active, total, sparsity, split, experts;
  double total_multiple = 0, tokens_multiple = 0;

  BudgetTerms terms() const;
};
/// Columns that answer a budget again, the rest, and those of prices.
std::span<const Column<FileRow>> row_keys();
std::span<const Column<FileRow>> row_facts();
std::span<const Column<FileRow>> row_prices();

/// A row of /alternatives: the choice of a row under another assumption.
struct FileAlternative {
  std::uint32_t row = 0;
  std::string assumption, name;
  OtherChoice choice;
};
std::span<const Column<FileAlternative>> alternative_columns();

/// A row of /verdicts: a candidate that was drawn, in the order of predicted loss.
struct FileVerdict {
  std::uint32_t row = 0, architecture = 0;
  double tokens = 0, loss = 0;
  CandidateVerdict verdict;
};
std::span<const Column<FileVerdict>> verdict_columns();

/// A row of /by_split or /by_sparsity.
struct FileClass {
  std::uint32_t row = 0;
  double low = 0, high = 0;
  std::string name;
  BudgetCandidate best;
  double probability = 0, class_probability = 0;
};
std::span<const Column<FileClass>> class_columns();

std::span<const Column<TableCluster>> cluster_columns();
std::span<const Column<TableCandidate>> candidate_columns();

/// The plan of a row, whatever else the row holds.
template <class Row, Plan& (*plan)(Row&)>
std::span<const Column<Row>> plan_columns() {
  static constexpr Column<Row> kPlan[] = {
      {"global_batch", "sequences", "Batch of a step, over all data-parallel ranks.",
       +[](Row& r) -> std::int64_t& { return plan(r).batch; }},
      {"tp", "devices", "Tensor-parallel degree.", +[](Row& r) -> int& { return plan(r).tp; }},
      {"cp", "devices", "Context-parallel degree.", +[](Row& r) -> int& { return plan(r).cp; }},
      {"pp", "devices", "Pipeline-parallel degree.", +[](Row& r) -> int& { return plan(r).pp; }},
      {"dp", "devices", "Data-parallel degree.", +[](Row& r) -> int& { return plan(r).dp; }},
      {"ep", "devices", "Expert-parallel degree.", +[](Row& r) -> int& { return plan(r).ep; }},
      {"etp", "devices", "Expert-tensor-parallel degree.", +[](Row& r) -> int& { return plan(r).etp; }},
      {"virtual_stages", "chunks", "Model chunks per device.",
       +[](Row& r) -> int& { return plan(r).virtual_stages; }},
      {"micro_batch", "sequences", "Micro-batch.", +[](Row& r) -> int& { return plan(r).micro_batch; }},
      {"zero", "1", "ZeRO stage.", +[](Row& r) -> int& { return plan(r).zero; }},
      {"recompute", "text", "Recomputation.", +[](Row& r) -> Recompute& { return plan(r).recompute; }},
      {"schedule", "text", "Pipeline schedule.", +[](Row& r) -> Schedule& { return plan(r).schedule; }},
      {"precision", "text", "Number format.", +[](Row& r) -> Precision& { return plan(r).precision; }},
      {"optimizer", "text", "Optimizer.", +[](Row& r) -> Optimizer& { return plan(r).optimizer; }},
  };
  return kPlan;
}

}  // namespace tessera::budgets

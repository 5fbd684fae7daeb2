// The HDF5 file of a budget table: rows, what they stand on, and the table itself, each column with its unit
// and description.
#include <filesystem>

#include "io/architecture_fields.hpp"
#include "io/budget_file.hpp"
#include "io/budget_rows.hpp"
#include "io/budget_table_parts.hpp"
#include "io/file_system.hpp"
#include "io/report_parts.hpp"

namespace tessera {
namespace {

using namespace budgets;

std::string name_of(const BudgetTable& t, std::uint32_t architecture) {
  return reporting::short_name(t.architectures[architecture]);
}

Plan& plan_of(FileRow& r) { return r.choice.plan; }
Plan& best_plan_of(FileClass& r) { return r.best.plan; }
Plan& candidate_plan_of(TableCandidate& r) { return r.plan; }

void write_settings(Hdf5Writer& file, const BudgetTable& t) {
  TableWriter table(file, "/table",
                    "Budgets of a sweep: /rows answers them, the rest is what more are answered from.");
  file.attribute("/table", "format", kBudgetFormat);
  for (const auto& [name, text] :
       {std::pair{"title", t.title}, {"hash", t.hash}, {"version", t.version}, {"law_name", t.law.name}})
    file.attribute("/table", name, text);
  for (const auto& [name, number] : {std::pair{"sequence", t.sequence},
                                     {"members", t.draws.members},
                                     {"replicates", t.draws.replicates},
                                     {"seed", t.draws.seed}})
    file.attribute("/table", name, number);
  table.text("settings",
             "JSON: law, bounds on tokens, value of tokens, draws and what the certainty assumes.",
             {settings_to_json(t).dump()});
  table.column("days", "d", "Windows of the study.", t.days);
}

struct FieldWriter {
  TableWriter& table;
  const std::vector<Architecture>& list;
  std::string name, unit, description;
  template <class T>
  void operator()(T Architecture::*member) const {
    std::vector<Stored<T>> values;
    for (const Architecture& a : list) {
      if constexpr (std::is_enum_v<T>)
        values.emplace_back(to_string(a.*member));
      else
        values.push_back(static_cast<Stored<T>>(a.*member));
    }
    if constexpr (std::is_same_v<Stored<T>, std::string>)
      table.text(name, description, values);
    else
      table.column(name, unit, description, values);
  }
};

void write_architectures(Hdf5Writer& file, const BudgetTable& t) {
  TableWriter table(file, "/architectures",
                    "One row per architecture; the index `architecture` counts these.");
  std::vector<std::string> names, shorter;
  for (const Architecture& a : t.architectures) {
    names.push_back(a.name);
    shorter.push_back(reporting::short_name(a));
  }
  table.text("name", "Name or ladder keys.", names);
  table.text("short_name", "Name as in /rows.", shorter);
  for (const auto& field : architecture_fields())
    std::visit(FieldWriter{table, t.architectures, std::string(field.key),
                           field.unit.empty() ? "1" : std::string(field.unit),
                           fmt::format("Field `{}` of the architecture.", field.key)},
               field.member);
  std::vector<std::int64_t> total, active;
  std::vector<double> sparsity;
  for (const ParameterCount& c : t.counts) {
    total.push_back(c.non_embedding_total);
    active.push_back(c.non_embedding_active);
    sparsity.push_back(c.sparsity());
  }
  table.column("non_embedding_total", "parameters", "Non-embedding parameters, all experts.", total);
  table.column("non_embedding_active", "parameters", "Non-embedding parameters that one token meets.",
               active);
  table.column("sparsity", "1", "1 - active / total.", sparsity);
}

FileRow row_of(const BudgetTable& t, const BudgetAnswer& a, const DeviceHour& hour,
               std::uint64_t first_verdict) {
  FileRow r;
  r.cluster = a.cluster, r.device = a.device;
  r.nodes = a.nodes, r.devices = a.devices, r.plan_nodes = a.plan_nodes;
  r.days = a.days, r.device_hours = a.device_hours;
  r.usd = hour.usd ? *hour.usd * a.device_hours : 0;
  r.joules = hour.joules ? *hour.joules * a.device_hours : 0;
  const BudgetTerms& terms = a.terms;
  r.spare_nodes = terms.spare_nodes, r.stopped_days = terms.stopped_days, r.load = terms.serving.load;
  r.most_total = terms.serving.most_total.value_or(0), r.most_active = terms.serving.most_active.value_or(0);
  r.most_memory = terms.serving.most_memory.value_or(0), r.over_limits = a.over_limits;
  r.interpolated = a.interpolated, r.trainable = !a.candidates.empty();
  r.candidates = a.candidates.size();
  r.nothing_fits = a.nothing_fits, r.too_few_tokens = a.too_few_tokens, r.outside_law = a.outside_law;
  r.first_verdict = first_verdict, r.time_error = a.time_error;
  if (!r.trainable) return r;
  r.choice = a.candidates[a.choice()], r.nominal = a.candidates.front();
  r.name = name_of(t, r.choice.architecture), r.nominal_name = name_of(t, r.nominal.architecture);
  r.tokens_per_active =
      r.choice.tokens / static_cast<double>(t.counts[r.choice.architecture].non_embedding_active);
  const ServingMemory served =
      serving_memory(t.architectures[r.choice.architecture], t.counts[r.choice.architecture], r.load);
  r.weights_memory = served.weights, r.caches_memory = served.caches;
  r.total_multiple = a.total_multiple, r.tokens_multiple = a.tokens_multiple;
  if (!a.has_certainty) return r;
  const CandidateVerdict& v = a.decision.verdicts[a.decision.choice];
  r.considered = a.considered, r.draws = a.draws, r.chosen = static_cast<std::uint32_t>(a.decision.choice);
  r.near_ties = a.decision.near_ties, r.ninety = a.decision.ninety_set.size();
  r.probability = v.best, r.regret = v.regret, r.loss_mean = v.mean, r.loss_sd = a.loss_sd;
  r.regret_share = a.regret_in_hours, r.regret_hours = a.regret_in_hours * a.device_hours;
  r.least_mean = a.decision.least_mean, r.optimism = a.decision.optimism;
  r.nominal_probability = a.decision.verdicts.front().best;
  r.active = a.tied_active, r.total = a.tied_total, r.sparsity = a.tied_sparsity, r.split = a.tied_split;
  r.experts = a.tied_experts;
  return r;
}

void add_verdicts(const BudgetAnswer& a, std::uint32_t row, std::vector<FileVerdict>& out) {
  for (std::size_t i = 0; a.has_certainty && i < a.considered; ++i)
    out.push_back({row, a.candidates[i].architecture, a.candidates[i].tokens, a.candidates[i].loss,
                   a.decision.verdicts[i]});
}

void add_alternatives(const BudgetTable& t, const BudgetAnswer& a, std::uint32_t row,
                      std::vector<FileAlternative>& out) {
  if (!a.has_certainty) return;
  const auto add = [&](const char* assumption, const OtherChoice& choice) {
    out.push_back({row, assumption, name_of(t, choice.architecture), choice});
  };
  if (a.without_cap) add("without_token_cap", *a.without_cap);
  add("law", a.law_only);
  add("time", a.time_only);
  add("form", a.form_only);
  add("compressed_spread", a.compressed);
}

void add_classes(const BudgetTable& t, const BudgetAnswer& a, const std::vector<BudgetClass>& classes,
                 std::uint32_t row, std::vector<FileClass>& out) {
  for (const BudgetClass& c : classes) {
    const BudgetCandidate& best = a.candidates[c.candidate];
    const bool drawn = a.has_certainty && c.candidate < a.considered;
    out.push_back({row, c.low, c.high, name_of(t, best.architecture), best,
                   drawn ? a.decision.verdicts[c.candidate].best : 0, c.probability});
  }
}

template <class Row>
TableWriter write_group(Hdf5Writer& file, const char* group, const char* description, std::vector<Row>& rows,
                        std::span<const Column<Row>> columns) {
  TableWriter table(file, group, description);
  write_columns(table, rows, columns);
  return table;
}

void write_answers(Hdf5Writer& file, const BudgetTable& t, const std::vector<BudgetAnswer>& answers,
                   const DeviceHours& hours) {
  std::vector<FileRow> rows;
  std::vector<FileVerdict> verdicts;
  std::vector<FileAlternative> alternatives;
  std::vector<FileClass> splits, bands;
  for (const BudgetAnswer& a : answers) {
    const auto row = static_cast<std::uint32_t>(rows.size());
    rows.push_back(row_of(t, a, device_hour(hours, a.cluster, a.device), verdicts.size()));
    add_verdicts(a, row, verdicts);
    add_alternatives(t, a, row, alternatives);
    add_classes(t, a, best_by_split(t, a), row, splits);
    add_classes(t, a, best_by_sparsity(t, a), row, bands);
  }
  TableWriter table = write_group(
      file, "/rows", "One row per budget: cluster, nodes and days, and its answer.", rows, row_keys());
  write_columns(table, rows, row_facts());
  write_columns(table, rows, plan_columns<FileRow, plan_of>());
  if (hours.usd.given() || hours.joules.given()) write_columns(table, rows, row_prices());
  write_group(file, "/alternatives", "The choice of each row under other assumptions.", alternatives,
              alternative_columns());
  write_group(file, "/verdicts", "The candidates of each row that can win, by predicted loss.", verdicts,
              verdict_columns());
  for (const auto& [group, list, description] :
       {std::tuple{"/by_split", &splits, "The best architecture of each split factor, for each row."},
        {"/by_sparsity", &bands, "The best architecture of each band of sparsity, for each row."}}) {
    TableWriter classes = write_group(file, group, description, *list, class_columns());
    write_columns(classes, *list, plan_columns<FileClass, best_plan_of>());
  }
}

}  // namespace

void write_budget_hdf5(const std::string& path, const BudgetTable& t,
                       const std::vector<BudgetAnswer>& answers, const DeviceHours& hours) {
  const std::string aside = path + ".part";
  try {
    Hdf5Writer file(aside);
    write_settings(file, t);
    auto clusters = t.clusters;
    write_group(file, "/clusters", "Sizes of the clusters; the index `cluster` counts these.", clusters,
                cluster_columns());
    write_architectures(file, t);
    auto candidates = t.candidates;
    TableWriter table =
        write_group(file, "/candidates", "The best plan of every cluster x architecture x batch.", candidates,
                    candidate_columns());
    write_columns(table, candidates, plan_columns<TableCandidate, candidate_plan_of>());
    write_answers(file, t, answers, hours);
    file.close();
    File done(aside, File::Mode::append);
    done.sync();
    done.close();
    rename_file(aside, path);
  } catch (...) {
    std::error_code code;
    std::filesystem::remove(aside, code);
    throw;
  }
  const auto folder = std::filesystem::path(path).parent_path();
  sync_folder(folder.empty() ? "." : folder.string());
}

}  // namespace tessera

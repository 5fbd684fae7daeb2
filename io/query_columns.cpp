#include "io/query_columns.hpp"

#include <algorithm>

#include "io/architecture_fields.hpp"

namespace tessera {
namespace {

using Getters = std::vector<ColumnGetter>;

const Architecture& architecture_of(const QueryRow& row) { return row.results->architectures[row.values.architecture]; }
const ParameterCount& count_of(const QueryRow& row) { return row.results->counts[row.values.architecture]; }
const StoredCluster& cluster_of(const QueryRow& row) { return row.results->clusters[row.values.cluster]; }

template <class Get>
void whole(Getters& out, const char* name, const char* unit, Get get, const char* alias = "") {
  out.push_back({{name, unit, false, alias}, true, [get](const QueryRow& row) { return static_cast<double>(get(row)); }, {}});
}
template <class Get>
void real(Getters& out, const char* name, const char* unit, Get get, const char* alias = "") {
  out.push_back({{name, unit, false, alias}, false, [get](const QueryRow& row) { return get(row); }, {}});
}
template <class Get>
void text(Getters& out, const char* name, Get get) {
  out.push_back({{name, "", true, ""}, false, {}, [get](const QueryRow& row) -> std::string_view { return get(row); }});
}

void add_cluster(Getters& out) {
  text(out, "cluster", [](const QueryRow& r) -> const std::string& { return cluster_of(r).name; });
  text(out, "device", [](const QueryRow& r) -> const std::string& { return cluster_of(r).device; });
  text(out, "fabric", [](const QueryRow& r) -> const std::string& { return cluster_of(r).fabric; });
  text(out, "stack", [](const QueryRow& r) -> const std::string& { return cluster_of(r).stack; });
  whole(out, "nodes", "nodes", [](const QueryRow& r) { return cluster_of(r).nodes; });
  whole(out, "devices", "devices", [](const QueryRow& r) { return cluster_of(r).devices; });
}

/// A getter for any field of Architecture.
struct FieldGetter {
  ColumnGetter& out;
  void operator()(std::int64_t Architecture::*m) const {
    out.whole = true;
    out.number = [m](const QueryRow& row) { return static_cast<double>(architecture_of(row).*m); };
  }
  void operator()(double Architecture::*m) const {
    out.number = [m](const QueryRow& row) { return architecture_of(row).*m; };
  }
  void operator()(bool Architecture::*m) const {
    out.whole = true;
    out.number = [m](const QueryRow& row) { return architecture_of(row).*m ? 1.0 : 0.0; };
  }
  void operator()(std::string Architecture::*m) const {
    out.text = [m](const QueryRow& row) -> std::string_view { return architecture_of(row).*m; };
  }
  template <class Word>
  void operator()(Word Architecture::*m) const {
    out.text = [m](const QueryRow& row) -> std::string_view { return to_string(architecture_of(row).*m); };
  }
};

void add_architecture(Getters& out) {
  text(out, "architecture", [](const QueryRow& r) -> const std::string& { return architecture_of(r).name; });
  for (const auto& field : architecture_fields()) {
    ColumnGetter getter{{std::string(field.key), std::string(field.unit), false, ""}, false, {}, {}};
    if (field.key == "rung") getter.column.alias = "q";
    std::visit(FieldGetter{getter}, field.member);
    getter.column.is_text = static_cast<bool>(getter.text);
    out.push_back(std::move(getter));
  }
  whole(out, "non_embedding_total", "parameters", [](const QueryRow& r) { return count_of(r).non_embedding_total; }, "total");
  whole(out, "non_embedding_active", "parameters", [](const QueryRow& r) { return count_of(r).non_embedding_active; }, "active");
  whole(out, "all_total", "parameters", [](const QueryRow& r) { return count_of(r).all_total; });
  real(out, "sparsity", "1", [](const QueryRow& r) { return count_of(r).sparsity(); });
}

/// Every word of an enumeration.
template <class Word>
std::vector<std::string> words_of(std::optional<Word> (*from)(std::string_view)) {
  std::vector<std::string> out;
  for (int value = 0; from(to_string(static_cast<Word>(value))) == static_cast<Word>(value); ++value) out.emplace_back(to_string(static_cast<Word>(value)));
  return out;
}

void add_plan(Getters& out) {
  whole(out, "batch", "sequences", [](const QueryRow& r) { return r.values.plan.batch; });
  const std::tuple<const char*, const char*, int Plan::*> degrees[] = {
      {"tp", "devices", &Plan::tp},   {"cp", "devices", &Plan::cp},   {"pp", "devices", &Plan::pp},
      {"dp", "devices", &Plan::dp},   {"ep", "devices", &Plan::ep},   {"etp", "devices", &Plan::etp},
      {"virtual_stages", "chunks", &Plan::virtual_stages}, {"micro_batch", "sequences", &Plan::micro_batch}, {"zero", "1", &Plan::zero}};
  for (const auto& [name, unit, member] : degrees)
    whole(out, name, unit, [m = member](const QueryRow& r) { return r.values.plan.*m; });
  whole(out, "micro_batches", "1", [](const QueryRow& r) { return r.values.plan.micro_batches(); });
  text(out, "recompute", [](const QueryRow& r) { return to_string(r.values.plan.recompute); });
  out.back().words = words_of<Recompute>(recompute_from);
  text(out, "schedule", [](const QueryRow& r) { return to_string(r.values.plan.schedule); });
  out.back().words = words_of<Schedule>(schedule_from);
  text(out, "precision", [](const QueryRow& r) { return to_string(r.values.plan.precision); });
  out.back().words = words_of<Precision>(precision_from);
}

void add_costs(Getters& out, QueryTable table) {
  whole(out, "feasible", "1", [](const QueryRow& r) { return r.feasible ? 1 : 0; });
  real(out, "step_seconds", "s", [](const QueryRow& r) { return r.values.step_seconds; }, "step");
  real(out, "mfu", "1", [](const QueryRow& r) { return r.values.mfu; });
  real(out, "memory_bytes", "B", [](const QueryRow& r) { return r.values.memory_bytes; }, "memory");
  if (table != QueryTable::evaluations)
    real(out, "memory_with_reserve_bytes", "B", [](const QueryRow& r) { return r.values.memory_with_reserve_bytes; });
  real(out, "compute_seconds", "s", [](const QueryRow& r) { return r.values.compute_seconds; }, "compute");
  real(out, "communication_seconds", "s", [](const QueryRow& r) { return r.values.communication_seconds; }, "communication");
  real(out, "ramp_seconds", "s", [](const QueryRow& r) { return r.values.ramp_seconds; }, "ramp");
  real(out, "host_seconds", "s", [](const QueryRow& r) { return r.values.host_seconds; }, "host");
  real(out, "tokens_per_second_per_device", "tokens/s", [](const QueryRow& r) {
    const double tokens = static_cast<double>(r.values.plan.batch) * static_cast<double>(r.results->sequence);
    return r.feasible && r.values.step_seconds > 0 ? tokens / r.values.step_seconds / static_cast<double>(cluster_of(r).devices) : 0.0;
  });
}

void add_ranking(Getters& out) {
  whole(out, "rank", "1", [](const QueryRow& r) { return r.values.rank; });
  real(out, "window_days", "d", [](const QueryRow& r) { return r.values.window_days; }, "days");
  real(out, "loss", "nats/token", [](const QueryRow& r) { return r.values.loss; });
  real(out, "tokens", "tokens", [](const QueryRow& r) { return r.values.tokens; });
  real(out, "tokens_per_active_parameter", "1", [](const QueryRow& r) { return r.values.tokens_per_active_parameter; });
  whole(out, "tokens_cut", "1", [](const QueryRow& r) { return r.values.tokens_cut ? 1 : 0; });
  real(out, "model_flops", "FLOP", [](const QueryRow& r) { return r.values.model_flops; });
  real(out, "goodput", "1", [](const QueryRow& r) { return r.values.goodput; });
}

}  // namespace

std::vector<ColumnGetter> column_getters(QueryTable table) {
  Getters out;
  if (table == QueryTable::top) add_ranking(out);
  add_costs(out, table);
  add_cluster(out);
  add_architecture(out);
  add_plan(out);
  return out;
}

std::vector<QueryColumn> query_columns(QueryTable table) {
  std::vector<QueryColumn> out{{"id", "id", false, ""}};
  for (auto& getter : column_getters(table)) out.push_back(std::move(getter.column));
  return out;
}

}  // namespace tessera

#include "io/result_tables.hpp"

#include <functional>

#include <fmt/format.h>

#include "io/architecture_fields.hpp"
#include "io/hash.hpp"
#include "io/preset_name.hpp"
#include "io/study_reader.hpp"
#include "io/table_writer.hpp"
#include "io/used_presets.hpp"

namespace tessera {
namespace {

/// One value per item, by a function of it.
template <class T, class Items, class Get>
std::vector<T> collect(const Items& items, Get get) {
  std::vector<T> out;
  out.reserve(items.size());
  for (const auto& item : items) out.push_back(static_cast<T>(get(item)));
  return out;
}

template <class Items, class Get>
std::vector<std::string> collect_text(const Items& items, Get get) {
  std::vector<std::string> out;
  out.reserve(items.size());
  for (const auto& item : items) out.emplace_back(get(item));
  return out;
}

void write_study(Hdf5Writer& file, const Study& study, const Space& space, const SweepResult& result) {
  TableWriter table(file, "/study", "The study as it was given, and the totals of the sweep.");
  file.attribute("/study", "format", kResultsFormat);
  file.attribute("/study", "title", study.title);
  file.attribute("/study", "hash", study_hash(study));
  file.attribute("/study", "version", std::string(TESSERA_VERSION));
  file.attribute("/study", "record", std::string(to_string(study.record)));
  file.attribute("/study", "search", std::string(to_string(study.search)));
  file.attribute("/study", "law", study.law.name);
  file.attribute("/study", "optimizer", std::string(to_string(study.plan.optimizer)));
  file.attribute("/study", "sequence", study.sequence);
  file.attribute("/study", "signature", hash_text(result.signature));
  file.attribute("/study", "points", static_cast<std::int64_t>(result.counts.points));
  file.attribute("/study", "legal", static_cast<std::int64_t>(space.legal()));
  file.attribute("/study", "evaluations", static_cast<std::int64_t>(result.counts.evaluations));
  file.attribute("/study", "feasible", static_cast<std::int64_t>(result.counts.feasible));
  table.text("input", "The study file, then one line per change made on the command line.", {study.source});
  table.column("days", "d", "Windows of the study.", study.days);
  table.column("batches", "sequences", "Batches of the study; the index `batch` of other tables counts these.", study.batches);
  TableWriter presets(file, "/study/presets", "Every preset and file the study used, with all its values.");
  const auto used = used_presets(study);
  presets.text("kind", "cluster, law, goodput or model.", collect_text(used, [](const UsedPreset& p) { return p.kind; }));
  presets.text("name", "Name.", collect_text(used, [](const UsedPreset& p) { return p.name; }));
  presets.text("hash", "Hash of the text.", collect_text(used, [](const UsedPreset& p) { return hash_text(text_hash(p.text)); }));
  presets.text("text", "The values in full: TOML; of a model JSON.", collect_text(used, [](const UsedPreset& p) { return p.text; }));
}

void write_clusters(Hdf5Writer& file, const Study& study) {
  TableWriter table(file, "/clusters", "One row per cluster preset and size; the index `cluster` of other tables counts these.");
  const auto& c = study.clusters;
  table.text("name", "Name of the cluster preset, with the changes made to it.", collect_text(c, [](const Cluster& x) { return x.name; }));
  table.text("device", "Kind of device.", collect_text(c, [](const Cluster& x) { return x.device.name; }));
  table.text("device_title", "What people call the device.", collect_text(c, [](const Cluster& x) { return device_title(x.device.name); }));
  table.text("fabric", "Network.", collect_text(c, [](const Cluster& x) { return x.fabric.name; }));
  table.text("stack", "Software stack.", collect_text(c, [](const Cluster& x) { return x.stack.name; }));
  table.column("devices", "devices", "Devices of the cluster.", collect<std::int64_t>(c, [](const Cluster& x) { return x.devices; }));
  table.column("nodes", "nodes", "Nodes a scheduler allocates for them.", collect<std::int64_t>(c, [](const Cluster& x) { return nodes_of(x); }));
  table.column("node_devices", "devices", "Devices of a node.", collect<std::int64_t>(c, [](const Cluster& x) { return x.fabric.node_devices; }));
  table.column("memory_cap_bytes", "B", "Memory limit of a device: memory with reserve must not exceed it.",
               collect<double>(c, [](const Cluster& x) { return x.memory_cap; }));
  table.column("peak_bf16", "FLOP/s", "Dense bf16 peak of a device, the denominator of every mfu.",
               collect<double>(c, [](const Cluster& x) { return x.device.peak_bf16; }));
}

// Every field of Architecture is a column, so that a field added there is a column here.
struct FieldColumn {
  TableWriter& table;
  const std::vector<Architecture>& list;
  std::string name, unit, description;
  void operator()(std::int64_t Architecture::*m) const {
    table.column(name, unit, description, collect<std::int64_t>(list, [m](const Architecture& a) { return a.*m; }));
  }
  void operator()(double Architecture::*m) const {
    table.column(name, unit, description, collect<double>(list, [m](const Architecture& a) { return a.*m; }));
  }
  void operator()(bool Architecture::*m) const {
    table.column(name, unit, description, collect<std::uint8_t>(list, [m](const Architecture& a) { return a.*m ? 1 : 0; }));
  }
  void operator()(std::string Architecture::*m) const {
    table.text(name, description, collect_text(list, [m](const Architecture& a) { return a.*m; }));
  }
  template <class Word>
  void operator()(Word Architecture::*m) const {
    table.text(name, description, collect_text(list, [m](const Architecture& a) { return std::string(to_string(a.*m)); }));
  }
};

void write_architectures(Hdf5Writer& file, const Study& study) {
  TableWriter table(file, "/architectures", "One row per architecture after the guards; the index `architecture` counts these.");
  const auto& list = study.architectures;
  table.text("name", "Name or ladder keys.", collect_text(list, [](const Architecture& a) { return a.name; }));
  for (const auto& field : architecture_fields()) {
    const std::string unit = field.unit.empty() ? "1" : std::string(field.unit);
    const std::string description = fmt::format("Field `{}` of the architecture.", field.key);
    std::visit(FieldColumn{table, list, std::string(field.key), unit, description}, field.member);
  }
  const auto& n = study.counts;
  using Count = ParameterCount;
  auto count = [&](const char* name, const char* description, std::int64_t Count::*m) {
    table.column(name, "parameters", description, collect<std::int64_t>(n, [m](const Count& c) { return c.*m; }));
  };
  count("non_embedding_total", "Non-embedding parameters by the law's rule, all experts.", &Count::non_embedding_total);
  count("non_embedding_active", "Non-embedding parameters by the law's rule that one token meets.", &Count::non_embedding_active);
  count("all_total", "Every stored weight.", &Count::all_total);
  count("all_active", "Every weight one token meets, input embedding included.", &Count::all_active);
  count("all_active_without_input_embedding", "The same without the input embedding.", &Count::all_active_without_input_embedding);
  table.column("sparsity", "1", "1 - active / total of the non-embedding counts.", collect<double>(n, [](const Count& c) { return c.sparsity(); }));
}

void write_space(Hdf5Writer& file, const Space& space) {
  const Study& study = space.study();
  const InnerAxes& inner = space.inner();
  TableWriter table(file, "/space", "Tables that turn an id into its plan: id = mixed radix over cluster, batch, architecture, precision, "
                                    "mesh, expert, zero, micro_batch, recompute, variant, the last one fastest.");
  table.column("zero", "1", "ZeRO stages.", collect<std::int64_t>(inner.zero, [](int z) { return z; }));
  table.column("micro_batch", "sequences", "Micro-batches.", collect<std::int64_t>(inner.micro_batch, [](int b) { return b; }));
  table.text("recompute", "Recomputation modes.", collect_text(inner.recompute, [](Recompute r) { return to_string(r); }));
  table.text("schedule", "Schedule of each variant.", collect_text(inner.variant, [](const Variant& v) { return to_string(v.schedule); }));
  table.column("virtual_stages", "chunks", "Virtual stages of each variant.", collect<std::int64_t>(inner.variant, [](const Variant& v) { return v.virtual_stages; }));
  table.text("precision", "Number formats.", collect_text(space.precisions(), [](Precision p) { return to_string(p); }));
  std::vector<std::uint64_t> first_id;
  std::vector<std::uint32_t> mesh_cluster, expert_cluster;
  std::vector<Mesh> meshes;
  std::vector<ExpertMesh> experts;
  std::uint64_t next = 0;
  for (std::uint32_t c = 0; c < study.clusters.size(); ++c) {
    first_id.push_back(next);
    const auto& m = space.meshes(c);
    const auto& e = space.expert_meshes(c);
    next += study.batches.size() * study.architectures.size() * space.precisions().size() * m.size() * e.size() * inner.size();
    meshes.insert(meshes.end(), m.begin(), m.end());
    mesh_cluster.insert(mesh_cluster.end(), m.size(), c);
    experts.insert(experts.end(), e.begin(), e.end());
    expert_cluster.insert(expert_cluster.end(), e.size(), c);
  }
  table.column("first_id", "id", "First id of each cluster.", first_id);
  TableWriter mesh(file, "/space/meshes", "Meshes of every cluster, in the order of the mesh digit.");
  mesh.column("cluster", "index", "Row of /clusters.", mesh_cluster);
  mesh.column("pp", "devices", "Pipeline-parallel degree.", collect<std::int64_t>(meshes, [](const Mesh& m) { return m.pp; }));
  mesh.column("cp", "devices", "Context-parallel degree.", collect<std::int64_t>(meshes, [](const Mesh& m) { return m.cp; }));
  mesh.column("tp", "devices", "Tensor-parallel degree.", collect<std::int64_t>(meshes, [](const Mesh& m) { return m.tp; }));
  mesh.column("dp", "devices", "Data-parallel degree.", collect<std::int64_t>(meshes, [](const Mesh& m) { return m.dp; }));
  TableWriter expert(file, "/space/expert_meshes", "Expert meshes of every cluster, in the order of the expert digit.");
  expert.column("cluster", "index", "Row of /clusters.", expert_cluster);
  expert.column("ep", "devices", "Expert-parallel degree.", collect<std::int64_t>(experts, [](const ExpertMesh& e) { return e.ep; }));
  expert.column("etp", "devices", "Expert-tensor-parallel degree.", collect<std::int64_t>(experts, [](const ExpertMesh& e) { return e.etp; }));
}

void write_plans(TableWriter& table, const std::vector<Plan>& plans) {
  auto degree = [&](const char* name, const char* unit, const char* description, int Plan::*m) {
    table.column(name, unit, description, collect<std::int64_t>(plans, [m](const Plan& p) { return p.*m; }));
  };
  table.column("global_batch", "sequences", "Batch of a step, over all data-parallel ranks.", collect<std::int64_t>(plans, [](const Plan& p) { return p.batch; }));
  degree("tp", "devices", "Tensor-parallel degree.", &Plan::tp);
  degree("cp", "devices", "Context-parallel degree.", &Plan::cp);
  degree("pp", "devices", "Pipeline-parallel degree.", &Plan::pp);
  degree("dp", "devices", "Data-parallel degree.", &Plan::dp);
  degree("ep", "devices", "Expert-parallel degree.", &Plan::ep);
  degree("etp", "devices", "Expert-tensor-parallel degree.", &Plan::etp);
  degree("virtual_stages", "chunks", "Model chunks per device.", &Plan::virtual_stages);
  degree("micro_batch", "sequences", "Micro-batch.", &Plan::micro_batch);
  degree("zero", "1", "ZeRO stage.", &Plan::zero);
  table.text("recompute", "Recomputation.", collect_text(plans, [](const Plan& p) { return to_string(p.recompute); }));
  table.text("schedule", "Pipeline schedule.", collect_text(plans, [](const Plan& p) { return to_string(p.schedule); }));
  table.text("precision", "Number format.", collect_text(plans, [](const Plan& p) { return to_string(p.precision); }));
}

/// Columns that BestRow and TopRow share.
template <class Row>
void write_costs(TableWriter& table, const std::vector<Row>& rows) {
  auto real = [&](const char* name, const char* unit, const char* description, double Row::*m) {
    table.column(name, unit, description, collect<double>(rows, [m](const Row& r) { return r.*m; }));
  };
  table.column("cluster", "index", "Row of /clusters.", collect<std::uint32_t>(rows, [](const Row& r) { return r.cluster; }));
  table.column("batch", "index", "Row of /study/batches.", collect<std::uint32_t>(rows, [](const Row& r) { return r.batch; }));
  table.column("architecture", "index", "Row of /architectures.", collect<std::uint32_t>(rows, [](const Row& r) { return r.architecture; }));
  table.column("id", "id", "Id of the point.", collect<std::uint64_t>(rows, [](const Row& r) { return r.id; }));
  real("step_seconds", "s", "Time of a step; 0 where the plan does not fit.", &Row::step_seconds);
  real("memory_bytes", "B", "Memory allocated on the heaviest stage.", &Row::memory_bytes);
  real("memory_with_reserve_bytes", "B", "With fragmentation and context: decides fit.", &Row::memory_with_reserve_bytes);
  real("compute_seconds", "s", "Part of the step: computing.", &Row::compute_seconds);
  real("communication_seconds", "s", "Part of the step: exposed communication.", &Row::communication_seconds);
  real("ramp_seconds", "s", "Part of the step: pipeline fill, drain and imbalance.", &Row::ramp_seconds);
  real("host_seconds", "s", "Part of the step: waiting for the host, and fixed costs.", &Row::host_seconds);
}

void write_best(Hdf5Writer& file, const Space& space, const SweepResult& result) {
  TableWriter table(file, "/best", "The best plan of every cluster x batch x architecture that has a legal one.");
  const Study& study = space.study();
  write_costs(table, result.best);
  table.column("feasible", "1", "1: the plan fits; 0: nothing fits, the row is the closest miss.",
               collect<std::uint8_t>(result.best, [](const BestRow& r) { return r.feasible; }));
  table.column("mfu", "1", "Utilisation by the law's convention, 6 N_active per token over the dense bf16 peak; 0 where nothing fits.",
               collect<double>(result.best, [&](const BestRow& r) {
                 const Cluster& c = study.clusters[r.cluster];
                 if (!r.feasible) return 0.0;
                 return law_mfu(static_cast<double>(study.counts[r.architecture].non_embedding_active), study.batches[r.batch], study.sequence,
                                r.step_seconds, c.devices, c.device.peak_bf16);
               }));
  write_plans(table, collect<Plan>(result.best, [&](const BestRow& r) { return space.plan(space.decode(r.id)); }));
}

void write_top(Hdf5Writer& file, const SweepResult& result) {
  TableWriter table(file, "/top", "The architectures of lowest predicted loss in every envelope (cluster x window), each with its best plan.");
  const auto& top = result.top;
  auto real = [&](const char* name, const char* unit, const char* description, double TopRow::*m) {
    table.column(name, unit, description, collect<double>(top, [m](const TopRow& r) { return r.*m; }));
  };
  table.column("rank", "1", "1 is the lowest loss; restarts in each envelope.", collect<std::int64_t>(top, [](const TopRow& r) { return r.rank; }));
  real("window_days", "d", "Window.", &TopRow::window_days);
  write_costs(table, top);
  real("mfu", "1", "Utilisation by the law's convention, 6 N_active per token over the dense bf16 peak.", &TopRow::mfu);
  real("goodput", "1", "Share of the window that trains.", &TopRow::goodput);
  real("tokens", "tokens", "Training tokens the window pays for.", &TopRow::tokens);
  real("tokens_per_active_parameter", "1", "Tokens over active non-embedding parameters.", &TopRow::tokens_per_active_parameter);
  table.column("tokens_cut", "1", "1: tokens were cut to the upper bound.", collect<std::uint8_t>(top, [](const TopRow& r) { return r.tokens_cut ? 1 : 0; }));
  real("model_flops", "FLOP", "6 N_active D.", &TopRow::model_flops);
  real("loss", "nats/token", "Predicted loss.", &TopRow::loss);
  write_plans(table, collect<Plan>(top, [](const TopRow& r) { return r.plan; }));
}

void write_envelopes(Hdf5Writer& file, const SweepResult& result) {
  TableWriter table(file, "/envelopes", "Architectures of every envelope by what became of them.");
  const auto& e = result.envelopes;
  table.column("cluster", "index", "Row of /clusters.", collect<std::uint32_t>(e, [](const EnvelopeCounts& x) { return x.cluster; }));
  table.column("window_days", "d", "Window.", collect<double>(e, [](const EnvelopeCounts& x) { return x.window_days; }));
  table.column("ranked", "architectures", "With a predicted loss.", collect<std::uint64_t>(e, [](const EnvelopeCounts& x) { return x.ranked; }));
  table.column("nothing_fits", "architectures", "No plan fits the memory.", collect<std::uint64_t>(e, [](const EnvelopeCounts& x) { return x.nothing_fits; }));
  table.column("over_limits", "architectures", "Above a limit for serving.",
               collect<std::uint64_t>(e, [](const EnvelopeCounts& x) { return x.over_limits; }));
  table.column("too_few_tokens", "architectures", "Below the bound on tokens per active parameter.",
               collect<std::uint64_t>(e, [](const EnvelopeCounts& x) { return x.too_few_tokens; }));
  table.column("outside_law", "architectures", "The law has no value there.",
               collect<std::uint64_t>(e, [](const EnvelopeCounts& x) { return x.outside_law; }));
}

void write_refused(Hdf5Writer& file, const Counts& counts) {
  TableWriter table(file, "/refused", "Points that were refused, by reason, with the least id of each as a sample.");
  std::vector<std::string> reason, explanations;
  std::vector<std::uint64_t> number, sample;
  for (std::size_t i = 1; i < kReasonCount; ++i) {
    reason.emplace_back(to_string(static_cast<Reason>(i)));
    explanations.emplace_back(explanation(static_cast<Reason>(i)));
    number.push_back(counts.refused[i]);
    sample.push_back(counts.sample[i]);
  }
  table.text("reason", "Key of the reason.", reason);
  table.text("explanation", "The reason in a sentence.", explanations);
  table.column("count", "points", "Points refused for it.", number);
  table.column("sample_id", "id", "Least id refused for it; 18446744073709551615: none.", sample);
  const std::vector<ClosestMiss> miss(counts.miss.id == kNoId ? 0 : 1, counts.miss);
  TableWriter closest(file, "/refused/closest_miss", "The plan that missed the memory limit by least; no row where none did.");
  closest.column("id", "id", "Id of the point.", collect<std::uint64_t>(miss, [](const ClosestMiss& m) { return m.id; }));
  closest.column("excess_bytes", "B", "Memory with reserve above the limit.", collect<double>(miss, [](const ClosestMiss& m) { return m.excess_bytes; }));
  closest.column("memory_with_reserve_bytes", "B", "Memory with reserve.", collect<double>(miss, [](const ClosestMiss& m) { return m.memory_with_reserve_bytes; }));
}

}  // namespace

void write_tables(Hdf5Writer& file, const Study& study, const Space& space, const SweepResult& result) {
  write_study(file, study, space, result);
  write_clusters(file, study);
  write_architectures(file, study);
  write_space(file, space);
  write_best(file, space, result);
  write_top(file, result);
  write_envelopes(file, result);
  write_refused(file, result.counts);
}

}  // namespace tessera

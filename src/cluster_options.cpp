#include "src/cluster_options.hpp"

#include <fmt/format.h>

#include "io/architecture_reader.hpp"
#include "io/megatron_arguments.hpp"
#include "io/preset_name.hpp"
#include "tessera/error.hpp"

namespace tessera {

void add_workload_options(CLI::App& c, WorkloadOptions& o) {
  c.add_option("ARCHITECTURE", o.named, "The same as -a");
  c.add_option("-a,--architecture", o.architecture, "Preset, file, config.json or ladder:q=12,experts=96,top_k=2,split=4");
  c.add_option("-c,--cluster", o.cluster, "Fabric preset or file with changes, e.g. p5,stack=torchtitan-fsdp2,precision=fp8,nic=2x")->capture_default_str();
  c.add_option("--nodes", o.nodes, "Nodes of the cluster (what a scheduler allocates)");
  c.add_option("--devices", o.devices, "Devices, in place of --nodes");
  c.add_option("--batch", o.batch, "Sequences per optimizer step, over all ranks");
  c.add_option("--seq", o.sequence, "Tokens per sequence");
  c.add_option("--optimizer", o.optimizer, "adam, muon or scion")->capture_default_str();
  c.add_option("--megatron", o.megatron, "Megatron argument list (file or text) in place of -a, --batch and --seq");
}

namespace {

// With -a or without it: one architecture.
std::string named_architecture(const WorkloadOptions& o) {
  if (!o.named.empty() && !o.architecture.empty())
    throw InputError(fmt::format("two architectures were given, '{}' and -a {}", o.named, o.architecture), "one plan is of one architecture", "drop one.");
  return o.named.empty() ? o.architecture : o.named;
}

}  // namespace

PlanQuestion workload_question(const WorkloadOptions& o, Plan* plan) {
  PlanQuestion q;
  const std::string architecture = named_architecture(o);
  std::int64_t devices = o.devices, nodes = o.nodes, batch = o.batch, sequence = o.sequence;
  if (!o.megatron.empty()) {
    if (!architecture.empty())
      throw InputError(fmt::format("both the architecture '{}' and --megatron were given", architecture), "each names the architecture", "drop one.");
    const MegatronRun run = read_megatron_arguments(o.megatron);
    q.architecture = run.architecture;
    if (batch == 0) batch = run.plan.batch;
    if (sequence == 0) sequence = run.sequence;
    if (devices == 0 && nodes == 0) devices = run.devices > 0 ? run.devices : run.plan.devices();
    if (plan) *plan = run.plan;
    q.precision = run.plan.precision;
    for (const auto& sentence : run.assumed) fmt::print(stderr, "note: {}\n", sentence);
  } else {
    if (architecture.empty())
      throw InputError("no architecture", "neither a name nor -a is given", "give one, e.g. -a mixtral_8x7b (tessera presets --kind architectures).");
    q.architecture = read_architecture(architecture);
  }
  if ((nodes > 0) == (devices > 0) || nodes < 0 || devices < 0)
    throw InputError(nodes != 0 && devices != 0 ? "both --nodes and --devices were given" : "the size of the cluster is missing or not positive",
                     "exactly one of --nodes and --devices is needed", "give for example --nodes 4.");
  if (batch <= 0) throw InputError("--batch is missing or not positive", "a step needs at least one sequence", "give for example --batch 512.");
  if (sequence <= 0) throw InputError("--seq is missing or not positive", "a sequence needs at least one token", "give for example --seq 4096.");
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (batch > kMost || sequence > kMost || nodes > (1 << 24) || devices > (1 << 26))
    throw InputError("a number is too large", "at most 2^24 nodes, 2^26 devices and 2^40 sequences or tokens are taken", "give a smaller one.");
  SourcedCluster cluster = read_cluster(o.cluster, devices);
  if (nodes > 0) cluster.cluster.devices = nodes * cluster.cluster.fabric.node_devices;
  q.cluster = cluster.cluster;
  q.batch = batch;
  q.sequence = sequence;
  if (cluster.precision) q.precision = *cluster.precision;
  if (q.cluster.peak(q.precision) <= 0)
    throw InputError(fmt::format("{} has no {}", q.cluster.device.name, to_string(q.precision)), "the device lacks the number format", "choose another precision.");
  const auto optimizer = optimizer_from(o.optimizer);
  if (!optimizer) throw InputError("unknown optimizer '" + o.optimizer + "'", "it decides memory and update time", "use adam, muon or scion.");
  q.optimizer = *optimizer;
  q.fix = o.fix;
  q.forbid = o.forbid;
  return q;
}

std::string describe_cluster(const Cluster& c) {
  return fmt::format("{} ({}, {}): {} node{}, {} device{}", c.name, device_title(c.device.name), c.stack.name, nodes_of(c), nodes_of(c) == 1 ? "" : "s", c.devices,
                     c.devices == 1 ? "" : "s");
}

}  // namespace tessera

// The options by which plan, explain and others name an architecture, a cluster and a workload.
#pragma once
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "io/preset_reader.hpp"
#include "src/plan_search.hpp"

namespace tessera {

struct WorkloadOptions {
  std::string architecture, named, cluster = "p6-b200", megatron, optimizer = "adam";
  std::int64_t nodes = 0, devices = 0, batch = 0, sequence = 0;
  std::vector<std::string> fix, forbid;
};

/// Adds ARCHITECTURE -a -c --nodes --devices --batch --seq --optimizer --megatron.
void add_workload_options(CLI::App&, WorkloadOptions&);

/// What the options ask. `plan` (may be null) takes the plan of a Megatron argument list where one was given. Throws InputError:
/// nothing or both of --nodes and --devices, zero or negative numbers, unknown names.
PlanQuestion workload_question(const WorkloadOptions&, Plan* plan = nullptr);

/// "4 nodes, 32 devices"; says what is left idle where --devices is no multiple of a node.
std::string describe_cluster(const Cluster&);

}  // namespace tessera

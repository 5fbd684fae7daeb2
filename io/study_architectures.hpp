// The [architecture] part of a study file: a family's grid or a list of models, with the guards applied.
#pragma once
#include <string>
#include <vector>

#include "io/toml_reader.hpp"
#include "tessera/study.hpp"

namespace tessera {

/// Appends the architectures of one table to study.architectures and study.counts. Keys:
///   models = ["mixtral_8x7b", "path/config.json", ...]   anything read_architecture() takes
///   or family = "ladder" (default), "dense", "moe", each key a value or a list, every combination taken:
///     ladder  q experts top_k split vocabulary kv_heads shared_experts dense_layers head_dim layers_per_rung
///             heads_per_rung ffn_ratio tied;  combinations with top_k >= experts are left out
///     dense   q (the dense models of the ladder), or the fields of an architecture (layers, hidden, ...)
///     moe     the fields of an architecture
///   min_sparsity, max_total_parameters, max_active_parameters (non-embedding): guards
/// Throws InputError naming file, line and key, also where nothing is left.
void read_architectures(TomlReader&, Study&);

}  // namespace tessera

// Shared by the exporters of io/: the error of a missing argument, and small pieces of text.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "io/export.hpp"

namespace tessera::exporting {

/// Throws InputError "<framework> cannot express <field> = <value> (<why>) <remedy>".
[[noreturn]] void cannot_express(std::string_view framework, std::string_view field, const std::string& value,
                                 const std::string& why, const std::string& remedy);

/// cannot_express() for every field of the architecture that no decoder-only framework of the list has
/// arguments for: parts counted but not described, state-space and linear-attention layers, cross-layer
/// attention, post-norms.
void refuse_exotic_parts(std::string_view framework, const Architecture&);

/// The layers as a Python expression, 1 for each layer with `flag`: "[0]*1+[1]*47".
std::string python_pattern(const std::vector<bool>& layers);
/// Which layers are MoE, first to last.
std::vector<bool> moe_layers(const Architecture&);
/// N where window_share = (N-1)/N and N divides the layers: every N-th layer is without the window; else 0.
std::int64_t window_period(const Architecture&);
/// Which layers use the sliding window: window_share of them, spread evenly (an architecture knows the share
/// only).
std::vector<bool> window_layers(const Architecture&);

/// "Meant for 256 devices: 32 nodes of 8." and the like: lines for the head of every exported file.
std::vector<std::string> heading(const ExportRequest&);

/// The geometry as the configuration of a Hugging Face model.
struct HuggingFaceModel {
  std::string model_type;         ///< "llama", "glm4_moe", ...
  nlohmann::ordered_json config;  ///< config.json
  std::vector<std::string> notes;
};
/// Chooses the family that has this geometry; throws InputError in the name of `framework` naming the field
/// that none has.
HuggingFaceModel huggingface_config(const Architecture&, std::int64_t sequence, std::string_view framework);

Export megatron_lm(const ExportRequest&);
Export megatron_bridge(const ExportRequest&);
Export nemo(const ExportRequest&);
Export torchtitan(const ExportRequest&);
Export deepspeed(const ExportRequest&);

}  // namespace tessera::exporting

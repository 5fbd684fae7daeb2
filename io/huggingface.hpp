// Importing the geometry of a Hugging Face config.json: by model_type where it is known (Llama, Mistral, Mixtral,
// Qwen2/3 dense and MoE, DeepSeek V1-V3, Kimi K2, GPT-OSS, GLM-4 MoE, OLMoE, Phi-MoE, Llama 4, DBRX, Grok-1, GPT-2,
// GPT-NeoX, MiniMax, Hunyuan, Nemotron-H), otherwise by the names of its fields.
#pragma once
#include <string>
#include <string_view>

#include "tessera/architecture.hpp"

namespace tessera {

/// `text` is the JSON; `name` the file's name for messages. `left_out` says what is not counted, and that an
/// unknown model_type was read by field names alone. Throws InputError naming file and key: not JSON, not an
/// object, a missing or mistyped key, a geometry that does not fit together.
Architecture architecture_from_huggingface(std::string_view text, const std::string& name);

/// The same from a file, or from the folder that holds config.json.
Architecture read_huggingface(const std::string& path);

}  // namespace tessera

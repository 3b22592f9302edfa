// Parameters under the names and in the layout of a Hugging Face Llama
// checkpoint: one tensor per layer, linear weights as [out, in].
#ifndef RINGMAX_MODEL_HUGGING_FACE_H_
#define RINGMAX_MODEL_HUGGING_FACE_H_

#include <string>
#include <utility>
#include <vector>

#include "ringmax/base/array.h"
#include "ringmax/base/safetensors.h"
#include "ringmax/model/options.h"

namespace ringmax::model {

// `weights` in the order of parameters(). Rotary embedding pairs (i, i + D/2)
// as Hugging Face does, so nothing is permuted within a head. A tied head whose
// logits are scaled has no name there: it is written as a head of its own.
std::vector<std::pair<std::string, HostArray>> to_hugging_face(
    const std::vector<HostArray>& weights, const ModelOptions& options);

// The text of the config.json that goes with them.
std::string hugging_face_config(const ModelOptions& options);

// The way back: the model that a config.json describes, its activations in
// float32. `path` is for messages. Throws kInvalidArgument where the text is no
// such file, or describes a model that RingMax does not have.
ModelOptions options_of_hugging_face(const std::string& text,
                                     const std::string& path);

// The weights of a file written from to_hugging_face(), in the order of
// parameters(). Throws kInvalidArgument, naming the tensor, where one is
// missing or has another shape or dtype than `options` ask for.
std::vector<HostArray> from_hugging_face(const SafetensorsFile& file,
                                         const ModelOptions& options);

}  // namespace ringmax::model

#endif  // RINGMAX_MODEL_HUGGING_FACE_H_

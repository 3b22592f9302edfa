// What a model asks of attention: its mask, and the settings of attend().
#ifndef RINGMAX_MODEL_ATTENTION_H_
#define RINGMAX_MODEL_ATTENTION_H_

#include "ringmax/attention/gate.h"
#include "ringmax/attention/mask.h"
#include "ringmax/attention/options.h"
#include "ringmax/hw/target.h"
#include "ringmax/mesh/mesh.h"
#include "ringmax/model/options.h"

namespace ringmax::model {

// On positions in a row; documents are segments, which are data.
attention::Mask attention_mask(const ModelOptions& options);

// `plan` says how the sequence is spread; what plan_context made.
attention::AttendSettings attend_settings(
    const ModelOptions& options, const attention::AttentionOptions& attention,
    const attention::ContextPlan& plan, const mesh::Mesh& mesh,
    const hw::Target& target);

}  // namespace ringmax::model

#endif  // RINGMAX_MODEL_ATTENTION_H_

// The whole plan of the model's attention on a mesh, for reports; what the
// settings need of it is in plan_context() (options.h).
#ifndef RINGMAX_MODEL_PLAN_ATTENTION_H_
#define RINGMAX_MODEL_PLAN_ATTENTION_H_

#include "ringmax/attention/gate.h"
#include "ringmax/hw/target.h"
#include "ringmax/mesh/mesh.h"
#include "ringmax/model/options.h"

namespace ringmax::model {

// `context` says strategy and layout. Throws kInvalidArgument with everything
// that is wrong, as attention::plan_attend().
attention::AttendPlan plan_attention(const ModelOptions& model,
                                     const attention::AttentionOptions& options,
                                     const mesh::Mesh& mesh,
                                     const SequenceShape& shape,
                                     const hw::Target& target,
                                     const attention::ContextPlan& context);

}  // namespace ringmax::model

#endif  // RINGMAX_MODEL_PLAN_ATTENTION_H_

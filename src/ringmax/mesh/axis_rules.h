// Logical axis names and the rules that map them to mesh axes.
//
// The model names what a tensor dimension means ("embed", "activation_length");
// the rules say over which mesh axes such a dimension is sharded. Names and
// the way rules are applied are those of MaxText's `logical_axis_rules`. This
// file knows neither tensor sizes (shard_dims checks divisibility) nor devices.
#ifndef RINGMAX_MESH_AXIS_RULES_H_
#define RINGMAX_MESH_AXIS_RULES_H_

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/mesh/mesh.h"

namespace ringmax::mesh {

// A mesh with every axis of kAxes (options.h), in that order; axes not in
// `sizes` have size 1. At most one size may be -1: what is left over of
// `device_count`. Throws kInvalidArgument, naming the axes and their product,
// when an axis is unknown or named twice, a size is neither positive nor -1,
// or the product is not `device_count`. device_count 0 means "the product"; a
// size of -1 is then 1.
Mesh make_mesh(std::span<const MeshAxis> sizes, std::int64_t device_count = 0);
Mesh make_mesh(std::initializer_list<MeshAxis> sizes,
               std::int64_t device_count = 0);

struct AxisRule {
  std::string logical;
  std::vector<std::string> mesh_axes;  // major to minor
  friend bool operator==(const AxisRule&, const AxisRule&) = default;
};
using AxisRules = std::vector<AxisRule>;

// Weights: `embed` over (fsdp, context), `mlp`, heads and `vocab` over tensor.
// Activations: batch over (data, fsdp), length over context, heads, mlp and
// vocab over tensor, embed whole. `norm` (a 1-D scale of size emb) and
// `layers` are whole: a norm's scale is emb numbers a layer, and keeping it
// whole saves a gather in front of every norm.
const AxisRules& default_axis_rules();

// The spec of a tensor whose dimensions carry `logical` names; an empty name
// is a dimension that stays whole. Rules are tried in their own order: each
// goes to the first dimension of its name that no rule has shaped yet, and
// takes those of its axes that the mesh has at a size above 1 and that no
// earlier rule took. So an axis appears at most once, the first taker wins,
// and a second rule for the same name serves a second dimension of that name,
// or a dimension whose first rule found nothing left to take.
// Throws kInvalidArgument for a name without a rule.
PartitionSpec logical_to_spec(std::span<const std::string_view> logical,
                              const AxisRules& rules, const Mesh& mesh);
PartitionSpec logical_to_spec(std::initializer_list<std::string_view> logical,
                              const AxisRules& rules, const Mesh& mesh);

}  // namespace ringmax::mesh

#endif  // RINGMAX_MESH_AXIS_RULES_H_

#include "ringmax/mesh/axis_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ringmax/base/error.h"
#include "ringmax/mesh/options.h"

namespace ringmax::mesh {
namespace {

std::string requested_string(std::span<const MeshAxis> sizes) {
  std::vector<std::string> parts;
  for (const MeshAxis& axis : sizes) {
    if (axis.size != 1) {
      parts.push_back(fmt::format("{}={}", axis.name, axis.size));
    }
  }
  return parts.empty() ? "all axes 1"
                       : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

Mesh make_mesh(std::span<const MeshAxis> sizes, std::int64_t device_count) {
  std::vector<MeshAxis> axes;
  for (const AxisInfo& info : kAxes) {
    axes.push_back({std::string(info.axis), 1});
  }
  if (device_count < 0) {
    fail_invalid("a mesh needs a positive number of devices, got {}",
                 device_count);
  }
  MeshAxis* rest = nullptr;
  std::set<std::string_view> seen;
  std::int64_t product = 1;
  for (const MeshAxis& wanted : sizes) {
    MeshAxis* axis = &axes[axis_index(wanted.name)];
    if (!seen.insert(wanted.name).second) {
      fail_invalid("mesh axis {} is named twice", wanted.name);
    }
    if (wanted.size == -1) {
      if (rest != nullptr) {
        fail_invalid(
            "mesh axes {} and {} both have size -1; only one axis can be what "
            "is left over",
            rest->name, wanted.name);
      }
      rest = axis;
      continue;
    }
    if (wanted.size < 1) {
      fail_invalid(
          "mesh axis {} has size {}; valid are positive sizes, or -1 for what "
          "is left over",
          wanted.name, wanted.size);
    }
    axis->size = wanted.size;
    if (__builtin_mul_overflow(product, wanted.size, &product)) {
      fail_invalid("the mesh axes ({}) multiply to more than 2^63 devices",
                   requested_string(sizes));
    }
  }
  if (device_count > 0) {
    if (rest != nullptr && device_count % product == 0) {
      rest->size = device_count / product;
    } else if (rest != nullptr) {
      fail_invalid(
          "mesh axis {} takes what is left over, but the other mesh axes ({}) "
          "multiply to {}, which does not divide the {} devices",
          rest->name, requested_string(sizes), product, device_count);
    } else if (product != device_count) {
      fail_invalid(
          "the mesh axes ({}) multiply to {}, but there are {} devices; the "
          "product and the number of devices must agree, or one axis be -1",
          requested_string(sizes), product, device_count);
    }
  }
  return Mesh(std::move(axes));
}

Mesh make_mesh(std::initializer_list<MeshAxis> sizes,
               std::int64_t device_count) {
  return make_mesh(std::span<const MeshAxis>(sizes.begin(), sizes.size()),
                   device_count);
}

const AxisRules& default_axis_rules() {
  static const AxisRules rules = [] {
    const std::vector<std::string> batch = {"data", "fsdp", "fsdp_transpose",
                                            "expert"};
    const std::vector<std::string> length = {"context", "context_usp_ulysses"};
    const std::vector<std::string> tensor = {"tensor", "tensor_sequence"};
    const std::vector<std::string> heads = {"tensor", "tensor_sequence",
                                            "autoregressive"};
    const std::vector<std::string> embed = {"fsdp", "fsdp_transpose", "context",
                                            "context_usp_ulysses", "expert"};
    return AxisRules{
        // Activations.
        {"activation_batch", batch},
        {"activation_length", length},
        {"activation_heads", heads},
        {"activation_kv_heads", tensor},
        {"activation_mlp", tensor},
        {"activation_vocab", tensor},
        {"activation_embed", {}},
        {"activation_kv", {}},
        {"activation_stage", {"stage"}},
        {"activation_exp", {"expert"}},
        // Weights, their gradients and their optimizer state.
        {"vocab", heads},
        {"heads", heads},
        {"q_heads", heads},
        {"kv_heads", heads},
        {"mlp",
         {"fsdp_transpose", "tensor", "tensor_sequence", "autoregressive"}},
        {"embed", embed},
        {"kv", {}},
        {"qkv", {}},
        {"norm", {}},
        {"layers", {"stage"}},
        {"exp", {"expert"}},
    };
  }();
  return rules;
}

PartitionSpec logical_to_spec(std::span<const std::string_view> logical,
                              const AxisRules& rules, const Mesh& mesh) {
  for (std::string_view name : logical) {
    if (name.empty()) continue;
    if (std::none_of(rules.begin(), rules.end(), [&](const AxisRule& rule) {
          return rule.logical == name;
        })) {
      std::set<std::string_view> known;
      for (const AxisRule& rule : rules) known.insert(rule.logical);
      fail_invalid("no logical axis rule for {}; there are rules for {}", name,
                   fmt::join(known, ", "));
    }
  }
  PartitionSpec spec;
  spec.dims.resize(logical.size());
  std::set<std::string_view> taken;
  for (const AxisRule& rule : rules) {
    for (std::size_t d = 0; d < logical.size(); ++d) {
      if (logical[d] != rule.logical || !spec.dims[d].empty()) continue;
      for (const std::string& axis : rule.mesh_axes) {
        if (mesh.size(axis) > 1 && taken.insert(axis).second) {
          spec.dims[d].push_back(axis);
        }
      }
      break;
    }
  }
  return spec;
}

PartitionSpec logical_to_spec(std::initializer_list<std::string_view> logical,
                              const AxisRules& rules, const Mesh& mesh) {
  return logical_to_spec(
      std::span<const std::string_view>(logical.begin(), logical.size()), rules,
      mesh);
}

}  // namespace ringmax::mesh

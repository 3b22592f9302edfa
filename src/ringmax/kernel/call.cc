#include "ringmax/kernel/call.h"

#include "ringmax/base/error.h"
#include "ringmax/kernel/mosaic.h"
#include "ringmax/kernel/twin.h"

namespace ringmax::kernel {

graph::Values call(const Kernel& kernel, Lowering lowering,
                   const graph::Values& operands) {
  kernel.check_complete();
  std::vector<Shape> wanted;
  if (kernel.walk_dynamic()) wanted.emplace_back(DType::kI32, Dims{});
  for (const RefKind kind : {RefKind::kPrefetch, RefKind::kInput}) {
    for (const RefId id : kernel.refs_of(kind)) {
      wanted.push_back(kernel.ref(id).array);
    }
  }
  if (operands.size() != wanted.size()) {
    fail_invalid("kernel {} takes {} operands, not {}", kernel.name(),
                 wanted.size(), operands.size());
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (operands[i].shape() != wanted[i]) {
      fail_invalid("kernel {}: operand {} is {}, not {}", kernel.name(), i,
                   wanted[i].to_string(), operands[i].describe());
    }
  }
  return lowering == Lowering::kMosaic ? call_mosaic(kernel, operands)
                                       : call_twin(kernel, operands);
}

}  // namespace ringmax::kernel

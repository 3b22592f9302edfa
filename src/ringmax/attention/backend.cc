#include "ringmax/attention/backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ringmax/attention/blockwise.h"
#include "ringmax/attention/native.h"
#include "ringmax/attention/splash/backend.h"
#include "ringmax/base/error.h"

namespace ringmax::attention {
namespace {

// Rows that nobody reads are not in the message: which operand is wrong, and
// what it should be, finds the caller.
void check(const char* name, graph::Value value, const Shape& shape) {
  if (value.valid() && value.shape() == shape) return;
  fail(ErrorCode::kInternal, "attention kernel: {} is {}, not {}", name,
       value.valid() ? value.describe() : "missing", shape.to_string());
}

}  // namespace

std::span<const Backend* const> backends() {
  static const Backend* const all[] = {&splash::mosaic_backend(),
                                       &native_backend(), &stablehlo_backend(),
                                       &splash::mosaic_twin_backend()};
  return all;
}

BackendChoice choose_backend(std::string_view kernel,
                             const KernelRequest& request,
                             const hw::Target& target,
                             std::string_view setting) {
  BackendChoice choice;
  std::vector<std::string_view> names = {"auto"};
  for (const Backend* backend : backends()) {
    names.push_back(backend->name());
    const bool named = kernel == backend->name();
    if (!named && (kernel != "auto" || !backend->automatic(target))) continue;
    const std::optional<std::string> why = backend->refusal(request, target);
    if (!why) {
      choice.backend = backend;
      return choice;
    }
    if (named) {
      fail_invalid("{}={} cannot compute this: {}", setting, kernel, *why);
    }
    choice.refused.push_back(fmt::format("{}: {}", backend->name(), *why));
  }
  if (kernel != "auto") {
    // A known name has returned or thrown by now.
    fail_invalid("{}={} is unknown; valid are {}", setting, kernel,
                 fmt::join(names, ", "));
  }
  fail_invalid("{}={}: no kernel computes this: {}", setting, kernel,
               fmt::join(choice.refused, "; "));
}

void check_operands(const KernelRequest& r, const KernelOperands& o) {
  check("q", o.q_BKGSD,
        {r.dtype, {r.batch, r.kv_heads, r.groups, r.queries, r.head_dim}});
  check("k", o.k_BKTD, {r.dtype, {r.batch, r.kv_heads, r.keys, r.head_dim}});
  check("v", o.v_BKTV, {r.dtype, {r.batch, r.kv_heads, r.keys, r.value_dim}});
  check("q_positions", o.q_positions_S, {DType::kI32, {r.queries}});
  check("kv_positions", o.kv_positions_T, {DType::kI32, {r.keys}});
  if (r.segments) {
    check("q_segments", o.q_segments_BS, {DType::kI32, {r.batch, r.queries}});
    check("kv_segments", o.kv_segments_BT, {DType::kI32, {r.batch, r.keys}});
  }
  if (r.tile) check("tile", o.tile_ST, {DType::kBool, {r.queries, r.keys}});
}

}  // namespace ringmax::attention

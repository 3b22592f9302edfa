#include "ringmax/kernel/kernel.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ringmax/base/error.h"

namespace ringmax::kernel {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

// In VMEM the last two dimensions are cut into tiles of 32-bit rows of 128
// lanes, eight of them for a window of more rows than that.
std::int64_t padded_bytes(const Shape& shape) {
  Dims dims = shape.dims;
  if (dims.empty()) dims = {1};
  dims.back() = round_up(dims.back(), 128);
  const auto size = static_cast<std::int64_t>(dtype_size(shape.dtype));
  if (dims.size() > 1) {
    std::int64_t& rows = dims[dims.size() - 2];
    rows = round_up(rows, 8 * (4 / std::min<std::int64_t>(size, 4)));
  }
  return element_count(dims) * size;
}

}  // namespace

const Shape& Value::shape() const { return kernel->value_shape(id); }

Kernel::Kernel(std::string name) : name_(std::move(name)) {}

void Kernel::parallel(std::int64_t size) {
  if (size < 1 || walk_steps_ != 0) {
    fail_invalid(
        "kernel {}: a parallel dimension of {} steps; they are >= 1 and "
        "declared before the walk",
        name_, size);
  }
  parallel_.push_back(size);
}

void Kernel::walk(std::int64_t steps, bool dynamic) {
  if (steps < 1 || walk_steps_ != 0) {
    fail_invalid("kernel {}: one walk of at least 1 step, not {}", name_,
                 steps);
  }
  walk_steps_ = steps;
  walk_dynamic_ = dynamic;
}

Ref Kernel::add_ref(RefInfo info) {
  if (walk_steps_ == 0) {
    fail_invalid("kernel {}: '{}' is declared before the walk", name_,
                 info.name);
  }
  if (!refs_.empty() && refs_.back().kind > info.kind) {
    fail_invalid(
        "kernel {}: '{}' is declared too late; the order is prefetch, inputs, "
        "outputs, scratch",
        name_, info.name);
  }
  refs_.push_back(std::move(info));
  return Ref{this, static_cast<RefId>(refs_.size()) - 1};
}

Ref Kernel::prefetch(std::string name, std::int64_t size) {
  RefInfo info;
  info.kind = RefKind::kPrefetch;
  info.name = std::move(name);
  info.array = Shape(DType::kI32, {size});
  info.block = {size};
  return add_ref(std::move(info));
}

Ref Kernel::window(RefKind kind, std::string name, Shape array, Dims block,
                   const IndexMap& map) {
  bool fits = block.size() == array.dims.size() && block.size() >= 2;
  for (std::size_t d = 0; fits && d < block.size(); ++d) {
    fits = block[d] >= 1 && array.dims[d] % block[d] == 0;
  }
  if (!fits) {
    fail_invalid(
        "kernel {}: blocks {} of '{}' do not divide {} (rank 2 at least)",
        name_, dims_string(block), name, array.to_string());
  }
  RefInfo info;
  info.kind = kind;
  info.name = std::move(name);
  info.array = std::move(array);
  info.block = std::move(block);
  info.index_map = grid_region([&](const Values& grid) { return map(grid); });
  const Region& indices = region(info.index_map);
  if (indices.yields.size() != info.block.size()) {
    fail_invalid("kernel {}: the index map of '{}' returns {} indices for {}",
                 name_, info.name, indices.yields.size(),
                 info.array.to_string());
  }
  for (const std::int32_t index : indices.yields) {
    if (value_shape(index) != Shape(DType::kI32, {})) {
      fail_invalid("kernel {}: the index map of '{}' returns {}, not i32",
                   name_, info.name, value_shape(index).to_string());
    }
  }
  return add_ref(std::move(info));
}

Ref Kernel::input(std::string name, Shape array, Dims block,
                  const IndexMap& map) {
  return window(RefKind::kInput, std::move(name), std::move(array),
                std::move(block), map);
}

Ref Kernel::output(std::string name, Shape array, Dims block,
                   const IndexMap& map) {
  return window(RefKind::kOutput, std::move(name), std::move(array),
                std::move(block), map);
}

void Kernel::alias(Ref output, Ref input) {
  RefInfo& to = refs_.at(static_cast<std::size_t>(output.id));
  const RefInfo& from = ref(input.id);
  if (to.kind != RefKind::kOutput || from.kind != RefKind::kInput ||
      to.array != from.array || to.block != from.block || to.alias >= 0) {
    fail_invalid("kernel {}: output '{}' {} cannot take over '{}' {}", name_,
                 to.name, to.array.to_string(), from.name,
                 from.array.to_string());
  }
  to.alias = input.id;
}

Ref Kernel::scratch(std::string name, Shape shape) {
  if (shape.dims.size() < 2) {
    fail_invalid("kernel {}: scratch '{}' of shape {} has less than rank 2",
                 name_, name, shape.to_string());
  }
  RefInfo info;
  info.kind = RefKind::kScratch;
  info.name = std::move(name);
  info.block = shape.dims;
  info.array = std::move(shape);
  return add_ref(std::move(info));
}

RegionId Kernel::grid_region(const std::function<Values(const Values&)>& body) {
  if (walk_steps_ == 0) {
    fail_invalid("kernel {}: a body is declared before the walk", name_);
  }
  const std::vector<Shape> ids(static_cast<std::size_t>(grid_rank()),
                               Shape(DType::kI32, {}));
  const RegionId saved = current_;
  current_ = -1;
  const RegionId id = open_region(ids);
  close_region(body(region_arguments(id)));
  current_ = saved;
  return id;
}

void Kernel::begin(const Predicate& when, const Body& body) {
  begin_when_ = grid_region([&](const Values& g) { return Values{when(g)}; });
  begin_ = grid_region([&](const Values& g) {
    body(g);
    return Values{};
  });
}

void Kernel::step(const Body& body) {
  step_ = grid_region([&](const Values& g) {
    body(g);
    return Values{};
  });
}

void Kernel::end(const Predicate& when, const Body& body) {
  end_when_ = grid_region([&](const Values& g) { return Values{when(g)}; });
  end_ = grid_region([&](const Values& g) {
    body(g);
    return Values{};
  });
}

std::int64_t Kernel::vmem_bytes() const {
  std::int64_t bytes = 0;
  for (const RefInfo& info : refs_) {
    if (info.kind == RefKind::kPrefetch) continue;
    const std::int64_t one = padded_bytes(info.window());
    const bool moves =
        info.kind != RefKind::kScratch && info.block != info.array.dims;
    bytes += moves ? 2 * one : one;
  }
  return bytes;
}

Value Kernel::add(Node node, Shape shape) {
  const NodeId id = add_node(std::move(node), {std::move(shape)});
  return Value{this, nodes_[static_cast<std::size_t>(id)].results[0]};
}

NodeId Kernel::add_node(Node node, const std::vector<Shape>& results) {
  if (current_ < 0) {
    fail_invalid("kernel {}: an op outside of any body", name_);
  }
  for (const std::int32_t operand : node.operands) {
    check_visible(Value{this, operand});
  }
  for (const Shape& shape : results) {
    node.results.push_back(static_cast<std::int32_t>(shapes_.size()));
    shapes_.push_back(shape);
    region_of_value_.push_back(current_);
  }
  const auto id = static_cast<NodeId>(nodes_.size());
  nodes_.push_back(std::move(node));
  regions_[static_cast<std::size_t>(current_)].nodes.push_back(id);
  return id;
}

RegionId Kernel::open_region(const std::vector<Shape>& arguments) {
  const auto id = static_cast<RegionId>(regions_.size());
  Region opened;
  opened.parent = current_;
  for (const Shape& shape : arguments) {
    opened.arguments.push_back(static_cast<std::int32_t>(shapes_.size()));
    shapes_.push_back(shape);
    region_of_value_.push_back(id);
  }
  regions_.push_back(std::move(opened));
  current_ = id;
  return id;
}

void Kernel::close_region(const Values& yields) {
  Region& open = regions_[static_cast<std::size_t>(current_)];
  for (const Value value : yields) {
    check_visible(value);
    open.yields.push_back(value.id);
  }
  current_ = open.parent;
}

Values Kernel::region_arguments(RegionId id) {
  Values values;
  for (const std::int32_t value : region(id).arguments) {
    values.push_back(Value{this, value});
  }
  return values;
}

void Kernel::check_visible(Value value) const {
  if (value.kernel != this) {
    fail_invalid("kernel {}: a value of another kernel", name_);
  }
  const RegionId home = region_of_value_[static_cast<std::size_t>(value.id)];
  for (RegionId id = current_; id >= 0; id = region(id).parent) {
    if (id == home) return;
  }
  fail_invalid(
      "kernel {}: a value of type {} is used outside of the region that made "
      "it",
      name_, value.shape().to_string());
}

std::vector<RefId> Kernel::refs_of(RefKind kind) const {
  std::vector<RefId> ids;
  for (std::size_t i = 0; i < refs_.size(); ++i) {
    if (refs_[i].kind == kind) ids.push_back(static_cast<RefId>(i));
  }
  return ids;
}

std::vector<RefId> Kernel::stored_refs(RegionId id) const {
  std::set<RefId> stored;
  for (const NodeId n : region(id).nodes) {
    if (node(n).op == Op::kStore) stored.insert(node(n).ref);
    for (const RegionId inner : node(n).regions) {
      const std::vector<RefId> more = stored_refs(inner);
      stored.insert(more.begin(), more.end());
    }
  }
  return {stored.begin(), stored.end()};
}

void Kernel::check_complete() const {
  if (step_ < 0 || refs_of(RefKind::kOutput).empty()) {
    fail_invalid("kernel {}: it has no {}", name_,
                 step_ < 0 ? "step" : "output");
  }
  for (const RegionId when : {begin_when_, end_when_}) {
    if (when >= 0 &&
        value_shape(region(when).yields.at(0)) != Shape(DType::kBool, {})) {
      fail_invalid("kernel {}: begin and end ask for a bool scalar", name_);
    }
  }
}

}  // namespace ringmax::kernel

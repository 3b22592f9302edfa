#include "ringmax/data/reorder.h"

#include <utility>

#include "ringmax/base/error.h"

namespace ringmax::data {
namespace {

template <typename T>
HostArray permuted(const HostArray& rows, std::span<const std::int64_t> order) {
  HostArray result(rows.shape());
  const auto from = rows.data<T>();
  const auto to = result.template data<T>();
  const std::size_t length = order.size();
  for (std::size_t row = 0; row < from.size(); row += length) {
    for (std::size_t i = 0; i < length; ++i) {
      to[row + i] = from[row + static_cast<std::size_t>(order[i])];
    }
  }
  return result;
}

class Reordered : public Dataset {
 public:
  Reordered(std::shared_ptr<const Dataset> dataset,
            std::vector<std::int64_t> order)
      : dataset_(std::move(dataset)), order_(std::move(order)) {}

  Batch batch(std::int64_t step, RowRange rows) const override {
    const Batch in_order = dataset_->batch(step, rows);
    RINGMAX_CHECK(in_order.tokens.shape().dims[1] == std::ssize(order_));
    return {permuted<std::int32_t>(in_order.tokens, order_),
            permuted<std::int32_t>(in_order.targets, order_),
            permuted<std::int32_t>(in_order.positions, order_),
            permuted<std::int32_t>(in_order.segment_ids, order_),
            permuted<float>(in_order.weights, order_)};
  }
  std::int64_t vocab_size() const override { return dataset_->vocab_size(); }
  std::string describe() const override { return dataset_->describe(); }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::vector<std::int64_t> order_;
};

}  // namespace

std::shared_ptr<const Dataset> reorder(std::shared_ptr<const Dataset> dataset,
                                       std::vector<std::int64_t> order) {
  std::vector<bool> seen(order.size());
  for (const std::int64_t place : order) {
    const bool fits = place >= 0 && place < std::ssize(order);
    if (!fits || seen[static_cast<std::size_t>(place)]) {
      fail_invalid("an order of {} slots is no permutation: {} {}",
                   order.size(), place,
                   fits ? "stands in it twice" : "is out of range");
    }
    seen[static_cast<std::size_t>(place)] = true;
  }
  return std::make_shared<Reordered>(std::move(dataset), std::move(order));
}

}  // namespace ringmax::data
